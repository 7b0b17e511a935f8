//! `flashlab serve`: a simulated device as a live disk, or a word to one that runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use flashlab_base::Nanos;
use flashlab_export::fuse::Mount;
use flashlab_export::{Fault, Keep, LiveDisk, LoopDevice, RecordTo, Session, Setup, calibrate_lead, measure};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args;
use crate::exit::Usage;
use crate::output;
use crate::served;
use crate::target::Simulation;

/// `flashlab serve`.
pub fn serve(arguments: args::Serve) -> Result<()> {
    match (&arguments.target, &arguments.control) {
        (None, Some(control)) => served::ask(&arguments, control),
        (None, None) => {
            bail!(Usage("give a TARGET to serve, or --control SOCKET of a running server".to_owned()))
        }
        (Some(target), _) => serve_target(&arguments, target),
    }
}

fn serve_target(arguments: &args::Serve, target: &str) -> Result<()> {
    if arguments.fuse.is_none() && !arguments.loop_device {
        bail!(Usage(
            "how shall programs reach the disk? Give --loop for a block device, or --fuse DIR".to_owned()
        ));
    }
    // Before anything is made that a signal would leave behind.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let place = Place::new()?;
    let control = arguments.control.clone().unwrap_or_else(|| place.directory.join("control"));
    let session = setup(arguments, target, control)?.begin()?;
    session.notices.iter().for_each(|notice| tell!("{notice}"));
    let ways = Ways::open(arguments, &session, &place)?;
    let overhead = measure(&session.disk, ways.path()).context("cannot measure the way to the disk")?;
    session.disk.set_overhead(overhead);
    tell!(
        "an IO of 4 KiB costs {:.0} us on its way to the program: IOs that the model has faster are answered at once, \
         and counted",
        overhead.read.of(flashlab_base::Bytes::kib(4)).0 as f64 / 1e3
    );
    ready(arguments.json, ways.path(), session.control())?;
    signals.forever().next();
    ways.close()?;
    session.end()?;
    Ok(())
}

fn setup(arguments: &args::Serve, target: &str, control: PathBuf) -> Result<Setup> {
    let Some(Simulation { mut profile, state }) = Simulation::of(target)? else {
        bail!(Usage(format!(
            "{target} is no simulated device: give sim:NAME (`flashlab sim list` names them)"
        )));
    };
    if let Some(size) = arguments.size {
        profile = profile.resized(size)?;
    }
    let state = state.map(|file| {
        let read = std::fs::read(&file);
        read.map_err(|error| Usage(format!("cannot read the state {}: {error}", file.display())))
    });
    let keep = match (&arguments.backing, arguments.no_data) {
        (Some(path), _) => Keep::File { path: path.clone(), foreign: arguments.overwrite_file },
        (None, true) => Keep::Nothing,
        (None, false) => Keep::Memory,
    };
    let faults = arguments.fault.iter().map(|fault| fault.parse::<Fault>());
    let faults = faults.collect::<Result<_, _>>().map_err(|error| Usage(error.to_string()))?;
    let record = arguments.record.as_ref().map(|folder| RecordTo {
        folder: folder.clone(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    });
    Ok(Setup {
        profile,
        state: state.transpose()?,
        keep,
        volatile: arguments.volatile_cache,
        faults,
        control: Some(control),
        metrics: arguments.metrics,
        record,
    })
}

/// A directory of the server's own, for the control socket and a mount that nobody named.
struct Place {
    directory: PathBuf,
}

impl Place {
    fn new() -> Result<Place> {
        let directory = std::env::temp_dir().join(format!("flashlab-{}", std::process::id()));
        std::fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Place { directory })
    }

    fn mount_point(&self) -> Result<PathBuf> {
        let directory = self.directory.join("mount");
        std::fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(directory)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is not empty stays: it is not ours to delete.
        let _ = std::fs::remove_dir(self.directory.join("mount"));
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// The ways in which programs reach the disk; the later stand on the earlier, and are dropped before them.
struct Ways {
    loop_device: Option<LoopDevice>,
    mount: Mount,
}

impl Ways {
    fn open(arguments: &args::Serve, session: &Session, place: &Place) -> Result<Ways> {
        let disk = &session.disk;
        let directory = match &arguments.fuse {
            Some(directory) => empty(directory)?,
            None => place.mount_point()?,
        };
        let mount = mount(disk, &directory, calibrate_lead(disk.clock()))?;
        let loop_device = arguments.loop_device.then(|| {
            LoopDevice::attach(mount.file(), disk.geometry().block).with_context(|| {
                format!(
                    "cannot put a loop device over {}: it needs root, and a free loop device",
                    mount.file().display()
                )
            })
        });
        Ok(Ways { loop_device: loop_device.transpose()?, mount })
    }

    fn path(&self) -> &Path {
        self.loop_device.as_ref().map_or(self.mount.file(), LoopDevice::path)
    }

    fn close(self) -> Result<()> {
        let Ways { loop_device, mount } = self;
        if let Some(device) = loop_device {
            let path = device.path().to_owned();
            device.detach().with_context(|| format!("cannot detach {}", path.display()))?;
        }
        let file = mount.file().to_owned();
        mount.end().with_context(|| format!("cannot unmount {}", file.display()))
    }
}

/// Refuses a directory whose files, or whose mounted disk, would be hidden.
fn empty(directory: &Path) -> Result<PathBuf> {
    let name = directory.display();
    let mut entries = std::fs::read_dir(directory).map_err(|error| {
        Usage(format!("cannot mount on {name}: {error}; give an empty directory to --fuse"))
    })?;
    if entries.next().is_some() {
        bail!(Usage(format!("cannot mount on {name}: it is not empty, or a disk is mounted there already")));
    }
    Ok(directory.to_owned())
}

fn mount(disk: &Arc<LiveDisk>, directory: &Path, lead: Nanos) -> Result<Mount> {
    Mount::new(Arc::clone(disk), directory, lead).with_context(|| {
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

fn ready(json: bool, path: &Path, control: Option<&Path>) -> Result<()> {
    match json {
        true => output::text(&format!("{}\n", serde_json::to_string(&Ready { path, control })?)),
        false => {
            let control = control.map_or(String::new(), |control| format!("  control {}", control.display()));
            output::text(&format!("{}{control}\n", path.display()))
        }
    }
}
