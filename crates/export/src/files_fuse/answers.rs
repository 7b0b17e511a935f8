//! What the kernel is answered.

use flashlab_repair::{FileStatus, RepairError};
use fuser::{Errno, FileAttr, Generation, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};

use super::VALID;
use crate::file_attributes::attr_of;

pub(super) fn errno_of(error: &RepairError) -> Errno {
    Errno::from_i32(error.io_error().errno)
}

pub(super) fn answer(result: Result<(), RepairError>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno_of(&error)),
    }
}

pub(super) fn answer_extended(value: Result<Vec<u8>, RepairError>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno_of(&error)),
    }
}

pub(super) fn answer_attributes(result: Result<FileStatus, RepairError>, reply: ReplyAttr) {
    match result {
        Ok(status) => reply.attr(&VALID, &attr_of(&status)),
        Err(error) => reply.error(errno_of(&error)),
    }
}

pub(super) fn answer_entry(result: Result<FileAttr, RepairError>, reply: ReplyEntry) {
    match result {
        Ok(attr) => reply.entry(&VALID, &attr, Generation(0)),
        Err(error) => reply.error(errno_of(&error)),
    }
}
