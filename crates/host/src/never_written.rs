//! Finds space of a target that was never written or was trimmed. Reads of it do not reach the flash.
//!
//! The holes of a file are known from its file system. On a block device a few blocks are read. On nearly
//! every device, trimmed or never written space reads as zeroes. A block that somebody filled with zeroes
//! looks the same from outside.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use flashlab_base::{Bytes, Prng, Seed};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::error::HostError;
use crate::node::Node;

/// How many blocks of a device are read, and their size.
const BLOCKS: u64 = 64;
const BLOCK: u64 = 4096;

/// How much of a target may never have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeverWritten {
    /// Bytes of a file that are holes.
    Holes(Bytes),
    /// Blocks that contain only zeroes, and the number of blocks that were read.
    Zeroes {
        /// How many do.
        zero: u64,
        /// How many were read.
        read: u64,
    },
}

impl NeverWritten {
    /// Whether there is any such space.
    pub fn is_any(self) -> bool {
        !matches!(self, NeverWritten::Holes(Bytes::ZERO) | NeverWritten::Zeroes { zero: 0, .. })
    }
}

/// Checks the first `size` bytes of a block device or a file.
///
/// # Errors
/// If it cannot be read.
pub fn never_written(path: &Path, size: Bytes, seed: Seed) -> Result<NeverWritten, HostError> {
    let failed = |error| HostError::system("read", path, error);
    let node = Node::at(path)?;
    let file = File::open(path).map_err(failed)?;
    match node {
        Node::File { .. } => holes(&file, size.0).map(NeverWritten::Holes),
        Node::Device(_) => zeroes(&file, size.0, seed),
    }
    .map_err(failed)
}

fn holes(file: &File, size: u64) -> io::Result<Bytes> {
    let (mut holes, mut place) = (0, 0);
    while place < size {
        let data = match rustix::fs::seek(file, SeekFrom::Data(place)) {
            Ok(data) => data.min(size),
            // No data after this offset.
            Err(Errno::NXIO) => size,
            // A file system without holes.
            Err(Errno::INVAL) => return Ok(Bytes::ZERO),
            Err(error) => return Err(error.into()),
        };
        holes += data - place;
        place = if data < size { rustix::fs::seek(file, SeekFrom::Hole(data))? } else { size };
    }
    Ok(Bytes(holes))
}

fn zeroes(file: &File, size: u64, seed: Seed) -> io::Result<NeverWritten> {
    let blocks = size / BLOCK;
    let read = BLOCKS.min(blocks);
    let mut random = Prng::new(seed);
    let mut block = vec![0; BLOCK as usize];
    let mut zero = 0;
    for _ in 0..read {
        file.read_exact_at(&mut block, random.below(blocks) * BLOCK)?;
        zero += u64::from(block.iter().all(|&byte| byte == 0));
    }
    Ok(NeverWritten::Zeroes { zero, read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holes_of_a_file_are_counted() {
        let path = std::env::temp_dir().join(format!("flashlab-holes-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        let found = |size| never_written(&path, size, Seed(1)).unwrap();
        assert_eq!(found(Bytes::mib(1)), NeverWritten::Holes(Bytes::mib(1)));
        file.write_all_at(&[1; 1 << 19], 1 << 18).unwrap();
        let half = found(Bytes::mib(1));
        assert_eq!(half, NeverWritten::Holes(Bytes(1 << 19)));
        assert!(half.is_any());
        assert_eq!(found(Bytes(3 << 18)), NeverWritten::Holes(Bytes(1 << 18)), "only of what is used");
        file.write_all_at(&[0; 1 << 20], 0).unwrap();
        assert!(!found(Bytes::mib(1)).is_any(), "zeroes that were written are no holes");
        std::fs::remove_file(&path).unwrap();
    }
}
