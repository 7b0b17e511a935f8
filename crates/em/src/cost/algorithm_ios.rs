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

/// IOs during which all devices can work at the same time, and what the CPU does meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// The IOs.
    pub ios: Vec<IoClass>,
    /// What the CPU adds to the time of the IOs.
    pub host: Nanos,
}

/// The IOs of an algorithm, phase after phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlgorithmIos {
    /// The phases, in order.
    pub phases: Vec<Phase>,
}

impl AlgorithmIos {
    /// IOs of one phase.
    pub fn of(ios: Vec<IoClass>, host: Nanos) -> AlgorithmIos {
        AlgorithmIos { phases: vec![Phase { ios, host }] }
    }

    /// IOs in several phases; the host's time is added to the first.
    pub fn phases(phases: Vec<Vec<IoClass>>, host: Nanos) -> AlgorithmIos {
        let host = |index| if index == 0 { host } else { Nanos::ZERO };
        let phases = phases.into_iter().enumerate().map(|(index, ios)| Phase { ios, host: host(index) });
        AlgorithmIos { phases: phases.collect() }
    }

    /// All its IOs.
    pub fn ios(&self) -> impl Iterator<Item = &IoClass> {
        self.phases.iter().flat_map(|phase| &phase.ios)
    }

    /// The host time of all phases.
    pub fn host(&self) -> Nanos {
        Nanos(self.phases.iter().map(|phase| phase.host.0).sum())
    }

    /// How many IOs go in a direction.
    pub fn count(&self, mode: Mode) -> f64 {
        self.ios().filter(|class| class.mode == mode).map(|class| class.count).sum()
    }
}
