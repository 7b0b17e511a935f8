//! Changes of the catalogue, as its log has them. docs/repair-format.md has them byte by byte.
//!
//! # Invariants
//! - A change lies in one page of the log, so that it is recovered whole or not at all.
//! - Decoding never panics: bytes that do not fit are no change.

use super::budget;
use super::extents::VolumePages;
use super::file::{FileAttributes, FileId, FileKind};
use crate::format::{Decoder, Encoder};

/// The longest name of a file, in bytes, as in Linux.
pub(crate) const NAME_MAX: usize = 255;
/// The longest change: an extended attribute, which ext4's block of 4 KiB bounds.
const LENGTH_MAX: usize = 1 + 8 + 1 + NAME_MAX + 2 + 4096;

/// A change of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A new file, or other attributes of one.
    Node { id: FileId, kind: FileKind, attributes: FileAttributes },
    /// A name for a file.
    Link { parent: FileId, name: Vec<u8>, id: FileId },
    /// A name is removed.
    Unlink { parent: FileId, name: Vec<u8> },
    /// A name is moved, and replaces what had the new one.
    Rename { from: (FileId, Vec<u8>), to: (FileId, Vec<u8>) },
    /// Another size. If it is smaller, the pages behind it are freed.
    Size { id: FileId, size: u64 },
    /// Pages for a hole in a file.
    Extent { id: FileId, file_page: u64, pages: VolumePages },
    /// Pages of a file are freed.
    Hole { id: FileId, file_page: u64, count: u64 },
    /// A file without a name is removed, and its pages are freed.
    Remove { id: FileId },
    /// Another value of an extended attribute; `None`: it is removed.
    Extended { id: FileId, name: Vec<u8>, value: Option<Vec<u8>> },
    /// Two names exchange what they name.
    Exchange { one: (FileId, Vec<u8>), other: (FileId, Vec<u8>) },
}

/// Encoded lengths of the changes that describe a catalogue. Those of constant length, and names, are short ones of `budget`.
pub(crate) const NODE_BYTES: u64 = 1 + 8 + 1 + 4 + 4 + 4 + 3 * 8;
pub(crate) const SIZE_BYTES: u64 = 1 + 8 + 8;
pub(crate) const EXTENT_BYTES: u64 = 1 + 8 + 8 + 8 + 8;

/// The encoded length of a name.
pub(crate) fn link_bytes(name: &[u8]) -> u64 {
    1 + 8 + 1 + name.len() as u64 + 8
}

/// What an extended attribute is charged.
pub(crate) fn extended_charge(name: &[u8], value: &[u8], page: u64) -> u64 {
    budget::charge(1 + 8 + 1 + name.len() as u64 + 2 + value.len() as u64, page)
}

impl Change {
    /// Appends it to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let mut scratch = [0; LENGTH_MAX];
        let mut to = Encoder::new(&mut scratch);
        match self {
            Change::Node { id, kind, attributes } => {
                to.u8(9).u64(id.0).u8(match kind {
                    FileKind::Regular => 0,
                    FileKind::Directory => 1,
                    FileKind::SymbolicLink => 2,
                });
                to.u32(attributes.mode).u32(attributes.user).u32(attributes.group);
                let FileAttributes { modified_ns, changed_ns, accessed_ns, .. } = *attributes;
                to.u64(modified_ns as u64).u64(changed_ns as u64).u64(accessed_ns as u64);
            }
            Change::Link { parent, name, id } => {
                put_name(to.u8(2), (*parent, name)).u64(id.0);
            }
            Change::Unlink { parent, name } => {
                put_name(to.u8(3), (*parent, name));
            }
            Change::Rename { from, to: target } => {
                put_name(put_name(to.u8(4), (from.0, &from.1)), (target.0, &target.1));
            }
            Change::Size { id, size } => {
                to.u8(5).u64(id.0).u64(*size);
            }
            Change::Extent { id, file_page, pages } => {
                to.u8(6).u64(id.0).u64(*file_page).u64(pages.first).u64(pages.count);
            }
            Change::Hole { id, file_page, count } => {
                to.u8(7).u64(id.0).u64(*file_page).u64(*count);
            }
            Change::Remove { id } => {
                to.u8(8).u64(id.0);
            }
            Change::Extended { id, name, value: Some(value) } => {
                put_name(to.u8(10), (*id, name)).u16(value.len() as u16).bytes(value);
            }
            Change::Extended { id, name, value: None } => {
                put_name(to.u8(11), (*id, name));
            }
            Change::Exchange { one, other } => {
                put_name(put_name(to.u8(12), (one.0, &one.1)), (other.0, &other.1));
            }
        }
        let length = to.at();
        bytes.extend_from_slice(&scratch[..length]);
    }

    /// The next change. `None`: these bytes are none.
    pub fn decode(from: &mut Decoder<'_>) -> Option<Change> {
        let change = match from.u8() {
            what @ (1 | 9) => {
                let id = FileId(from.u64());
                let kind = match from.u8() {
                    0 => FileKind::Regular,
                    1 => FileKind::Directory,
                    2 => FileKind::SymbolicLink,
                    _ => return None,
                };
                let (mode, user, group, modified_ns) =
                    (from.u32(), from.u32(), from.u32(), from.u64() as i64);
                let mut attributes = FileAttributes::new(mode, user, group, modified_ns);
                // Up to version 2 a file had one time.
                if what == 9 {
                    (attributes.changed_ns, attributes.accessed_ns) = (from.u64() as i64, from.u64() as i64);
                }
                Change::Node { id, kind, attributes }
            }
            2 => {
                let (parent, name) = name_of(from)?;
                Change::Link { parent, name, id: FileId(from.u64()) }
            }
            3 => {
                let (parent, name) = name_of(from)?;
                Change::Unlink { parent, name }
            }
            4 => Change::Rename { from: name_of(from)?, to: name_of(from)? },
            5 => Change::Size { id: FileId(from.u64()), size: from.u64() },
            6 => Change::Extent {
                id: FileId(from.u64()),
                file_page: from.u64(),
                pages: VolumePages { first: from.u64(), count: from.u64() },
            },
            7 => Change::Hole { id: FileId(from.u64()), file_page: from.u64(), count: from.u64() },
            8 => Change::Remove { id: FileId(from.u64()) },
            10 => {
                let (id, name) = name_of(from)?;
                let length = from.u16();
                Change::Extended { id, name, value: Some(from.slice(length.into())?.to_vec()) }
            }
            11 => {
                let (id, name) = name_of(from)?;
                Change::Extended { id, name, value: None }
            }
            12 => Change::Exchange { one: name_of(from)?, other: name_of(from)? },
            _ => return None,
        };
        (!from.is_short()).then_some(change)
    }
}

fn put_name<'a, 'b>(to: &'a mut Encoder<'b>, (parent, name): (FileId, &[u8])) -> &'a mut Encoder<'b> {
    to.u64(parent.0).u8(name.len() as u8).bytes(name)
}

fn name_of(from: &mut Decoder<'_>) -> Option<(FileId, Vec<u8>)> {
    let parent = FileId(from.u64());
    let length = from.u8();
    Some((parent, from.slice(length.into())?.to_vec()))
}
