//! Folds stalls by a period: which window of the period has most of them?
//!
//! # Invariants
//! - At least [`thresholds::PERIODS_LEAST`] windows are seen.

use super::cycle::{Cycle, gain};
use crate::thresholds;

/// The share of the windows that contain a stall. Unit: share. Source: tuned. Too high: blocks that garbage
/// collection skips hide the cycle; too low: half of the period is a cycle.
const STALLED_SHARE: f64 = 0.75;
/// The periods that are tried in each doubling, each the one with most stalls at its distance. Unit: periods.
/// Source: choice. Too many: the search takes longer; too few: the period is not among them.
const PER_OCTAVE: f64 = 15.0;
/// A window is at most this part of a period. Unit: part. Source: choice. Too small: windows of half a period
/// hold stalls by chance; too large: dies that erase one after the other do not fit.
const WINDOW_PART: usize = 4;
/// The widest window. Unit: writes. Source: choice. Too high: the search takes longer; too low: the erases of
/// many dies do not fit.
const WINDOW_MOST: usize = 256;
/// A period that was found may be down to this part of the true one, where outliers lie between the windows.
/// Unit: part. Source: tuned. Too large: multiples fit by chance; too small: a part is reported.
const PARTS_MOST: usize = 3;

/// Stalls to be folded.
pub(super) struct Fold<'a> {
    pub(super) stalls: &'a [usize],
    pub(super) from: usize,
    pub(super) length: usize,
}

impl Fold<'_> {
    /// The likeliest windows of a period, if nearly all of them have stalls.
    pub(super) fn best(&self, period: usize) -> Option<Cycle> {
        self.likeliest_windows(period).filter(|cycle| self.complete(cycle))
    }

    /// The likeliest windows of a period.
    fn likeliest_windows(&self, period: usize) -> Option<Cycle> {
        if period < 2 || self.length < thresholds::PERIODS_LEAST * period {
            return None;
        }
        let mut counts = vec![0u32; period];
        self.stalls.iter().for_each(|stall| counts[stall % period] += 1);
        let all = self.length as f64;
        let widths = (0..).map(|doublings| 1usize << doublings);
        let mut best: Option<Cycle> = None;
        for width in
            widths.take_while(|&width| width <= WINDOW_MOST && (width == 1 || width <= period / WINDOW_PART))
        {
            let (phase, hits) = densest(&counts, width);
            let gain = gain(hits, all * width as f64 / period as f64, self.stalls.len(), self.length);
            if best.is_none_or(|best| gain > best.gain) {
                let (low, high) = (0.0, 0.0);
                best = Some(Cycle {
                    period,
                    phase,
                    width,
                    from: self.from,
                    length: self.length,
                    gain,
                    low,
                    high,
                });
            }
        }
        best
    }

    /// Whether nearly all windows have stalls.
    fn complete(&self, cycle: &Cycle) -> bool {
        let inside = self.stalls.iter().filter(|&&stall| cycle.covers(stall));
        let mut windows: Vec<usize> =
            inside.map(|stall| (stall + cycle.period - cycle.phase) / cycle.period).collect();
        windows.dedup();
        let expected = self.length / cycle.period;
        windows.len() >= thresholds::PERIODS_LEAST && windows.len() as f64 >= STALLED_SHARE * expected as f64
    }
}

/// Where a window of `width`, around the end, has most of the counts, and how many.
fn densest(counts: &[u32], width: usize) -> (usize, usize) {
    let mut sum: u32 = counts[..width].iter().sum();
    let (mut most, mut at) = (sum, 0);
    for begin in 1..counts.len() {
        sum = sum - counts[begin - 1] + counts[(begin + width - 1) % counts.len()];
        if sum > most {
            (most, at) = (sum, begin);
        }
    }
    (at, most as usize)
}

/// The distances at which most stalls follow each other, some in each doubling.
pub(super) fn distances(stalls: &[usize], longest: usize) -> Vec<usize> {
    let mut counts = vec![0u32; longest + 1];
    for (index, &first) in stalls.iter().enumerate() {
        for &second in &stalls[index + 1..] {
            match counts.get_mut(second - first) {
                Some(count) => *count += 1,
                None => break,
            }
        }
    }
    let (mut chosen, mut begin) = (Vec::new(), 2);
    while begin <= longest {
        let end = ((begin as f64 * 2f64.powf(1.0 / PER_OCTAVE)) as usize).max(begin + 1).min(longest + 1);
        let best = (begin..end).max_by_key(|&distance| (counts[distance], distance.trailing_zeros()));
        chosen.extend(best.filter(|&distance| counts[distance] > 0));
        begin = end;
    }
    chosen
}

/// How likely a cycle is, with what is likelier of a period that is divisible by two.
pub(super) fn rounded(cycle: &Cycle) -> f64 {
    cycle.gain + thresholds::ROUNDER_GAIN * f64::from(cycle.period.trailing_zeros())
}

impl Cycle {
    /// This period, or the whole part of it, no shorter than `shortest`, that explains the stalls from `from` on best. What was
    /// found among few windows may be a multiple; among more of them it leaves most stalls without a window. It may be a part as
    /// well, where outliers were in the windows between: then a multiple explains the stalls much better.
    pub fn likeliest_period(self, costs: &[f64], from: usize, shortest: usize) -> Cycle {
        let from = from.min(costs.len());
        let stalls: Vec<usize> = (from..costs.len()).filter(|&index| self.is_stall(costs[index])).collect();
        let fold = Fold { stalls: &stalls, from, length: costs.len() - from };
        let near = |parts: usize| {
            let part = (self.period + parts / 2) / parts;
            part.saturating_sub(1).max(2)..=part + 1
        };
        let likeliest = |periods: Vec<usize>| {
            let cycles = periods.into_iter().filter_map(|period| fold.likeliest_windows(period));
            cycles.max_by(|a, b| rounded(a).total_cmp(&rounded(b)))
        };
        let fits = |&period: &usize| period >= shortest && (shortest > 0 || period == self.period);
        let part = likeliest((1..=thresholds::MULTIPLES_MOST).flat_map(near).filter(fits).collect());
        let times = |times: usize| self.period * times - times / 2..=self.period * times + times / 2;
        let multiple = likeliest((2..=PARTS_MOST).flat_map(times).collect())
            .filter(|multiple| part.is_some_and(|part| multiple.gain >= part.gain + thresholds::PERIOD_GAIN));
        multiple.or(part).map_or(self, |likeliest| Cycle { low: self.low, high: self.high, ..likeliest })
    }
}
