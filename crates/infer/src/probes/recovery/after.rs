//! Sequential writes after a burst of random writes, compared with those before it.
//!
//! # Model
//! Ajwani et al., section 3.3.3 and appendix C. The first region is written repeatedly after the burst. When it costs what it did,
//! either the device has recovered, or the region is in order again because it was rewritten: the other region, which was not
//! written since, distinguishes the two.

use flashlab_analysis::signals::pass_level::{PassLevel, SLOWED};
use flashlab_base::{Bytes, Nanos};

/// How long the bursts take.
pub(super) const BURST: Nanos = Nanos::from_secs(5);
/// A burst is as long as it should be if it is this part of it: its last piece has the length that the piece before it says, and one merge
/// more or less changes that by a tenth.
const LONG_ENOUGH: f64 = 0.9;

/// What is written, and where.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Writes of a pass of one region.
    pub(super) pass: u64,
    /// The most random writes of the burst.
    pub(super) burst: u64,
    pub(super) random: Bytes,
    pub(super) sequential: Bytes,
    /// Random writes go below this.
    pub(super) span: Bytes,
    /// Whether it is written in order before the burst.
    pub(super) in_order: bool,
    /// What is kept for rewriting all that was written randomly, where that is affordable.
    pub(super) rewriting: Bytes,
}

/// What the regions cost before a burst.
pub(super) struct Before {
    pub(super) first: PassLevel,
    pub(super) other: PassLevel,
}

/// A burst, and the sequential writes after it.
pub(super) struct After {
    /// How long the burst took.
    pub(super) burst: Nanos,
    pub(super) writes: u64,
    /// What the writes cost, pass by pass.
    pub(super) costs: Vec<f64>,
    /// When each of them was done, since the end of the burst.
    pub(super) done: Vec<f64>,
    /// How many of the first ones are slowed down.
    pub(super) slowed: usize,
    /// What the region cost that was not written since the burst, if it was asked.
    pub(super) other: Option<Vec<f64>>,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    /// Writes are not slowed down any more, wherever they go.
    ByItself,
    /// They are, but for those that rewrite what was rewritten since.
    WhereRewritten,
    /// They become faster, but were not followed until the end.
    OnItsWay,
    /// They go on being slowed down, each pass without doubt.
    NotSeen,
    /// They seem to go on being slowed down.
    Doubtful,
}

impl After {
    pub(super) fn end(&self, before: &Before) -> End {
        let writes = before.first.writes();
        let times = |pass: &[f64]| before.first.times(pass);
        if !before.first.is_slowed_to_the_end(self.slowed, self.costs.len()) {
            match &self.other {
                Some(costs) if before.other.slowed(costs) > costs.len() / 2 => End::WhereRewritten,
                // It may be quick because it was rewritten.
                None if self.slowed > 0 => End::Doubtful,
                _ => End::ByItself,
            }
        } else if times(self.last(writes)).high <= times(&self.costs[..writes]).low {
            End::OnItsWay
        } else if self.costs.chunks_exact(writes).all(|pass| times(pass).low > SLOWED) {
            End::NotSeen
        } else {
            End::Doubtful
        }
    }

    /// Whether it shows that they cost what they did, once they are not slowed down any more, wherever they go. That
    /// no difference shows is not enough where there never was one: merges and outliers may hide it.
    pub(super) fn is_as_before(&self, before: &Before) -> bool {
        match (self.slowed, &self.other) {
            (0, _) => {
                let mut passes = self.costs.chunks_exact(before.first.writes());
                passes.all(|pass| before.first.times(pass).high < SLOWED)
            }
            (_, Some(other)) => before.other.times(other).estimate < SLOWED,
            (_, None) => false,
        }
    }

    /// How long writes are slowed down.
    pub(super) fn time(&self) -> Nanos {
        Nanos(self.slowed.checked_sub(1).map_or(0.0, |last| self.done[last]) as u64)
    }

    /// Whether the burst was as long as it should be.
    pub(super) fn is_long_enough(&self, length: Nanos) -> bool {
        self.burst.0 as f64 >= LONG_ENOUGH * length.0 as f64
    }

    /// What the last pass cost.
    pub(super) fn last(&self, writes: usize) -> &[f64] {
        &self.costs[self.costs.len() - writes..]
    }

    /// Whether the last pass is faster than before the burst.
    pub(super) fn is_cheaper(&self, before: &Before) -> bool {
        before.first.is_cheaper(self.last(before.first.writes()))
    }
}
