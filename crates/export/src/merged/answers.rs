//! What the kernel is answered about files beneath.

use fuser::{FileAttr, Generation, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyXattr};
use rustix::fs::Stat;
use rustix::io::Errno;

use super::NOT_KEPT;
use super::attributes::attr_of;

pub(super) fn answer(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

pub(super) fn answer_data(result: Result<Vec<u8>, Errno>, reply: ReplyData) {
    match result {
        Ok(data) => reply.data(&data),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

pub(super) fn answer_attributes(result: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&NOT_KEPT, &attributes),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

pub(super) fn answer_entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&NOT_KEPT, &attributes, Generation(0)),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

pub(super) fn answer_added(result: Result<(u64, Stat), Errno>, reply: ReplyEntry) {
    answer_entry(result.map(|(number, status)| attr_of(number, &status)), reply);
}

pub(super) fn answer_xattr(result: Result<usize, Errno>, value: Vec<u8>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(length) if size == 0 => reply.size(length as u32),
        Ok(length) => reply.data(&value[..length]),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

/// The kernel takes ENOSYS for an answer about all files.
pub(super) fn fuse_errno(error: Errno) -> fuser::Errno {
    match error {
        Errno::NOSYS => fuser::Errno::EOPNOTSUPP,
        error => fuser::Errno::from_i32(error.raw_os_error()),
    }
}
