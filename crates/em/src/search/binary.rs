//! Binary search over the blocks of a sorted sequence.
//!
//! # Model
//! The search halves a range of blocks that always has the same size at the same level (Knuth, TAOCP 3, 6.2.1, uniform binary
//! search): a range of n blocks becomes one of n - floor(n / 2), whichever half it is. So a search has ceil(log2(blocks))
//! levels, and the first keys that the first levels compare with form a tree that can be cached.
//!
//! # Invariants
//! - A search reads one block for each level that is not cached, and one more if none of these blocks is the answer's.

use flashlab_base::{Bytes, Operation};

use crate::budget::MemoryLease;
use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;
use crate::search::{SearchStep, SearchStructure, SortedSequence};

/// A binary search, with some levels cached.
#[derive(Debug)]
pub struct BinarySearch {
    sequence: SortedSequence,
    /// The first keys of the blocks that the first levels compare with; the children of entry n are 2n and 2n + 1.
    cache: Vec<u64>,
    cached_levels: u32,
    _lease: MemoryLease,
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryState {
    key: u64,
    low: u64,
    size: u64,
    /// The rank, if the block `low` was read.
    rank: Option<u64>,
    level: u32,
    node: usize,
}

impl BinarySearch {
    /// A search with `cached_levels` levels in memory, or all of them if there are fewer. The cache is read now: at most
    /// one block for each of its keys.
    ///
    /// # Errors
    /// Those of the IOs, and [`EmError::Memory`].
    pub fn new(
        machine: &mut Machine<'_>,
        sequence: SortedSequence,
        cached_levels: u32,
    ) -> Result<BinarySearch, EmError> {
        machine.begin_phase("cache");
        let cached_levels = cached_levels.min(sequence.blocks().next_power_of_two().ilog2());
        let entries = 1usize << cached_levels;
        let lease = machine.budget().lease(Bytes(entries as u64 * 8), "the cached levels of a search")?;
        let (mut buffers, _buffer_lease) =
            machine.budget().buffers(1, sequence.block, "filling the cache")?;
        let mut buffer = buffers.remove(0);
        let mut cache = vec![0; entries];
        // The range of blocks of each node, by the path from the root.
        for (node, key) in cache.iter_mut().enumerate().skip(1) {
            let (mut low, mut size) = (0, sequence.blocks());
            for bit in (0..node.ilog2()).rev() {
                let half = size / 2;
                low += if node >> bit & 1 == 1 { half } else { 0 };
                size -= half;
            }
            let offset = Bytes((low + size / 2) * sequence.block.0);
            let (device, offset) = sequence.region.locate(offset);
            let ticket = machine.submit(device, Operation::Read, offset, sequence.block, buffer);
            buffer = machine.wait(ticket)?;
            *key = sequence.first_key(&buffer);
        }
        let mode = flashlab_base::Mode::Read;
        machine.ledger_mut().current().planned.add(mode, sequence.block, entries as u64 - 1);
        Ok(BinarySearch { sequence, cache, cached_levels, _lease: lease })
    }

    /// Goes down to the next block that has to be read.
    fn descend(&self, mut state: BinaryState) -> SearchStep<BinaryState> {
        while state.size > 1 && state.level < self.cached_levels {
            let half = state.size / 2;
            let goes_right = self.cache[state.node] <= state.key;
            state.low += if goes_right { half } else { 0 };
            state.size -= half;
            state.level += 1;
            state.node = 2 * state.node + usize::from(goes_right);
        }
        match state.rank {
            Some(rank) if state.size == 1 => SearchStep::Found(rank),
            _ => SearchStep::Read(state),
        }
    }

    fn probe(state: BinaryState) -> u64 {
        state.low + state.size / 2
    }
}

impl SearchStructure for BinarySearch {
    type State = BinaryState;

    fn begin(&self, key: u64) -> SearchStep<BinaryState> {
        let size = self.sequence.blocks();
        self.descend(BinaryState { key, low: 0, size, rank: None, level: 0, node: 1 })
    }

    fn block(&self, state: BinaryState) -> (&Region, Bytes) {
        (&self.sequence.region, Bytes(BinarySearch::probe(state) * self.sequence.block.0))
    }

    fn advance(&self, mut state: BinaryState, data: &[u8]) -> SearchStep<BinaryState> {
        let probe = BinarySearch::probe(state);
        if state.size == 1 {
            return SearchStep::Found(self.sequence.rank_in(probe, data, state.key));
        }
        let half = state.size / 2;
        if self.sequence.first_key(data) <= state.key {
            state.low += half;
            state.rank = Some(self.sequence.rank_in(probe, data, state.key));
        }
        state.size -= half;
        state.level += 1;
        self.descend(state)
    }

    fn block_size(&self) -> Bytes {
        self.sequence.block
    }

    fn planned_reads(&self, rank: u64) -> u64 {
        let answer = self.sequence.block_of(rank);
        let (mut low, mut size, mut level, mut reads, mut is_read) = (0, self.sequence.blocks(), 0, 0, false);
        while size > 1 {
            let half = size / 2;
            let goes_right = low + half <= answer;
            if level >= self.cached_levels {
                reads += 1;
                is_read |= goes_right;
            }
            low += if goes_right { half } else { 0 };
            size -= half;
            level += 1;
        }
        reads + u64::from(!is_read)
    }
}
