//! What is known of a file.

use flashlab_base::Bytes;

/// The number of a file. It is not used for another file while the volume is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl FileId {
    /// The directory that contains all files.
    pub const ROOT: FileId = FileId(1);
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file with data.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link. Its target is its data.
    SymbolicLink,
}

/// What is kept of a file beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// The permissions: the lowest twelve bits of Linux's mode.
    pub mode: u32,
    /// The user that it belongs to.
    pub user: u32,
    /// The group that it belongs to.
    pub group: u32,
    /// When its data was last changed, in nanoseconds since the beginning of 1970.
    pub modified_ns: i64,
    /// When anything of it was last changed.
    pub changed_ns: i64,
    /// When it was last read, as `relatime` keeps it.
    pub accessed_ns: i64,
}

impl FileAttributes {
    /// Of a file that is made now.
    pub fn new(mode: u32, user: u32, group: u32, now_ns: i64) -> FileAttributes {
        FileAttributes { mode, user, group, modified_ns: now_ns, changed_ns: now_ns, accessed_ns: now_ns }
    }
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// Its number.
    pub id: FileId,
    /// What it is.
    pub kind: FileKind,
    /// Permissions, owner, times.
    pub attributes: FileAttributes,
    /// Its size.
    pub size: Bytes,
    /// What it takes on the volume.
    pub allocated: Bytes,
    /// The number of its names. Of a directory, as Linux counts: 2, and 1 for each directory in it; 0 when it was removed.
    pub links: u32,
}

/// How much of the volume files take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilesUsage {
    /// What files may take altogether.
    pub total: Bytes,
    /// What no file has.
    pub free: Bytes,
    /// Files and directories.
    pub files: u64,
    /// The files that the catalogue takes in addition, with names of 24 bytes and an extent each.
    pub free_files: u64,
}
