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

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::managed::ManagedDirectory;
use crate::exit::Refused;

/// What the name of a copy ends with while it is made.
const UNFINISHED: &str = ".flashlab-copying";
/// Attributes with access control lists.
const ACCESS_LIST: &str = "system.posix_acl_";
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
    /// Set when a signal ends the copy.
    pub ends: &'a AtomicBool,
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

    /// Refuses access control lists, without which other users might get more rights; names attributes that are not copied.
    fn look_at_attributes(&self, names: &[OsString]) -> Result<()> {
        let mut left_out = BTreeMap::new();
        let mut left: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        while let Some(path) = left.pop() {
            if path.is_dir() && !path.is_symlink() {
                let entries =
                    fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
                left.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
            }
            for name in other_attributes(&path) {
                let shown = self.directory.path.join(&path);
                if name.starts_with(ACCESS_LIST) {
                    bail!(Refused(format!(
                        "{} has an access control list, which files of a volume cannot have: remove it with `setfacl -b` and set its \
                         permissions; nothing was copied",
                        shown.display()
                    )));
                }
                left_out.entry(name).or_insert(shown);
            }
        }
        for (name, path) in left_out {
            tell!(
                "the attribute {name} is not copied, because files of a volume cannot have it: {}, ...",
                path.display()
            );
        }
        Ok(())
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
        self.look_at_attributes(&names)?;
        let unfinished = self.path(UNFINISHED);
        let failed = || format!("cannot copy {name} to the volume; nothing of it is there");
        fs::create_dir(&unfinished).with_context(failed)?;
        let copied = copy(&names, &unfinished, self.ends).and_then(|()| {
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

/// The extended attributes of a file that files of a volume cannot have, except for SELinux's, which each file system gives anew.
fn other_attributes(path: &Path) -> Vec<String> {
    const NAMES_BYTES_MAX: usize = 64 << 10;
    let mut names = vec![0; NAMES_BYTES_MAX];
    // A file system without attributes has none.
    let Ok(length) = rustix::fs::llistxattr(path, names.as_mut_slice()) else { return Vec::new() };
    let names =
        names[..length].split(|&byte| byte == 0).map(|name| String::from_utf8_lossy(name).into_owned());
    names
        .filter(|name| !name.is_empty() && !name.starts_with("user.") && name != "security.selinux")
        .collect()
}

/// Copies these files of the current directory, with owners, permissions, times, holes and links.
fn copy(names: &[OsString], to: &Path, ends: &AtomicBool) -> Result<()> {
    /// How often the end of `cp` is looked for.
    const LOOK: Duration = Duration::from_millis(5);
    /// With names of 255 bytes about 1 MiB; the arguments of a program may have 2 MiB. A hard link is one within them.
    const NAMES_MAX: usize = 4000;
    for names in names.chunks(NAMES_MAX) {
        let mut command = Command::new("cp");
        command.args(["-a", "--sparse=always", "--"]).args(names).arg(to).stdin(Stdio::null());
        let mut process = command.stderr(Stdio::piped()).spawn().context("cannot run cp")?;
        let messages =
            process.stderr.take().map(|messages| std::thread::spawn(|| io::read_to_string(messages)));
        let status = loop {
            if let Some(status) = process.try_wait().context("cannot wait for cp")? {
                break status;
            }
            if ends.load(Ordering::Relaxed) {
                let _ = process.kill();
                let _ = process.wait();
                bail!("a signal ended it");
            }
            std::thread::sleep(LOOK);
        };
        if !status.success() {
            let messages = messages.and_then(|messages| messages.join().ok()?.ok()).unwrap_or_default();
            bail!("cp: {}", messages.trim());
        }
    }
    Ok(())
}
