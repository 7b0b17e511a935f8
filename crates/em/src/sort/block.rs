//! Sorts the records of one block in memory.
//!
//! # Method
//! The keys' first eight bytes, as integers, span a range. It is cut into equal parts, about one for two records.
//! - Records of a few usual lengths are distributed to the other buffer ([`distribute`]).
//! - All others, and those of which too many would fall into one part:
//!   1. A counting sort (Knuth, TAOCP 3, 5.2) puts an index entry for each record, prefix above position, into its part.
//!   2. The entries of each part are sorted as integers; entries with equal prefixes of longer keys by the whole keys. If
//!      most keys fall into one part, this is a comparison sort of everything.
//!   3. The records are copied to the other buffer in the order of the entries.
//!
//! # Invariants
//! - Equal keys keep their order: the position decides.

use flashlab_base::Bytes;
use flashlab_device::Buffer;

use crate::budget::{MemoryBudget, MemoryLease};
use crate::error::EmError;
use crate::record_format::{RecordChecksum, RecordFormat};
use crate::sort::distribution::{Parts, distribute};

/// The memory that one thread needs to sort blocks.
pub struct BlockSorter {
    entries: Vec<u128>,
    /// Where the next entry of each part goes.
    ends: Vec<u32>,
    /// The buffer that the next sorted block goes to.
    target: Buffer,
}

/// The size of an entry.
const ENTRY: u64 = 16;
/// The size of the end of a part.
const END: u64 = 4;
/// The mean number of records in a part: with one, the parts take twice the memory and save less than a tenth of the time.
const PART: u64 = 2;

/// The number of parts for this number of records, a power of two; at least two, so that a key can be shifted.
fn parts(records: u64) -> u64 {
    (records / PART).next_power_of_two().max(2)
}

impl BlockSorter {
    /// A sorter of whole records in buffers of `buffer` bytes. The leases have to live as long as it does; they stay with the thread that
    /// accounts for the memory.
    ///
    /// # Errors
    /// [`EmError::Memory`].
    pub fn new(
        budget: &MemoryBudget,
        format: &RecordFormat,
        buffer: Bytes,
    ) -> Result<(BlockSorter, [MemoryLease; 2]), EmError> {
        let records = buffer.0 / format.size() as u64;
        let lease = budget.lease(index_size(records), "the index of a block")?;
        let (mut targets, target_lease) = budget.buffers(1, buffer, "sorting a block")?;
        let entries = Vec::with_capacity(records as usize);
        let ends = Vec::with_capacity(parts(records) as usize);
        Ok((BlockSorter { entries, ends, target: targets.remove(0) }, [lease, target_lease]))
    }

    /// What a sorter takes.
    pub fn memory(format: &RecordFormat, buffer: Bytes) -> Bytes {
        MemoryBudget::buffer_size(buffer) + index_size(buffer.0 / format.size() as u64)
    }

    /// Sorts the first `length` bytes of `block`, and returns their checksum.
    pub fn sort(&mut self, format: &RecordFormat, block: &mut Buffer, length: usize) -> RecordChecksum {
        let (size, records) = (format.size(), &block[..length]);
        let checksum = RecordChecksum::of(format, records);
        let prefixes = records.chunks_exact(size).map(|record| format.prefix(record));
        let range = prefixes.fold((u64::MAX, 0), |(low, high), key| (low.min(key), high.max(key)));
        self.ends.resize(parts(format.count(records) as u64) as usize, 0);
        let is_sorted = match size {
            8 => self.distribute::<8>(format, records, range),
            16 => self.distribute::<16>(format, records, range),
            32 => self.distribute::<32>(format, records, range),
            _ => false,
        };
        if !is_sorted {
            self.order(format, records, range);
            match size {
                16 => gather::<16>(&self.entries, records, &mut self.target, size),
                _ => gather::<0>(&self.entries, records, &mut self.target, size),
            }
        }
        std::mem::swap(block, &mut self.target);
        checksum
    }

    /// Sorts the records into the target; false where too many keys are too close.
    fn distribute<const SIZE: usize>(
        &mut self,
        format: &RecordFormat,
        records: &[u8],
        range: (u64, u64),
    ) -> bool {
        let records = records.as_chunks::<SIZE>().0;
        let target = &mut self.target.as_chunks_mut::<SIZE>().0[..records.len()];
        distribute(format, &[records], range, &mut self.ends, target)
    }

    /// Makes the entries, in the order of the records.
    fn order(&mut self, format: &RecordFormat, records: &[u8], range: (u64, u64)) {
        let prefixes = || records.chunks_exact(format.size()).map(|record| format.prefix(record));
        let parts = Parts::new(range, self.ends.len());
        parts.count(prefixes(), &mut self.ends);
        self.entries.clear();
        self.entries.resize(format.count(records), 0);
        for (at, key) in prefixes().enumerate() {
            let end = &mut self.ends[parts.of(key)];
            self.entries[*end as usize] = u128::from(key) << 32 | at as u128;
            *end += 1;
        }
        let mut begin = 0;
        for &end in &self.ends {
            sort_entries(format, records, &mut self.entries[begin..end as usize]);
            begin = end as usize;
        }
    }
}

fn index_size(records: u64) -> Bytes {
    Bytes(records * ENTRY + parts(records) * END)
}

/// Sorts entries of records.
#[inline]
fn sort_entries(format: &RecordFormat, records: &[u8], entries: &mut [u128]) {
    entries.sort_unstable();
    if format.key_is_long() {
        let at = |entry: u128| format.at(records, entry as u32 as usize);
        for equal in entries.chunk_by_mut(|a, b| a >> 32 == b >> 32).filter(|run| run.len() > 1) {
            equal.sort_unstable_by(|&a, &b| format.compare(at(a), at(b)).then(a.cmp(&b)));
        }
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
        let cases =
            [(16, 0..8, 1), (16, 0..12, 2), (5, 1..2, 3), (24, 3..20, 4), (8, 2..8, 5), (32, 5..17, 6)];
        for ((size, key, seed), is_spread) in
            cases.iter().flat_map(|case| [(case.clone(), false), (case.clone(), true)])
        {
            let format = RecordFormat::new(Bytes(size), key).unwrap();
            let (block, mut prng) = (Bytes(size * 500), Prng::new(Seed(seed)));
            let mut buffer = Arena::buffers(1, block).remove(0);
            prng.fill(&mut buffer);
            // Or many equal prefixes.
            if !is_spread {
                buffer
                    .chunks_exact_mut(size as usize)
                    .for_each(|record| record[..3].fill((prng.below(4)) as u8));
            }
            let length = size as usize * 490;
            let mut expected: Vec<Vec<u8>> =
                buffer[..length].chunks_exact(size as usize).map(<[u8]>::to_vec).collect();
            let before = RecordChecksum::of(&format, &buffer[..length]);
            expected.sort_by(|a, b| format.compare(a, b));
            let budget = MemoryBudget::new(BlockSorter::memory(&format, block));
            let (mut sorter, _leases) = BlockSorter::new(&budget, &format, block).unwrap();
            assert_eq!(budget.left(), Bytes::ZERO);
            assert_eq!(sorter.sort(&format, &mut buffer, length), before);
            assert!(buffer[..length] == expected.concat(), "{size} {seed} {is_spread}");
        }
    }
}
