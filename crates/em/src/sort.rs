//! External multiway merge sort, and the check of its result.
//!
//! # Method
//! 1. [`SortTask::plan`] chooses block, length of runs and fan-in.
//! 2. Runs are formed into temporary space; a single run goes to the output at once.
//! 3. Passes merge up to fan-in runs at a time; the last one writes the output.
//! 4. [`verify_sorted`] reads the output: its order, and whether its checksum is the input's.
//!
//! # Invariants
//! - The input is only read.
//! - The IOs of each phase are those that its formula plans, by direction and size.
//! - With [`SortMethod::Sorting`] equal keys keep their order.

mod batch;
mod block;
mod distribution;
mod form;
mod heap;
mod merge;
mod parallel;
mod plan;
mod replay;
mod slices;
mod tree;

use flashlab_base::{Bytes, Mode};

pub use parallel::work_on_this_thread;
pub(crate) use plan::COPIES_MAX;
pub use plan::{SortMethod, SortPlan, SortRates, SortTask};
pub use replay::ReplayedTimes;
pub(crate) use replay::replay;

use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::machine::Machine;
use crate::record_format::{RecordChecksum, RecordFormat};
use crate::sequence::SequenceReader;
use form::{Formation, Formed, Run};

/// Where temporary runs go.
pub struct TemporarySpace<'s> {
    /// The free space.
    pub free: &'s mut ExtentAllocator,
    /// On which devices.
    pub spread: Spread,
}

/// What a sort did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOutcome {
    /// The checksum of the input, as it was read.
    pub input: RecordChecksum,
    /// How many runs were formed.
    pub runs: usize,
    /// How many merge passes there were.
    pub merge_passes: u32,
}

/// Sorts `input` into `output`, which do not overlap.
///
/// # Errors
/// Those of the IOs, [`EmError::Memory`] and [`EmError::Space`]. The output is worthless then, and the input untouched.
pub fn sort(
    machine: &mut Machine<'_>,
    task: &SortTask,
    plan: &SortPlan,
    input: &Region,
    output: &Region,
    temporary: &mut TemporarySpace<'_>,
) -> Result<SortOutcome, EmError> {
    sort_and(machine, (task, plan), (input, output), temporary, &mut |_| Ok(()))
}

/// Sorts as [`sort`] does, and does something else before each merge pass, when the sort holds no memory and the output nothing.
///
/// # Errors
/// Those of [`sort`], and of what is done.
pub(crate) fn sort_and(
    machine: &mut Machine<'_>,
    (task, plan): (&SortTask, &SortPlan),
    (input, output): (&Region, &Region),
    temporary: &mut TemporarySpace<'_>,
    between: &mut dyn FnMut(&mut Machine<'_>) -> Result<(), EmError>,
) -> Result<SortOutcome, EmError> {
    if task.length == Bytes::ZERO {
        return Ok(SortOutcome { input: RecordChecksum::default(), runs: 0, merge_passes: 0 });
    }
    machine.begin_phase("form runs");
    let is_only_run = match task.method {
        SortMethod::Replacement => task.length <= plan.load,
        _ => task.length <= plan.run,
    };
    let mut regions = Vec::new();
    let target = if is_only_run { output.clone() } else { temporary.region(task, plan, task.length)? };
    if !is_only_run {
        regions.push(target.clone());
    }
    let formation = Formation { task, plan, input, target: &target };
    let (mut runs, checksum): Formed = match task.method {
        SortMethod::Sorting => form::by_sorting(machine, &formation)?,
        SortMethod::Replacement => form::by_replacement(machine, &formation)?,
        SortMethod::WriteSaving { .. } => form::by_scans(machine, &formation)?,
    };
    let (formed, mut merge_passes) = (runs.len(), 0);
    let mut is_sorted = is_only_run;
    while !is_sorted {
        merge_passes += 1;
        between(machine)?;
        machine.begin_phase(&format!("merge {merge_passes}"));
        let mut merge = |machine: &mut Machine<'_>, group: &[Run], target: &Region, from| {
            merge::merge_runs(machine, task, plan, group, target, from)
        };
        runs = pass(machine, (task, plan), runs, output, (temporary, &mut regions), &mut merge)?;
        is_sorted = runs.len() == 1;
    }
    regions.iter().for_each(|region| temporary.free.release(region));
    Ok(SortOutcome { input: checksum, runs: formed, merge_passes })
}

/// Merges runs to a region, from an offset on.
type Merge<'m> = dyn FnMut(&mut Machine<'_>, &[Run], &Region, Bytes) -> Result<Run, EmError> + 'm;

/// One pass over the runs; the last one writes the output.
fn pass(
    machine: &mut Machine<'_>,
    (task, plan): (&SortTask, &SortPlan),
    runs: Vec<Run>,
    output: &Region,
    (temporary, regions): (&mut TemporarySpace<'_>, &mut Vec<Region>),
    merge: &mut Merge<'_>,
) -> Result<Vec<Run>, EmError> {
    let groups = plan::groups(runs.len(), plan.fan_in as usize);
    if let [_] = groups[..] {
        return Ok(vec![merge(machine, &runs, output, Bytes(0))?]);
    }
    let (mut next, mut at) = (Vec::with_capacity(groups.len()), 0);
    let merged: u64 =
        group_lengths(&runs, &groups).filter(|&(count, _)| count > 1).map(|group| group.1).sum();
    let target = temporary.region(task, plan, Bytes(merged))?;
    let mut from = Bytes(0);
    for count in groups {
        let group = &runs[at..at + count];
        at += count;
        if let [run] = group {
            next.push(run.clone());
            continue;
        }
        let run = merge(machine, group, &target, from)?;
        from = (from + run.length).round_up(plan.block);
        next.push(run);
    }
    // Space without runs is free again.
    regions.retain(|region| {
        let is_used = next.iter().any(|run| run.region == *region);
        if !is_used {
            temporary.free.release(region);
        }
        is_used
    });
    regions.push(target);
    Ok(next)
}

/// The number of runs and the bytes of each group.
fn group_lengths<'r>(runs: &'r [Run], groups: &'r [usize]) -> impl Iterator<Item = (usize, u64)> + 'r {
    let mut at = 0;
    groups.iter().map(move |&count| {
        let group = &runs[at..at + count];
        at += count;
        (count, group.iter().map(|run| run.length.0).sum())
    })
}

impl TemporarySpace<'_> {
    /// Space for runs of `length` bytes in all.
    fn region(&mut self, task: &SortTask, plan: &SortPlan, length: Bytes) -> Result<Region, EmError> {
        self.free.allocate(task.region_of_runs(plan, length), self.spread)
    }
}

/// Reads records and checks that they are sorted and have this checksum.
///
/// # Errors
/// Those of the IOs, and [`EmError::Wrong`] with the first record that goes before its predecessor, or when records were
/// lost or changed.
pub fn verify_sorted(
    machine: &mut Machine<'_>,
    task: &SortTask,
    plan: &SortPlan,
    output: &Region,
    expected: RecordChecksum,
) -> Result<(), EmError> {
    machine.begin_phase("verify");
    machine.ledger_mut().current().planned.add_blocks(Mode::Read, task.length, plan.block, task.unit);
    let (format, range) = (&task.format, (Bytes(0), task.length));
    let blocks = (plan.block, format.size());
    let mut reader = SequenceReader::of_records(machine, output.clone(), range, blocks, plan.ahead + 1)?;
    let (mut checksum, mut last, mut index) = (RecordChecksum::default(), Vec::new(), 0u64);
    while let Some(block) = reader.next_block(machine)? {
        let first_bad = first_unordered(format, &last, block);
        if let Some(at) = first_bad {
            return Err(EmError::Wrong(format!("record {} goes before its predecessor", index + at as u64)));
        }
        checksum = checksum.merge(RecordChecksum::of(format, block));
        block.rchunks_exact(format.size()).next().unwrap_or_default().clone_into(&mut last);
        index += format.count(block) as u64;
    }
    if checksum != expected {
        let (found, wanted) = (checksum.count, expected.count);
        return Err(EmError::Wrong(format!(
            "{found} records do not have the checksum of the {wanted} of the input"
        )));
    }
    Ok(())
}

/// The index of the first record that goes before its predecessor, `last` being that of the first one.
fn first_unordered(format: &RecordFormat, last: &[u8], records: &[u8]) -> Option<usize> {
    let first = records.chunks_exact(format.size()).next()?;
    if !last.is_empty() && format.compare(last, first).is_gt() {
        return Some(0);
    }
    let pairs = records.chunks_exact(format.size()).zip(records[format.size()..].chunks_exact(format.size()));
    pairs.enumerate().find(|(_, (a, b))| format.compare(a, b).is_gt()).map(|(at, _)| at + 1)
}
