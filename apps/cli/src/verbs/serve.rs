//! `flashlab serve`: serves a simulated device as a live disk.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_base::{Bytes, Nanos, Seed, SimulatedTarget, Target};
use flashlab_export::fuse::FuseMount;
use flashlab_export::ublk::Ublk;
use flashlab_export::{LiveDisk, LoopDevice, Setup, calibrate_lead};
use flashlab_host::keep_in_memory;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::{self, CapacityOption};
use crate::caretaker::Caretaker;
use crate::daemon::Background;
use crate::exit::Usage;
use crate::nbd::{self, Served};
use crate::output;
use crate::served_paths::advice_on_directory;
use crate::transport_latency;

/// Serve a simulated device as a live disk
#[derive(Args)]
pub struct Serve {
    /// sim:NAME[@STATE] or sim:./profile.toml[@STATE]
    target: Target,
    #[command(flatten)]
    capacity: CapacityOption,
    #[command(flatten)]
    front: Front,
    /// Take over the block device /dev/ublkbN, whose server was killed; give the same --backing again
    #[arg(long, value_name = "N", requires = "ublk")]
    recover: Option<u32>,
    /// Keep the data in this file, which is made if it does not exist, and the device's state next to it; in memory if
    /// not given
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// Consent to writing to a backing file that flashlab did not make
    #[arg(long, requires = "backing")]
    overwrite_file: bool,
    /// Keep no data: reads return zeroes, and only the times are real
    #[arg(long, conflicts_with = "backing")]
    no_data: bool,
    /// The most that a power loss takes back of what was written and not flushed
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, default_value = "64MiB", allow_negative_numbers = true)]
    volatile_cache: Bytes,
    /// Record every read and write as a sample into this new folder
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Serve metrics for Prometheus on this port of this machine; 0 takes a free one
    #[arg(long, value_name = "PORT")]
    metrics: Option<u16>,
    /// Where the control socket is made, for flashlab live; in a temporary directory if not given
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// What goes wrong from the start: KIND[,KEY=VALUE]..., as error,on=write,share=0.01 (see docs/serve.md); may be
    /// repeated
    #[arg(long, value_name = "FAULT")]
    fault: Vec<String>,
    /// The seed of faults that bring none of their own
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
    seed: Seed,
    #[command(flatten)]
    background: Background,
    /// Print one line of JSON when the disk is ready
    #[arg(long)]
    json: bool,
}

impl Serve {
    /// Serves the device until a signal comes.
    pub fn run(self) -> Result<()> {
        match &self.target {
            Target::Simulated(target) => self.background.or_serve(|| serve_target(&self, target)),
            Target::Path(path) => bail!(Usage(format!(
                "{path} is no simulated device: give sim:NAME (`flashlab sim list` names them)"
            ))),
        }
    }
}

fn serve_target(arguments: &Serve, target: &SimulatedTarget) -> Result<()> {
    arguments.front.check()?;
    // Before anything is created that a signal would leave behind.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let mut caretaker = Caretaker::start()?;
    let control = arguments.control.clone().unwrap_or_else(|| caretaker.directory().join("control"));
    let keys = keys(arguments, target, &control)?;
    let setup = Setup::from_keys(keys.iter().map(|(key, value)| (*key, value.as_str())))?;
    if let Some(socket) = arguments.front.nbd() {
        setup.check()?;
        return nbd::serve(socket, Served::Device(&keys), &mut signals, |path| {
            ready(arguments.json, path, Some(&control))
        });
    }
    // A block device may become swap space, and the threads inherit these settings.
    let is_block_device = arguments.front.is_block_device();
    let swap_risks = if is_block_device { keep_in_memory() } else { Vec::new() };
    let session = setup.start()?;
    session.notices.iter().for_each(|notice| tell!("{notice}"));
    let transport = Transport::open(&arguments.front, arguments.recover, &session.disk, &mut caretaker)?;
    match arguments.recover {
        // Programs already use it, so nothing may be measured with their IOs.
        Some(_) => tell!(
            "the transport latency is not subtracted from response times: it cannot be measured while programs use the disk"
        ),
        None => {
            let latency = transport_latency::measure(&session.disk, &transport.path())?;
            session.disk.set_transport_latency(latency);
            tell!(
                "transport latency of a 4 KiB read: {:.0} us; an IO that the model completes faster is answered at \
                 once and counted",
                latency.read.of(flashlab_base::Bytes::kib(4)).0 as f64 / 1e3
            );
        }
    }
    ready(arguments.json, &transport.path(), session.control())?;
    let taken = transport.wait(&mut signals, &swap_risks);
    let closed = transport.close(&mut signals);
    session.stop()?;
    closed.and(taken)
}

/// The disk and how to serve it, as keys for [`Setup::from_keys`].
fn keys(arguments: &Serve, target: &SimulatedTarget, control: &Path) -> Result<Vec<(&'static str, String)>> {
    let path = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| Usage(format!("{}: the path is no text in UTF-8", path.display())))
    };
    let mut keys = vec![("target", target.to_string()), ("control", path(control)?)];
    for (key, file) in [("backing", &arguments.backing), ("record", &arguments.output)] {
        if let Some(file) = file {
            keys.push((key, path(file)?));
        }
    }
    keys.extend(arguments.capacity.capacity.map(|size| ("size", size.0.to_string())));
    keys.push(("volatile-cache", arguments.volatile_cache.0.to_string()));
    keys.push(("overwrite-file", arguments.overwrite_file.to_string()));
    keys.push(("no-data", arguments.no_data.to_string()));
    keys.push(("seed", arguments.seed.0.to_string()));
    keys.extend(arguments.metrics.map(|port| ("metrics", port.to_string())));
    keys.extend(arguments.fault.iter().map(|fault| ("fault", fault.clone())));
    Ok(keys)
}

/// How programs shall reach the disk.
#[derive(Args)]
pub struct Front {
    /// As a loop block device with direct IO
    #[arg(long = "loop")]
    loop_device: bool,
    /// As the file DIR/disk, through FUSE
    #[arg(long, value_name = "DIR")]
    fuse: Option<PathBuf>,
    /// As a block device of the kernel's driver ublk
    #[arg(long, conflicts_with_all = ["fuse", "loop_device", "nbd"])]
    ublk: bool,
    /// To NBD clients at this Unix socket, through nbdkit
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["fuse", "loop_device"])]
    nbd: Option<PathBuf>,
}

impl Front {
    /// # Errors
    /// If none was chosen.
    pub fn check(&self) -> Result<()> {
        if self.fuse.is_none() && !self.is_block_device() && self.nbd.is_none() {
            bail!(Usage(
                "how shall programs reach the disk? Give --loop or --ublk for a block device, --fuse DIR or --nbd SOCKET"
                    .to_owned()
            ));
        }
        Ok(())
    }

    /// Whether programs get a block device.
    fn is_block_device(&self) -> bool {
        self.loop_device || self.ublk
    }

    /// The socket for NBD clients.
    pub fn nbd(&self) -> Option<&Path> {
        self.nbd.as_deref()
    }
}

/// How programs reach the disk.
pub enum Transport {
    /// The fields are dropped in this order: a device on top of another one first.
    Files {
        loop_device: Option<LoopDevice>,
        mount: FuseMount,
    },
    Ublk(Ublk),
}

impl Transport {
    /// Opens the transport to a disk. With `recover`, takes over the ublk device of that number, whose server was
    /// killed.
    pub fn open(
        front: &Front,
        recover: Option<u32>,
        disk: &Arc<LiveDisk>,
        caretaker: &mut Caretaker,
    ) -> Result<Transport> {
        let lead = calibrate_lead(disk.clock());
        if front.ublk {
            let ublk = Ublk::start(disk, lead, recover);
            return ublk.map(Transport::Ublk).map_err(|error| no_ublk(error, recover));
        }
        let directory = match &front.fuse {
            Some(directory) => empty(directory)?,
            None => make_mount_point(caretaker.directory())?,
        };
        caretaker.will_mount(&directory)?;
        let mount = mount(disk, &directory, lead)?;
        let loop_device = front.loop_device.then(|| {
            LoopDevice::attach(&mount.file(), disk.geometry().block).with_context(|| {
                format!(
                    "cannot put a loop device over {}: it needs root, and a free loop device",
                    mount.file().display()
                )
            })
        });
        Ok(Transport::Files { loop_device: loop_device.transpose()?, mount })
    }

    /// Waits for the first signal. If another program removes the disk, that is an error. If the disk becomes
    /// swap space, prints what makes that unsafe.
    pub fn wait(&self, signals: &mut Signals, swap_risks: &[String]) -> Result<()> {
        let mut is_told = swap_risks.is_empty();
        const LOOK: Duration = Duration::from_millis(50);
        const LOOKS_FOR_SIGNALS: u32 = 10;
        loop {
            for _ in 0..LOOKS_FOR_SIGNALS {
                if signals.pending().next().is_some() {
                    return Ok(());
                }
                std::thread::sleep(LOOK);
            }
            if !is_told && is_swap_space(&self.path()) {
                is_told = true;
                tell!("swap space on this disk is not safe: {}", swap_risks.join("; "));
            }
            if let Transport::Files { loop_device, mount } = self {
                let path = self.path();
                if loop_device.as_ref().is_some_and(|device| !device.is_attached()) {
                    bail!("{} was detached by another program: the disk is no longer served", path.display());
                }
                if !mount.is_mounted() {
                    bail!(
                        "{} was unmounted by another program: the disk is no longer served",
                        path.display()
                    );
                }
            }
        }
    }

    /// The path of the disk.
    pub fn path(&self) -> PathBuf {
        match self {
            Transport::Files { loop_device: Some(device), .. } => device.path().to_owned(),
            Transport::Files { loop_device: None, mount } => mount.file(),
            Transport::Ublk(ublk) => ublk.path(),
        }
    }

    /// Removes everything as soon as no program uses the disk. A second signal does not wait for the
    /// programs.
    pub fn close(self, signals: &mut Signals) -> Result<()> {
        let path = self.path().display().to_string();
        let mut transport = self;
        let mut told = false;
        while !transport.try_end().with_context(|| format!("cannot remove {path}"))? {
            if signals.pending().next().is_some() {
                transport.abandon();
                bail!(
                    "{path} was in use: what its users have not flushed is lost; unmount what is mounted on it"
                );
            }
            if !told {
                tell!(
                    "{path} is in use: it is served until it is unmounted and the last program has closed it; a second \
                     signal ends it at once, and what is not flushed is lost"
                );
                told = true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Removes the disk and returns true, if no program uses it. Devices on top of others are removed first.
    fn try_end(&mut self) -> Result<bool> {
        match self {
            Transport::Files { loop_device: Some(device), .. } if !device.try_detach()? => Ok(false),
            Transport::Files { mount, .. } => Ok(mount.try_end()?),
            Transport::Ublk(ublk) => Ok(ublk.try_end()?),
        }
    }

    /// Takes it away from its users.
    fn abandon(self) {
        match self {
            Transport::Files { loop_device, mount } => {
                mount.abandon();
                // Programs still use it. The kernel detaches it when they close it.
                if let Some(device) = loop_device {
                    std::mem::forget(device);
                }
            }
            // What cannot be stopped now ends with this process.
            Transport::Ublk(ublk) => drop(ublk.end()),
        }
    }
}

/// Whether the kernel swaps to this device.
fn is_swap_space(device: &Path) -> bool {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .any(|name| Path::new(name) == device)
}

fn no_ublk(error: std::io::Error, recover: Option<u32>) -> anyhow::Error {
    use std::io::ErrorKind::{NotFound, PermissionDenied, ResourceBusy};
    match (error.kind(), recover) {
        (NotFound, None) => Usage(
            "there is no /dev/ublk-control: load the driver with `modprobe ublk_drv` (Linux 6.0 or later), or serve \
             with --loop"
                .to_owned(),
        )
        .into(),
        (PermissionDenied, _) => anyhow::Error::new(error).context("ublk needs root; --fuse and --nbd do not"),
        (ResourceBusy, Some(number)) => {
            Usage(format!("the server of /dev/ublkb{number} still lives: end it first")).into()
        }
        (_, Some(number)) => anyhow::Error::new(error).context(format!(
            "cannot take over /dev/ublkb{number}: is that the device of a flashlab that was killed?"
        )),
        _ => anyhow::Error::new(error).context("the kernel makes no block device of ublk"),
    }
}

/// Refuses a directory whose files or mounts the new mount would hide.
pub fn empty(directory: &Path) -> Result<PathBuf> {
    let name = directory.display();
    let mut entries = std::fs::read_dir(directory).map_err(|error| {
        let advice = advice_on_directory(&error);
        Usage(format!("cannot mount on {name}: {error}; give an empty directory{advice}"))
    })?;
    if entries.next().is_some() {
        bail!(Usage(format!("cannot mount on {name}: it is not empty, or a disk is mounted there already")));
    }
    directory.canonicalize().with_context(|| format!("cannot tell where {name} is"))
}

fn make_mount_point(own: &Path) -> Result<PathBuf> {
    let directory = own.join("mount");
    std::fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    directory.canonicalize().with_context(|| format!("cannot tell where {} is", directory.display()))
}

fn mount(disk: &Arc<LiveDisk>, directory: &Path, lead: Nanos) -> Result<FuseMount> {
    FuseMount::new(Arc::clone(disk), directory, lead).with_context(|| {
        format!(
            "cannot mount on {}: it has to be a directory of yours, and FUSE needs /dev/fuse and root or the program \
             fusermount3",
            directory.display()
        )
    })
}

#[derive(Serialize)]
struct Ready<'a> {
    path: &'a Path,
    control: Option<&'a Path>,
}

/// Prints where the disk is.
pub fn ready(json: bool, path: &Path, control: Option<&Path>) -> Result<()> {
    match json {
        true => output::text(&format!("{}\n", serde_json::to_string(&Ready { path, control })?)),
        false => {
            let control = control.map_or(String::new(), |control| format!("  control {}", control.display()));
            output::text(&format!("{}{control}\n", path.display()))
        }
    }
}
