//! Sorts records, and merges sorted slices of them, by distribution.
//!
//! # Model
//! A tree of losers costs log2(k) comparisons for a record, whose outcomes nobody can predict. But most keys tell where their
//! records go: cut into as many parts as there are records, the range of a few keys has about one in each (Knuth, TAOCP
//! 3, 5.2.5). That costs nearly the same for any number of slices.
//!
//! # Method
//! 1. To merge, all slices are cut at a pivot, so that about [`AIM`] records go before all others: these and their copy
//!    lie in a CPU's caches.
//! 2. [`distribute`]: a counting sort by the part, slice after slice, puts them almost in order; an insertion sort
//!    completes it.
//! 3. Where there are too many slices to be cut often, many keys fall into one part, or the cut leaves too many records, a
//!    tree of losers merges them instead.
//!
//! # Invariants
//! - Equal keys keep the order of their slices, and within a slice their order.

use std::cmp::Ordering;

use crate::record_format::RecordFormat;
use crate::sort::slices::{SliceSpans, copy, cut, split};
use crate::sort::tree::Tree;

/// How many records of slices are distributed at a time: with their copy 32 KiB for records of 16 bytes. With 512 or 2048 it
/// took 3 to 7 % longer.
const AIM: usize = 1024;
/// More are not: cuts follow one slice, and what they take of the others varies.
const MOST: usize = 2 * AIM;
/// With more slices a cut takes longer than it saves: it searches each of them for a few records.
const SLICES_MAX: usize = AIM / 8;
/// More records in one part are not sorted by insertion, which takes the square of their number.
const IN_PART_MAX: u32 = 32;

/// Merges `sources`, whose records have `SIZE` bytes, into `out`, which has exactly their length.
pub fn merge_by_distribution<const SIZE: usize>(
    format: &RecordFormat,
    sources: &[&[u8]],
    mut out: SliceSpans<'_>,
) {
    if sources.len() > SLICES_MAX {
        return Tree::<SIZE>::new(format, sources).run(out);
    }
    let mut sources = sources.to_vec();
    let mut left: usize = sources.iter().map(|source| source.len() / SIZE).sum();
    let mut desk = Desk { records: [[0; SIZE]; MOST], ends: [0; MOST] };
    while left > 0 {
        let cuts = if left <= AIM { None } else { cut(format, &sources, AIM as f64 / left as f64) };
        let now: Vec<&[u8]> = match cuts {
            Some(cuts) => sources
                .iter_mut()
                .zip(cuts)
                .filter_map(|(source, count)| source.split_off(..count * SIZE))
                .filter(|now| !now.is_empty())
                .collect(),
            None => std::mem::take(&mut sources),
        };
        let count = now.iter().map(|source| source.len() / SIZE).sum();
        let (to, later) = split(out, count * SIZE);
        match desk.merge(format, &now, count) {
            Some(merged) => copy(merged, to),
            None => Tree::<SIZE>::new(format, &now).run(to),
        }
        (out, left) = (later, left - count);
    }
}

/// Where records are distributed.
struct Desk<const SIZE: usize> {
    records: [[u8; SIZE]; MOST],
    ends: [u32; MOST],
}

impl<const SIZE: usize> Desk<SIZE> {
    /// The `count` records of sorted sources in their order; `None` where there are too many, or too many in one part.
    fn merge(&mut self, format: &RecordFormat, sources: &[&[u8]], count: usize) -> Option<&[u8]> {
        let to = self.records.get_mut(..count)?;
        let sources: Vec<&[[u8; SIZE]]> = sources.iter().map(|source| source.as_chunks().0).collect();
        let prefix = |record: &[u8; SIZE]| format.prefix(record);
        let low = sources.iter().filter_map(|source| source.first()).map(prefix).min()?;
        let high = sources.iter().filter_map(|source| source.last()).map(prefix).max()?;
        distribute(format, &sources, (low, high), &mut self.ends, to).then_some(to.as_flattened())
    }
}

/// Equal parts of a range of prefixes: a power of two of them, from 2 on.
pub struct Parts {
    low: u64,
    shift: u32,
}

impl Parts {
    /// `count` parts of the prefixes from the first to the second one.
    pub fn new((low, high): (u64, u64), count: usize) -> Parts {
        let range_bits = u64::BITS - high.saturating_sub(low).leading_zeros();
        Parts { low, shift: range_bits.saturating_sub(count.ilog2()) }
    }

    /// The part of a prefix.
    #[inline]
    pub fn of(&self, prefix: u64) -> usize {
        ((prefix - self.low) >> self.shift) as usize
    }

    /// Sets `ends`, one for each part, to where its records begin: that is the end of what it holds so far. Returns the most records in one
    /// part.
    #[inline]
    pub fn count(&self, prefixes: impl Iterator<Item = u64>, ends: &mut [u32]) -> u32 {
        ends.fill(0);
        prefixes.for_each(|prefix| ends[self.of(prefix)] += 1);
        let (mut begin, mut most) = (0, 0);
        for end in ends {
            most = most.max(*end);
            (*end, begin) = (begin, begin + *end);
        }
        most
    }
}

/// Sorts the records of all sources into `to`, which has room for exactly these, by distribution among as many parts as
/// `ends` has, a power of two from 2 on. `range` is that of the keys' prefixes. Where too many records would be in one part,
/// nothing is done, and it returns false.
pub fn distribute<const SIZE: usize>(
    format: &RecordFormat,
    sources: &[&[[u8; SIZE]]],
    range: (u64, u64),
    ends: &mut [u32],
    to: &mut [[u8; SIZE]],
) -> bool {
    let parts = Parts::new(range, ends.len());
    let records = || sources.iter().copied().flatten();
    if parts.count(records().map(|record| format.prefix(record)), ends) > IN_PART_MAX {
        return false;
    }
    for record in records() {
        let end = &mut ends[parts.of(format.prefix(record))];
        to[*end as usize] = *record;
        *end += 1;
    }
    let is_long = format.key_is_long();
    for index in 1..to.len() {
        let (record, prefix) = (to[index], format.prefix(&to[index]));
        let mut place = index;
        while place > 0 {
            let before = &to[place - 1];
            let is_greater = match format.prefix(before).cmp(&prefix) {
                Ordering::Equal => is_long && format.compare(before, &record).is_gt(),
                order => order.is_gt(),
            };
            if !is_greater {
                break;
            }
            to[place] = *before;
            place -= 1;
        }
        to[place] = record;
    }
    true
}
