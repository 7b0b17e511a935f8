//! From which window on a cycle has stalls.

use super::cycle::Cycle;
use crate::signals::likelihood::gain_of_two;
use crate::signals::statistics::{expensive, quantile, upper_median};

/// The largest factor between a stall of a cycle and the usual one, in either direction.
const ALIKE: f64 = 1.6;
/// Before the first window with stalls, the rate of stalls is at most this part of the rate from there on,
const FEW: f64 = 0.4;
/// and a change is likelier than none by at least this log-likelihood ratio.
const CHANGE_LEAST: f64 = 4.5;
/// Stalls that are longer than these shares of all are counted apart, where that is likelier by this log-likelihood ratio: there are
/// more frequencies to choose from.
const LENGTHS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.45, 0.6];
const LENGTH_LESS: f64 = 1.0;

impl Cycle {
    /// The first write of the first window from which on windows have stalls, if there are some before it that have none but
    /// by chance. The number of stalls in a window is taken for a Poisson number. Those by chance are of another length than
    /// those of the cycle: where the window is follows from how many longer and how many shorter ones there are.
    pub fn onset(&self, costs: &[f64]) -> Option<usize> {
        let covered =
            (self.from..costs.len()).filter(|&index| self.covers(index) && self.is_stall(costs[index]));
        let usual = upper_median(&covered.map(|index| costs[index]).collect::<Vec<_>>());
        // What takes much more or less than the others is there by chance.
        let is_one = |cost: f64| self.is_stall(cost) && (usual / ALIKE..usual * ALIKE).contains(&cost);
        let of_window =
            |window: &[f64]| window.iter().copied().filter(|&cost| is_one(cost)).collect::<Vec<_>>();
        let windows: Vec<Vec<f64>> = self.windows(costs).map(of_window).collect();
        let all = change_of_lengths(&windows, 0.0).filter(|change| change.gain >= CHANGE_LEAST)?;
        let stalls = windows.concat();
        let of_lengths =
            LENGTHS.iter().filter_map(|&share| change_of_lengths(&windows, quantile(&stalls, share)));
        let of_longest = self.changes_of_longest(costs);
        let others = of_lengths.chain(of_longest).map(|it| Change { gain: it.gain - LENGTH_LESS, ..it });
        let likeliest = others.fold(all, |best, other| if other.gain > best.gain { other } else { best });
        Some(self.begin_of(likeliest.at))
    }

    /// The likeliest changes from windows without to those with a stall of a length or longer, whatever else is in them. What takes
    /// less than the stalls of the cycle may come earlier: erases before copies.
    fn changes_of_longest(&self, costs: &[f64]) -> Vec<Change> {
        let longest: Vec<f64> =
            self.windows(costs).map(|window| window.iter().copied().fold(0.0, f64::max)).collect();
        let (least, _) = expensive(costs);
        let stalls: Vec<f64> = longest.iter().copied().filter(|&cost| cost > least).collect();
        let of_share = |share: &f64| {
            let level = quantile(&stalls, *share);
            change_of_any(longest.iter().map(|&cost| cost >= level))
        };
        if stalls.is_empty() { Vec::new() } else { LENGTHS.iter().filter_map(of_share).collect() }
    }
}

/// From which window on there are more stalls, and how much likelier that is than no change, as a log-likelihood ratio.
#[derive(Clone, Copy)]
struct Change {
    at: usize,
    gain: f64,
}

/// The likeliest change from windows with few stalls of a length or longer to those with more of them, where these and shorter ones have
/// frequencies of their own before it and behind it.
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
        if before[0] * (behind as f64) < FEW * (whole[0] - before[0]) * at as f64 {
            let gain = gain_of_two(&before, &whole, at, windows.len());
            best = best.filter(|best| best.gain >= gain).or(Some(Change { at, gain }));
        }
        before = plus(before, window);
    }
    best
}
