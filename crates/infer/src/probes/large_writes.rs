//! Finds the fixed cost of a write, and the size from which larger writes do not help.
//!
//! # Model
//! As in [`sizes`](crate::signals::sizes). All writes are the last part of filling the device, where nothing is
//! reclaimed or merged. A write buffer stays as full as writes of a size leave it. Without a write buffer, a pause
//! after each write lets the device complete it.
//!
//! # Method
//! 1. All sizes are written some times, the same amount in each run.
//! 2. The next run has the size with the smallest part of the time that it is worth: for the line, and for the
//!    doublings that may be the one of saturation (`saturation`).
//! 3. The first writes of a run do not count if a write buffer still has another size to write.
//!
//! # Invariants
//! - The device is filled to its end, whatever happens.
//! - No write is smaller than a page, if it is known: below it each doubling nearly doubles the throughput.

use std::slice;

use crate::flash_layout::TimedRun;
use crate::priors;
use crate::signals::saturation::{
    Doubling, Saturated, doublings, falls, is_faster_than_a_half, open, saturated,
};
use crate::signals::sizes::{IoKind, LineFit, PAUSE_SHARE, SizeCurve, lines};
use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::weighted_line::WeightedPoint;
use flashlab_analysis::inference::{Finding, Parameter, Picture};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Time};

use crate::answers::cost_per_io::cost;
use crate::answers::size_pictures::{throughput, with_lines};
use crate::halt::Halt;
use crate::layout_traces::read_pages::page;
use crate::layout_traces::row_writes::row_writes;
use crate::patterns::filling::{self, LARGE_WRITES_SHARE, reserved};
use crate::patterns::writes::{costs_of, writes};
use crate::priors::SMALL_IO;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;

pub(crate) const PROBE: Probe = Probe {
    name: "large-writes",
    about: "sequential writes of doubling size: what is the fixed cost of a write, and from which size do larger ones not help?",
    parameters: &[Parameter::WriteCostPerIo, Parameter::WriteSaturationSize],
    hands_in: &[],
    write_share: LARGE_WRITES_SHARE,
};

/// The space for the probe is this number of the largest writes. Unit: writes. Source: choice. Too many:
/// small devices have no large writes; too few: each size has few writes.
const LARGEST_COUNT: u64 = 24;
/// The runs after which one more run is done between two computations of what to write next. Unit: runs.
/// Source: choice. Too many: time is computed away; too few: writes are spent on what is clear.
const RUNS_OF_LOOK: u64 = 16;
/// At most this part of the space is written until the writes of a size are steady. Unit: part. Source:
/// choice. Too small: few writes count; too large: a write buffer of the size before counts.
const SETTLING_PART: u64 = 24;
/// The share of the time for doublings that are not clear. Unit: share. Source: choice. Too high: A is less
/// exact; too low: saturation stays undetermined.
const SATURATION_SHARE: f64 = 0.5;
/// The confidence of a saturation that is seen, and of one that follows from a line; each is more often right than wrong.
const SEEN: Rule = Rule::strong("growth");
const UNSEEN: Rule = Rule::likely("extrapolated growth");
const UNCLEAR_RULE: Rule = Rule::weak("throughput is no curve");

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let kind = fill_the_rest(session);
    // Whatever happened, it is written to its end if it can be.
    let smallest = filling::io_size(session.capacity(), session.block());
    let rest = session.capacity() - session.filled_until();
    filling::sequential_writes(session, "fill", smallest, session.filled_until(), rest)?;
    session.filled(rest);
    let kind = kind?;
    let [plain, paused] = lines(slice::from_ref(&kind));
    let mut cost =
        cost(Parameter::WriteCostPerIo, "sequential writes", plain.as_ref(), paused.as_ref(), None);
    // The fixed part alone is mistaken for what a small write takes.
    let smallest = kind.curves.iter().find(|curve| !curve.times.is_empty());
    if let (Some(_), Some(curve)) = (&cost.value, smallest) {
        let whole = duration(upper_median(&curve.times));
        cost.evidence += &format!(" With its bytes a write of {} takes {whole}.", curve.size);
    }
    let picture = throughput("sequential writes", &kind.curves);
    let (points, is_settled) = (kind.points(), is_settled(session));
    for finding in [cost, saturation(&points, picture)] {
        session.conclude(doubted(finding, &doublings(&points), is_settled));
    }
    Ok(())
}

/// The rest of the device, while it is written.
struct Rest {
    /// The bytes of a run.
    run: Bytes,
    /// This much of a size is written before its writes count.
    unsettled: Bytes,
    /// The size that was written last, as an index.
    last: Option<usize>,
    /// The writes.
    kind: IoKind,
    /// The runs since all sizes were written.
    runs: u64,
}

/// Writes all sizes in runs, as much in each.
fn fill_the_rest(session: &mut Session<'_, '_>) -> Result<IoKind, Halt> {
    let page = known_page(session)?;
    let smallest = page.map_or(priors::WHOLE_PAGES, |page| page.max(SMALL_IO)).max(session.block());
    let (begin, end) = (session.filled_until(), session.capacity());
    let room = |&largest: &Bytes| largest * LARGEST_COUNT <= end - begin && largest >= smallest;
    let Some(largest) = filling::LARGE_SIZES.into_iter().find(room) else {
        return Err(Halt::Misfit("it has no space for large writes".to_owned()));
    };
    if !begin.is_multiple_of(largest) {
        return Err(Halt::Lacks(format!(
            "the device could be filled only until {begin}, where larger writes would not be aligned"
        )));
    }
    let rows = row_writes(session, page, largest)?;
    let buffer = session.known().bytes(Parameter::WriteBufferSize);
    let kind = kind_of_writes(&rows, (smallest, largest), buffer);
    session.keep_row_writes(rows);
    let begin = session.filled_until();
    let unsettled = (buffer.unwrap_or_default() * 2).min(Bytes((end - begin).0 / SETTLING_PART));
    let mut rest = Rest { run: largest, unsettled: unsettled.round_up(largest), last: None, kind, runs: 0 };
    while session.filled_until() + largest <= end {
        rest.go_on(session, begin)?;
    }
    Ok(rest.kind)
}

/// The writes that fill the rest of the device, with the times of those that were written already. How full a buffer stays
/// depends on the size of writes. A device without one ends each write before the next one comes, if there is a pause.
fn kind_of_writes(rows: &[TimedRun], (smallest, largest): (Bytes, Bytes), buffer: Option<Bytes>) -> IoKind {
    // Behind a buffer they were flushed.
    let are_plain = buffer == Some(Bytes::ZERO);
    let of_rows = |size: Bytes| rows.iter().flatten().filter(move |write| are_plain && write.size == size.0);
    let sizes = (0..).map(|double| Bytes(smallest.0 << double)).take_while(|&size| size <= largest);
    let curve = |size| SizeCurve { size, times: of_rows(size).map(|write| write.nanos).collect() };
    let curves: Vec<SizeCurve> = sizes.map(curve).collect();
    let budget = curves.iter().map(|curve| curve.times.iter().sum()).collect();
    IoKind { pause: if are_plain { PAUSE_SHARE } else { 0.0 }, budget, curves, smaller: true }
}

/// The page that is read.
fn known_page(session: &mut Session<'_, '_>) -> Result<Option<Bytes>, Halt> {
    match page(session) {
        Ok(page) => Ok(page.ok().map(|page| page.size)),
        Err(Halt::Misfit(_)) => Ok(None),
        Err(halt) => Err(halt),
    }
}

impl Rest {
    /// Writes what shows most next, of what was written since `begin`.
    fn go_on(&mut self, session: &mut Session<'_, '_>, begin: Bytes) -> Result<(), Halt> {
        let (at, end) = (session.filled_until(), session.capacity());
        let times = 1.0 + (end - at).0 as f64 / (at - begin).0.max(1) as f64;
        let Some(fit) = self.kind.fit(times) else { return self.run(session, self.kind.fewest()) };
        let shares = self.shares(fit);
        // What is of use changes slowly.
        for _ in 0..1 + self.runs / RUNS_OF_LOOK {
            if session.filled_until() + self.run <= end {
                self.run(session, self.kind.poorest(&shares))?;
                self.runs += 1;
            }
        }
        Ok(())
    }

    /// Which share of the time each size is worth.
    fn shares(&self, fit: LineFit) -> Vec<f64> {
        let points = self.kind.points();
        let mut shares = open(&doublings(&points), points.len());
        let rest = 1.0 - SATURATION_SHARE * shares.iter().sum::<f64>();
        for (share, of_line) in shares.iter_mut().zip(fit.shares(&points)) {
            *share = SATURATION_SHARE * *share + rest * of_line;
        }
        shares
    }

    /// A run of a size. Larger writes are aligned to their size, and there is one of them.
    fn run(&mut self, session: &mut Session<'_, '_>, index: usize) -> Result<(), Halt> {
        let curves = &self.kind.curves;
        let size = curves[index].size;
        let smaller = curves.iter().rposition(|curve| curve.size <= self.run).unwrap_or_default();
        let of_smaller = self.run.0 / curves[smaller].size.0;
        let aligned = session.filled_until().round_up(size);
        if aligned + size > session.capacity() {
            return self.write(session, smaller, of_smaller);
        }
        for _ in 0..(aligned - session.filled_until()).0 / self.run.0 {
            self.write(session, smaller, of_smaller)?;
        }
        self.write(session, index, (self.run.max(self.unsettled).0 / size.0).max(1))
    }

    /// Writes of a size; after those of another one as many more as it takes until they are as they stay.
    fn write(&mut self, session: &mut Session<'_, '_>, index: usize, count: u64) -> Result<(), Halt> {
        let at = session.filled_until();
        let unsettled = if self.last == Some(index) { Bytes::ZERO } else { self.unsettled };
        let IoKind { pause, curves, budget, .. } = &mut self.kind;
        let curve = &mut curves[index];
        let room = (session.capacity() - at).0 / curve.size.0;
        let count = count.min(room);
        let more = (unsettled.0 / curve.size.0).min(room - count);
        let length = curve.size * (count + more);
        let mut pattern = writes(Location::Sequential, curve.size, count + more, at, length);
        let pause = Nanos((*pause * upper_median(&curve.times)) as u64);
        if pause > Nanos::ZERO {
            session.idle(pause)?;
            pattern.first.time = Time::Pause { pause };
        }
        let mut costs = costs_of(session, "sequential-writes", &pattern)?;
        session.filled(length);
        budget[index] += costs.iter().sum::<f64>();
        curve.times.extend(costs.drain(costs.len().min(more as usize)..));
        self.last = Some(index);
        Ok(())
    }
}

/// Whether a buffer is known, and as full when writes of a size count as they leave it.
fn is_settled(session: &Session<'_, '_>) -> bool {
    let room = Bytes(reserved(session).0 / SETTLING_PART);
    session.known().bytes(Parameter::WriteBufferSize).is_some_and(|buffer| buffer * 2 <= room)
}

/// The finding, limited where throughput over the size is no curve. Nothing is concluded where a write is
/// faster than its half, or where a buffer may not have been full at all sizes.
fn doubted(finding: Finding, doublings: &[Doubling], is_settled: bool) -> Finding {
    let (falls, is_faster) = (falls(doublings), is_faster_than_a_half(doublings));
    if finding.number().is_none() || !falls && !is_faster {
        return finding;
    }
    let evidence = format!("{} But the throughput over the size is not one curve.", finding.evidence);
    if is_settled && !is_faster {
        return UNCLEAR_RULE.limits(Finding { evidence, ..finding });
    }
    let evidence = format!("{evidence} The device was not in the same state at all sizes.");
    Finding::undetermined(finding.parameter, evidence).seen_in(finding.picture)
}

/// From which size on larger writes bring nothing.
fn saturation(points: &[WeightedPoint], picture: Picture) -> Finding {
    let parameter = Parameter::WriteSaturationSize;
    let doublings = doublings(points);
    let picture = with_lines(picture, &doublings);
    let words = doublings
        .iter()
        .filter(|doubling| doubling.is_seen)
        .map(|doubling| format!("{:+.1}", (doubling.growth - 1.0) * 100.0));
    let evidence = format!(
        "Each doubling of the size, from {} on, changes the throughput by {} %, by lines fitted to the medians.",
        Bytes(points.first().map_or(0, |point| point.x as u64)),
        words.collect::<Vec<_>>().join(", ")
    );
    let Some(Saturated { index, chance }) = saturated(&doublings) else {
        return Finding::undetermined(parameter, evidence).with(picture);
    };
    let size = Bytes(doublings[index].size as u64);
    let most = if doublings[index].is_seen { SEEN } else { UNSEEN };
    let picture = picture.mark(size.0 as f64, "saturated");
    Rule::found(parameter, size, most.of_chance(chance), evidence).with(picture)
}
