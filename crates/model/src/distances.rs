//! Response times over the distance between two requests: what the line with a seek is fitted to.
//!
//! # Method
//! 1. Of the random IOs of a run, one after the other, each has a distance: from the end of the one before to its start.
//! 2. They are sorted by it and split in [`BINS`] of the same number of IOs. Each bin is a point, with the mean of its distances: the
//!    platter's position scatters single requests by a rotation, and the mean of a bin by far less.

use flashlab_base::{Bytes, Sample};

/// Bins of a run. With 8192 IOs in virtual time each has 512, whose mean scatters by 1 % of a rotation; with 300 on a real disk each has 18.
const BINS: usize = 16;

/// IOs with about the same distance.
pub(crate) struct DistanceBin {
    /// The mean distance.
    pub distance: Bytes,
    /// Their response times in nanoseconds.
    pub times: Vec<u64>,
}

/// The bins of IOs in the order of their submission, the nearest first.
pub(crate) fn distance_bins(samples: &[Sample]) -> Vec<DistanceBin> {
    let pairs = samples.windows(2).map(|pair| {
        let end = pair[0].offset + pair[0].size;
        (end.0.abs_diff(pair[1].offset.0), pair[1].response().0)
    });
    let mut pairs: Vec<(u64, u64)> = pairs.collect();
    pairs.sort_unstable();
    let bin = |chunk: &[(u64, u64)]| {
        let sum: u128 = chunk.iter().map(|&(distance, _)| u128::from(distance)).sum();
        DistanceBin {
            distance: Bytes((sum / chunk.len() as u128) as u64),
            times: chunk.iter().map(|&(_, time)| time).collect(),
        }
    };
    // IOs that fill no bin are left out, so that all points count the same.
    pairs.chunks_exact((pairs.len() / BINS).max(1)).map(bin).collect()
}
