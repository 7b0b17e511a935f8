//! `flashlab repair run`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_export::{FileCounts, FilesServer, SharedFiles};
use flashlab_repair::{CALLS_PATTERNS, CALLS_SOCKET};
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::open_files::{control, open_files, random_name, work_while_idle};
use super::placeholders::ManagedPaths;
use super::volume_options::VolumeOptions;
use crate::caretaker::Caretaker;
use crate::exit::{Refused, Usage};

/// How often signals and the end of the program are looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Names another place of the library.
const LIBRARY_VARIABLE: &str = "FLASHLAB_PRELOAD";

/// Run a program whose files live on a volume, through a library that it is started with (LD_PRELOAD)
#[derive(Args)]
pub struct RunProgram {
    /// The files that live on the volume: a pattern of paths, in which * is anything, also with /; several are possible
    #[arg(long, value_name = "GLOB", required = true)]
    files: Vec<String>,
    #[command(flatten)]
    options: VolumeOptions,
    /// Make a control socket, for `repair status` and `live stop`
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Write what the program did with the files to this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// A block device, or a regular file
    volume: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RunProgram {
    /// Runs the program, and ends with its exit code when no process uses the files any more.
    pub fn run(self) -> Result<()> {
        let library = library()?;
        may_run(&self.command[0])?;
        let managed = ManagedPaths::new(&self.files)?;
        managed.refuse_ordinary_files()?;
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen to signals")?;
        let caretaker = Caretaker::start()?;
        let files = open_files(&self.volume, &self.options)?;
        managed.make_placeholders(&files)?;
        let _control = control(&files, self.control.as_deref())?;
        let server = FilesServer::new(files.clone());
        let socket = listen(&caretaker, &server)?;
        let program = self.start(&library, &socket, &managed)?;
        raise_descriptor_limit();
        let ends = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| work_while_idle(&files, &ends));
            let ended = wait(program, &server.counts, &mut signals);
            ends.store(true, Ordering::Relaxed);
            ended
        });
        let finished = finish(&files);
        let passed_by = managed.refuse_ordinary_files();
        self.report(&server)?;
        drop(caretaker);
        let status = ended?;
        finished?;
        passed_by.context("a program wrote files past the library")?;
        // As a shell does for a program that a signal ended.
        std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    fn start(&self, library: &Path, socket: &Path, managed: &ManagedPaths) -> Result<Child> {
        let mut preload = library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env("LD_PRELOAD", preload);
        command.env(CALLS_SOCKET, socket).env(CALLS_PATTERNS, managed.patterns());
        let name = Path::new(&self.command[0]).display().to_string();
        command.spawn().map_err(|error| Usage(format!("cannot start {name}: {error}")).into())
    }

    fn report(&self, server: &FilesServer) -> Result<()> {
        let Some(path) = &self.report else { return Ok(()) };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &server.counts;
        let report = BTreeMap::from([
            ("processes", count(&counts.processes)),
            ("calls", count(&counts.calls)),
            ("call_bytes", count(&counts.call_bytes)),
            ("opens", count(&counts.opens)),
            ("reads", count(&counts.reads)),
            ("read_bytes", count(&counts.read_bytes)),
            ("writes", count(&counts.writes)),
            ("written_bytes", count(&counts.written_bytes)),
            ("syncs", count(&counts.syncs)),
        ]);
        let text = serde_json::to_string_pretty(&report)?;
        crate::files::write_output(path, crate::files::Output::Counts, text + "\n")
    }
}

/// The server has a descriptor of each file that programs have open.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With the limit as it is, an open may fail with EMFILE.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The socket that programs call. Its name is secret: who knows it may use the files.
fn listen(caretaker: &Caretaker, server: &Arc<FilesServer>) -> Result<PathBuf> {
    let directory = caretaker.directory();
    let socket = directory.join(random_name()?);
    let listener = UnixListener::bind(&socket)
        .with_context(|| format!("cannot make the socket {}", socket.display()))?;
    // The program may run as another user. The directory cannot be listed.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o711))?;
    server.listen(listener);
    Ok(socket)
}

/// Waits for the program and for all processes that use the files. Passes signals on to the program.
fn wait(mut program: Child, counts: &FileCounts, signals: &mut Signals) -> Result<ExitStatus> {
    let mut status = None;
    let mut looks_since_end = 0_u32;
    loop {
        if status.is_none() {
            status = program.try_wait().context("cannot wait for the program")?;
        }
        let left = counts.connected.load(Ordering::Relaxed);
        if let Some(status) = status {
            if left == 0 {
                return Ok(status);
            }
            // The connection of a program that has just ended may still be open at the first look.
            looks_since_end = looks_since_end.saturating_add(1);
            if looks_since_end == 2 {
                tell!(
                    "the program has ended; processes that it started and that still use the files: {left}"
                );
            }
        }
        if let Some(signal) = signals.pending().next() {
            if status.is_some() {
                bail!("processes that still used the files: {left}; what they have not synced may be lost");
            }
            let process = Pid::from_raw(program.id() as i32);
            let passed = if signal == SIGHUP { Signal::HUP } else { Signal::TERM };
            // A terminal sends its own SIGINT to the program.
            if let Some(process) = process.filter(|_| signal != SIGINT) {
                let _ = rustix::process::kill_process(process, passed);
            }
        }
        std::thread::sleep(LOOK);
    }
}

fn finish(files: &SharedFiles) -> Result<()> {
    files.shut_down().context("the volume was not closed in order; the next mount recovers it")
}

/// The library's path: where the build or an installation puts it, or where the user says.
fn library() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where flashlab itself is")?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = match std::env::var_os(LIBRARY_VARIABLE) {
        Some(named) => vec![PathBuf::from(named)],
        None => {
            vec![folder.join("libflashlab_preload.so"), folder.join("../lib/flashlab/libflashlab_preload.so")]
        }
    };
    match places.iter().find(|place| place.is_file()) {
        Some(place) => std::path::absolute(place).context("cannot tell where the library is"),
        None => {
            let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            bail!(Usage(format!(
                "flashlab's library for programs is not at {}: build it with `cargo build --release --package \
                 flashlab-preload`, or name its place in {LIBRARY_VARIABLE}",
                looked.join(" or ")
            )))
        }
    }
}

/// Refuses programs that would ignore the library.
fn may_run(program: &OsString) -> Result<()> {
    let name = Path::new(program).display();
    let found = if program.as_bytes().contains(&b'/') {
        Some(PathBuf::from(program))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
    };
    let found = found.filter(|path| path.is_file());
    let Some(found) = found else { bail!(Usage(format!("there is no program {name}"))) };
    if is_static(&found)? {
        bail!(Refused(format!(
            "{name} is a static program, which loads no library: its files would not be on the volume; use `flashlab \
             repair mount`"
        )));
    }
    let metadata = fs::metadata(&found)?;
    let own = rustix::process::geteuid().as_raw();
    if metadata.mode() & 0o4000 != 0 && metadata.uid() != own {
        bail!(Refused(format!(
            "{name} changes its user when it starts (set-user-ID), and loads no library then: its files would not be \
             on the volume; run it as that user, or use `flashlab repair mount`"
        )));
    }
    Ok(())
}

/// Whether an ELF program of 64 bits has no interpreter, which would load libraries.
fn is_static(program: &Path) -> Result<bool> {
    const INTERPRETER: u32 = 3;
    let mut bytes = Vec::new();
    let opened = File::open(program);
    let read = opened.and_then(|file| file.take(4096).read_to_end(&mut bytes));
    read.with_context(|| format!("cannot read {}", program.display()))?;
    if bytes.len() < 64 || !bytes.starts_with(b"\x7fELF\x02") {
        return Ok(false);
    }
    let first = u64::from_ne_bytes(std::array::from_fn(|index| bytes[32 + index])) as usize;
    let count = usize::from(u16::from_ne_bytes([bytes[56], bytes[57]]));
    let entries = (0..count).filter_map(|index| bytes.get(first.checked_add(index * 56)?..)?.first_chunk());
    Ok(!entries.into_iter().any(|kind| u32::from_ne_bytes(*kind) == INTERPRETER))
}
