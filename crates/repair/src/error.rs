//! What can be wrong with a volume.

use std::fmt;

use flashlab_base::Bytes;
use flashlab_device::IoError;
use thiserror::Error;

/// Why a volume cannot be made, opened or used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The device carries no volume.
    #[error(
        "there is no flashlab volume: no copy of the superblock has its magic number; name a file or device that has one (`flashlab repair create FILE` makes one, in a new file)"
    )]
    NoVolume,
    /// There are superblocks, and none is as it was written.
    #[error(
        "the device carries a flashlab volume, but none of its superblocks has the right checksum: without one nothing of it can be read; restore the first 4 KiB from a copy of the device"
    )]
    NoSuperblock,
    /// A later or earlier version of the format.
    #[error("the volume has version {0} of the format, and this flashlab reads version {version}: use the flashlab that made it", version = crate::format::VERSION)]
    OtherVersion(u32),
    /// The device is smaller than the volume on it.
    #[error(
        "the volume takes {volume}, but the device has {device}: it was truncated, or it is another device"
    )]
    Truncated {
        /// What the volume takes.
        volume: Bytes,
        /// What the device has.
        device: Bytes,
    },
    /// The options for a new volume do not fit together or do not fit the device.
    #[error("{0}")]
    Options(String),
    /// The map needs more memory than allowed.
    #[error(
        "the map of this volume needs {needed} of memory, and the limit is {limit}: raise the limit, or make the volume with larger pages"
    )]
    Memory {
        /// What it needs.
        needed: Bytes,
        /// What it may have.
        limit: Bytes,
    },
    /// Something on the device is not what was written there, and no copy of it is left.
    #[error(
        "{what} at byte {offset} of the device is damaged: {why}; `flashlab repair dump` copies out what can be read"
    )]
    Damaged {
        /// Which structure.
        what: &'static str,
        /// Where it begins.
        offset: u64,
        /// What does not fit.
        why: String,
    },
    /// The catalogue of files is not what was written there.
    #[error(
        "{what} at byte {offset} of the volume is damaged: {why}; `flashlab repair dump --files` copies out the files that can be read"
    )]
    DamagedFiles {
        /// Which part of it.
        what: &'static str,
        /// Where that begins in the volume.
        offset: u64,
        /// What does not fit.
        why: String,
    },
    /// The device failed an IO.
    #[error("cannot {action} {size} at byte {offset} of the device: {error}")]
    Io {
        /// Read, write, flush or discard.
        action: &'static str,
        /// The first byte.
        offset: u64,
        /// How much.
        size: Bytes,
        /// The device's error.
        error: IoError,
    },
    /// An earlier write or flush failed, so that what is durable is not known.
    #[error(
        "the volume accepts no more writes: {0}; what was flushed before is durable: close the volume, find out what the device has, and open it again"
    )]
    Poisoned(String),
    /// Whoever called asked for an end.
    #[error("the simulation was interrupted")]
    Interrupted,
    /// A thread panicked while it used the volume.
    #[error("a thread that used it failed inside")]
    Panicked,
    /// The volume was closed.
    #[error("it was closed")]
    Closed,
    /// No segment can be reclaimed.
    #[error("the volume is full: packing finds no segment with a page that was overwritten or discarded")]
    Full,
    /// The volume is used as a block device.
    #[error(
        "the volume holds the data of a block device, which files would destroy: serve it with `flashlab repair serve`, or make another volume for files; to lose that data, `flashlab repair erase` and `flashlab repair create`"
    )]
    NoFiles,
    /// Files of a later or earlier version.
    #[error("the volume's files have version {0} of their format, and this flashlab reads version {version}: use the flashlab that made them", version = crate::format::FILES_VERSION)]
    OtherFilesVersion(u32),
    /// The operation on a file is not possible.
    #[error("{0}")]
    File(FileRefusal),
    /// The range is not inside the volume.
    #[error("the range ends beyond the volume, which has {0}")]
    OutOfRange(Bytes),
}

impl RepairError {
    /// The errno with which an IO on the volume ends.
    pub fn io_error(&self) -> IoError {
        match self {
            // ENOSPC is the same number as a range beyond the capacity.
            RepairError::Full | RepairError::OutOfRange(_) => IoError::OUT_OF_RANGE,
            RepairError::Io { error, .. } => *error,
            RepairError::File(refusal) => IoError { errno: refusal.errno() },
            _ => IoError::IO,
        }
    }
}

/// Why an operation on a file is not possible, as Linux names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileRefusal {
    /// There is no such file.
    Missing,
    /// There is one already.
    Exists,
    /// It is no directory.
    NotDirectory,
    /// It is a directory.
    IsDirectory,
    /// The directory is not empty.
    NotEmpty,
    /// The name is empty, or contains `/` or a zero byte; a directory would be in itself; or it is no symbolic link.
    Invalid,
    /// The name is longer than 255 bytes, or the target of a symbolic link longer than 4095.
    NameTooLong,
    /// It is a symbolic link, which has no data of its own.
    SymbolicLink,
    /// The file would become larger than any file.
    TooLarge,
    /// All pages are used.
    NoSpace,
    /// The catalogue takes no more files, names or extents.
    CatalogueFull,
    /// There is no data behind this offset of the file.
    NoData,
    /// The file has no such extended attribute.
    NoAttribute,
    /// Files of a volume cannot do this.
    NotSupported,
}

impl FileRefusal {
    /// The number that Linux returns.
    pub fn errno(self) -> i32 {
        match self {
            FileRefusal::Missing => 2,
            FileRefusal::NoData => 6,
            FileRefusal::Exists => 17,
            FileRefusal::NotDirectory => 20,
            FileRefusal::IsDirectory => 21,
            FileRefusal::Invalid => 22,
            FileRefusal::TooLarge => 27,
            FileRefusal::NoSpace | FileRefusal::CatalogueFull => 28,
            FileRefusal::NameTooLong => 36,
            FileRefusal::NotEmpty => 39,
            FileRefusal::SymbolicLink => 40,
            FileRefusal::NoAttribute => 61,
            FileRefusal::NotSupported => 95,
        }
    }
}

impl fmt::Display for FileRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileRefusal::Missing => "there is no such file",
            FileRefusal::Exists => "the file exists",
            FileRefusal::NotDirectory => "it is no directory",
            FileRefusal::IsDirectory => "it is a directory",
            FileRefusal::NotEmpty => "the directory is not empty",
            FileRefusal::Invalid => {
                "the name is empty, or contains `/` or a zero byte; a directory would be in itself; or it is no symbolic link"
            }
            FileRefusal::NameTooLong => {
                "the name is longer than 255 bytes, or the target of a symbolic link longer than 4095"
            }
            FileRefusal::SymbolicLink => "it is a symbolic link, which has no data of its own",
            FileRefusal::TooLarge => "the file would be too large",
            FileRefusal::NoSpace => "all pages of the volume are used by files",
            FileRefusal::NoData => "the file has no data behind this offset",
            FileRefusal::NoAttribute => "the file has no such extended attribute",
            FileRefusal::NotSupported => "files of a volume cannot do this",
            FileRefusal::CatalogueFull => {
                "the catalogue is full: remove files, or make a larger volume, which has a larger catalogue"
            }
        })
    }
}

impl From<FileRefusal> for RepairError {
    fn from(refusal: FileRefusal) -> RepairError {
        RepairError::File(refusal)
    }
}
