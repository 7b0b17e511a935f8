//! Extended attributes: small values with names that programs give a file (`user.*` of Linux; the names here are without `user.`).
//!
//! # Model
//! The catalogue has them. Their sizes are bounded as those of ext4, which keeps a file's attributes in a block of 4 KiB; so one fits
//! into a page of the catalogue's log.

use flashlab_device::Device;

use super::Files;
use super::change::{self, Change, NAME_MAX};
use super::file::FileId;
use crate::error::{FileRefusal, RepairError};

/// The block in which ext4 keeps the attributes of a file: its header with the end of the entries, and what an entry takes in addition.
const BLOCK_BYTES: usize = 4096;
const BLOCK_HEADER_BYTES: usize = 36;
const ENTRY_BYTES: usize = 16;

/// What may be there before an extended attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetExtended {
    /// One of this name, or none.
    Any,
    /// None.
    Create,
    /// One.
    Replace,
}

impl<D: Device> Files<D> {
    /// Sets an extended attribute.
    ///
    /// # Errors
    /// When there is no such file; when the attribute exists, or does not, and `set` asks for the other; when the name is impossible, or
    /// the file's attributes would take more than ext4 has for them; when the catalogue is full.
    pub fn set_extended(
        &mut self,
        id: FileId,
        name: &[u8],
        value: &[u8],
        set: SetExtended,
        now_ns: i64,
    ) -> Result<(), RepairError> {
        let extended = &self.node(id)?.extended;
        match (set, extended.contains_key(name)) {
            _ if name.is_empty() || name.contains(&0) || name.len() > NAME_MAX => {
                return Err(FileRefusal::Invalid.into());
            }
            (SetExtended::Create, true) => return Err(FileRefusal::Exists.into()),
            (SetExtended::Replace, false) => return Err(FileRefusal::NoAttribute.into()),
            _ => {}
        }
        let entry = |name: &[u8], value: &[u8]| {
            ENTRY_BYTES + name.len().next_multiple_of(4) + value.len().next_multiple_of(4)
        };
        let others = extended.iter().filter(|(other, _)| other.as_slice() != name);
        let taken: usize = others.map(|(name, value)| entry(name, value)).sum();
        if BLOCK_HEADER_BYTES + taken + entry(name, value) > BLOCK_BYTES {
            return Err(FileRefusal::NoSpace.into());
        }
        let charge = |value: &[u8]| change::extended_charge(name, value, self.layout.page);
        let replaced = extended.get(name).map_or(0, |value| charge(value));
        if charge(value) > replaced {
            self.check_catalogue(charge(value) - replaced)?;
        }
        self.change(&[Change::Extended { id, name: name.to_vec(), value: Some(value.to_vec()) }])?;
        self.touched(id, now_ns);
        Ok(())
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// When there is no such file or attribute.
    pub fn extended(&self, id: FileId, name: &[u8]) -> Result<&[u8], RepairError> {
        let found = self.node(id)?.extended.get(name);
        found.map(Vec::as_slice).ok_or(FileRefusal::NoAttribute.into())
    }

    /// The names of the extended attributes.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn extended_names(&self, id: FileId) -> Result<Vec<Vec<u8>>, RepairError> {
        Ok(self.node(id)?.extended.keys().cloned().collect())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As [`Files::extended`].
    pub fn remove_extended(&mut self, id: FileId, name: &[u8], now_ns: i64) -> Result<(), RepairError> {
        self.extended(id, name)?;
        self.change(&[Change::Extended { id, name: name.to_vec(), value: None }])?;
        self.touched(id, now_ns);
        Ok(())
    }
}
