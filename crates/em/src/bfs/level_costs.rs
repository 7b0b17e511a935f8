//! Measures what the levels of a search charge, on the devices and in the order in which the search uses them.
//!
//! # Model
//! A level is a chain: it reads the pool, writes what stays of it, reads neighbours behind each other with gaps, and writes what it
//! loaded. Each part waits for the one before it. So a short level has few IOs in flight, a disk's arm sweeps over the
//! structure once in a level, and a device still writes in the background while it reads. IOs of one kind on one device at a time
//! ([`measure`](crate::cost::measure())) show nothing of that.
//!
//! # Method
//! 1. Regions as large as the structure and the pool are written where the search has them.
//! 2. Levels of the mean size of each group are repeated, without data: first with one read at a time, then with as many requested in
//!    advance as the search does. The mean times of reads and of the pool's IOs are what they cost.
//!
//! # Invariant
//! - What several devices share takes the time of all of them: each is charged for the share of the IOs that is its own.

use std::ops::RangeInclusive;

use flashlab_base::{Bytes, Prng};

use super::experiment::{SearchMethod, SearchTask};
use super::formula::{LevelGroup, SearchIos};
use super::mehlhorn_meyer::buffers;
use crate::block_reads::BlockReads;
use crate::cost::DeviceCosts;
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region};
use crate::graph::GraphSource;
use crate::machine::Machine;
use crate::sequence::{SequenceReader, SequenceWriter};

/// The most reads of the levels of a group that are measured, and one level at least: 4096 blocks of 4 KiB fill a cache of 16 MiB as the
/// search does.
const READS_MAX: f64 = 4096.0;
/// The most blocks that a level reads. Of a larger level a part is measured, with the same gaps.
const LEVEL_READS_MAX: f64 = 16384.0;

/// Measures the levels of a search, and puts their costs in place of those of random reads and of alternating IOs.
///
/// # Errors
/// Those of the IOs, [`EmError::Memory`] and [`EmError::Space`].
pub fn measure_levels(
    machine: &mut Machine<'_>,
    graph: &impl GraphSource,
    task: &SearchTask,
    ios: &SearchIos,
    costs: &mut [DeviceCosts],
) -> Result<(), EmError> {
    machine.begin_phase("measure levels");
    let mut prng = Prng::new(task.seed.derive("levels", 0));
    let (mut alone, mut at_once) = (LevelTimes::default(), LevelTimes::default());
    let mut level = Level::new(machine, graph, task)?;
    for group in &ios.groups {
        level.resize(machine, task, group)?;
        alone.add(level.repeat(machine, &mut prng, false)?, group);
        at_once.add(level.repeat(machine, &mut prng, true)?, group);
    }
    let devices = machine.device_count();
    let structure = task.placement.structure.devices(devices);
    let share = structure.len() as f64;
    for costs in &mut costs[structure] {
        let random = costs.random_read.of(task.block);
        let read_alone = alone.reads.mean(random);
        costs.ascending_read = costs.random_read.moved_to(task.block, share * read_alone);
        costs.parallelism.ascending_read = read_alone / at_once.reads.mean(random);
    }
    let pool = task.placement.pool.devices(devices);
    let share = pool.len() as f64;
    for costs in &mut costs[pool] {
        let size = Bytes(at_once.pool_size.mean(task.sequence_block.0 as f64) as u64);
        let time = at_once.pool.mean(costs.alternating.of(size) / share);
        costs.alternating = costs.alternating.moved_to(size, share * time);
    }
    Ok(())
}

/// A sum over IOs, and their number.
#[derive(Clone, Copy, Default)]
struct Sum {
    total: f64,
    count: f64,
}

impl Sum {
    /// The mean; `otherwise` without any.
    fn mean(self, otherwise: f64) -> f64 {
        if self.count > 0.0 { self.total / self.count } else { otherwise }
    }

    fn add(&mut self, other: Sum, weight: f64) {
        self.total += weight * other.total;
        self.count += weight * other.count;
    }
}

/// The times of IOs in nanoseconds, and the sizes of those of the pool.
#[derive(Clone, Copy, Default)]
struct LevelTimes {
    reads: Sum,
    pool: Sum,
    pool_size: Sum,
}

impl LevelTimes {
    /// Adds what some levels of a group took, as if it were all of them.
    fn add(&mut self, (times, levels): (LevelTimes, f64), group: &LevelGroup) {
        let weight = group.count / levels;
        self.reads.add(times.reads, weight);
        self.pool.add(times.pool, weight);
        self.pool_size.add(times.pool_size, weight);
    }
}

/// Lists or clusters of one length.
struct Array {
    reads: BlockReads,
    length: u64,
    item: u64,
}

impl Array {
    /// The blocks of the items at these parts of the array, ascending. No item overlaps the next one.
    fn blocks(&self, chosen: &[(f64, f64)], block: Bytes) -> Vec<RangeInclusive<u64>> {
        let begin = |at: f64| (at * (self.length / self.item) as f64) as u64 * self.item;
        let nexts = chosen.iter().skip(1).map(|next| begin(next.0) / block.0).chain([u64::MAX]);
        let items = chosen.iter().zip(nexts).map(|(&(at, times), next)| {
            let from = begin(at);
            let end = from + ((self.item as f64 * times) as u64).max(1);
            from / block.0..=((end.min(self.length) - 1) / block.0).min(next)
        });
        items.collect()
    }
}

/// A level of mean size, and where its data lies.
struct Level {
    arrays: Vec<Array>,
    /// The part of each array that a level reads from.
    part: f64,
    /// How many items a level reads of each array, on average.
    items: f64,
    /// How many levels are measured.
    levels: f64,
    /// The buffers that are not for requests in advance.
    keep: usize,
    /// The pool that a level reads, and the one that it writes: what was kept and what was loaded.
    pools: [Vec<Region>; 2],
    lengths: [Bytes; 2],
    block: Bytes,
    sequence_block: Bytes,
    /// What the structure leaves.
    space: ExtentAllocator,
}

impl Level {
    /// The structure of a search, and no level yet.
    fn new(machine: &mut Machine<'_>, graph: &impl GraphSource, task: &SearchTask) -> Result<Level, EmError> {
        let (nodes, arcs) = (u64::from(graph.nodes()), graph.arcs());
        // Arcs in clusters; or two offsets for each node, and the list between them.
        let lengths = match task.method {
            SearchMethod::MehlhornMeyer => vec![(16 * arcs, 16)],
            _ => vec![(8 * (nodes + 1), 16), (4 * arcs, (4 * arcs / nodes).max(4))],
        };
        let buffers = buffers(machine, task.block);
        let mut space = ExtentAllocator::new(machine);
        // As long as in the search: the distance of two arrays decides how far a disk turns between them.
        let array = |(length, item)| {
            let length = Bytes(length).max(task.block).round_up(machine.unit());
            let region = space.allocate(length, task.placement.structure)?;
            write(machine, &region, length, task.sequence_block)?;
            let reads = BlockReads::new(machine, region, length, task.block, buffers)?;
            Ok(Array { reads, length: length.0, item })
        };
        let arrays = lengths.into_iter().map(array).collect::<Result<Vec<_>, EmError>>()?;
        let keep = if arrays.len() > 1 { 2 } else { arrays[0].reads.window() / 2 };
        Ok(Level {
            arrays,
            keep,
            space,
            block: task.block,
            sequence_block: task.sequence_block,
            part: 1.0,
            items: 0.0,
            levels: 0.0,
            pools: Default::default(),
            lengths: [Bytes::ZERO; 2],
        })
    }

    /// Becomes the mean level of a group.
    fn resize(
        &mut self,
        machine: &mut Machine<'_>,
        task: &SearchTask,
        group: &LevelGroup,
    ) -> Result<(), EmError> {
        let mean = group.mean;
        self.part = (LEVEL_READS_MAX / mean.cluster_blocks.max(1.0)).min(1.0);
        self.levels = (READS_MAX / mean.cluster_blocks.max(1.0)).min(group.count).max(1.0).ceil();
        self.items = match &mut self.arrays[..] {
            [clusters] => {
                let item = 16.0 * mean.fetched / mean.clusters.max(1.0);
                clusters.item = (item as u64).clamp(16, clusters.length);
                self.part * mean.clusters
            }
            _ => self.part * mean.nodes,
        };
        self.lengths = [mean.kept, mean.loaded].map(|arcs| Bytes(16 * arcs.round() as u64));
        let mut space = self.space.clone();
        for pool in &mut self.pools {
            let regions = self.lengths.iter().map(|&length| space.allocate(length, task.placement.pool));
            *pool = regions.collect::<Result<_, _>>()?;
        }
        for (region, &length) in self.pools[0].iter().zip(&self.lengths) {
            write(machine, region, length, task.sequence_block)?;
        }
        Ok(())
    }

    /// The times of some levels and their number, with what comes requested in advance or not.
    fn repeat(
        &mut self,
        machine: &mut Machine<'_>,
        prng: &mut Prng,
        looks_ahead: bool,
    ) -> Result<(LevelTimes, f64), EmError> {
        let mut times = LevelTimes::default();
        let pool: u64 = self.lengths.iter().map(|length| length.0.div_ceil(self.sequence_block.0)).sum();
        for _ in 0..self.levels as u64 {
            let begin = machine.now();
            self.scan_pool(machine)?;
            let scanned = machine.now();
            let reads = self.read(machine, prng, looks_ahead)?;
            let read = machine.now();
            write(machine, &self.pools[1][1], self.lengths[1], self.sequence_block)?;
            let (end, count) = (machine.now(), 2.0 * pool as f64);
            let sum = |total: u64, count| Sum { total: total as f64, count };
            times.reads.add(sum(read.since(scanned).0, reads as f64), 1.0);
            times.pool.add(sum(scanned.since(begin).0 + end.since(read).0, count), 1.0);
            times.pool_size.add(sum(2 * (self.lengths[0].0 + self.lengths[1].0), count), 1.0);
            self.pools.swap(0, 1);
        }
        Ok((times, self.levels))
    }

    /// Reads the two runs of the pool side by side, as a merge does, and writes what is kept.
    fn scan_pool(&self, machine: &mut Machine<'_>) -> Result<(), EmError> {
        let [from, to] = &self.pools;
        let reader = |run: usize| {
            let range = (Bytes::ZERO, self.lengths[run]);
            SequenceReader::new(machine, from[run].clone(), range, self.sequence_block, 1)
        };
        let mut readers = [reader(0)?, reader(1)?];
        let mut kept = Fill::new(machine, &to[0], self.lengths[0], self.sequence_block)?;
        loop {
            let mut is_end = true;
            for reader in &mut readers {
                is_end &= reader.next_block(machine)?.is_none();
            }
            if is_end {
                return kept.finish(machine);
            }
            kept.block(machine)?;
        }
    }

    /// Reads items of each array behind each other, and returns the number of blocks. Of the second array those are requested whose
    /// offsets were read of the first one.
    fn read(
        &mut self,
        machine: &mut Machine<'_>,
        prng: &mut Prng,
        looks_ahead: bool,
    ) -> Result<u64, EmError> {
        // A cluster between random masters is as long as two exponentially distributed halves; lists are taken to be equally long.
        let count = (self.items + prng.unit()) as usize;
        let is_clustered = self.arrays.len() == 1;
        let mut times = || if is_clustered { -(prng.unit() * prng.unit()).ln() / 2.0 } else { 1.0 };
        let mut chosen: Vec<(f64, f64)> = (0..count).map(|_| (0.0, times())).collect();
        chosen.iter_mut().for_each(|item| item.0 = self.part * prng.unit());
        chosen.sort_by(|a, b| a.0.total_cmp(&b.0));
        let items: Vec<_> = self.arrays.iter().map(|array| array.blocks(&chosen, self.block)).collect();
        let ahead = if looks_ahead { self.arrays[0].reads.window() } else { 0 };
        let mut requested = vec![0; items.len()];
        let (mut last, mut reads) = (vec![None; items.len()], 0);
        for step in 0..chosen.len() + ahead * (items.len() - 1) {
            for (index, (array, items)) in self.arrays.iter_mut().zip(&items).enumerate() {
                let Some((at, item)) =
                    step.checked_sub(index * ahead).and_then(|at| Some((at, items.get(at)?)))
                else {
                    continue;
                };
                requested[index] = at.max(requested[index]);
                let upcoming = items.iter().take(at + ahead).skip(requested[index]);
                requested[index] +=
                    array.reads.request_all(machine, upcoming.map(|item| *item.start()), self.keep);
                for block in item.clone() {
                    if looks_ahead {
                        array.reads.request_all(machine, block..=*item.end(), 1);
                    }
                    array.reads.get(machine, block)?;
                    reads += u64::from(last[index].replace(block) != Some(block));
                }
            }
        }
        Ok(reads)
    }
}

/// Writes a region up to this length.
fn write(machine: &mut Machine<'_>, region: &Region, length: Bytes, block: Bytes) -> Result<(), EmError> {
    Fill::new(machine, region, length, block)?.finish(machine)
}

/// A sequence that is written, whatever it holds.
struct Fill {
    writer: SequenceWriter,
    left: usize,
}

impl Fill {
    fn new(machine: &Machine<'_>, region: &Region, length: Bytes, block: Bytes) -> Result<Fill, EmError> {
        let writer = SequenceWriter::new(machine, region.clone(), Bytes::ZERO, block, 1)?;
        Ok(Fill { writer, left: length.0 as usize })
    }

    /// Writes a block, or what is left.
    fn block(&mut self, machine: &mut Machine<'_>) -> Result<(), EmError> {
        let count = self.writer.space(machine)?.len().min(self.left);
        self.writer.advance(machine, count);
        self.left -= count;
        Ok(())
    }

    fn finish(mut self, machine: &mut Machine<'_>) -> Result<(), EmError> {
        while self.left > 0 {
            self.block(machine)?;
        }
        self.writer.finish(machine).map(drop)
    }
}
