//! Figures of an average IO of a pattern: what it writes, and how wide it is.

use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Basic, ModeRule, Pattern};

/// Bytes that an average IO of the pattern writes.
pub(crate) fn bytes_written_each(pattern: &Pattern) -> f64 {
    weighted(pattern, |basic| match basic.mode {
        ModeRule::Always(Mode::Read) => 0.0,
        ModeRule::Always(Mode::Write) => basic.io_size.largest().0 as f64,
        ModeRule::WriteProbability(p) => p * basic.io_size.largest().0 as f64,
    })
}

/// The mean of a figure over the IOs of a pattern.
pub(crate) fn weighted(pattern: &Pattern, figure: impl Fn(&Basic) -> f64) -> f64 {
    match &pattern.mix {
        None => figure(&pattern.first),
        Some(mix) => {
            let ratio = f64::from(mix.ratio);
            (ratio * figure(&pattern.first) + figure(&mix.second)) / (ratio + 1.0)
        }
    }
}

/// The widest slot of the pattern.
pub(crate) fn widest(pattern: &Pattern) -> Bytes {
    pattern.basics().map(Basic::slot).max().unwrap_or(Bytes(1))
}
