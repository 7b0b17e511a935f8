//! How many IOs list ranking needs, as a formula.
//!
//! # Model
//! Hopping reads a block for each element whose predecessor lies in another one. Contraction moves sequences: a round with
//! c elements removes a quarter of them, keeps a quarter as they are, and sorts the other half twice. The method of
//! `contraction` says which sequences are written and read; those that fit into their share of the memory cost no IO.
//!
//! # Invariant
//! - Only the coins are random, so that the formula and a run differ by sampling alone.

use flashlab_base::Bytes;

use super::ListOrder;
use super::contraction::IN_MEMORY;
use crate::budget::MemoryBudget;

/// The bytes of an element with successor and weight, and of an element with its distance.
const TRIPLE: f64 = 16.0;
const PAIR: f64 = 8.0;

/// The IOs of a contraction, as expected values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankIos {
    /// Reads.
    pub reads: f64,
    /// Their bytes.
    pub read_bytes: f64,
    /// Writes.
    pub writes: f64,
    /// Their bytes.
    pub write_bytes: f64,
    /// Records that cost host time: read, written, collected or sorted.
    pub elements: f64,
}

/// How many blocks hopping reads.
pub fn hopping_reads(list: &ListOrder, block: Bytes) -> u64 {
    let (mut reads, mut held) = (0, None);
    for rank in 0..list.count() {
        let needed = 8 * list.element(rank) / block.0;
        reads += u64::from(held.replace(needed) != Some(needed));
    }
    reads
}

/// The IOs of [`rank_by_contraction`](super::rank_by_contraction) with this memory and sequences in IOs of `block`.
pub fn contraction_ios(count: u64, memory: Bytes, block: Bytes) -> RankIos {
    let mut plan = Plan { ios: RankIos::default(), memory, share: memory.0 as f64 / 8.0, block };
    let (mut left, mut sizes) = (count as f64, Vec::new());
    let fits = ((memory.0 / 8 * 2 / IN_MEMORY) as f64).max(1.0);
    while left > fits {
        plan.read_list(left, sizes.is_empty());
        plan.collect(left / 4.0, TRIPLE, 1.0, None);
        // The set of the round is read by the join, and once more when it is inserted again.
        plan.collect(left / 4.0, TRIPLE, 2.0, None);
        // Who sorts leaves this share of the memory to the merge: all but the collections and readers that it has.
        plan.collect(left / 2.0, TRIPLE, 1.0, Some(7.0 / 8.0));
        plan.collect(left / 2.0, TRIPLE, 1.0, Some(9.0 / 16.0));
        sizes.push(left);
        left *= 0.75;
    }
    if sizes.is_empty() {
        plan.read_list(left, true);
    }
    plan.collect(left, PAIR, if sizes.is_empty() { 1.0 } else { 2.0 }, None);
    for (round, size) in sizes.iter().enumerate().rev() {
        plan.collect(size / 4.0, TRIPLE, 1.0, Some(13.0 / 16.0));
        plan.collect(size / 4.0, PAIR, 1.0, Some(13.0 / 16.0));
        plan.collect(*size, PAIR, if round == 0 { 1.0 } else { 2.0 }, None);
    }
    plan.ios.writes += (4.0 * count as f64 / block.0 as f64).ceil();
    plan.ios.write_bytes += 4.0 * count as f64;
    plan.ios.elements += count as f64;
    plan.ios
}

struct Plan {
    ios: RankIos,
    memory: Bytes,
    share: f64,
    block: Bytes,
}

impl Plan {
    /// The elements that a round begins with. Only the first round's are a sequence of their own.
    fn read_list(&mut self, count: f64, is_first: bool) {
        if is_first {
            self.ios.reads += (8.0 * count / self.block.0 as f64).ceil();
            self.ios.read_bytes += 8.0 * count;
            self.ios.elements += count;
        }
    }

    /// Writes a collection of `count` records and reads it `times` times, where it is larger than its share. A sorted one is
    /// merged in this part of the memory.
    fn collect(&mut self, count: f64, size: f64, times: f64, merged_in: Option<f64>) {
        let run = (self.share / size).floor().max(1.0);
        self.ios.elements += count;
        if count <= run {
            return;
        }
        let runs = (count / run).ceil();
        let read_block = merged_in.map_or(self.block, |share| self.merge_block(runs, share));
        for (records, runs) in [(run, (count / run).floor()), (count % run, 1.0)] {
            let blocks = |block: Bytes| (records * size / block.0 as f64).ceil();
            self.ios.writes += runs * blocks(self.block);
            self.ios.reads += times * runs * blocks(read_block);
        }
        self.ios.write_bytes += count * size;
        self.ios.read_bytes += times * count * size;
        self.ios.elements += (1.0 + times) * count;
    }

    /// The block with which runs are merged in this part of the memory: half of that holds two blocks of each run.
    fn merge_block(&self, runs: f64, part: f64) -> Bytes {
        let share = (self.memory.0 as f64 * part / 2.0 / runs) as u64;
        let smallest = MemoryBudget::buffer_size(Bytes(1)).0;
        let buffers = if share / 2 >= smallest { 2 } else { 1 };
        let mut block = self.block.0;
        while block * buffers > share && block / 2 >= smallest {
            block /= 2;
        }
        Bytes(block)
    }
}
