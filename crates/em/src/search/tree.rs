//! A static B-tree, laid out for the device's page.
//!
//! # Model
//! Level 0 is the sorted sequence. Each level above holds the first key of each block of the level below, packed, without
//! pointers: block b of a level with f keys a block has the children b f to b f + f - 1. The top levels are cached as far as
//! the memory for them reaches. A block has the size that moves most levels a second: log2(keys) / response time is what a
//! read gains (Graefe's utility measure of B-tree pages, "The five-minute rule 20 years later", 2009).
//!
//! # Invariants
//! - A search reads one block of each level that is not cached.

use flashlab_base::{Bytes, Mode};

use crate::budget::MemoryLease;
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::machine::Machine;
use crate::search::{SearchStep, SearchStructure, SortedSequence};
use crate::sequence::{SequenceReader, SequenceWriter};
use crate::tuning::BandwidthCurve;

/// The bytes of a key in the levels above the sequence.
const KEY: u64 = 8;

/// The largest node: with larger ones a hard disk, too, goes down fewer levels a second.
const NODE_MAX: Bytes = Bytes::kib(128);

/// A level above the sequence.
#[derive(Debug)]
struct TreeLevel {
    region: Region,
    keys: u64,
    /// All keys, if the level is cached.
    cached: Option<(Vec<u64>, MemoryLease)>,
}

/// A B-tree over a sorted sequence.
#[derive(Debug)]
pub struct StaticTree {
    sequence: SortedSequence,
    /// From the level above the sequence to the root.
    levels: Vec<TreeLevel>,
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeState {
    key: u64,
    /// 0 is the sequence.
    level: usize,
    block: u64,
}

impl StaticTree {
    /// The smallest node: whole records and whole pages.
    pub fn least_node(unit: Bytes, record: Bytes) -> Bytes {
        record.max(Bytes(1)).least_common_multiple(unit.max(Bytes::kib(4)))
    }

    /// The size of a node for a device whose random reads have this curve: the smallest one, or at most 128 KiB.
    pub fn node_size(curve: &BandwidthCurve, least: Bytes) -> Bytes {
        let sizes = (0..6).map(|power| Bytes(least.0 << power));
        let fits = |size: &Bytes| *size <= least.max(NODE_MAX);
        let gain = |size: Bytes| ((size.0 / KEY) as f64).log2() * curve.at(size) / size.0 as f64;
        sizes.filter(fits).max_by(|&a, &b| gain(a).total_cmp(&gain(b))).unwrap_or(least)
    }

    /// Builds the levels above the sequence, and caches those from the root on that fit into `cache` bytes together.
    ///
    /// # Errors
    /// Those of the IOs, [`EmError::Space`] and [`EmError::Memory`].
    pub fn build(
        machine: &mut Machine<'_>,
        free: &mut ExtentAllocator,
        spread: Spread,
        sequence: SortedSequence,
        ahead: usize,
        cache: Bytes,
    ) -> Result<StaticTree, EmError> {
        machine.begin_phase("build");
        let mut tree = StaticTree { levels: Vec::new(), sequence };
        let mut below =
            (tree.sequence.region.clone(), tree.sequence.count * tree.sequence.format.size() as u64);
        while below.1 > tree.sequence.block.0 {
            let level = tree.build_level(machine, free, spread, &below, ahead)?;
            below = (level.region.clone(), level.keys * KEY);
            tree.levels.push(level);
        }
        tree.cache(machine, cache, ahead)?;
        Ok(tree)
    }

    /// The level above `below`, a region and its length in bytes.
    fn build_level(
        &self,
        machine: &mut Machine<'_>,
        free: &mut ExtentAllocator,
        spread: Spread,
        below: &(Region, u64),
        ahead: usize,
    ) -> Result<TreeLevel, EmError> {
        let (block, is_first) = (self.sequence.block, self.levels.is_empty());
        let keys = below.1.div_ceil(block.0);
        let region = free.allocate(Bytes(keys * KEY).round_up(block), spread)?;
        let mut writer = SequenceWriter::new(machine, region.clone(), Bytes(0), block, ahead)?;
        let range = (Bytes(0), Bytes(below.1));
        let mut reader = SequenceReader::new(machine, below.0.clone(), range, block, ahead)?;
        while let Some(data) = reader.next_block(machine)? {
            let first = if is_first { self.sequence.first_key(data) } else { key_at(data, 0) };
            writer.write(machine, &first.to_be_bytes())?;
            machine.compute(1);
        }
        writer.finish(machine)?;
        let unit = machine.unit();
        let planned = &mut machine.ledger_mut().current().planned;
        planned.add_blocks(Mode::Read, Bytes(below.1), block, unit);
        planned.add_blocks(Mode::Write, Bytes(keys * KEY), block, unit);
        Ok(TreeLevel { region, keys, cached: None })
    }

    fn cache(&mut self, machine: &mut Machine<'_>, mut left: Bytes, ahead: usize) -> Result<(), EmError> {
        machine.begin_phase("cache");
        let (block, unit) = (self.sequence.block, machine.unit());
        for level in self.levels.iter_mut().rev() {
            let size = Bytes(level.keys * KEY);
            if size > left {
                break;
            }
            left = Bytes(left.0 - size.0);
            let lease = machine.budget().lease(size, "the cached levels of a tree")?;
            let mut keys = Vec::with_capacity(level.keys as usize);
            let range = (Bytes(0), size);
            let mut reader = SequenceReader::new(machine, level.region.clone(), range, block, ahead)?;
            while let Some(data) = reader.next_block(machine)? {
                keys.extend((0..data.len() / KEY as usize).map(|index| key_at(data, index)));
            }
            machine.ledger_mut().current().planned.add_blocks(Mode::Read, size, block, unit);
            level.cached = Some((keys, lease));
        }
        Ok(())
    }

    /// How many levels a search reads: the sequence and those above that are not cached.
    pub fn levels_read(&self) -> u64 {
        1 + self.levels.iter().filter(|level| level.cached.is_none()).count() as u64
    }

    /// How many levels there are, with the sequence.
    pub fn height(&self) -> u64 {
        1 + self.levels.len() as u64
    }

    fn fan_out(&self) -> u64 {
        self.sequence.block.0 / KEY
    }

    /// Goes down from a child block, through the cached levels.
    fn descend(&self, mut state: TreeState) -> SearchStep<TreeState> {
        while state.level > 0
            && let Some((keys, _)) = &self.levels[state.level - 1].cached
        {
            let first = state.block * self.fan_out();
            let last = (first + self.fan_out()).min(keys.len() as u64);
            let below = keys[first as usize..last as usize].partition_point(|&key| key <= state.key) as u64;
            state.block = first + below.saturating_sub(1);
            state.level -= 1;
        }
        SearchStep::Read(state)
    }
}

/// The key at an index of a block above the sequence.
fn key_at(data: &[u8], index: usize) -> u64 {
    let bytes = data[index * KEY as usize..].first_chunk().expect("a block holds whole keys");
    u64::from_be_bytes(*bytes)
}

impl SearchStructure for StaticTree {
    type State = TreeState;

    fn begin(&self, key: u64) -> SearchStep<TreeState> {
        self.descend(TreeState { key, level: self.levels.len(), block: 0 })
    }

    fn block(&self, state: TreeState) -> (&Region, Bytes) {
        let region = match state.level {
            0 => &self.sequence.region,
            level => &self.levels[level - 1].region,
        };
        (region, Bytes(state.block * self.sequence.block.0))
    }

    fn advance(&self, state: TreeState, data: &[u8]) -> SearchStep<TreeState> {
        let Some(above) = state.level.checked_sub(1) else {
            return SearchStep::Found(self.sequence.rank_in(state.block, data, state.key));
        };
        let first = state.block * self.fan_out();
        let keys = (self.levels[above].keys - first).min(self.fan_out()) as usize;
        let (mut low, mut high) = (0, keys);
        while low < high {
            let middle = (low + high) / 2;
            if key_at(data, middle) <= state.key { low = middle + 1 } else { high = middle }
        }
        let block = first + (low as u64).saturating_sub(1);
        self.descend(TreeState { key: state.key, level: above, block })
    }

    fn block_size(&self) -> Bytes {
        self.sequence.block
    }

    fn planned_reads(&self, _rank: u64) -> u64 {
        self.levels_read()
    }
}
