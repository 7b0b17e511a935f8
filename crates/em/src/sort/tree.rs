//! Merges sorted slices of records in memory, on all cores.
//!
//! # Model
//! A tree of losers (Knuth, TAOCP 3, 5.4.1): each leaf is a slice, each inner node remembers the loser of the two records
//! that met there, and the winner goes to the output. Replacing the winner costs log2(k) comparisons.
//!
//! # Method
//! 1. [`merge_parallel`] cuts all slices at a pivot, so that both parts have about the same number of records, and merges
//!    the parts at the same time; each part is cut further, down to one part for each core.
//! 2. [`Tree`] is the tree of losers. Comparisons are of one integer: the key's first eight bytes, then the slice's
//!    index. Only keys that are longer and equal in these bytes are compared as bytes.
//!
//! # Invariants
//! - Equal keys keep the order of their slices, and within a slice their order: merging is stable.

use std::hint::select_unpredictable;

use crate::record_format::RecordFormat;

/// Below this number of records, two threads take longer than one: handing over costs some microseconds, merging a record
/// some tens of nanoseconds.
const PARALLEL_MIN: usize = 4096;

/// Where merged records go: spans that are filled one after the other. Each holds whole records.
pub type Spans<'o> = Vec<&'o mut [u8]>;

/// Merges `sources` into `out`, which has exactly their length, with `parts` threads or fewer.
pub fn merge_parallel(format: &RecordFormat, sources: &[&[u8]], out: Spans<'_>, parts: usize) {
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

/// Where to cut each source, so that everything before the cuts goes before everything after them, and about this share of
/// the records is before them. `None` where the cut makes no two parts.
pub fn cut(format: &RecordFormat, sources: &[&[u8]], share: f64) -> Option<Vec<usize>> {
    let largest = (0..sources.len()).max_by_key(|&index| sources[index].len())?;
    let last = format.count(sources[largest]).checked_sub(1)?;
    let middle = (last as f64 * share) as usize;
    let pivot = format.key(format.at(sources[largest], middle));
    let cuts: Vec<usize> = sources
        .iter()
        .enumerate()
        .map(|(index, source)| match index.cmp(&largest) {
            std::cmp::Ordering::Less => format.rank(source, pivot, true),
            std::cmp::Ordering::Equal => middle + 1,
            std::cmp::Ordering::Greater => format.rank(source, pivot, false),
        })
        .collect();
    let is_everything = sources.iter().zip(&cuts).all(|(source, &cut)| cut == format.count(source));
    (!is_everything).then_some(cuts)
}

/// The first `length` bytes of the spans, and the others.
fn split(spans: Spans<'_>, mut length: usize) -> (Spans<'_>, Spans<'_>) {
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for span in spans {
        let (now, later) = span.split_at_mut(length.min(span.len()));
        length -= now.len();
        if !now.is_empty() {
            low.push(now);
        }
        if !later.is_empty() {
            high.push(later);
        }
    }
    (low, high)
}

/// Merges `sources` into `out`, which has exactly their length.
fn merge(format: &RecordFormat, sources: &[&[u8]], out: Spans<'_>) {
    if let [source] = sources {
        let mut source = *source;
        for span in out {
            let (now, later) = source.split_at(span.len());
            span.copy_from_slice(now);
            source = later;
        }
        return;
    }
    // A copy of a known length is a few instructions, and the usual lengths are known.
    match format.size() {
        8 => Tree::<8>::new(format, sources).run(out),
        16 => Tree::<16>::new(format, sources).run(out),
        32 => Tree::<32>::new(format, sources).run(out),
        64 => Tree::<64>::new(format, sources).run(out),
        _ => Tree::<0>::new(format, sources).run(out),
    }
}

/// A contender: the key's first eight bytes, then the source's index. A source that has ended loses against all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Contender {
    prefix: u64,
    source: u64,
}

const ENDED: u64 = 1 << 63;

impl Contender {
    fn index(self) -> usize {
        (self.source & !ENDED) as usize
    }

    /// Without a branch.
    #[inline]
    fn precedes(self, other: Contender) -> bool {
        (self.prefix < other.prefix) | ((self.prefix == other.prefix) & (self.source < other.source))
    }
}

/// The tree of losers over records of `SIZE` bytes; 0 is any size.
struct Tree<'f, 's, const SIZE: usize> {
    format: &'f RecordFormat,
    is_long: bool,
    /// What is left of each source.
    sources: Vec<&'s [u8]>,
    /// The losers at the inner nodes, 1 to the number of leaves; at 0 the winner.
    nodes: Vec<Contender>,
    /// The second record of each source. It is read while the first one is in the tree, so that a cache miss delays nobody.
    following: Vec<Contender>,
}

impl<'f, 's, const SIZE: usize> Tree<'f, 's, SIZE> {
    fn new(format: &'f RecordFormat, sources: &[&'s [u8]]) -> Tree<'f, 's, SIZE> {
        let leaves = sources.len().max(2);
        let mut sources = sources.to_vec();
        sources.resize(leaves, &[]);
        let is_long = format.key_is_long();
        let mut tree = Tree {
            format,
            is_long,
            sources,
            nodes: vec![Contender::default(); leaves],
            following: Vec::new(),
        };
        tree.nodes[0] = tree.play(1);
        tree.following = (0..leaves).map(|source| tree.record(source, 1)).collect();
        tree
    }

    fn size(&self) -> usize {
        if SIZE == 0 { self.format.size() } else { SIZE }
    }

    /// The winner below a node. The losers stay at the nodes where they lost.
    fn play(&mut self, node: usize) -> Contender {
        let leaves = self.nodes.len();
        if node >= leaves {
            return self.record(node - leaves, 0);
        }
        let (left, right) = (self.play(2 * node), self.play(2 * node + 1));
        let (winner, loser) = if self.goes_before(left, right) { (left, right) } else { (right, left) };
        self.nodes[node] = loser;
        winner
    }

    /// One of the next records of a source, as a contender.
    #[inline]
    fn record(&self, source: usize, index: usize) -> Contender {
        let (size, records) = (self.size(), self.sources[source]);
        match records.get(index * size..(index + 1) * size) {
            Some(record) => Contender { prefix: self.format.prefix(record), source: source as u64 },
            None => Contender { prefix: u64::MAX, source: source as u64 | ENDED },
        }
    }

    #[inline]
    fn goes_before(&self, a: Contender, b: Contender) -> bool {
        if self.is_long && a.prefix == b.prefix && (a.source | b.source) & ENDED == 0 {
            return self.goes_before_by_key(a.index(), b.index());
        }
        a.precedes(b)
    }

    #[cold]
    fn goes_before_by_key(&self, a: usize, b: usize) -> bool {
        let order = self.format.compare(self.sources[a], self.sources[b]);
        order.then(a.cmp(&b)).is_lt()
    }

    fn run(mut self, out: Spans<'_>) {
        let size = self.size();
        for record in out.into_iter().flat_map(|span| span.chunks_exact_mut(size)) {
            match self.is_long {
                true => self.step::<true>(record),
                false => self.step::<false>(record),
            }
        }
    }

    /// Copies the record that goes first.
    #[inline(always)]
    fn step<const LONG: bool>(&mut self, to: &mut [u8]) {
        let (size, leaves) = (self.size(), self.nodes.len());
        let winner = self.nodes[0].index();
        let (record, left) = self.sources[winner].split_at(size);
        to.copy_from_slice(record);
        self.sources[winner] = left;
        let mut current = self.following[winner];
        self.following[winner] = self.record(winner, 1);
        let mut node = (winner + leaves) / 2;
        while node > 0 {
            let other = self.nodes[node];
            let mut keeps = current.precedes(other);
            if LONG && current.prefix == other.prefix {
                keeps = self.goes_before(current, other);
            }
            // Who wins cannot be predicted: a branch would be wrong half of the time.
            self.nodes[node] = Contender {
                prefix: select_unpredictable(keeps, other.prefix, current.prefix),
                source: select_unpredictable(keeps, other.source, current.source),
            };
            current = Contender {
                prefix: select_unpredictable(keeps, current.prefix, other.prefix),
                source: select_unpredictable(keeps, current.source, other.source),
            };
            node /= 2;
        }
        self.nodes[0] = current;
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Bytes, Prng, Seed};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Compares with a stable sort of the concatenation, for short and long keys with many ties.
        #[test]
        fn merging_is_a_stable_sort(
            seed in 0u64..1_000_000,
            lengths in prop::collection::vec(0usize..3000, 1..9),
            size in prop::sample::select(vec![8usize, 12, 16]),
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
                // The key is two bytes that matter, the others are the same: long keys tie in their first eight bytes.
                records.iter_mut().for_each(|record| record[..size.min(10) - 2].fill(7));
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
