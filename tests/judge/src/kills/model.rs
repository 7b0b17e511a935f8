//! The files of a writer as bytes in memory, and what an operation does to them.

use std::collections::BTreeMap;

use super::operation::{Operation, content};

/// The files of a writer by name.
pub type Files = BTreeMap<char, Vec<u8>>;

/// Does the operation to the files. `session`, `writer` and `number` decide the bytes.
pub fn apply(files: &mut Files, operation: &Operation, session: u64, writer: usize, number: u64) {
    match *operation {
        Operation::Create { file } => {
            files.insert(file, Vec::new());
        }
        Operation::Write { file, offset, length, .. } | Operation::Map { file, offset, length } => {
            put(files.entry(file).or_default(), offset, &content(session, writer, number, length));
        }
        Operation::Append { file, length, .. } => {
            files.entry(file).or_default().extend(content(session, writer, number, length));
        }
        Operation::Truncate { file, size } => files.entry(file).or_default().resize(size as usize, 0),
        Operation::Punch { file, offset, length } => {
            let bytes = files.entry(file).or_default();
            let size = bytes.len();
            bytes[(offset as usize).min(size)..((offset + length) as usize).min(size)].fill(0);
        }
        Operation::Allocate { file, offset, length } => {
            let bytes = files.entry(file).or_default();
            bytes.resize(bytes.len().max((offset + length) as usize), 0);
        }
        Operation::Copy { from, to, offset, at, length } => {
            let source = files.get(&from).map(Vec::as_slice).unwrap_or_default();
            let range = (offset as usize).min(source.len())..((offset + length) as usize).min(source.len());
            let copied = source[range].to_vec();
            put(files.entry(to).or_default(), at, &copied);
        }
        Operation::Rename { from, to } => {
            if let Some(bytes) = files.remove(&from) {
                files.insert(to, bytes);
            }
        }
        Operation::Unlink { file } => {
            files.remove(&file);
        }
        Operation::Fsync { .. } | Operation::Fdatasync { .. } | Operation::SyncDirectory => {}
    }
}

fn put(bytes: &mut Vec<u8>, offset: u64, written: &[u8]) {
    let end = offset as usize + written.len();
    if bytes.len() < end && !written.is_empty() {
        bytes.resize(end, 0);
    }
    if !written.is_empty() {
        bytes[offset as usize..end].copy_from_slice(written);
    }
}

/// In which parts an operation may become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Pages from the first one on, as the volume takes a write.
    PagesInOrder,
    /// Bytes from the first one on: the kernel copies a range in several writes that end anywhere.
    BytesInOrder,
    /// Pages in any order, as the kernel writes a mapping back.
    Pages,
}

/// The file whose bytes an operation changes, if it changes bytes, and in which parts.
pub fn written_file(operation: &Operation) -> Option<(char, Parts)> {
    match *operation {
        Operation::Map { file, .. } => Some((file, Parts::Pages)),
        Operation::Write { file, .. } | Operation::Append { file, .. } => Some((file, Parts::PagesInOrder)),
        Operation::Punch { file, .. } | Operation::Allocate { file, .. } => Some((file, Parts::PagesInOrder)),
        Operation::Copy { to, .. } => Some((to, Parts::BytesInOrder)),
        _ => None,
    }
}
