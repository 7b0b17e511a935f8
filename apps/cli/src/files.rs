//! Reads and writes files that the user names: plans and profiles, outputs.
//!
//! # Invariants
//! - An output replaces only a file that flashlab wrote as the same kind of output. Every other file of a user stays.
//! - A file under the final name is complete: it is written under another name first.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flashlab_host::{HostError, Reason};
use flashlab_input::{FileContent, InputKind};
use flashlab_plan::Plan;
use flashlab_report::shell_word;
use flashlab_samples::seal::PROFILE;
use rustix::fs::{OFlags, fcntl_setfl};

use crate::exit::{Refused, Usage};
use crate::output_part::{self, OutputPart, folder_of};

/// The text of a profile's file.
pub fn profile(file: &str) -> Result<String> {
    let text = text(Path::new(file), InputKind::PROFILE, "")?;
    PROFILE.verify_editable(&text, file).map_err(Usage)?;
    Ok(text)
}

/// The text of a plan's file.
pub fn plan(file: &Path) -> Result<String> {
    text(file, InputKind::PLAN, "; `flashlab plan list` names the plans that come with flashlab")
}

/// The rows of real drives that `reproduce` takes.
pub fn rows(file: &Path) -> Result<String> {
    text(file, InputKind::ROWS, "")
}

/// The text of a plan that comes with flashlab.
pub fn builtin_plan(name: &str) -> Result<&'static str> {
    let found = Plan::builtins().iter().find(|builtin| builtin.name == name);
    let text = found.map(|builtin| builtin.text);
    text.with_context(|| {
        let names: Vec<&str> = Plan::builtins().iter().map(|builtin| builtin.name).collect();
        Usage(format!("there is no plan `{name}`; there are: {}", names.join(", ")))
    })
}

/// Reads a file of this kind. `advice` is the end of the error message.
fn text(file: &Path, kind: InputKind, advice: &str) -> Result<String> {
    let text = flashlab_input::read_text(file, kind).map_err(|error| {
        Usage(format!("cannot read the {} {}: {error}{advice}", kind.name, file.display()))
    })?;
    let content = FileContent::of(text.as_bytes());
    let is_own = matches!(content, FileContent::Plan | FileContent::Profile);
    if content.is_foreign() && !is_own {
        bail!(holds_other(&file.display().to_string(), content, kind.name));
    }
    Ok(text)
}

/// The error for a file that holds something else than what is `expected`.
pub fn holds_other(name: &str, content: FileContent, expected: &str) -> Usage {
    Usage(format!("{name} holds {content}, and no {expected}{}", advice_on(name, content)))
}

/// What to do with a file, as the end of a message; empty where flashlab has no use for it.
pub fn advice_on(name: &str, content: FileContent) -> String {
    content.advice(&shell_word(name)).map_or(String::new(), |advice| format!("; {advice}"))
}

/// The bytes of an existing file by which its kind is recognised.
const HEAD: u64 = 4096;

/// What an output is. A file of the same kind may be replaced, and so may an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A page of HTML.
    Page,
    /// A page of `view` with its runs.
    ViewPage,
    /// Judged expectations as JUnit XML.
    JUnit,
    /// The state of a simulated device.
    State,
    /// A profile of a simulated device.
    Profile,
    /// The counts of `repair run`.
    Counts,
    /// The document of `model fit`.
    Model,
    /// A figure of `reproduce`, as SVG.
    Picture,
    /// Settings for another program, which look like settings that somebody else wrote. So they replace nothing.
    Settings,
}

impl Output {
    fn name(self) -> &'static str {
        match self {
            Output::Page => "a page of flashlab",
            Output::ViewPage => "a page of flashlab view",
            Output::JUnit => "JUnit XML of flashlab",
            Output::State => "a saved state",
            Output::Profile => "a profile",
            Output::Counts => "counts of flashlab",
            Output::Model => "a model of flashlab",
            Output::Picture => "a picture",
            Output::Settings => "settings",
        }
    }

    /// Whether a file that begins with this was written by flashlab as this kind of output.
    fn is_head(self, head: &[u8]) -> bool {
        let text = String::from_utf8_lossy(head);
        let has = |words: &str| text.contains(words);
        match self {
            Output::Page => {
                text.starts_with("<!DOCTYPE html>") && has("name=\"generator\" content=\"flashlab ")
            }
            Output::ViewPage => {
                text.starts_with("<!DOCTYPE html>") && has("name=\"generator\" content=\"flashlab view\"")
            }
            Output::JUnit => text.starts_with("<?xml") && has(flashlab_report::JUNIT_MARK),
            Output::State => head.starts_with(b"FLASHSIM"),
            Output::Profile => {
                PROFILE.without_head(&text).starts_with("version = ")
                    && has("\nname = ")
                    && has("\ncapacity = ")
            }
            Output::Counts => text.starts_with('{') && has("\"written_bytes\": "),
            Output::Model => text.starts_with('{') && has("\"sr\": {"),
            Output::Picture => text.starts_with("<svg "),
            Output::Settings => false,
        }
    }
}

/// Refuses an output that would replace something else, and one that cannot be written. Call it before the work
/// whose result goes there.
pub fn check_output(file: &Path, kind: Output) -> Result<()> {
    refuse_kind(file)?;
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        // It stays open until this program ends: the program at the other end of a pipe must not see an end now.
        std::mem::forget(open_stream(file)?);
        return Ok(());
    }
    check_replaced(file, kind)?;
    let part = output_part::path_of(file)?;
    output_part::name_left(&part);
    create(&part).map_err(|error| failed(file, &error))?;
    let _ = fs::remove_file(part);
    Ok(())
}

/// Writes an output of this kind.
///
/// # Errors
/// [`Refused`] where it would replace something else.
pub fn write_output(file: &Path, kind: Output, content: impl AsRef<[u8]>) -> Result<()> {
    let content = content.as_ref();
    match fs::metadata(file) {
        Ok(found) if !found.is_file() => {
            refuse_kind(file)?;
            // A pipe or a terminal cannot be renamed.
            return open_stream(file)?.write_all(content).map_err(|error| failed(file, &error));
        }
        _ => check_replaced(file, kind)?,
    }
    let part = output_part::path_of(file)?;
    let written = create(&part).and_then(|mut opened| {
        opened.write_all(content)?;
        opened.sync_all()?;
        fs::rename(&part, fs::canonicalize(file).as_deref().unwrap_or(file))?;
        File::open(folder_of(&part))?.sync_all()
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        failed(file, &error)
    })
}

/// A file that must not exist yet. It gets its name when it is complete; a part of it is removed, also by a signal.
pub struct NewFile {
    file: File,
    part: OutputPart,
    path: PathBuf,
}

impl NewFile {
    /// Begins it under another name in the same folder.
    pub fn begin(path: &Path) -> Result<NewFile> {
        refuse_kind(path)?;
        if fs::symlink_metadata(path).is_ok() {
            bail!(Usage(format!("{} exists: choose another file", path.display())));
        }
        let part = OutputPart::begin(path)?;
        let file = create(part.path()).map_err(|error| failed(path, &error))?;
        Ok(NewFile { file, part, path: path.to_owned() })
    }

    /// What is written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its name until it is complete.
    pub fn part(&self) -> &Path {
        self.part.path()
    }

    /// Gives it its name, unless that exists by now.
    pub fn finish(self) -> Result<()> {
        let named = self.file.sync_all().and_then(|()| self.part.rename(&self.path));
        named.map_err(|error| failed(&self.path, &error))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.part.path());
    }
}

/// Makes the file for the messages of a server. A file or link of that name is not opened: it belongs to somebody.
pub fn create_log(file: &Path) -> Result<File> {
    refuse_kind(file)?;
    create(file).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Refused(format!(
            "{} exists, and messages are only written to a new file: give another --log",
            file.display()
        ))
        .into(),
        _ => failed(file, &error),
    })
}

/// Opens a text file of another program, to which text is added. What it contains stays.
pub fn append(file: &Path) -> Result<File> {
    refuse_kind(file)?;
    let is_link = fs::symlink_metadata(file).is_ok_and(|found| found.is_symlink());
    if is_link && fs::metadata(file).is_err() {
        bail!(Usage(format!("{} is a link to a file that does not exist: name a file", file.display())));
    }
    if fs::metadata(file).is_ok_and(|found| found.is_file()) {
        let head = head_of(file).map_err(|error| failed(file, &error))?;
        if flashlab_input::utf8_of(&head).is_none_or(|text| text.contains('\0')) {
            let (file, holds) = (file.display(), FileContent::of(&head));
            bail!(Refused(format!("{file} holds {holds}, to which no text is added: name a file of text")));
        }
        // A file that is used as a disk or swap space, or carries a volume, is no text either.
        let inspection = flashlab_host::inspect(file)?;
        let mut refusals = inspection.refusals;
        // The program that shows the text may have it open.
        refusals.retain(|refusal| refusal.reason != Reason::OpenForWriting);
        if !refusals.is_empty() {
            bail!(HostError::Refused { path: file.to_owned(), refusals });
        }
    }
    match fs::metadata(file) {
        Ok(found) if !found.is_file() => open_stream(file),
        _ => OpenOptions::new().append(true).create(true).open(file).map_err(|error| failed(file, &error)),
    }
}

/// Opens a pipe or a terminal for writing. Does not wait for the reader of a pipe.
fn open_stream(file: &Path) -> Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(file);
    let opened = opened.map_err(|error| match error.raw_os_error() {
        Some(NO_READER) => Usage(format!(
            "{} is a pipe that no program reads: start its reader first, or name a file",
            file.display()
        ))
        .into(),
        _ => failed(file, &error),
    })?;
    // What is written later may wait for the reader.
    fcntl_setfl(&opened, OFlags::empty()).with_context(|| format!("cannot write to {}", file.display()))?;
    Ok(opened)
}

/// ENXIO: nobody has the pipe open for reading, or the file is a socket.
const NO_READER: i32 = rustix::io::Errno::NXIO.raw_os_error();

fn create(part: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(part)
}

/// The error of an output: the command is wrong where the name is, and otherwise the work failed.
fn failed(file: &Path, error: &std::io::Error) -> anyhow::Error {
    let message = format!("cannot write {}: {error}", file.display());
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::PermissionDenied
        | ErrorKind::InvalidFilename
        | ErrorKind::ReadOnlyFilesystem => Usage(format!("{message}; choose another file")).into(),
        ErrorKind::StorageFull => anyhow::anyhow!("{message}; free some space, or choose a file elsewhere"),
        _ => anyhow::anyhow!(message),
    }
}

/// The first bytes of a regular file.
fn head_of(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(file)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// Refuses to replace a file that is not an earlier output of this kind.
fn check_replaced(file: &Path, kind: Output) -> Result<()> {
    let head = match head_of(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(file, &error)),
        Ok(head) if head.is_empty() || kind.is_head(&head) => return Ok(()),
        Ok(head) => head,
    };
    let (file, name, holds) = (file.display(), kind.name(), FileContent::of(&head));
    bail!(Refused(match kind {
        Output::Settings => format!("{file} exists and holds {holds}: choose another file"),
        _ => format!(
            "{file} exists, is not {name} and holds {holds}, which would be lost: choose another file"
        ),
    }))
}

/// An output is a file. A block device that was named by mistake has data that nobody gave away, and a device's name that is
/// written wrong would become a file in /dev.
fn refuse_kind(file: &Path) -> Result<()> {
    match fs::metadata(file) {
        Ok(found) if found.file_type().is_block_device() => bail!(Refused(format!(
            "{} is a block device: outputs are only written to files; name a file",
            file.display()
        ))),
        Ok(found) if found.is_dir() => bail!(Usage(format!("{} is a folder: name a file", file.display()))),
        Ok(found) if found.file_type().is_socket() => {
            bail!(Usage(format!("{} is a socket: name a file", file.display())))
        }
        Ok(found) if found.file_type().is_char_device() && !takes_text(found.rdev()) => {
            bail!(Refused(format!(
                "{} is a character device, and writing to it may do anything: name a file",
                file.display()
            )))
        }
        Err(_) if is_among_devices(file) => bail!(Usage(format!(
            "{} does not exist, and /dev is for devices: name a file elsewhere",
            file.display()
        ))),
        _ => Ok(()),
    }
}

/// Whether a character device is a terminal, or one of null, zero and full (linux/Documentation/admin-guide/devices.txt).
fn takes_text(number: u64) -> bool {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    matches!((major, minor), (1, 3 | 5 | 7) | (4 | 5 | 136..=143, _))
}

/// Whether the file would lie where the kernel makes devices.
fn is_among_devices(file: &Path) -> bool {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => fs::canonicalize(parent),
        _ => std::env::current_dir(),
    };
    folder.is_ok_and(|folder| folder == Path::new("/dev"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_made_among_the_devices() {
        let file = Path::new("/dev/flashlab-no-such-device");
        assert!(check_output(file, Output::Page).is_err());
        assert!(append(file).is_err());
        assert!(create_log(file).is_err());
        assert!(!file.exists());
    }

    #[test]
    fn only_outputs_of_the_same_kind_are_recognised() {
        let sealed = PROFILE.sealed("version = 2\nname = \"x\"\ncapacity = \"1GiB\"\n");
        let kinds = [
            (Output::Page, "<!DOCTYPE html><html><meta name=\"generator\" content=\"flashlab 0.1\">"),
            (Output::State, "FLASHSIM\u{1}"),
            (Output::Profile, "version = 2\nname = \"x\"\ncapacity = \"1GiB\"\n"),
            (Output::Profile, sealed.as_str()),
        ];
        for (kind, head) in kinds {
            for (other, _) in kinds {
                assert_eq!(other.is_head(head.as_bytes()), kind == other, "{other:?} {head}");
            }
        }
        assert!(!Output::Page.is_head(b"<!DOCTYPE html><html>my own page, which flashlab made faster"));
    }
}
