//! What reads of several pages take, by a model of dies, channels and the link; and which layout fits what was measured.
//!
//! # Model
//! Pages lie in chunks on the dies in turn, and the dies on the channels in turn. A die senses a row of pages and then
//! transfers them over its channel; the next row of the same operation is sensed after that, or meanwhile (cache mode). A
//! channel does one transfer at a time. The link carries what has come while the rest is read, or only then (El Maghraoui et al.,
//! SIGMETRICS/ICPE 2010, equations 1 to 3; Chen, Lee and Zhang, HPCA 2011). When many reads are in flight, what is busy
//! most sets the pace: the command, a die, or a channel.
//!
//! The four times (command, sense, transfer, link) are unknown. For each layout they are fitted by least squares of the
//! relative deviations in units of their errors. The model's times are maxima of sums, so that they are linear nearly
//! everywhere: Levenberg and Marquardt's steps from several starts lead to the right sums, and a pattern search ends where these meet. A layout is believed when it fits, and all others fit worse by more than chance allows.

/// Where pages lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Layout {
    /// Pages of a chunk.
    pub(crate) chunk: u64,
    /// Pages of a row.
    pub(crate) planes: u64,
    pub(crate) dies: u64,
    pub(crate) channels: u64,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen {
    /// One read, from this page of a chunk on, so many pages, of which so much is asked for, in pages.
    Read { first: u64, pages: u64, asked: f64 },
    /// The time between reads when many are in flight, one at the start of every so many chunks, of so many pages each.
    Pace { step: u64, pages: u64 },
}

/// A measured time in nanoseconds, and its relative error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observation {
    pub(crate) seen: Seen,
    pub(crate) nanos: f64,
    pub(crate) error: f64,
}

/// Levenberg and Marquardt's steps from each start, and how far times are moved to see slopes.
const STEPS: usize = 24;
const SMALL: f64 = 1e-4;

/// How layouts fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fits {
    /// The one that fits best.
    pub(crate) best: Layout,
    /// The sum of squared deviations for each observation.
    pub(crate) misfit: f64,
    observations: usize,
    all: Vec<(Layout, f64)>,
}

impl Fits {
    fn new(all: Vec<(Layout, f64)>, observations: usize) -> Option<Fits> {
        let &(best, least) = all.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Fits { best, misfit: least / observations as f64, observations, all })
    }

    /// Those of some layouts.
    pub(crate) fn of(&self, some: impl Fn(&Layout) -> bool) -> Option<Fits> {
        let all = self.all.iter().copied().filter(|(layout, _)| some(layout)).collect();
        Fits::new(all, self.observations)
    }

    /// By how much those fit worse that say something else than the best, in units of the misfit.
    pub(crate) fn margin<T: PartialEq>(&self, says: impl Fn(&Layout) -> T) -> f64 {
        let least = self.all.iter().map(|&(_, misfit)| misfit).fold(f64::INFINITY, f64::min);
        let others = self.all.iter().filter(|(layout, _)| says(layout) != says(&self.best));
        let next = others.map(|&(_, misfit)| misfit).fold(f64::INFINITY, f64::min);
        (next - least) / self.misfit.max(1.0)
    }
}

/// What a device may do at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ways {
    /// A row is sensed while the last one is transferred.
    cached: bool,
    /// The link carries what has come while the rest is read.
    meanwhile: bool,
}

impl Ways {
    const ALL: [Ways; 3] = [
        Ways { cached: false, meanwhile: true },
        Ways { cached: true, meanwhile: true },
        Ways { cached: false, meanwhile: false },
    ];
}

/// The times of the model: sense, transfer of a page, a page on the link, the command and what else comes before a page
/// is read, and what many commands take each.
type Times = [f64; 5];

/// How the layouts fit, where transferring a page takes at least `transfer` nanoseconds; none without layouts or with
/// hardly more observations than unknowns.
pub(crate) fn fit(observations: &[Observation], layouts: &[Layout], transfer: f64) -> Option<Fits> {
    if observations.len() < 6 {
        return None;
    }
    let all: Vec<(Layout, f64)> =
        layouts.iter().map(|&layout| (layout, misfit(observations, layout, transfer))).collect();
    Fits::new(all, observations.len())
}

/// The least sum of squared deviations, in units of their errors.
fn misfit(observations: &[Observation], layout: Layout, transfer_min: f64) -> f64 {
    let shortest = observations.iter().map(|seen| seen.nanos).fold(f64::INFINITY, f64::min);
    const STARTS: [[f64; 3]; 3] = [[0.15, 0.6, 0.25], [0.2, 0.2, 0.6], [0.45, 0.3, 0.25]];
    let mut least = f64::INFINITY;
    for ways in Ways::ALL {
        let deviations = |times: &Times| -> Vec<f64> {
            let deviation =
                |seen: &Observation| (predict(layout, ways, times, seen.seen) / seen.nanos).ln() / seen.error;
            observations.iter().map(deviation).collect()
        };
        let floor = [0.0, transfer_min, 0.0, 0.0, 0.0];
        for [command, sense, transfer] in STARTS {
            let start = [sense, transfer, 0.5, command, command].map(|share| share * shortest);
            let (times, sum) = descend(&deviations, start, floor);
            least = least.min(sum);
            // A start that is far off is not worth more.
            if sum < 4.0 * least {
                least = least.min(search(&|times| squares(&deviations(times)), times, floor));
            }
        }
    }
    least
}

fn squares(deviations: &[f64]) -> f64 {
    deviations.iter().map(|deviation| deviation * deviation).sum()
}

/// Levenberg and Marquardt's steps.
fn descend(deviations: &dyn Fn(&Times) -> Vec<f64>, start: Times, floor: Times) -> (Times, f64) {
    let scale: f64 = start.iter().sum();
    let mut times: Times = std::array::from_fn(|i| start[i].max(floor[i]));
    let mut seen = deviations(&times);
    let (mut least, mut damping) = (squares(&seen), 0.01);
    for _ in 0..STEPS {
        let slopes: [Vec<f64>; 5] = std::array::from_fn(|i| {
            let mut moved = times;
            moved[i] += SMALL * scale;
            deviations(&moved).iter().zip(&seen).map(|(moved, seen)| (moved - seen) / SMALL).collect()
        });
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut matrix: [[f64; 6]; 5] = std::array::from_fn(|i| {
            std::array::from_fn(|j| {
                if j < 5 { product(&slopes[i], &slopes[j]) } else { -product(&slopes[i], &seen) }
            })
        });
        for (i, row) in matrix.iter_mut().enumerate() {
            row[i] = row[i] * (1.0 + damping) + 1e-9;
        }
        let step = solved(matrix);
        let tried: Times = std::array::from_fn(|i| (times[i] + step[i] * scale).max(floor[i]));
        let found = deviations(&tried);
        let sum = squares(&found);
        if sum < least {
            (times, seen, least, damping) = (tried, found, sum, damping / 4.0);
        } else {
            damping *= 6.0;
        }
    }
    (times, least)
}

/// Gauss's elimination; the last column is the right side.
fn solved(mut matrix: [[f64; 6]; 5]) -> Times {
    for i in 0..5 {
        let pivot = (i..5).max_by(|&a, &b| matrix[a][i].abs().total_cmp(&matrix[b][i].abs())).unwrap_or(i);
        matrix.swap(i, pivot);
        let row = matrix[i];
        for other in matrix.iter_mut().skip(i + 1) {
            let factor = if row[i] == 0.0 { 0.0 } else { other[i] / row[i] };
            other.iter_mut().zip(&row).for_each(|(value, of_row)| *value -= factor * of_row);
        }
    }
    let mut step = [0.0; 5];
    for i in (0..5).rev() {
        let rest: f64 = (i + 1..5).map(|j| matrix[i][j] * step[j]).sum();
        step[i] = if matrix[i][i] == 0.0 { 0.0 } else { (matrix[i][5] - rest) / matrix[i][i] };
    }
    step
}

/// Tries each time, and each pair of them against each other, with ever smaller steps.
fn search(sum: &dyn Fn(&Times) -> f64, start: Times, floor: Times) -> f64 {
    let all: f64 = start.iter().sum();
    let (mut times, mut least, mut step) = (start, sum(&start), 0.02);
    while step > 0.0003 {
        let before = least;
        for up in 0..times.len() {
            for down in up..times.len() {
                for sign in [1.0, -1.0] {
                    let mut tried = times;
                    tried[up] = (tried[up] + sign * step * all).max(floor[up]);
                    if down != up {
                        tried[down] = (tried[down] - sign * step * all).max(floor[down]);
                    }
                    let found = sum(&tried);
                    if found < least {
                        (times, least) = (tried, found);
                    }
                }
            }
        }
        if before - least < 0.05 * before {
            step /= 2.5;
        }
    }
    least
}

/// What the model says, in nanoseconds.
fn predict(layout: Layout, ways: Ways, times: &Times, seen: Seen) -> f64 {
    let &[sense, transfer, link, command, pace] = times;
    match seen {
        Seen::Read { first, pages, asked } => {
            let flash = flash_time(layout, ways.cached, times, first, pages);
            let both = (asked * link).max(flash + asked.min(1.0) * link);
            command + if ways.meanwhile { both } else { flash + asked * link }
        }
        Seen::Pace { step, pages } => {
            let dies = layout.dies / gcd(step, layout.dies);
            let channels = layout.channels / gcd(step, layout.channels);
            let rows = if layout.planes > 1 { 1 } else { pages };
            let die = sense + operation(ways.cached, times, rows, pages);
            let channel = transfer * pages as f64;
            pace.max(die / dies as f64).max(channel / channels as f64)
        }
    }
}

/// From the first row's sensing until all is transferred, when nothing else is in the way.
fn operation(cached: bool, times: &Times, rows: u64, pages: u64) -> f64 {
    let &[sense, transfer, ..] = times;
    let (rest, all) = (sense * (rows - 1) as f64, transfer * pages as f64);
    let row = all / rows as f64;
    if cached && rows > 1 { rest.max(all - row) + row } else { rest + all }
}

/// When the last page has come.
fn flash_time(layout: Layout, cached: bool, times: &Times, first: u64, pages: u64) -> f64 {
    let mut dies = [0.0_f64; 64];
    let mut channels = [0.0_f64; 64];
    let (mut page, end, mut last) = (first, first + pages, 0.0_f64);
    while page < end {
        let chunk = page / layout.chunk;
        let until = end.min((chunk + 1) * layout.chunk);
        let die = (chunk % layout.dies).min(63);
        let channel = (die % layout.channels) as usize;
        let rows = until.div_ceil(layout.planes) - page / layout.planes;
        let sensed = dies[die as usize] + times[0];
        let leaves = sensed.max(channels[channel]);
        let done = leaves + operation(cached, times, rows, until - page);
        channels[channel] = leaves + times[1] * (until - page) as f64;
        dies[die as usize] = done;
        last = last.max(done);
        page = until;
    }
    last
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of one page up to three stripes as the model has them, each a little off.
    fn observations(layout: Layout, [command, sense, transfer, link]: [f64; 4]) -> Vec<Observation> {
        let times = [sense, transfer, link, command, command];
        let read = |k: u64| {
            let pages = 2 + (k - 1) * layout.chunk;
            Seen::Read { first: layout.chunk - 1, pages, asked: (pages - 2) as f64 + 0.25 }
        };
        let part = Seen::Read { first: 0, pages: 1, asked: 0.125 };
        let one = Seen::Read { first: 0, pages: 1, asked: 1.0 };
        let all =
            (1..=3 * layout.dies).map(read).chain([part, one, Seen::Pace { step: layout.dies, pages: 1 }]);
        let observe = |(i, seen): (usize, Seen)| {
            let off = 1.0 + 0.002 * f64::from((i as u32 * 7) % 5) - 0.004;
            Observation { seen, nanos: predict(layout, Ways::ALL[0], &times, seen) * off, error: 0.004 }
        };
        all.enumerate().map(observe).collect()
    }

    fn layouts(dies: u64) -> Vec<Layout> {
        let legal = (1..=dies).filter(|&channels| dies.is_multiple_of(channels));
        legal.map(|channels| Layout { chunk: 1, planes: 1, dies, channels }).collect()
    }

    #[test]
    fn channels_are_told_where_transfers_are_waited_for() {
        for (dies, channels) in [(2, 1), (4, 2), (6, 3), (8, 1), (8, 4)] {
            let layout = Layout { chunk: 1, planes: 1, dies, channels };
            let seen = observations(layout, [10e3, 40e3, 30e3, 4e3]);
            let found = fit(&seen, &layouts(dies), 1e3).unwrap();
            assert_eq!(found.best, layout, "{found:?}");
            let margin = found.margin(|layout| layout.channels);
            assert!(found.misfit < 2.0 && margin > 30.0, "{margin}: {found:?}");
        }
    }

    #[test]
    fn channels_that_nothing_waits_for_are_not_told() {
        let layout = Layout { chunk: 1, planes: 1, dies: 4, channels: 2 };
        let seen = observations(layout, [10e3, 80e3, 10.0, 60e3]);
        let found = fit(&seen, &layouts(4), 10.0).unwrap();
        assert!(found.margin(|layout| layout.channels) < 10.0, "{found:?}");
    }

    #[test]
    fn dies_are_told_by_the_first_that_is_read_again() {
        let layout = Layout { chunk: 2, planes: 1, dies: 2, channels: 2 };
        let seen = observations(layout, [100e3, 50e3, 60e3, 70e3]);
        let all: Vec<Layout> = [2, 3, 4].map(|dies| Layout { dies, channels: dies, ..layout }).to_vec();
        let found = fit(&seen, &all, 1e3).unwrap();
        assert!(found.best.dies == 2 && found.margin(|layout| layout.dies) > 30.0, "{found:?}");
    }
}
