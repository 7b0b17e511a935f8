//! The patterns that probes are made of: one IO after the other, unless said otherwise.

pub(crate) mod filling;
pub(crate) mod flushes;
pub(crate) mod random_writes;
pub(crate) mod reads;
pub(crate) mod writes;

use flashlab_base::{Bytes, Mode, Sample};
use flashlab_plan::{Basic, Location, Mix, ModeRule, Pattern};

/// `count` consecutive IOs of one size, over the whole device.
pub(crate) fn ios(mode: Mode, location: Location, size: Bytes, count: u64) -> Pattern {
    let basic = Basic::consecutive(ModeRule::Always(mode), location, size);
    Pattern { io_count: Some(count), ..Pattern::basic(basic) }
}

/// IOs of both patterns in turn.
pub(crate) fn in_turn(first: Pattern, second: Pattern) -> Pattern {
    Pattern { mix: Some(Mix { second: second.first, ratio: 1 }), ..first }
}

/// Writes that a read follows each, with what both took together.
pub(crate) fn with_reads(samples: &[Sample]) -> Vec<(&Sample, f64)> {
    let mut all: Vec<(&Sample, f64)> = Vec::new();
    for sample in samples {
        let took = sample.response().0 as f64;
        if sample.mode.is_write() {
            all.push((sample, took));
        } else if let Some((_, both)) = all.last_mut() {
            *both += took;
        }
    }
    all
}

/// The response times in nanoseconds, in the order of the samples.
pub(crate) fn responses(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.response().0 as f64).collect()
}
