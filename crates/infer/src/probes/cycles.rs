//! Stalls that come back in groups: from the costs of equal writes, how many writes lie between two collections or merges.
//!
//! # Model
//! Where space is given out by units that several dies fill at the same time, at each end of a unit a few of the writes
//! within a window are expensive, the same ones each time or, behind a buffer, now these and now those. So each write is
//! expensive with one probability within the windows and with another one elsewhere, and the windows come with a period. Of
//! all periods, phases and widths the likeliest is taken, with what it is more likely than no windows at all (the
//! logarithm of the ratio of the likelihoods). A multiple of the period leaves half of the stalls without a window and a
//! part of it has windows without stalls, so that neither is as likely.
//!
//! What is expensive is not known: costs above several levels, with and without those that are far above, are tried. When
//! it began is not known: the last part of the writes is looked at, from all of them down to a quarter.
//!
//! # Invariants
//! - a cycle has stalls in nearly all of its windows;
//! - the same costs give the same cycles.

use super::figures::{divergence, expensive, gain_of_two, median, quantile};

/// Windows at the least.
const PERIODS_MIN: usize = 3;
/// The share of the windows that have stalls.
const COMPLETE: f64 = 0.75;
/// How much likelier than no cycle, in nats, beyond the logarithm of how many periods and phases so many writes have: for all
/// widths and levels that are tried.
const GAIN_LEAST: f64 = 9.0;
/// What takes so many times what the stalls of a cycle take is none of them.
const ANOTHER: f64 = 1.4;
/// Stalls of a cycle take up to so many times as much, or as little, as the usual one.
pub(crate) const ALIKE: f64 = 1.6;
/// Before the first window of a rule there are at most so many times as many stalls,
const FEW: f64 = 0.4;
/// and that is so much likelier than no change, in nats.
const CHANGE_LEAST: f64 = 4.5;
/// Stalls that are longer than these shares of all are counted apart, where that is likelier by so many nats: there are
/// more frequencies to choose from.
const LENGTHS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.45, 0.6];
const LENGTH_LESS: f64 = 1.0;
/// So many times likelier a cycle in time is that is not one in writes.
const CLOCK_GAIN: f64 = 1.2;
/// Writes that are more expensive than so large a part of all may be a little more expensive by rule.
const LITTLE: [f64; 2] = [0.85, 0.93];
/// Costs so many times above a level may be left out.
pub(crate) const FAR_ABOVE: f64 = 2.5;
/// At most so large a share of the writes is expensive, and at most so many are looked at.
const SHARE_MOST: f64 = 0.3;
const STALLS_MOST: usize = 2500;
/// Periods that are tried in each doubling.
const PER_OCTAVE: f64 = 15.0;
/// All writes, the last half of them, and the last quarter are looked at.
const HALVINGS: u32 = 3;
/// A window is at most this part of a period.
const WINDOW_PART: usize = 4;
/// The widest window.
const WIDEST: usize = 256;
/// So much likelier a period is that is once more divisible by two.
const ROUNDER: f64 = 1.5;
/// A period may be found as up to so many times itself; or as such a part of itself, where outliers are in most of the windows between.
/// A multiple of it is the period if it is so much likelier, in nats.
const PARTS_MOST: usize = 16;
const TIMES_MOST: usize = 3;
const MULTIPLE_GAIN: f64 = 9.0;

/// Stalls that come back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cycle {
    /// Writes from one window to the next.
    pub period: usize,
    /// The first write of a window, counted from the first write of all.
    pub phase: usize,
    /// Writes of a window.
    pub width: usize,
    /// The first write that was looked at.
    pub from: usize,
    /// How many writes that were.
    pub length: usize,
    /// How much likelier it is than none, in nats.
    pub gain: f64,
    /// Costs between these count as stalls.
    pub low: f64,
    pub high: f64,
}

impl Cycle {
    pub(crate) fn is_stall(&self, cost: f64) -> bool {
        cost > self.low && cost <= self.high
    }

    /// Costs, of which the first is the `begin`-th of the series, without the stalls in its windows but for those that are
    /// much more expensive. `usual` is put in their places, and `level` is what they take.
    pub(crate) fn without(&self, costs: &[f64], begin: usize, usual: f64, level: f64) -> Vec<f64> {
        let left = |(index, &cost): (usize, &f64)| {
            if self.covers(begin + index) && cost <= ANOTHER * level { cost.min(usual) } else { cost }
        };
        costs.iter().enumerate().map(left).collect()
    }

    /// The place of a write in its period, counted from the beginning of a window.
    fn place(&self, index: usize) -> usize {
        (index + self.period - self.phase % self.period) % self.period
    }

    /// Whether a write is in a window.
    pub(crate) fn covers(&self, index: usize) -> bool {
        self.place(index) < self.width
    }

    /// Whether it foretells the stalls of other costs, of which the first is the `begin`-th of the series: in how many
    /// windows there should be some, in how many there are, and how much likelier that is than by chance, in nats.
    pub(crate) fn foretells(&self, costs: &[f64], begin: usize) -> (usize, usize, f64) {
        let (mut windows, mut stalled, mut hit, mut inside, mut stalls) = (0, 0, false, 0, 0);
        let mut hits = 0;
        for (index, &cost) in costs.iter().enumerate() {
            let is_stall = self.is_stall(cost);
            stalls += usize::from(is_stall);
            if self.covers(begin + index) {
                inside += 1;
                hits += usize::from(is_stall);
                hit |= is_stall;
                // Only whole windows count.
                if self.place(begin + index) == self.width - 1 {
                    windows += 1;
                    stalled += usize::from(hit);
                    hit = false;
                }
            }
        }
        (windows, stalled, gain(hits, inside as f64, stalls, costs.len()))
    }

    /// This period, or the whole part of it, no shorter than `shortest`, that explains the stalls from `from` on best. What was
    /// found among few windows may be a multiple; among more of them it leaves most stalls without a window. It may be a part as
    /// well, where outliers were in the windows between: then a multiple explains the stalls much better.
    pub(crate) fn likeliest_period(self, costs: &[f64], from: usize, shortest: usize) -> Cycle {
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
        let part = likeliest((1..=PARTS_MOST).flat_map(near).filter(fits).collect());
        let times = |times: usize| self.period * times - times / 2..=self.period * times + times / 2;
        let multiple = likeliest((2..=TIMES_MOST).flat_map(times).collect())
            .filter(|multiple| part.is_some_and(|part| multiple.gain >= part.gain + MULTIPLE_GAIN));
        multiple.or(part).map_or(self, |likeliest| Cycle { low: self.low, high: self.high, ..likeliest })
    }

    /// The first write of the first window from which on windows have stalls, if there are some before it that have none but
    /// by chance. The number of stalls in a window is taken for a Poisson number. Those by chance are of another length than
    /// those of the cycle: where the window is, is told by how many longer and how many shorter ones there are.
    pub(crate) fn onset(&self, costs: &[f64]) -> Option<usize> {
        let covered =
            (self.from..costs.len()).filter(|&index| self.covers(index) && self.is_stall(costs[index]));
        let usual = median(&covered.map(|index| costs[index]).collect::<Vec<_>>());
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

    /// The same by whether windows have a stall, however many there are.
    pub(crate) fn onset_by_any(&self, costs: &[f64]) -> Option<usize> {
        let has = self.windows(costs).map(|window| window.iter().any(|&cost| self.is_stall(cost)));
        change_of_any(has).filter(|change| change.gain >= CHANGE_LEAST).map(|change| self.begin_of(change.at))
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

    /// The first write of a window.
    fn begin_of(&self, window: usize) -> usize {
        self.phase % self.period + window * self.period
    }

    /// What the writes of each window cost.
    fn windows<'a>(&self, costs: &'a [f64]) -> impl Iterator<Item = &'a [f64]> {
        let width = self.width;
        let begins = (self.begin_of(0)..costs.len()).step_by(self.period);
        begins.map(move |begin| &costs[begin..(begin + width).min(costs.len())])
    }
}

/// From which window on there are more stalls, and how much likelier that is than no change, in nats.
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

/// How much likelier it is that `hits` of `stalls` stalls among `all` writes are in `inside` of these writes because of
/// a rule than by chance; 0 if they are fewer than by chance.
fn gain(hits: usize, inside: f64, stalls: usize, all: usize) -> f64 {
    let (all, hits, stalls) = (all as f64, hits as f64, stalls as f64);
    let inside = inside.max(hits).max(1.0);
    let outside = (all - inside).max(stalls - hits).max(1.0);
    let share = stalls / all.max(1.0);
    if stalls == 0.0 || share >= 1.0 || hits / inside <= share {
        return 0.0;
    }
    inside * divergence(hits / inside, share) + outside * divergence((stalls - hits) / outside, share)
}

/// The cycles of several levels of costs, the likeliest first.
pub(crate) fn cycles(costs: &[f64]) -> Vec<Cycle> {
    let mut found: Vec<Cycle> = Vec::new();
    for halvings in 0..HALVINGS {
        let length = costs.len() >> halvings;
        if length < 64 {
            break;
        }
        let from = costs.len() - length;
        for (low, high) in levels(&costs[from..]) {
            found.extend(likeliest(costs, from, low, high));
        }
    }
    found.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    found
}

/// Costs over time instead of over writes: in each tick of the mean time of a write the most expensive one that begins in it.
/// `times` is what goes by with each.
fn over_time(costs: &[f64], times: &[f64]) -> Vec<f64> {
    let tick = (times.iter().sum::<f64>() / times.len().max(1) as f64).max(1.0);
    let mut ticks = vec![0.0_f64; times.len() + 1];
    let mut now = 0.0;
    for (cost, time) in costs.iter().zip(times) {
        let at = ((now / tick) as usize).min(ticks.len() - 1);
        ticks[at] = ticks[at].max(*cost);
        now += time;
    }
    ticks
}

/// Whether stalls come back by the clock rather than by what is written: then they are regular in time, and with jitter less
/// so in writes.
pub(crate) fn is_by_the_clock(cycle: &Cycle, costs: &[f64], times: &[f64]) -> bool {
    let of_time = cycles(&over_time(costs, times))
        .into_iter()
        .find(|of_time| (0.8..1.25).contains(&(of_time.period as f64 / cycle.period as f64)));
    of_time.is_some_and(|of_time| of_time.gain > CLOCK_GAIN * cycle.gain)
}

/// The levels between which costs may be stalls.
fn levels(costs: &[f64]) -> Vec<(f64, f64)> {
    let (least, expensive) = expensive(costs);
    if expensive.len() < PERIODS_MIN {
        return Vec::new();
    }
    let lows = [least, quantile(&expensive, 0.3), quantile(&expensive, 0.6), quantile(&expensive, 0.85)];
    let mut levels: Vec<(f64, f64)> =
        lows.into_iter().flat_map(|low| [(low, f64::INFINITY), (low, FAR_ABOVE * low)]).collect();
    // Work that is done by and by makes many writes a little more expensive.
    levels.extend(LITTLE.map(|share| (quantile(costs, share), least.max(quantile(costs, 0.97)))));
    levels
}

/// The likeliest cycle of the stalls between two levels from a write on.
fn likeliest(costs: &[f64], from: usize, low: f64, high: f64) -> Option<Cycle> {
    let stalls: Vec<usize> =
        (from..costs.len()).filter(|&index| costs[index] > low && costs[index] <= high).collect();
    let length = costs.len() - from;
    if stalls.len() < PERIODS_MIN
        || stalls.len() > STALLS_MOST
        || stalls.len() as f64 > SHARE_MOST * length as f64
    {
        return None;
    }
    let fold = Fold { stalls: &stalls, from, length };
    let candidates = distances(&stalls, length / PERIODS_MIN);
    let best = candidates
        .into_iter()
        .filter_map(|period| fold.best(period))
        .max_by(|a, b| a.gain.total_cmp(&b.gain))?;
    let near = best.width.clamp(2, best.period / 2 + 1).min(32);
    let best = (best.period.saturating_sub(near).max(2)..=best.period + near)
        .filter_map(|period| fold.best(period))
        .max_by(|a, b| rounded(a).total_cmp(&rounded(b)))?;
    (best.gain >= GAIN_LEAST + 2.0 * (length as f64).ln()).then_some(Cycle { low, high, ..best })
}

/// How likely a cycle is, with what is likelier of a period that is divisible by two.
fn rounded(cycle: &Cycle) -> f64 {
    cycle.gain + ROUNDER * f64::from(cycle.period.trailing_zeros())
}

/// The distances at which most stalls follow each other, some in each doubling.
fn distances(stalls: &[usize], longest: usize) -> Vec<usize> {
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

/// Stalls to be folded.
struct Fold<'a> {
    stalls: &'a [usize],
    from: usize,
    length: usize,
}

impl Fold<'_> {
    /// The likeliest windows of a period, if nearly all of them have stalls.
    fn best(&self, period: usize) -> Option<Cycle> {
        self.likeliest_windows(period).filter(|cycle| self.complete(cycle))
    }

    /// The likeliest windows of a period.
    fn likeliest_windows(&self, period: usize) -> Option<Cycle> {
        if period < 2 || self.length < PERIODS_MIN * period {
            return None;
        }
        let mut counts = vec![0u32; period];
        self.stalls.iter().for_each(|stall| counts[stall % period] += 1);
        let all = self.length as f64;
        let widths = (0..).map(|doublings| 1usize << doublings);
        let mut best: Option<Cycle> = None;
        for width in
            widths.take_while(|&width| width <= WIDEST && (width == 1 || width <= period / WINDOW_PART))
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
        windows.len() >= PERIODS_MIN && windows.len() as f64 >= COMPLETE * expected as f64
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

/// The median of the costs that count as stalls of a cycle.
pub(crate) fn level(cycle: &Cycle, costs: &[f64]) -> f64 {
    median(&costs[cycle.from..].iter().copied().filter(|&cost| cycle.is_stall(cost)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
