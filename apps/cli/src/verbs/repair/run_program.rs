//! `flashlab repair run`.
//!
//! # Method
//! 1. The program's process is started first, and mounts FUSE where only it sees it. If that is not possible, the volume stays untouched.
//! 2. The volume is opened here, and its files are served until no process sees the mount any more.
//! 3. The volume is closed in order.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_export::fuse::FuseSession;
use flashlab_export::merged::{MergedDirectory, serve_files};
use flashlab_export::{FileCounts, SharedFiles};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::managed::{ManagedDirectory, managed_directories};
use super::open_files::{control, open_files, work_while_idle};
use super::program::MountedProgram;
use super::volume_options::VolumeOptions;
use crate::exit::Refused;
use crate::files::{Output, check_output, write_output};
use crate::interrupt::is_hangup_ignored;

/// How often signals and the end of the program are looked for.
const LOOK: Duration = Duration::from_millis(20);
/// After this number of looks since the program ended, those that it left behind are named. The kernel takes a moment to unmount.
const LOOKS_UNTIL_NAMED: u32 = 10;

/// Run a program whose files live on a volume, in a directory that is mounted for it alone
#[derive(Args)]
pub struct RunProgram {
    /// A directory whose files live on the volume, or a pattern of names in it, such as 'DIR/app.db*'; several are possible
    #[arg(long, value_name = "DIR", required = true)]
    files: Vec<PathBuf>,
    /// First copy such files that are there to the volume; the originals stay as they are, hidden from the program
    #[arg(long)]
    copy_in: bool,
    /// Hide such files that are there from the program; they stay as they are
    #[arg(long, conflicts_with = "copy_in")]
    hide: bool,
    #[command(flatten)]
    options: VolumeOptions,
    /// Make a control socket, for `repair status` and `live stop`
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Write what the programs did with the files to this file, as JSON
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
        let managed = managed_directories(&self.files)?;
        refuse_volume_within(&self.volume, &managed)?;
        if !self.copy_in && !self.hide {
            managed.iter().try_for_each(ManagedDirectory::refuse_hidden)?;
        }
        if let Some(report) = &self.report {
            check_output(report, Output::Counts)?;
        }
        let hangup = (!is_hangup_ignored()).then_some(SIGHUP);
        let mut signals =
            Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup)).context("cannot listen to signals")?;
        let (program, device) = match MountedProgram::start(&self.arguments())? {
            Ok(started) => started,
            Err(code) => std::process::exit(code),
        };
        let beneath: Vec<Beneath> = managed.iter().map(Beneath::of).collect::<Result<_>>()?;
        let files = open_files(&self.volume, &self.options)?;
        managed.iter().for_each(|directory| tell_what_is_not_shown(directory, &files));
        let control = control(&files, self.control.as_deref())?;
        let counts = Arc::new(FileCounts::default());
        let session = serve_files(files.clone(), merged(&managed)?, device, Arc::clone(&counts))
            .context("cannot serve the files")?;
        let ends = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| work_while_idle(&files, &ends));
            let ended = wait(program, &session, &beneath, &mut signals);
            ends.store(true, Ordering::Relaxed);
            ended
        });
        let finished =
            files.shut_down().context("the volume was not closed in order; the next mount recovers it");
        beneath.iter().for_each(Beneath::tell_what_is_new);
        let code = ended?;
        finished?;
        self.report(&counts)?;
        // What `exit` does not drop.
        drop(control);
        std::process::exit(code)
    }

    /// The arguments of `mounted-program`.
    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        for files in &self.files {
            arguments.extend(["--files".into(), files.clone().into_os_string()]);
        }
        if self.copy_in {
            arguments.push("--copy-in".into());
        }
        arguments.push("--".into());
        arguments.extend(self.command.iter().cloned());
        arguments
    }

    fn report(&self, counts: &FileCounts) -> Result<()> {
        let Some(path) = &self.report else { return Ok(()) };
        let text = serde_json::to_string_pretty(&BTreeMap::from(counts.named()))?;
        write_output(path, Output::Counts, text + "\n")
    }
}

/// The volume cannot lie among the files that it contains.
fn refuse_volume_within(volume: &Path, managed: &[ManagedDirectory]) -> Result<()> {
    // A volume that cannot be found is refused when it is opened.
    let Ok(path) = volume.canonicalize() else { return Ok(()) };
    let contains = |directory: &&ManagedDirectory| match path.strip_prefix(&directory.path) {
        Ok(within) => within.iter().next().is_some_and(|name| directory.has(name)),
        Err(_) => false,
    };
    match managed.iter().find(contains) {
        None => Ok(()),
        Some(directory) => bail!(Refused(format!(
            "the volume {} lies among the files of {} that shall live on it: move it to another directory, or name its files by a \
             pattern; nothing was changed",
            volume.display(),
            directory.path.display()
        ))),
    }
}

/// The directories of which some names live on the volume. Each has a place in the order of all.
fn merged(managed: &[ManagedDirectory]) -> Result<Vec<MergedDirectory>> {
    let merged = managed.iter().map(|directory| {
        let opened = File::open(&directory.path);
        Ok(MergedDirectory {
            patterns: directory.patterns.clone(),
            beneath: opened.with_context(|| format!("cannot open {}", directory.path.display()))?.into(),
            on_volume: directory.on_volume().as_os_str().as_bytes().to_vec(),
        })
    });
    merged.collect()
}

/// Names what the volume holds for a directory and no pattern names, and what it holds if it holds nothing for the directory.
fn tell_what_is_not_shown(directory: &ManagedDirectory, files: &SharedFiles) {
    let name = directory.path.display();
    let names = |path: &Path| -> Option<Vec<OsString>> {
        let entries = files.with(|files, _| files.entries(files.find(path.as_os_str().as_bytes())?)).ok()?;
        Some(entries.into_iter().map(|(name, _)| OsString::from_vec(name)).collect())
    };
    if let Some(mut names) = names(directory.on_volume()) {
        names.retain(|name| !directory.has(name));
        if let Some(first) = names.first() {
            let (count, first) = (names.len(), directory.path.join(first));
            tell!(
                "{count} files on the volume are not shown, because no pattern names them: {}, ...",
                first.display()
            );
        }
        return;
    }
    let mut others = names(Path::new("")).unwrap_or_default();
    others.retain(|other| !directory.on_volume().starts_with(other));
    if let Some(first) = others.first() {
        tell!("the volume has no files of {name} yet; it holds those of /{}", first.display());
    }
}

/// What lies beneath a directory when the program begins.
struct Beneath<'a> {
    directory: &'a ManagedDirectory,
    /// The directory itself: its device and its inode.
    identity: (u64, u64),
    hidden: Vec<OsString>,
}

impl Beneath<'_> {
    fn of(directory: &ManagedDirectory) -> Result<Beneath<'_>> {
        let found = identity(&directory.path);
        let identity = found.with_context(|| format!("cannot find {}", directory.path.display()))?;
        Ok(Beneath { directory, identity, hidden: directory.hidden(&directory.path)? })
    }

    /// Whether another program removed or renamed the directory, or one above it. The kernel unmounts the files of a directory that is
    /// removed where they are not mounted, and moves them along with one that is renamed.
    fn is_gone(&self) -> bool {
        match identity(&self.directory.path) {
            Ok(now) => now != self.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Other programs may have made files there, which are not on the volume.
    fn tell_what_is_new(&self) {
        if self.is_gone() {
            return;
        }
        let now = self.directory.hidden(&self.directory.path).unwrap_or_default();
        if let Some(new) = now.iter().find(|name| !self.hidden.contains(name)) {
            tell!(
                "{} was made meanwhile by a program that does not see the volume's files: it is not on the volume",
                self.directory.path.join(new).display()
            );
        }
    }
}

/// The device and the inode of a directory.
fn identity(directory: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(directory).map(|found| (found.dev(), found.ino()))
}

/// Lets the program begin, and waits for the end of all processes that use the files. Returns the program's exit code.
fn wait(
    mut program: MountedProgram,
    session: &FuseSession,
    beneath: &[Beneath<'_>],
    signals: &mut Signals,
) -> Result<i32> {
    program.begin()?;
    let mut looks_since_end = 0_u32;
    let mut is_asked = false;
    let mut gone: Option<String> = None;
    loop {
        let code = program.ended()?;
        if gone.is_none() {
            gone = beneath
                .iter()
                .find(|beneath| beneath.is_gone())
                .map(|beneath| beneath.directory.path.display().to_string());
            if let Some(path) = &gone {
                tell!(
                    "another program removed or renamed {path}: what is written to that path from now on is not on the volume, so the \
                     programs that use it are asked to end"
                );
                program.signal(Signal::TERM);
                program.signal_others(Signal::TERM);
            }
        }
        if let Some(code) = code {
            match &gone {
                Some(path) if session.has_ended() => bail!(
                    "{path} was removed or renamed while its files were in use: what was synced before is on the volume, and what \
                     programs wrote to that path afterwards is not"
                ),
                None if session.has_ended() => return Ok(code),
                _ => {}
            }
            looks_since_end = looks_since_end.saturating_add(1);
            if looks_since_end == LOOKS_UNTIL_NAMED {
                tell!(
                    "the program has ended; its files are served to what it left behind: {}",
                    left_behind(&program)
                );
            }
        }
        match signals.pending().next() {
            None => {}
            Some(_) if code.is_some() && is_asked => {
                bail!(
                    "the files were in use: what their users have not synced may be lost: {}",
                    left_behind(&program)
                )
            }
            Some(signal) if code.is_some() => {
                is_asked = true;
                program.signal_others(passed_on(signal));
                tell!("the signal was passed on, and a second one ends the files: {}", left_behind(&program));
            }
            // A terminal sends its own SIGINT to the program.
            Some(SIGINT) => {}
            Some(signal) => program.signal(passed_on(signal)),
        }
        std::thread::sleep(LOOK);
    }
}

fn passed_on(signal: i32) -> Signal {
    if signal == SIGHUP { Signal::HUP } else { Signal::TERM }
}

/// What still uses the files.
fn left_behind(program: &MountedProgram) -> String {
    const NAMED_MAX: usize = 5;
    let others = program.others();
    let named = others.iter().take(NAMED_MAX);
    let mut named: Vec<String> =
        named.map(|(process, name)| format!("{name} ({})", process.as_raw_nonzero())).collect();
    match others.len() {
        0 => return "a process that has one of them open".to_owned(),
        count if count > NAMED_MAX => named.push(format!("{} more", count - NAMED_MAX)),
        _ => {}
    }
    named.join(", ")
}
