//! `flashlab repair serve`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_base::Bytes;
use flashlab_device::{Device, IoError, Wrapper};
use flashlab_export::{ControlServer, LiveDisk, ServedDevice};
use flashlab_repair::{MountOptions, RepairError, Volume};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::opened;
use super::served_status::ServedVolumeStatus;
use crate::arguments;
use crate::caretaker::Caretaker;
use crate::daemon;
use crate::exit::Usage;
use crate::verbs::serve::{Front, Transport, ready};

/// Serve a volume as a block device or a file, until a signal comes
#[derive(Args)]
pub struct ServeVolume {
    /// A block device, or a regular file
    volume: PathBuf,
    /// As a loop block device with direct IO
    #[arg(long = "loop")]
    loop_device: bool,
    /// As the file DIR/disk, through FUSE
    #[arg(long, value_name = "DIR")]
    fuse: Option<PathBuf>,
    /// As a block device of the kernel's driver ublk
    #[arg(long, conflicts_with_all = ["fuse", "loop_device"])]
    ublk: bool,
    /// The most memory that the map may take
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    memory_max: Option<Bytes>,
    /// The most that is discarded on the device each second, of segments that are free
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, default_value = "256MiB", conflicts_with = "no_discard")]
    discard_rate: Bytes,
    /// Discard nothing on the device
    #[arg(long)]
    no_discard: bool,
    /// Where the control socket is made, for flashlab live; in a temporary directory if not given
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Return when the disk is ready; the server goes on until flashlab live stop ends it
    #[arg(long)]
    daemon: bool,
    /// Where the server's messages go with --daemon; a file in the temporary directory if not given
    #[arg(long, value_name = "FILE", requires = "daemon")]
    log: Option<PathBuf>,
    /// Print one line of JSON when the disk is ready
    #[arg(long)]
    json: bool,
}

/// A volume as what a live disk serves.
struct ServedVolume(Volume<Box<dyn Device + Send>>);

impl Wrapper for ServedVolume {
    type Inner = Volume<Box<dyn Device + Send>>;

    fn inner(&self) -> &Self::Inner {
        &self.0
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut self.0
    }
}

impl ServedDevice for ServedVolume {
    fn is_in_wall_time(&self) -> bool {
        true
    }

    fn details(&self) -> Option<serde_json::Value> {
        serde_json::to_value(ServedVolumeStatus::of(&self.0)).ok()
    }

    fn work_while_idle(&mut self) -> bool {
        self.0.work_while_idle()
    }

    fn shut_down(&mut self) -> Result<(), IoError> {
        let finished = self.0.finish();
        if let Err(error) = &finished {
            tell!("the volume was not closed in order: {error}");
        }
        finished.map_err(|error: RepairError| error.io_error())
    }
}

impl ServeVolume {
    /// Serves the volume until a signal comes.
    pub fn run(self) -> Result<()> {
        if self.daemon {
            return daemon::start(self.log.as_deref());
        }
        if self.fuse.is_none() && !self.loop_device && !self.ublk {
            bail!(Usage(
                "how shall programs reach the disk? Give --loop or --ublk for a block device, or --fuse DIR"
                    .to_owned()
            ));
        }
        // Before anything is made that a signal would leave behind.
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
        let mut caretaker = Caretaker::start()?;
        let disk = Arc::new(LiveDisk::new(Box::new(ServedVolume(self.open()?)), None));
        let control = self.control.clone().unwrap_or_else(|| caretaker.directory().join("control"));
        let server = ControlServer::listen(&control, Arc::clone(&disk))
            .with_context(|| format!("cannot make the control socket {}", control.display()))?;
        let front = Front {
            loop_device: self.loop_device,
            fuse: self.fuse.as_deref(),
            ublk: self.ublk,
            recover: None,
        };
        let transport = Transport::open(&front, &disk, &mut caretaker)?;
        let ends = AtomicBool::new(false);
        let served = std::thread::scope(|scope| {
            scope.spawn(|| work_while_idle(&disk, &ends));
            let served = ready(self.json, &transport.path(), Some(&control))
                .and_then(|()| transport.wait(&mut signals, &[]));
            ends.store(true, Ordering::Relaxed);
            served
        });
        let closed = transport.close(&mut signals);
        drop(server);
        let finished =
            disk.shut_down().context("the volume was not closed in order; the next mount recovers it");
        closed.and(served).and(finished)
    }

    fn open(&self) -> Result<Volume<Box<dyn Device + Send>>> {
        let device = opened::with_volume(&self.volume)?;
        let discard_rate = if self.no_discard { Bytes::ZERO } else { self.discard_rate };
        let mut options = MountOptions::default();
        (options.memory_max, options.discard_rate) = (self.memory_max, discard_rate);
        let volume = Volume::open(device, options, |layout| {
            flashlab_repair::default_policy(layout.segment_count, layout.spare_segments())
        })?;
        if volume.replayed_records() > 0 {
            tell!("the volume was not closed in order: {} records were replayed", volume.replayed_records());
        }
        Ok(volume)
    }
}

/// Packs and discards between the host's IOs.
fn work_while_idle(disk: &LiveDisk, ends: &AtomicBool) {
    const PAUSE: Duration = Duration::from_millis(20);
    while !ends.load(Ordering::Relaxed) {
        if !disk.work_while_idle() {
            std::thread::sleep(PAUSE);
        }
    }
}
