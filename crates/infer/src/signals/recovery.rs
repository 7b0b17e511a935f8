//! Sequential writes after a burst of random writes, compared with those before it.
//!
//! # Model
//! Ajwani et al., section 3.3.3 and appendix C. A region is written repeatedly after the burst. When it costs what it
//! did, either the device has recovered, or the region is in order again because it was rewritten: another region,
//! which was not written since, distinguishes the two.

use flashlab_base::Nanos;

use super::pass_level::{PassLevel, SLOWED_RATIO};

/// What the regions cost before a burst.
pub struct Before {
    /// The region that is written after the burst.
    pub first: PassLevel,
    /// The one that is not.
    pub other: PassLevel,
}

/// A burst, and the sequential writes after it.
pub struct After {
    /// What the writes cost, pass by pass.
    pub costs: Vec<f64>,
    /// When each of them was done, since the end of the burst.
    pub done: Vec<f64>,
    /// How many of the first ones are slowed down.
    pub slowed: usize,
    /// What the region cost that was not written since the burst, if it was asked.
    pub other: Option<Vec<f64>>,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
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
    /// How it ends.
    pub fn end(&self, before: &Before) -> End {
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
        } else if self.costs.chunks_exact(writes).all(|pass| times(pass).low > SLOWED_RATIO) {
            End::NotSeen
        } else {
            End::Doubtful
        }
    }

    /// Whether it shows that they cost what they did, once they are not slowed down any more, wherever they go. That
    /// no difference shows is not enough where there never was one: merges and outliers may hide it.
    pub fn is_as_before(&self, before: &Before) -> bool {
        match (self.slowed, &self.other) {
            (0, _) => {
                let mut passes = self.costs.chunks_exact(before.first.writes());
                passes.all(|pass| before.first.times(pass).high < SLOWED_RATIO)
            }
            (_, Some(other)) => before.other.times(other).estimate < SLOWED_RATIO,
            (_, None) => false,
        }
    }

    /// How long writes are slowed down.
    pub fn time(&self) -> Nanos {
        Nanos(self.slowed.checked_sub(1).map_or(0.0, |last| self.done[last]) as u64)
    }

    /// What the last pass cost.
    pub fn last(&self, writes: usize) -> &[f64] {
        &self.costs[self.costs.len() - writes..]
    }

    /// Whether the last pass is faster than before the burst.
    pub fn is_cheaper(&self, before: &Before) -> bool {
        before.first.is_cheaper(self.last(before.first.writes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITES: usize = 64;

    /// Writes that take about 1 ms times `slower`, with a little scatter.
    fn pass(slower: f64) -> Vec<f64> {
        (0..WRITES).map(|write| 1e6 * slower * (1.0 + 0.01 * (write * 7 % 11) as f64)).collect()
    }

    /// Passes that are slower by these factors, and the other region, if it is written.
    fn after(passes: &[f64], other: Option<f64>) -> (After, Before) {
        let level = || PassLevel::new(&[pass(1.0), pass(1.01), pass(0.99)]);
        let before = Before { first: level(), other: level() };
        let costs: Vec<f64> = passes.iter().flat_map(|&slower| pass(slower)).collect();
        let done = (1..=costs.len()).map(|write| write as f64 * 1e6).collect();
        let slowed = before.first.slowed(&costs);
        (After { costs, done, slowed, other: other.map(pass) }, before)
    }

    #[test]
    fn the_other_region_distinguishes_recovery_from_rewriting() {
        let end = |passes: &[f64], other| {
            let (after, before) = after(passes, other);
            after.end(&before)
        };
        assert_eq!(end(&[1.0, 1.0, 1.0], None), End::ByItself);
        assert_eq!(end(&[3.0, 1.0, 1.0], Some(1.0)), End::ByItself);
        assert_eq!(end(&[3.0, 1.0, 1.0], Some(3.0)), End::WhereRewritten);
        assert_eq!(end(&[3.0, 1.0, 1.0], None), End::Doubtful);
        assert_eq!(end(&[3.0, 3.0, 3.0], None), End::NotSeen);
        assert_eq!(end(&[4.0, 3.0, 2.0], None), End::OnItsWay);
    }

    #[test]
    fn the_time_is_that_of_the_slow_writes() {
        let (slow, before) = after(&[3.0, 1.0, 1.0], Some(1.0));
        assert!(slow.time().0.abs_diff(64_000_000) <= 2_000_000, "{}", slow.time());
        assert!(slow.is_as_before(&before) && !slow.is_cheaper(&before));
        let (never, before) = after(&[1.0, 1.0, 1.0], None);
        assert_eq!(never.time(), Nanos::ZERO);
        assert!(never.is_as_before(&before));
        let (faster, before) = after(&[1.0, 1.0, 0.5], None);
        assert!(faster.is_cheaper(&before));
    }
}
