//! Where the data of a live disk is kept.
//!
//! # Model
//! Memory of this process that is taken as it is written, or a sparse file that survives, as large as the disk. It is no
//! memory file: programs may have their swap space on the disk, and the kernel would swap a memory file's pages out, to
//! the server itself. What was written and not yet flushed can be taken back, as when the power fails: before a block is
//! overwritten the first time since the last flush, what it held is set aside. Only so much is set aside; beyond it the
//! oldest is durable, as if the device had written it out by itself.
//!
//! # Invariants
//! - what was flushed, or written with FUA, is never taken back;
//! - what is not set aside is as it was written last;
//! - to set a block aside and to write it are one step: what is set aside is never what another write has just made
//!   durable.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use flashlab_base::Bytes;
use flashlab_host::Memory;
use rustix::fs::FallocateFlags;

use crate::locks::lock;

/// What is set aside is so large.
const BLOCK: u64 = 4096;

/// The data of a live disk.
pub struct DataStore {
    place: Place,
    size: Bytes,
    volatile: Option<Mutex<Volatile>>,
}

enum Place {
    /// Gone at the end.
    Memory(RwLock<Memory>),
    /// Survives: a flush has to reach a disk.
    File(File),
}

/// What blocks held at the last flush that were written since. All room is taken at the beginning, as address space: the
/// path of an IO allocates nothing.
struct Volatile {
    /// Slots of a block each, which are used in turn.
    held: Memory,
    most: usize,
    /// The slot that is used next.
    next: usize,
    /// What is held of a block.
    slots: HashMap<u64, Held>,
    /// The blocks, in the order in which they were first written.
    order: VecDeque<u64>,
    /// A bit for each block that may be other than zeroes. What was never written is not looked at when it is set aside:
    /// three pages would be taken from the system for one that is written.
    touched: Vec<u64>,
}

/// What a block held.
#[derive(Clone, Copy)]
struct Held {
    slot: usize,
    /// Zeroes, whatever is in the slot.
    zeroes: bool,
}

impl DataStore {
    /// Zeroes, in memory.
    ///
    /// # Errors
    /// When the system has no such address space.
    pub fn memory(size: Bytes, volatile: Bytes) -> io::Result<DataStore> {
        DataStore::new(Place::Memory(RwLock::new(Memory::zeroes(size)?)), size, volatile)
    }

    /// A file that has `size`, or is made so large when it is empty. It is locked against other servers.
    ///
    /// # Errors
    /// When it cannot be opened, another server has it ([`io::ErrorKind::WouldBlock`]), or it has another size
    /// ([`io::ErrorKind::InvalidInput`]).
    pub fn file(path: &Path, size: Bytes, volatile: Bytes) -> io::Result<DataStore> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.try_lock().map_err(io::Error::from)?;
        match file.metadata()?.len() {
            0 => file.set_len(size.0)?,
            length if length == size.0 => {}
            length => {
                let has =
                    format!("it holds a disk of {}, and not of {}", Bytes(length).exact(), size.exact());
                return Err(io::Error::new(ErrorKind::InvalidInput, has));
            }
        }
        DataStore::new(Place::File(file), size, volatile)
    }

    fn new(place: Place, size: Bytes, volatile: Bytes) -> io::Result<DataStore> {
        let most = (volatile.0 / BLOCK).min(size.0.div_ceil(BLOCK)) as usize;
        let blocks = size.0.div_ceil(BLOCK);
        let fresh = matches!(place, Place::Memory(_));
        let volatile = if most > 0 { Some(Mutex::new(Volatile::new(most, blocks, fresh)?)) } else { None };
        Ok(DataStore { place, size, volatile })
    }

    /// Fills `data` from `offset`.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn read(&self, offset: Bytes, data: &mut [u8]) -> io::Result<()> {
        self.place.read(offset.0, data)
    }

    /// Puts `data` to `offset`; `durable` is FUA.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn write(&self, offset: Bytes, data: &[u8], durable: bool) -> io::Result<()> {
        let mut volatile = self.volatile.as_ref().map(lock);
        if let Some(volatile) = &mut volatile {
            self.set_aside(volatile, offset.0, data.len() as u64, durable.then_some(data))?;
            volatile.touch(offset.0, data.len() as u64);
        }
        self.place.write(offset.0, data)?;
        drop(volatile);
        if durable { self.sync() } else { Ok(()) }
    }

    /// Zeroes a range, and gives its room back.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn zero(&self, offset: Bytes, size: Bytes, durable: bool) -> io::Result<()> {
        let mut volatile = self.volatile.as_ref().map(lock);
        if let Some(volatile) = &mut volatile {
            for (start, zeroes) in zeroes(offset, size) {
                self.set_aside(volatile, start, zeroes.len() as u64, durable.then_some(zeroes))?;
            }
        }
        self.place.zero(offset, size)?;
        drop(volatile);
        if durable { self.sync() } else { Ok(()) }
    }

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn flush(&self) -> io::Result<()> {
        if let Some(volatile) = &self.volatile {
            lock(volatile).clear();
        }
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        match &self.place {
            Place::Memory(_) => Ok(()),
            Place::File(file) => file.sync_data(),
        }
    }

    /// The power fails: what was not flushed is as it was at the last flush. Returns how many blocks of 4 KiB that were.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn power_loss(&self) -> io::Result<u64> {
        let Some(volatile) = &self.volatile else { return Ok(0) };
        let mut volatile = lock(volatile);
        for (&block, held) in &volatile.slots {
            let (start, length) = (block * BLOCK, self.length(block));
            match held.zeroes {
                true => self.place.zero(Bytes(start), Bytes(length as u64))?,
                false => self.place.write(start, &volatile.held[held.slot * BLOCK as usize..][..length])?,
            }
        }
        let lost = volatile.slots.len() as u64;
        volatile.clear();
        self.sync()?;
        Ok(lost)
    }

    /// The last block of a disk may be a part of one.
    fn length(&self, block: u64) -> usize {
        BLOCK.min(self.size.0 - block * BLOCK) as usize
    }

    /// Sets aside what the blocks of a range hold. Durable bytes go into what is set aside as well: they stay when the
    /// rest of their block is taken back.
    fn set_aside(
        &self,
        volatile: &mut Volatile,
        offset: u64,
        size: u64,
        durable: Option<&[u8]>,
    ) -> io::Result<()> {
        let end = offset + size;
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let start = block * BLOCK;
            match durable {
                None if !volatile.slots.contains_key(&block) => {
                    let zeroes = !volatile.is_touched(block);
                    let spare = volatile.spare();
                    if !zeroes {
                        self.place.read(start, &mut spare[..self.length(block)])?;
                    }
                    volatile.hold(block, zeroes);
                }
                None => {}
                Some(data) => {
                    let length = self.length(block) as u64;
                    let Some(held) = volatile.held(block) else { continue };
                    let (from, to) = (offset.max(start), end.min(start + length));
                    held[(from - start) as usize..(to - start) as usize]
                        .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
                }
            }
        }
        Ok(())
    }
}

impl Place {
    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match self {
            Place::Memory(memory) => {
                let memory = memory.read().unwrap_or_else(PoisonError::into_inner);
                let kept = memory.get(offset as usize..offset as usize + data.len());
                kept.map(|kept| data.copy_from_slice(kept)).ok_or(ErrorKind::UnexpectedEof.into())
            }
            Place::File(file) => file.read_exact_at(data, offset),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self {
            Place::Memory(memory) => {
                let mut memory = memory.write().unwrap_or_else(PoisonError::into_inner);
                let kept = memory.get_mut(offset as usize..offset as usize + data.len());
                kept.map(|kept| kept.copy_from_slice(data)).ok_or(ErrorKind::UnexpectedEof.into())
            }
            Place::File(file) => file.write_all_at(data, offset),
        }
    }

    fn zero(&self, offset: Bytes, size: Bytes) -> io::Result<()> {
        match self {
            Place::Memory(memory) => {
                memory.write().unwrap_or_else(PoisonError::into_inner).zero(offset, size);
                Ok(())
            }
            Place::File(file) => {
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                if rustix::fs::fallocate(file, punch, offset.0, size.0).is_ok() {
                    return Ok(());
                }
                zeroes(offset, size).try_for_each(|(start, zeroes)| file.write_all_at(zeroes, start))
            }
        }
    }
}

/// A range in pieces of zeroes, each with where it starts.
fn zeroes(offset: Bytes, size: Bytes) -> impl Iterator<Item = (u64, &'static [u8])> {
    static ZEROES: [u8; 1 << 16] = [0; 1 << 16];
    let end = offset.0 + size.0;
    let piece = move |start: u64| (start, &ZEROES[..(end - start).min(ZEROES.len() as u64) as usize]);
    (offset.0..end).step_by(ZEROES.len()).map(piece)
}

impl Volatile {
    /// `fresh`: all of the blocks are zeroes.
    fn new(most: usize, blocks: u64, fresh: bool) -> io::Result<Volatile> {
        let held = Memory::zeroes(Bytes(most as u64 * BLOCK))?;
        let (slots, order) = (HashMap::with_capacity(most), VecDeque::with_capacity(most));
        let touched = vec![if fresh { 0 } else { u64::MAX }; blocks.div_ceil(64) as usize];
        Ok(Volatile { held, most, next: 0, slots, order, touched })
    }

    fn is_touched(&self, block: u64) -> bool {
        self.touched[block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// A range is written.
    fn touch(&mut self, offset: u64, size: u64) {
        for block in offset / BLOCK..(offset + size).div_ceil(BLOCK) {
            self.touched[block as usize / 64] |= 1 << (block % 64);
        }
    }

    /// The slot for the next block; the oldest loses its own if all are used.
    fn spare(&mut self) -> &mut [u8] {
        if self.order.len() == self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.slots.remove(&oldest);
        }
        self.slot(self.next)
    }

    /// What is in the spare slot is of this block, or the block held zeroes.
    fn hold(&mut self, block: u64, zeroes: bool) {
        self.slots.insert(block, Held { slot: self.next, zeroes });
        self.order.push_back(block);
        self.next = (self.next + 1) % self.most;
    }

    /// What is held of a block.
    fn held(&mut self, block: u64) -> Option<&mut [u8]> {
        let held = self.slots.get_mut(&block)?;
        let (slot, zeroes) = (held.slot, std::mem::take(&mut held.zeroes));
        let content = self.slot(slot);
        if zeroes {
            content.fill(0);
        }
        Some(content)
    }

    fn slot(&mut self, slot: usize) -> &mut [u8] {
        &mut self.held[slot * BLOCK as usize..][..BLOCK as usize]
    }

    fn clear(&mut self) {
        self.slots.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write { offset: u64, size: usize, fill: u8, durable: bool },
        Zero { offset: u64, size: u64, durable: bool },
        Flush,
        PowerLoss,
    }

    const SIZE: u64 = 5 * BLOCK + 512;

    fn step() -> impl Strategy<Value = Step> {
        let range =
            (0..SIZE / 512, 1..20u64).prop_map(|(at, long)| (at * 512, (long * 512).min(SIZE - at * 512)));
        prop_oneof![
            6 => (range.clone(), any::<u8>(), any::<bool>()).prop_map(|((offset, size), fill, durable)|
                Step::Write { offset, size: size as usize, fill, durable }),
            2 => (range, any::<bool>()).prop_map(|((offset, size), durable)| Step::Zero { offset, size, durable }),
            1 => Just(Step::Flush),
            1 => Just(Step::PowerLoss),
        ]
    }

    proptest! {
        /// Against two arrays: what is read, and what a power loss leaves.
        #[test]
        fn what_is_flushed_stays_and_the_rest_is_taken_back(steps in prop::collection::vec(step(), 1..60)) {
            let store = DataStore::memory(Bytes(SIZE), Bytes::mib(1)).unwrap();
            let (mut now, mut flushed) = (vec![0; SIZE as usize], vec![0; SIZE as usize]);
            for step in steps {
                match step {
                    Step::Write { offset, size, fill, durable } => {
                        store.write(Bytes(offset), &vec![fill; size], durable).unwrap();
                        let range = offset as usize..offset as usize + size;
                        now[range.clone()].fill(fill);
                        if durable { flushed[range].fill(fill) }
                    }
                    Step::Zero { offset, size, durable } => {
                        store.zero(Bytes(offset), Bytes(size), durable).unwrap();
                        let range = offset as usize..(offset + size) as usize;
                        now[range.clone()].fill(0);
                        if durable { flushed[range].fill(0) }
                    }
                    Step::Flush => { store.flush().unwrap(); flushed.copy_from_slice(&now) }
                    Step::PowerLoss => { store.power_loss().unwrap(); now.copy_from_slice(&flushed) }
                }
                let mut read = vec![1; SIZE as usize];
                store.read(Bytes(0), &mut read).unwrap();
                prop_assert!(read == now);
            }
        }
    }

    #[test]
    fn beyond_what_is_set_aside_the_oldest_is_durable() {
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
    fn a_second_server_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let first = DataStore::file(&path, Bytes::mib(1), Bytes(0)).unwrap();
        let refused = DataStore::file(&path, Bytes::mib(1), Bytes(0)).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        let other = DataStore::file(&path, Bytes::mib(2), Bytes(0)).err().unwrap();
        assert_eq!(other.to_string(), "it holds a disk of 1MiB, and not of 2MiB");
    }
}
