//! Issues the IOs of a sort without its data, to measure how long they take.
//!
//! # Model
//! The keys decide which block a merge reads next. Of random keys, the ends of a run's blocks are order statistics: the gaps between
//! keys are exponential, so that a block of n records takes a share of the keys with a Gamma distribution of shape n. With many records
//! in a block all runs need their next block at nearly the same time, and with few of them at random times. A hard disk then changes
//! between reading and writing up to three times as often. After several passes one run is longer than the others, and a merge waits for
//! most of its blocks with one read in flight.
//!
//! # Method
//! 1. Runs are formed: loads are read and written as the method does.
//! 2. For each merge the ends of all blocks are drawn and ordered. Up to each end the output is written, in the writer's batches, and
//!    then the merge waits for the block that follows it.
//! 3. Of more data than a bound, a part is replayed: some loads, and of each merge the same part, from the middle of its keys. Its time
//!    counts as often as the part fits into the whole.
//!
//! # Invariants
//! - The input is only read.
//! - The blocks, the readers and writers, and the order of merges are those of the sort.

use flashlab_base::{Bytes, Prng, Seed};

use super::form::Run;
use super::plan::{SortMethod, SortPlan, SortTask};
use super::{TemporarySpace, pass};
use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;
use crate::sequence::{SequenceReader, SequenceWriter};

/// How long the IOs of a sort take, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayedTimes {
    /// Of forming runs.
    pub formation: f64,
    /// Of all merge passes.
    pub merging: f64,
}

/// With more records in a block than this, a normal distribution stands for Gamma's: their skewness is below 0.36 then.
const NORMAL_FROM: u64 = 32;

/// Issues the IOs of a sort of `input` to `output`, or of a part of about `most`. None for a sort that saves writes, whose scans depend
/// on the data.
///
/// # Errors
/// As [`sort`](super::sort).
pub(crate) fn replay(
    machine: &mut Machine<'_>,
    (task, plan): (&SortTask, &SortPlan),
    (input, output): (&Region, &Region),
    temporary: &mut TemporarySpace<'_>,
    (most, seed): (Bytes, Seed),
) -> Result<Option<ReplayedTimes>, EmError> {
    if matches!(task.method, SortMethod::WriteSaving { .. }) || task.length == Bytes::ZERO {
        return Ok(None);
    }
    let whole = task.length.0 as f64;
    let length = task.length.min(most.round_up(plan.block)).min(input.size());
    let share = length.0 as f64 / whole;
    let is_only_run = plan.merge_passes == 0;
    let mut regions = Vec::new();
    let target = match is_only_run {
        true => output.clone(),
        false => temporary.region(task, plan, length)?,
    };
    if !is_only_run {
        regions.push(target.clone());
    }
    let begin = machine.now();
    match task.method {
        SortMethod::Replacement => replace(machine, plan, (input, length), &target)?,
        _ => load_and_write(machine, plan, (input, length), &target)?,
    }
    let formation = machine.now().since(begin).0 as f64 / share;
    let mut lab = Replay { task, plan, share, prng: Prng::new(seed.derive("replay", 0)), merged: 0 };
    let mut runs = if is_only_run { Vec::new() } else { lab.runs(&target, length) };
    let begin = machine.now();
    while runs.len() > 1 {
        let mut merge =
            |machine: &mut Machine<'_>, group: &[Run], to: &Region, from| lab.merge(machine, group, to, from);
        runs = pass(machine, (task, plan), runs, output, (temporary, &mut regions), &mut merge)?;
    }
    regions.iter().for_each(|region| temporary.free.release(region));
    let merged = plan.written.0 as f64 - whole;
    let merging = machine.now().since(begin).0 as f64 * merged / lab.merged.max(1) as f64;
    Ok(Some(ReplayedTimes { formation, merging }))
}

/// Loads are read while those before them are written.
fn load_and_write(
    machine: &mut Machine<'_>,
    plan: &SortPlan,
    (input, length): (&Region, Bytes),
    target: &Region,
) -> Result<(), EmError> {
    let load = (plan.load.0 / plan.block.0).max(1) as usize;
    let buffers = if plan.load >= length { load } else { 2 * load };
    let mut writer = SequenceWriter::new(machine, target.clone(), Bytes(0), plan.block, plan.behind)?;
    let mut reader =
        SequenceReader::new(machine, input.clone(), (Bytes(0), length), plan.block, buffers - 1)?;
    loop {
        let mut blocks = Vec::with_capacity(load);
        while blocks.len() < load
            && let Some(block) = reader.take(machine)?
        {
            blocks.push(block);
        }
        if blocks.is_empty() {
            break;
        }
        write(machine, &mut writer, blocks.iter().map(|block| block.1 as u64).sum())?;
        writer.end_block(machine)?;
        blocks.into_iter().for_each(|(block, _)| reader.give_back(block));
        reader.prefetch(machine);
    }
    writer.finish(machine).map(drop)
}

/// When a heap is full, a block is written for each that is read.
fn replace(
    machine: &mut Machine<'_>,
    plan: &SortPlan,
    (input, length): (&Region, Bytes),
    target: &Region,
) -> Result<(), EmError> {
    let mut writer = SequenceWriter::new(machine, target.clone(), Bytes(0), plan.block, plan.behind)?;
    let mut reader = SequenceReader::new(machine, input.clone(), (Bytes(0), length), plan.block, plan.ahead)?;
    let mut kept = 0;
    while let Some(block) = reader.next_block(machine)? {
        kept += block.len() as u64;
        let over = kept.saturating_sub(plan.load.0);
        writer.write_anything(machine, Bytes(over))?;
        kept -= over;
    }
    writer.write_anything(machine, Bytes(kept))?;
    writer.finish(machine).map(drop)
}

/// Writes in the writer's batches, as a merge does.
fn write(machine: &mut Machine<'_>, writer: &mut SequenceWriter, length: u64) -> Result<(), EmError> {
    let mut left = length as usize;
    while left > 0 {
        let count = writer.batch().min(left);
        writer.spaces(machine, count)?;
        writer.advance(machine, count);
        left -= count;
    }
    Ok(())
}

struct Replay<'t> {
    task: &'t SortTask,
    plan: &'t SortPlan,
    /// The part of the sort that is replayed.
    share: f64,
    prng: Prng,
    /// How many bytes were merged.
    merged: u64,
}

impl Replay<'_> {
    /// The runs as they were formed, each of them as long as its part that is replayed.
    fn runs(&self, target: &Region, length: Bytes) -> Vec<Run> {
        let block = self.plan.block;
        let mut count = self.task.length.0.div_ceil(self.plan.run.0);
        let mut each = Bytes((self.plan.run.0 as f64 * self.share) as u64).round_up(block);
        if count < 2 {
            // Replacement selection forms two runs at least.
            (count, each) = (2, Bytes(length.0 / 2).round_up(block));
        }
        let run = |index: u64| {
            let from = Bytes(index * each.0);
            let length = each.min(Bytes(target.size().0.saturating_sub(from.0)));
            Run { region: target.clone(), from, length }
        };
        let mut runs: Vec<Run> = (0..count).map(run).filter(|run| run.length > Bytes::ZERO).collect();
        if self.share >= 1.0
            && let Some(last) = runs.last_mut()
        {
            last.length = last.length.min(Bytes(length.0.saturating_sub(last.from.0).max(1)));
        }
        runs
    }

    fn merge(
        &mut self,
        machine: &mut Machine<'_>,
        runs: &[Run],
        target: &Region,
        from: Bytes,
    ) -> Result<Run, EmError> {
        let (block, total) = (self.plan.block, runs.iter().map(|run| run.length.0).sum::<u64>());
        let ends = self.block_ends(runs);
        let mut writer = SequenceWriter::new(machine, target.clone(), from, block, self.plan.behind)?;
        let mut sources = Vec::with_capacity(runs.len());
        for run in runs {
            let mut reader =
                SequenceReader::new(machine, run.region.clone(), (run.from, run.length), block, 1)?;
            reader.prefetch(machine);
            sources.push(reader);
        }
        for source in &mut sources {
            source.next_block(machine)?;
        }
        let mut written = 0;
        for (position, source) in ends {
            let due = (position.clamp(0.0, 1.0) * total as f64) as u64;
            write(machine, &mut writer, due.saturating_sub(written))?;
            written = written.max(due);
            sources[source].next_block(machine)?;
        }
        write(machine, &mut writer, total - written)?;
        self.merged += total;
        let end = writer.finish(machine)?;
        Ok(Run { region: target.clone(), from, length: Bytes(end.0 - from.0) })
    }

    /// In the order of the keys, where blocks end, as a share of the part that is replayed, and whose blocks they are.
    fn block_ends(&mut self, runs: &[Run]) -> Vec<(f64, usize)> {
        let (block, record) = (self.plan.block.0, self.task.format.size() as u64);
        let mut ends = Vec::new();
        for (index, run) in runs.iter().enumerate() {
            let blocks = run.length.0.div_ceil(block);
            let records = (run.length.0 as f64 / self.share / record as f64).max(1.0);
            // A part in the middle of the keys begins where the records before it end.
            let part = (run.length.0 as f64 / record as f64).max(1.0);
            let mut at = if self.share < 1.0 { records.sqrt() / 2.0 * self.normal() } else { 0.0 };
            let first = ends.len();
            for block_index in 0..blocks {
                let end_of = |index: u64| (index * block).min(run.length.0) / record;
                at += self.gaps(end_of(block_index + 1) - end_of(block_index));
                ends.push((at, index));
            }
            // A whole run ends with the last key.
            let scale = if self.share < 1.0 { part } else { at.max(f64::MIN_POSITIVE) };
            ends[first..].iter_mut().for_each(|end| end.0 /= scale);
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        ends
    }

    /// The sum of this number of exponential gaps between keys.
    fn gaps(&mut self, count: u64) -> f64 {
        if count <= NORMAL_FROM {
            return (0..count).map(|_| self.prng.exponential()).sum();
        }
        (count as f64 + (count as f64).sqrt() * self.normal()).max(0.0)
    }

    /// A normal deviate (Box and Muller, Annals of Mathematical Statistics 1958).
    fn normal(&mut self) -> f64 {
        (2.0 * self.prng.exponential()).sqrt() * (std::f64::consts::TAU * self.prng.unit()).cos()
    }
}
