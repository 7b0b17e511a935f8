//! `flashlab repair mount`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_export::SharedFiles;
use flashlab_export::files_fuse::mount_files;
use flashlab_export::fuse::{FuseMount, is_dead_mount_of_files};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::open_files::{control, open_files, work_while_idle};
use super::volume_options::VolumeOptions;
use crate::daemon::Background;
use crate::served_paths::check_control;
use crate::verbs::serve::{empty, ready};

/// How often the server looks for signals, and whether the directory is still mounted.
const LOOK: Duration = Duration::from_millis(50);

/// Mount a directory whose files live on a volume, until a signal comes or it is unmounted
#[derive(Args)]
pub struct MountFiles {
    /// A block device, or a regular file
    volume: PathBuf,
    /// An empty directory
    directory: PathBuf,
    #[command(flatten)]
    options: VolumeOptions,
    /// Make a control socket, for `repair status` and `live stop`
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    #[command(flatten)]
    background: Background,
    /// Print one line of JSON when the directory is mounted
    #[arg(long)]
    json: bool,
}

impl MountFiles {
    /// Serves the files until a signal comes or the directory is unmounted.
    pub fn run(self) -> Result<()> {
        check_control(self.control.as_deref())?;
        if let Some(path) = dead_mount(&self.directory) {
            tell!("the server of the files on {} was killed: its mount is replaced", path.display());
        }
        self.background.or_serve(|| self.serve())
    }

    fn serve(&self) -> Result<()> {
        // Without a server programs get errors until now: nobody goes on in the directory beneath.
        let directory = dead_mount(&self.directory).map_or_else(|| empty(&self.directory), Ok)?;
        // Before anything is made that a signal would leave behind.
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
        let files = open_files(&self.volume, &self.options)?;
        let served = self.serve_files(&files, &directory, &mut signals);
        // Also if it could not be mounted.
        let finished =
            files.shut_down().context("the volume was not closed in order; the next mount recovers it");
        served.and(finished)
    }

    fn serve_files(&self, files: &SharedFiles, directory: &Path, signals: &mut Signals) -> Result<()> {
        let _control = control(files, self.control.as_deref())?;
        let mount = mount_files(files.clone(), directory).with_context(|| {
            format!(
                "cannot mount on {}: it has to be a directory of yours, and FUSE needs /dev/fuse and root or the program \
                 fusermount3",
                directory.display()
            )
        })?;
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| work_while_idle(&self.volume, files, &ends));
            let served = ready(self.json, directory, self.control.as_deref()).and_then(|()| {
                while signals.pending().next().is_none() && mount.is_mounted() {
                    std::thread::sleep(LOOK);
                }
                close(mount, signals)
            });
            ends.store(true, Ordering::Relaxed);
            served
        })
    }
}

/// The path of a directory on which a killed server of files left its mount.
fn dead_mount(directory: &Path) -> Option<PathBuf> {
    // A dead mount itself cannot be resolved, but its parent can.
    let (name, parent) = (directory.file_name()?, directory.parent()?);
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let path = parent.canonicalize().ok()?.join(name);
    is_dead_mount_of_files(&path).then_some(path)
}

/// Unmounts the directory as soon as no program uses it. A second signal does not wait for the programs.
fn close(mut mount: FuseMount, signals: &mut Signals) -> Result<()> {
    let path = mount.directory().display().to_string();
    let mut is_said = false;
    while !mount.try_end().with_context(|| format!("cannot unmount {path}"))? {
        if signals.pending().next().is_some() {
            mount.abandon();
            bail!("{path} was in use: what its users have not synced may be lost");
        }
        if !is_said {
            tell!(
                "{path} is in use: it is served until the last program has closed its files; a second signal ends it"
            );
            is_said = true;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
