//! Sorts the records of one block in memory.
//!
//! # Method
//! 1. An index entry for each record: the key's first eight bytes above the record's position.
//! 2. The entries are sorted as integers; entries with equal prefixes of longer keys are sorted by the whole keys.
//! 3. The records are copied to the other buffer in the order of the entries.
//!
//! # Invariants
//! - Equal keys keep their order: the position decides.

use flashlab_base::Bytes;
use flashlab_device::Buffer;

use crate::budget::{MemoryBudget, MemoryLease};
use crate::error::EmError;
use crate::record_format::{RecordChecksum, RecordFormat};

/// The memory that one thread needs to sort blocks.
pub struct BlockSorter {
    entries: Vec<u128>,
    /// The buffer that the next sorted block goes to.
    target: Buffer,
}

/// The size of an entry.
const ENTRY: u64 = 16;

impl BlockSorter {
    /// A sorter of blocks of `block` bytes. The leases have to live as long as it does; they stay with the thread that
    /// accounts for the memory.
    ///
    /// # Errors
    /// [`EmError::Memory`].
    pub fn new(
        budget: &MemoryBudget,
        format: &RecordFormat,
        block: Bytes,
    ) -> Result<(BlockSorter, [MemoryLease; 2]), EmError> {
        let records = block.0 / format.size() as u64;
        let lease = budget.lease(Bytes(records * ENTRY), "the index of a block")?;
        let (mut targets, target_lease) = budget.buffers(1, block, "sorting a block")?;
        let entries = Vec::with_capacity(records as usize);
        Ok((BlockSorter { entries, target: targets.remove(0) }, [lease, target_lease]))
    }

    /// What a sorter takes.
    pub fn memory(format: &RecordFormat, block: Bytes) -> Bytes {
        MemoryBudget::buffer_size(block) + Bytes(block.0 / format.size() as u64 * ENTRY)
    }

    /// Sorts the first `length` bytes of `block`, and returns their checksum.
    pub fn sort(&mut self, format: &RecordFormat, block: &mut Buffer, length: usize) -> RecordChecksum {
        let (size, records) = (format.size(), &block[..length]);
        let checksum = RecordChecksum::of(format, records);
        self.entries.clear();
        let entries = records.chunks_exact(size).enumerate();
        self.entries.extend(entries.map(|(at, record)| u128::from(format.prefix(record)) << 32 | at as u128));
        self.entries.sort_unstable();
        if format.key_is_long() {
            let at = |entry: u128| format.at(records, entry as u32 as usize);
            for equal in self.entries.chunk_by_mut(|a, b| a >> 32 == b >> 32).filter(|run| run.len() > 1) {
                equal.sort_unstable_by(|&a, &b| format.compare(at(a), at(b)).then(a.cmp(&b)));
            }
        }
        match size {
            16 => gather::<16>(&self.entries, records, &mut self.target, size),
            _ => gather::<0>(&self.entries, records, &mut self.target, size),
        }
        std::mem::swap(block, &mut self.target);
        checksum
    }
}

fn gather<const SIZE: usize>(entries: &[u128], records: &[u8], target: &mut [u8], size: usize) {
    let size = if SIZE == 0 { size } else { SIZE };
    for (&entry, to) in entries.iter().zip(target.chunks_exact_mut(size)) {
        to.copy_from_slice(&records[entry as u32 as usize * size..][..size]);
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};
    use flashlab_device::Arena;

    use super::*;

    #[test]
    fn a_block_is_sorted_stably_for_short_and_long_keys() {
        for (size, key, seed) in [(16, 0..8, 1), (16, 0..12, 2), (5, 1..2, 3), (24, 3..20, 4)] {
            let format = RecordFormat::new(Bytes(size), key).unwrap();
            let (block, mut prng) = (Bytes(size * 500), Prng::new(Seed(seed)));
            let mut buffer = Arena::buffers(1, block).remove(0);
            prng.fill(&mut buffer);
            // Many equal prefixes.
            buffer.chunks_exact_mut(size as usize).for_each(|record| record[..3].fill((prng.below(4)) as u8));
            let length = size as usize * 490;
            let mut expected: Vec<Vec<u8>> =
                buffer[..length].chunks_exact(size as usize).map(<[u8]>::to_vec).collect();
            let before = RecordChecksum::of(&format, &buffer[..length]);
            expected.sort_by(|a, b| format.compare(a, b));
            let budget = MemoryBudget::new(BlockSorter::memory(&format, block));
            let (mut sorter, _leases) = BlockSorter::new(&budget, &format, block).unwrap();
            assert_eq!(budget.left(), Bytes::ZERO);
            assert_eq!(sorter.sort(&format, &mut buffer, length), before);
            assert!(buffer[..length] == expected.concat(), "{size} {seed}");
        }
    }
}
