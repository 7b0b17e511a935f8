//! A directory on the volume for a directory beneath: made, and filled with what lies beneath.
//!
//! # Method
//! 1. `cp -a` copies into a directory with another name next to it. What an unfinished copy left there is removed.
//! 2. All of it is made durable, and the directory gets a name that says that it is complete.
//! 3. What is in it moves to where it belongs. A complete copy whose move did not finish is moved at the next start.
//!
//! # Invariants
//! - If it ends at any moment, the program that starts next sees nothing of the copy, or all of it.
//! - Nothing beneath is changed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::managed::ManagedDirectory;
use crate::exit::Refused;

/// What the name of a copy ends with while it is made.
const UNFINISHED: &str = ".flashlab-copying";
/// What it ends with when it is complete.
const COMPLETE: &str = ".flashlab-copied";

/// A directory whose files shall live on the volume.
pub struct NewDirectory<'a> {
    /// Where the volume is mounted.
    pub volume: &'a Path,
    /// The directory.
    pub directory: &'a ManagedDirectory,
    /// The directory beneath.
    pub beneath: File,
}

impl NewDirectory<'_> {
    /// Makes the directory on the volume if it is missing, and with `copies` fills it from beneath.
    pub fn prepare(&self, copies: bool) -> Result<()> {
        let failed = || format!("cannot make {} on the volume", self.directory.path.display());
        let path = self.path("");
        if !path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            // Those that it lies in belong to this user.
            fs::create_dir_all(&path).with_context(failed)?;
            self.take_permissions(&path).with_context(failed)?;
        }
        if self.path(UNFINISHED).exists() {
            fs::remove_dir_all(self.path(UNFINISHED)).with_context(failed)?;
        }
        if self.path(COMPLETE).exists() {
            self.move_complete().with_context(failed)?;
        }
        if copies { self.copy_in() } else { Ok(()) }
    }

    /// Its path while the volume is mounted, with this end.
    fn path(&self, end: &str) -> PathBuf {
        let mut path = self.volume.join(self.directory.on_volume()).into_os_string();
        path.push(end);
        path.into()
    }

    /// Moves a complete copy to where it belongs.
    fn move_complete(&self) -> std::io::Result<()> {
        let (path, complete) = (self.path(""), self.path(COMPLETE));
        for entry in fs::read_dir(&complete)? {
            let entry = entry?;
            fs::rename(entry.path(), path.join(entry.file_name()))?;
        }
        fs::remove_dir(&complete)?;
        File::open(&path)?.sync_all()
    }

    /// Gives a directory the owner and the permissions of the one beneath.
    fn take_permissions(&self, path: &Path) -> std::io::Result<()> {
        let (made, model) = (File::open(path)?, self.beneath.metadata()?);
        // Only root gives files away.
        let _ = std::os::unix::fs::fchown(&made, Some(model.uid()), Some(model.gid()));
        made.set_permissions(fs::Permissions::from_mode(model.mode() & 0o7777))?;
        made.sync_all()
    }

    fn copy_in(&self) -> Result<()> {
        let name = self.directory.path.display();
        rustix::process::fchdir(&self.beneath).with_context(|| format!("cannot enter {name}"))?;
        let names = self.directory.hidden(Path::new("."))?;
        if names.is_empty() {
            return Ok(());
        }
        let there = self.directory.hidden(&self.path(""))?;
        if let Some(there) = if self.directory.is_whole() {
            there.first()
        } else {
            there.iter().find(|there| names.contains(there))
        } {
            bail!(Refused(format!(
                "the volume holds {} already: leave out --copy-in; to use the volume's files although {name} holds others, give \
                 --hide; nothing was copied",
                self.directory.path.join(there).display()
            )));
        }
        for copied in &names {
            if let Some(special) = special_file(Path::new(copied))? {
                bail!(Refused(format!(
                    "{} is a socket, a pipe or a device, which is not copied to a volume: end the program that made it, and \
                     remove it; nothing was copied",
                    self.directory.path.join(special).display()
                )));
            }
        }
        let unfinished = self.path(UNFINISHED);
        let failed = || format!("cannot copy {name} to the volume; nothing of it is there");
        fs::create_dir(&unfinished).with_context(failed)?;
        let copied = copy(&names, &unfinished).and_then(|()| {
            File::open(&unfinished)?.sync_all()?;
            Ok(fs::rename(&unfinished, self.path(COMPLETE))?)
        });
        if let Err(error) = copied {
            let _ = fs::remove_dir_all(&unfinished);
            return Err(error).with_context(failed);
        }
        self.move_complete()
            .with_context(|| format!("cannot move the copy of {name}; the next start does"))?;
        let count = if names.len() == 1 { "a file".to_owned() } else { format!("{} files", names.len()) };
        tell!(
            "copied to the volume: {count} of {name}. The originals stay there, and do not change any more: remove them, or give \
             --hide from now on"
        );
        Ok(())
    }
}

/// A file that is no regular file, no directory and no symbolic link: this one, or one in it.
fn special_file(path: &Path) -> Result<Option<PathBuf>> {
    let failed = || format!("cannot read {}", path.display());
    let kind = path.symlink_metadata().with_context(failed)?.file_type();
    if kind.is_dir() {
        for entry in fs::read_dir(path).with_context(failed)? {
            if let Some(special) = special_file(&entry.with_context(failed)?.path())? {
                return Ok(Some(special));
            }
        }
        return Ok(None);
    }
    Ok((!kind.is_file() && !kind.is_symlink()).then(|| path.to_owned()))
}

/// Copies these files of the current directory, with owners, permissions, times, holes and links.
fn copy(names: &[OsString], to: &Path) -> Result<()> {
    /// With names of 255 bytes about 1 MiB; the arguments of a program may have 2 MiB. A hard link is one within them.
    const NAMES_MAX: usize = 4000;
    for names in names.chunks(NAMES_MAX) {
        let mut command = Command::new("cp");
        command.args(["-a", "--sparse=always", "--"]).args(names).arg(to).stdin(Stdio::null());
        let output = command.output().context("cannot run cp")?;
        if !output.status.success() {
            bail!("cp: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    Ok(())
}
