//! Records of a fixed size with a key inside.
//!
//! # Model
//! Keys compare as bytes, from the first to the last: big-endian integers, and texts in their byte order. The first eight
//! bytes of the key, as an integer, decide most comparisons.
//!
//! # Invariants
//! - The key lies within the record and is not empty.

use std::cmp::Ordering;
use std::ops::Range;

use flashlab_base::{Bytes, Prng, Seed};

use crate::error::EmError;

/// The largest record.
pub const RECORD_MAX: Bytes = Bytes::kib(64);

/// The size of records and where their key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFormat {
    size: usize,
    key: Range<usize>,
    prefix: PrefixPlace,
}

/// Where the first eight bytes of the key are, so that they are read without a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrefixPlace {
    /// Where eight bytes of the record begin that have them all.
    at: usize,
    /// The bits of these before the key.
    before: u32,
    /// The bits that belong to the key.
    mask: u64,
}

impl RecordFormat {
    /// Records of `size` bytes whose key is `key`.
    ///
    /// # Errors
    /// [`EmError::Parameter`] when the size is 0 or above [`RECORD_MAX`], or the key is empty or not within the record.
    pub fn new(size: Bytes, key: Range<usize>) -> Result<RecordFormat, EmError> {
        let refuse = |reason: String| Err(EmError::Parameter(reason));
        if size == Bytes::ZERO || size > RECORD_MAX {
            return refuse(format!("a record has 1 byte to {RECORD_MAX}, not {} B", size.0));
        }
        if key.is_empty() || key.end as u64 > size.0 {
            let (start, end) = (key.start, key.end);
            return refuse(format!("the key {start}..{end} is not within a record of {size}"));
        }
        let size = size.0 as usize;
        let at = key.start.min(size.saturating_sub(8));
        let before = 8 * (key.start - at) as u32;
        let mask = u64::MAX << (64 - 8 * key.len().min(8));
        Ok(RecordFormat { size, key, prefix: PrefixPlace { at, before, mask } })
    }

    /// The size of a record, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether the first eight bytes do not decide every comparison.
    pub(crate) fn key_is_long(&self) -> bool {
        self.key.len() > 8
    }

    /// The key of a record.
    #[inline]
    pub fn key<'r>(&self, record: &'r [u8]) -> &'r [u8] {
        &record[self.key.clone()]
    }

    /// The first eight bytes of the key as an integer, zeroes where it is shorter.
    #[inline]
    pub(crate) fn prefix(&self, record: &[u8]) -> u64 {
        let PrefixPlace { at, before, mask } = self.prefix;
        match record[at..].first_chunk::<8>() {
            Some(bytes) => u64::from_be_bytes(*bytes) << before & mask,
            None => prefix_of(self.key(record)),
        }
    }

    /// Compares by the key.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.prefix(a).cmp(&self.prefix(b)) {
            Ordering::Equal if self.key_is_long() => self.key(a).cmp(self.key(b)),
            order => order,
        }
    }

    /// Compares by the key, then by the whole record: only identical records are equal.
    #[inline]
    pub(crate) fn compare_fully(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare(a, b).then_with(|| a.cmp(b))
    }

    /// The record at an index.
    #[inline]
    pub fn at<'r>(&self, records: &'r [u8], index: usize) -> &'r [u8] {
        &records[index * self.size..][..self.size]
    }

    /// How many records there are.
    #[inline]
    pub fn count(&self, records: &[u8]) -> usize {
        records.len() / self.size
    }

    /// In sorted records, how many are less than `key`, or with `or_equal` not greater.
    pub(crate) fn rank(&self, records: &[u8], key: &[u8], or_equal: bool) -> usize {
        let prefix = prefix_of(key);
        let is_below = |index: usize| {
            let record = self.at(records, index);
            match self.prefix(record).cmp(&prefix) {
                Ordering::Less => true,
                Ordering::Equal if self.key_is_long() && self.key(record) != key => self.key(record) < key,
                Ordering::Equal => or_equal,
                Ordering::Greater => false,
            }
        };
        // Most ranks are small: steps that double find the range first.
        let (mut low, mut high, count) = (0, 1, self.count(records));
        while high < count && is_below(high - 1) {
            (low, high) = (high, 2 * high);
        }
        high = high.min(count);
        while low < high {
            let middle = (low + high) / 2;
            if is_below(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// The first eight bytes of a key as an integer.
fn prefix_of(key: &[u8]) -> u64 {
    key.iter().take(8).enumerate().fold(0, |all, (at, &byte)| all | u64::from(byte) << (56 - 8 * at))
}

/// A checksum of a multiset of records, whatever their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordChecksum {
    /// How many records.
    pub count: u64,
    sum: u64,
}

impl RecordChecksum {
    /// The checksum of records.
    pub fn of(format: &RecordFormat, records: &[u8]) -> RecordChecksum {
        let sum = match format.size {
            // The usual length as a constant, so that a record is two loads and a multiplication. Four sums side by side:
            // the compiler would move single ones through vector registers.
            16 => {
                let (fours, rest) = records.as_chunks::<64>();
                let mut sums = [0u64; 4];
                for four in fours {
                    for (sum, record) in sums.iter_mut().zip(four.as_chunks::<16>().0) {
                        *sum = sum.wrapping_add(hash(record));
                    }
                }
                let rest = rest.as_chunks::<16>().0.iter().map(|record| hash(record));
                sums.into_iter().chain(rest).fold(0, u64::wrapping_add)
            }
            size => records.chunks_exact(size).fold(0, |sum: u64, record| sum.wrapping_add(hash(record))),
        };
        RecordChecksum { count: format.count(records) as u64, sum }
    }

    /// The checksum of both.
    pub fn merge(self, other: RecordChecksum) -> RecordChecksum {
        RecordChecksum { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// A hash of 64 bits. Two words at a time are mixed by a multiplication of 128 bits (wyhash's mixing step), each with a
/// constant of its own, so that words that change places change the sum.
#[inline(always)]
fn hash(record: &[u8]) -> u64 {
    const ODD: [u64; 2] = [0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB];
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let mix = |state: u64, a: u64, b: u64| {
        let product = u128::from(a ^ state ^ ODD[0]) * u128::from(b ^ ODD[1]);
        (product as u64) ^ (product >> 64) as u64
    };
    let (pairs, rest) = record.as_chunks::<16>();
    let state =
        pairs.iter().fold(record.len() as u64, |state, pair| mix(state, word(&pair[..8]), word(&pair[8..])));
    match rest {
        [] => state,
        rest => {
            let (first, second) = rest.split_at(rest.len().min(8));
            mix(state, word(first), word(second))
        }
    }
}

/// Makes records: random bytes, which no device compresses.
#[derive(Clone, Debug)]
pub struct RecordGenerator(Prng);

impl RecordGenerator {
    /// A generator.
    pub fn new(seed: Seed) -> RecordGenerator {
        RecordGenerator(Prng::new(seed))
    }

    /// Fills `records`.
    pub fn fill(&mut self, records: &mut [u8]) {
        self.0.fill(records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_within_its_record() {
        let refused = |size, key| RecordFormat::new(Bytes(size), key).unwrap_err().to_string();
        assert_eq!(refused(16, 9..17), "the key 9..17 is not within a record of 16 B");
        assert_eq!(refused(16, 8..8), "the key 8..8 is not within a record of 16 B");
        assert_eq!(refused(0, 0..1), "a record has 1 byte to 64 KiB, not 0 B");
        assert!(RecordFormat::new(Bytes(16), 8..16).is_ok());
    }

    #[test]
    fn the_prefix_orders_as_the_key_does() {
        let format = RecordFormat::new(Bytes(6), 1..4).unwrap();
        assert_eq!(format.prefix(b"xabcyz"), 0x6162_6300_0000_0000);
        let record: Vec<u8> = (1..=20).collect();
        for (size, key) in [(6, 5..6), (8, 0..8), (8, 3..5), (16, 13..16), (16, 2..12), (20, 4..9)] {
            let format = RecordFormat::new(Bytes(size), key.clone()).unwrap();
            assert_eq!(
                format.prefix(&record[..size as usize]),
                prefix_of(&record[key.clone()]),
                "{size} {key:?}"
            );
        }
        let sorted = b"xaaa__xaab__xaab__xabc__";
        let rank = |key: &[u8], or_equal| format.rank(sorted, key, or_equal);
        assert_eq!((rank(b"aab", false), rank(b"aab", true), rank(b"zzz", false)), (1, 3, 4));
    }

    #[test]
    fn a_checksum_knows_the_records_and_not_their_order() {
        let format = RecordFormat::new(Bytes(12), 0..8).unwrap();
        let mut records = vec![0; 120];
        RecordGenerator::new(Seed(3)).fill(&mut records);
        let checksum = RecordChecksum::of(&format, &records);
        let (a, b) = records.split_at(48);
        let parts = RecordChecksum::of(&format, b).merge(RecordChecksum::of(&format, a));
        assert_eq!((checksum, checksum.count), (parts, 10));
        for at in 0..120 {
            let mut damaged = records.clone();
            damaged[at] ^= 1;
            assert_ne!(RecordChecksum::of(&format, &damaged), checksum, "byte {at}");
        }
        // One record twice, the other one lost.
        let mut damaged = records.clone();
        damaged.copy_within(0..12, 12);
        assert_ne!(RecordChecksum::of(&format, &damaged), checksum);
    }
}
