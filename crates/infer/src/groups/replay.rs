//! What reads take by a model of dies, channels and the link, when they are replayed as they were submitted; and how
//! likely that makes what was measured.
//!
//! # Model
//! Pages lie in chunks on the dies in turn, and the dies on the channels in turn. Commands come one after the other. A
//! die senses a row of pages and then transfers them over its channel, wholly or what is asked of them; the next row of the same operation is sensed
//! after that, or meanwhile (cache mode). A channel does one transfer at a time. The link carries what has come while the
//! rest is read, or only then (El Maghraoui et al., SIGMETRICS/ICPE 2010, equations 1 to 3; Chen, Lee and Zhang, HPCA 2011). When each
//! read was submitted is known, so what each has to wait for follows, however many are in flight.
//!
//! The four times (command, sense, transfer, link) are unknown. For each layout they are fitted so that what was measured is
//! most likely: response times scatter by a factor, some are off for other reasons, so that a deviation counts
//! no more than [`CAP`]. What is capped pulls nowhere: so deviations are taken for smaller ones first, or a descent ends where
//! half of the reads are far off.

use super::figures::{NORMAL, median};

/// Where pages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Layout {
    /// In bytes.
    pub(crate) page: u64,
    /// Pages of a row.
    pub(crate) planes: u64,
    /// Pages of a chunk.
    pub(crate) chunk: u64,
    pub(crate) dies: u64,
    pub(crate) channels: u64,
    /// Whether a row is sensed while the last one is transferred.
    pub(crate) cached: bool,
    /// How many pages of a chunk lie before the first address.
    pub(crate) phase: u64,
    /// Whether the link carries a read only when all of it was read.
    pub(crate) serial: bool,
    /// Whether of a page only what is asked for is transferred.
    pub(crate) partial: bool,
}

/// A read that was done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Read {
    /// When it was submitted, in nanoseconds since the first one of its run.
    pub(crate) at: f64,
    /// What it took, in nanoseconds.
    pub(crate) nanos: f64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// Reads in the order in which they were submitted to a device that rested.
pub(crate) type Run = Vec<Read>;

/// What the reads of a run took.
pub(crate) fn nanos(run: &Run) -> Vec<f64> {
    run.iter().map(|read| read.nanos).collect()
}

/// Command, sense, transfer of a page, a page on the link, in nanoseconds.
pub(crate) type Times = [f64; 4];
const COMMAND: usize = 0;
const SENSE: usize = 1;
const TRANSFER: usize = 2;
const LINK: usize = 3;

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
trait Moment: Copy {
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
struct Moving {
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

/// A part of a read: consecutive pages on one die.
#[derive(Clone, Copy)]
struct Part {
    die: u32,
    channel: u32,
    rows: f64,
    pages: f64,
}

/// Reads as a layout has them.
pub(crate) struct Replay<'a> {
    runs: &'a [Run],
    parts: Vec<Part>,
    /// For each read: where its parts end, what it has on the link, and the last page's share of that, in pages.
    reads: Vec<(u32, f64, f64)>,
    dies: usize,
    cached: bool,
    serial: bool,
    sigma: f64,
}

impl Replay<'_> {
    /// Response times scatter by `sigma` as logarithms.
    pub(crate) fn new(runs: &[Run], layout: Layout, sigma: f64) -> Replay<'_> {
        let (mut parts, mut reads) = (Vec::new(), Vec::new());
        let Layout { page: size, planes, chunk, dies, channels, cached, phase, serial, partial } = layout;
        for read in runs.iter().flatten() {
            let end = (read.offset + read.size).div_ceil(size) + phase;
            let mut page = read.offset / size + phase;
            while page < end {
                let number = page / chunk;
                let until = end.min((number + 1) * chunk);
                let die = number % dies;
                let begin = read.offset.max((page.max(phase) - phase) * size);
                let asked = (read.offset + read.size).min((until - phase) * size) - begin;
                parts.push(Part {
                    die: die as u32,
                    channel: (die % channels) as u32,
                    rows: (until.div_ceil(planes) - page / planes) as f64,
                    pages: if partial { asked as f64 / size as f64 } else { (until - page) as f64 },
                });
                page = until;
            }
            let asked = read.size as f64 / size as f64;
            reads.push((parts.len() as u32, asked, asked.min(1.0)));
        }
        Replay { runs, parts, reads, dies: dies as usize, cached, serial, sigma }
    }

    /// When each read is done with these times.
    fn replay<M: Moment>(&self, times: &Times, mut tell: impl FnMut(&Read, M)) {
        let mut busy = vec![[M::at(0.0); 2]; self.dies];
        let (mut part, mut index) = (0, 0);
        for run in self.runs {
            busy.fill([M::at(0.0); 2]);
            let (mut controller, mut carried) = (M::at(0.0), M::at(0.0));
            for read in run {
                let (end, asked, last) = self.reads[index];
                index += 1;
                let taken = controller.later(M::at(read.at)).plus(times, COMMAND, 1.0);
                controller = taken;
                let mut ready = taken;
                for &Part { die, channel, rows, pages } in &self.parts[part..end as usize] {
                    let (die, channel) = (die as usize, channel as usize);
                    let sensed = busy[die][0].later(taken).plus(times, SENSE, 1.0);
                    let leaves = sensed.later(busy[channel][1]);
                    let all = leaves.plus(times, TRANSFER, pages);
                    let senses = leaves.plus(times, SENSE, rows - 1.0);
                    let done = if self.cached {
                        senses.plus(times, TRANSFER, pages / rows).later(all)
                    } else {
                        senses.plus(times, TRANSFER, pages)
                    };
                    busy[channel][1] = all;
                    busy[die][0] = done;
                    ready = ready.later(done);
                }
                part = end as usize;
                let from = if self.serial { carried.later(ready) } else { carried.later(taken) };
                carried = from.plus(times, LINK, asked);
                tell(read, carried.later(ready.plus(times, LINK, last)));
            }
        }
    }

    /// What each read takes with these times.
    pub(crate) fn predict(&self, times: &Times, mut tell: impl FnMut(&Read, f64)) {
        self.replay(times, |read, done: f64| tell(read, done - read.at));
    }

    /// By how much the logarithms scatter about what the model says.
    pub(crate) fn scatter(&self, times: &Times) -> f64 {
        let mut all = Vec::new();
        self.predict(times, |read, nanos| all.push((read.nanos / nanos.max(1.0)).ln().abs()));
        NORMAL * median(&all)
    }

    /// How unlikely the reads are with these times.
    pub(crate) fn loss(&self, times: &Times) -> f64 {
        self.loss_at(times, self.sigma)
    }

    fn loss_at(&self, times: &Times, sigma: f64) -> f64 {
        let mut sum = 0.0;
        self.predict(times, |read, nanos| sum += loss((read.nanos / nanos.max(1.0)).ln() / sigma));
        sum
    }

    /// The times that make the reads most likely, from the best of some starts on, and how unlikely they are then:
    /// Levenberg and Marquardt's steps, in which deviations that are capped do not count.
    /// Only the times `free` are fitted. `unusual` says how unlikely times are before. What is hopelessly worse than
    /// `good` is given up.
    pub(crate) fn fit(
        &self,
        starts: &[Times],
        free: &[usize],
        good: f64,
        unusual: &dyn Fn(&Times) -> f64,
    ) -> (Times, f64) {
        let wide = self.sigma * WIDTHS[0];
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
        let sigma = self.sigma * width;
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
        self.replay(times, |read, done: Moving| {
            let nanos = (done.nanos - read.at).max(1.0);
            let deviation = (read.nanos / nanos).ln() / sigma;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of some sizes, a few in flight, that take what the layout says.
    fn runs(layout: Layout, times: &Times) -> Vec<Run> {
        let mut random = flashlab_base::Prng::new(flashlab_base::Seed(5));
        let sizes = [512, 1024, layout.page + 1024, 3 * layout.page + 1024];
        let kinds = [1, 3, 8].into_iter().flat_map(|depth| sizes.map(|size| (depth, size)));
        kinds
            .map(|(depth, size)| {
                let mut run: Run = Vec::new();
                for index in 0..60 {
                    let offset = (random.below(40_000) + 1) * layout.page / 2 - 512;
                    run.push(Read { at: 0.0, nanos: 1.0, offset, size });
                    // The first that is done makes room for this one.
                    let so_far = [run.clone()];
                    let mut ends: Vec<f64> = Vec::new();
                    Replay::new(&so_far, layout, 1.0)
                        .predict(times, |read, nanos| ends.push(read.at + nanos));
                    ends.pop();
                    ends.sort_by(f64::total_cmp);
                    let at = if index < depth { 0.0 } else { ends[index - depth] };
                    run[index].at = at;
                    let so_far = [run.clone()];
                    let mut took = 0.0;
                    Replay::new(&so_far, layout, 1.0).predict(times, |_, nanos| took = nanos);
                    run[index].nanos = took * (0.95 + 0.1 * random.unit());
                }
                run
            })
            .collect()
    }

    #[test]
    fn times_are_found_again() {
        let layout = Layout {
            page: 4096,
            planes: 2,
            chunk: 4,
            dies: 4,
            channels: 2,
            cached: false,
            phase: 0,
            serial: false,
            partial: false,
        };
        let times = [20e3, 60e3, 30e3, 10e3];
        let runs = runs(layout, &times);
        let start = [40e3, 30e3, 50e3, 20e3];
        let replay = Replay::new(&runs, layout, 0.03);
        let (found, loss) = replay.fit(&[start], &[0, 1, 2, 3], f64::INFINITY, &|_| 0.0);
        assert!(loss < 0.7 * 720.0, "{loss}");
        for (found, time) in found.iter().zip(times) {
            assert!((found / time - 1.0).abs() < 0.06, "{found} for {time}");
        }
        let likely = super::super::likely::Likely::search(&runs, &[4096], 512).unwrap();
        assert_eq!(likely.best(), layout);
        assert!(likely.misfit < 1.3 && likely.margin(|layout| layout.dies, &4) > 20.0);
        let other = Replay::new(&runs, Layout { dies: 8, channels: 4, ..layout }, 0.03);
        assert!(other.fit(&[times], &[0, 1, 2, 3], f64::INFINITY, &|_| 0.0).1 > loss + 50.0);
    }
}
