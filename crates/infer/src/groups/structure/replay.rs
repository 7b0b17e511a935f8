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
//! most likely (`fitting`).

pub(crate) use flashlab_analysis::inference::TimedIo as Io;

use super::fitting::{COMMAND, LINK, Model, Moment, SENSE, TRANSFER, Times};

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

impl Layout {
    /// Pages of one die, whose rows wait for nothing but each other.
    pub(crate) fn of_one_die(page: u64, planes: u64, chunk: u64) -> Layout {
        Layout {
            page,
            planes,
            chunk,
            dies: 1,
            channels: 1,
            cached: false,
            phase: 0,
            serial: false,
            partial: false,
        }
    }
}

/// IOs in the order in which they were submitted to a device that rested.
pub(crate) type Run = Vec<Io>;

/// What the IOs of a run took.
pub(crate) fn nanos(run: &Run) -> Vec<f64> {
    run.iter().map(|read| read.nanos).collect()
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
}

impl Model for Replay<'_> {
    fn sigma(&self) -> f64 {
        self.sigma
    }

    fn replay<M: Moment>(&self, times: &Times, mut tell: impl FnMut(&Io, M)) {
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
                    run.push(Io { at: 0.0, nanos: 1.0, offset, size });
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
        let likely = super::super::likely::Likely::search(&runs, &[4096], 512, None).unwrap();
        assert_eq!(likely.best(), layout);
        assert!(likely.misfit < 1.3 && likely.margin(|layout| layout.dies, &4) > 20.0);
        let other = Replay::new(&runs, Layout { dies: 8, channels: 4, ..layout }, 0.03);
        assert!(other.fit(&[times], &[0, 1, 2, 3], f64::INFINITY, &|_| 0.0).1 > loss + 50.0);
    }
}
