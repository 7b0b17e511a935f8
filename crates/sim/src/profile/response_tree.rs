//! The section of a profile that has measured response times: a regression tree.

use flashlab_base::{Bytes, Seed};
use serde::{Deserialize, Serialize};

use crate::illegal::Illegal;
use crate::response_tree::{RequestFeature, RequestFeatures};

/// The longest response time that a leaf may have, in nanoseconds: 1000 s.
const LONGEST_NS: u64 = 1_000_000_000_000;
/// Leaves of a tree: a fit makes at most 2048.
const LEAVES_MOST: usize = 1 << 16;

/// A regression tree of response times (see [`crate::response_tree`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseTree {
    /// The seed with which a leaf's times are dealt.
    #[serde(default)]
    pub seed: Seed,
    /// A write is slow if it takes at least this many times as long as the throughput model says of a sequential write of its size. It ends a
    /// backlog. 0: no write is slow.
    #[serde(default)]
    pub slow_write: f64,
    /// The splits; the first one is the root. Without any there is one leaf.
    #[serde(default)]
    pub splits: Vec<TreeSplit>,
    /// The leaves.
    pub leaves: Vec<TreeLeaf>,
}

/// A question to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSplit {
    /// Of what.
    pub feature: RequestFeature,
    /// What is less goes to `low`, the others go to `high`.
    pub below: f64,
    /// The split of this number, counted from 0, which comes later; or -n: the n-th leaf, counted from 1.
    pub low: i64,
    /// The same.
    pub high: i64,
}

/// The response times of a situation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeLeaf {
    /// The smallest request that was measured.
    pub smallest: Bytes,
    /// The largest.
    pub largest: Bytes,
    /// Pairs: how many response times, and their mean in nanoseconds. Ascending.
    pub times: Vec<(u64, u64)>,
}

impl TreeLeaf {
    /// How many response times were measured.
    pub(crate) fn count(&self) -> u64 {
        self.times.iter().map(|&(count, _)| count).sum()
    }

    /// The time in nanoseconds below which a share of the response times is.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut left = share * self.count() as f64;
        for &(count, ns) in &self.times {
            left -= count as f64;
            if left < 0.0 {
                return ns as f64;
            }
        }
        self.times.last().map_or(1.0, |&(_, ns)| ns as f64)
    }
}

impl ResponseTree {
    /// The number of the leaf for a request.
    pub(crate) fn leaf(&self, features: &RequestFeatures) -> usize {
        let mut next: i64 = if self.splits.is_empty() { -1 } else { 0 };
        while let Ok(at) = usize::try_from(next) {
            let split = &self.splits[at];
            let is_low = features[split.feature as usize] < split.below;
            next = if is_low { split.low } else { split.high };
        }
        (-next - 1) as usize
    }

    pub(super) fn check(&self) -> Result<(), Illegal> {
        let leaves = self.leaves.len();
        if !(1..=LEAVES_MOST).contains(&leaves) {
            return Err(Illegal::new(
                "response_tree.leaves",
                format!("a list of {leaves}"),
                "1 to 65536 of them",
            ));
        }
        if !self.slow_write.is_finite() || self.slow_write < 0.0 {
            return Err(Illegal::number("response_tree.slow_write", self.slow_write, "0 or more"));
        }
        for (at, split) in self.splits.iter().enumerate() {
            let key = |name: &str| format!("response_tree.splits[{at}].{name}");
            if !split.below.is_finite() {
                return Err(Illegal::number(key("below"), split.below, "a finite number"));
            }
            for (name, to) in [("low", split.low), ("high", split.high)] {
                let later = at as i64 + 1..self.splits.len() as i64;
                let leaf = -(leaves as i64)..=-1;
                if !later.contains(&to) && !leaf.contains(&to) {
                    let legal =
                        format!("a later split, below {}, or a leaf, -{leaves} to -1", self.splits.len());
                    return Err(Illegal::new(key(name), to, legal));
                }
            }
        }
        for (at, leaf) in self.leaves.iter().enumerate() {
            let key = |name: &str| format!("response_tree.leaves[{at}].{name}");
            if leaf.smallest > leaf.largest {
                return Err(Illegal::new(
                    key("smallest"),
                    leaf.smallest,
                    format!("at most {}", leaf.largest),
                ));
            }
            let is_legal = |&(count, ns): &(u64, u64)| (1..=1 << 40).contains(&count) && ns <= LONGEST_NS;
            if leaf.times.is_empty() || !leaf.times.iter().all(is_legal) {
                let legal = "pairs of a count, 1 to 1099511627776, and nanoseconds, up to 1000000000000; at least one";
                return Err(Illegal::new(key("times"), format!("{:?}", leaf.times), legal));
            }
        }
        Ok(())
    }
}
