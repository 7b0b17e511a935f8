//! Where the data of a live disk is kept.
//!
//! # Model
//! A sparse file as large as the disk: in memory, or one that survives. What was written and not yet flushed can be
//! taken back, as when the power fails: before a block is overwritten the first time since the last flush, what it held
//! is set aside. Only so much is set aside; beyond it the oldest is durable, as if the device had written it out by
//! itself.
//!
//! # Invariants
//! - what was flushed, or written with FUA, is never taken back;
//! - what is not set aside is as it was written last;
//! - to set a block aside and to write it are one step: what is set aside is never what another write has just made
//!   durable.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use flashlab_base::Bytes;
use rustix::fs::{FallocateFlags, MemfdFlags};

/// What is set aside is so large.
const BLOCK: u64 = 4096;

/// The data of a live disk.
pub struct Store {
    file: File,
    size: Bytes,
    /// Whether a flush has to reach a disk.
    survives: bool,
    volatile: Option<Mutex<Volatile>>,
}

/// What blocks held at the last flush that were written since.
struct Volatile {
    most: usize,
    held: HashMap<u64, Box<[u8]>>,
    /// The same blocks, in the order in which they were first written.
    order: VecDeque<u64>,
}

impl Store {
    /// Zeroes, in memory.
    ///
    /// # Errors
    /// When the system gives no memory file.
    pub fn memory(size: Bytes, volatile: Bytes) -> io::Result<Store> {
        let file = File::from(rustix::fs::memfd_create("flashlab", MemfdFlags::CLOEXEC)?);
        file.set_len(size.0)?;
        Ok(Store::new(file, size, false, volatile))
    }

    /// A file that has `size`, or is made so large when it is empty. It is locked against other servers.
    ///
    /// # Errors
    /// When it cannot be opened, another server has it ([`io::ErrorKind::WouldBlock`]), or it has another size
    /// ([`io::ErrorKind::InvalidInput`]).
    pub fn file(path: &Path, size: Bytes, volatile: Bytes) -> io::Result<Store> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.try_lock().map_err(io::Error::from)?;
        match file.metadata()?.len() {
            0 => file.set_len(size.0)?,
            length if length == size.0 => {}
            length => {
                let has =
                    format!("it holds a disk of {}, and not of {}", Bytes(length).exact(), size.exact());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, has));
            }
        }
        Ok(Store::new(file, size, true, volatile))
    }

    fn new(file: File, size: Bytes, survives: bool, volatile: Bytes) -> Store {
        let most = (volatile.0 / BLOCK) as usize;
        let volatile =
            (most > 0).then(|| Mutex::new(Volatile { most, held: HashMap::new(), order: VecDeque::new() }));
        Store { file, size, survives, volatile }
    }

    /// Fills `data` from `offset`.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn read(&self, offset: Bytes, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, offset.0)
    }

    /// Puts `data` to `offset`; `durable` is FUA.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn write(&self, offset: Bytes, data: &[u8], durable: bool) -> io::Result<()> {
        let mut volatile = self.volatile.as_ref().map(lock);
        if let Some(volatile) = &mut volatile {
            self.set_aside(volatile, offset.0, data.len() as u64, durable.then_some(data))?;
        }
        self.file.write_all_at(data, offset.0)?;
        drop(volatile);
        if durable { self.sync() } else { Ok(()) }
    }

    /// Zeroes a range, and gives its room back.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn zero(&self, offset: Bytes, size: Bytes, durable: bool) -> io::Result<()> {
        static ZEROES: [u8; 1 << 16] = [0; 1 << 16];
        let end = offset.0 + size.0;
        let pieces = (offset.0..end).step_by(ZEROES.len());
        let piece = |start: u64| &ZEROES[..(end - start).min(ZEROES.len() as u64) as usize];
        let mut volatile = self.volatile.as_ref().map(lock);
        if let Some(volatile) = &mut volatile {
            for start in pieces.clone() {
                let piece = piece(start);
                self.set_aside(volatile, start, piece.len() as u64, durable.then_some(piece))?;
            }
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, punch, offset.0, size.0).is_err() {
            for start in pieces {
                self.file.write_all_at(piece(start), start)?;
            }
        }
        drop(volatile);
        if durable { self.sync() } else { Ok(()) }
    }

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn flush(&self) -> io::Result<()> {
        if let Some(volatile) = &self.volatile {
            let mut volatile = lock(volatile);
            volatile.held.clear();
            volatile.order.clear();
        }
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        if self.survives { self.file.sync_data() } else { Ok(()) }
    }

    /// The power fails: what was not flushed is as it was at the last flush. Returns how many blocks of 4 KiB that were.
    ///
    /// # Errors
    /// Of the file beneath.
    pub fn power_loss(&self) -> io::Result<u64> {
        let Some(volatile) = &self.volatile else { return Ok(0) };
        let mut volatile = lock(volatile);
        volatile.order.clear();
        let mut lost = 0;
        for (block, held) in volatile.held.drain() {
            self.file.write_all_at(&held, block * BLOCK)?;
            lost += 1;
        }
        self.sync()?;
        Ok(lost)
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
                None if !volatile.held.contains_key(&block) => {
                    let mut held = vec![0; BLOCK.min(self.size.0 - start) as usize].into_boxed_slice();
                    self.file.read_exact_at(&mut held, start)?;
                    volatile.hold(block, held);
                }
                None => {}
                Some(data) => {
                    let Some(held) = volatile.held.get_mut(&block) else { continue };
                    let (from, to) = (offset.max(start), end.min(start + held.len() as u64));
                    held[(from - start) as usize..(to - start) as usize]
                        .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
                }
            }
        }
        Ok(())
    }
}

impl Volatile {
    fn hold(&mut self, block: u64, held: Box<[u8]>) {
        while self.held.len() >= self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.held.remove(&oldest);
        }
        self.held.insert(block, held);
        self.order.push_back(block);
    }
}

/// A lock whose holder panicked holds nothing that is half done: it is taken all the same.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
            let store = Store::memory(Bytes(SIZE), Bytes::mib(1)).unwrap();
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
        let store = Store::memory(Bytes(8 * BLOCK), Bytes(2 * BLOCK)).unwrap();
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
        let first = Store::file(&path, Bytes::mib(1), Bytes(0)).unwrap();
        let refused = Store::file(&path, Bytes::mib(1), Bytes(0)).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        let other = Store::file(&path, Bytes::mib(2), Bytes(0)).err().unwrap();
        assert_eq!(other.to_string(), "it holds a disk of 1MiB, and not of 2MiB");
    }
}
