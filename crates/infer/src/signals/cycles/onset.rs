//! Finds the first window of a cycle that has stalls.
//!
//! # Model
//! The stalls of a window are a Poisson number, with one rate before the beginning and a higher one from there on.
//! Stalls by chance have another length than those of the cycle. So longer and shorter stalls have rates of their
//! own.
//!
//! # Invariants
//! - No beginning is reported unless windows before it have fewer stalls.

use super::cycle::Cycle;
use crate::signals::likelihood::gain_of_two;
use crate::signals::statistics::{quantile, slow, upper_median};

/// The greatest ratio of a stall of a cycle to the usual one, in either direction. Unit: ratio. Source:
/// tuned. Too high: outliers before the first window count; too low: the stalls of slow dies do not.
const ALIKE_RATIO: f64 = 1.6;
/// The rate of stalls before the first window, as a share of the rate from there on. Unit: share. Source:
/// tuned. Too high: any change of the rate is a beginning; too low: outliers hide the beginning.
const RATE_BEFORE: f64 = 0.4;
/// The least log-likelihood ratio of a change to none. The cycle itself is known before. Unit: natural
/// logarithm, so 90 to 1. Source: tuned. Too high: a beginning after few windows is missed; too low: a chance
/// gap is a beginning.
const CHANGE_GAIN: f64 = 4.5;
/// The quantiles of the lengths of stalls from which on stalls are counted apart. Unit: share. Source:
/// choice. Too many: one of them fits by chance; too few: erases without copies are not distinguished from
/// copies.
const LENGTH_QUANTILES: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.45, 0.6];
/// What a quantile costs in log-likelihood ratio, as there are more frequencies to choose from. Unit: natural
/// logarithm. Source: derivation: one more parameter (Akaike). Too high: only the sum of all stalls counts;
/// too low: noise chooses the quantile.
const LENGTH_PENALTY: f64 = 1.0;

impl Cycle {
    /// The first write of the first window from which on windows have stalls, if there are some before it that have none but
    /// by chance. The number of stalls in a window is taken for a Poisson number. Those by chance are of another length than
    /// those of the cycle: where the window is follows from how many longer and how many shorter ones there are.
    pub fn onset(&self, costs: &[f64]) -> Option<usize> {
        let covered =
            (self.from..costs.len()).filter(|&index| self.covers(index) && self.is_stall(costs[index]));
        let usual = upper_median(&covered.map(|index| costs[index]).collect::<Vec<_>>());
        // What takes much more or less than the others is there by chance.
        let is_one =
            |cost: f64| self.is_stall(cost) && (usual / ALIKE_RATIO..usual * ALIKE_RATIO).contains(&cost);
        let of_window =
            |window: &[f64]| window.iter().copied().filter(|&cost| is_one(cost)).collect::<Vec<_>>();
        let windows: Vec<Vec<f64>> = self.windows(costs).map(of_window).collect();
        let all = change_of_lengths(&windows, 0.0).filter(|change| change.gain >= CHANGE_GAIN)?;
        let stalls = windows.concat();
        let of_lengths = LENGTH_QUANTILES
            .iter()
            .filter_map(|&share| change_of_lengths(&windows, quantile(&stalls, share)));
        let of_longest = self.changes_of_longest(costs);
        let others = of_lengths.chain(of_longest).map(|it| Change { gain: it.gain - LENGTH_PENALTY, ..it });
        let likeliest = others.fold(all, |best, other| if other.gain > best.gain { other } else { best });
        Some(self.begin_of(likeliest.at))
    }

    /// The likeliest changes from windows without to those with a stall of a length or longer, whatever else is in them. What takes
    /// less than the stalls of the cycle may come earlier: erases before copies.
    fn changes_of_longest(&self, costs: &[f64]) -> Vec<Change> {
        let longest: Vec<f64> =
            self.windows(costs).map(|window| window.iter().copied().fold(0.0, f64::max)).collect();
        let (least, _) = slow(costs);
        let stalls: Vec<f64> = longest.iter().copied().filter(|&cost| cost > least).collect();
        let of_share = |share: &f64| {
            let level = quantile(&stalls, *share);
            change_of_any(longest.iter().map(|&cost| cost >= level))
        };
        if stalls.is_empty() { Vec::new() } else { LENGTH_QUANTILES.iter().filter_map(of_share).collect() }
    }
}

/// From which window on there are more stalls, and how much likelier that is than no change, as a log-likelihood ratio.
#[derive(Clone, Copy)]
struct Change {
    at: usize,
    gain: f64,
}

/// The likeliest change from windows with few stalls of a length or longer to windows with more. Longer and
/// shorter stalls have frequencies of their own on each side.
fn change_of_lengths(windows: &[Vec<f64>], level: f64) -> Option<Change> {
    let of_window = |window: &Vec<f64>| {
        let longer = window.iter().filter(|&&cost| cost >= level).count();
        [longer as f64, (window.len() - longer) as f64]
    };
    likeliest_change(&windows.iter().map(of_window).collect::<Vec<_>>())
}

/// The likeliest change from windows of which few have a stall to those of which more do.
fn change_of_any(has: impl Iterator<Item = bool>) -> Option<Change> {
    let kinds = |has| if has { [1.0, 0.0] } else { [0.0, 1.0] };
    likeliest_change(&has.map(kinds).collect::<Vec<_>>())
}

/// The likeliest change from few of the first kind in each window to more of them.
fn likeliest_change(windows: &[[f64; 2]]) -> Option<Change> {
    let plus = |one: [f64; 2], other: &[f64; 2]| [one[0] + other[0], one[1] + other[1]];
    let whole = windows.iter().fold([0.0; 2], plus);
    let (mut before, mut best): (_, Option<Change>) = ([0.0; 2], None);
    for (at, window) in windows.iter().enumerate() {
        // There are few before it, for what there is from it on.
        let behind = windows.len() - at;
        if before[0] * (behind as f64) < RATE_BEFORE * (whole[0] - before[0]) * at as f64 {
            let gain = gain_of_two(&before, &whole, at, windows.len());
            best = best.filter(|best| best.gain >= gain).or(Some(Change { at, gain }));
        }
        before = plus(before, window);
    }
    best
}
