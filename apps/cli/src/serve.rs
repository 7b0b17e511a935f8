//! `flashlab serve`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use flashlab_base::Nanos;
use flashlab_export::fuse::Mount;
use flashlab_export::{Fault, Keep, LiveDisk, LoopDevice, Session, Setup, calibrate_lead, measure};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args;
use crate::exit::Usage;
use crate::output;
use crate::target::Simulation;

/// `flashlab serve`.
pub fn serve(arguments: args::Serve) -> Result<()> {
    let setup = setup(&arguments)?;
    // Before anything is made that a signal would leave behind.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let session = setup.begin()?;
    session.notices.iter().for_each(|notice| tell!("{notice}"));
    let ways = Ways::open(&arguments, &session)?;
    let overhead = measure(&session.disk, ways.path()).context("cannot measure the way to the disk")?;
    session.disk.set_overhead(overhead);
    ready(&arguments, &ways)?;
    signals.forever().next();
    ways.close()?;
    session.end()?;
    Ok(())
}

fn setup(arguments: &args::Serve) -> Result<Setup> {
    let target = &arguments.target;
    let Some(Simulation { mut profile, state }) = Simulation::of(target)? else {
        bail!(Usage(format!(
            "{target} is no simulated device: give sim:NAME (`flashlab sim list` names them)"
        )));
    };
    if let Some(size) = arguments.size {
        profile.capacity = size;
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
    Ok(Setup { profile, state: state.transpose()?, keep, volatile: arguments.volatile_cache, faults })
}

/// The ways in which programs reach the disk; the last was made last.
struct Ways {
    mount: Option<Mount>,
    loop_device: Option<LoopDevice>,
    /// A directory that was made for the mount.
    made: Option<PathBuf>,
}

impl Ways {
    fn open(arguments: &args::Serve, session: &Session) -> Result<Ways> {
        let disk = &session.disk;
        let lead = calibrate_lead(disk.clock());
        let mut ways = Ways { mount: None, loop_device: None, made: None };
        if arguments.fuse.is_none() && !arguments.loop_device {
            bail!(Usage(
                "how shall programs reach the disk? Give --loop, --fuse DIR, --nbd SOCKET or --ublk"
                    .to_owned()
            ));
        }
        let directory = match &arguments.fuse {
            Some(directory) => directory.clone(),
            None => ways.made.insert(own_directory()?).clone(),
        };
        let file = ways.mount.insert(mount(disk, &directory, lead)?).file().to_owned();
        if arguments.loop_device {
            let attached = LoopDevice::attach(&file, disk.geometry().block);
            ways.loop_device = Some(attached.with_context(|| {
                format!(
                    "cannot put a loop device over {}: it needs root, and a free /dev/loopN",
                    file.display()
                )
            })?);
        }
        Ok(ways)
    }

    fn path(&self) -> &Path {
        match (&self.loop_device, &self.mount) {
            (Some(device), _) => device.path(),
            (None, Some(mount)) => mount.file(),
            (None, None) => Path::new(""),
        }
    }

    fn close(mut self) -> Result<()> {
        if let Some(device) = self.loop_device.take() {
            let path = device.path().to_owned();
            device.detach().with_context(|| format!("cannot detach {}", path.display()))?;
        }
        if let Some(mount) = self.mount.take() {
            let file = mount.file().to_owned();
            mount.end().with_context(|| format!("cannot unmount {}", file.display()))?;
        }
        Ok(())
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        // In this order: the loop device stands on the mount, and the mount on the directory.
        self.loop_device = None;
        self.mount = None;
        if let Some(directory) = &self.made {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

fn own_directory() -> Result<PathBuf> {
    let directory = std::env::temp_dir().join(format!("flashlab-{}", std::process::id()));
    std::fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}

fn mount(disk: &Arc<LiveDisk>, directory: &Path, lead: Nanos) -> Result<Mount> {
    Mount::new(Arc::clone(disk), directory, lead).with_context(|| {
        format!(
            "cannot mount on {}: it has to be an empty directory of yours, and FUSE needs /dev/fuse and root or the \
             program fusermount3",
            directory.display()
        )
    })
}

#[derive(Serialize)]
struct Ready<'a> {
    path: &'a Path,
}

fn ready(arguments: &args::Serve, ways: &Ways) -> Result<()> {
    let path = ways.path();
    match arguments.json {
        true => output::text(&format!("{}\n", serde_json::to_string(&Ready { path })?)),
        false => output::text(&format!("{}\n", path.display())),
    }
}
