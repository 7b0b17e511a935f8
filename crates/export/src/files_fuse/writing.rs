//! What changes the data of a file: writes, and the ranges of `fallocate`.
//!
//! # Method
//! A write that overwrites whole pages is acknowledged before it is done ([`flashlab_repair::Files::overwrite_acknowledging`]). Others are
//! acknowledged when they are done, also those that clear set-ID bits. Where space runs out, the beginning is written, as on ext4: a program
//! that writes is told how much, and one that changed a mapping gets an error from its next msync or fsync.

use flashlab_repair::{FileAttributes, FileId, FileRefusal, RepairError};
use fuser::{INodeNo, OpenFlags, ReplyWrite, Request, WriteFlags};
use rustix::fs::OFlags;

use super::answers::errno_of;
use super::{FilesMount, id_of};
use crate::file_attributes::without_set_ids;
use crate::shared_files::OpenFiles;

impl FilesMount {
    pub(super) fn write_data(
        &self,
        request: &Request,
        node: INodeNo,
        (offset, data): (u64, &[u8]),
        (write_flags, flags): (WriteFlags, OpenFlags),
        reply: ReplyWrite,
    ) {
        self.awake.used();
        let clears = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let is_direct = flags.0 & OFlags::DIRECT.bits() as i32 != 0;
        // What a program changed in a mapping. The kernel ignores that less is written than it sent, but reports an error to the next
        // msync or fsync.
        let is_mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let (mut reply, mut is_cleared) = (Some(reply), false);
        let written = self.files.with(|files, now_ns| {
            let acknowledge = || {
                if let Some(reply) = reply.take() {
                    self.counts.written(data.len());
                    reply.written(data.len() as u32);
                }
            };
            if !clears && files.overwrite_acknowledging(id_of(node), offset, data, now_ns, acknowledge) {
                return Ok(data.len());
            }
            let written = match is_direct {
                // The kernel makes EIO of a direct write that ends early.
                true => files.write(id_of(node), Some(offset), data, now_ns).map(|_| data.len())?,
                false => write_what_fits(files, id_of(node), offset, data, now_ns)?,
            };
            if is_mapped && written < data.len() {
                return Err(FileRefusal::NoSpace.into());
            }
            if clears {
                is_cleared = clear_set_ids(files, id_of(node), request, now_ns)?;
            }
            Ok::<usize, RepairError>(written)
        });
        if is_cleared {
            self.let_mode_be_asked(node);
        }
        match (written, reply) {
            // It was acknowledged before it was done.
            (_, None) => {}
            (Ok(length), Some(reply)) => {
                self.counts.written(length);
                reply.written(length as u32);
            }
            (Err(error), Some(reply)) => reply.error(errno_of(&error)),
        }
    }
}

/// Clears the set-user-ID and set-group-ID bits after a change by a user who may not keep them. Whether one was set.
pub(super) fn clear_set_ids(
    files: &mut OpenFiles,
    id: FileId,
    request: &Request,
    now_ns: i64,
) -> Result<bool, RepairError> {
    let old = files.status(id)?.attributes;
    let mode = without_set_ids(old.mode, old.group, request);
    if mode != old.mode {
        files.set_attributes(id, FileAttributes { mode, changed_ns: now_ns, ..old })?;
    }
    Ok(mode != old.mode)
}

/// Writes data; where it does not fit, its beginning, as ext4 does.
fn write_what_fits(
    files: &mut OpenFiles,
    id: FileId,
    offset: u64,
    data: &[u8],
    now_ns: i64,
) -> Result<usize, RepairError> {
    let refused = match files.write(id, Some(offset), data, now_ns) {
        Ok(_) => return Ok(data.len()),
        Err(error) => error,
    };
    if refused != RepairError::File(FileRefusal::NoSpace) {
        return Err(refused);
    }
    // The first page of the range may be the file's already.
    let page = files.volume().layout().options.page.0;
    let free = files.usage().free.0 / page * page;
    for fits in [free + page, free].map(|end| end.saturating_sub(offset % page)) {
        if fits > 0
            && fits < data.len() as u64
            && files.write(id, Some(offset), &data[..fits as usize], now_ns).is_ok()
        {
            return Ok(fits as usize);
        }
    }
    Err(refused)
}

/// Linux's `fallocate`, with its mode: allocates a range, punches a hole or zeroes it.
pub(super) fn fallocate(
    files: &mut OpenFiles,
    id: FileId,
    (offset, length): (u64, u64),
    mode: u32,
    now_ns: i64,
) -> Result<(), RepairError> {
    const KEEP_SIZE: u32 = 1;
    const PUNCH_HOLE: u32 = 2;
    const ZERO_RANGE: u32 = 16;
    let keeps_size = mode & KEEP_SIZE != 0;
    match mode & !KEEP_SIZE {
        0 => files.allocate(id, offset, length, keeps_size, now_ns),
        PUNCH_HOLE => files.punch(id, offset, length, now_ns),
        ZERO_RANGE => {
            files.punch(id, offset, length, now_ns)?;
            files.allocate(id, offset, length, keeps_size, now_ns)
        }
        _ => Err(FileRefusal::NotSupported.into()),
    }
}
