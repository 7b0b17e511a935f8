//! The experiment `scan`.

use flashlab_base::{Bytes, Mode, Seed};

use super::algorithm::{Algorithm, ELEMENTS, Shrunk, Smaller, space_of_copies};
use super::placement::{
    DataLayout, SequencePlacement, SequenceTimes, costs_of_all, mean_costs, on_each, tuning_of,
};
use super::prediction::{AlgorithmPrediction, CostSource, costs};
use super::{ExperimentOutcome, generate, large_block_in, sequence_block_of};
use crate::budget::MemoryBudget;
use crate::cost::{AccessPattern, AlgorithmIos, InFlight, IoClass};
use crate::error::EmError;
use crate::extent::{ExtentAllocator, Spread};
use crate::machine::Machine;
use crate::record_format::{RecordFormat, RecordGenerator};
use crate::scan::scan;
use crate::stopwatch::Stopwatch;
use crate::tuning::Tuning;

/// What is read in order.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// How many records.
    pub elements: u64,
    /// The records.
    pub format: RecordFormat,
    /// On which devices they lie.
    pub placement: SequencePlacement,
    /// The seed of the records and probes.
    pub seed: Seed,
}

impl Algorithm for ScanOptions {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn space(&self, _memory: Bytes) -> Result<Bytes, EmError> {
        space_of_copies(self.elements, self.record())
    }

    fn data(&self) -> (Bytes, Spread) {
        (Bytes(self.elements.saturating_mul(self.record().0)), self.placement.data)
    }

    fn place(&mut self, machine: &Machine<'_>, layout: DataLayout) {
        self.placement = SequencePlacement::on(machine, layout, self.record());
    }

    fn run(&self, machine: &mut Machine<'_>) -> Result<ExperimentOutcome, EmError> {
        run(machine, self)
    }

    fn predict(&self, source: &mut dyn CostSource) -> Result<AlgorithmPrediction, EmError> {
        predict(source, self)
    }

    fn smaller(&self, memory: Bytes, _chosen: (&AlgorithmIos, Bytes)) -> Option<Smaller> {
        let Shrunk { elements, memory, work, .. } = Shrunk::new(self.elements, ELEMENTS, memory);
        Some(Smaller { algorithm: Box::new(ScanOptions { elements, ..self.clone() }), memory, work })
    }
}

impl ScanOptions {
    fn record(&self) -> Bytes {
        Bytes(self.format.size() as u64)
    }
}

/// Generates records, reads them in order and checks that all were seen.
fn run(machine: &mut Machine<'_>, options: &ScanOptions) -> Result<ExperimentOutcome, EmError> {
    let ScanOptions { elements, ref format, placement, seed } = *options;
    let data = placement.data;
    let length = options.data().0;
    let mut free = ExtentAllocator::new(machine);
    let input = free.allocate(length, data)?;
    let mut generator = RecordGenerator::new(seed.derive("records", 0));
    let made = generate(machine, format, &input, elements, |_, record| generator.fill(record))?;
    let tuning = tuning_of(machine, &mut free, placement, (&input, None))?;
    let block = scan_block(sequence_block_of(machine, &input, format.size()), length, machine.unit());
    let ahead = scan_ahead(&tuning, block, machine.budget().left());
    let in_flight = InFlight { sequential_reads: ahead as u32 + 1, ..InFlight::ONE };
    let on = (placement, length);
    let mut costs = costs_of_all(machine, &mut free, on, (block, in_flight), seed)?;
    let mut times = vec![SequenceTimes::measure(machine, &mut free, &tuning, (&input, None))?];
    let watch = Stopwatch::start(machine);
    let seen = scan(machine, format, &input, length, block, ahead)?;
    let run = watch.stop(machine);
    if seen != made {
        return Err(EmError::Wrong("the scan did not see what was generated".to_owned()));
    }
    if !machine.is_virtual() {
        times.push(SequenceTimes::measure(machine, &mut free, &tuning, (&input, None))?);
        costs = mean_costs(&costs, &costs_of_all(machine, &mut free, on, (block, in_flight), seed)?);
    }
    let class = IoClass {
        device: 0,
        mode: Mode::Read,
        pattern: AccessPattern::Sequential,
        count: run.issued.total() as f64,
        bytes: run.issued.bytes().0 as f64,
        in_flight: ahead as u32 + 1,
    };
    Ok(ExperimentOutcome {
        algorithm: "scan",
        elements,
        planned: run.planned,
        bounds: times.iter().map(|times| times.bound(&run.issued_on)).collect(),
        issued: run.issued,
        time: run.time,
        host: vec![run.host],
        ios: AlgorithmIos::overlapped(
            vec![on_each(data, machine.device_count(), class)],
            vec![machine.declared_cost() * elements],
        ),
        block,
        costs,
        choices: vec![("block", block.to_string()), ("blocks in flight", (ahead + 1).to_string())],
    })
}

fn predict(source: &mut dyn CostSource, options: &ScanOptions) -> Result<AlgorithmPrediction, EmError> {
    let ScanOptions { elements, ref format, placement, .. } = *options;
    let data = placement.data;
    let large = || large_block_in(source.memory(), source.unit(), format.size());
    let length = options.data().0;
    let block = scan_block(placement.stripe().unwrap_or_else(large), length, source.unit());
    let in_flight = scan_ahead(&source.tuning()?, block, source.memory()) as u32 + 1;
    let costs = costs(source, placement, (block, InFlight { sequential_reads: in_flight, ..InFlight::ONE }))?;
    let class = IoClass {
        device: 0,
        mode: Mode::Read,
        pattern: AccessPattern::Sequential,
        count: length.0.div_ceil(block.0) as f64,
        bytes: length.round_up(source.unit()).0 as f64,
        in_flight,
    };
    let choices = vec![("block", block.to_string()), ("blocks in flight", in_flight.to_string())];
    Ok(AlgorithmPrediction {
        ios: AlgorithmIos::overlapped(
            vec![on_each(data, source.device_count(), class)],
            vec![source.host_cost() * elements],
        ),
        block,
        costs,
        choices,
    })
}

/// The block of a scan: no larger than what is read.
fn scan_block(block: Bytes, length: Bytes, unit: Bytes) -> Bytes {
    block.min(length.round_up(unit))
}

/// How many blocks a scan requests in advance: what the device needs and the memory holds beside the block that is read.
fn scan_ahead(tuning: &Tuning, block: Bytes, memory: Bytes) -> usize {
    let most = memory.0 / MemoryBudget::buffer_size(block).0;
    (tuning.ahead(block) + 1).min(most.saturating_sub(1) as usize).max(1)
}
