//! The tree of losers, which merges sorted slices of records.
//!
//! # Model
//! Knuth, TAOCP 3, 5.4.1: each leaf is a slice, each inner node remembers the loser of the two records that met there, and
//! the winner goes to the output. Replacing the winner costs log2(k) comparisons. They are of one integer: the key's first
//! eight bytes, then the slice's index. Only keys that are longer and equal in these bytes are compared as bytes.
//!
//! # Invariants
//! - Equal keys keep the order of their slices, and within a slice their order.

use std::hint::select_unpredictable;

use crate::record_format::RecordFormat;
use crate::sort::slices::SliceSpans;

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
pub struct Tree<'f, 's, const SIZE: usize> {
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
    /// A tree of these sources.
    pub fn new(format: &'f RecordFormat, sources: &[&'s [u8]]) -> Tree<'f, 's, SIZE> {
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

    /// Merges all records into `out`, which has exactly their length.
    pub fn run(mut self, out: SliceSpans<'_>) {
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
