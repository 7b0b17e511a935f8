//! Changes of the catalogue, as its log has them. docs/repair-format.md has them byte by byte.
//!
//! # Invariants
//! - A change lies in one page of the log, so that it is recovered whole or not at all.
//! - Decoding never panics: bytes that do not fit are no change.

use super::extents::VolumePages;
use super::file::{FileAttributes, FileId, FileKind};
use crate::format::{Decoder, Encoder};

/// The longest name of a file, in bytes, as in Linux.
pub(crate) const NAME_MAX: usize = 255;
/// The longest change: a renaming.
pub(crate) const LENGTH_MAX: usize = 1 + 2 * (8 + 1 + NAME_MAX);

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
}

/// Encoded lengths of the changes that describe a catalogue.
pub(crate) const NODE_BYTES: u64 = 1 + 8 + 1 + 4 + 4 + 4 + 8;
pub(crate) const SIZE_BYTES: u64 = 1 + 8 + 8;
pub(crate) const EXTENT_BYTES: u64 = 1 + 8 + 8 + 8 + 8;

/// The encoded length of a name.
pub(crate) fn link_bytes(name: &[u8]) -> u64 {
    1 + 8 + 1 + name.len() as u64 + 8
}

impl Change {
    /// Appends it to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let mut scratch = [0; LENGTH_MAX];
        let mut to = Encoder::new(&mut scratch);
        match self {
            Change::Node { id, kind, attributes } => {
                to.u8(1).u64(id.0).u8(match kind {
                    FileKind::Regular => 0,
                    FileKind::Directory => 1,
                    FileKind::SymbolicLink => 2,
                });
                to.u32(attributes.mode).u32(attributes.user).u32(attributes.group);
                to.u64(attributes.modified_ns);
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
        }
        let length = to.at();
        bytes.extend_from_slice(&scratch[..length]);
    }

    /// The next change. `None`: these bytes are none.
    pub fn decode(from: &mut Decoder<'_>) -> Option<Change> {
        let change = match from.u8() {
            1 => Change::Node {
                id: FileId(from.u64()),
                kind: match from.u8() {
                    0 => FileKind::Regular,
                    1 => FileKind::Directory,
                    2 => FileKind::SymbolicLink,
                    _ => return None,
                },
                attributes: FileAttributes {
                    mode: from.u32(),
                    user: from.u32(),
                    group: from.u32(),
                    modified_ns: from.u64(),
                },
            },
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
