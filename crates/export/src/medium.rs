//! The bytes of a live disk: in memory, or in a file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::{PoisonError, RwLock};

use flashlab_base::Bytes;
use flashlab_host::Memory;
use rustix::fs::FallocateFlags;

/// Where bytes are stored.
pub(crate) enum Medium {
    /// Lost when the server stops.
    Memory(RwLock<Memory>),
    /// Survives the server; a flush must reach the host's disk.
    File(File),
}

impl Medium {
    pub fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match self {
            Medium::Memory(memory) => {
                let memory = memory.read().unwrap_or_else(PoisonError::into_inner);
                let stored = memory.get(offset as usize..offset as usize + data.len());
                stored.map(|stored| data.copy_from_slice(stored)).ok_or(ErrorKind::UnexpectedEof.into())
            }
            Medium::File(file) => file.read_exact_at(data, offset),
        }
    }

    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self {
            Medium::Memory(memory) => {
                let mut memory = memory.write().unwrap_or_else(PoisonError::into_inner);
                let stored = memory.get_mut(offset as usize..offset as usize + data.len());
                stored.map(|stored| stored.copy_from_slice(data)).ok_or(ErrorKind::UnexpectedEof.into())
            }
            Medium::File(file) => file.write_all_at(data, offset),
        }
    }

    /// Zeroes a range and frees the space that it took, where the system can.
    pub fn zero(&self, offset: Bytes, size: Bytes) -> io::Result<()> {
        match self {
            Medium::Memory(memory) => {
                memory.write().unwrap_or_else(PoisonError::into_inner).zero(offset, size);
                Ok(())
            }
            Medium::File(file) => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                if rustix::fs::fallocate(file, punch, offset.0, size.0).is_ok() {
                    return Ok(());
                }
                zeroes(offset, size).try_for_each(|(start, zeroes)| file.write_all_at(zeroes, start))
            }
        }
    }

    /// Makes the bytes durable.
    pub fn sync(&self) -> io::Result<()> {
        match self {
            Medium::Memory(_) => Ok(()),
            Medium::File(file) => file.sync_data(),
        }
    }
}

/// Zeroes for a range, in parts of bounded length, each with its offset.
pub(crate) fn zeroes(offset: Bytes, size: Bytes) -> impl Iterator<Item = (u64, &'static [u8])> {
    static ZEROES: [u8; 1 << 16] = [0; 1 << 16];
    let end = offset.0 + size.0;
    let part = move |start: u64| (start, &ZEROES[..(end - start).min(ZEROES.len() as u64) as usize]);
    (offset.0..end).step_by(ZEROES.len()).map(part)
}
