//! The patterns that probes are made of: one IO after the other, unless said otherwise.

use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Basic, Content, IoSize, Location, ModeRule, Pattern, Time};
use flashlab_samples::Sample;

/// `count` consecutive IOs of one size, over the whole device.
pub(crate) fn ios(mode: Mode, location: Location, size: Bytes, count: u64) -> Pattern {
    let basic = Basic {
        mode: ModeRule::Always(mode),
        location,
        time: Time::Consecutive,
        io_size: IoSize::Fixed(size),
        slot_size: None,
        io_shift: Bytes::ZERO,
        target_offset: Bytes::ZERO,
        target_size: None,
        content: Content::Incompressible,
    };
    Pattern { io_count: Some(count), ..Pattern::basic(basic) }
}

/// The response times in nanoseconds, in the order of the samples.
pub(crate) fn responses(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.response().0 as f64).collect()
}
