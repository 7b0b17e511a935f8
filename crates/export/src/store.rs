//! Stores the bytes of a live disk, and undoes unflushed writes when the power fails.
//!
//! # Model
//! The bytes are in private memory of this process or in a sparse file. A memory file (memfd) would not do:
//! if programs have their swap space on the disk, the kernel would swap the pages of a memory file out to
//! this server.
//!
//! A power loss undoes unflushed writes:
//! 1. Before the first write to a block after a flush, the store saves a copy of the block's old content.
//! 2. A flush drops all copies.
//! 3. A power loss writes the copies back.
//!
//! The number of copies is bounded. If all are in use, the oldest is dropped. Its block then counts as
//! durable, as if the device had written it back by itself.
//!
//! # Invariants
//! - Bytes that were flushed, or written with FUA, are never undone.
//! - A block without a copy contains its most recent write.
//! - A block is copied and written under one lock, so no copy contains bytes that another write has just made
//!   durable.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, RwLock};

use flashlab_base::Bytes;
use flashlab_host::Memory;

use crate::locks::lock;
use crate::medium::{Medium, zeroes};
use crate::undo_copies::{BLOCK, UndoCopies};

/// The data of a live disk.
pub struct DataStore {
    medium: Medium,
    size: Bytes,
    /// `None`: every write is durable at once.
    undo: Option<Mutex<UndoCopies>>,
}

impl DataStore {
    /// A store of zeroes in memory.
    ///
    /// # Errors
    /// When the system cannot reserve the address space.
    pub fn memory(size: Bytes, volatile: Bytes) -> io::Result<DataStore> {
        DataStore::new(Medium::Memory(RwLock::new(Memory::zeroes(size)?)), size, volatile)
    }

    /// A store in a file of this `size`, which is open for writing; an empty one is extended to it.
    ///
    /// # Errors
    /// When it has another size ([`io::ErrorKind::InvalidInput`]), or cannot be extended.
    pub fn file(file: File, size: Bytes, volatile: Bytes) -> io::Result<DataStore> {
        match file.metadata()?.len() {
            0 => file.set_len(size.0)?,
            length if length == size.0 => {}
            length => {
                let has =
                    format!("it holds a disk of {}, and not of {}", Bytes(length).exact(), size.exact());
                return Err(io::Error::new(ErrorKind::InvalidInput, has));
            }
        }
        DataStore::new(Medium::File(file), size, volatile)
    }

    fn new(medium: Medium, size: Bytes, volatile: Bytes) -> io::Result<DataStore> {
        let blocks = size.0.div_ceil(BLOCK);
        let copies_max = (volatile.0 / BLOCK).min(blocks) as usize;
        let is_zeroes = matches!(medium, Medium::Memory(_));
        let undo = match copies_max {
            0 => None,
            _ => Some(Mutex::new(UndoCopies::new(copies_max, blocks, is_zeroes)?)),
        };
        Ok(DataStore { medium, size, undo })
    }

    /// Reads the bytes from `offset` into `data`.
    ///
    /// # Errors
    /// Those of the file.
    pub fn read(&self, offset: Bytes, data: &mut [u8]) -> io::Result<()> {
        self.medium.read(offset.0, data)
    }

    /// Writes `data` at `offset`; `durable` is FUA.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&self, offset: Bytes, data: &[u8], durable: bool) -> io::Result<()> {
        let mut undo = self.undo.as_ref().map(lock);
        if let Some(undo) = &mut undo {
            self.save_copies(undo, offset.0, data.len() as u64, durable.then_some(data))?;
            undo.note_write(offset.0, data.len() as u64);
        }
        self.medium.write(offset.0, data)?;
        drop(undo);
        if durable { self.medium.sync() } else { Ok(()) }
    }

    /// Zeroes a range, and frees the space that it took.
    ///
    /// # Errors
    /// Those of the file.
    pub fn zero(&self, offset: Bytes, size: Bytes, durable: bool) -> io::Result<()> {
        let mut undo = self.undo.as_ref().map(lock);
        if let Some(undo) = &mut undo {
            for (start, zeroes) in zeroes(offset, size) {
                self.save_copies(undo, start, zeroes.len() as u64, durable.then_some(zeroes))?;
            }
        }
        self.medium.zero(offset, size)?;
        drop(undo);
        if durable { self.medium.sync() } else { Ok(()) }
    }

    /// Makes all written bytes durable.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&self) -> io::Result<()> {
        if let Some(undo) = &self.undo {
            lock(undo).clear();
        }
        self.medium.sync()
    }

    /// Restores all blocks to their content at the last flush; returns the number of 4 KiB blocks that were restored.
    ///
    /// # Errors
    /// Those of the file.
    pub fn power_loss(&self) -> io::Result<u64> {
        let Some(undo) = &self.undo else { return Ok(0) };
        let mut undo = lock(undo);
        for (block, copy) in undo.iter() {
            let (start, length) = (block * BLOCK, self.length(block));
            match copy {
                None => self.medium.zero(Bytes(start), Bytes(length as u64))?,
                Some(content) => self.medium.write(start, &content[..length])?,
            }
        }
        let restored = undo.count();
        undo.clear();
        self.medium.sync()?;
        Ok(restored)
    }

    /// The length of a block: the last one of a disk may be shorter.
    fn length(&self, block: u64) -> usize {
        BLOCK.min(self.size.0 - block * BLOCK) as usize
    }

    /// Copies the old content of the blocks of a range, unless they have a copy. `durable` bytes are also
    /// written to existing copies, so that they survive when the other bytes of their block are undone.
    fn save_copies(
        &self,
        undo: &mut UndoCopies,
        offset: u64,
        size: u64,
        durable: Option<&[u8]>,
    ) -> io::Result<()> {
        let end = offset + size;
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let start = block * BLOCK;
            match durable {
                None if !undo.has(block) => {
                    let is_zeroes = !undo.maybe_nonzero(block);
                    let slot = undo.free_slot();
                    if !is_zeroes {
                        self.medium.read(start, &mut slot[..self.length(block)])?;
                    }
                    undo.add(block, is_zeroes);
                }
                None => {}
                Some(data) => {
                    let length = self.length(block) as u64;
                    let Some(copy) = undo.get_mut(block) else { continue };
                    let (from, to) = (offset.max(start), end.min(start + length));
                    copy[(from - start) as usize..(to - start) as usize]
                        .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum StoreCall {
        Write { offset: u64, size: usize, fill: u8, durable: bool },
        Zero { offset: u64, size: u64, durable: bool },
        Flush,
        PowerLoss,
    }

    const SIZE: u64 = 5 * BLOCK + 512;

    fn store_call() -> impl Strategy<Value = StoreCall> {
        let range =
            (0..SIZE / 512, 1..20u64).prop_map(|(at, long)| (at * 512, (long * 512).min(SIZE - at * 512)));
        prop_oneof![
            6 => (range.clone(), any::<u8>(), any::<bool>()).prop_map(|((offset, size), fill, durable)|
                StoreCall::Write { offset, size: size as usize, fill, durable }),
            2 => (range, any::<bool>()).prop_map(|((offset, size), durable)| StoreCall::Zero { offset, size, durable }),
            1 => Just(StoreCall::Flush),
            1 => Just(StoreCall::PowerLoss),
        ]
    }

    proptest! {
        /// Compares the store with two arrays: the bytes now, and the bytes at the last flush.
        #[test]
        fn flushed_bytes_stay_and_all_others_are_taken_back(calls in prop::collection::vec(store_call(), 1..60)) {
            let store = DataStore::memory(Bytes(SIZE), Bytes::mib(1)).unwrap();
            let (mut now, mut flushed) = (vec![0; SIZE as usize], vec![0; SIZE as usize]);
            for call in calls {
                match call {
                    StoreCall::Write { offset, size, fill, durable } => {
                        store.write(Bytes(offset), &vec![fill; size], durable).unwrap();
                        let range = offset as usize..offset as usize + size;
                        now[range.clone()].fill(fill);
                        if durable { flushed[range].fill(fill) }
                    }
                    StoreCall::Zero { offset, size, durable } => {
                        store.zero(Bytes(offset), Bytes(size), durable).unwrap();
                        let range = offset as usize..(offset + size) as usize;
                        now[range.clone()].fill(0);
                        if durable { flushed[range].fill(0) }
                    }
                    StoreCall::Flush => { store.flush().unwrap(); flushed.copy_from_slice(&now) }
                    StoreCall::PowerLoss => { store.power_loss().unwrap(); now.copy_from_slice(&flushed) }
                }
                let mut read = vec![1; SIZE as usize];
                store.read(Bytes(0), &mut read).unwrap();
                prop_assert!(read == now);
            }
        }
    }

    #[test]
    fn with_all_copies_in_use_the_oldest_write_becomes_durable() {
        let store = DataStore::memory(Bytes(8 * BLOCK), Bytes(2 * BLOCK)).unwrap();
        for block in 0..3 {
            store.write(Bytes(block * BLOCK), &[7; BLOCK as usize], false).unwrap();
        }
        assert_eq!(store.power_loss().unwrap(), 2);
        let mut read = vec![1; 3 * BLOCK as usize];
        store.read(Bytes(0), &mut read).unwrap();
        let first: Vec<u8> = read.chunks(BLOCK as usize).map(|block| block[0]).collect();
        assert_eq!(first, [7, 0, 0]);
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let file = tempfile::tempfile().unwrap();
        drop(DataStore::file(file.try_clone().unwrap(), Bytes::mib(1), Bytes(0)).unwrap());
        let other = DataStore::file(file, Bytes::mib(2), Bytes(0)).err().unwrap();
        assert_eq!(other.to_string(), "it holds a disk of 1MiB, and not of 2MiB");
    }
}
