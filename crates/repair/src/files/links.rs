//! Symbolic links.
//!
//! # Method
//! The target is the data of a file: it is written to a free page first, then the file, its page and its name are made in one step. So
//! a power failure leaves the whole link or none.

use flashlab_device::Device;

use super::Files;
use super::change::{self, Change};
use super::file::{FileAttributes, FileId, FileKind};
use super::names::check_name;
use crate::error::{FileRefusal, RepairError};

/// The permissions of symbolic links, as Linux shows them.
pub const LINK_PERMISSIONS: u32 = 0o777;
/// The longest target, in bytes, as in Linux; it fits into a page.
const TARGET_MAX: usize = 4095;

impl<D: Device> Files<D> {
    /// Makes a symbolic link. Nobody looks at its target.
    ///
    /// # Errors
    /// As [`Files::create`]; when the target is empty, too long or has a zero byte, or the volume is full.
    pub fn symlink(
        &mut self,
        parent: FileId,
        name: &[u8],
        target: &[u8],
        attributes: FileAttributes,
    ) -> Result<FileId, RepairError> {
        check_name(name)?;
        if target.len() > TARGET_MAX {
            return Err(FileRefusal::NameTooLong.into());
        }
        if target.is_empty() || target.contains(&0) {
            return Err(FileRefusal::Invalid.into());
        }
        if self.named_directory(parent)?.names.contains_key(name) {
            return Err(FileRefusal::Exists.into());
        }
        let size = target.len() as u64;
        let needed =
            change::NODE_BYTES + change::SIZE_BYTES + change::EXTENT_BYTES + change::link_bytes(name);
        self.check_catalogue(needed)?;
        if self.space.free() == 0 {
            self.give_windows_back();
        }
        let pages = self.space.find(None, 1).ok_or(FileRefusal::NoSpace)?;
        let id = self.catalogue.next_id();
        self.space.take(pages);
        let changes = [
            Change::Node { id, kind: FileKind::SymbolicLink, attributes },
            Change::Extent { id, file_page: 0, pages },
            Change::Size { id, size },
            Change::Link { parent, name: name.to_vec(), id },
        ];
        let written = self.volume.write(pages.first * self.layout.page, target);
        if let Err(error) = written.and_then(|()| self.change(&changes)) {
            self.unplan(id, &[(0, pages)]);
            return Err(error);
        }
        self.modified(parent, attributes.modified_ns);
        Ok(id)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// When there is no such link, or the device fails.
    pub fn read_link(&mut self, id: FileId) -> Result<Vec<u8>, RepairError> {
        let node = self.node(id)?;
        if node.kind != FileKind::SymbolicLink {
            return Err(FileRefusal::Invalid.into());
        }
        let mut target = vec![0; node.size.min(TARGET_MAX as u64) as usize];
        self.read_pages(id, 0, &mut target)?;
        Ok(target)
    }
}
