//! Predicts what writes take with a layout, on a device without a write buffer that is filled for the first time.
//!
//! # Model
//! Pages lie as in [`replay`](super::replay) (El Maghraoui et al., SIGMETRICS/ICPE 2010, equations 1 to 3).
//! 1. The pages of a write come over the link and go over their channel to their die: each part as soon as its first
//!    page is there, or all parts when all pages are.
//! 2. Multi-plane pages are programmed one after the other, each after its transfer, or during the next one (cache
//!    mode).
//! 3. A multi-plane page is programmed when a page of it is written, or when it is complete.
//! 4. Flash with several bits a cell has fast and slow pages, alternating.
//!
//! Most links hide nothing of a program, so writes show what reads cannot. A slow link or an unseen buffer hides all
//! of it, and looks like multi-plane pages of one page: that shows nothing.
//!
//! # Invariants
//! - The same layout and times give the same response times.

use std::ops::ControlFlow;

use super::fitting::{IoModel, LayoutTime, LayoutTimes, Moment};
use super::replay::FlashLayout;
use super::runs::{Io, TimedRun};

/// The usual program and command of a write: their times in nanoseconds, and the logarithms of the factor by
/// which they differ. Unit: ns, natural logarithm. Source: Grupp et al., MICRO 2009, table 2, for the
/// program: 200 to 2000 us. Too wide: any times fit; too narrow: fast and slow flash is not believed.
const USUAL_TIMES: [(LayoutTime, f64, f64); 2] =
    [(LayoutTime::Array, 500_000.0, 1.0), (LayoutTime::Command, 60_000.0, 1.8)];
/// The link and the transfer of writes relative to those of reads: by how much they may be faster and slower.
/// Unit: natural logarithm. Source: tuned. Too wide: writes explain themselves by their link; too narrow:
/// links that differ by direction fit no layout.
const LIKE_READS: [(LayoutTime, [f64; 2]); 2] =
    [(LayoutTime::Link, [0.35, 0.35]), (LayoutTime::Transfer, [0.6, 0.15])];
/// From this loss on, a faster transfer costs hardly more: behind a program, a transfer is not seen. Unit:
/// natural logarithm. Source: tuned. Too high: a hidden transfer refutes the layout; too low: any transfer is
/// believed.
const HIDDEN_LOSS: f64 = 2.0;
/// The slow pages of flash with several bits a cell, as multiples of the fast ones. Each is tried. Unit:
/// ratio. Source: choice, within the spread of Grupp et al., table 2. Too many: the search takes longer; too
/// few: pages that differ look like dies.
const SLOW_PAGES: [f64; 4] = [1.5, 2.1, 2.9, 4.0];
/// The factors by which that multiple is then moved, in steps that become smaller. Unit: ratio. Source:
/// choice. Too many: the search takes longer; too few: the multiple is off by a tenth.
const FACTOR_STEPS: [f64; 3] = [1.15, 1.06, 1.025];

/// How rows are programmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Way {
    /// Only when they are whole.
    waits: bool,
    /// Only when all of a write has come.
    serial: bool,
    /// While the next one comes.
    cached: bool,
    /// What even rows and odd ones take, relative to each other.
    rows: [f64; 2],
}

impl Way {
    /// The simplest way: all pages take the same, and each is programmed at once. Unit: ratio of slow
    /// pages to fast ones. Source: derivation. Too large: pages differ.
    pub(crate) const EVEN: Way = Way { waits: false, serial: false, cached: false, rows: [1.0; 2] };

    /// All ways in which rows take the same.
    pub(crate) fn even() -> impl Iterator<Item = Way> {
        let flag = |code: u32, place: u32| code >> place & 1 == 1;
        (0..8).map(move |code| Way {
            waits: flag(code, 0),
            serial: flag(code, 1),
            cached: flag(code, 2),
            ..Way::EVEN
        })
    }

    /// All in which they do not.
    pub(crate) fn uneven() -> impl Iterator<Item = Way> {
        let rows = SLOW_PAGES.into_iter().flat_map(|slower| [[1.0, slower], [slower, 1.0]]);
        let all = [(false, false), (true, false), (false, true), (true, true)];
        rows.flat_map(move |rows| all.map(|(waits, cached)| Way { waits, serial: false, cached, rows }))
    }

    /// Ways that are near one in which rows do not take the same, in turns of smaller steps.
    pub(crate) fn nearer() -> impl Iterator<Item = impl Fn(Way) -> [Way; 2]> {
        FACTOR_STEPS.into_iter().map(|step| {
            move |way: Way| {
                let [one, other] = way.rows;
                // The fast one stays as it is.
                let moved = |by: f64| if one < other { [one, other * by] } else { [one * by, other] };
                [step, 1.0 / step].map(|by| Way { rows: moved(by), ..way })
            }
        })
    }

    /// How unusual it is, as a logarithm.
    fn unusual(&self) -> f64 {
        let costs = [(self.waits, 1.0), (self.serial, 2.0), (self.rows[0] != self.rows[1], 2.0)];
        costs.into_iter().filter(|(is, _)| *is).map(|(_, costs)| costs).sum()
    }

    /// Whether rows that differ may look like this: a part of them is taken for the way of the data.
    pub(crate) fn may_be_uneven(&self) -> bool {
        self.waits || self.serial
    }

    /// What rows are programmed in, from one up to another, in programs.
    fn work(&self, from: u64, until: u64) -> f64 {
        let count = until.saturating_sub(from);
        let [one, other] = if from.is_multiple_of(2) { self.rows } else { [self.rows[1], self.rows[0]] };
        one * count.div_ceil(2) as f64 + other * (count / 2) as f64
    }
}

/// How unusual times of writes are, and their way, where reads have these.
pub(crate) fn unusual(times: &LayoutTimes, reads: &LayoutTimes, way: &Way) -> f64 {
    let log = |time: LayoutTime, usual: f64| (times[time as usize].max(1.0) / usual.max(1.0)).ln();
    let usual = USUAL_TIMES.iter().map(|&(time, usual, spread)| (log(time, usual) / spread).powi(2) / 2.0);
    let like = LIKE_READS.iter().map(|&(time, [faster, slower])| {
        let log = log(time, reads[time as usize]);
        let unusual = (log / if log > 0.0 { slower } else { faster }).powi(2) / 2.0;
        // Of a transfer that goes on while cells are programmed nothing is seen.
        if time == LayoutTime::Transfer && log < 0.0 {
            HIDDEN_LOSS * (unusual / HIDDEN_LOSS).ln_1p()
        } else {
            unusual
        }
    });
    usual.chain(like).sum::<f64>() + way.unusual()
}

/// How unusual a link is that takes so long for a page that is written, where pages are read in this.
pub(crate) fn slow_link(written: f64, read: f64) -> f64 {
    let [(_, [_, slower]), _] = LIKE_READS;
    ((written.max(1.0) / read.max(1.0)).ln().max(0.0) / slower).powi(2) / 2.0
}

/// A part of a write: consecutive pages on one die.
#[derive(Clone, Copy)]
struct Part {
    die: u32,
    channel: u32,
    pages: f64,
    /// The pages of one row of them.
    row: f64,
    /// All programs, and the last of them.
    work: f64,
    last: f64,
}

/// Writes as a layout has them.
pub(crate) struct Programs<'a> {
    runs: &'a [TimedRun],
    parts: Vec<Part>,
    /// For each write: where its parts end, and its pages.
    writes: Vec<(u32, f64)>,
    dies: usize,
    way: Way,
    sigma: f64,
}

impl Programs<'_> {
    /// Response times scatter by `sigma` as logarithms.
    pub(crate) fn new(runs: &[TimedRun], layout: FlashLayout, way: Way, sigma: f64) -> Programs<'_> {
        let (mut parts, mut writes) = (Vec::new(), Vec::new());
        let FlashLayout { page: size, planes, chunk, dies, channels, .. } = layout;
        for write in runs.iter().flatten() {
            let end = (write.offset + write.size).div_ceil(size);
            let mut page = write.offset / size;
            while page < end {
                let number = page / chunk;
                let until = end.min((number + 1) * chunk);
                let (die, pages) = (number % dies, until - page);
                // As the die counts them.
                let from = number / dies * chunk + page % chunk;
                let (first, touched) = (from / planes, (from + pages).div_ceil(planes));
                let programmed = if way.waits { (from + pages) / planes } else { touched };
                parts.push(Part {
                    die: die as u32,
                    channel: (die % channels) as u32,
                    pages: pages as f64,
                    row: pages as f64 / (touched - first) as f64,
                    work: way.work(first, programmed),
                    last: if programmed > first { way.work(programmed - 1, programmed) } else { 0.0 },
                });
                page = until;
            }
            writes.push((parts.len() as u32, write.size as f64 / size as f64));
        }
        Programs { runs, parts, writes, dies: dies as usize, way, sigma }
    }
}

/// When a die has programmed, and when its register is free, and a channel.
#[derive(Clone, Copy)]
struct Busy<M> {
    array: M,
    register: M,
    channel: M,
}

impl IoModel for Programs<'_> {
    fn sigma(&self) -> f64 {
        self.sigma
    }

    fn replay<M: Moment>(&self, times: &LayoutTimes, mut tell: impl FnMut(&Io, M) -> ControlFlow<()>) {
        let zero = M::at(0.0);
        let mut busy = vec![Busy { array: zero, register: zero, channel: zero }; self.dies];
        let (mut part, mut index) = (0, 0);
        for run in self.runs {
            busy.fill(Busy { array: zero, register: zero, channel: zero });
            let (mut controller, mut carried) = (zero, zero);
            for write in run {
                let (end, pages) = self.writes[index];
                index += 1;
                let taken = controller.later(M::at(write.at)).plus(times, LayoutTime::Command, 1.0);
                controller = taken;
                let comes = carried.later(taken);
                carried = comes.plus(times, LayoutTime::Link, pages);
                let first = if self.way.serial {
                    carried
                } else {
                    comes.plus(times, LayoutTime::Link, pages.min(1.0))
                };
                let mut ready = first;
                for &Part { die, channel, pages, row, work, last } in &self.parts[part..end as usize] {
                    let (die, channel) = (die as usize, channel as usize);
                    let free = if self.way.cached { busy[die].register } else { busy[die].array };
                    let begin = first.later(free).later(busy[channel].channel);
                    let all = begin.plus(times, LayoutTime::Transfer, pages);
                    busy[channel].channel = all;
                    let before_last = if self.way.cached {
                        let loaded = begin.plus(times, LayoutTime::Transfer, row).later(busy[die].array);
                        let rest = loaded.plus(times, LayoutTime::Transfer, pages - row);
                        loaded.plus(times, LayoutTime::Array, work - last).later(rest)
                    } else {
                        all.plus(times, LayoutTime::Array, work - last)
                    };
                    let done = before_last.plus(times, LayoutTime::Array, last);
                    (busy[die].register, busy[die].array) = (before_last, done);
                    ready = ready.later(done);
                }
                part = end as usize;
                if tell(write, carried.later(ready)).is_break() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layouts::CHUNK_OF_ALL;
    use super::super::likely::Likely;
    use super::super::replay::ReadReplay;
    use super::*;

    /// Runs of IOs of one size, one at a time after pauses and one behind the other, but for what is left between them, that take
    /// what a model says, and a little more or less.
    fn runs(sizes: &[u64], (begin, between): (u64, u64), take: impl Fn(&[TimedRun]) -> f64) -> Vec<TimedRun> {
        let mut random = flashlab_base::Prng::new(flashlab_base::Seed(6));
        let mut offset = begin;
        let run = |&size: &u64| {
            let (mut run, mut at) = (TimedRun::new(), 0.0);
            for _ in 0..40 {
                let io = Io::new(0.0, 1.0, offset, size);
                let nanos = take(&[vec![io]]) * (0.95 + 0.1 * random.unit());
                run.push(Io { at, nanos, ..io });
                at += 2.0 * nanos;
                offset += size + between;
            }
            run
        };
        sizes.iter().map(run).collect()
    }

    /// What the only IO takes.
    fn taken(model: &impl IoModel, times: &LayoutTimes) -> f64 {
        let mut took = 0.0;
        model.predict(times, |_, nanos| took = nanos);
        took
    }

    #[test]
    fn only_a_link_that_is_much_slower_than_for_reads_is_unusual() {
        assert_eq!(slow_link(90e3, 100e3), 0.0);
        assert!((0.1..1.0).contains(&slow_link(140e3, 100e3)));
        assert!(slow_link(400e3, 100e3) > 7.0);
    }

    #[test]
    fn writes_tell_rows_that_reads_hide_behind_the_link() {
        let page = 4096;
        for (planes, waits) in [(1, false), (2, false), (2, true), (4, false)] {
            // Cache mode and a slow link: rows of any length are read alike.
            let layout = FlashLayout {
                page,
                planes,
                chunk: CHUNK_OF_ALL,
                dies: 1,
                channels: 1,
                cached: true,
                phase: 0,
                serial: false,
                partial: false,
            };
            let reads = [100e3, 40e3, 100e3, 110e3];
            let took = |runs: &[TimedRun]| taken(&ReadReplay::new(runs, layout, 1.0), &reads);
            let sizes = [0, 1, 2, 4, 8, 16, 32].map(|pages| pages * page + 1024);
            let reads = runs(&sizes, (page - 512, page - 1024), took);
            let likely = Likely::search(&reads, &[page], 512, None).unwrap();
            assert!(likely.margin(|layout| layout.planes, &planes) < 5.0);
            let way = Way { waits, cached: true, ..Way::EVEN };
            let writes = [80e3, 500e3, 100e3, 110e3];
            let took = |runs: &[TimedRun]| taken(&Programs::new(runs, layout, way, 1.0), &writes);
            let writes = runs(&[16, 8, 4, 2, 1, 3, 5].map(|pages| pages * page), (0, 0), took);
            let (_, both) = likely.with_writes(&writes, true).unwrap();
            assert_eq!(both.best().planes, planes, "{planes} {waits}");
        }
    }
}
