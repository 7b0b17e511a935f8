//! The file that stores the bytes of a live disk, and the file beside it.
//!
//! # Model
//! `FILE` contains the disk's bytes. `FILE.flashlab` begins with one line, which says which file flashlab made for a
//! disk, by its inode and the time when it was made. The state of the simulated device (mapping, wear) follows.
//!
//! | `FILE` | what permits a server to write to it |
//! | --- | --- |
//! | does not exist | nothing is needed: it is made, exclusively |
//! | is empty, or is the file that `FILE.flashlab` names | nothing is needed |
//! | anything else | `--overwrite-file`; from then on `FILE.flashlab` names it |
//!
//! Every existing file goes through the guard of `host`: a file that a mount, swap space, a loop device or another
//! program uses is refused in each of these cases.
//!
//! # Invariants
//! - [`BackingFile::check`] makes and changes nothing.
//! - `FILE.flashlab` is replaced only by a complete one, and only if a server wrote it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use flashlab_base::Bytes;
use flashlab_host::{Consent, HostError, consent_to_overwrite_file, consent_to_use_own_file, inspect};
use flashlab_input::InputKind;

use crate::error::ExportError;

/// The first line of `FILE.flashlab` is this, a version, and the identity of `FILE`.
const MARK: &str = "flashlab disk 1: ";
/// Longer than any first line.
const MARK_MAX: usize = 256;

/// A backing file, and whether it may be one that flashlab did not make.
pub(crate) struct BackingFile<'a> {
    path: &'a Path,
    may_overwrite: bool,
    beside: PathBuf,
}

impl<'a> BackingFile<'a> {
    pub(crate) fn new(path: &'a Path, may_overwrite: bool) -> BackingFile<'a> {
        BackingFile { path, may_overwrite, beside: beside(path) }
    }

    /// Refuses a file that may not be written to.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub(crate) fn check(&self) -> Result<(), ExportError> {
        self.consent().map(drop)
    }

    /// Opens it, or makes it if it does not exist.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub(crate) fn open(&self, largest_state: Bytes) -> Result<OpenBacking, ExportError> {
        let file = match self.consent()? {
            Some(consent) => flashlab_host::open_file(self.path, &consent)?,
            None => flashlab_host::create_file(self.path)?,
        };
        let largest = Bytes(largest_state.0.saturating_add(MARK_MAX as u64));
        let mut state = match self.mark()? {
            Some(_) => {
                flashlab_input::read(&self.beside, InputKind { name: "state of this device", largest })
                    .map_err(ExportError::io("read", self.beside.display()))?
            }
            None => Vec::new(),
        };
        let line = state.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        state.drain(..line);
        let identity = flashlab_host::file_identity(&file).unwrap_or_default();
        Ok(OpenBacking { file, state, beside: StateFile { path: self.beside.clone(), identity } })
    }

    /// The permission to write to the file; `None` if it does not exist.
    fn consent(&self) -> Result<Option<Consent>, ExportError> {
        let made = self.mark()?;
        match fs::metadata(self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ExportError::io("open", self.path.display())(error)),
            Ok(metadata) if !metadata.is_file() => return Err(ExportError::NoFile(self.path.to_owned())),
            Ok(_) => {}
        }
        let inspection = inspect(self.path)?;
        let consent = match consent_to_use_own_file(&inspection, made.as_deref()) {
            Err(HostError::WrongConsent { .. }) if self.may_overwrite => {
                consent_to_overwrite_file(&inspection)?
            }
            // What is in use gets no advice to consent.
            Err(HostError::WrongConsent { .. }) if !inspection.refusals.is_empty() => {
                return Err(
                    HostError::Refused { path: inspection.path, refusals: inspection.refusals }.into()
                );
            }
            Err(HostError::WrongConsent { .. }) => {
                let carries = inspection.holds();
                return Err(ExportError::NotMadeByFlashlab { path: self.path.to_owned(), carries });
            }
            other => other?,
        };
        Ok(Some(consent))
    }

    /// The identity of the file that flashlab made, as the file beside it says.
    fn mark(&self) -> Result<Option<String>, ExportError> {
        let foreign = || ExportError::NoState(self.beside.clone());
        match fs::symlink_metadata(&self.beside) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ExportError::io("look at", self.beside.display())(error)),
            Ok(metadata) if !metadata.is_file() => return Err(foreign()),
            Ok(metadata) if metadata.len() == 0 => return Ok(None),
            Ok(_) => {}
        }
        let head = head(&self.beside).map_err(ExportError::io("read", self.beside.display()))?;
        let end = head.iter().position(|&byte| byte == b'\n').ok_or_else(foreign)?;
        let line = std::str::from_utf8(&head[..end]).map_err(|_| foreign())?;
        line.strip_prefix(MARK).map(|made| Some(made.to_owned())).ok_or_else(foreign)
    }
}

/// An open backing file.
pub(crate) struct OpenBacking {
    /// Open for writing, and locked.
    pub(crate) file: File,
    /// The state of the device that the last server saved; empty if there is none.
    pub(crate) state: Vec<u8>,
    /// Where the next state goes.
    pub(crate) beside: StateFile,
}

/// The file next to an open backing file.
pub(crate) struct StateFile {
    path: PathBuf,
    /// Which file is the backing file.
    identity: String,
}

impl StateFile {
    /// Saves the state of the device, and that the backing file is flashlab's.
    ///
    /// # Errors
    /// If it cannot be written, or a file with the name that it has until it is complete is not a server's.
    pub(crate) fn save(&self, state: &[u8]) -> Result<(), ExportError> {
        let saved = replace(&self.path, &[format!("{MARK}{}\n", self.identity).as_bytes(), state].concat());
        saved.map_err(ExportError::io("write", self.path.display()))
    }
}

/// The file next to a backing file.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".flashlab");
    PathBuf::from(name)
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    flashlab_input::open(path)?.take(MARK_MAX as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Replaces the content of a file with `bytes`, completely or not at all. What a killed server left is removed.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let left = fs::symlink_metadata(&fresh).is_ok_and(|found| found.is_file())
        && head(&fresh).is_ok_and(|head| head.is_empty() || head.starts_with(MARK.as_bytes()));
    if left {
        fs::remove_file(&fresh)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, may_overwrite: bool) -> Result<OpenBacking, ExportError> {
        BackingFile::new(path, may_overwrite).open(Bytes::mib(1))
    }

    #[test]
    fn a_file_is_known_by_its_mark_and_not_by_the_name_of_the_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let opened = open(&path, false).unwrap();
        assert_eq!(opened.state, b"");
        opened.file.set_len(4096).unwrap();
        opened.beside.save(b"state\nand more").unwrap();
        drop(opened);
        assert_eq!(open(&path, false).unwrap().state, b"state\nand more");

        let other = folder.path().join("other");
        fs::write(&other, "somebody's").unwrap();
        fs::copy(beside(&path), beside(&other)).unwrap();
        let refused = open(&other, false).err().unwrap().to_string();
        assert!(refused.contains("was not made by flashlab serve"), "{refused}");
        let opened = open(&other, true).unwrap();
        assert_eq!(opened.state, b"state\nand more");
        opened.beside.save(&opened.state).unwrap();
        drop(opened);
        open(&other, false).unwrap();
        // Another file under the same name is another file.
        fs::rename(&other, folder.path().join("away")).unwrap();
        fs::write(&other, "somebody's").unwrap();
        assert!(matches!(open(&other, false), Err(ExportError::NotMadeByFlashlab { .. })));
    }

    #[test]
    fn no_file_beside_is_replaced_that_a_server_did_not_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let precious = folder.path().join("precious");
        fs::write(&precious, "somebody's").unwrap();
        let beside = beside(&path);
        for make in [
            &(|| fs::write(&beside, "somebody's")) as &dyn Fn() -> io::Result<()>,
            &|| std::os::unix::fs::symlink(&precious, &beside),
            &|| fs::create_dir(&beside),
        ] {
            make().unwrap();
            assert!(matches!(open(&path, true), Err(ExportError::NoState(_))));
            assert!(!path.exists(), "nothing is made");
            let _ = fs::remove_file(&beside).or_else(|_| fs::remove_dir(&beside));
        }
        std::os::unix::fs::symlink(&precious, folder.path().join("disk.flashlab.new")).unwrap();
        assert!(matches!(open(&path, false).unwrap().beside.save(b""), Err(ExportError::Io { .. })));
        std::os::unix::fs::symlink(folder.path().join("nowhere"), folder.path().join("dangling")).unwrap();
        assert!(open(&folder.path().join("dangling"), true).is_err());
        assert!(!folder.path().join("nowhere").exists());
        assert_eq!(fs::read(&precious).unwrap(), b"somebody's");
    }
}
