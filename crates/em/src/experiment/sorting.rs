//! The experiment `sort`.

use flashlab_base::{Bytes, Mode, Nanos, Seed};

use super::algorithm::{Algorithm, ELEMENTS, Shrunk, Smaller};
use super::placement::{
    DataLayout, SequencePlacement, SequenceTimes, costs_of_all, mean_costs, on_each, tuning_of,
};
use super::prediction::{AlgorithmPrediction, CostSource, costs};
use super::{ExperimentOutcome, costs_extent, generate};
use crate::cost::{AccessPattern, AlgorithmIos, CostModel, DeviceCosts, InFlight, IoClass};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::machine::Machine;
use crate::record_format::{RecordFormat, RecordGenerator};
use crate::sort::{
    COPIES_MAX, ReplayedTimes, SortMethod, SortPlan, SortRates, SortTask, TemporarySpace, replay, sort_and,
    verify_sorted,
};
use crate::stopwatch::{AlgorithmRun, Stopwatch};
use crate::tuning::Tuning;

/// What is sorted, and how.
#[derive(Clone, Debug)]
pub struct SortOptions {
    /// How many records.
    pub elements: u64,
    /// The records.
    pub format: RecordFormat,
    /// How runs are formed.
    pub method: SortMethod,
    /// How many cores sort and merge.
    pub threads: usize,
    /// On which devices input and output lie, and the runs.
    pub placement: SequencePlacement,
    /// The seed of the records and probes.
    pub seed: Seed,
}

impl SortOptions {
    pub(super) fn length(&self) -> Result<Bytes, EmError> {
        let length = self.elements.checked_mul(self.format.size() as u64).filter(|&length| length > 0);
        let wrong = || EmError::Parameter(format!("{} elements cannot be sorted", self.elements));
        length.map(Bytes).ok_or_else(wrong)
    }

    /// The task on a machine with this unit and memory; its runs have all space that there is.
    pub(super) fn task(&self, unit: Bytes, memory: Bytes, tuning: Tuning) -> Result<SortTask, EmError> {
        Ok(SortTask {
            format: self.format.clone(),
            length: self.length()?,
            method: self.method,
            threads: self.threads,
            unit,
            memory,
            tuning,
            stripe: self.placement.stripe(),
            temporary: Bytes(u64::MAX),
        })
    }
}

impl Algorithm for SortOptions {
    fn name(&self) -> &'static str {
        "sort"
    }

    /// Input and output, and the runs or what costs are measured on. Whatever is measured, the plan that follows from it fits.
    fn space(&self, memory: Bytes) -> Result<Bytes, EmError> {
        let least = Tuning { read_window: Bytes::ZERO, write_window: Bytes::ZERO, is_noisy: false };
        let task = self.task(SECTOR, memory, least)?;
        task.plan(None)?;
        let measured = |plan: &SortPlan| costs_extent((memory, PAGE), task.length, plan.block).1;
        let measured = task.plans().iter().map(measured).max().unwrap_or_default();
        let made = task.temporary_most().max(measured).max(MEASURED_MIN);
        Ok(task.length.round_up(PAGE) * 2 + made + PAGE * (u64::from(COPIES_MAX) + 1))
    }

    fn data(&self) -> (Bytes, Spread) {
        (Bytes(self.elements.saturating_mul(self.format.size() as u64)), self.placement.data)
    }

    fn place(&mut self, machine: &Machine<'_>, layout: DataLayout) {
        self.placement = SequencePlacement::on(machine, layout, Bytes(self.format.size() as u64));
    }

    fn run(&self, machine: &mut Machine<'_>) -> Result<ExperimentOutcome, EmError> {
        run(machine, self)
    }

    fn predict(&self, source: &mut dyn CostSource) -> Result<AlgorithmPrediction, EmError> {
        predict(source, self)
    }

    fn smaller(&self, memory: Bytes, _chosen: (&AlgorithmIos, Bytes)) -> Option<Smaller> {
        let Shrunk { elements, memory, work, .. } = Shrunk::new(self.elements, ELEMENTS, memory);
        Some(Smaller { algorithm: Box::new(SortOptions { elements, ..self.clone() }), memory, work })
    }
}

/// The smallest unit of a device's IOs: with it a sort has all plans that it may have.
const SECTOR: Bytes = Bytes(512);
/// The largest unit of a device's IOs.
const PAGE: Bytes = Bytes::kib(4);

/// The least space beside input and output that costs and sequences are measured on.
const MEASURED_MIN: Bytes = Bytes::mib(16);

/// How often the bandwidth bound of a real device is measured before a sort, and after it; once more before each merge pass.
const BOUNDS: usize = 2;

/// Blocks of at least this size reach nearly the bandwidth of any device of the zoo but of hard disks: with one merge
/// pass of such blocks, no curve has to be measured to choose between plans.
const LARGE_ENOUGH: Bytes = Bytes::mib(1);

/// Whether no other plan can be faster, so that no bandwidths have to be known.
pub(super) fn is_plain(plan: &SortPlan) -> bool {
    plan.merge_passes == 0 || plan.merge_passes == 1 && plan.block >= LARGE_ENOUGH
}

/// Measures the device and plans the sort. `written` has data, and `scratch` is destroyed.
fn plan(
    machine: &mut Machine<'_>,
    free: &mut ExtentAllocator,
    options: &SortOptions,
    (written, scratch): (&Region, &Region),
) -> Result<(SortTask, SortPlan), EmError> {
    let tuning = tuning_of(machine, free, options.placement, (written, Some(scratch)))?;
    let mut task = options.task(machine.unit(), machine.budget().left(), tuning)?;
    task.temporary = free.largest(options.placement.temporary, u64::from(COPIES_MAX));
    let plan = task.plan(None)?;
    if is_plain(&plan) {
        return Ok((task, plan));
    }
    let rates = SortRates::measure(machine, written, scratch, options.seed)?;
    let plan = task.plan(Some(&rates))?;
    Ok((task, plan))
}

/// How many IOs of each kind a plan has in flight.
pub(super) fn in_flight(task: &SortTask, plan: &SortPlan) -> InFlight {
    let count = |count: u64| count.clamp(1, 1024) as u32;
    let loaded = match task.method {
        SortMethod::Sorting => plan.load.0 / plan.block.0,
        _ => plan.ahead as u64,
    };
    InFlight {
        random_reads: count(task.length.0.div_ceil(plan.run.0).min(plan.fan_in)),
        sequential_reads: count(loaded),
        sequential_writes: count(plan.behind as u64),
        ..InFlight::ONE
    }
}

/// What the cost models see of a plan.
pub(super) fn ios(
    (task, plan): (&SortTask, &SortPlan),
    placement: SequencePlacement,
    devices: usize,
    host_cost: Nanos,
) -> AlgorithmIos {
    let length = task.length.0 as f64;
    let depths = in_flight(task, plan);
    let class = |spread, mode, pattern, bytes: f64, in_flight: u32| {
        let count = bytes / plan.block.0 as f64;
        on_each(spread, devices, IoClass { device: 0, mode, pattern, count, bytes, in_flight })
    };
    let SequencePlacement { data, temporary } = placement;
    let formation_reads = plan.read.0 as f64 - (plan.written.0 as f64 - length);
    let (sequential, random) = (AccessPattern::Sequential, AccessPattern::Random);
    let runs = if plan.merge_passes == 0 { data } else { temporary };
    let writes = |spread, bytes| class(spread, Mode::Write, sequential, bytes, depths.sequential_writes);
    let mut form = class(data, Mode::Read, sequential, formation_reads, depths.sequential_reads);
    form.extend(writes(runs, length));
    let merged = plan.written.0 as f64 - length;
    let last = merged.min(length);
    let mut merge = class(temporary, Mode::Read, random, merged, depths.random_reads);
    match temporary == data {
        true => merge.extend(writes(data, merged)),
        false => merge.extend(writes(temporary, merged - last).into_iter().chain(writes(data, last))),
    }
    // Each record costs once when it is read into a run, and once whenever it is merged.
    let host = |bytes: f64| Nanos((bytes / task.format.size() as f64 * host_cost.0 as f64) as u64);
    AlgorithmIos::overlapped(vec![form, merge], vec![host(formation_reads), host(merged)])
}

pub(super) fn choices(task: &SortTask, plan: &SortPlan) -> Vec<(&'static str, String)> {
    let method = match task.method {
        SortMethod::Sorting => "sorting half of the memory".to_owned(),
        SortMethod::Replacement => "replacement selection".to_owned(),
        SortMethod::WriteSaving { .. } => format!("{} scans for each run", plan.scans),
    };
    vec![
        ("runs are formed by", method),
        ("block", format!("{}: {}", plan.block, plan.reason)),
        ("length of a run", plan.run.to_string()),
        ("largest fan-in", plan.fan_in.to_string()),
        ("merge passes", plan.merge_passes.to_string()),
        ("blocks in flight of a writer", plan.behind.to_string()),
        ("bytes in flight that saturate sequential reads", task.tuning.read_window.to_string()),
        ("bytes in flight that saturate sequential writes", task.tuning.write_window.to_string()),
    ]
}

/// Generates records, sorts and verifies them.
fn run(machine: &mut Machine<'_>, options: &SortOptions) -> Result<ExperimentOutcome, EmError> {
    let length = options.length()?;
    let mut free = ExtentAllocator::new(machine);
    let SequencePlacement { data, temporary } = options.placement;
    let (input, output) = (free.allocate(length, data)?, free.allocate(length, data)?);
    let mut generator = RecordGenerator::new(options.seed.derive("records", 0));
    let made =
        generate(machine, &options.format, &input, options.elements, |_, record| generator.fill(record))?;
    let (task, plan) = plan(machine, &mut free, options, (&input, &output))?;
    let in_flight = in_flight(&task, &plan);
    let on = (options.placement, length);
    let sizes = (plan.block, in_flight);
    let regions = (&input, Some(&output));
    // Nobody else uses a simulated device, and what is measured before or in between would change its state: writes fill an SLC cache.
    let (is_shared, is_alone) = (!machine.is_virtual(), machine.device_count() == 1);
    let sort_ios = ios((&task, &plan), options.placement, machine.device_count(), machine.declared_cost());
    let measure = |machine: &mut Machine<'_>, free: &mut ExtentAllocator| {
        let times = replayed(machine, free, (&task, &plan), (&input, &output), options.seed)?;
        let mut costs = costs_of_all(machine, free, on, sizes, options.seed)?;
        if let Some(times) = times {
            set_mixing(&mut costs[0], &sort_ios, plan.block, times);
        }
        Ok::<_, EmError>(costs)
    };
    let before = is_shared.then(|| measure(machine, &mut free)).transpose()?;
    let mut times = Vec::new();
    for _ in 0..if is_shared { BOUNDS } else { 0 } {
        times.push(SequenceTimes::measure(machine, &mut free, &task.tuning, regions)?);
    }
    let mut temporary = TemporarySpace { free: &mut free, spread: temporary };
    let mut run = AlgorithmRun::default();
    let mut watch = Some(Stopwatch::start(machine));
    let mut between = |machine: &mut Machine<'_>| {
        if is_shared && is_alone {
            run.add(watch.take().expect("it was started").stop(machine));
            times.push(SequenceTimes::on_regions(machine, &task.tuning, regions)?);
            watch = Some(Stopwatch::start(machine));
        }
        Ok(())
    };
    let outcome = sort_and(machine, (&task, &plan), (&input, &output), &mut temporary, &mut between)?;
    run.add(watch.expect("it was started").stop(machine));
    if outcome.input != made {
        return Err(EmError::Wrong("the sort did not read what was generated".to_owned()));
    }
    verify_sorted(machine, &task, &plan, &output, made)?;
    for _ in 0..if is_shared { BOUNDS } else { 1 } {
        times.push(SequenceTimes::measure(machine, &mut free, &task.tuning, regions)?);
    }
    let after = measure(machine, &mut free)?;
    let costs = before.map_or(after.clone(), |before| mean_costs(&before, &after));
    Ok(ExperimentOutcome {
        algorithm: "sort",
        elements: options.elements,
        planned: run.planned,
        bounds: times.iter().map(|times| times.bound(&run.issued_on)).collect(),
        issued: run.issued,
        time: run.time,
        // Forming runs, and all passes of merging.
        host: vec![run.host_by_phase[0], run.host.since(run.host_by_phase[0])],
        ios: sort_ios,
        block: plan.block,
        costs,
        choices: choices(&task, &plan),
    })
}

/// The most of a sort that is replayed. On a real device 64 MiB take a second on a hard disk; a simulated one has the time.
const REPLAYED_MAX: Bytes = Bytes::mib(128);
const REAL_REPLAYED_MAX: Bytes = Bytes::mib(64);

/// How long the IOs of a sort take; none on several devices, where each would have a part of the order, and where there is no space.
pub(super) fn replayed(
    machine: &mut Machine<'_>,
    free: &mut ExtentAllocator,
    sort: (&SortTask, &SortPlan),
    regions: (&Region, &Region),
    seed: Seed,
) -> Result<Option<ReplayedTimes>, EmError> {
    if machine.device_count() > 1 {
        return Ok(None);
    }
    machine.begin_phase("measure costs");
    let most = if machine.is_virtual() { REPLAYED_MAX } else { REAL_REPLAYED_MAX };
    let left = free.clone();
    let mut temporary = TemporarySpace { free, spread: Spread::On(0) };
    match replay(machine, sort, regions, &mut temporary, (most, seed)) {
        Err(EmError::Space { .. }) => {
            *free = left;
            Ok(None)
        }
        times => times,
    }
}

/// Puts in place what reads and writes at the same time cost each other, so that the PDAM predicts what the IOs of the sort took.
fn set_mixing(costs: &mut DeviceCosts, ios: &AlgorithmIos, block: Bytes, times: ReplayedTimes) {
    let of = |phase: usize, time: f64| CostModel::Pdam(block).mixing_of(&ios.phases[phase], costs, time);
    let (formation, merging) = (of(0, times.formation), of(1, times.merging));
    costs.mixing.sequential_reads = formation.unwrap_or(costs.mixing.sequential_reads);
    costs.mixing.random_reads = merging.unwrap_or(costs.mixing.random_reads);
}

fn predict(source: &mut dyn CostSource, options: &SortOptions) -> Result<AlgorithmPrediction, EmError> {
    let tuning = source.tuning()?;
    let (unit, memory) = (source.unit(), source.memory());
    let mut task = options.task(unit, memory, tuning)?;
    task.temporary = source.space_for_runs(task.length, options.placement)?;
    let mut plan = task.plan(None)?;
    if !is_plain(&plan) {
        let rates = source.rates()?;
        plan = task.plan(rates.as_ref())?;
    }
    // First, so that the device is as it is when a sort begins.
    let times = source.replay((&task, &plan))?;
    let mut costs = costs(source, options.placement, (plan.block, in_flight(&task, &plan)))?;
    let ios = ios((&task, &plan), options.placement, source.device_count(), source.host_cost());
    if let Some(times) = times {
        set_mixing(&mut costs[0], &ios, plan.block, times);
    }
    Ok(AlgorithmPrediction { ios, block: plan.block, costs, choices: choices(&task, &plan) })
}
