//! Computes the fixed cost of an IO, and the growth of the throughput with the size.
//!
//! # Model
//! A doubling that adds less than 2.5 % is saturation (Ajwani et al., appendix A). The fixed cost A of T = A + nB (El
//! Maghraoui et al., section 4) is defined by the medians of five sizes and least squares of relative deviations. It
//! is often a small part of the shortest time.
//!
//! # Method
//! 1. If the sizes of the definition lie on one line, and smaller sizes as well, the smallest ones show A best: it is
//!    most of their time. Bends that are too small to be seen make A less exact.
//! 2. Response times scatter in proportion. So the variance of A = sum of c T is least if each size has time in
//!    proportion to |c| T^1.5. Most of it goes to the smallest size and to one a few times as large. All sizes have
//!    some time, to show whether they lie on a line.
//! 3. The work of a device while the host is late does not delay the next IO. So A lies between the cost with pauses
//!    and without. The answer is the most probable value between the two. With pauses A is less exact, as a pause is
//!    longer than a host is late.
//!
//! # Invariants
//! - At least three sizes of the definition are measured.

use flashlab_base::Bytes;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::thresholds;
use flashlab_analysis::decide::level::centre;
use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::decide::weighted_line::{WeightedLine, WeightedPoint, weighted_line, weights};

/// The smallest of the sizes that define the line; the others are its doublings. El Maghraoui et al., section
/// 4, define A by such a line. Source: the definition in docs/infer.md. Too small: requests of part of a page
/// bend the line; too large: too few sizes are left.
pub const LINE_FROM: Bytes = Bytes::kib(64);
/// The largest of the sizes that define the line. Source: the definition in docs/infer.md. Too small: too few
/// sizes are left; too large: A is a small part of the time.
pub const LINE_TO: Bytes = Bytes::mib(1);
/// The pause after an IO, as a share of its response time. It lets the device complete what the IO left.
/// Unit: share. Source: tuned. Too long: the probe takes longer; too short: the next IO waits for the one
/// before.
pub const PAUSE_SHARE: f64 = 0.2;
/// Sizes are on a line if deviations as large as theirs have more than this probability. Unit: probability.
/// Source: tuned. Too high: lines are refused, so that A is less exact; too low: bent curves count as lines.
const LINE_CHANCE_LEAST: f64 = 0.03;
/// A smaller size is on the line of the larger ones if the sum of squares grows by less. Unit: squared
/// standard errors. Source: tuned, between two and three standard errors. Too high: bends make A wrong; too
/// low: the smallest sizes, which show A best, do not count.
const LONGER_COST_MOST: f64 = 6.0;
/// The error of each size on a line that looks straight, as a share of its time. It widens A's interval.
/// Unit: share. Source: tuned. Too high: the line is no more exact than the definition's sizes; too low:
/// bends too small to be seen make A wrong.
const LINE_ERROR: f64 = 0.002;
/// The share of the time that all sizes have alike. Unit: share. Source: choice. Too high: the sizes that
/// show A best have too little time; too low: nothing shows whether the sizes are on a line.
const EVEN_SHARE: f64 = 0.3;
/// The error of A for reads without pauses and with them, as a share of the difference between the two.
/// Devices read ahead in pauses. Writes have no such error. Unit: share. Source: tuned. Too high: the
/// confidence of the answer is too low; too low: it is too high.
pub const READS_OFF: [f64; 2] = [0.1, 0.3];
/// A line counts if its error is at most this many times that of the other line. Unit: ratio. Source: tuned.
/// Too high: a vague line widens the range between the two; too low: a useful line is left out.
const ERROR_RATIO_MOST: f64 = 4.0;
/// The steps between the two lines at which the probability of A is computed. Unit: steps. Source: choice.
/// Too many: the search takes longer; too few: A is off by a part of a step.
const STEPS_BETWEEN: u32 = 64;

/// Which sizes show the constant part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOf {
    /// All sizes of the definition, whether or not they lie on a line.
    Definition,
    /// Sizes that lie on a line.
    Line,
    /// A part of the sizes of the definition, which lie on no line.
    Part,
}

/// IOs of one size, one after the other.
pub struct SizeCurve {
    /// The size of each IO.
    pub size: Bytes,
    /// In nanoseconds.
    pub times: Vec<f64>,
}

impl SizeCurve {
    /// No IOs yet.
    pub fn new(size: Bytes) -> SizeCurve {
        SizeCurve { size, times: Vec::new() }
    }

    /// The median time, once there are enough for its error.
    pub fn point(&self) -> Option<WeightedPoint> {
        let time = centre(&self.times, 0.95)?;
        let error = ((time.high - time.low) / 4.0).max(1e-6 * time.estimate);
        (time.estimate > 0.0).then_some(WeightedPoint { x: self.size.0 as f64, y: time.estimate, error })
    }
}

/// By how much the throughput grows from one size to another, with the interval that holds it with 99 %.
pub fn growth(small: &WeightedPoint, large: &WeightedPoint) -> Interval {
    let estimate = large.x / small.x * small.y / large.y;
    let half = 2.6 * estimate * (small.error / small.y).hypot(large.error / large.y);
    Interval { estimate, low: estimate - half, high: estimate + half }
}

/// The line that shows A.
#[derive(Clone, Copy, Debug)]
pub struct LineFit {
    /// The smallest of the sizes, as an index.
    pub from: usize,
    /// The largest.
    pub to: usize,
    /// The line.
    pub line: WeightedLine,
    /// Whether they lie on one; if not, it is that of the definition.
    pub is_line: bool,
}

/// The line that shows A best once `times` as many IOs were done: that of the definition, or a longer one if it
/// is more exact. With `smaller`, sizes below those of the definition may be on it. None of fewer than three
/// sizes of the definition.
pub fn fit(points: &[WeightedPoint], smaller: bool, times: f64) -> Option<LineFit> {
    let first = points.iter().position(|point| point.x >= LINE_FROM.0 as f64)?;
    let to = points.iter().rposition(|point| point.x <= LINE_TO.0 as f64)?;
    let line = weighted_line(points.get(first..=to)?, |point| point.y)?;
    let defined = LineFit { from: first, to, line, is_line: false };
    let by_error = |from: usize| weighted_line(points.get(from..=to)?, |point| point.error);
    let Some(mut line) = by_error(first).filter(|line| line.chance > LINE_CHANCE_LEAST && line.slope > 0.0)
    else {
        return Some(defined);
    };
    let mut from = first;
    while smaller && from > 0 {
        let longer = by_error(from - 1);
        let is_on = |longer: &WeightedLine| longer.deviations - line.deviations < LONGER_COST_MOST;
        match longer.filter(is_on) {
            Some(longer) => (from, line) = (from - 1, longer),
            None => break,
        }
    }
    let off =
        |point: &WeightedPoint| WeightedPoint { error: point.error.hypot(LINE_ERROR * point.y), ..*point };
    let points: Vec<WeightedPoint> = points[from..=to].iter().map(off).collect();
    let line = LineFit { from, to, line: weighted_line(&points, |point| point.error)?, is_line: true };
    let is_exact = defined.half_width() <= line.half_width() * times.max(1.0).sqrt();
    Some(if is_exact { defined } else { line })
}

impl LineFit {
    /// Which shares of the time show A best, for each size; they add up to 1.
    pub fn shares(&self, points: &[WeightedPoint]) -> Vec<f64> {
        let sizes = &points[self.from..=self.to];
        let spent = |part: f64, point: &WeightedPoint| part.abs() * point.y.powf(1.5);
        let best: Vec<f64> = if self.is_line {
            // The first size and another one: which one follows from what it takes.
            let first = &sizes[0];
            let of_two = |other: &WeightedPoint| {
                let apart = other.x - first.x;
                [spent(other.x / apart, first), spent(first.x / apart, other)]
            };
            let all = (1..sizes.len()).map(|index| (index, of_two(&sizes[index])));
            let least = all.min_by(|(_, a), (_, b)| (a[0] + a[1]).total_cmp(&(b[0] + b[1])));
            let mut shares = vec![0.0; sizes.len()];
            if let Some((index, [one, other])) = least {
                (shares[0], shares[index]) = (one, other);
            }
            shares
        } else {
            let parts = weights(sizes, |point| point.y, 0.0).unwrap_or_default();
            parts.iter().zip(sizes).map(|(&part, point)| spent(part, point)).collect()
        };
        let all: f64 = best.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let even = EVEN_SHARE / sizes.len() as f64;
        let mut shares = vec![0.0; points.len()];
        for (share, best) in shares[self.from..=self.to].iter_mut().zip(best) {
            *share = even + (1.0 - EVEN_SHARE) * best / all;
        }
        shares
    }

    /// How large half of A's interval of 95 % is, relative to A.
    pub fn half_width(&self) -> f64 {
        let Interval { estimate, low, high } = self.line.intercept;
        if estimate > 0.0 { (high - low) / 2.0 / estimate } else { f64::INFINITY }
    }

    /// The same relative to the most that A may be.
    pub fn half_width_at_least(&self) -> f64 {
        let Interval { low, high, .. } = self.line.intercept;
        if high > 0.0 { (high - low) / 2.0 / high } else { f64::INFINITY }
    }
}

/// The line of IOs of one kind, with its points.
#[derive(Clone, Debug)]
pub struct FittedLine {
    points: Vec<WeightedPoint>,
    fit: LineFit,
}

impl FittedLine {
    /// The line of these; `smaller` as for [`fit`]. None of too few sizes.
    fn of(points: Vec<WeightedPoint>, smaller: bool) -> Option<FittedLine> {
        let fit = fit(&points, smaller, 1.0)?;
        Some(FittedLine { points, fit })
    }

    /// Which sizes show it.
    pub fn line_of(&self) -> LineOf {
        match self.fit.is_line {
            true => LineOf::Line,
            false if self.points[self.fit.to].x == LINE_TO.0 as f64 => LineOf::Definition,
            false => LineOf::Part,
        }
    }

    /// Sizes and median times.
    pub fn times(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().map(|point| (point.x, point.y))
    }

    /// Where the line begins.
    pub fn begins_at(&self) -> f64 {
        self.fit.line.intercept.estimate
    }

    /// What a byte more takes on it.
    pub fn slope(&self) -> f64 {
        self.fit.line.slope
    }

    /// The line in words, as a clause.
    pub fn words(&self) -> String {
        let Interval { estimate, low, high } = self.fit.line.intercept;
        format!(
            "a line through the medians of {} to {} begins at {:.1} us (95 % interval: {:.1} to {:.1} us)",
            Bytes(self.points[self.fit.from].x as u64),
            Bytes(self.points[self.fit.to].x as u64),
            estimate / 1e3,
            low / 1e3,
            high / 1e3
        )
    }
}

/// IOs with pauses, or without.
pub struct IoKind {
    /// After each IO, as a share of what it takes.
    pub pause: f64,
    /// The IOs of each size, in ascending order of sizes.
    pub curves: Vec<SizeCurve>,
    /// Whether sizes below the definition's may show A.
    pub smaller: bool,
    /// For each size: how many reads are due, or what its writes had of the time.
    pub budget: Vec<f64>,
}

impl IoKind {
    /// The medians that are known, of the smallest sizes on.
    pub fn points(&self) -> Vec<WeightedPoint> {
        self.curves.iter().map_while(SizeCurve::point).collect()
    }

    fn line(&self) -> Option<FittedLine> {
        FittedLine::of(self.points(), self.smaller)
    }
}

/// The lines of IOs without pauses and with them.
pub fn lines(kinds: &[IoKind]) -> [Option<FittedLine>; 2] {
    [false, true].map(|is| kinds.iter().find(|kind| (kind.pause > 0.0) == is).and_then(IoKind::line))
}

/// What the lines of IOs without pauses and with them show of A, and the chance that it is right. Where there are both, each has an
/// additional error, `off`, as a share of the difference between them.
pub fn between(
    plain: Option<&FittedLine>,
    paused: Option<&FittedLine>,
    off: Option<[f64; 2]>,
) -> Option<(f64, f64)> {
    let known = |line: &FittedLine| {
        let Interval { estimate, low, high } = line.fit.line.intercept;
        (estimate, (high - low) / 4.0)
    };
    let (mut plain, mut paused) = (plain.map(known), paused.map(known));
    if let (Some((one, error)), Some((other, other_error)), Some(off)) = (&mut plain, &mut paused, off) {
        let apart = ((*one - *other).powi(2) - error.powi(2) - other_error.powi(2)).max(0.0).sqrt();
        *error = error.hypot(off[0] * apart);
        *other_error = other_error.hypot(off[1] * apart);
    }
    // The range is no wider because one end of it is hardly known.
    if let (Some((_, error)), Some((_, other_error))) = (plain, paused) {
        plain = plain.filter(|_| error <= ERROR_RATIO_MOST * other_error);
        paused = paused.filter(|_| other_error <= ERROR_RATIO_MOST * error);
    }
    let all: Vec<(f64, f64)> = plain.into_iter().chain(paused).collect();
    let (&(first, _), &(last, _)) = (all.first()?, all.last()?);
    let below = |figure: f64, (estimate, error): (f64, f64)| {
        Normal::standard().cdf((figure - estimate) / error.max(f64::MIN_POSITIVE))
    };
    // It is wrong where all are below it, or all above it.
    let chance = |figure: f64| {
        let over: f64 = all.iter().map(|&known| below(figure / (1.0 + thresholds::RIGHT), known)).product();
        let under: f64 =
            all.iter().map(|&known| 1.0 - below(figure / (1.0 - thresholds::RIGHT), known)).product();
        (figure, if figure > 0.0 { 1.0 - over - under } else { 0.0 })
    };
    let figures =
        (0..=STEPS_BETWEEN).map(|step| first + (last - first) * f64::from(step) / f64::from(STEPS_BETWEEN));
    figures.map(chance).max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Sizes from 4 KiB on, as many doublings of it, in microseconds, each known to a hundredth.
    pub fn points_of(doublings: i32, time: impl Fn(f64) -> f64) -> Vec<WeightedPoint> {
        let point = |power: i32| {
            let x = 2.0_f64.powi(power);
            WeightedPoint { x, y: time(x / 1024.0), error: 0.01 * time(x / 1024.0) }
        };
        (12..=12 + doublings).map(point).collect()
    }

    fn points(time: impl Fn(f64) -> f64) -> Vec<WeightedPoint> {
        points_of(10, time)
    }

    #[test]
    fn growth_is_of_throughput() {
        let point = |x, y| WeightedPoint { x, y, error: 1e-6 };
        let estimate = |small, large| growth(&small, &large).estimate;
        assert!((estimate(point(4096.0, 10.0), point(8192.0, 10.0)) - 2.0).abs() < 1e-9);
        assert!((estimate(point(4096.0, 10.0), point(8192.0, 20.0)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_line_is_as_long_as_it_is_one() {
        let line = points(|kib| 100.0 + kib.max(16.0));
        let LineFit { from, to, line, is_line } = fit(&line, true, 1.0).unwrap();
        assert_eq!((from, to, is_line), (2, 8, true));
        assert!((line.intercept.estimate - 100.0).abs() < 1e-6, "{line:?}");
        let alone = fit(&points(|kib| 100.0 + kib), false, 1.0).unwrap();
        // Of the same sizes it is the definition that counts.
        assert_eq!((alone.from, alone.is_line), (4, false));
        let bent = fit(&points(|kib| 100.0 + kib.max(200.0)), true, 1.0).unwrap();
        assert_eq!((bent.from, bent.is_line), (4, false));
    }

    #[test]
    fn what_late_hosts_change_leaves_room_between() {
        let line = |estimate: f64, error: f64| {
            let intercept = Interval { estimate, low: estimate - 2.0 * error, high: estimate + 2.0 * error };
            let line = WeightedLine { intercept, slope: 1.0, deviations: 0.0, chance: 1.0 };
            FittedLine { points: Vec::new(), fit: LineFit { from: 0, to: 0, line, is_line: false } }
        };
        let says = |plain: Option<FittedLine>, paused: Option<FittedLine>| {
            between(plain.as_ref(), paused.as_ref(), Some(READS_OFF)).unwrap()
        };
        // Alone it has to be within 3 %, which are this many standard errors.
        let (alone, chance) = says(Some(line(100.0, 3.0)), None);
        assert!(alone == 100.0 && (chance - 0.68).abs() < 0.02, "{chance}");
        // Between two that differ a lot, the answer is rather that without pauses.
        let (figure, chance) = says(Some(line(60.0, 3.0)), Some(line(100.0, 3.0)));
        assert!((62.0..80.0).contains(&figure) && chance > 0.95, "{figure} {chance}");
        // What is known exactly counts where the other is not.
        let (figure, _) = says(Some(line(60.0, 60.0)), Some(line(100.0, 1.0)));
        assert!((95.0..=100.0).contains(&figure), "{figure}");
        // Two that agree show more than one.
        assert!(says(Some(line(100.0, 3.0)), Some(line(100.0, 3.0))).1 > 0.7);
    }

    #[test]
    fn time_goes_to_what_shows_the_cost() {
        let points = points(|kib| 10.0 + kib);
        let shares = fit(&points, true, 1.0).unwrap().shares(&points);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        // The smallest, and one that is some times as large; the others alike.
        let large: Vec<usize> = (0..shares.len()).filter(|&index| shares[index] > 0.2).collect();
        assert!(matches!(large[..], [0, 2..=5]) && shares[9..] == [0.0, 0.0], "{shares:?}");
    }
}
