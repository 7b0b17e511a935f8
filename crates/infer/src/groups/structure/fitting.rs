//! The times with which a model of IOs makes what was measured most likely.
//!
//! # Model
//! Response times scatter by a factor, some are off for other reasons, so that a deviation counts no more than [`CAP`]. What
//! is capped pulls nowhere: so deviations are taken for smaller ones first, or a descent ends where half of the IOs are far
//! off.

use super::replay::Io;
use crate::groups::figures::deviation;

/// Command, sense or program of a row, transfer of a page, a page on the link, in nanoseconds.
pub(crate) type Times = [f64; 4];
pub(crate) const COMMAND: usize = 0;
pub(crate) const SENSE: usize = 1;
pub(crate) const TRANSFER: usize = 2;
pub(crate) const LINK: usize = 3;

/// Less scatter is not believed: no model of four times is more exact, and of a device without noise it is the model that errs.
pub(crate) const SIGMA_MIN: f64 = 0.02;

/// The most that a deviation counts, as the logarithm of a likelihood: three standard deviations.
const CAP: f64 = 4.5;
/// Deviations are taken for so many times smaller at first, so that few of them are capped.
const WIDTHS: [f64; 3] = [4.0, 2.0, 1.0];
/// The most steps at each width, and what a step gains at least, and of what there is to gain.
const STEPS: usize = 6;
const GAIN: f64 = 0.02;
const GAIN_SHARE: f64 = 5e-4;
/// How far times are moved to see how usual they are beside, relative to all of them.
const SIDE: f64 = 1e-3;
/// What is so many times less likely than a good fit is given up before the last width.
const HOPELESS: f64 = 1.6;

/// A moment as the model has it.
pub(crate) trait Moment: Copy {
    /// A moment that is known.
    fn at(nanos: f64) -> Self;
    /// So many times the `index`-th of the unknown times later.
    fn plus(self, times: &Times, index: usize, factor: f64) -> Self;
    fn later(self, other: Self) -> Self;
}

impl Moment for f64 {
    fn at(nanos: f64) -> f64 {
        nanos
    }
    #[inline]
    fn plus(self, times: &Times, index: usize, factor: f64) -> f64 {
        self + times[index] * factor
    }
    #[inline]
    fn later(self, other: f64) -> f64 {
        self.max(other)
    }
}

/// A moment, and by how much it moves with each of the times.
#[derive(Clone, Copy)]
pub(crate) struct Moving {
    nanos: f64,
    by: Times,
}

impl Moment for Moving {
    fn at(nanos: f64) -> Moving {
        Moving { nanos, by: [0.0; 4] }
    }
    #[inline]
    fn plus(mut self, times: &Times, index: usize, factor: f64) -> Moving {
        self.nanos += times[index] * factor;
        self.by[index] += factor;
        self
    }
    #[inline]
    fn later(self, other: Moving) -> Moving {
        if other.nanos > self.nanos { other } else { self }
    }
}

/// What IOs take, by four times.
pub(crate) trait Model {
    /// By how much the logarithms of response times scatter.
    fn sigma(&self) -> f64;

    /// When each IO is done with these times.
    fn replay<M: Moment>(&self, times: &Times, tell: impl FnMut(&Io, M));

    /// What each IO takes with these times.
    fn predict(&self, times: &Times, mut tell: impl FnMut(&Io, f64)) {
        self.replay(times, |io, done: f64| tell(io, done - io.at));
    }

    /// By how much the logarithms scatter about what the model says.
    fn scatter(&self, times: &Times) -> f64 {
        let mut all = Vec::new();
        self.predict(times, |io, nanos| all.push((io.nanos / nanos.max(1.0)).ln()));
        deviation(&all, 0.0)
    }

    /// How unlikely the IOs are with these times.
    fn loss(&self, times: &Times) -> f64 {
        self.loss_at(times, self.sigma())
    }

    fn loss_at(&self, times: &Times, sigma: f64) -> f64 {
        let mut sum = 0.0;
        self.predict(times, |io, nanos| sum += loss((io.nanos / nanos.max(1.0)).ln() / sigma));
        sum
    }

    /// The times that make the IOs most likely, from the best of some starts on, and how unlikely they are then:
    /// Levenberg and Marquardt's steps, in which deviations that are capped do not count.
    /// Only the times `free` are fitted. `unusual` says how unlikely times are before. What is hopelessly worse than
    /// `good` is given up.
    fn fit(
        &self,
        starts: &[Times],
        free: &[usize],
        good: f64,
        unusual: &dyn Fn(&Times) -> f64,
    ) -> (Times, f64) {
        let wide = self.sigma() * WIDTHS[0];
        let begin = starts.iter().map(|start| (*start, self.loss_at(start, wide)));
        let begin = begin.min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((mut times, _)) = begin else { return ([0.0; 4], f64::INFINITY) };
        for width in WIDTHS {
            let hopeless = width == 1.0 && self.loss(&times) > HOPELESS * good + 20.0;
            if !hopeless {
                self.descend(&mut times, free, width, unusual);
            }
        }
        let least = self.loss(&times) + unusual(&times);
        (times, least)
    }

    /// Goes to more likely times, with deviations so many times smaller.
    fn descend(&self, times: &mut Times, free: &[usize], width: f64, unusual: &dyn Fn(&Times) -> f64) {
        let sigma = self.sigma() * width;
        let before = |times: &Times| unusual(times) / (width * width);
        let (mut least, mut damping) = (self.loss_at(times, sigma) + before(times), 0.01);
        let mut pull = None;
        for _ in 0..STEPS {
            let scale = times.iter().sum::<f64>().max(1.0);
            let (matrix, right) = *pull.get_or_insert_with(|| self.pull(times, sigma));
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
                let side = scale * SIDE;
                let moved = |by: f64| {
                    let mut moved = *times;
                    moved[i] = (moved[i] + by).max(0.0);
                    before(&moved)
                };
                let slope = (moved(side) - moved(-side)) / (2.0 * side) * scale;
                row[4] -= slope;
                row[i] = row[i] * (1.0 + damping) + 1e-9 + slope.abs() * scale / times[i].max(scale * 0.01);
            }
            let change = solved(equations);
            let tried: Times = std::array::from_fn(|i| (times[i] + change[i] * scale).max(0.0));
            let sum = self.loss_at(&tried, sigma) + before(&tried);
            if sum < least {
                let gain = least - sum;
                (*times, least, damping, pull) = (tried, sum, damping / 4.0, None);
                if gain < GAIN.max(GAIN_SHARE * sum) {
                    break;
                }
            } else {
                damping *= 8.0;
            }
        }
    }

    /// Gauss and Newton's equations: where the deviations pull the times.
    fn pull(&self, times: &Times, sigma: f64) -> ([Times; 4], Times) {
        let (mut matrix, mut right) = ([[0.0; 4]; 4], [0.0; 4]);
        self.replay(times, |io, done: Moving| {
            let nanos = (done.nanos - io.at).max(1.0);
            let deviation = (io.nanos / nanos).ln() / sigma;
            if loss(deviation) >= CAP {
                return;
            }
            let slopes = done.by.map(|by| by / (nanos * sigma));
            for i in 0..4 {
                for j in 0..4 {
                    matrix[i][j] += slopes[i] * slopes[j];
                }
                right[i] += slopes[i] * deviation;
            }
        });
        (matrix, right)
    }
}

fn loss(deviation: f64) -> f64 {
    (deviation * deviation / 2.0).min(CAP)
}

/// Gauss's elimination; the last column is the right side.
fn solved(mut matrix: [[f64; 5]; 4]) -> Times {
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
