//! Predicts what reads take with a layout, when they are replayed as they were submitted, and how likely the measured
//! times are.
//!
//! # Model
//! El Maghraoui et al., SIGMETRICS/ICPE 2010, equations 1 to 3; Chen, Lee and Zhang, HPCA 2011.
//! 1. Chunks of pages lie on the dies round-robin, and the dies on the channels round-robin. Commands come one after
//!    the other.
//! 2. A die senses a multi-plane page and then transfers it over its channel, as a whole or only the requested part.
//! 3. The next multi-plane page of the same operation is sensed afterwards, or during the transfer (cache mode).
//! 4. A channel transfers one page at a time. The link carries a page as soon as it is there, or only when the whole
//!    read is.
//!
//! When each read was submitted is known, so that all waiting follows, at any queue depth. The four times (command,
//! sensing, transfer, link) are unknown and are fitted for each layout (`fitting`).
//!
//! # Invariants
//! - A read that waits for no other one takes what the last one of its kind took: so few of them are replayed.

use std::ops::ControlFlow;

use super::fitting::{IoModel, LayoutTime, LayoutTimes, Moment};
use super::runs::{Io, TimedRun};

/// Where pages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlashLayout {
    /// In bytes.
    pub page: u64,
    /// Pages of a row.
    pub planes: u64,
    /// Pages of a chunk.
    pub chunk: u64,
    /// The number of dies.
    pub dies: u64,
    /// The number of channels.
    pub channels: u64,
    /// Whether a row is sensed while the last one is transferred.
    pub cached: bool,
    /// How many pages of a chunk lie before the first address.
    pub phase: u64,
    /// Whether the link carries a read only when all of it was read.
    pub serial: bool,
    /// Whether of a page only what is asked for is transferred.
    pub partial: bool,
}

impl FlashLayout {
    /// Pages of one die, whose rows wait for nothing but each other.
    pub(crate) fn of_one_die(page: u64, planes: u64, chunk: u64) -> FlashLayout {
        FlashLayout {
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

/// A part of a read: consecutive pages on one die.
#[derive(Clone, Copy)]
struct Part {
    die: u32,
    channel: u32,
    rows: f64,
    pages: f64,
}

/// A read: its parts, what it has on the link, and the last page's share of that, in pages.
#[derive(Clone, Copy)]
struct Read {
    begin: u32,
    end: u32,
    asked: f64,
    last: f64,
    /// Those of a kind take the same where they wait for no other. Those have none that came before another was done.
    kind: Option<u32>,
}

/// Reads as a layout has them.
pub(crate) struct ReadReplay<'a> {
    runs: &'a [TimedRun],
    parts: Vec<Part>,
    reads: Vec<Read>,
    kinds: usize,
    dies: usize,
    cached: bool,
    serial: bool,
    sigma: f64,
}

impl ReadReplay<'_> {
    /// Response times scatter by `sigma` as logarithms.
    pub(crate) fn new(runs: &[TimedRun], layout: FlashLayout, sigma: f64) -> ReadReplay<'_> {
        let (mut parts, mut reads) = (Vec::new(), Vec::new());
        let FlashLayout { page: size, planes, chunk, dies, channels, cached, phase, serial, partial } =
            layout;
        let in_chunk = chunk / planes;
        let mut kinds: Vec<[u64; 4]> = Vec::new();
        for run in runs {
            let (before, mut until) = (kinds.len(), 0.0_f64);
            for read in run {
                let from = parts.len() as u32;
                let end = (read.offset + read.size).div_ceil(size) + phase;
                let first = read.offset / size + phase;
                // No division for each part: there are many of them.
                let mut page = first;
                let mut number = page / chunk;
                let mut die = number % dies;
                let mut channel = die % channels;
                while page < end {
                    let until = end.min((number + 1) * chunk);
                    let begin = read.offset.max((page.max(phase) - phase) * size);
                    let asked = (read.offset + read.size).min((until - phase) * size) - begin;
                    let rows = if page == first || until == end {
                        until.div_ceil(planes) - page / planes
                    } else {
                        in_chunk
                    };
                    parts.push(Part {
                        die: die as u32,
                        channel: channel as u32,
                        rows: rows as f64,
                        pages: if partial { asked as f64 / size as f64 } else { (until - page) as f64 },
                    });
                    page = until;
                    number += 1;
                    die = if die + 1 == dies { 0 } else { die + 1 };
                    channel = if channel + 1 == channels { 0 } else { channel + 1 };
                }
                let kind = (read.at >= until).then(|| {
                    // Dies are all the same, and within a chunk rows are.
                    let period = if first / chunk == (end - 1) / chunk { planes } else { chunk };
                    let within = if partial { read.offset % size } else { 0 };
                    let kind = [read.size, end - first, period, first % period * size + within];
                    let known = kinds[before..].iter().position(|other| *other == kind);
                    let index = before + known.unwrap_or(kinds.len() - before);
                    if known.is_none() {
                        kinds.push(kind);
                    }
                    index as u32
                });
                until = until.max(read.at + read.nanos);
                let asked = read.size as f64 / size as f64;
                reads.push(Read { begin: from, end: parts.len() as u32, asked, last: asked.min(1.0), kind });
            }
        }
        ReadReplay { runs, parts, reads, kinds: kinds.len(), dies: dies as usize, cached, serial, sigma }
    }

    /// When a read is done that was taken at a moment. Inlined, as most reads have few parts, and are replayed often.
    #[inline(always)]
    fn done<M: Moment>(&self, times: &LayoutTimes, read: &Read, taken: M, busy: &mut Busy<M>) -> M {
        let mut ready = taken;
        for &Part { die, channel, rows, pages } in &self.parts[read.begin as usize..read.end as usize] {
            let (die, channel) = (die as usize, channel as usize);
            let sensed = busy.dies[die][0].later(taken).plus(times, LayoutTime::Array, 1.0);
            let leaves = sensed.later(busy.dies[channel][1]);
            let all = leaves.plus(times, LayoutTime::Transfer, pages);
            let senses = leaves.plus(times, LayoutTime::Array, rows - 1.0);
            let done = if self.cached {
                senses.plus(times, LayoutTime::Transfer, pages / rows).later(all)
            } else {
                senses.plus(times, LayoutTime::Transfer, pages)
            };
            busy.dies[channel][1] = all;
            busy.dies[die][0] = done;
            ready = ready.later(done);
        }
        let from = if self.serial { busy.link.later(ready) } else { busy.link.later(taken) };
        busy.link = from.plus(times, LayoutTime::Link, read.asked);
        busy.link.later(ready.plus(times, LayoutTime::Link, read.last))
    }
}

/// Until when each die and each channel is busy, and the link.
struct Busy<M> {
    dies: Vec<[M; 2]>,
    link: M,
}

impl IoModel for ReadReplay<'_> {
    fn sigma(&self) -> f64 {
        self.sigma
    }

    fn replay<M: Moment>(&self, times: &LayoutTimes, mut tell: impl FnMut(&Io, M) -> ControlFlow<()>) {
        let zero = M::at(0.0);
        let mut busy = Busy { dies: vec![[zero; 2]; self.dies], link: zero };
        // What reads of each kind take that wait for no other.
        let mut alone: Vec<Option<M>> = vec![None; self.kinds];
        let mut reads = self.reads.iter();
        for run in self.runs {
            busy.dies.fill([zero; 2]);
            busy.link = zero;
            let (mut controller, mut until) = (zero, 0.0);
            // The last read, where it was not replayed: it is when another waits for it.
            let mut skipped = None;
            for (io, read) in run.iter().zip(&mut reads) {
                let taken = controller.later(M::at(io.at)).plus(times, LayoutTime::Command, 1.0);
                controller = taken;
                let rests = until < taken.nanos();
                let kind = read.kind.filter(|_| rests).map(|kind| kind as usize);
                let done = if let Some(took) = kind.and_then(|kind| alone[kind]) {
                    skipped = Some((read, taken));
                    taken.and(took)
                } else {
                    if let Some((read, taken)) = skipped.take().filter(|_| !rests) {
                        self.done(times, read, taken, &mut busy);
                    }
                    let done = self.done(times, read, taken, &mut busy);
                    if let Some(kind) = kind {
                        alone[kind] = Some(done.since(taken));
                    }
                    done
                };
                until = until.max(done.nanos());
                if tell(io, done).is_break() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of some sizes, a few in flight, that take what the layout says.
    fn runs(layout: FlashLayout, times: &LayoutTimes) -> Vec<TimedRun> {
        let mut random = flashlab_base::Prng::new(flashlab_base::Seed(5));
        let sizes = [512, 1024, layout.page + 1024, 3 * layout.page + 1024];
        let kinds = [1, 3, 8].into_iter().flat_map(|depth| sizes.map(|size| (depth, size)));
        kinds
            .map(|(depth, size)| {
                let mut run: TimedRun = Vec::new();
                for index in 0..60 {
                    let offset = (random.below(40_000) + 1) * layout.page / 2 - 512;
                    run.push(Io::new(0.0, 1.0, offset, size));
                    // The first that is done collects blocks for this one.
                    let so_far = [run.clone()];
                    let mut ends: Vec<f64> = Vec::new();
                    ReadReplay::new(&so_far, layout, 1.0)
                        .predict(times, |read, nanos| ends.push(read.at + nanos));
                    ends.pop();
                    ends.sort_by(f64::total_cmp);
                    let at = if index < depth { 0.0 } else { ends[index - depth] };
                    run[index].at = at;
                    let so_far = [run.clone()];
                    let mut took = 0.0;
                    ReadReplay::new(&so_far, layout, 1.0).predict(times, |_, nanos| took = nanos);
                    run[index].nanos = took * (0.95 + 0.1 * random.unit());
                }
                run
            })
            .collect()
    }

    #[test]
    fn reads_take_what_they_do_if_all_are_replayed() {
        let one = FlashLayout::of_one_die(4096, 1, 1 << 40);
        let rows = FlashLayout { planes: 2, chunk: 4, dies: 6, channels: 2, ..one };
        let layouts = [
            one,
            rows,
            FlashLayout { cached: true, phase: 3, ..rows },
            FlashLayout { planes: 1, chunk: 3, serial: true, ..rows },
            FlashLayout { planes: 1, chunk: 3, partial: true, phase: 1, ..rows },
        ];
        let mut random = flashlab_base::Prng::new(flashlab_base::Seed(9));
        let mut run = |size: u64| {
            let (mut run, mut at) = (TimedRun::new(), 0.0);
            for _ in 0..200 {
                let nanos = 100e3 + 100e3 * random.unit();
                run.push(Io::new(at, nanos, random.below(5000) * 512, size));
                // A few are in flight at once.
                at += nanos * if random.below(10) == 0 { 0.5 } else { 1.0 + random.unit() };
            }
            run
        };
        let runs = [512, 9 * 1024, 64 * 1024].map(&mut run);
        for layout in layouts {
            // Shorter than what was measured, and longer, so that reads wait for each other.
            for times in [[20e3, 20e3, 2e3, 2e3], [0.0, 60e3, 30e3, 10e3], [1e3, 90e3, 20e3, 20e3]] {
                let replay = ReadReplay::new(&runs, layout, 1.0);
                let mut whole = ReadReplay::new(&runs, layout, 1.0);
                whole.reads.iter_mut().for_each(|read| read.kind = None);
                let took = |replay: &ReadReplay<'_>| {
                    let mut all = Vec::new();
                    replay.predict(&times, |_, nanos| all.push(nanos));
                    all
                };
                for (one, other) in took(&replay).into_iter().zip(took(&whole)) {
                    assert!((one / other - 1.0).abs() < 1e-9, "{layout:?} {times:?}: {one} {other}");
                }
            }
        }
    }

    #[test]
    fn times_are_found_again() {
        let layout = FlashLayout {
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
        let replay = ReadReplay::new(&runs, layout, 0.03);
        let (found, loss) = replay.fit(&[start], &[0, 1, 2, 3], f64::INFINITY, &|_| 0.0);
        assert!(loss < 0.7 * 720.0, "{loss}");
        for (found, time) in found.iter().zip(times) {
            assert!((found / time - 1.0).abs() < 0.06, "{found} for {time}");
        }
        let likely = super::super::likely::Likely::search(&runs, &[4096], 512, None).unwrap();
        assert_eq!(likely.best(), layout);
        assert!(likely.misfit < 1.3 && likely.margin(|layout| layout.dies, &4) > 20.0);
        let other = ReadReplay::new(&runs, FlashLayout { dies: 8, channels: 4, ..layout }, 0.03);
        assert!(other.fit(&[times], &[0, 1, 2, 3], f64::INFINITY, &|_| 0.0).1 > loss + 50.0);
    }
}
