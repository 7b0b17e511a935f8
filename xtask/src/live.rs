//! Judges `infer` on live devices that are not flashlab's: a server written in C (`live/flash.c`), the wall clock, FUSE and
//! a loop device between.
//!
//! # Method
//! 1. Compile the server, start it, mount it with nbdfuse, and attach a loop device with direct IO.
//! 2. Infer the loop device as any block device, without its identity, and judge the answers.
//! 3. Detach, unmount, and end the processes that were started, also after an error.
//!
//! Two devices, each with 30, 100 and 300 us of jitter of the transport. It needs root, a C compiler, nbdfuse (package
//! libnbd-bin) and /dev/fuse. In virtual time ([`virtual_time`]) it needs the C compiler only.
//!
//! # Invariants
//! - Only the loop device that was attached here is written to.
//! - On the wall clock the machine has to be quiet, and no seed repeats the result.

mod virtual_time;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Nanos};
use flashlab_device::Device;
use flashlab_host::{IoEngine, OpenOptions, consent_by_flag, inspect};

use crate::hidden::Hidden;
use crate::score::{self, ProbeOutcome, TimeLimits};
use crate::truth::Truth;
use virtual_time::Served;

/// The devices, each with the jitter of its transport in microseconds, and its name.
const DEVICES: [(LiveModel, u64, &str); 6] = [
    (LiveModel::Stick, 30, "stick-30"),
    (LiveModel::Stick, 100, "stick-100"),
    (LiveModel::Stick, 300, "stick-300"),
    (LiveModel::Drive, 30, "drive-30"),
    (LiveModel::Drive, 100, "drive-100"),
    (LiveModel::Drive, 300, "drive-300"),
];
/// Requests in flight, as `flashlab infer` has at most on real devices.
const DEPTH: u32 = 32;
/// The longest that the device may need until it can be used.
const START_MOST: Duration = Duration::from_secs(20);
/// The limits of the probes: 256 MiB should take ten minutes, of which the reading probes have two. Eleven groups write, and few of them
/// need this much.
const LIMITS: TimeLimits =
    TimeLimits { reading: Some(Nanos::from_secs(120)), writing: Nanos::from_secs(120) };

/// The clock on which a live device is inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Behind NBD, FUSE and a loop device.
    Wall,
    /// The server computes when a request is done.
    Virtual,
}

/// The devices that the server makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveModel {
    /// Log blocks with one data block each, 64 MiB.
    Stick,
    /// A page map behind a volatile buffer of 4 MiB, 256 MiB.
    Drive,
}

impl LiveModel {
    fn capacity(self) -> Bytes {
        Bytes::mib(if self == LiveModel::Stick { 64 } else { 256 })
    }

    /// As the server knows it.
    fn name(self) -> &'static str {
        match self {
            LiveModel::Stick => "stick",
            LiveModel::Drive => "drive",
        }
    }

    /// The truth, by the definitions of the parameters; the constants are those of `live/flash.c`.
    fn truth(self, parameter: Parameter, clock: Clock) -> Truth {
        let is_stick = self == LiveModel::Stick;
        let (page, dies) = if is_stick { (4096, 1) } else { (8192, 4) };
        match parameter {
            Parameter::ReadPageSize | Parameter::WritePageSize => page.into(),
            Parameter::PlanesReadAtOnce | Parameter::SegmentGroups => 1.into(),
            Parameter::SegmentGroupSpan => Truth::NotIdentifiable("a seek costs nothing"),
            Parameter::ReadBufferSize | Parameter::ReadAheadSize | Parameter::SlcCacheSize => 0.into(),
            Parameter::SlcCacheRefill => Truth::NotIdentifiable("there is no SLC cache"),
            // One request is served after the other, so that only large ones use several dies.
            Parameter::ParallelUnits => dies.into(),
            Parameter::Channels if is_stick => 1.into(),
            Parameter::Channels => Truth::unjudged("the model has no buses: pages pass the link alone"),
            // By its definition 2: while one request is served, the next one passes FUSE and the loop device.
            Parameter::UsefulQueueDepth if clock == Clock::Virtual => {
                Truth::OneOf(vec![1u64.into(), 2u64.into()])
            }
            Parameter::UsefulQueueDepth => Truth::unjudged(
                "how many requests pass the kernel and nbdfuse at once adds to the throughput",
            ),
            Parameter::ChunkSize | Parameter::StripeSize if is_stick => {
                Truth::NotIdentifiable("there is one die")
            }
            Parameter::ChunkSize => page.into(),
            Parameter::StripeSize => (page * dies).into(),
            Parameter::EraseBlockSize if is_stick => Bytes::kib(256).into(),
            Parameter::EraseBlockSize => Bytes::mib(2).into(),
            Parameter::OpenBlocks if is_stick => 6.into(),
            Parameter::OpenBlocks => Truth::NotIdentifiable("a page map writes everywhere at the same cost"),
            Parameter::TranslationFamily => if is_stick { "log-block" } else { "page" }.into(),
            Parameter::MappingGranularity if is_stick => Bytes::kib(256).into(),
            Parameter::MappingGranularity => page.into(),
            Parameter::WriteBufferSize if is_stick => 0.into(),
            Parameter::WriteBufferSize => Bytes::mib(4).into(),
            Parameter::WriteBufferFlush if is_stick => Truth::NotIdentifiable("there is no write buffer"),
            Parameter::WriteBufferFlush => "immediately".into(),
            Parameter::OnesProgramShare => 1.0.into(),
            Parameter::ZerosProgramShare if !is_stick => 1.0.into(),
            Parameter::PhysicalCapacity | Parameter::OverProvisioning if is_stick => {
                Truth::NotIdentifiable("log blocks belong to one data block each")
            }
            // One superblock is kept free.
            Parameter::PhysicalCapacity => Bytes::mib(2 * 145).into(),
            Parameter::OverProvisioning => (290.0 / 256.0 - 1.0).into(),
            _ => Truth::unjudged("it depends on the transport"),
        }
    }
}

/// The name that stands for all devices.
pub const ALL: &str = "all";

/// Infers and judges the device of this name, or all of them, one after the other.
///
/// # Errors
/// If no device has this name.
pub fn named(
    name: &str,
    clock: Clock,
    seed: u64,
    only: &[Parameter],
) -> anyhow::Result<Vec<anyhow::Result<ProbeOutcome>>> {
    let chosen: Vec<_> = DEVICES.iter().filter(|(.., own)| name == ALL || name == *own).collect();
    if chosen.is_empty() {
        let names = DEVICES.map(|(.., own)| own).join(", ");
        bail!("there is no live device `{name}`; there are: {names}");
    }
    let one = |&(model, jitter, own): &(LiveModel, u64, &'static str)| {
        let outcome = match clock {
            Clock::Wall => on_wall_clock(model, jitter, own, seed, only),
            Clock::Virtual => Served::new(model, jitter, seed)
                .map(|device| judged(Hidden::new(device), (model, clock), (seed, own), only)),
        };
        outcome.with_context(|| format!("live device {own}"))
    };
    Ok(chosen.into_iter().map(one).collect())
}

fn on_wall_clock(
    model: LiveModel,
    jitter: u64,
    name: &'static str,
    seed: u64,
    only: &[Parameter],
) -> anyhow::Result<ProbeOutcome> {
    let attached = Attached::new(model, jitter, seed)?;
    let inspection = inspect(&attached.path)?;
    let consent = consent_by_flag(&inspection, &attached.path)?;
    let options = OpenOptions {
        engine: IoEngine::IoUring,
        depth: DEPTH,
        write: Some(consent),
        ..OpenOptions::default()
    };
    let device = Hidden::new(flashlab_host::open(&attached.path, &options)?);
    Ok(judged(device, (model, Clock::Wall), (seed, name), only))
}

fn judged(
    device: Hidden<impl Device>,
    (model, clock): (LiveModel, Clock),
    (seed, name): (u64, &'static str),
    only: &[Parameter],
) -> ProbeOutcome {
    let truth = |parameter| model.truth(parameter, clock);
    let outcome = score::judged(device, (seed, name), only, LIMITS, truth);
    let undetermined = outcome.answers.iter().filter(|answer| answer.is_undetermined()).count();
    let minutes = outcome.virtual_time.as_secs_f64() / 60.0;
    eprintln!("{name}: {undetermined} of {} undetermined, {minutes:.1} minutes", outcome.answers.len());
    outcome
}

/// A server with a loop device over it. Both end with it.
struct Attached {
    /// The loop device.
    path: PathBuf,
    folder: tempfile::TempDir,
    processes: Vec<Child>,
}

impl Attached {
    fn new(model: LiveModel, jitter: u64, seed: u64) -> anyhow::Result<Attached> {
        let folder = tempfile::tempdir()?;
        let mut attached = Attached { path: PathBuf::new(), folder, processes: Vec::new() };
        let inside = |name: &str| attached.folder.path().join(name);
        let (socket, mount) = (inside("socket"), inside("mount"));
        fs::create_dir(&mount)?;
        let server = serve(attached.folder.path(), model, jitter, seed, &[])?;
        attached.processes.push(server);
        let file = mount.join("disk");
        let mut process = Command::new("nbdfuse");
        process.arg(&file).arg("--unix").arg(&socket).stdout(Stdio::null());
        attached
            .processes
            .push(process.spawn().context("cannot start nbdfuse: install the package libnbd-bin")?);
        wait_for(&file)?;
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(&file)
            .output()
            .context("cannot run losetup")?;
        ensure!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
        attached.path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Ok(attached)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = run(Command::new("losetup").arg("--detach").arg(&self.path));
        }
        if self.processes.len() > 1 {
            let _ = run(Command::new("umount").arg("--lazy").arg(self.folder.path().join("mount/disk")));
            let _ = run(Command::new("umount").arg("--lazy").arg(self.folder.path().join("mount")));
        }
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Compiles the server into a folder, and starts it on the socket there.
fn serve(folder: &Path, model: LiveModel, jitter: u64, seed: u64, more: &[&str]) -> anyhow::Result<Child> {
    let [source, server, socket] = ["flash.c", "flash", "socket"].map(|name| folder.join(name));
    fs::write(&source, include_str!("live/flash.c"))?;
    run(Command::new("cc").args(["-O2", "-o"]).arg(&server).arg(&source))?;
    let [jitter, seed] = [jitter, seed].map(|number| number.to_string());
    let mut process = Command::new(&server);
    process.arg(model.name()).arg(&socket).args([jitter, seed]).args(more);
    let process = process.spawn().context("cannot start the server")?;
    wait_for(&socket)?;
    Ok(process)
}

/// Runs a command to its end.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn wait_for(path: &Path) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !path.exists() {
        if begin.elapsed() > START_MOST {
            bail!("{} did not appear within {START_MOST:?}", path.display());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_c_that_compiles() {
        if run(Command::new("cc").arg("--version")).is_err() {
            flashlab_skip::skip(flashlab_skip::Need::Programs, "a C compiler is not installed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("flash.c");
        fs::write(&source, include_str!("live/flash.c")).unwrap();
        let mut cc = Command::new("cc");
        run(cc
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(folder.path().join("flash"))
            .arg(&source))
        .unwrap();
    }
}
