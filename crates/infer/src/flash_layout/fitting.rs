//! Finds the times of a model with which the measured response times are most likely.
//!
//! # Model
//! Response times scatter by a factor, and some are outliers. So a deviation costs at most [`LOSS_CAP`].
//!
//! # Method
//! 1. Levenberg and Marquardt's steps descend from the best of several starts.
//! 2. A capped deviation has no slope. So the descent begins with a wide scatter, which caps few deviations, and
//!    narrows it.
//! 3. Losses only add up: a replay ends once its loss exceeds the best known one.
//!
//! # Invariants
//! - All times stay at 0 or above.

use std::mem::swap;
use std::ops::ControlFlow;

use crate::signals::statistics::deviation;
use flashlab_analysis::inference::TimedIo as Io;

/// Command, sense or program of a row, transfer of a page, a page on the link, in nanoseconds.
pub type LayoutTimes = [f64; 4];

/// Which of the [`LayoutTimes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayoutTime {
    /// The command, with the transport.
    Command,
    /// Sensing a multi-plane page, or programming it.
    Array,
    /// The transfer of a page between its die and the controller.
    Transfer,
    /// A page on the link to the host.
    Link,
}

/// The floor of the scatter of response times: no model of four times is more exact. Unit: natural logarithm.
/// Source: tuned. Too high: layouts that differ little stay undecided; too low: the error of the model
/// decides on devices without noise.
pub const SCATTER_LEAST: f64 = 0.02;

/// The most that one deviation costs in log-likelihood: three standard deviations. Unit: natural logarithm.
/// Source: derivation: 3 squared, halved. Too high: outliers of the host decide; too low: IOs that refute a
/// layout do not count.
const LOSS_CAP: f64 = 4.5;
/// The fit multiplies the scatter by each of these. With a wide scatter, few deviations are capped, and the
/// descent has a direction. Unit: ratio. Source: choice: halvings. Too many: the search takes longer; too
/// few: the descent ends where half of the IOs are capped.
const SCATTER_WIDTHS: [f64; 3] = [4.0, 2.0, 1.0];
/// The most steps of a descent at each width. Unit: steps. Source: choice. Too many: the search takes longer;
/// too few: the best times are not reached.
const STEPS_MOST: usize = 6;
/// The least gain of a step that is followed by another one. Unit: natural logarithm. Source: choice. Too
/// high: the descent ends early; too low: the search takes longer.
const STEP_GAIN: f64 = 0.02;
/// The same as a share of the loss. Unit: share. Source: choice. Too high: the descent ends early; too low:
/// the search takes longer.
const STEP_GAIN_SHARE: f64 = 5e-4;
/// The step by which the slope of the prior is computed, as a share of the sum of all times. Unit: share.
/// Source: derivation: between the rounding of floats and the curvature. Too high: the slope is that of a
/// chord; too low: it is rounding.
const SLOPE_STEP: f64 = 1e-3;
/// A layout is given up before the last width if its loss is this many times that of the best layout, and 20
/// more. Unit: ratio. Source: tuned. Too high: the search takes longer; too low: the right layout is given up
/// after a bad start.
const HOPELESS_RATIO: f64 = 1.6;

/// A moment as the model has it.
pub(crate) trait Moment: Copy {
    /// A moment that is known.
    fn at(nanos: f64) -> Self;
    /// `factor` times one of the unknown times later.
    fn plus(self, times: &LayoutTimes, time: LayoutTime, factor: f64) -> Self;
    fn later(self, other: Self) -> Self;
    fn nanos(self) -> f64;
    /// How much later it is than another.
    fn since(self, other: Self) -> Self;
    /// As much later as that.
    fn and(self, other: Self) -> Self;
}

impl Moment for f64 {
    fn at(nanos: f64) -> f64 {
        nanos
    }
    #[inline]
    fn plus(self, times: &LayoutTimes, time: LayoutTime, factor: f64) -> f64 {
        self + times[time as usize] * factor
    }
    #[inline]
    fn later(self, other: f64) -> f64 {
        if other > self { other } else { self }
    }
    #[inline]
    fn nanos(self) -> f64 {
        self
    }
    #[inline]
    fn since(self, other: f64) -> f64 {
        self - other
    }
    #[inline]
    fn and(self, other: f64) -> f64 {
        self + other
    }
}

/// A moment, and by how much it moves with each of the times.
#[derive(Clone, Copy)]
pub(crate) struct Moving {
    nanos: f64,
    by: LayoutTimes,
}

impl Moment for Moving {
    fn at(nanos: f64) -> Moving {
        Moving { nanos, by: [0.0; 4] }
    }
    #[inline]
    fn plus(mut self, times: &LayoutTimes, time: LayoutTime, factor: f64) -> Moving {
        self.nanos += times[time as usize] * factor;
        self.by[time as usize] += factor;
        self
    }
    #[inline]
    fn later(self, other: Moving) -> Moving {
        // Element by element, as no branch can predict which it is.
        let is = other.nanos > self.nanos;
        let of = |one: f64, other: f64| if is { other } else { one };
        Moving {
            nanos: of(self.nanos, other.nanos),
            by: std::array::from_fn(|index| of(self.by[index], other.by[index])),
        }
    }
    #[inline]
    fn nanos(self) -> f64 {
        self.nanos
    }
    #[inline]
    fn since(self, other: Moving) -> Moving {
        Moving {
            nanos: self.nanos - other.nanos,
            by: std::array::from_fn(|index| self.by[index] - other.by[index]),
        }
    }
    #[inline]
    fn and(self, other: Moving) -> Moving {
        Moving {
            nanos: self.nanos + other.nanos,
            by: std::array::from_fn(|index| self.by[index] + other.by[index]),
        }
    }
}

/// What IOs take, by four times.
pub(crate) trait IoModel {
    /// By how much the logarithms of response times scatter.
    fn sigma(&self) -> f64;

    /// When each IO is done with these times, until enough is known.
    fn replay<M: Moment>(&self, times: &LayoutTimes, tell: impl FnMut(&Io, M) -> ControlFlow<()>);

    /// What each IO takes with these times.
    fn predict(&self, times: &LayoutTimes, mut tell: impl FnMut(&Io, f64)) {
        self.replay(times, |io, done: f64| {
            tell(io, done - io.at);
            ControlFlow::Continue(())
        });
    }

    /// By how much the logarithms scatter about what the model says.
    fn scatter(&self, times: &LayoutTimes) -> f64 {
        let mut all = Vec::new();
        self.predict(times, |io, nanos| all.push(io.weight * (io.nanos / nanos.max(1.0)).ln()));
        deviation(&all, 0.0)
    }

    /// How unlikely the IOs are with these times.
    fn loss(&self, times: &LayoutTimes) -> f64 {
        self.loss_at(times, self.sigma(), (0.0, f64::INFINITY), &mut Vec::new())
    }

    /// The same where they scatter by `sigma`, with what is unlikely `beside`; where that is `most` or more, anything that is as
    /// well. Leaves by how much each of the IOs is `off`.
    fn loss_at(
        &self,
        times: &LayoutTimes,
        sigma: f64,
        (beside, most): (f64, f64),
        off: &mut Vec<f64>,
    ) -> f64 {
        let scatter = Scatter::new(sigma);
        let mut sum = 0.0;
        off.clear();
        self.replay(times, |io, done: f64| {
            let deviation = io.weight * scatter.deviation(io.nanos, done - io.at);
            off.push(deviation);
            sum += loss(deviation);
            if sum + beside < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        sum + beside
    }

    /// The times that make the IOs most likely, from the best of some starts on, and how unlikely they are then:
    /// Levenberg and Marquardt's steps, in which deviations that are capped do not count.
    /// Only the times `free` are fitted. `unusual` says how unlikely times are before. What is hopelessly worse than
    /// `good` is given up.
    fn fit(
        &self,
        starts: &[LayoutTimes],
        free: &[usize],
        good: f64,
        unusual: &dyn Fn(&LayoutTimes) -> f64,
    ) -> (LayoutTimes, f64) {
        let sigma = |width: f64| self.sigma() * width;
        let (mut off, mut tried) = (Vec::new(), Vec::new());
        let (mut times, mut least) = ([0.0; 4], f64::INFINITY);
        for start in starts {
            let loss = self.loss_at(start, sigma(SCATTER_WIDTHS[0]), (0.0, least), &mut tried);
            if loss < least {
                (times, least) = (*start, loss);
                swap(&mut off, &mut tried);
            }
        }
        for width in SCATTER_WIDTHS {
            if width < SCATTER_WIDTHS[0] {
                least = self.loss_at(&times, sigma(width), (0.0, f64::INFINITY), &mut off);
            }
            if width == 1.0 && least > HOPELESS_RATIO * good + 20.0 {
                return (times, least + unusual(&times));
            }
            let from = (times, least, &mut off);
            (times, least) = self.descend(from, free, width, unusual);
        }
        (times, least)
    }

    /// Goes to more likely times, with deviations divided by `width`. It begins at times with the loss `loss`, by which each IO deviates
    /// as in `off`. It returns the times and their loss, with what `unusual` says of them.
    fn descend(
        &self,
        (mut times, loss, off): (LayoutTimes, f64, &mut Vec<f64>),
        free: &[usize],
        width: f64,
        unusual: &dyn Fn(&LayoutTimes) -> f64,
    ) -> (LayoutTimes, f64) {
        let sigma = self.sigma() * width;
        let before = |times: &LayoutTimes| unusual(times) / (width * width);
        let (mut least, mut damping) = (loss + before(&times), 0.01);
        let (mut pull, mut off_then) = (None, Vec::new());
        for _ in 0..STEPS_MOST {
            let scale = times.iter().sum::<f64>().max(1.0);
            let (matrix, right) = *pull.get_or_insert_with(|| self.pull(&times, sigma, off));
            let mut equations: [[f64; 5]; 4] = std::array::from_fn(|i| {
                std::array::from_fn(|j| if j < 4 { matrix[i][j] * scale * scale } else { right[i] * scale })
            });
            for (i, row) in equations.iter_mut().enumerate() {
                if !free.contains(&i) {
                    *row = [0.0; 5];
                    row[i] = 1.0;
                    continue;
                }
                // What is usual pulls as well, as the square of a logarithm.
                let side = scale * SLOPE_STEP;
                let moved = |by: f64| {
                    let mut moved = times;
                    moved[i] = (moved[i] + by).max(0.0);
                    before(&moved)
                };
                let slope = (moved(side) - moved(-side)) / (2.0 * side) * scale;
                row[4] -= slope;
                row[i] = row[i] * (1.0 + damping) + 1e-9 + slope.abs() * scale / times[i].max(scale * 0.01);
            }
            let change = solved(equations);
            let tried: LayoutTimes = std::array::from_fn(|i| (times[i] + change[i] * scale).max(0.0));
            let sum = self.loss_at(&tried, sigma, (before(&tried), least), &mut off_then);
            if sum < least {
                let gain = least - sum;
                (times, least, damping, pull) = (tried, sum, damping / 4.0, None);
                swap(off, &mut off_then);
                if gain < STEP_GAIN.max(STEP_GAIN_SHARE * sum) {
                    break;
                }
            } else {
                damping *= 8.0;
            }
        }
        (times, least)
    }

    /// Gauss and Newton's equations: where the deviations pull the times.
    fn pull(&self, times: &LayoutTimes, sigma: f64, off: &[f64]) -> ([LayoutTimes; 4], LayoutTimes) {
        let (mut matrix, mut right) = ([[0.0; 4]; 4], [0.0; 4]);
        let mut off = off.iter();
        self.replay(times, |io, done: Moving| {
            let Some(&deviation) = off.next() else { return ControlFlow::Break(()) };
            if loss(deviation) < LOSS_CAP {
                let nanos = (done.nanos - io.at).max(1.0);
                let each = io.weight / (nanos * sigma);
                let slopes = done.by.map(|by| by * each);
                for i in 0..4 {
                    for j in i..4 {
                        matrix[i][j] += slopes[i] * slopes[j];
                    }
                    right[i] += slopes[i] * deviation;
                }
            }
            ControlFlow::Continue(())
        });
        (std::array::from_fn(|i| std::array::from_fn(|j| matrix[i.min(j)][i.max(j)])), right)
    }
}

/// How logarithms scatter.
struct Scatter {
    /// This many standard deviations is a logarithm of one.
    each: f64,
    /// The factor from which on a deviation is capped.
    capped: f64,
}

impl Scatter {
    fn new(sigma: f64) -> Scatter {
        Scatter { each: 1.0 / sigma, capped: ((2.0 * LOSS_CAP).sqrt() * sigma).exp() }
    }

    /// By how many standard deviations what an IO took is off; what is capped needs no logarithm.
    #[inline]
    fn deviation(&self, took: f64, said: f64) -> f64 {
        let said = said.max(1.0);
        let is_capped = took >= said * self.capped || took * self.capped <= said;
        if is_capped { f64::INFINITY } else { (took / said).ln() * self.each }
    }
}

fn loss(deviation: f64) -> f64 {
    (deviation * deviation / 2.0).min(LOSS_CAP)
}

/// Gauss's elimination; the last column is the right side.
fn solved(mut matrix: [[f64; 5]; 4]) -> LayoutTimes {
    for i in 0..4 {
        let pivot = (i..4).max_by(|&a, &b| matrix[a][i].abs().total_cmp(&matrix[b][i].abs())).unwrap_or(i);
        matrix.swap(i, pivot);
        let row = matrix[i];
        for other in matrix.iter_mut().skip(i + 1) {
            let factor = if row[i] == 0.0 { 0.0 } else { other[i] / row[i] };
            other.iter_mut().zip(&row).for_each(|(value, of_row)| *value -= factor * of_row);
        }
    }
    let mut step = [0.0; 4];
    for i in (0..4).rev() {
        let rest: f64 = (i + 1..4).map(|j| matrix[i][j] * step[j]).sum();
        step[i] = if matrix[i][i] == 0.0 { 0.0 } else { (matrix[i][4] - rest) / matrix[i][i] };
    }
    step
}
