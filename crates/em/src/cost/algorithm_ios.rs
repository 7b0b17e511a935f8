//! The IOs of an algorithm, as the cost models see them.

use flashlab_base::{Bytes, Mode, Nanos};

/// Where an IO begins, compared with the end of the IO before it on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessPattern {
    /// It continues the IO before it.
    Sequential,
    /// It begins at a random offset.
    Random,
    /// It begins in the middle of a range that is a half of the range before it, as a binary search reads: the first few
    /// blocks serve all searches, and their distances are large powers of two.
    Halving,
    /// It begins behind the IO before it, after a gap: what a level of a search reads. Only IOs of one level are in flight at the same
    /// time.
    Ascending,
    /// It continues the IO before the last one: a sequence is read and another one written at the same time.
    Alternating,
}

/// IOs of one kind on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoClass {
    /// The device, by its index.
    pub device: usize,
    /// Read or write.
    pub mode: Mode,
    /// Sequential, random or alternating.
    pub pattern: AccessPattern,
    /// How many IOs. A fraction is an expected value.
    pub count: f64,
    /// The bytes of all of them.
    pub bytes: f64,
    /// How many of them are in flight at the same time.
    pub in_flight: u32,
}

impl IoClass {
    /// The mean size of an IO.
    pub fn size(&self) -> Bytes {
        Bytes(if self.count > 0.0 { (self.bytes / self.count).round() as u64 } else { 0 })
    }
}

/// The IOs of an algorithm, phase after phase, and its computation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlgorithmIos {
    /// The IOs of each phase, in order. All devices can work at the same time during one.
    pub phases: Vec<Vec<IoClass>>,
    /// How long the host computes in each phase.
    pub host: Vec<Nanos>,
    /// Whether the host computes while IOs are in flight, so that the slower of both decides; otherwise one waits for the other.
    pub is_overlapped: bool,
}

impl AlgorithmIos {
    /// IOs of several phases, and how long the host computes during each.
    pub fn overlapped(phases: Vec<Vec<IoClass>>, host: Vec<Nanos>) -> AlgorithmIos {
        AlgorithmIos { phases, host, is_overlapped: true }
    }

    /// IOs of several phases that the host's computation waits for.
    pub fn alternating(phases: Vec<Vec<IoClass>>, host: Nanos) -> AlgorithmIos {
        AlgorithmIos { phases, host: vec![host], is_overlapped: false }
    }

    /// All its IOs.
    pub fn ios(&self) -> impl Iterator<Item = &IoClass> {
        self.phases.iter().flatten()
    }

    /// How many IOs go in a direction.
    pub fn count(&self, mode: Mode) -> f64 {
        self.ios().filter(|class| class.mode == mode).map(|class| class.count).sum()
    }
}
