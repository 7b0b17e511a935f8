//! The kernel's requests: each is answered on its file's side.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{AtFlags, XattrFlags};

use super::answers::{
    answer, answer_added, answer_attributes, answer_data, answer_entry, answer_xattr, fuse_errno,
};
use super::attributes::attr_of;
use super::beneath::Made;
use super::caller::Caller;
use super::changes::NewAttributes;
use super::{MergedFiles, NOT_KEPT, Named, Side};
use crate::file_attributes::is_root;

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
        let new = NewAttributes { mode, user, group, size, accessed, modified };
        let set = self.set_attributes_beneath(request, number, file, new);
        answer_attributes(set.and_then(|()| self.attributes(node, number)), reply);
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
