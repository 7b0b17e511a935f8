//! Merges sorted slices of records in memory, on all cores.
//!
//! # Method
//! 1. [`merge_parallel`] cuts all slices at a pivot, so that both parts have about the same number of records, and merges
//!    the parts at the same time; each part is cut further, down to one part for each core.
//! 2. A part is merged by distribution where records are small, which copies them more than once; otherwise by a tree of
//!    losers.
//!
//! # Invariants
//! - Equal keys keep the order of their slices, and within a slice their order: merging is stable.

use crate::record_format::RecordFormat;
use crate::sort::distribution::merge_by_distribution;
use crate::sort::slices::{SliceSpans, copy, cut, split};
use crate::sort::tree::Tree;

/// Below this number of records, two threads take longer than one: handing over costs some microseconds, merging a record
/// some tens of nanoseconds.
const PARALLEL_MIN: usize = 4096;

/// Makes the calling thread one of the `threads` that sort and merge, for the whole process: what it waits for, it then does
/// itself, and nobody has to be woken first. Later calls change nothing.
pub fn work_on_this_thread(threads: usize) {
    // An error says that the threads exist already.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build_global();
}

/// Merges `sources` into `out`, which has exactly their length, with `parts` threads or fewer.
pub fn merge_parallel(format: &RecordFormat, sources: &[&[u8]], out: SliceSpans<'_>, parts: usize) {
    let count: usize = sources.iter().map(|source| format.count(source)).sum();
    if parts < 2 || count < PARALLEL_MIN {
        return merge(format, sources, out);
    }
    let Some(cuts) = cut(format, sources, 0.5) else { return merge(format, sources, out) };
    let halves = |take_low: bool| -> Vec<&[u8]> {
        let parts = sources.iter().zip(&cuts).map(|(source, &cut)| {
            let (low, high) = source.split_at(cut * format.size());
            if take_low { low } else { high }
        });
        parts.filter(|part| !part.is_empty()).collect()
    };
    let (low, high) = (halves(true), halves(false));
    let (low_out, high_out) = split(out, low.iter().map(|part| part.len()).sum());
    rayon::join(
        || merge_parallel(format, &low, low_out, parts / 2),
        || merge_parallel(format, &high, high_out, parts - parts / 2),
    );
}

/// Merges `sources` into `out`, which has exactly their length.
fn merge(format: &RecordFormat, sources: &[&[u8]], out: SliceSpans<'_>) {
    if let [source] = sources {
        return copy(source, out);
    }
    // A copy of a known length is a few instructions, and the usual lengths are known.
    match format.size() {
        8 => merge_by_distribution::<8>(format, sources, out),
        16 => merge_by_distribution::<16>(format, sources, out),
        32 => merge_by_distribution::<32>(format, sources, out),
        64 => Tree::<64>::new(format, sources).run(out),
        _ => Tree::<0>::new(format, sources).run(out),
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Bytes, Prng, Seed};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Compares with a stable sort of the concatenation, for short and long keys, spread evenly and with many ties.
        #[test]
        fn merging_is_a_stable_sort(
            seed in 0u64..1_000_000,
            lengths in prop::collection::vec(0usize..3000, 1..9),
            size in prop::sample::select(vec![8usize, 12, 16, 32]),
            is_spread in any::<bool>(),
            parts in 1usize..4,
            spread in prop::sample::select(vec![2u64, 50, 256]),
        ) {
            let key = if size == 8 { 6..8 } else { 0..size - 2 };
            let format = RecordFormat::new(Bytes(size as u64), key).unwrap();
            let mut prng = Prng::new(Seed(seed));
            let mut sources: Vec<Vec<u8>> = Vec::new();
            for length in lengths {
                let mut records: Vec<Vec<u8>> =
                    (0..length).map(|_| (0..size).map(|_| prng.below(spread) as u8).collect()).collect();
                // Or the key is two bytes that matter, the others are the same: long keys tie in their first eight bytes.
                if !is_spread {
                    records.iter_mut().for_each(|record| record[..size.min(10) - 2].fill(7));
                }
                records.sort_by(|a, b| format.compare(a, b));
                sources.push(records.concat());
            }
            let mut expected: Vec<Vec<u8>> =
                sources.concat().chunks(size).map(<[u8]>::to_vec).collect();
            expected.sort_by(|a, b| format.compare(a, b));
            let mut out = vec![0; expected.len() * size];
            let half = out.len() / size / 2 * size;
            let (first, second) = out.split_at_mut(half);
            let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            merge_parallel(&format, &slices, vec![first, second], parts);
            prop_assert!(out == expected.concat());
        }
    }
}
