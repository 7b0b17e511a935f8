//! Merges runs.
//!
//! # Method
//! 1. Each run has two blocks in memory: one that is merged, and one that is requested.
//! 2. Of all blocks in memory, the records up to the smallest last record of a block can be merged: those that are not in
//!    memory go behind it. They are merged on all cores ([`merge_batch`]).
//! 3. The block that ended is given up, and its run's next block takes its place.

use std::cmp::Ordering;

use flashlab_base::{Bytes, Mode};

use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;
use crate::record_format::RecordFormat;
use crate::sequence::{SequenceReader, SequenceWriter};
use crate::sort::batch::merge_batch;
use crate::sort::form::Run;
use crate::sort::plan::{SortPlan, SortTask};

/// A run while it is merged.
struct Source {
    reader: SequenceReader,
    /// The records of the current block that are not merged: their range.
    position: usize,
    end: usize,
}

impl Source {
    fn left(&self) -> &[u8] {
        &self.reader.current()[self.position..self.end]
    }
}

/// Merges runs to `target`, from `from` on. Returns the merged run.
pub(super) fn merge_runs(
    machine: &mut Machine<'_>,
    task: &SortTask,
    plan: &SortPlan,
    runs: &[Run],
    target: &Region,
    from: Bytes,
) -> Result<Run, EmError> {
    let length = Bytes(runs.iter().map(|run| run.length.0).sum());
    let planned = &mut machine.ledger_mut().current().planned;
    runs.iter().for_each(|run| planned.add_blocks(Mode::Read, run.length, plan.block, task.unit));
    planned.add_blocks(Mode::Write, length, plan.block, task.unit);
    let _tables = machine.budget().lease(task.tables(runs.len()), "tables of sources")?;
    let blocks = (plan.block, task.format.size());
    let mut writer = SequenceWriter::of_records(machine, target.clone(), from, blocks, plan.behind)?;
    let mut sources = open(machine, blocks, runs)?;
    loop {
        for source in sources.iter_mut().filter(|source| source.position == source.end) {
            let block = source.reader.next_block(machine)?;
            (source.position, source.end) = (0, block.map_or(0, <[u8]>::len));
        }
        sources.retain(|source| source.end > 0);
        if sources.is_empty() {
            break;
        }
        let ready = ready(&task.format, &sources);
        let counts = merge_batch(machine, &task.format, &ready, &mut writer, task.threads)?;
        machine.compute(counts.iter().sum::<usize>() as u64);
        for (source, count) in sources.iter_mut().zip(counts) {
            source.position += count * task.format.size();
        }
    }
    let end = writer.finish(machine)?;
    Ok(Run { region: target.clone(), from, length: Bytes(end.0 - from.0) })
}

/// Requests the first two blocks of each run.
fn open(machine: &mut Machine<'_>, blocks: (Bytes, usize), runs: &[Run]) -> Result<Vec<Source>, EmError> {
    let mut sources = Vec::with_capacity(runs.len());
    for run in runs {
        let mut reader =
            SequenceReader::of_records(machine, run.region.clone(), (run.from, run.length), blocks, 1)?;
        reader.prefetch(machine);
        sources.push(Source { reader, position: 0, end: 0 });
    }
    Ok(sources)
}

/// Of each source, the records that go before all records that are not in memory.
fn ready<'s>(format: &RecordFormat, sources: &'s [Source]) -> Vec<&'s [u8]> {
    let last = |source: &'s Source| source.left().rchunks_exact(format.size()).next();
    let unfinished = sources.iter().enumerate().filter(|(_, source)| source.reader.has_more());
    let bound = unfinished
        .filter_map(|(index, source)| Some((last(source)?, index)))
        .min_by(|a, b| format.compare(a.0, b.0).then(a.1.cmp(&b.1)));
    let Some((bound, of)) = bound else { return sources.iter().map(Source::left).collect() };
    let up_to = |(index, source): (usize, &'s Source)| {
        let left = source.left();
        let count = match index.cmp(&of) {
            Ordering::Less => format.rank(left, format.key(bound), true),
            Ordering::Equal => format.count(left),
            Ordering::Greater => format.rank(left, format.key(bound), false),
        };
        &left[..count * format.size()]
    };
    sources.iter().enumerate().map(up_to).collect()
}
