//! The experiment `rank`.

use flashlab_base::{Bytes, Mode, Nanos, Operation, Prng, Seed, median};
use flashlab_device::Buffer;

use super::algorithm::{Algorithm, NODES, Shrunk, Smaller};
use super::placement::{DataLayout, SequencePlacement, SequenceTimes, costs_of_all, mean_costs, on_each};
use super::prediction::{AlgorithmPrediction, CostSource, costs};
use super::{ExperimentOutcome, MEASURED_MAX};
use crate::bfs::sequence_block;
use crate::cost::{AccessPattern, AlgorithmIos, InFlight, IoClass};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::graph::MAX_NODES;
use crate::ledger::IoCounts;
use crate::machine::Machine;
use crate::rank::{
    Hopper, ListOrder, RankIos, StoredList, contraction_ios, hopping_reads, rank_by_contraction,
};
use crate::records::Workspace;
use crate::sequence::SequenceWriter;
use crate::stopwatch::{AlgorithmRun, Stopwatch};

/// How a list is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankMethod {
    /// [`Hopper`].
    Hopping,
    /// [`rank_by_contraction`].
    Contraction,
}

/// What is ranked, and how.
#[derive(Clone, Copy, Debug)]
pub struct RankOptions {
    /// How many elements the list has.
    pub elements: u64,
    /// How it is ranked.
    pub method: RankMethod,
    /// B: the size of a random read.
    pub block: Bytes,
    /// In virtual time, what an element costs the host, for the predictions.
    pub host_cost: Nanos,
    /// On which devices the list lies, and what contraction sorts.
    pub placement: SequencePlacement,
    /// The seed of the list, the coins and the probes.
    pub seed: Seed,
}

/// The IOs of each kind that a ranking has in flight.
pub(super) const IN_FLIGHT: InFlight =
    InFlight { sequential_reads: 2, sequential_writes: 2, ..InFlight::ONE };

impl RankOptions {
    /// The size of most IOs: of a random read, or of a block of sequences.
    pub(super) fn small_io(&self, sequence_block: Bytes) -> Bytes {
        match self.method {
            RankMethod::Hopping => self.block,
            RankMethod::Contraction => sequence_block,
        }
    }
}

impl Algorithm for RankOptions {
    fn name(&self) -> &'static str {
        "rank"
    }

    /// The list, the removed sets, and three sequences of elements.
    fn space(&self, _memory: Bytes) -> Result<Bytes, EmError> {
        if self.elements > MAX_NODES {
            return Err(EmError::Parameter(format!(
                "{} elements: a list has at most {MAX_NODES}",
                self.elements
            )));
        }
        Ok(Bytes(100 * self.elements) + Bytes::mib(64))
    }

    fn data(&self) -> (Bytes, Spread) {
        (Bytes(8 * self.elements), self.placement.data)
    }

    fn place(&mut self, machine: &Machine<'_>, layout: DataLayout) {
        self.block = self.block.max(machine.unit());
        self.placement = SequencePlacement::on(machine, layout, self.block);
    }

    fn run(&self, machine: &mut Machine<'_>) -> Result<ExperimentOutcome, EmError> {
        run(machine, self)
    }

    fn predict(&self, source: &mut dyn CostSource) -> Result<AlgorithmPrediction, EmError> {
        let block = self.block.max(source.unit());
        predict(source, &RankOptions { block, ..*self })
    }

    fn smaller(&self, memory: Bytes, _chosen: (&AlgorithmIos, Bytes)) -> Option<Smaller> {
        let Shrunk { elements, memory, work, .. } = Shrunk::new(self.elements, NODES, memory);
        Some(Smaller { algorithm: Box::new(RankOptions { elements, ..*self }), memory, work })
    }
}

/// What a method planned and did.
struct Ranked {
    planned: IoCounts,
    ios: AlgorithmIos,
    run: AlgorithmRun,
    rounds: Option<u32>,
    /// What a random read of the list took meanwhile, in nanoseconds.
    random_read: Option<f64>,
}

/// The parts of hopping. Before each, random reads of the list are measured, because what one read after the other takes on a real device
/// changes while it is shared: from 40 to 80 us within seconds on the disk of a virtual machine.
const PARTS: u64 = 16;
/// The random reads that are measured before a part: 10 ms at 80 us each.
const READS_MEASURED: u64 = 128;

/// Generates a random list, ranks it, and compares every rank with the list's order.
fn run(machine: &mut Machine<'_>, options: &RankOptions) -> Result<ExperimentOutcome, EmError> {
    let RankOptions { elements, method, block, seed, .. } = *options;
    let order = ListOrder::new(elements, seed)?;
    let sequence = sequence_block(machine.budget().limit(), block);
    let length = Bytes(8 * elements).max(sequence * 8);
    let mut free = ExtentAllocator::new(machine);
    let small = options.small_io(sequence);
    let on = (options.placement, length);
    let mut costs = costs_of_all(machine, &mut free, on, (small, IN_FLIGHT), seed)?;
    let mut times = vec![SequenceTimes::on_free_space(machine, &mut free, length)?];
    machine.begin_phase("generate");
    let space = ExtentAllocator::new(machine);
    let mut workspace = Workspace { machine, space, block: sequence, ahead: 1 };
    let list = StoredList::write(&mut workspace, &order, options.placement.data)?;
    let Ranked { planned, ios, run, rounds, random_read } = match method {
        RankMethod::Hopping => hop(&mut workspace, options, &order, &list)?,
        RankMethod::Contraction => contract(&mut workspace, options, &order, &list)?,
    };
    if !machine.is_virtual() {
        let mut free = ExtentAllocator::new(machine);
        times.push(SequenceTimes::on_free_space(machine, &mut free, length)?);
        costs = mean_costs(&costs, &costs_of_all(machine, &mut free, on, (small, IN_FLIGHT), seed)?);
    }
    for costs in &mut costs {
        costs.random_read =
            random_read.map_or(costs.random_read, |time| costs.random_read.moved_to(block, time));
    }
    let mut choices = vec![("method", method_name(method).to_owned())];
    match rounds {
        Some(rounds) => {
            choices.push(("block of sequences", sequence.to_string()));
            choices.push(("rounds of contraction", rounds.to_string()));
        }
        None => choices.push(("block of random reads", block.to_string())),
    }
    choices.push(("time of an element", Nanos(run.time.0 / elements).to_string()));
    Ok(ExperimentOutcome {
        algorithm: "rank",
        elements,
        planned,
        bounds: times.iter().map(|times| times.bound(&run.issued_on)).collect(),
        issued: run.issued,
        time: run.time,
        host: vec![run.host],
        ios,
        block: small,
        costs,
        choices,
    })
}

/// Follows the list. Each rank is compared while the list is followed, because no rank is written.
fn hop(
    workspace: &mut Workspace<'_, '_>,
    options: &RankOptions,
    order: &ListOrder,
    list: &StoredList,
) -> Result<Ranked, EmError> {
    let mut see = |element, rank| match order.element(rank) == element {
        true => Ok(()),
        false => Err(EmError::Wrong(format!("element {element} has not the rank {rank}"))),
    };
    let machine = &mut *workspace.machine;
    let mut hopper = Hopper::new(machine, list, options.block)?;
    let mut prng = Prng::new(options.seed.derive("hopping", 0));
    let (mut run, mut reading, mut reads) = (AlgorithmRun::default(), Nanos::ZERO, 0);
    let mut is_at_end = false;
    while !is_at_end {
        let length = Bytes(8 * list.count());
        reading += random_read_time(machine, (list.region(), length), options.block, &mut prng)?;
        reads += READS_MEASURED;
        let watch = Stopwatch::start(machine);
        machine.begin_phase("rank");
        is_at_end = hopper.hop(machine, order.count().div_ceil(PARTS), &mut see)?;
        run.add(watch.stop(machine));
    }
    if hopper.visited != order.count() {
        return Err(EmError::Wrong(format!("{} of {} elements were visited", hopper.visited, order.count())));
    }
    let random_read = Some(reading.0 as f64 / reads as f64);
    let reads = hopping_reads(order, options.block);
    let mut planned = IoCounts::default();
    planned.add(Mode::Read, options.block, reads);
    let class = random_reads(reads as f64, options.block, 1);
    let predicted = Nanos(options.host_cost.0.saturating_mul(order.count()));
    let ios = hopping_ios(class, (options.placement, workspace.machine.device_count()), predicted);
    Ok(Ranked { planned, ios, run, rounds: None, random_read })
}

/// How long [`READS_MEASURED`] reads of a list take, one after the other.
fn random_read_time(
    machine: &mut Machine<'_>,
    (region, length): (&Region, Bytes),
    block: Bytes,
    prng: &mut Prng,
) -> Result<Nanos, EmError> {
    machine.begin_phase("measure costs");
    let length = length.round_up(machine.unit());
    let (mut buffers, _lease) = machine.budget().buffers(1, block, "measuring costs")?;
    let begin = machine.now();
    for _ in 0..READS_MEASURED {
        let from = block * prng.below(length.0.div_ceil(block.0));
        let (device, offset) = region.locate(from);
        let size = block.min(Bytes(length.0 - from.0));
        let buffer = buffers.pop().expect("one read is in flight");
        let read = machine.submit(device, Operation::Read, offset, size, buffer);
        buffers.push(machine.wait(read)?);
    }
    Ok(machine.now().since(begin))
}

/// What a random read of a list of `elements` takes, in nanoseconds: of data of the same length, written as the ranking writes its list, at
/// the same place. Where a device has its data, and in which of its caches, follows from how it was written.
pub(super) fn list_read_time(
    machine: &mut Machine<'_>,
    (elements, data): (u64, Spread),
    block: Bytes,
    seed: Seed,
) -> Result<f64, EmError> {
    let length = Bytes(8 * elements).min(MEASURED_MAX).max(block);
    let region = ExtentAllocator::new(machine).allocate(length, data)?;
    let sequence = sequence_block(machine.budget().limit(), block);
    let mut writer = SequenceWriter::new(machine, region.clone(), Bytes::ZERO, sequence, 1)?;
    writer.write_anything(machine, length)?;
    writer.finish(machine)?;
    // A device programs its flash behind the writes, which delays the first reads; a list is followed for longer.
    for part in region.parts() {
        let flush = machine.submit(part.device, Operation::Flush, Bytes::ZERO, Bytes::ZERO, Buffer::empty());
        machine.wait(flush)?;
    }
    let mut prng = Prng::new(seed.derive("hopping", 0));
    let parts = (0..PARTS).map(|_| random_read_time(machine, (&region, length), block, &mut prng));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    Ok(median(parts.iter().map(|part| part.0 as f64)).unwrap_or_default() / READS_MEASURED as f64)
}

/// Ranks by sorting, and reads the ranks.
fn contract(
    workspace: &mut Workspace<'_, '_>,
    options: &RankOptions,
    order: &ListOrder,
    list: &StoredList,
) -> Result<Ranked, EmError> {
    let watch = Stopwatch::start(workspace.machine);
    workspace.machine.begin_phase("rank");
    let ranking = rank_by_contraction(workspace, list, options.placement.temporary, options.seed)?;
    let run = watch.stop(workspace.machine);
    workspace.machine.begin_phase("verify");
    let mut ranks = workspace.read(&ranking.ranks)?;
    for element in 0..order.count() {
        let rank = ranks.next(workspace.machine)?.map(u64::from);
        if rank != Some(order.rank(element)) {
            return Err(EmError::Wrong(format!("element {element} has the rank {rank:?}")));
        }
    }
    let block = workspace.block;
    let predicted = contraction_ios(order.count(), workspace.machine.budget().limit(), block);
    let mut planned = IoCounts::default();
    planned.add(Mode::Read, block, predicted.reads.round() as u64);
    planned.add(Mode::Write, block, predicted.writes.round() as u64);
    let on = (options.placement, workspace.machine.device_count());
    let ios = sequence_ios(&predicted, order.count(), on, options.host_cost);
    Ok(Ranked { planned, ios, run, rounds: Some(ranking.rounds), random_read: None })
}

/// Hopping as the cost models see it. Each read depends on the one before it, so that no two devices work at the same time.
pub(super) fn hopping_ios(
    reads: IoClass,
    (placement, devices): (SequencePlacement, usize),
    host: Nanos,
) -> AlgorithmIos {
    let reads = on_each(placement.data, devices, reads).into_iter().map(|class| vec![class]);
    AlgorithmIos::alternating(reads.collect(), host)
}

/// Random reads of the first device.
pub(super) fn random_reads(count: f64, block: Bytes, in_flight: u32) -> IoClass {
    let bytes = count * block.0 as f64;
    IoClass { device: 0, mode: Mode::Read, pattern: AccessPattern::Random, count, bytes, in_flight }
}

/// A contraction as the cost models see it: it reads some sequences while it writes others.
/// The list itself is read once where it lies; everything else is made in between.
pub(super) fn sequence_ios(
    ios: &RankIos,
    elements: u64,
    (placement, devices): (SequencePlacement, usize),
    host_cost: Nanos,
) -> AlgorithmIos {
    let class = |spread, mode, count, bytes| {
        let pattern = AccessPattern::Alternating;
        on_each(spread, devices, IoClass { device: 0, mode, pattern, count, bytes, in_flight: 2 })
    };
    let list = (8 * elements) as f64;
    let share = (list / ios.read_bytes.max(list)).min(1.0);
    let read = |spread, share| class(spread, Mode::Read, share * ios.reads, share * ios.read_bytes);
    let mut classes = read(placement.data, share);
    classes.extend(read(placement.temporary, 1.0 - share));
    classes.extend(class(placement.temporary, Mode::Write, ios.writes, ios.write_bytes));
    AlgorithmIos::alternating(vec![classes], Nanos((ios.elements * host_cost.0 as f64) as u64))
}

fn method_name(method: RankMethod) -> &'static str {
    match method {
        RankMethod::Hopping => "hopping",
        RankMethod::Contraction => "contraction",
    }
}

fn predict(source: &mut dyn CostSource, options: &RankOptions) -> Result<AlgorithmPrediction, EmError> {
    let RankOptions { elements, method, block, host_cost, placement, seed } = *options;
    let devices = source.device_count();
    let order = ListOrder::new(elements, seed)?;
    let sequence = sequence_block(source.memory(), block);
    let small = options.small_io(sequence);
    let mut costs = costs(source, placement, (small, IN_FLIGHT))?;
    let ios = match method {
        RankMethod::Hopping => {
            if let Some(time) = source.list_read((elements, placement.data), block)? {
                costs.iter_mut().for_each(|one| one.random_read = one.random_read.moved_to(block, time));
            }
            let class = random_reads(hopping_reads(&order, block) as f64, block, 1);
            hopping_ios(class, (placement, devices), Nanos(host_cost.0.saturating_mul(elements)))
        }
        RankMethod::Contraction => {
            let ios = contraction_ios(elements, source.memory(), sequence);
            sequence_ios(&ios, elements, (placement, devices), host_cost)
        }
    };
    let choices = vec![("block", small.to_string())];
    Ok(AlgorithmPrediction { ios, block: small, costs, choices })
}
