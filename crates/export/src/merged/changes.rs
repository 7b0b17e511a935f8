//! What changes a file beneath: its data and its attributes.

use fuser::{FileHandle, OpenFlags, Request, TimeOrNow, WriteFlags};
use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::MergedFiles;
use crate::file_attributes::{is_root, seconds_of};

const WRITE_ONLY: i32 = 1;

/// What a file gets; `None`: it keeps what it has.
pub(super) struct NewAttributes {
    pub mode: Option<u32>,
    pub user: Option<u32>,
    pub group: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<TimeOrNow>,
    pub modified: Option<TimeOrNow>,
}

impl MergedFiles {
    pub(super) fn write_beneath(
        &self,
        request: &Request,
        (number, file): (u64, FileHandle),
        (offset, data): (u64, &[u8]),
        (write_flags, flags): (WriteFlags, OpenFlags),
    ) -> Result<(), Errno> {
        let appends = OFlags::from_bits_retain(flags.0 as u32).contains(OFlags::APPEND);
        // What the kernel writes from its cache, such as a mapping, has its place.
        match appends && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            true => self.open.append(file, data)?,
            false => self.open.write(file, offset, data)?,
        }
        match write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            true => self.beneath.clear_set_ids(request, number),
            false => Ok(()),
        }
    }

    pub(super) fn set_attributes_beneath(
        &self,
        request: &Request,
        number: u64,
        file: Option<FileHandle>,
        NewAttributes { mode, user, group, size, accessed, modified }: NewAttributes,
    ) -> Result<(), Errno> {
        if let Some(size) = size {
            let opened = file.map(|file| self.open.files.get(file)).transpose()?;
            match opened {
                Some(opened) => rustix::fs::ftruncate(&*opened, size)?,
                None => rustix::fs::ftruncate(self.beneath.open(number, WRITE_ONLY)?, size)?,
            }
            if !is_root(request) {
                self.beneath.clear_set_ids(request, number)?;
            }
        }
        if user.is_some() || group.is_some() {
            self.beneath.change_owner(number, user, group)?;
        }
        // After the owner, whose change clears the set-user-ID bit.
        if let Some(mode) = mode {
            self.beneath.change_mode(number, mode)?;
        }
        if accessed.is_some() || modified.is_some() {
            let times = Timestamps { last_access: timespec(accessed), last_modification: timespec(modified) };
            self.beneath.change_times(number, &times)?;
        }
        Ok(())
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => {
            let (tv_sec, nanoseconds) = seconds_of(time);
            Timespec { tv_sec, tv_nsec: nanoseconds.into() }
        }
    }
}
