//! The kernel's requests: each is answered on its file's side.

use super::attributes::{attr_of, kind_of};
use super::caller::Caller;
use super::*;
use crate::file_attributes::{is_root, seconds_of};

impl Filesystem for MergedFiles {
    fn init(&mut self, request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.volume.init(request, config)
    }

    fn destroy(&mut self) {
        self.volume.destroy();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT
            && let Some(number) = self.find_merged(name)
        {
            let Named::Merged(merged) = self.named(INodeNo(number)) else {
                return reply.error(fuser::Errno::ENOENT);
            };
            let found = self.attributes(INodeNo(number), merged.beneath);
            return answer_entry(found, reply);
        }
        match self.side_of_name(parent, name) {
            Side::Volume(parent) => self.volume.lookup(request, parent, name, reply),
            Side::Beneath(parent) => answer_added(self.beneath.lookup(parent, name), reply),
        }
    }

    fn forget(&self, request: &Request, node: INodeNo, count: u64) {
        match self.named(node) {
            Named::On(Side::Volume(node)) => self.volume.forget(request, node, count),
            Named::On(Side::Beneath(number)) => self.beneath.forget(number, count),
            Named::Merged(_) => {}
        }
    }

    fn getattr(&self, request: &Request, node: INodeNo, file: Option<FileHandle>, reply: ReplyAttr) {
        match self.side(node) {
            Side::Volume(node) => self.volume.getattr(request, node, file, reply),
            Side::Beneath(number) => answer_attributes(self.attributes(node, number), reply),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        file: Option<FileHandle>,
        created: Option<SystemTime>,
        flags_changed: Option<SystemTime>,
        backup: Option<SystemTime>,
        flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let number = match self.side(node) {
            Side::Volume(node) => {
                return self.volume.setattr(
                    request,
                    node,
                    mode,
                    user,
                    group,
                    size,
                    accessed,
                    modified,
                    changed,
                    file,
                    created,
                    flags_changed,
                    backup,
                    flags,
                    reply,
                );
            }
            Side::Beneath(number) => number,
        };
        let set = || {
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
                let times =
                    Timestamps { last_access: timespec(accessed), last_modification: timespec(modified) };
                self.beneath.change_times(number, &times)?;
            }
            self.attributes(node, number)
        };
        answer_attributes(set(), reply);
    }

    fn readlink(&self, request: &Request, node: INodeNo, reply: ReplyData) {
        match self.side(node) {
            Side::Volume(node) => self.volume.readlink(request, node, reply),
            Side::Beneath(number) => answer_data(self.beneath.read_link(number), reply),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        match self.side_of_name(parent, name) {
            Side::Volume(parent) => self.volume.mknod(request, parent, name, mode, umask, device, reply),
            Side::Beneath(parent) => {
                let kind = rustix::fs::FileType::from_raw_mode(mode);
                let made = Made::Node(kind, device.into());
                answer_added(self.beneath.make(Caller::of(request), parent, name, mode, made), reply);
            }
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        match self.side_of_name(parent, name) {
            Side::Volume(parent) => self.volume.mkdir(request, parent, name, mode, umask, reply),
            Side::Beneath(parent) => {
                answer_added(
                    self.beneath.make(Caller::of(request), parent, name, mode, Made::Directory),
                    reply,
                );
            }
        }
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        match self.side_of_name(parent, name) {
            Side::Volume(parent) => self.volume.symlink(request, parent, name, target, reply),
            Side::Beneath(parent) => {
                let made = Made::Link(target.as_os_str());
                answer_added(self.beneath.make(Caller::of(request), parent, name, 0, made), reply);
            }
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.side_of_name(parent, name) {
            Side::Volume(parent) => self.volume.create(request, parent, name, mode, umask, flags, reply),
            Side::Beneath(parent) => {
                match self.beneath.create(Caller::of(request), parent, name, mode, flags) {
                    Ok((number, status, file)) => {
                        let (attributes, handle) = (attr_of(number, &status), self.open.files.add(file));
                        reply.created(&NOT_KEPT, &attributes, Generation(0), handle, FopenFlags::empty());
                    }
                    Err(error) => reply.error(fuse_errno(error)),
                }
            }
        }
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.side_of_name(parent, name) {
            Side::Volume(parent) => self.volume.unlink(request, parent, name, reply),
            Side::Beneath(parent) => answer(self.beneath.remove(parent, name, AtFlags::empty()), reply),
        }
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.side_of_name(parent, name) {
            Side::Volume(parent) => self.volume.rmdir(request, parent, name, reply),
            Side::Beneath(parent) => answer(self.beneath.remove(parent, name, AtFlags::REMOVEDIR), reply),
        }
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        match (self.side_of_name(parent, name), self.side_of_name(new_parent, new_name)) {
            (Side::Volume(from), Side::Volume(to)) => {
                self.volume.rename(request, from, name, to, new_name, flags, reply);
            }
            (Side::Beneath(from), Side::Beneath(to)) => {
                answer(self.beneath.rename((from, name), (to, new_name), flags.bits()), reply);
            }
            _ => reply.error(fuser::Errno::EXDEV),
        }
    }

    fn link(&self, request: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match (self.side(node), self.side_of_name(parent, name)) {
            (Side::Volume(node), Side::Volume(parent)) => {
                self.volume.link(request, node, parent, name, reply)
            }
            (Side::Beneath(number), Side::Beneath(parent)) => {
                answer_added(self.beneath.link(number, parent, name), reply);
            }
            _ => reply.error(fuser::Errno::EXDEV),
        }
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.side(node) {
            Side::Volume(node) => self.volume.open(request, node, flags, reply),
            Side::Beneath(number) => match self.beneath.open(number, flags.0) {
                Ok(file) => reply.opened(self.open.files.add(file), FopenFlags::empty()),
                Err(error) => reply.error(fuse_errno(error)),
            },
        }
    }

    fn read(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.side(node) {
            Side::Volume(node) => self.volume.read(request, node, file, offset, size, flags, owner, reply),
            Side::Beneath(_) => answer_data(self.open.read(file, offset, size), reply),
        }
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.side(node) {
            Side::Volume(node) => {
                self.volume.write(request, node, file, offset, data, write_flags, flags, owner, reply);
            }
            Side::Beneath(number) => {
                match self.write_beneath(request, (number, file), (offset, data), (write_flags, flags)) {
                    Ok(()) => reply.written(data.len() as u32),
                    Err(error) => reply.error(fuse_errno(error)),
                }
            }
        }
    }

    fn flush(&self, request: &Request, node: INodeNo, file: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        match self.side(node) {
            Side::Volume(node) => self.volume.flush(request, node, file, owner, reply),
            Side::Beneath(_) => reply.ok(),
        }
    }

    fn release(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        flush: bool,
        reply: ReplyEmpty,
    ) {
        match self.side(node) {
            Side::Volume(node) => self.volume.release(request, node, file, flags, owner, flush, reply),
            Side::Beneath(_) => {
                self.open.files.close(file);
                reply.ok();
            }
        }
    }

    fn fsync(&self, request: &Request, node: INodeNo, file: FileHandle, data: bool, reply: ReplyEmpty) {
        match self.side(node) {
            Side::Volume(node) => self.volume.fsync(request, node, file, data, reply),
            Side::Beneath(_) => answer(self.open.sync(file, data), reply),
        }
    }

    fn fsyncdir(&self, request: &Request, node: INodeNo, file: FileHandle, data: bool, reply: ReplyEmpty) {
        match self.named(node) {
            Named::On(Side::Volume(node)) => self.volume.fsyncdir(request, node, file, data, reply),
            Named::On(Side::Beneath(number)) => answer(self.beneath.sync_directory(number), reply),
            // Its names are on both sides.
            Named::Merged(merged) => match self.beneath.sync_directory(merged.beneath) {
                Ok(()) => self.volume.fsyncdir(request, merged.volume(), file, data, reply),
                Err(error) => reply.error(fuse_errno(error)),
            },
        }
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.side(node) {
            Side::Volume(node) => self.volume.fallocate(request, node, file, offset, length, mode, reply),
            Side::Beneath(number) => {
                let allocated = self.open.allocate(file, offset, length, mode);
                let done = allocated.and_then(|()| match is_root(request) {
                    true => Ok(()),
                    false => self.beneath.clear_set_ids(request, number),
                });
                answer(done, reply);
            }
        }
    }

    fn lseek(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.side(node) {
            Side::Volume(node) => self.volume.lseek(request, node, file, offset, whence, reply),
            Side::Beneath(_) => match self.open.seek(file, offset, whence) {
                Ok(offset) => reply.offset(offset),
                Err(error) => reply.error(fuse_errno(error)),
            },
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        new_node: INodeNo,
        new_file: FileHandle,
        new_offset: u64,
        length: u64,
        flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        match (self.side(node), self.side(new_node)) {
            (Side::Volume(node), Side::Volume(new_node)) => self.volume.copy_file_range(
                request, node, file, offset, new_node, new_file, new_offset, length, flags, reply,
            ),
            // The kernel copies through its cache then.
            _ => reply.error(fuser::Errno::EXDEV),
        }
    }

    fn opendir(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let listing = match self.named(node) {
            Named::On(Side::Volume(node)) => return self.volume.opendir(request, node, flags, reply),
            Named::On(Side::Beneath(number)) => self.list_beneath(number),
            Named::Merged(merged) => self.list_merged(merged),
        };
        match listing {
            Ok(listing) => reply.opened(self.open.listings.add(listing), FopenFlags::empty()),
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if let Named::On(Side::Volume(node)) = self.named(node) {
            return self.volume.readdir(request, node, file, offset, reply);
        }
        match self.open.listings.get(file) {
            Ok(listing) => {
                for (index, (number, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
                    if reply.add(INodeNo(*number), index as u64 + 1, *kind, OsStr::from_bytes(name)) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(fuse_errno(error)),
        }
    }

    fn releasedir(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        if let Named::On(Side::Volume(node)) = self.named(node) {
            return self.volume.releasedir(request, node, file, flags, reply);
        }
        self.open.listings.close(file);
        reply.ok();
    }

    fn statfs(&self, request: &Request, node: INodeNo, reply: ReplyStatfs) {
        match self.named(node) {
            Named::On(Side::Volume(node)) => self.volume.statfs(request, node, reply),
            // What is stored there is what the patterns name.
            Named::Merged(merged) => self.volume.statfs(request, merged.volume(), reply),
            Named::On(Side::Beneath(number)) => match self.beneath.space(number) {
                Ok(space) => reply.statfs(
                    space.f_blocks,
                    space.f_bfree,
                    space.f_bavail,
                    space.f_files,
                    space.f_ffree,
                    space.f_bsize as u32,
                    space.f_namemax as u32,
                    space.f_frsize as u32,
                ),
                Err(error) => reply.error(fuse_errno(error)),
            },
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        position: u32,
        reply: ReplyEmpty,
    ) {
        match self.side(node) {
            Side::Volume(node) => self.volume.setxattr(request, node, name, value, flags, position, reply),
            Side::Beneath(number) => {
                let flags = XattrFlags::from_bits_retain(flags as u32);
                let set = self
                    .beneath
                    .path(number)
                    .and_then(|(path, _open)| rustix::fs::setxattr(path, name, value, flags));
                answer(set, reply);
            }
        }
    }

    fn getxattr(&self, request: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.side(node) {
            Side::Volume(node) => self.volume.getxattr(request, node, name, size, reply),
            Side::Beneath(number) => {
                let mut value = vec![0; size as usize];
                let read = self
                    .beneath
                    .path(number)
                    .and_then(|(path, _open)| rustix::fs::getxattr(path, name, &mut value[..]));
                answer_xattr(read, value, size, reply);
            }
        }
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        match self.side(node) {
            Side::Volume(node) => self.volume.listxattr(request, node, size, reply),
            Side::Beneath(number) => {
                let mut value = vec![0; size as usize];
                let read = self
                    .beneath
                    .path(number)
                    .and_then(|(path, _open)| rustix::fs::listxattr(path, &mut value[..]));
                answer_xattr(read, value, size, reply);
            }
        }
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.side(node) {
            Side::Volume(node) => self.volume.removexattr(request, node, name, reply),
            Side::Beneath(number) => {
                let removed =
                    self.beneath.path(number).and_then(|(path, _open)| rustix::fs::removexattr(path, name));
                answer(removed, reply);
            }
        }
    }

    fn access(&self, request: &Request, node: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        match self.side(node) {
            Side::Volume(node) => self.volume.access(request, node, mask, reply),
            Side::Beneath(_) => reply.ok(),
        }
    }
}

impl MergedFiles {
    fn write_beneath(
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

    fn list_beneath(&self, number: u64) -> Result<Listing, Errno> {
        let entries = self.beneath.entries(number)?.into_iter();
        Ok(entries.map(|(number, kind, name)| (number, kind_of(kind), name)).collect())
    }

    /// The names of both sides, each on its own.
    fn list_merged(&self, merged: &Merged) -> Result<Listing, Errno> {
        let mut listing = self.list_beneath(merged.beneath)?;
        listing.retain(|(_, _, name)| !merged.matches(OsStr::from_bytes(name)));
        let on_volume = self.files.with(|files, _| files.entries(FileId(merged.volume().0)));
        let on_volume = on_volume.map_err(|error| Errno::from_raw_os_error(error.io_error().errno))?;
        let matching = on_volume.into_iter().filter(|(name, _)| merged.matches(OsStr::from_bytes(name)));
        listing.extend(matching.map(|(name, status)| (status.id.0, type_of(status.kind), name)));
        Ok(listing)
    }
}

const WRITE_ONLY: i32 = 1;

fn answer(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

fn answer_data(result: Result<Vec<u8>, Errno>, reply: ReplyData) {
    match result {
        Ok(data) => reply.data(&data),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

fn answer_attributes(result: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&NOT_KEPT, &attributes),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

fn answer_entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&NOT_KEPT, &attributes, Generation(0)),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

fn answer_added(result: Result<(u64, Stat), Errno>, reply: ReplyEntry) {
    answer_entry(result.map(|(number, status)| attr_of(number, &status)), reply);
}

fn answer_xattr(result: Result<usize, Errno>, value: Vec<u8>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(length) if size == 0 => reply.size(length as u32),
        Ok(length) => reply.data(&value[..length]),
        Err(error) => reply.error(fuse_errno(error)),
    }
}

/// The kernel takes ENOSYS for an answer about all files.
fn fuse_errno(error: Errno) -> fuser::Errno {
    match error {
        Errno::NOSYS => fuser::Errno::EOPNOTSUPP,
        error => fuser::Errno::from_i32(error.raw_os_error()),
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
