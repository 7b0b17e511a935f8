//! Forms sorted runs from the input.
//!
//! # Method
//! - [`by_sorting`] reads one half of the memory while it sorts the other: each block when it arrives, then all of them
//!   are merged to the run. While the run's blocks are being written, those of the next one are sorted.
//! - [`by_replacement`] is replacement selection (Knuth, TAOCP 3, 5.4.1): the smallest record of a heap goes to the run, and
//!   the next record takes its place if it still fits into this run, or waits behind the heap for the next one.
//! - [`by_scans`] forms a run of s memories by s scans: each scan keeps the smallest records that are greater than those of
//!   the scans before (Blelloch et al., arXiv 1603.03505, section 4).
//!
//! # Invariants
//! - Every record of the input is in one run; the checksum is of what was read.
//! - A run begins at a multiple of the block.

use std::cmp::Ordering;

use flashlab_base::{Bytes, Mode};
use flashlab_device::Buffer;
use rayon::prelude::*;

use crate::error::EmError;
use crate::extent::Region;
use crate::ledger::IoCounts;
use crate::machine::Machine;
use crate::record_format::{RecordChecksum, RecordFormat};
use crate::sequence::{SequenceReader, SequenceWriter, crossing_room};
use crate::sort::batch::merge_batch;
use crate::sort::block::BlockSorter;
use crate::sort::heap::RecordHeap;
use crate::sort::plan::{SortPlan, SortTask};

/// A sorted run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub region: Region,
    pub from: Bytes,
    pub length: Bytes,
}

/// What formation works on.
pub(super) struct Formation<'t> {
    pub task: &'t SortTask,
    pub plan: &'t SortPlan,
    pub input: &'t Region,
    /// Where the runs go: temporary space, or the output if there will be one run.
    pub target: &'t Region,
}

/// The runs, and the checksum of the input.
pub(super) type Formed = (Vec<Run>, RecordChecksum);

impl Formation<'_> {
    fn format(&self) -> &RecordFormat {
        &self.task.format
    }

    /// The size of a block and of a record.
    fn blocks(&self) -> (Bytes, usize) {
        (self.plan.block, self.format().size())
    }

    fn reader(
        &self,
        machine: &Machine<'_>,
        range: (Bytes, Bytes),
        ahead: usize,
    ) -> Result<SequenceReader, EmError> {
        SequenceReader::of_records(machine, self.input.clone(), range, self.blocks(), ahead)
    }

    fn writer(&self, machine: &Machine<'_>) -> Result<SequenceWriter, EmError> {
        SequenceWriter::of_records(machine, self.target.clone(), Bytes(0), self.blocks(), self.plan.behind)
    }

    fn run(&self, from: Bytes, end: Bytes) -> Run {
        Run { region: self.target.clone(), from, length: Bytes(end.0 - from.0) }
    }

    /// The bytes of each run of sorted loads: of the records that end in its blocks.
    fn run_lengths(&self) -> impl Iterator<Item = Bytes> {
        let (length, load, record) = (self.task.length, self.plan.load, self.format().size() as u64);
        let ended = move |read: u64| read.min(length.0) / record * record;
        (0..length.0.div_ceil(load.0)).map(move |run| Bytes(ended((run + 1) * load.0) - ended(run * load.0)))
    }

    /// Plans the IOs for `length` bytes.
    fn plan(&self, counts: &mut IoCounts, mode: Mode, length: Bytes) {
        counts.add_blocks(mode, length, self.plan.block, self.task.unit);
    }
}

/// Sorts loads of blocks.
pub(super) fn by_sorting(machine: &mut Machine<'_>, formation: &Formation<'_>) -> Result<Formed, EmError> {
    let Formation { task, plan, .. } = formation;
    let planned = &mut machine.ledger_mut().current().planned;
    formation.plan(planned, Mode::Read, task.length);
    formation.run_lengths().for_each(|length| formation.plan(planned, Mode::Write, length));
    let load = (plan.load.0 / plan.block.0) as usize;
    let is_only_run = plan.load >= task.length;
    let buffers = if is_only_run { load } else { 2 * load };
    let _tables = machine.budget().lease(task.tables(load), "tables of sources")?;
    let buffer = plan.block + crossing_room(plan.block, formation.format().size());
    let sorters = (0..task.threads)
        .map(|_| BlockSorter::new(machine.budget(), formation.format(), buffer))
        .collect::<Result<Vec<_>, _>>()?;
    let (mut sorters, _leases): (Vec<_>, Vec<_>) = sorters.into_iter().unzip();
    let mut writer = formation.writer(machine)?;
    let mut reader = formation.reader(machine, (Bytes(0), task.length), buffers - 1)?;
    let (mut runs, mut checksum) = (Vec::new(), RecordChecksum::default());
    let mut sort_arrived = |machine: &mut Machine<'_>, reader: &mut SequenceReader, sorted: &mut Vec<_>| {
        let most = (load - sorted.len()).min(sorters.len());
        let fresh = sorted_blocks(machine, formation.format(), reader, &mut sorters[..most], &mut checksum)?;
        let is_end = fresh.is_empty();
        sorted.extend(fresh);
        Ok::<bool, EmError>(is_end)
    };
    let mut blocks: Vec<(Buffer, usize)> = Vec::new();
    loop {
        while blocks.len() < load && !sort_arrived(machine, &mut reader, &mut blocks)? {}
        if blocks.is_empty() {
            break;
        }
        let from = writer.position();
        let mut following = Vec::new();
        let mut sources: Vec<&[u8]> = blocks.iter().map(|(block, length)| &block[..*length]).collect();
        while sources.iter().any(|source| !source.is_empty()) {
            // The device writes slower than a run is merged, and faster than blocks are sorted.
            while following.len() < load && !writer.is_batch_free(machine) && reader.is_next_there(machine) {
                sort_arrived(machine, &mut reader, &mut following)?;
            }
            let counts = merge_batch(machine, formation.format(), &sources, &mut writer, task.threads)?;
            for (source, count) in sources.iter_mut().zip(counts) {
                *source = &source[count * formation.format().size()..];
            }
        }
        runs.push(formation.run(from, writer.end_block(machine)?));
        blocks.into_iter().for_each(|(block, _)| reader.give_back(block));
        reader.prefetch(machine);
        blocks = following;
    }
    writer.finish(machine)?;
    Ok((runs, checksum))
}

/// Up to one block for each sorter, sorted: the next one, and those that have arrived by then.
fn sorted_blocks(
    machine: &mut Machine<'_>,
    format: &RecordFormat,
    reader: &mut SequenceReader,
    sorters: &mut [BlockSorter],
    checksum: &mut RecordChecksum,
) -> Result<Vec<(Buffer, usize)>, EmError> {
    let mut fresh = Vec::with_capacity(sorters.len());
    while fresh.len() < sorters.len() && (fresh.is_empty() || reader.is_next_there(machine)) {
        match reader.take(machine)? {
            Some(block) => fresh.push(block),
            None => break,
        }
    }
    let sort = |(sorter, (block, length)): (&mut BlockSorter, &mut (Buffer, usize))| {
        sorter.sort(format, block, *length)
    };
    let checksums: Vec<RecordChecksum> = match fresh.len() {
        0 | 1 => sorters.iter_mut().zip(&mut fresh).map(sort).collect(),
        _ => sorters.par_iter_mut().zip(fresh.par_iter_mut()).map(sort).collect(),
    };
    *checksum = checksums.iter().fold(*checksum, |all, &one| all.merge(one));
    machine.compute(checksums.iter().map(|one| one.count).sum());
    Ok(fresh)
}

/// Replacement selection.
pub(super) fn by_replacement(
    machine: &mut Machine<'_>,
    formation: &Formation<'_>,
) -> Result<Formed, EmError> {
    let Formation { task, plan, .. } = formation;
    formation.plan(&mut machine.ledger_mut().current().planned, Mode::Read, task.length);
    let format = formation.format();
    let order = |a: &[u8], b: &[u8]| format.compare(a, b);
    let mut writer = formation.writer(machine)?;
    let mut reader = formation.reader(machine, (Bytes(0), task.length), plan.ahead)?;
    let mut heap = RecordHeap::new(machine.budget(), format, plan.load.0 as usize / format.size())?;
    let (mut runs, mut checksum, mut from) = (Vec::new(), RecordChecksum::default(), Bytes(0));
    while let Some(block) = reader.next_block(machine)? {
        let seen = RecordChecksum::of(format, block);
        checksum = checksum.merge(seen);
        for record in block.chunks_exact(format.size()) {
            if !heap.is_full() {
                heap.push(record, order);
                continue;
            }
            let top = heap.top().expect("a full heap has a top");
            writer.write(machine, top)?;
            if order(record, top).is_ge() {
                heap.replace_top(record, order);
                continue;
            }
            heap.pop_behind(order);
            heap.set_behind(record);
            if heap.count() == 0 {
                runs.push(formation.run(from, writer.end_block(machine)?));
                from = writer.position();
                heap.heapify(order);
            }
        }
        machine.compute(seen.count);
    }
    while !heap.array().is_empty() {
        while let Some(top) = heap.top() {
            writer.write(machine, top)?;
            heap.remove_top(order);
        }
        runs.push(formation.run(from, writer.end_block(machine)?));
        from = writer.position();
        heap.heapify(order);
    }
    for run in &runs {
        formation.plan(&mut machine.ledger_mut().current().planned, Mode::Write, run.length);
    }
    writer.finish(machine)?;
    Ok((runs, checksum))
}

/// Runs of several memories, each by several scans.
pub(super) fn by_scans(machine: &mut Machine<'_>, formation: &Formation<'_>) -> Result<Formed, EmError> {
    let Formation { task, plan, .. } = formation;
    let mut writer = formation.writer(machine)?;
    let mut heap = RecordHeap::new(
        machine.budget(),
        formation.format(),
        plan.load.0 as usize / formation.format().size(),
    )?;
    let (mut runs, mut checksum) = (Vec::new(), RecordChecksum::default());
    let mut begin = Bytes(0);
    while begin < task.length {
        let segment = (begin, Bytes((task.length.0 - begin.0).min(plan.run.0)));
        let from = writer.position();
        let mut bound = ScanBound::default();
        let mut left = segment.1.0 / formation.format().size() as u64;
        while left > 0 {
            formation.plan(&mut machine.ledger_mut().current().planned, Mode::Read, segment.1);
            let is_first = bound.record.is_empty();
            let seen = scan(machine, formation, segment, &bound, &mut heap)?;
            if is_first {
                checksum = checksum.merge(seen);
            }
            while heap.count() > 0 {
                heap.pop_behind(|a, b| formation.format().compare_fully(b, a));
            }
            writer.write(machine, heap.array())?;
            left -= (heap.array().len() / formation.format().size()) as u64;
            bound.advance(formation.format(), heap.array());
            heap.clear();
        }
        formation.plan(&mut machine.ledger_mut().current().planned, Mode::Write, segment.1);
        runs.push(formation.run(from, writer.end_block(machine)?));
        begin += segment.1;
    }
    writer.finish(machine)?;
    Ok((runs, checksum))
}

/// The last record of the scans so far, and how many identical ones were written.
#[derive(Default)]
struct ScanBound {
    record: Vec<u8>,
    written: u64,
}

impl ScanBound {
    /// Takes note of what a scan wrote, in order.
    fn advance(&mut self, format: &RecordFormat, sorted: &[u8]) {
        let Some(last) = sorted.rchunks_exact(format.size()).next() else { return };
        let same = sorted.rchunks_exact(format.size()).take_while(|record| *record == last).count() as u64;
        self.written = if self.record == last { self.written + same } else { same };
        last.clone_into(&mut self.record);
    }
}

/// Fills the heap with the smallest records of a segment that are beyond the bound.
fn scan(
    machine: &mut Machine<'_>,
    formation: &Formation<'_>,
    segment: (Bytes, Bytes),
    bound: &ScanBound,
    heap: &mut RecordHeap,
) -> Result<RecordChecksum, EmError> {
    let format = formation.format();
    let largest_first = |a: &[u8], b: &[u8]| format.compare_fully(b, a);
    let mut reader = formation.reader(machine, segment, formation.plan.ahead)?;
    let (mut skipped, mut checksum) = (0, RecordChecksum::default());
    while let Some(block) = reader.next_block(machine)? {
        let seen = RecordChecksum::of(format, block);
        checksum = checksum.merge(seen);
        for record in block.chunks_exact(format.size()) {
            if !bound.record.is_empty() {
                match format.compare_fully(record, &bound.record) {
                    Ordering::Less => continue,
                    Ordering::Equal if skipped < bound.written => {
                        skipped += 1;
                        continue;
                    }
                    _ => {}
                }
            }
            if !heap.is_full() {
                heap.push(record, largest_first);
            } else if heap.top().is_some_and(|top| format.compare_fully(record, top).is_lt()) {
                heap.replace_top(record, largest_first);
            }
        }
        machine.compute(seen.count);
    }
    Ok(checksum)
}
