//! What the harness found.

use flashlab_base::Seed;

/// A state in which the volume broke a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashViolation {
    /// The scenario's seed.
    pub seed: Seed,
    /// The recorded IO behind which the power failed.
    pub io: usize,
    /// What the device had.
    pub state: String,
    /// What is wrong.
    pub what: String,
}

/// What the harness found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// Crash states that were mounted and compared.
    pub states: u64,
    /// Of those, states with damage in addition to the power failure.
    pub damaged: u64,
    /// Of those, states that were not mounted.
    pub refused: u64,
    /// Scenarios.
    pub scenarios: u64,
    /// Recorded IOs of all scenarios.
    pub ios: u64,
    /// Segments that were packed in all scenarios: a harness without any tests little.
    pub packed_segments: u64,
    /// Images of the map that were completed.
    pub images: u64,
    /// Volumes that were made larger or smaller.
    pub resizes: u64,
    /// Reads, writes and flushes of the device that failed while the volumes were used.
    pub errors: u64,
    /// The first violations; the harness stops at the tenth.
    pub violations: Vec<CrashViolation>,
}

/// The violations at which the harness stops.
pub(crate) const VIOLATIONS_MAX: usize = 10;

impl CrashReport {
    /// Adds what another thread found.
    pub(crate) fn add(&mut self, other: CrashReport) {
        self.states += other.states;
        self.damaged += other.damaged;
        self.refused += other.refused;
        self.scenarios += other.scenarios;
        self.ios += other.ios;
        self.packed_segments += other.packed_segments;
        self.images += other.images;
        self.resizes += other.resizes;
        self.errors += other.errors;
        self.violations.extend(other.violations);
    }
}
