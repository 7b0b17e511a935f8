//! Files and directories that programs make, with their owners and modes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use flashlab_repair::{FileAttributes, FileId, FileKind, RepairError};
use fuser::{FileAttr, INodeNo, Request};

use super::{FilesMount, id_of};
use crate::file_attributes::{PERMISSIONS, SET_GROUP, attr_of};
use crate::shared_files::OpenFiles;

impl FilesMount {
    /// Makes a file or directory in the name of the caller, and opens it if it `is_open`.
    pub(super) fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        (kind, mode): (FileKind, u32),
        is_open: bool,
    ) -> Result<FileAttr, RepairError> {
        self.files.with_shown(|files, now_ns| {
            let parent = id_of(parent);
            let attributes = attributes_in(files, parent, request, (kind, mode), now_ns)?;
            let id = files.create(parent, name.as_bytes(), kind, attributes)?;
            if is_open {
                files.hold(id)?;
            }
            known(files, id)
        })
    }
}

/// The attributes of what a caller makes in a directory.
pub(super) fn attributes_in(
    files: &OpenFiles,
    parent: FileId,
    request: &Request,
    (kind, mode): (FileKind, u32),
    now_ns: i64,
) -> Result<FileAttributes, RepairError> {
    let inherited = files.status(parent)?.attributes;
    let hands_on = inherited.mode & SET_GROUP != 0;
    let group = if hands_on { inherited.group } else { request.gid() };
    let set_group = if hands_on && kind == FileKind::Directory { SET_GROUP } else { 0 };
    Ok(FileAttributes::new(mode & PERMISSIONS | set_group, request.uid(), group, now_ns))
}

/// The attributes of a file that the kernel gets to know. It keeps a directory until it forgets it.
pub(super) fn known(files: &mut OpenFiles, id: FileId) -> Result<FileAttr, RepairError> {
    let status = files.status(id)?;
    if status.kind == FileKind::Directory {
        files.hold(id)?;
    }
    Ok(attr_of(&status))
}
