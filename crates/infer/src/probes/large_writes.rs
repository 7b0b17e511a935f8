//! What a write costs beyond its bytes, and from which size on larger ones bring nothing.
//!
//! # Model
//! As in `sizes`. All sizes together are one sequence of writes, as much of each in a run as the largest has: the last part of
//! filling the device, where no room has to be made and nothing is merged. Once all sizes were written some times, the next
//! run is of the size that has had the smallest part of the time that it is worth: for the line, and for the doublings that may
//! be the one from which on larger writes bring nothing (`saturation`). While they bring much, larger ones are written.
//!
//! A write buffer stays as full as writes of a size leave it; what it takes of each run first does not count. Without one a pause after
//! each write lets the device end it, and the sizes of the line are written without pauses as well, in stretches: what is
//! written next is of the kind that makes it most probable that the answer is right.
//!
//! # Invariants
//! - the device is written in order to its end, whatever is seen;
//! - writes are not smaller than a page, where that is known: up to it each doubling brings nearly twice as much.

use flashlab_analysis::decide::weighted_line::WeightedPoint;
use flashlab_analysis::inference::{Finding, Parameter, Picture};
use flashlab_analysis::layout::TimedRun;
use flashlab_analysis::signals::figures::median;
use flashlab_analysis::signals::kinds::{LOOK_WRITES, together};
use flashlab_analysis::signals::saturation::{
    Doubling, Saturated, doublings, falls, is_faster_than_a_half, open, saturated,
};
use flashlab_analysis::signals::sizes::{
    IoKind, LINE_FROM, LINE_TO, LineFit, PAUSE, SizeCurve, WRITES_OFF, between, lines,
};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Time};

use crate::answers::cost_per_io::cost;
use crate::answers::size_pictures::{throughput, with_lines};
use crate::halt::Halt;
use crate::layout::read_pages::page;
use crate::layout::row_writes::row_writes;
use crate::patterns::filling::{self, LARGE_WRITES_SHARE, reserved};
use crate::patterns::writes::{costs_of, writes};
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

/// Whole pages, nearly always: the smallest writes.
const WHOLE_PAGES: Bytes = Bytes::kib(16);
/// The largest writes, and smaller ones where there is no room for them.
const LARGEST: [Bytes; 3] = [filling::LARGEST, Bytes::kib(512), Bytes::kib(256)];
/// As much as so many of the largest writes is room.
const ROOM: u64 = 24;
/// Of so many runs one more is done before it is looked again what the next ones are to be.
const STEADY: u64 = 16;
/// As much as so many of the largest writes is room for writes without pauses as well, and so many runs of them follow each other.
const ROOM_PLAIN: u64 = 48;
const STRETCH: u64 = 8;
/// The share of what is left that the first kind has, the chance of a right answer that it is enough for, and what writes without pauses
/// have to bring of that.
const FIRST: f64 = 0.4;
const ENOUGH: f64 = 0.9;
const GAIN: f64 = 0.02;
/// Whether smaller writes lie on the line as well, so many tell.
const SMALLER_WRITES: u64 = 32;
/// The part of the rest that is written at most until a size's writes are as they stay.
const PART_TO_SETTLE: u64 = 24;
/// Writes that are larger than the line's may take a part of what is left.
const PART_FOR_LARGER: u64 = 2;
/// What tells from which size on it saturates is worth so much of the time, while that is open.
const FOR_SATURATION: f64 = 0.5;
/// The confidence of a saturation that is seen, and of one that follows from a line; each is more often right than wrong.
const SEEN: Rule = Rule::strong("growth");
const UNSEEN: Rule = Rule::likely("extrapolated growth");
const UNCLEAR_RULE: Rule = Rule::weak("throughput is no curve");
/// The smallest size of which is asked from when on it saturates.
const SMALLEST: Bytes = Bytes::kib(4);

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let kinds = fill_the_rest(session);
    // Whatever happened, it is written to its end if it can be.
    let smallest = filling::io_size(session.capacity(), session.block());
    let rest = session.capacity() - session.fill().until;
    filling::sequential_writes(session, "fill", smallest, session.fill().until, rest)?;
    session.filled(rest);
    let kinds = kinds?;
    let [plain, paused] = lines(&kinds);
    let mut cost =
        cost(Parameter::WriteCostPerIo, "sequential writes", plain.as_ref(), paused.as_ref(), WRITES_OFF);
    // The fixed part alone is mistaken for what a small write takes.
    let smallest = kinds[0].curves.iter().find(|curve| !curve.times.is_empty());
    if let (Some(_), Some(curve)) = (&cost.value, smallest) {
        let whole = duration(median(&curve.times));
        cost.evidence += &format!(" With its bytes a write of {} takes {whole}.", curve.size);
    }
    let picture = throughput("sequential writes", &kinds[0].curves);
    let (points, is_settled) = (together(&kinds), is_settled(session));
    for finding in [cost, saturation(&points, picture)] {
        session.conclude(doubted(finding, &doublings(&points), is_settled));
    }
    Ok(())
}

/// The rest of the device, while it is written.
struct Rest {
    /// The bytes of a run.
    run: Bytes,
    /// So much of a size is written before its writes count.
    unsettled: Bytes,
    /// The kind and the size that were written last, as indices.
    last: Option<(usize, usize)>,
    /// Those that tell saturation as well, and others that tell the cost.
    kinds: Vec<IoKind>,
    /// Whether no smaller writes are of use: they are parts of pages.
    are_pages: bool,
    /// The runs of the first kind, since all sizes were written.
    runs: u64,
}

/// Writes all sizes in runs, as much in each.
fn fill_the_rest(session: &mut Session<'_, '_>) -> Result<Vec<IoKind>, Halt> {
    let page = known_page(session)?;
    let smallest = page.map_or(WHOLE_PAGES, |page| page.max(SMALLEST)).max(session.block());
    let (begin, end) = (session.fill().until, session.capacity());
    let room = |&largest: &Bytes| largest * ROOM <= end - begin && largest >= smallest;
    let Some(largest) = LARGEST.into_iter().find(room) else {
        return Err(Halt::Misfit("it has no space for large writes".to_owned()));
    };
    if !begin.is_multiple_of(largest) {
        return Err(Halt::Lacks(format!(
            "the device could be filled only until {begin}, where larger writes would not be aligned"
        )));
    }
    let rows = row_writes(session, page, largest)?;
    let buffer = session.known().bytes(Parameter::WriteBufferSize);
    let kinds = kinds_of_writes(&rows, (smallest, largest), buffer, end - session.fill().until);
    session.keep_row_writes(rows);
    let begin = session.fill().until;
    let unsettled = (buffer.unwrap_or_default() * 2).min(Bytes((end - begin).0 / PART_TO_SETTLE));
    let unsettled = unsettled.round_up(largest);
    let mut rest = Rest { run: largest, unsettled, last: None, kinds, are_pages: page.is_some(), runs: 0 };
    while session.fill().until + largest <= end {
        rest.go_on(session, begin)?;
    }
    Ok(rest.kinds)
}

/// The kinds of writes that fill the rest of the device, with the times of those that were written already. How full a buffer stays
/// depends on the size of writes. A device without one ends each write before the next one comes, if there is a pause.
fn kinds_of_writes(
    rows: &[TimedRun],
    (smallest, largest): (Bytes, Bytes),
    buffer: Option<Bytes>,
    left: Bytes,
) -> Vec<IoKind> {
    let sizes = (0..).map(|double| Bytes(smallest.0 << double)).take_while(|&size| size <= largest);
    // Behind a buffer they were flushed.
    let are_plain = buffer == Some(Bytes::ZERO);
    let of_rows = |size: Bytes| rows.iter().flatten().filter(move |write| are_plain && write.size == size.0);
    let curves =
        sizes.map(|size| SizeCurve { size, times: of_rows(size).map(|write| write.nanos).collect() });
    let curves: Vec<SizeCurve> = curves.collect();
    let spent = |curves: &[SizeCurve]| curves.iter().map(|curve| curve.times.iter().sum()).collect();
    let first =
        IoKind { pause: if are_plain { PAUSE } else { 0.0 }, budget: spent(&curves), curves, smaller: true };
    let mut kinds = vec![first];
    if are_plain && largest * ROOM_PLAIN <= left {
        let of_line = kinds[0].curves.iter().filter(|curve| curve.size >= LINE_FROM);
        let curves: Vec<SizeCurve> = of_line.map(|curve| SizeCurve::new(curve.size)).collect();
        kinds.push(IoKind { pause: 0.0, budget: spent(&curves), curves, smaller: false });
    }
    kinds
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
    /// Writes what tells most next, of what was written since `begin`.
    fn go_on(&mut self, session: &mut Session<'_, '_>, begin: Bytes) -> Result<(), Halt> {
        let (at, end) = (session.fill().until, session.capacity());
        let (done, left) = (at - begin, end - at);
        let times = 1.0 + left.0 as f64 / done.0.max(1) as f64;
        let Some(fit) = self.kinds[0].fit(times) else {
            return self.run(session, 0, self.kinds[0].fewest());
        };
        let half = Bytes(self.kinds[0].curves[0].size.0 / 2);
        if fit.from == 0 && !self.are_pages && half >= SMALLEST.max(session.block()) {
            return self.try_smaller(session, half);
        }
        if self.wants_larger(left) {
            let first = &mut self.kinds[0];
            let size = first.curves[first.curves.len() - 1].size * 2;
            first.curves.push(SizeCurve::new(size));
            first.budget.push(0.0);
            return Ok(());
        }
        if self.second_promises_more(times) {
            for _ in 0..STRETCH {
                if session.fill().until + self.run <= end {
                    let kind = &self.kinds[1];
                    let shares = kind.fit(times).map(|fit| fit.shares(&kind.points()));
                    let index = shares.map_or_else(|| kind.fewest(), |shares| kind.poorest(&shares));
                    self.run(session, 1, index)?;
                }
            }
            return Ok(());
        }
        let shares = self.shares(fit);
        // What is of use changes slowly.
        for _ in 0..1 + self.runs / STEADY {
            if session.fill().until + self.run <= end {
                self.run(session, 0, self.kinds[0].poorest(&shares))?;
                self.runs += 1;
            }
        }
        Ok(())
    }

    /// Whether the second kind is worth writing next rather than the first one, when `times` as much can be written: it is seen
    /// which division of what is left makes it most probable that what is told of A is right.
    fn second_promises_more(&self, times: f64) -> bool {
        let [Some(_), Some(second)] = [0, 1].map(|index| self.kinds.get(index)) else { return false };
        let spent = [0, 1].map(|index| self.kinds[index].budget.iter().sum::<f64>());
        let left = (times - 1.0) * (spent[0] + spent[1]);
        let [plain, paused] = lines(&self.kinds);
        let exact = |index: usize, share: f64| (spent[index] / (spent[index] + share * left)).sqrt();
        let chance = |share: f64| {
            let plain = plain.as_ref().filter(|_| spent[1] > 0.0);
            between(plain, paused.as_ref(), WRITES_OFF, [exact(1, share), exact(0, 1.0 - share)])
                .map_or(0.0, |(_, chance)| chance)
        };
        let alone = chance(0.0);
        if times * FIRST > 1.0 || alone > ENOUGH {
            return false;
        }
        if second.fit(1.0).is_none() {
            return true;
        }
        let (even, all) = (chance(0.5), chance(1.0));
        match () {
            () if alone + GAIN > even.max(all) => false,
            () if all > even => true,
            () => spent[1] < spent[0],
        }
    }

    /// Whether doubling brings enough to the largest size of the line or beyond, and there is room for larger writes.
    fn wants_larger(&self, left: Bytes) -> bool {
        let first = &self.kinds[0];
        let (points, last) = (together(&self.kinds), first.curves.len() - 1);
        let size = first.curves[last].size * 2;
        let doublings = doublings(&points);
        let is_seen = |place: Saturated| doublings[place.index].is_seen;
        size > LINE_TO
            && points.len() == first.curves.len()
            && !saturated(&doublings).is_some_and(is_seen)
            && Bytes(size.0 * LOOK_WRITES as u64 * PART_FOR_LARGER) <= left
    }

    /// Which share of the time each size of the first kind is worth.
    fn shares(&self, fit: LineFit) -> Vec<f64> {
        let points = self.kinds[0].points();
        let mut shares = open(&doublings(&together(&self.kinds)), points.len());
        let rest = 1.0 - FOR_SATURATION * shares.iter().sum::<f64>();
        for (share, of_line) in shares.iter_mut().zip(fit.shares(&points)) {
            *share = FOR_SATURATION * *share + rest * of_line;
        }
        shares
    }

    /// A run of a size.
    fn run(&mut self, session: &mut Session<'_, '_>, kind: usize, index: usize) -> Result<(), Halt> {
        let curves = &self.kinds[kind].curves;
        let size = curves[index].size;
        let smaller = curves.iter().rposition(|curve| curve.size <= self.run).unwrap_or_default();
        let of_smaller = self.run.0 / curves[smaller].size.0;
        let aligned = session.fill().until.round_up(size);
        if aligned + size > session.capacity() {
            return self.write(session, (kind, smaller), of_smaller);
        }
        // Larger writes are aligned to their size, and there is one of them.
        for _ in 0..(aligned - session.fill().until).0 / self.run.0 {
            self.write(session, (kind, smaller), of_smaller)?;
        }
        self.write(session, (kind, index), (self.run.max(self.unsettled).0 / size.0).max(1))
    }

    /// Some writes that are smaller than all before; parts of pages may cost much, and so they are few.
    fn try_smaller(&mut self, session: &mut Session<'_, '_>, size: Bytes) -> Result<(), Halt> {
        self.kinds[0].curves.insert(0, SizeCurve::new(size));
        self.kinds[0].budget.insert(0, 0.0);
        self.last = None;
        self.write(session, (0, 0), SMALLER_WRITES)?;
        filling::fill_up(session, self.run)
    }

    /// Writes of a size; after those of another one as many more as it takes until they are as they stay.
    fn write(
        &mut self,
        session: &mut Session<'_, '_>,
        (kind, index): (usize, usize),
        count: u64,
    ) -> Result<(), Halt> {
        let at = session.fill().until;
        // The first one without a pause follows no other.
        let is_first = kind > 0 && self.last.is_none_or(|(last, _)| last != kind);
        let unsettled = if self.last == Some((kind, index)) { Bytes::ZERO } else { self.unsettled };
        let IoKind { pause, curves, budget, .. } = &mut self.kinds[kind];
        let curve = &mut curves[index];
        let room = (session.capacity() - at).0 / curve.size.0;
        let count = count.min(room);
        let more = (unsettled.0 / curve.size.0).min(room - count);
        let length = curve.size * (count + more);
        let mut pattern = writes(Location::Sequential, curve.size, count + more, at, length);
        let pause = Nanos((*pause * median(&curve.times)) as u64);
        if pause > Nanos::ZERO {
            session.idle(pause)?;
            pattern.first.time = Time::Pause { pause };
        }
        let mut costs = costs_of(session, "sequential-writes", &pattern)?;
        session.filled(length);
        budget[index] += costs.iter().sum::<f64>();
        curve.times.extend(costs.drain(costs.len().min(more as usize + usize::from(is_first))..));
        self.last = Some((kind, index));
        Ok(())
    }
}

/// Whether a buffer is known, and as full when writes of a size count as they leave it.
fn is_settled(session: &Session<'_, '_>) -> bool {
    let room = Bytes(reserved(session).0 / PART_TO_SETTLE);
    session.known().bytes(Parameter::WriteBufferSize).is_some_and(|buffer| buffer * 2 <= room)
}

/// A finding as far as it carries where throughput over the size is not one curve: not at all where a write is faster than its
/// half, or where a buffer may not have been full at all sizes.
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
