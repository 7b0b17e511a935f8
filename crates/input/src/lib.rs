//! Reads files that come from outside, and recognises what they hold: plans, profiles, the files of a run, traces, models.
//!
//! # Model
//! 1. What a path leads to is looked at before it is opened, because opening has effects: opening a pipe waits for its
//!    writer, and opening a tape or a watchdog does something.
//! 2. It is opened without blocking, and looked at once more: the path may lead to something else by then.
//! 3. At most as many bytes are read as the largest file of its kind has.
//!
//! # Invariants
//! - Nothing waits for ever, and nothing is read without an end, whatever a path leads to. [`open_stream`] alone waits, for the
//!   program at the other end of a pipe.
//! - An error says what the file is, where that is what is wrong with it.

mod content;

pub use content::{FileContent, GZIP, HEAD, utf8_of};

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use flashlab_base::Bytes;
use flate2::bufread::MultiGzDecoder;
use rustix::fs::OFlags;

/// What a file should be, and the size of the largest file of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputKind {
    /// Its name in an error message, for example `plan`.
    pub name: &'static str,
    /// No file of this kind is larger.
    pub largest: Bytes,
}

impl InputKind {
    /// A plan. Those that come with flashlab have at most 3 KiB.
    pub const PLAN: InputKind = InputKind { name: "plan", largest: Bytes::mib(1) };
    /// A profile of a simulated device. Those of the zoo have at most 4 KiB.
    pub const PROFILE: InputKind = InputKind { name: "profile", largest: Bytes::mib(1) };
    /// Rows measured on real drives. Those that come with flashlab have at most 33 KiB.
    pub const ROWS: InputKind = InputKind { name: "rows of real drives", largest: Bytes::mib(16) };
    /// A model, or what fio wrote: an entry of a log has 30 bytes, so two million IOs fit.
    pub const MODEL: InputKind = InputKind { name: "model or output of fio", largest: Bytes::mib(64) };
    /// The manifest or another JSON document of a run. It contains the plans of the run.
    pub const DOCUMENT: InputKind = InputKind { name: "document of a run", largest: Bytes::mib(64) };
    /// The lines of the finished runs, of about 1 KiB each: a quarter of a million runs fit.
    pub const RUN_LINES: InputKind = InputKind { name: "list of finished runs", largest: Bytes::mib(256) };
}

/// Opens a regular file for reading.
///
/// # Errors
/// If it is anything else, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    open_if(path, Metadata::is_file)
}

/// Opens a regular file, or a pipe, for reading. Waits until a pipe has a writer.
///
/// # Errors
/// If it is anything else, or cannot be opened.
pub fn open_stream(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.file_type().is_fifo() {
        true => File::open(path),
        false => open(path),
    }
}

fn open_if(path: &Path, is_right: impl Fn(&Metadata) -> bool) -> io::Result<File> {
    let check = |metadata: &Metadata| match is_right(metadata) {
        true => Ok(()),
        // The system's own error is the one that people know.
        false if metadata.is_dir() => Err(io::Error::from(rustix::io::Errno::ISDIR)),
        false => {
            let found = format!("it is a {} and not a file", kind_of(metadata));
            Err(io::Error::new(ErrorKind::InvalidInput, found))
        }
    };
    check(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn kind_of(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_fifo() => "pipe",
        () if kind.is_socket() => "socket",
        () if kind.is_block_device() => "block device",
        () if kind.is_char_device() => "character device",
        () if kind.is_dir() => "directory",
        () => "file",
    }
}

/// The bytes of a regular file of this kind.
///
/// # Errors
/// If it cannot be read, is not a regular file ([`ErrorKind::InvalidInput`]), or is larger than a file of this kind
/// ([`ErrorKind::FileTooLarge`]).
pub fn read(path: &Path, kind: InputKind) -> io::Result<Vec<u8>> {
    let largest = kind.largest;
    let file = open(path)?;
    if file.metadata()?.len() > largest.0 {
        return Err(too_large(kind));
    }
    let mut bytes = Vec::new();
    file.take(largest.0.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest.0 { Err(too_large(kind)) } else { Ok(bytes) }
}

/// The text of a regular file of this kind. What gzip compressed is decompressed, up to the same bound.
///
/// # Errors
/// As [`read`], and if it is not UTF-8 text ([`ErrorKind::InvalidData`]).
pub fn read_text(path: &Path, kind: InputKind) -> io::Result<String> {
    let mut bytes = read(path, kind)?;
    if bytes.starts_with(GZIP) {
        let mut inside = Vec::new();
        MultiGzDecoder::new(&bytes[..]).take(kind.largest.0.saturating_add(1)).read_to_end(&mut inside)?;
        if inside.len() as u64 > kind.largest.0 {
            return Err(too_large(kind));
        }
        bytes = inside;
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no text in UTF-8"))
}

fn too_large(InputKind { name, largest }: InputKind) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it is larger than {largest}, as no {name} is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(path: &Path) -> String {
        read_text(path, InputKind::PLAN).unwrap_err().to_string()
    }

    #[test]
    fn only_regular_files_up_to_their_bound_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        File::create(path("sparse")).unwrap().set_len(8 << 30).unwrap();
        fs::write(path("binary"), [0xff]).unwrap();
        fs::write(path("plan"), "a plan").unwrap();
        assert_eq!(wrong(&path("pipe")), "it is a pipe and not a file");
        assert_eq!(wrong(&path("socket")), "it is a socket and not a file");
        assert_eq!(wrong(Path::new("/dev/zero")), "it is a character device and not a file");
        assert_eq!(wrong(folder.path()), "Is a directory (os error 21)");
        assert_eq!(wrong(&path("sparse")), "it is larger than 1 MiB, as no plan is");
        assert_eq!(wrong(&path("binary")), "it is no text in UTF-8");
        assert_eq!(wrong(&path("none")), "No such file or directory (os error 2)");
        assert_eq!(read_text(&path("plan"), InputKind::PLAN).unwrap(), "a plan");
        assert!(open_stream(Path::new("/dev/zero")).is_err());
    }
}
