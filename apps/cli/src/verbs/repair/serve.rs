//! `flashlab repair serve`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_base::{Bytes, Identity};
use flashlab_device::{Device, Geometry, IoError, Operation};
use flashlab_export::{ConcurrentDevice, ControlServer, Data, LiveDisk};
use flashlab_repair::{Files, RepairError, SharedVolume, Volume};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::served_status::ServedVolumeStatus;
use super::volume_options::VolumeOptions;
use crate::caretaker::Caretaker;
use crate::daemon::Background;
use crate::exit::Refused;
use crate::nbd::{self, Served};
use crate::served_paths::{check_control, no_control_socket};
use crate::verbs::serve::{Front, Transport, ready};

/// Serve a volume as a block device or a file, until a signal comes
#[derive(Args)]
pub struct ServeVolume {
    /// A block device, or a regular file
    volume: PathBuf,
    #[command(flatten)]
    front: Front,
    #[command(flatten)]
    options: VolumeOptions,
    /// Where the control socket is made, for flashlab live; in a temporary directory if not given
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    #[command(flatten)]
    background: Background,
    /// Print one line of JSON when the disk is ready
    #[arg(long)]
    json: bool,
}

type OpenVolume = Volume<Box<dyn Device + Send>>;
type Shared = SharedVolume<Box<dyn Device + Send>>;

/// A volume as what a live disk serves.
struct ServedVolume(Arc<Shared>);

impl ConcurrentDevice for ServedVolume {
    fn geometry(&self) -> Geometry {
        self.0.with(Device::geometry)
    }

    fn identity(&self) -> Identity {
        self.0.with(Device::identity)
    }

    fn serve(
        &self,
        operation: Operation,
        (offset, size): (Bytes, Bytes),
        data: &mut Data<'_>,
        acknowledge: &mut dyn FnMut(),
    ) -> Result<(), IoError> {
        let served = match (operation, data) {
            (Operation::Read, Data::Read(data)) => self.0.read(offset.0, data),
            (Operation::Write, Data::Write(data)) => self.0.write_acknowledging(offset.0, data, acknowledge),
            (Operation::Discard, _) => self.0.discard(offset.0, size.0),
            (Operation::Flush, _) => self.0.flush(),
            (Operation::Read | Operation::Write, _) => return Err(IoError::INVALID),
        };
        served.map_err(|error| error.io_error())
    }

    fn details(&self) -> Option<serde_json::Value> {
        serde_json::to_value(self.0.with(ServedVolumeStatus::of)).ok()
    }
}

impl ServeVolume {
    /// Serves the volume until a signal comes.
    pub fn run(self) -> Result<()> {
        check_control(self.control.as_deref())?;
        self.background.or_serve(|| self.serve())
    }

    fn serve(&self) -> Result<()> {
        self.front.check()?;
        // Before anything is made that a signal would leave behind.
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
        let volume = self.without_files(self.options.open(&self.volume)?)?;
        let volume = Arc::new(SharedVolume::new(volume));
        let served = self.serve_disk(&volume, &mut signals);
        // Also if it could not be served.
        let finished =
            volume.finish().context("the volume was not closed in order; the next mount recovers it");
        served.and(finished)
    }

    fn serve_disk(&self, volume: &Arc<Shared>, signals: &mut Signals) -> Result<()> {
        let mut caretaker = Caretaker::start()?;
        let disk = Arc::new(LiveDisk::concurrent(Box::new(ServedVolume(Arc::clone(volume)))));
        let control = self.control.clone().unwrap_or_else(|| caretaker.directory().join("control"));
        let server = ControlServer::listen(&control, disk.clone())
            .map_err(|error| no_control_socket(&control, &error))?;
        let transport = Transport::open(&self.front, None, &disk, &mut caretaker)?;
        let ends = AtomicBool::new(false);
        let served = std::thread::scope(|scope| {
            scope.spawn(|| work(volume, &ends));
            let ready = |path: &Path| ready(self.json, path, Some(&control));
            let served = match self.front.nbd() {
                Some(socket) => nbd::serve(socket, Served::File(&transport.path()), signals, ready),
                None => ready(&transport.path()).and_then(|()| transport.wait(signals, &[])),
            };
            ends.store(true, Ordering::Relaxed);
            served
        });
        let closed = transport.close(signals);
        drop(server);
        closed.and(served)
    }
}

impl ServeVolume {
    /// The volume, unless it carries files: who formats the disk would destroy them.
    fn without_files(&self, mut volume: OpenVolume) -> Result<OpenVolume> {
        if !Files::are_on(&mut volume)? {
            return Ok(volume);
        }
        let (name, uuid) = (self.volume.display(), volume.superblock().uuid.to_string());
        let carried = match closed_files(volume) {
            Ok((files, size)) => format!("{files} files and directories with {size}"),
            Err(error) => format!("files, which cannot be counted ({error}),"),
        };
        bail!(Refused(format!(
            "{name} carries {carried} of `flashlab repair mount`, and a disk that is formatted would lose them: use \
             `flashlab repair mount`, or serve another volume; to lose all of them, `flashlab repair erase {name} --uuid \
             {uuid}` and `flashlab repair create`"
        )))
    }
}

/// The number of the files of a volume, beside its root directory, and their size; the volume is closed in order.
fn closed_files(volume: OpenVolume) -> Result<(u64, Bytes), RepairError> {
    let mut files = Files::open(volume)?;
    let usage = files.usage();
    files.finish()?;
    Ok((usage.files.saturating_sub(1), Bytes(usage.total.0.saturating_sub(usage.free.0))))
}

/// Packs and discards between the host's IOs.
fn work(volume: &Shared, ends: &AtomicBool) {
    /// The time without a call after which the volume's own work goes on until the next call.
    const IDLE: Duration = Duration::from_millis(20);
    while !ends.load(Ordering::Relaxed) {
        let calls = volume.calls();
        std::thread::sleep(IDLE);
        volume.work(calls);
    }
}
