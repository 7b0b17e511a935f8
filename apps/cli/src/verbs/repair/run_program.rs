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
use std::os::fd::OwnedFd;
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
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT};
use signal_hook::iterator::Signals;

use super::managed::{ManagedDirectory, managed_directories};
use super::open_files::{control, open_files, work_while_idle};
use super::program::MountedProgram;
use super::volume_options::VolumeOptions;
use crate::exit::{Refused, Usage};
use crate::files::{Output, check_output, write_output};
use crate::interrupt::ending_signals;
use crate::output_part::folder_of;
use crate::served_paths::check_control;

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
        check_control(self.control.as_deref())?;
        if let Some(report) = &self.report {
            refuse_report_within(report, &managed)?;
            check_output(report, Output::Counts)?;
        }
        let mut signals = Signals::new(ending_signals()).context("cannot listen to signals")?;
        let (program, device) = match MountedProgram::start(&self.arguments())? {
            Ok(started) => started,
            Err(code) => std::process::exit(code),
        };
        let beneath: Vec<Beneath> = managed.iter().map(Beneath::of).collect::<Result<_>>()?;
        let files = open_files(&self.volume, &self.options)?;
        managed.iter().for_each(|directory| tell_what_is_not_shown(directory, &files));
        let counts = Arc::new(FileCounts::default());
        let ended = self.serve(&files, &managed, device, &counts, |session| {
            Served { program, session, beneath: &beneath, gone: None, is_asked: false }.wait(&mut signals)
        });
        // Also if it could not be served.
        let finished =
            files.shut_down().context("the volume was not closed in order; the next mount recovers it");
        beneath.iter().for_each(Beneath::tell_what_is_new);
        let code = ended?;
        finished?;
        self.report(&counts)?;
        std::process::exit(code)
    }

    /// Serves the files to the program until `wait` returns.
    fn serve(
        &self,
        files: &SharedFiles,
        managed: &[ManagedDirectory],
        device: OwnedFd,
        counts: &Arc<FileCounts>,
        wait: impl FnOnce(&FuseSession) -> Result<i32>,
    ) -> Result<i32> {
        let _control = control(files, self.control.as_deref())?;
        let session = serve_files(files.clone(), merged(managed)?, device, Arc::clone(counts))
            .context("cannot serve the files")?;
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| work_while_idle(&self.volume, files, &ends));
            let ended = wait(&session);
            ends.store(true, Ordering::Relaxed);
            ended
        })
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

/// The directory among whose files a path lies, if it is one of these.
fn directory_of<'a>(path: &Path, managed: &'a [ManagedDirectory]) -> Option<&'a ManagedDirectory> {
    managed.iter().find(|directory| match path.strip_prefix(&directory.path) {
        Ok(within) => within.iter().next().is_some_and(|name| directory.has(name)),
        Err(_) => false,
    })
}

/// The report is written beneath, where nobody who looks at the files sees it.
fn refuse_report_within(report: &Path, managed: &[ManagedDirectory]) -> Result<()> {
    // A folder that cannot be found is refused when the file is made.
    let (Ok(parent), Some(name)) = (folder_of(report).canonicalize(), report.file_name()) else {
        return Ok(());
    };
    match directory_of(&parent.join(name), managed) {
        None => Ok(()),
        Some(directory) => bail!(Usage(format!(
            "--report {}: it lies among the files of {} that live on the volume, and would be written to the directory beneath: \
             name a file in another folder",
            report.display(),
            directory.path.display()
        ))),
    }
}

/// The volume cannot lie among the files that it contains.
fn refuse_volume_within(volume: &Path, managed: &[ManagedDirectory]) -> Result<()> {
    // A volume that cannot be found is refused when it is opened.
    let Ok(path) = volume.canonicalize() else { return Ok(()) };
    match directory_of(&path, managed) {
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
            let first = directory.path.join(first);
            match names.len() {
                1 => tell!("{} on the volume is not shown, because no pattern names it", first.display()),
                count => tell!(
                    "{count} files on the volume are not shown, because no pattern names them: {}, ...",
                    first.display()
                ),
            }
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
    /// The directory itself. It stays open, because a new directory would get the inode of one that is removed and closed.
    opened: File,
    hidden: Vec<OsString>,
}

impl Beneath<'_> {
    fn of(directory: &ManagedDirectory) -> Result<Beneath<'_>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let found = rustix::fs::open(&directory.path, flags, Mode::empty());
        let opened = found.with_context(|| format!("cannot find {}", directory.path.display()))?.into();
        Ok(Beneath { directory, opened, hidden: directory.hidden(&directory.path)? })
    }

    /// Whether another program removed or renamed the directory, or one above it. The kernel unmounts the files of a directory that is
    /// removed where they are not mounted, and moves them along with one that is renamed.
    fn is_gone(&self) -> bool {
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        match fs::metadata(&self.directory.path) {
            Ok(now) => self.opened.metadata().is_ok_and(|begun| identity(begun) != identity(now)),
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

/// A program whose files are served.
struct Served<'a> {
    program: MountedProgram,
    session: &'a FuseSession,
    beneath: &'a [Beneath<'a>],
    /// The directory that another program removed or renamed.
    gone: Option<String>,
    /// Whether a signal was passed on to what the program left behind.
    is_asked: bool,
}

impl Served<'_> {
    /// Lets the program begin, and waits for the end of all processes that use the files. Returns the program's exit code.
    fn wait(mut self, signals: &mut Signals) -> Result<i32> {
        self.program.begin()?;
        let mut looks_since_end = 0_u32;
        loop {
            let code = self.program.ended()?;
            self.look_for_removed_directories();
            if let Some(code) = code {
                if self.session.has_ended() {
                    return self.verdict(code);
                }
                looks_since_end = looks_since_end.saturating_add(1);
                if looks_since_end == LOOKS_UNTIL_NAMED {
                    tell!(
                        "the program has ended; its files are served to what it left behind: {}",
                        left_behind(&self.program)
                    );
                }
            }
            if let Some(signal) = signals.pending().next() {
                self.pass_on(signal, code.is_some())?;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Asks the programs to end if the directory of their files is gone.
    fn look_for_removed_directories(&mut self) {
        if self.gone.is_some() {
            return;
        }
        let Some(gone) = self.beneath.iter().find(|beneath| beneath.is_gone()) else { return };
        let path = gone.directory.path.display().to_string();
        tell!(
            "another program removed or renamed {path}: what is written to that path from now on is not on the volume, so the \
             programs that use it are asked to end"
        );
        self.program.signal(Signal::TERM);
        self.program.signal_others(Signal::TERM);
        self.gone = Some(path);
    }

    fn verdict(self, code: i32) -> Result<i32> {
        match self.gone {
            Some(path) => bail!(
                "{path} was removed or renamed while its files were in use: what was synced before is on the volume, and what \
                 programs wrote to that path afterwards is not"
            ),
            None => Ok(code),
        }
    }

    /// Passes a signal on. When the program has ended, the first one is for what it left behind, and the second one ends the files.
    fn pass_on(&mut self, signal: i32, has_ended: bool) -> Result<()> {
        match signal {
            _ if has_ended && self.is_asked => bail!(
                "the files were in use: what their users have not synced may be lost: {}",
                left_behind(&self.program)
            ),
            _ if has_ended => {
                self.is_asked = true;
                self.program.signal_others(passed_on(signal));
                tell!(
                    "the signal was passed on, and a second one ends the files: {}",
                    left_behind(&self.program)
                );
            }
            // A terminal sends its own SIGINT to the program.
            SIGINT => {}
            signal => self.program.signal(passed_on(signal)),
        }
        Ok(())
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
