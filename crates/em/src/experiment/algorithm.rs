//! What an algorithm says of itself, so that it is run, predicted and rehearsed as every other.
//!
//! # Model
//! An [`Algorithm`] is a value: its input, its options, and on which devices its data lies. A new one is a file beside this one that
//! implements the trait, and its options on the command line.

use flashlab_base::Bytes;

use super::ExperimentOutcome;
use super::placement::DataLayout;
use super::prediction::{AlgorithmPrediction, CostSource};
use crate::cost::AlgorithmIos;
use crate::error::EmError;
use crate::extent::Spread;
use crate::machine::Machine;

/// An algorithm with its input and options.
pub trait Algorithm {
    /// Its name on the command line and in documents.
    fn name(&self) -> &'static str;

    /// The space that [`Algorithm::run`] needs on each device with this memory.
    ///
    /// # Errors
    /// [`EmError::Parameter`] for an input that no device holds, [`EmError::Memory`] when the memory is too small for any plan.
    fn space(&self, memory: Bytes) -> Result<Bytes, EmError>;

    /// How long what it reads first is, and on which devices it lies.
    fn data(&self) -> (Bytes, Spread);

    /// Decides where its data lies on the devices of a machine. Without this all lies on the first device.
    fn place(&mut self, machine: &Machine<'_>, layout: DataLayout);

    /// Generates the input, runs the algorithm and verifies its result.
    ///
    /// # Errors
    /// Those of the IOs, [`EmError::Memory`], [`EmError::Space`], [`EmError::Parameter`] and [`EmError::Wrong`].
    fn run(&self, machine: &mut Machine<'_>) -> Result<ExperimentOutcome, EmError>;

    /// What it would do, and what the devices charge for it.
    ///
    /// # Errors
    /// Those of the source and of planning; [`EmError::Parameter`] where no formula knows the IOs in advance.
    fn predict(&self, source: &mut dyn CostSource) -> Result<AlgorithmPrediction, EmError>;

    /// The same on a smaller input with less memory, whose computation on the host is a fraction of a second; none if there is no
    /// smaller input of its kind. `chosen` has the IOs and the block that were chosen for the device.
    fn smaller(&self, memory: Bytes, chosen: (&AlgorithmIos, Bytes)) -> Option<Smaller>;
}

/// An algorithm on a smaller input.
pub struct Smaller {
    /// The algorithm, not yet placed.
    pub algorithm: Box<dyn Algorithm>,
    /// Its memory.
    pub memory: Bytes,
    /// How many times as much work the whole input is.
    pub work: f64,
}

/// The elements of a smaller input: a fraction of a second of the CPU for each algorithm.
pub(super) const ELEMENTS: u64 = 1 << 22;
/// The same for graphs and lists, whose elements take some sorts each.
pub(super) const NODES: u64 = 1 << 19;

/// How an input shrinks to about `least` elements while its memory shrinks as much: a sort then merges as many runs.
pub(super) struct Shrunk {
    pub times: u64,
    pub elements: u64,
    pub memory: Bytes,
    pub work: f64,
}

impl Shrunk {
    pub fn new(elements: u64, least: u64, memory: Bytes) -> Shrunk {
        /// The least memory of an algorithm.
        const MEMORY_MIN: Bytes = Bytes::mib(1);
        let times = (elements / least).max(1).min(memory.0 / MEMORY_MIN.0).max(1);
        let fewer = elements / times;
        Shrunk {
            times,
            elements: fewer,
            memory: Bytes(memory.0 / times),
            work: elements as f64 / fewer.max(1) as f64,
        }
    }
}

/// The space of an algorithm that reads what it generates: its input, and as much again that costs are measured on.
pub(super) fn space_of_copies(elements: u64, record: Bytes) -> Result<Bytes, EmError> {
    let wrong =
        || EmError::Parameter(format!("{elements} elements of {record} are more than any device holds"));
    let length = elements.checked_mul(record.0).and_then(|length| length.checked_mul(2)).ok_or_else(wrong)?;
    Ok(Bytes(length) + Bytes::mib(64))
}
