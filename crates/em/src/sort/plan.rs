//! Chooses block, fan-in and the length of runs from the memory, the records and the device.
//!
//! # Model
//! Multiway merge sort (Aggarwal and Vitter, CACM 1988): r runs are merged f at a time, in ceil(log_f r) passes, and each
//! pass reads and writes what it merges. A merge holds two blocks for each source, the one that is merged and the one that
//! is requested, and some for the writer: f = (M - writer) / 2B. So a smaller block needs fewer passes, and a larger one
//! moves bytes faster.
//!
//! Blocks are whole pages. Where whole records fill few of them, a block has whole records, too. Otherwise records cross blocks, and
//! each buffer has room for one more record ([`crossing_room`]): the least memory is some buffers of a record and a page.
//!
//! Writing costs more than reading on many devices. With [`SortMethod::WriteSaving`] a run of s memories is formed by s
//! scans, each of which keeps the smallest records that are left (the base case of the AEM mergesort; Blelloch et al., arXiv
//! 1603.03505, section 4): s reads and one write for each block, and fewer runs to merge.
//!
//! # Space
//! Only the first of several passes leaves runs where they are, because it merges no more than the passes behind it need. So the
//! runs as they were formed, those of the first pass and those of the second lie on the devices at the same time, and no others:
//! each pass behind these has the space of the runs that the one before it read.
//!
//! # Method
//! 1. For each block size that fits into memory and space, and for each number of scans, the plan is computed with all its IOs.
//! 2. Each plan's time follows from the device's [`BandwidthCurve`]s. Of the plans within [`NEARLY`] of the fastest the one with the
//!    fewest bytes is chosen, and of equal ones the one with the largest block: curves are measured on a device that others use, and a
//!    difference as small says nothing. Without curves, and where writes are to be saved, the least bytes or x + c_W y decide.

#[cfg(test)]
mod choosing;

use flashlab_base::{Bytes, Mode, Seed};

use crate::budget::MemoryBudget;
use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;
use crate::record_format::RecordFormat;
use crate::sequence::crossing_room;
use crate::sort::block::BlockSorter;
use crate::tuning::{BandwidthCurve, ProbeOrder, Tuning};

/// How runs are formed, and what is saved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SortMethod {
    /// Half of the memory is sorted while the other half is read: runs of M/2. Stable.
    Sorting,
    /// Replacement selection (Knuth, TAOCP 3, 5.4.1): runs of 2 M for random input, and one run for sorted input.
    Replacement,
    /// As few writes as pay off where a write costs this many reads. Equal keys are ordered by the whole record.
    WriteSaving {
        /// c_W.
        write_cost: f64,
    },
}

/// What is to be sorted, and by which means.
#[derive(Clone, Debug)]
pub struct SortTask {
    /// The records.
    pub format: RecordFormat,
    /// The bytes of all records.
    pub length: Bytes,
    /// How runs are formed.
    pub method: SortMethod,
    /// How many cores sort and merge.
    pub threads: usize,
    /// The unit of the machine's IOs.
    pub unit: Bytes,
    /// The memory.
    pub memory: Bytes,
    /// How much has to be in flight.
    pub tuning: Tuning,
    /// The stripe unit, where sequences lie on several devices: blocks divide it.
    pub stripe: Option<Bytes>,
    /// The space that is free for runs.
    pub temporary: Bytes,
}

/// How a task is done.
#[derive(Clone, Debug, PartialEq)]
pub struct SortPlan {
    /// The size of the IOs.
    pub block: Bytes,
    /// The bytes that are in memory at a time while a run is formed.
    pub load: Bytes,
    /// The bytes of a run; expected ones, for replacement selection.
    pub run: Bytes,
    /// How many scans form a run; 1 but for a sort that saves writes.
    pub scans: u64,
    /// How many runs are merged at a time.
    pub fan_in: u64,
    /// How many merge passes there are, expected ones for replacement selection.
    pub merge_passes: u32,
    /// How many blocks a writer has in flight.
    pub behind: usize,
    /// How many blocks a reader requests in advance while runs are formed from a heap.
    pub ahead: usize,
    /// The bytes that are read and written, each block in full.
    pub read: Bytes,
    /// See `read`.
    pub written: Bytes,
    /// Why this plan was chosen, as a clause.
    pub reason: String,
}

/// The largest block. Larger ones gain nothing on any device of the zoo.
const BLOCK_MAX: u64 = 4 << 20;
/// IOs of whole pages of this size suit all devices: flash pages and the sectors of disks divide it, or are multiples.
const PAGE: u64 = 4096;
/// Blocks have whole records if the memory has room for this number of the smallest ones: nothing is copied to join the parts of a record
/// then. With fewer blocks the fan-in would be below 30, and records cross blocks instead.
const WHOLE_BLOCKS_MIN: u64 = 64;
/// Blocks grow by the eighth part of a power of two between two candidates.
const STEP: f64 = 1.09;
/// The most scans that form a run: beyond that the reads alone cost more than another pass for any c_W below 16.
const SCANS_MAX: u64 = 32;
/// Plans within this factor of the fastest are taken for equally fast: bandwidths that are measured in a second differ by as much from
/// one time to the next.
const NEARLY: f64 = 1.1;
/// The most copies of the data that lie in temporary space at the same time: see the module's part about space.
pub(crate) const COPIES_MAX: u32 = 3;
/// At most this part of the memory is for the blocks in flight of a writer, and of a reader.
const WINDOW_SHARE: u64 = 8;
/// Tables for each source of a merge: its reader with two requests, its slice and its share of a batch.
const SOURCE_TABLES: u64 = 640;
/// What each thread adds: the cut of a source and both parts of its slice, and its place in the tree.
const SOURCE_THREAD_TABLES: u64 = 112;

/// The bytes per second that a plan is judged by.
#[derive(Clone, Debug)]
pub struct SortRates {
    /// Reads of each size, at random offsets with a full queue.
    pub reads: BandwidthCurve,
    /// Writes of each size, in order.
    pub writes: BandwidthCurve,
}

impl SortRates {
    /// Measures reads of `written`, which has data, and writes to `scratch`, whose content is destroyed.
    ///
    /// # Errors
    /// As [`Saturation::measure`](crate::Saturation::measure).
    pub fn measure(
        machine: &mut Machine<'_>,
        written: &Region,
        scratch: &Region,
        seed: Seed,
    ) -> Result<SortRates, EmError> {
        Ok(SortRates {
            reads: BandwidthCurve::measure(machine, written, Mode::Read, ProbeOrder::Random(seed))?,
            writes: BandwidthCurve::measure(machine, scratch, Mode::Write, ProbeOrder::Sequential)?,
        })
    }
}

impl SortTask {
    /// The smallest block: whole pages of 4 KiB, and whole records where the memory has many of such blocks. Where the memory has no
    /// room for a page, whole sectors of the device.
    fn base(&self) -> u64 {
        let record = Bytes(self.format.size() as u64);
        let (page, sector) = (Bytes(self.unit.0.max(PAGE)), Bytes(self.unit.0.max(1)));
        let whole = record.least_common_multiple(page);
        // Each scan of a run begins at a block.
        let never_crosses = matches!(self.method, SortMethod::WriteSaving { .. });
        let of = |page: Bytes| {
            if never_crosses { record.least_common_multiple(page) } else { record.round_up(page) }
        };
        if whole.0 * WHOLE_BLOCKS_MIN <= self.memory.0 {
            whole.0
        } else if self.candidates(of(page)).is_empty() {
            of(sector).0
        } else {
            of(page).0
        }
    }

    /// The size of a buffer for a block.
    fn buffer(&self, block: Bytes) -> Bytes {
        block + crossing_room(block, self.format.size())
    }

    /// The best plan.
    ///
    /// # Errors
    /// [`EmError::Parameter`] when the length is not a multiple of the record, [`EmError::Memory`] when the memory is too
    /// small for any fan-in.
    pub fn plan(&self, rates: Option<&SortRates>) -> Result<SortPlan, EmError> {
        let size = self.format.size() as u64;
        if !self.length.0.is_multiple_of(size) {
            return Err(EmError::Parameter(format!(
                "{} bytes are not a multiple of the record of {size} bytes: the last record has {} bytes",
                self.length.0,
                self.length.0 % size
            )));
        }
        let plans = self.plans();
        let Some(least) = plans.iter().map(|plan| self.temporary_of(plan)).min() else {
            return Err(self.too_small(Bytes(self.base())));
        };
        let fitting = plans.into_iter().filter(|plan| self.temporary_of(plan) <= self.temporary);
        let with_costs: Vec<(f64, SortPlan)> = fitting.map(|plan| (self.cost(&plan, rates), plan)).collect();
        let lowest = with_costs.iter().map(|plan| plan.0).fold(f64::INFINITY, f64::min);
        let is_measured = rates.is_some() && !matches!(self.method, SortMethod::WriteSaving { .. });
        let enough = if is_measured { lowest * NEARLY } else { lowest };
        let near: Vec<SortPlan> =
            with_costs.into_iter().filter(|plan| plan.0 <= enough).map(|plan| plan.1).collect();
        let count = near.len();
        // Of equal ones the last, which has the largest block.
        let bytes = |plan: &SortPlan| plan.read.0 + plan.written.0;
        let best =
            near.into_iter().reduce(|best, plan| if bytes(&plan) <= bytes(&best) { plan } else { best });
        let mut best = best.ok_or(EmError::RunsSpace { needed: least, left: self.temporary })?;
        best.reason = match (is_measured, self.method) {
            (true, _) => format!(
                "of {count} plans within 10 % of the fastest by the measured bandwidths it moves the fewest bytes in the largest blocks"
            ),
            (_, SortMethod::WriteSaving { .. }) => "its reads and writes cost the least".to_owned(),
            _ => "it moves the fewest bytes in the largest blocks".to_owned(),
        };
        Ok(best)
    }

    /// All plans that the memory allows, by the block: up to one that holds all data. On a device that others use, too, the block of
    /// several passes is a power of two times the smallest: its choice follows bandwidths, which noise moves by a step or two of
    /// [`STEP`].
    pub(crate) fn plans(&self) -> Vec<SortPlan> {
        let base = self.base();
        let most = BLOCK_MAX.min(self.length.0.next_multiple_of(base)).max(base).min(self.memory.0.max(base));
        let with = |factor: u64| {
            let block = base * factor;
            let is_unit = self.stripe.is_none_or(|stripe| stripe.0.is_multiple_of(block));
            if is_unit { self.candidates(Bytes(block)) } else { Vec::new() }
        };
        let next = |factor: &f64| Some((factor * STEP).max(factor.floor() + 1.0));
        let factors = std::iter::successors(Some(1.0), next).map(|factor| factor as u64);
        let fine = factors.take_while(|factor| base * factor <= most).flat_map(with);
        if !self.tuning.is_noisy {
            return fine.collect();
        }
        let powers = std::iter::successors(Some(1u64), |factor| factor.checked_mul(2));
        let coarse = powers.take_while(|factor| base * factor <= most).flat_map(with);
        let mut plans: Vec<SortPlan> = fine.filter(|plan| plan.merge_passes < 2).collect();
        plans.extend(coarse.filter(|plan| plan.merge_passes >= 2));
        plans.sort_by_key(|plan| plan.block);
        plans
    }

    /// The space that is enough for the runs of any plan, whatever has to be in flight.
    pub fn temporary_most(&self) -> Bytes {
        // More blocks in flight leave less memory to runs and merges, so that no other windows need more passes.
        let window = Bytes(self.memory.0);
        let tuning = Tuning { read_window: window, write_window: window, is_noisy: false };
        let task = SortTask { tuning, ..self.clone() };
        task.plans().iter().map(|plan| task.temporary_of(plan)).max().unwrap_or_default()
    }

    /// The most space that the runs of a plan take: three copies of the data, or one for each pass of fewer passes. The order
    /// of the input decides the number of runs of replacement selection; those of reversed input are as short as a load.
    pub fn temporary_of(&self, plan: &SortPlan) -> Bytes {
        let passes = match self.method {
            SortMethod::Replacement if self.length > plan.load => {
                passes(self.length.0.div_ceil(plan.load.0), plan.fan_in)
            }
            _ => plan.merge_passes,
        };
        Bytes(u64::from(passes.min(COPIES_MAX)) * self.region_of_runs(plan, self.length).0)
    }

    /// The space of runs that have `length` bytes together. A run begins a block of its own. All but the last one end with a block, too,
    /// unless records cross blocks or replacement selection ended them.
    pub(super) fn region_of_runs(&self, plan: &SortPlan, length: Bytes) -> Bytes {
        let ends = match self.method {
            SortMethod::Replacement => self.length.0 / plan.load.0.max(1) + 2,
            _ if crossing_room(plan.block, self.format.size()) > Bytes::ZERO => {
                self.length.0.div_ceil(plan.run.0)
            }
            _ => 1,
        };
        length.round_up(plan.block) + Bytes(ends * plan.block.0)
    }

    /// What the smallest block needs.
    fn too_small(&self, block: Bytes) -> EmError {
        let suffices = |memory: &Bytes| {
            let task = SortTask { memory: *memory, ..self.clone() };
            !task.candidates(block).is_empty()
        };
        let mut sizes = (1..).map(|blocks| self.memory.round_down(block) + Bytes(blocks * block.0));
        let needed = sizes.find(suffices).unwrap_or(self.memory);
        EmError::Memory {
            purpose: "a sort of such records with a fan-in of 2",
            needed,
            left: self.memory,
            limit: self.memory,
        }
    }

    /// The memory of the tables for `sources` sources.
    pub(super) fn tables(&self, sources: usize) -> Bytes {
        Bytes(sources as u64 * (SOURCE_TABLES + SOURCE_THREAD_TABLES * self.threads as u64))
    }

    fn sorters(&self, block: Bytes) -> Bytes {
        match self.method {
            SortMethod::Sorting => {
                Bytes(BlockSorter::memory(&self.format, self.buffer(block)).0 * self.threads as u64)
            }
            _ => Bytes::ZERO,
        }
    }

    /// The plans with this block.
    fn candidates(&self, block: Bytes) -> Vec<SortPlan> {
        let scans = match self.method {
            SortMethod::WriteSaving { .. } => 1..=SCANS_MAX,
            _ => 1..=1,
        };
        scans.filter_map(|scans| self.with(block, scans)).collect()
    }

    fn with(&self, block: Bytes, scans: u64) -> Option<SortPlan> {
        let buffer = MemoryBudget::buffer_size(self.buffer(block)).0;
        // The record that each reader and writer has begun.
        let begun = crossing_room(block, self.format.size()).0;
        // Two more than the device needs, so that a batch can be merged while those are in flight.
        let most = (self.memory.0 / WINDOW_SHARE / buffer).max(1) as usize;
        let behind = self.tuning.behind(block).min(most) + 2;
        let ahead = self.tuning.ahead(block).min(most);
        // What is in flight is decided by the device, and what the memory is for by the memory: noise changes no plan.
        let kept = if self.tuning.is_noisy { most + 2 } else { behind };
        let writer = (kept as u64 + 1) * buffer + begun;
        let fan_in = self.memory.0.checked_sub(writer)? / (2 * buffer + begun + self.tables(1).0);
        let blocks = self.length.0.div_ceil(block.0).max(1);
        let (load, run) = match self.method {
            SortMethod::Sorting => {
                let free = self.memory.0.checked_sub(writer + begun + self.sorters(block).0)?;
                let all = free / (buffer + self.tables(1).0);
                let load = if all >= blocks {
                    blocks
                } else {
                    // Runs of the same length: the last one would be short otherwise.
                    let most = free / (2 * buffer + self.tables(1).0);
                    blocks.div_ceil(blocks.div_ceil(most.max(1))).min(most)
                };
                (load * block.0, load * block.0)
            }
            method => {
                let free = self.memory.0.checked_sub(writer + begun + (ahead as u64 + 1) * buffer)?;
                let load = Bytes(free).round_down(block).round_down(Bytes(self.format.size() as u64)).0;
                let factor = if method == SortMethod::Replacement { 2 } else { scans };
                (load.min(blocks * block.0), load * factor)
            }
        };
        if load == 0 {
            return None;
        }
        let mut runs = self.length.0.div_ceil(run).max(1);
        if self.method == SortMethod::Replacement && self.length.0 > load {
            // How many there will be depends on the input.
            runs = runs.max(2);
        }
        if runs > 1 && fan_in < 2 {
            return None;
        }
        let merged = merged_bytes(runs, fan_in);
        let passes_read = self.scan_count(scans, run) + merged;
        let bytes = |times: f64| Bytes((times * self.length.0 as f64) as u64);
        Some(SortPlan {
            block,
            load: Bytes(load),
            run: Bytes(run),
            scans,
            fan_in,
            merge_passes: passes(runs, fan_in),
            behind,
            ahead,
            read: bytes(passes_read),
            written: bytes(1.0 + merged),
            reason: String::new(),
        })
    }

    /// How many times formation reads the input.
    fn scan_count(&self, scans: u64, run: u64) -> f64 {
        let load = run / scans;
        (self.length.0.min(run)).div_ceil(load).max(1) as f64
    }

    /// What a plan costs: seconds, or reads of a byte for a sort that saves writes.
    fn cost(&self, plan: &SortPlan, rates: Option<&SortRates>) -> f64 {
        let (read, written) = (plan.read.0 as f64, plan.written.0 as f64);
        match (self.method, rates) {
            (SortMethod::WriteSaving { write_cost }, _) => read + write_cost * written,
            (_, Some(rates)) => {
                // Runs are formed from reads in order.
                let formation = self.length.0 as f64 / rates.reads.best();
                let merging = (read - self.length.0 as f64) / rates.reads.at(plan.block);
                formation + merging + written / rates.writes.at(plan.block)
            }
            (_, None) => read + written,
        }
    }
}

/// How many merge passes `runs` need.
pub(crate) fn passes(runs: u64, fan_in: u64) -> u32 {
    let (mut passes, mut reach) = (0, 1u64);
    while reach < runs {
        reach = reach.saturating_mul(fan_in.max(2));
        passes += 1;
    }
    passes
}

/// How many times merging moves the whole input, for runs of the same length: the first pass moves only the runs that it
/// merges, the others everything.
fn merged_bytes(runs: u64, fan_in: u64) -> f64 {
    let passes = passes(runs, fan_in);
    if passes == 0 {
        return 0.0;
    }
    let excess = runs - fan_in.saturating_pow(passes - 1);
    let merged = excess + excess.div_ceil(fan_in - 1);
    f64::from(passes - 1) + (merged as f64 / runs as f64).min(1.0)
}

/// How many runs, one after the other, each merge of a pass takes; 1 is a run that stays as it is. Only as many runs are
/// merged as are needed for the passes that follow.
pub(crate) fn groups(runs: usize, fan_in: usize) -> Vec<usize> {
    let passes_left = passes(runs as u64, fan_in as u64).saturating_sub(1);
    let reach = (fan_in as u64).saturating_pow(passes_left).max(1);
    let mut excess = (runs as u64).saturating_sub(reach) as usize;
    let (mut groups, mut left) = (Vec::new(), runs);
    while left > 0 {
        let group = fan_in.min(excess + 1).min(left);
        excess -= group - 1;
        groups.push(group);
        left -= group;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_merges_no_more_than_the_next_ones_need() {
        assert_eq!(groups(7, 8), [7]);
        assert_eq!(groups(8, 8), [8]);
        assert_eq!(groups(9, 8), [2, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(groups(20, 8), [8, 6, 1, 1, 1, 1, 1, 1]);
        assert_eq!(groups(1, 8), [1]);
        assert_eq!((passes(1, 8), passes(8, 8), passes(9, 8), passes(65, 8)), (0, 1, 2, 3));
        assert!((merged_bytes(9, 8) - (1.0 + 2.0 / 9.0)).abs() < 1e-9);
    }

    fn task(length: Bytes, memory: Bytes, method: SortMethod) -> SortTask {
        let format = RecordFormat::new(Bytes(16), 0..8).unwrap();
        let tuning = Tuning { read_window: Bytes::kib(128), write_window: Bytes::kib(128), is_noisy: false };
        let temporary = Bytes(u64::MAX);
        SortTask {
            format,
            length,
            method,
            threads: 2,
            unit: Bytes(512),
            memory,
            tuning,
            stripe: None,
            temporary,
        }
    }

    #[test]
    fn the_largest_block_that_needs_one_merge_pass_is_chosen() {
        let plan = task(Bytes::gib(1), Bytes::mib(16), SortMethod::Sorting).plan(None).unwrap();
        assert_eq!((plan.merge_passes, plan.read, plan.written), (1, Bytes::gib(2), Bytes::gib(2)));
        assert!(plan.block > Bytes::kib(32), "{plan:?}");
        let runs = Bytes::gib(1).0.div_ceil(plan.run.0);
        assert!(runs <= plan.fan_in && runs * 100 > plan.fan_in * 85, "{plan:?}");
    }

    #[test]
    fn writes_are_saved_where_that_pays() {
        let cost = |method, length| {
            let plan = task(length, Bytes::mib(1), method).plan(None).unwrap();
            (plan.read.0 as f64 + 5.0 * plan.written.0 as f64) / length.0 as f64
        };
        let saving = SortMethod::WriteSaving { write_cost: 5.0 };
        // Three memories: three scans and one write, and no merge.
        let few = Bytes::mib(2);
        assert!(cost(saving, few) < 0.8 * cost(SortMethod::Sorting, few));
        // Two scans for each run save a second merge pass.
        let many = Bytes::mib(180);
        let (plain, saved) = (cost(SortMethod::Sorting, many), cost(saving, many));
        assert!(saved < 0.85 * plain, "{saved} {plain}");
    }

    /// On a device that others use, the windows that saturate it differ from one measurement to the next.
    #[test]
    fn what_is_measured_to_be_in_flight_changes_no_plan_of_a_noisy_device() {
        let with = |length, window: u64, is_noisy| {
            let mut task = task(length, Bytes::mib(4), SortMethod::Sorting);
            task.tuning =
                Tuning { read_window: Bytes::kib(window), write_window: Bytes::kib(window), is_noisy };
            task.plan(None).unwrap()
        };
        for (length, passes) in [(Bytes::mib(24), 1), (Bytes::gib(1), 2)] {
            let plans = [128, 256, 512].map(|window| with(length, window, true));
            assert!(plans.iter().all(|plan| plan.merge_passes == passes), "{plans:?}");
            assert!(plans.iter().all(|plan| plan.block == plans[0].block && plan.run == plans[0].run));
            assert!(passes == 1 || plans[0].block.0.is_power_of_two(), "{plans:?}");
        }
        assert!(with(Bytes::mib(24), 128, false).block > with(Bytes::mib(24), 512, false).block);
    }

    #[test]
    fn a_block_is_no_larger_than_the_data() {
        let plan = task(Bytes(16_000), Bytes::mib(16), SortMethod::Sorting).plan(None).unwrap();
        assert_eq!((plan.block, plan.merge_passes), (Bytes::kib(16), 0));
    }

    #[test]
    fn what_cannot_be_sorted_is_refused() {
        let error = task(Bytes(100), Bytes::mib(1), SortMethod::Sorting).plan(None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "100 bytes are not a multiple of the record of 16 bytes: the last record has 4 bytes"
        );
        let error = task(Bytes::mib(1), Bytes::kib(8), SortMethod::Sorting).plan(None).unwrap_err();
        assert!(error.to_string().starts_with("a sort of such records with a fan-in of 2 needs "), "{error}");
    }
}
