//! The read buffer, from reads of what was read before; and the read-ahead, from reads behind a sequential start.
//!
//! # Model
//! A controller keeps what it read last and answers it without the flash. A footprint that is read again and again
//! in the same order is answered from the buffer as long as it fits, and not at all when it does not (the one
//! needed next is the one that was given up, with first-in-first-out as with least-recently-used). A die's own register
//! keeps the row read last as well: places of the footprint are so far apart that no two share one, and all on
//! one die where the stripe is known.
//!
//! Who reads in order gets the next pieces read before they are asked for. After such a start and a rest, one read at
//! a distance behind it is fast as far as the read-ahead goes. The same after a single read must not be.
//!
//! What is fast has to be told from reads of the flash: that no read was fast says something only of a device that is
//! known to read its flash at all.

use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Location, Pattern};

use super::dies::Dies;
use super::patterns::ios;
use super::reads::{Walk, compare, in_order, in_turn, median, room, times};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const REREADS: Group = Group {
    name: "rereads",
    about: "reads of what was read before, and behind a sequential start: read buffer and read-ahead",
    parameters: &[Parameter::ReadBufferSize, Parameter::ReadAheadSize],
    write_share: 0.0,
    probe,
};

/// Read at once where the page is not known: no flash has larger ones.
const PIECE: Bytes = Bytes::kib(16);
/// Further apart than any row of pages.
const APART: Bytes = Bytes::kib(128);
/// The chance that reads seem fast.
const ALPHA: f64 = 1e-6;
/// What a fast read takes, at most, relative to one of the flash.
const FAST_MAX: f64 = 0.96;
/// The share of the time that one search may take.
const TIME_SHARE: f64 = 0.15;
/// The longest start of sequential reads.
const START_MAX: u64 = 8;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let piece = session.known().bytes(Parameter::ReadPageSize).unwrap_or(PIECE).max(session.block());
    // Small reads: the link to the host must not hide what the flash takes.
    let size = session.block();
    let stripe = session.known().bytes(Parameter::StripeSize);
    let apart = match stripe {
        Some(stripe) => stripe * APART.0.div_ceil(stripe.0),
        None => APART,
    };
    if room(session).0 < apart.0 * 64 {
        return Err(Halt::Misfit("it has too few places that lie apart".to_owned()));
    }
    // Near each other, as the reads that they are compared with, but for the first time.
    let places = room(session).0 / 2 / apart.0;
    let mut once = ios(Mode::Read, Location::Ordered { incr: -1 }, size, places.min(200));
    once.first.slot_size = Some(apart);
    once.first.target_offset = Bytes(room(session).0 / 2).round_down(apart);
    once.first.target_size = Some(apart * places.min(200));
    let fresh = in_order(&session.run("fresh-reads", &once)?, 1);
    let mut probe = Probe { piece, apart, fresh, footprints: Bytes::ZERO, next: 0 };
    let kept = probe.buffer(session)?;
    probe.ahead(session, kept)
}

struct Probe {
    piece: Bytes,
    apart: Bytes,
    /// Reads of the flash.
    fresh: Vec<f64>,
    /// Where the next footprint lies.
    footprints: Bytes,
    /// The next place for a start of sequential reads.
    next: u64,
}

impl Probe {
    /// Reads of a footprint, in reverse order, after it was read once. Each footprint lies elsewhere: of a buffer that
    /// gives up what came first, what it held before would decide what stays.
    fn again(
        &mut self,
        session: &mut Session<'_, '_>,
        slot: Bytes,
        places: u64,
        least: u64,
    ) -> Result<Vec<f64>, Halt> {
        let rounds = 1 + least.div_ceil(places);
        let length = (slot * places).round_up(self.apart);
        if self.footprints + length > room(session) {
            self.footprints = Bytes::ZERO;
        }
        let offset = self.footprints;
        self.footprints += length;
        let mut pattern = ios(Mode::Read, Location::Ordered { incr: -1 }, session.block(), places * rounds);
        pattern.first.slot_size = Some(slot);
        pattern.first.target_offset = offset;
        pattern.first.target_size = Some(slot * places);
        Ok(in_order(&session.run("footprint", &pattern)?, places as usize))
    }

    /// The median of reads of another block of pages that were read before.
    fn other_blocks(&self, session: &mut Session<'_, '_>, offset: Bytes, places: u64) -> Result<f64, Halt> {
        let mut figures = Vec::new();
        let block = session.block();
        for at in [offset, offset + self.piece - block] {
            let mut pattern = ios(Mode::Read, Location::Ordered { incr: -1 }, block, places);
            pattern.first.slot_size = Some(self.piece);
            pattern.first.target_offset = at;
            pattern.first.target_size = Some(self.piece * (places - 1) + block);
            figures = in_order(&session.run("other-blocks", &pattern)?, 0);
        }
        Ok(median(&figures))
    }

    fn is_fast(&self, figures: &[f64]) -> bool {
        mann_whitney(figures, &self.fresh).p_below < ALPHA && times(&self.fresh, figures).estimate < FAST_MAX
    }

    /// How many pieces are kept at least, if any.
    fn buffer(&mut self, session: &mut Session<'_, '_>) -> Result<Option<u64>, Halt> {
        let parameter = Parameter::ReadBufferSize;
        let few = self.again(session, self.apart, 2, 200)?;
        let (slow, fast) = (median(&self.fresh), median(&few));
        if !self.is_fast(&few) {
            let evidence =
                format!("two places that are read again and again take {fast:.0} ns, others {slow:.0} ns");
            self.none(session, parameter, evidence, times(&self.fresh, &few).low);
            return Ok(None);
        }
        if let Some(evidence) = self.still_flash(session)? {
            session.conclude(Finding::undetermined(parameter, evidence));
            return Ok(None);
        }
        let affordable = session.time_left().0 as f64 * TIME_SHARE / 28.0 / slow.max(1.0);
        let mut curve = vec![(2.0 * self.piece.0 as f64, fast)];
        // First places on one die, then side by side, as far as there is room for them.
        let (mut fits, mut more) = (2, None);
        for slot in [self.apart, self.piece] {
            let most = (room(session).0 / 2 / slot.0).min(affordable as u64);
            while more.is_none() && fits * 2 <= most {
                let again = self.again(session, slot, fits * 2, 40)?;
                curve.push(((fits * 2 * self.piece.0) as f64, median(&again)));
                let slower = mann_whitney(&again, &few).p_above < ALPHA && median(&again) * FAST_MAX > fast;
                if slower { more = Some((fits * 2, slot, median(&again))) } else { fits *= 2 }
            }
        }
        let picture = Picture::new(
            "Response time of reads of a footprint that was read before, over its size.",
            Axis::logarithmic("footprint", "bytes"),
            Axis::linear("median response time", "ns"),
        );
        let Some((mut more, slot, slow)) = more else {
            let evidence = format!("footprints up to {} are read fast again", self.piece * fits);
            let picture = picture.draw("reads again", Style::Dots, curve);
            session.conclude(Finding::undetermined(parameter, evidence).with(picture));
            return Ok(Some(fits));
        };
        let limit = (slow * fast).sqrt();
        while more - fits > 1 {
            let middle = (fits + more) / 2;
            let time = median(&self.again(session, slot, middle, 24)?);
            curve.push(((middle * self.piece.0) as f64, time));
            if time < limit { fits = middle } else { more = middle }
        }
        let size = self.piece * fits;
        // Elsewhere, and side by side: what is a little smaller is kept, what is a little larger is not.
        let half = Bytes(room(session).0 / 2).round_down(self.apart);
        let kept = median(&self.again(session, self.piece, (fits * 4 / 5).max(1), 24)?);
        let lost = median(&self.again(session, self.piece, (fits * 3 / 2).max(fits + 4), 24)?);
        let whole = self.other_blocks(session, half + self.apart * 7, (fits / 2).max(1))? < limit;
        let agrees = kept < limit && lost > limit && whole;
        let known = session.known().bytes(Parameter::ReadPageSize).is_some();
        let confidence = match (agrees, known) {
            (true, true) => 0.97,
            (true, false) => 0.9,
            _ => 0.5,
        };
        let evidence = format!(
            "{size} at {fits} places are read again in {fast:.0} ns each, one place more in {slow:.0} ns; side by side {} \
             take {kept:.0} ns and {} {lost:.0} ns",
            self.piece * (fits * 4 / 5).max(1),
            self.piece * (fits * 3 / 2).max(fits + 4),
        );
        let picture = picture.draw("reads again", Style::Dots, curve).mark(size.0 as f64, "read buffer");
        let finding = if confidence > 0.5 {
            Finding::found(parameter, size, confidence, evidence)
        } else {
            Finding::undetermined(parameter, evidence)
        };
        session.conclude(finding.with(picture));
        Ok(Some(fits))
    }

    /// Whether reads of two places again and again still come from the flash, and only something else is at hand, as
    /// their part of the map: then lying across two pages costs something. None: they do not.
    fn still_flash(&self, session: &mut Session<'_, '_>) -> Result<Option<String>, Halt> {
        let one_die = session.known().count(Parameter::ParallelUnits) == Some(1);
        let stripe = session.known().bytes(Parameter::StripeSize);
        if session.known().bytes(Parameter::ReadPageSize).is_none() || !(one_die || stripe.is_some()) {
            let evidence = "two places that are read again and again are read faster than others, but it is not known \
                            which pages are on one die, whose register may hold them";
            return Ok(Some(evidence.to_owned()));
        }
        let (depth, block) = (Dies::depth(session), session.block());
        let (page, count) = (self.piece, 40 + u64::from(depth));
        let again = |offset: Bytes| {
            Walk { offset, slot: self.apart, size: block * 2 }.pattern(self.apart * 2, count, depth)
        };
        let places = room(session).0 / self.apart.0 - 1;
        let fresh = |offset: Bytes| {
            Walk { offset, slot: self.apart, size: block * 2 }.random(self.apart * places, count, depth)
        };
        let patterns = [
            in_turn(fresh(page - block * 2), fresh(page)),
            fresh(page - block),
            in_turn(again(page - block * 2), again(page)),
            again(page - block),
        ];
        let figures = compare(session, "across-pages-again", &patterns, 16)?;
        let (first, later) = (times(&figures[0], &figures[1]), times(&figures[2], &figures[3]));
        let half = 1.0 + (first.estimate - 1.0) / 2.0;
        Ok((first.low < 1.02 || later.high > half).then(|| {
            format!(
                "two places that are read again and again are read faster than others, but across two pages they take {:.2} \
                 times as long, where others take {:.2}: they may come from the flash, and something else was at hand",
                later.estimate, first.estimate
            )
        }))
    }

    /// Nothing was fast: that is an answer where a read of the flash takes long enough to be seen.
    fn none(&self, session: &mut Session<'_, '_>, parameter: Parameter, evidence: String, least: f64) {
        let sees_flash = [Parameter::ReadPageSize, Parameter::ParallelUnits]
            .iter()
            .any(|&parameter| session.known().number(parameter).is_some());
        session.conclude(if sees_flash && least > FAST_MAX {
            Finding::found(parameter, Bytes::ZERO, 0.96, evidence)
        } else {
            Finding::undetermined(parameter, evidence)
        });
    }

    /// Reads at a distance behind `start` sequential ones, each time elsewhere.
    fn behind(
        &mut self,
        session: &mut Session<'_, '_>,
        start: u64,
        distance: u64,
        repeats: u64,
    ) -> Result<Vec<f64>, Halt> {
        let needed = self.piece * (start + distance + 1);
        let step = self.apart * needed.0.div_ceil(self.apart.0);
        let places = room(session).0 / step.0;
        let rest = Nanos((median(&self.fresh) * 300.0) as u64).min(Nanos::from_millis(50));
        let mut figures = Vec::new();
        for _ in 0..repeats {
            // Steps of about 0.618 of all places come near an earlier one only late.
            self.next = (self.next + (places as f64 * 0.618) as u64 + 1) % places;
            let offset = step * self.next;
            session.run("sequential-start", &self.piece_reads(offset, start))?;
            session.rest(rest)?;
            let at = offset + self.piece * (start + distance);
            let one = Walk { offset: at, slot: self.piece, size: session.block() }.pattern(self.piece, 1, 1);
            figures.extend(in_order(&session.run("behind", &one)?, 0));
        }
        Ok(figures)
    }

    fn piece_reads(&self, offset: Bytes, count: u64) -> Pattern {
        let walk = Walk { offset, slot: self.piece, size: self.piece };
        walk.pattern(self.piece * count, count, 1)
    }

    /// The read-ahead; `kept` is how many pieces the buffer holds.
    fn ahead(&mut self, session: &mut Session<'_, '_>, kept: Option<u64>) -> Result<(), Halt> {
        let parameter = Parameter::ReadAheadSize;
        let single = self.behind(session, 1, 0, 24)?;
        if self.is_fast(&single) {
            let evidence = format!(
                "what follows a single read is read in {:.0} ns, others take {:.0} ns",
                median(&single),
                median(&self.fresh)
            );
            session.conclude(Finding::undetermined(parameter, evidence));
            return Ok(());
        }
        let mut behind = Vec::new();
        let mut start = 2;
        let fast = loop {
            let figures = self.behind(session, start, 0, 24)?;
            behind.extend(figures.iter().copied());
            if self.is_fast(&figures) {
                break Some(median(&figures));
            }
            start *= 2;
            if start > START_MAX {
                break None;
            }
        };
        let slow = median(&self.fresh);
        let Some(fast) = fast else {
            let evidence = format!(
                "reads behind 2 to {START_MAX} sequential ones take {:.0} ns, others {slow:.0} ns",
                median(&behind)
            );
            self.none(session, parameter, evidence, times(&self.fresh, &behind).low);
            return Ok(());
        };
        let limit = (slow * fast).sqrt();
        let most =
            (room(session).0 / 8 / self.piece.0).min(kept.unwrap_or(u64::MAX).saturating_mul(2).max(64));
        let (mut held, mut not) = (0, 1);
        let mut curve = vec![(0.0, fast)];
        let mut hit =
            |probe: &mut Probe, session: &mut Session<'_, '_>, distance: u64| -> Result<bool, Halt> {
                let time = median(&probe.behind(session, start, distance, 7)?);
                curve.push(((probe.piece * distance).0 as f64, time));
                Ok(time < limit)
            };
        while not < most && hit(self, session, not)? {
            (held, not) = (not, not * 2);
        }
        while not - held > 1 {
            let middle = (held + not) / 2;
            if hit(self, session, middle)? { held = middle } else { not = middle }
        }
        let last = self.behind(session, start, held, 24)?;
        let beyond = self.behind(session, start, not, 24)?;
        let apart = times(&last, &beyond).low > 1.0 / FAST_MAX;
        let (last, beyond) = (median(&last), median(&beyond));
        // A piece of unknown pages may hold the end of what was read.
        let confidence = if session.known().bytes(Parameter::ReadPageSize).is_some() { 0.97 } else { 0.85 };
        let size = self.piece * not;
        let evidence = format!(
            "after {start} sequential reads and a rest the next {size} are read in {fast:.0} ns (the last of it in {last:.0} ns), \
             what lies behind in {beyond:.0} ns"
        );
        let picture = Picture::new(
            "Response time of one read behind a start of sequential reads and a rest, over its distance from their end.",
            Axis::linear("distance", "bytes"),
            Axis::linear("median response time", "ns"),
        );
        let picture = picture.draw("one read", Style::Dots, curve).mark(size.0 as f64, "read-ahead");
        session.conclude(if apart && last < limit && beyond > limit {
            Finding::found(parameter, size, confidence, evidence).with(picture)
        } else {
            Finding::undetermined(parameter, evidence).with(picture)
        });
        Ok(())
    }
}
