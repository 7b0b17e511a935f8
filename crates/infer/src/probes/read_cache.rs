//! Finds the read cache, from repeated reads.
//!
//! # Model
//! A controller keeps the most recent reads and answers them without the flash. A footprint that is read repeatedly
//! in the same order is answered from the cache if it fits. If it does not fit, no read is answered: both
//! first-in-first-out and least-recently-used evict the one that is needed next. Data is kept in granules, such as
//! pages. So the size is the largest footprint that fits, in granules.
//!
//! # Method
//! 1. Two offsets are read alternately. If these reads are faster than first reads, something is cached.
//! 2. A cache of a single page shows in pairs of reads: the second one is fast if it reads the same page.
//! 3. Two offsets may be fast for other reasons. The register of a die may keep a page: so they lie on one die of any
//!    usual stripe. Their part of the map may be cached: then two dies serve reads in flight faster than one, which a
//!    cache does not.
//! 4. A look-up of the map takes as long as a read. So if more than half is saved, no read of the flash is left. Nor
//!    do a few neighbours evict each other's part of the map. If neither shows, the family of the translation layer
//!    decides.
//! 5. The footprint doubles until it does not fit, and bisection finds the size. Other offsets confirm it.
//!
//! # Invariants
//! - Each footprint lies in another region, so that what an earlier one left in the cache decides nothing.

mod footprints;
mod read_ahead;

use crate::priors;
use crate::signals::pictures::ranked;
use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::{Interval, mann_whitney};
use flashlab_analysis::inference::{Finding, Parameter, Picture};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::answers::no_cache::{ALPHA, FAST_MAX, is_faster, nothing};
use crate::answers::read_buffer::MAYBE_THE_MAP;
use crate::halt::Halt;
use crate::patterns::reads::{Walk, compare, how_many_times, in_order, room};
use crate::patterns::{in_turn, ios};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::{duration, times};
use footprints::{FootprintEnd, Footprints};
use read_ahead::{Kept, Repeated};

pub(crate) const PROBE: Probe = Probe {
    name: "read-cache",
    about: "repeated reads, and reads after a short sequential run: do a read cache and read-ahead answer them?",
    parameters: &[Parameter::ReadAheadSize],
    hands_in: &[Parameter::ReadBufferSize],
    write_share: 0.0,
};

/// Two offsets at this distance lie on one die: it is a whole number of stripes of up to 16 dies, but for 7,
/// 9, 11, 13 and 14, with chunks up to 64 KiB. Source: derivation: 15 x 16 x 64 KiB. Too large: they are in
/// different segment groups; too small: the registers of two dies look like a cache.
const SAME_DIE: Bytes = Bytes::mib(15);
/// The reads of each kind in the first comparison. Unit: reads. Source: choice. Too many: the probe takes
/// longer; too few: caches behind a slow link are not seen.
const READS: u64 = 800;
/// Reads of two dies take at most this share of the time of one die. Unit: share. Source: tuned. Too high:
/// noise denies a cache; too low: a cached map counts as a cache.
const TWO_DIES_SHARE: f64 = 0.92;
/// The neighbours whose part of the map is on one page of it. Unit: offsets. Source: tuned. Too high: a
/// cached map counts as a cache; too low: caches of few pages are denied.
const SAME_MAP_PAGE: u64 = 64;
/// The pairs of reads that show whether the second read is cached. Unit: pairs. Source: choice. Too many: the
/// probe takes longer; too few: outliers decide.
const PAIRS: u64 = 24;
/// The rule of a cache of one page, and where a register of the only die may keep it.
const SINGLE_PAGE: Rule = Rule::strong("single page");
const PAGE_OR_REGISTER: Rule = Rule::weak("single page or register");
/// The share of the time that the search for the size may take. Unit: share. Source: choice. Too high: later
/// probes have no time; too low: large caches stay undetermined.
const TIME_SHARE: f64 = 0.15;
/// The rule that something is kept where more is saved than is left.
const SAVED_MORE: Rule = Rule::strong("more saved than left");
/// And where no more is saved than is left.
const NOT_MUCH_SAVED: Rule = Rule::likely("little saved");

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let least =
        session.known().bytes(Parameter::ReadPageSize).unwrap_or(priors::WHOLE_PAGES).max(session.block());
    let apart = Bytes(session.capacity().0 / 512).round_down(least).min(priors::ROW_MOST);
    if apart < least {
        return Err(Halt::Misfit("it has too few offsets that are far enough apart".to_owned()));
    }
    // Near each other, as the reads that they are compared with, but for the first time.
    let middle = Bytes(session.capacity().0 / 2).round_down(apart);
    let offsets = READS.min(middle.0 / 2 / apart.0);
    let fresh = footprint(session, "fresh-reads", (middle, apart, offsets), 1)?;
    let mut probe = CacheProbe { apart, fresh, next: Bytes::ZERO };
    let repeated = probe.buffer(session)?;
    read_ahead::probe(session, &repeated)
}

/// What keeps a single page. A read is then fast directly after one of the same page, and slow after one of the next page.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PageKeeper {
    /// The controller.
    Cache,
    /// The register of each die. It keeps the page while another die is read; and it keeps a page of each plane.
    Register,
    /// One of both.
    CacheOrRegister,
}

impl PageKeeper {
    /// What keeps it, by reads that alternate between two dies, and reads that follow one of the next page.
    fn of_two_dies(dies: &[f64], next: &[f64]) -> PageKeeper {
        if is_faster(dies, next) { PageKeeper::Register } else { PageKeeper::Cache }
    }

    /// The finding that the page is cached, by reads after one of the same page and after one of the next; none of a register.
    fn finding(self, page: Bytes, [same, next]: [&[f64]; 2]) -> Option<Finding> {
        let rule = match self {
            PageKeeper::Cache => SINGLE_PAGE,
            PageKeeper::Register => return None,
            PageKeeper::CacheOrRegister => PAGE_OR_REGISTER,
        };
        let evidence = format!(
            "A read takes {} directly after one of the same page of {page}, and {} after one of the next page: the device keeps a single page.",
            duration(upper_median(same)),
            duration(upper_median(next)),
        );
        let picture = ranked(
            "Reads directly after a read of the same page, and of the next one: a cached page is read faster.",
            "reads",
            [("same page", same), ("next page", next)],
        );
        Some(Rule::found(Parameter::ReadBufferSize, page, rule, evidence).with(picture))
    }
}

struct CacheProbe {
    apart: Bytes,
    /// Reads of the flash.
    fresh: Vec<f64>,
    /// Where the next footprint lies.
    next: Bytes,
}

/// Reads of `rounds` passes over offsets, in descending order: no device reads ahead of that.
fn footprint(
    session: &mut Session<'_, '_>,
    name: &str,
    (offset, slot, offsets): (Bytes, Bytes, u64),
    rounds: u64,
) -> Result<Vec<f64>, Halt> {
    let mut pattern = ios(Mode::Read, Location::Ordered { incr: -1 }, session.block(), offsets * rounds);
    pattern.first.slot_size = Some(slot);
    pattern.first.target_offset = offset;
    pattern.first.target_size = Some(slot * offsets);
    Ok(in_order(&session.run(name, &pattern)?, 0))
}

impl CacheProbe {
    /// Reads of a footprint after it was read once. Each footprint lies elsewhere: of a buffer that gives up what came
    /// first, what it held before would decide what stays.
    fn again(
        &mut self,
        session: &mut Session<'_, '_>,
        slot: Bytes,
        offsets: u64,
        least: u64,
    ) -> Result<Vec<f64>, Halt> {
        let offset = self.elsewhere(session, slot * offsets);
        let rounds = 1 + least.div_ceil(offsets);
        Ok(footprint(session, "footprint", (offset, slot, offsets), rounds)?.split_off(offsets as usize))
    }

    /// Room for `length` bytes where nothing was read lately. The end of the device was written last, and may be in a
    /// write buffer.
    fn elsewhere(&mut self, session: &Session<'_, '_>, length: Bytes) -> Bytes {
        let length = length.round_up(self.apart);
        if (self.next + length).0 > session.capacity().0 / 8 * 7 {
            self.next = Bytes::ZERO;
        }
        self.next += length;
        self.next - length
    }

    /// Hands in the buffer.
    fn buffer(&mut self, session: &mut Session<'_, '_>) -> Result<Repeated, Halt> {
        let parameter = Parameter::ReadBufferSize;
        let pair = self.pair(session);
        let few = footprint(session, "footprint", (Bytes::ZERO, pair, 2), READS / 2 + 1)?.split_off(2);
        let (slow, fast) = (upper_median(&self.fresh), upper_median(&few));
        let evidence = format!(
            "Reading two offsets repeatedly takes {} each, reading other offsets {}.",
            duration(fast),
            duration(slow)
        );
        if !is_faster(&few, &self.fresh) {
            let finding = match self.single_page(session)? {
                Some(page) => page,
                None => nothing(session, parameter, [&self.fresh], &few, evidence).with(self.picture(&few)),
            };
            session.hand_in(finding);
            return Ok(Repeated { flash: few, kept: None });
        }
        if let Some(faster) = self.on_two_dies(session)? {
            let evidence = format!(
                "{evidence} With several reads in flight, two offsets take {} the time of one: the reads come from two dies, and \
                 not from a cache. They are faster for another reason, perhaps because the map of these addresses was cached.",
                times(faster.estimate)
            );
            let found = Rule::found(parameter, Bytes::ZERO, Rule::strong("two dies"), evidence);
            session.hand_in(found.with(self.picture(&few)));
            return Ok(Repeated { flash: few, kept: None });
        }
        let left = how_many_times(&few, &self.fresh);
        let granule = self.granule(session, fast, slow)?;
        let (offsets, finding) = match granule {
            Some(granule) => self.footprints(session, granule, &few)?.size(),
            None => (
                0,
                Finding::undetermined(
                    parameter,
                    format!("{evidence} The cached data has no clear granularity."),
                ),
            ),
        };
        let saved_more = left.low > 2.0;
        let from_memory = saved_more || (1..SAME_MAP_PAGE).contains(&offsets);
        let rule = if saved_more { SAVED_MORE } else { NOT_MUCH_SAVED };
        session.hand_in(if from_memory {
            finding
        } else {
            let evidence = format!(
                "{evidence} The ratio is {}, so that these reads may still come from the flash. Something else may have been \
                 cached, for example their part of the map.",
                times(left.estimate)
            );
            MAYBE_THE_MAP.hypothesis(parameter, evidence).with(self.picture(&few))
        });
        let kept = from_memory.then_some(Kept { granule, time: fast, rule });
        Ok(Repeated { flash: self.fresh.clone(), kept })
    }

    /// Repeated reads of two offsets, beside first reads.
    fn picture(&self, few: &[f64]) -> Picture {
        ranked(
            "Repeated reads and first reads: cached data is read faster.",
            "reads",
            [("two offsets, repeatedly", few), ("first reads", &self.fresh)],
        )
    }

    /// The distance of two offsets that no registers of dies keep together.
    fn pair(&self, session: &Session<'_, '_>) -> Bytes {
        let stripe = session.known().bytes(Parameter::StripeSize).unwrap_or(self.apart).max(Bytes(1));
        let most = Bytes((room(session).0 / 2).saturating_sub(session.block().0));
        let far = stripe * SAME_DIE.0.div_ceil(stripe.0);
        if far <= most { far } else { stripe * (most.0 / stripe.0).max(1) }
    }

    /// Whether two offsets at some distance are read faster than one, with several reads in flight.
    fn on_two_dies(&mut self, session: &mut Session<'_, '_>) -> Result<Option<Interval>, Halt> {
        let (depth, size) = (session.depth().min(8), session.block());
        if depth < 2 {
            return Ok(None);
        }
        let distances = (1..11).map(|power| Bytes::kib(1 << power)).filter(|&distance| distance > size);
        for distance in distances {
            let offset = self.elsewhere(session, distance * 2);
            let again = |offset| Walk { offset, slot: self.apart, size }.pattern(self.apart, 40, depth);
            let (one, other) = (again(offset), again(offset + distance));
            let figures = compare(session, "two-places", &[one.clone(), in_turn(one, other)], 8)?;
            let faster = how_many_times(&figures[0], &figures[1]);
            if faster.high < TWO_DIES_SHARE {
                return Ok(Some(faster));
            }
        }
        Ok(None)
    }

    /// The finding that a single page is cached, if so.
    fn single_page(&mut self, session: &mut Session<'_, '_>) -> Result<Option<Finding>, Halt> {
        let known = session.known();
        let Some(page) = known.bytes(Parameter::ReadPageSize).filter(|&page| page * 2 <= self.apart) else {
            return Ok(None);
        };
        let may_be_register = known.count(Parameter::PlanesReadAtOnce).is_none_or(|planes| planes == 1);
        let other_die = known.bytes(Parameter::ChunkSize);
        let last = Bytes(page.0.saturating_sub(session.block().0));
        let (same, next) = (self.second_of_pairs(session, last)?, self.second_of_pairs(session, page)?);
        if !is_faster(&same, &next) {
            return Ok(None);
        }
        let keeper = match other_die {
            _ if !may_be_register => PageKeeper::Cache,
            Some(chunk) => PageKeeper::of_two_dies(
                &footprint(session, "two-dies", (Bytes::ZERO, chunk, 2), PAIRS)?.split_off(2),
                &next,
            ),
            None => PageKeeper::CacheOrRegister,
        };
        Ok(keeper.finding(page, [&same, &next]))
    }

    /// Reads at offsets of their own, each directly after a read this far behind it: nothing follows anything.
    fn second_of_pairs(&mut self, session: &mut Session<'_, '_>, distance: Bytes) -> Result<Vec<f64>, Halt> {
        let length = self.apart * PAIRS;
        let offset = self.elsewhere(session, length);
        let place =
            |offset| Walk { offset, slot: self.apart, size: session.block() }.pattern(length, 2 * PAIRS, 1);
        let pairs = in_turn(place(offset + distance), place(offset));
        Ok(in_order(&session.run("same-granule", &pairs)?, 0).into_iter().skip(1).step_by(2).collect())
    }

    /// How far the kept reaches around a place: the nearest place, a power of two away, that is not read fast after it.
    fn granule(
        &mut self,
        session: &mut Session<'_, '_>,
        fast: f64,
        slow: f64,
    ) -> Result<Option<Bytes>, Halt> {
        let limit = (fast * slow).sqrt();
        let (mut granule, mut distance) = (None, session.block());
        while distance < self.apart {
            match (upper_median(&self.second_of_pairs(session, distance)?) < limit, granule) {
                (false, None) => granule = Some(distance),
                (true, Some(_)) => return Ok(None),
                _ => {}
            }
            distance = distance * 2;
        }
        Ok(granule)
    }

    /// Reads of larger and larger footprints, until one is not kept, and of those between.
    fn footprints(
        &mut self,
        session: &mut Session<'_, '_>,
        granule: Bytes,
        few: &[f64],
    ) -> Result<Footprints, Halt> {
        let (fast, slow) = (upper_median(few), upper_median(&self.fresh));
        // Not side by side: no read follows another.
        let slot = granule * 2;
        let affordable = session.time_left().0 as f64 * TIME_SHARE / 28.0 / slow.max(1.0);
        let most = (session.capacity().0 / 4 / slot.0).min(affordable as u64);
        let mut curve = Vec::new();
        let (mut fits, mut beyond) = (1, None);
        while beyond.is_none() && fits * 2 <= most {
            let again = self.again(session, slot, fits * 2, 40)?;
            curve.push(((granule * (fits * 2)).0 as f64, upper_median(&again)));
            let slower = mann_whitney(&again, few).p_above < ALPHA && upper_median(&again) * FAST_MAX > fast;
            if slower { beyond = Some((fits * 2, upper_median(&again))) } else { fits *= 2 }
        }
        let Some((mut more, slow)) = beyond else {
            return Ok(Footprints { granule, fast, fits, curve, end: None });
        };
        let limit = (slow * fast).sqrt();
        while more - fits > 1 {
            let middle = (fits + more) / 2;
            let time = upper_median(&self.again(session, slot, middle, 24)?);
            curve.push(((granule * middle).0 as f64, time));
            if time < limit { fits = middle } else { more = middle }
        }
        // Elsewhere, and otherwise spaced: what fits is kept, and what is one granule more, or at least a half, is not.
        let mut keeps = |offsets: u64| -> Result<bool, Halt> {
            Ok(upper_median(&self.again(session, granule * 3, offsets, 24)?) < limit)
        };
        let is_exact = keeps(fits)? && !keeps(fits + 1)?;
        let is_rough = is_exact || (keeps((fits * 4 / 5).max(1))? && !keeps((fits * 3 / 2).max(fits + 4))?);
        Ok(Footprints { granule, fast, fits, curve, end: Some(FootprintEnd { slow, is_exact, is_rough }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of about this time, with a little scatter.
    fn reads(time: f64) -> Vec<f64> {
        (0..PAIRS).map(|read| time * (1.0 + 0.01 * (read * 7 % 11) as f64)).collect()
    }

    #[test]
    fn a_page_that_stays_fast_while_another_die_is_read_is_in_a_register() {
        let (same, next) = (reads(20e3), reads(60e3));
        let rule = |keeper: PageKeeper| {
            let finding = keeper.finding(Bytes::kib(4), [&same, &next])?;
            assert_eq!(finding.number(), Some(4096.0), "{}", finding.evidence);
            finding.rule
        };
        assert_eq!(rule(PageKeeper::of_two_dies(&same, &next)), None);
        let of_cache = rule(PageKeeper::of_two_dies(&reads(60e3), &next));
        assert_eq!(of_cache.as_deref(), Some("read_buffer_size/single page"));
        let open = rule(PageKeeper::CacheOrRegister);
        assert_eq!(open.as_deref(), Some("read_buffer_size/single page or register"));
    }
}
