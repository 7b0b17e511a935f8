//! Making, finding, renaming and removing files.

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::Files;
use super::catalogue::Node;
use super::change::{self, Change, NAME_MAX};
use super::file::{FileAttributes, FileId, FileKind, FileStatus};
use crate::error::{FileRefusal, RepairError};

impl<D: Device> Files<D> {
    /// The file with a name in a directory.
    ///
    /// # Errors
    /// When there is none.
    pub fn lookup(&self, parent: FileId, name: &[u8]) -> Result<FileId, RepairError> {
        let node = self.directory(parent)?;
        node.names.get(name).copied().ok_or(FileRefusal::Missing.into())
    }

    /// The file at a path from the root, with `/` between its names.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self, path: &[u8]) -> Result<FileId, RepairError> {
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(FileId::ROOT, |parent, name| self.lookup(parent, name))
    }

    /// What is known of a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn status(&self, id: FileId) -> Result<FileStatus, RepairError> {
        let node = self.node(id)?;
        Ok(FileStatus {
            id,
            kind: node.kind,
            attributes: self.attributes(id).unwrap_or(node.attributes),
            size: Bytes(node.size),
            allocated: Bytes(node.extents.pages() * self.layout.page),
            links: match (node.kind, node.links) {
                (FileKind::Directory, 1..) => 2 + node.directories,
                (_, links) => links,
            },
        })
    }

    /// The directory that contains a directory; the root contains itself.
    ///
    /// # Errors
    /// When there is none.
    pub fn parent(&self, id: FileId) -> Result<FileId, RepairError> {
        Ok(self.directory(id)?.parent)
    }

    /// What a directory contains, by name.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn entries(&self, directory: FileId) -> Result<Vec<(Vec<u8>, FileStatus)>, RepairError> {
        let names = &self.directory(directory)?.names;
        names.iter().map(|(name, &id)| Ok((name.clone(), self.status(id)?))).collect()
    }

    /// Makes an empty file or directory.
    ///
    /// # Errors
    /// When the name is taken or impossible, or the catalogue is full.
    pub fn create(
        &mut self,
        parent: FileId,
        name: &[u8],
        kind: FileKind,
        attributes: FileAttributes,
    ) -> Result<FileId, RepairError> {
        check_name(name)?;
        if self.named_directory(parent)?.names.contains_key(name) {
            return Err(FileRefusal::Exists.into());
        }
        self.check_catalogue(change::NODE_BYTES + change::SIZE_BYTES + change::link_bytes(name))?;
        let id = self.catalogue.next_id();
        let link = Change::Link { parent, name: name.to_vec(), id };
        self.change(&[Change::Node { id, kind, attributes }, link])?;
        self.modified(parent, attributes.modified_ns);
        Ok(id)
    }

    /// Gives a file another name in addition.
    ///
    /// # Errors
    /// When it is a directory, or as [`Files::create`].
    pub fn link(&mut self, id: FileId, parent: FileId, name: &[u8], now_ns: i64) -> Result<(), RepairError> {
        check_name(name)?;
        if self.node(id)?.kind == FileKind::Directory {
            return Err(FileRefusal::IsDirectory.into());
        }
        if self.named_directory(parent)?.names.contains_key(name) {
            return Err(FileRefusal::Exists.into());
        }
        self.check_catalogue(change::link_bytes(name))?;
        self.change(&[Change::Link { parent, name: name.to_vec(), id }])?;
        self.modified(parent, now_ns);
        self.touched(id, now_ns);
        Ok(())
    }

    /// Removes a name of a file. The file goes with its last name, when nobody has it open.
    ///
    /// # Errors
    /// When there is no such file, or it is a directory.
    pub fn unlink(&mut self, parent: FileId, name: &[u8], now_ns: i64) -> Result<(), RepairError> {
        let id = self.lookup(parent, name)?;
        if self.node(id)?.kind == FileKind::Directory {
            return Err(FileRefusal::IsDirectory.into());
        }
        let mut changes = vec![Change::Unlink { parent, name: name.to_vec() }];
        changes.extend(self.removal(id)?);
        self.change(&changes)?;
        self.modified(parent, now_ns);
        self.touched(id, now_ns);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// When it is missing or not empty, or no directory.
    pub fn remove_directory(&mut self, parent: FileId, name: &[u8], now_ns: i64) -> Result<(), RepairError> {
        let id = self.lookup(parent, name)?;
        if !self.directory(id)?.names.is_empty() {
            return Err(FileRefusal::NotEmpty.into());
        }
        let mut changes = vec![Change::Unlink { parent, name: name.to_vec() }];
        changes.extend(self.removal(id)?);
        self.change(&changes)?;
        self.modified(parent, now_ns);
        self.touched(id, now_ns);
        Ok(())
    }

    /// Gives a file or directory another name, in one step. What had the new name is removed.
    ///
    /// # Errors
    /// When there is no such file; when `replaces` is false and the new name is taken; when a directory would replace a file, or
    /// a file a directory, or anything a directory that is not empty; when a directory would be in itself.
    pub fn rename(
        &mut self,
        from: (FileId, &[u8]),
        to: (FileId, &[u8]),
        replaces: bool,
        now_ns: i64,
    ) -> Result<(), RepairError> {
        check_name(to.1)?;
        let id = self.lookup(from.0, from.1)?;
        let kind = self.node(id)?.kind;
        let target = self.named_directory(to.0)?.names.get(to.1).copied();
        if kind == FileKind::Directory && self.is_within(to.0, id)? {
            return Err(FileRefusal::Invalid.into());
        }
        let mut removed = None;
        if let Some(target) = target {
            let replaced = self.node(target)?;
            match (kind, replaced.kind) {
                _ if !replaces => return Err(FileRefusal::Exists.into()),
                _ if target == id => return Ok(()),
                (FileKind::Directory, replaced) if replaced != FileKind::Directory => {
                    return Err(FileRefusal::NotDirectory.into());
                }
                (kind, FileKind::Directory) if kind != FileKind::Directory => {
                    return Err(FileRefusal::IsDirectory.into());
                }
                _ if !replaced.names.is_empty() => return Err(FileRefusal::NotEmpty.into()),
                _ => removed = self.removal(target)?,
            }
        }
        self.check_catalogue(to.1.len() as u64)?;
        let mut changes = vec![Change::Rename { from: (from.0, from.1.to_vec()), to: (to.0, to.1.to_vec()) }];
        changes.extend(removed);
        self.change(&changes)?;
        [from.0, to.0].into_iter().for_each(|parent| self.modified(parent, now_ns));
        [Some(id), target].into_iter().flatten().for_each(|id| self.touched(id, now_ns));
        Ok(())
    }

    /// Exchanges what two names name, in one step.
    ///
    /// # Errors
    /// When there is no such file, or a directory would be in itself.
    pub fn exchange(
        &mut self,
        one: (FileId, &[u8]),
        other: (FileId, &[u8]),
        now_ns: i64,
    ) -> Result<(), RepairError> {
        let ids = [self.lookup(one.0, one.1)?, self.lookup(other.0, other.1)?];
        for (id, to) in ids.into_iter().zip([other.0, one.0]) {
            if self.node(id)?.kind == FileKind::Directory && self.is_within(to, id)? {
                return Err(FileRefusal::Invalid.into());
            }
        }
        if ids[0] == ids[1] {
            return Ok(());
        }
        let (named, with) = ((one.0, one.1.to_vec()), (other.0, other.1.to_vec()));
        self.change(&[Change::Exchange { one: named, other: with }])?;
        [one.0, other.0].into_iter().for_each(|parent| self.modified(parent, now_ns));
        ids.into_iter().for_each(|id| self.touched(id, now_ns));
        Ok(())
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// When there is no such file, or the device fails.
    pub fn set_attributes(&mut self, id: FileId, attributes: FileAttributes) -> Result<(), RepairError> {
        let kind = self.node(id)?.kind;
        self.changed.remove(&id);
        self.change(&[Change::Node { id, kind, attributes }])
    }

    /// Notes that a program has the file open.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn hold(&mut self, id: FileId) -> Result<(), RepairError> {
        self.node(id)?;
        *self.opens.entry(id).or_default() += 1;
        Ok(())
    }

    /// Notes that a program closed the file. If it has no name, it is removed with the last one.
    ///
    /// # Errors
    /// When the device fails.
    pub fn release(&mut self, id: FileId) -> Result<(), RepairError> {
        self.release_times(id, 1)
    }

    /// As [`Files::release`], several times.
    ///
    /// # Errors
    /// As [`Files::release`].
    pub fn release_times(&mut self, id: FileId, times: u64) -> Result<(), RepairError> {
        let Some(count) = self.opens.get_mut(&id) else { return Ok(()) };
        *count = count.saturating_sub(times);
        if *count > 0 {
            return Ok(());
        }
        self.opens.remove(&id);
        self.give_window_back(id);
        match self.catalogue.node(id) {
            Some(node) if node.links == 0 => self.change(&[Change::Remove { id }]),
            _ => Ok(()),
        }
    }

    /// The removal of a file whose name is being removed, if that is its last one and nobody has it open.
    fn removal(&self, id: FileId) -> Result<Option<Change>, RepairError> {
        let goes = self.node(id)?.links == 1 && !self.opens.contains_key(&id);
        Ok(goes.then_some(Change::Remove { id }))
    }

    pub(super) fn directory(&self, id: FileId) -> Result<&Node, RepairError> {
        let node = self.node(id)?;
        match node.kind {
            FileKind::Directory => Ok(node),
            FileKind::Regular | FileKind::SymbolicLink => Err(FileRefusal::NotDirectory.into()),
        }
    }

    /// A directory that was not removed: it takes new names.
    pub(super) fn named_directory(&self, id: FileId) -> Result<&Node, RepairError> {
        let node = self.directory(id)?;
        if node.links > 0 { Ok(node) } else { Err(FileRefusal::Missing.into()) }
    }

    /// Whether a directory is another one or lies in it.
    fn is_within(&self, directory: FileId, other: FileId) -> Result<bool, RepairError> {
        let mut at = directory;
        while at != other {
            if at == FileId::ROOT {
                return Ok(false);
            }
            at = self.directory(at)?.parent;
        }
        Ok(true)
    }
}

pub(super) fn check_name(name: &[u8]) -> Result<(), RepairError> {
    if name.len() > NAME_MAX {
        return Err(FileRefusal::NameTooLong.into());
    }
    let is_impossible =
        name.is_empty() || name == b"." || name == b".." || name.iter().any(|&byte| matches!(byte, b'/' | 0));
    if is_impossible { Err(FileRefusal::Invalid.into()) } else { Ok(()) }
}
