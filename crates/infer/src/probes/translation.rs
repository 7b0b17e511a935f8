//! Finds the family of the translation layer from the patterns of single-page writes that cost a merge.
//!
//! # Model
//! A merge copies an erase block and takes tens to hundreds of times as long as a page, `1` in the table.
//!
//! | family | rewriting one page | rewriting the device's first page | one die, different regions | uniformly random, all dies |
//! | --- | --- | --- | --- | --- |
//! | block (writes that continue a block only) | merge | merge | merge | merge |
//! | log-block (each log block belongs to one data block) | 1 | 1 | merge | merge |
//! | shared log-block | 1 | merge | 1 | 1, and more than a merge when the log blocks are full |
//! | page | 1 | 1 | 1 | up to about 10: garbage collection (write amplification) |
//!
//! - A shared log block is slow only when all of them are full. Filling them takes more writes than the budget has.
//!   But the first page of a block goes to a log block of its own, whose earlier content is merged (FAST, Lee et al.,
//!   ACM TECS 6(3), 2007, section 4). The device's first page begins a block.
//! - Log blocks that belong to one data block are fast until all of them are allocated. So random writes count only
//!   after more writes than a device has log blocks.
//! - A device may defer a merge until its die is idle. So the patterns keep to one die: offsets that are a multiple
//!   of 24 MiB apart lie on the same die of most stripes.
//!
//! # Method
//! 1. If a flush waits for the write buffer, each write is flushed ([`Session::look_through`]). Otherwise the mean
//!    counts, after as many writes as the buffer holds, and only patterns on one die are compared.
//! 2. `family_costs` measures the patterns of the table. A write buffer may keep one page for ever: then more pages
//!    than it holds are rewritten in one region, and the first page alternates with writes that evict it.
//! 3. Unless no pattern may contain a merge, `sustained` writes random pages to one die until nothing hides their
//!    cost. If the cost grows with the depth in a block, it is a block map.
//! 4. On a page map, `map_cache` looks for a map on the flash, and `deferred` for merges that later reads wait for.
//! 5. `orders` distinguishes a merge from a seek, and a block map from log blocks.
//! 6. `first_pages` and `log_allocations` find the erase block.
//!
//! # Invariants
//! - Between two patterns the device is idle, so that none pays for what another one deferred.
//! - A cost between the two levels makes no answer clear, however significant the difference is.

mod deferred;
mod family_costs;
mod first_pages;
pub(super) mod log_allocations;
mod map_cache;
mod orders;
mod sustained;

use crate::priors;
use crate::signals::map_look_ups::MapCache;
use flashlab_analysis::inference::{Family, Finding, Parameter};

use crate::answers::erase_block;
use crate::answers::read_buffer::conclude_buffer;
use crate::caps;
use crate::halt::Halt;
use crate::patterns::writes::{dies_in_doubt, page_on_die};
use crate::probe::Probe;
use crate::rule::{FIRM, Rule};
use crate::session::Session;
use crate::words::duration;
use deferred::{DEFERRED, deferred};
use family_costs::FamilyCosts;
use first_pages::hand_in_unit;
use log_allocations::allocations;
use map_cache::look_for_map_cache;
use orders::orders;
use sustained::{Sustained, sustained};

pub(crate) const PROBE: Probe = Probe {
    name: "translation",
    about: "single pages in sequence, repeatedly to one offset, and at random: which of them cost a merge?",
    parameters: &[Parameter::TranslationFamily, Parameter::ReadBufferSize],
    hands_in: &[],
    write_share: 0.06,
};

/// Random writes on all dies that take up to this many times sequential ones cost garbage collection, and no
/// merge each. Unit: ratio. Source: tuned. Too high: merges of small blocks count as garbage collection; too
/// low: full devices count as merging.
const COLLECTION_RATIO: f64 = 9.0;
/// Writes in different regions of one die that take this many times the others are slow, though no merge.
/// Unit: ratio. Source: tuned. Too high: seeks are overlooked; too low: jitter makes a page map doubtful.
const SLOW_REGIONS_RATIO: f64 = 1.5;
/// The rule of a page map if it is not known that whole pages were written: each write may then merge a small
/// block.
const UNKNOWN_PAGE: Rule = Rule::likely("unknown page");
/// A map on the flash, by reads whose part of the map was cached or not.
const MAP_CACHE: Rule = Rule::strong("map cache");
/// The rule of shared logs that were seen to be full.
const LOGS_SEEN: Rule = Rule::strong("full shared logs");
/// Their rule where pages that begin a block were seen to cost a merge.
const BEGINNINGS_SEEN: Rule = Rule::strong("first pages of blocks");
/// And where only the device's first page was.
const FIRST_ALONE: Rule = Rule::likely("first page alone");
/// The rule of merges that log-block allocations show as well.
const SHOWN: Rule = Rule::likely("log-block allocations");
/// The rule of a block map whose writes cost the more, the deeper they lie in their block.
const IN_ORDER: Rule = Rule::strong("depth in block");
/// The rules of log blocks if nearly each page costs a merge that copies all pages alike. Other patterns say
/// the same, say nothing of it, or say that pages have to be in order.
const ALIKE: [Rule; 3] = [
    Rule::strong("each page merges, twice"),
    Rule::strong("each page merges"),
    Rule::weak("each page merges, against order"),
];
/// The rule that nothing is merged where other patterns are slow, and few pages on one die are.
const REFUTED: Rule = Rule::weak("merges refuted");
/// What nothing hides.
const VISIBLE: Rule = Rule::strong("visible");
/// The rules of a page map whose pages are slow for an unknown reason, of a block map that only shows in
/// descending pages, and of merges that may be seeks.
const SLOW: Rule = Rule::likely("slow pages");
const NOT_IN_ANY_ORDER: Rule = Rule::strong("descending pages");
const SEEK: Rule = Rule::weak("seek");
/// The rule of a family that was not looked at more closely.
const UNSEEN: Rule = Rule::weak("first look");
/// The rule of anything that SLC cells may have taken: what lies behind them may be mapped in another way.
const FAST: Rule = Rule::likely("SLC cache");

/// A level: as fast as in sequence, or a merge, and whether that is clear.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    merges: bool,
    clear: bool,
}

/// Where a ratio lies that is at most `cheap`, or at least `merge`.
fn level(ratio: f64, cheap: f64, merge: f64) -> Level {
    Level { merges: ratio > (cheap * merge).sqrt(), clear: ratio <= cheap || ratio >= merge }
}

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    session.look_through();
    conclude_family(session)?;
    conclude_buffer(session);
    Ok(())
}

fn conclude_family(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let parameter = Parameter::TranslationFamily;
    if let Some(logs) = session.provisional(Parameter::OpenBlocks) {
        return conclude_shared_logs(session, logs);
    }
    let seen = FamilyCosts::measure(session)?;
    let mut evidence = seen.evidence();
    let (mut family, mut basis) = seen.family();
    basis = basis.min(seen.visible());
    // Where a closer look fails, this remains.
    session.hand_in(Rule::found(parameter, family, basis.min(UNSEEN), evidence.clone()).with(seen.picture()));
    let most = if session.known().has_slc_cache() { FAST } else { VISIBLE };
    let mut apart_cost = seen.apart;
    let takes_long = seen.takes_long(session);
    let merges_nothing = seen.unbuffered
        && !takes_long
        && !seen.is_slow_apart()
        && basis.is_strong()
        && matches!(family, Family::Page | Family::SharedLogBlock);
    if !merges_nothing
        && let Some(sustained) = sustained(session, (seen.unbuffered && !seen.fast).then_some(seen.base))?
    {
        evidence = format!("{evidence} {}", sustained.evidence());
        (family, basis) = sustained.family((family, basis));
        apart_cost = apart_cost.max(sustained.took() / seen.base);
        if let Some(unit) = sustained.unit() {
            session.hand_in(unit);
            session.conclude(Rule::found(parameter, family, basis.min(most), evidence).with(seen.picture()));
            return Ok(());
        }
    }
    let may_be_page = family == Family::Page && seen.base < priors::PROGRAM_MOST;
    let map_cache = if may_be_page { Some(look_for_map_cache(session, seen.size)?) } else { None };
    // A map on the flash is written back when it has to reclaim blocks, which is no merge.
    let has_map_cache = matches!(map_cache, Some((MapCache::Found, _)));
    if may_be_page
        && !has_map_cache
        && !takes_long
        && let Some(found) = deferred(session, seen.base)?
    {
        evidence = format!("{evidence} {}", found.evidence());
        if let Some(other) = found.family {
            (family, basis) = (other, DEFERRED.min(seen.visible()));
        }
    }
    let before = basis;
    let may_seek;
    (family, basis, may_seek) = look_at_orders(session, &seen, apart_cost, (family, basis), &mut evidence)?;
    // With one log on each die, writes that alternate between two offsets allocate a log each time.
    let shown = if may_seek && family == Family::LogBlock { before } else { SHOWN };
    basis = look_at_units(session, (family, basis), shown)?.min(most);
    session.conclude(found(session, &seen, (family, basis), evidence, map_cache).with(seen.picture()));
    Ok(())
}

/// The rule of a family after a search for its erase block. Shared log blocks show it in the first pages of
/// blocks. Log blocks of one data block show it in allocations, with the rule `shown`.
fn look_at_units(
    session: &mut Session<'_, '_>,
    (family, basis): (Family, Rule),
    shown: Rule,
) -> Result<Rule, Halt> {
    match family {
        // The first page's die may be collecting for another reason.
        Family::SharedLogBlock if hand_in_unit(session)? => Ok(basis.max(BEGINNINGS_SEEN)),
        Family::SharedLogBlock => Ok(basis.min(FIRST_ALONE)),
        Family::Block | Family::LogBlock => {
            let Some(seen) = allocations(session)? else { return Ok(basis) };
            erase_block::hand_in_allocations(session, seen.finding());
            Ok(basis.max(shown))
        }
        _ => Ok(basis),
    }
}

/// The family; a page map in memory or on the flash, if its writes do not take so long that each may be a merge.
fn found(
    session: &Session<'_, '_>,
    seen: &FamilyCosts,
    (family, basis): (Family, Rule),
    evidence: String,
    map_cache: Option<(MapCache, String)>,
) -> Finding {
    let parameter = Parameter::TranslationFamily;
    match map_cache {
        _ if family != Family::Page => Rule::found(parameter, family, basis, evidence),
        Some(cached) => page_map(session, seen, basis, evidence, cached),
        None => {
            let evidence =
                format!("{evidence} But no flash page takes so long to write: each write may be a merge.");
            Finding::undetermined(parameter, evidence)
        }
    }
}

/// Concludes shared logs, which were seen to fill. Pages of many blocks were merged before one write: no other family does so.
fn conclude_shared_logs(session: &mut Session<'_, '_>, logs: Finding) -> Result<(), Halt> {
    // The logs show the pages of a block; how many dies share it, if these are known.
    if dies_in_doubt(session).len() > 1 {
        hand_in_unit(session)?;
    }
    let evidence = format!("{} All blocks share these log blocks.", logs.evidence);
    let rule = LOGS_SEEN.min(session.known().premise(Parameter::OpenBlocks));
    let found = Rule::found(Parameter::TranslationFamily, Family::SharedLogBlock, rule, evidence);
    session.conclude(found.seen_in(logs.picture));
    Ok(())
}

/// A page map, in memory or on the flash.
fn page_map(
    session: &Session<'_, '_>,
    seen: &FamilyCosts,
    rule: Rule,
    evidence: String,
    (cached, figures): (MapCache, String),
) -> Finding {
    let page = session.inference().get(Parameter::WritePageSize);
    let is_whole = page.is_some_and(|page| page.number().is_some() && page.confidence >= FIRM);
    let rule = if is_whole { rule } else { rule.min(UNKNOWN_PAGE) };
    let rule = if seen.takes_long(session) || seen.is_slow_apart() { rule.min(SLOW) } else { rule };
    let (family, rule) = match cached {
        MapCache::Found => (Family::DemandCachedPage, MAP_CACHE.min(rule)),
        MapCache::None => (Family::Page, rule),
        MapCache::Unclear(family) => (family, rule.min(Rule::weak("unclear map cache"))),
    };
    Rule::found(Parameter::TranslationFamily, family, rule, format!("{evidence} {figures}"))
}

/// The family and its rule after a look at orders, if it merges and no buffer hides them; and whether seeks may be what costs.
/// `apart_cost` is the cost of writes in different regions.
fn look_at_orders(
    session: &mut Session<'_, '_>,
    seen: &FamilyCosts,
    apart_cost: f64,
    (family, basis): (Family, Rule),
    evidence: &mut String,
) -> Result<(Family, Rule, bool), Halt> {
    let merges = matches!(family, Family::Block | Family::LogBlock);
    let orders = if merges && seen.unbuffered { orders(session, seen.base)? } else { None };
    let Some(orders) = orders else { return Ok((family, basis, false)) };
    *evidence = format!("{evidence} {}", orders.evidence());
    Ok(match () {
        () if orders.is_seek(apart_cost) => (family, basis.min(SEEK), true),
        () if orders.need_order(seen.in_place) => (Family::Block, basis.min(NOT_IN_ANY_ORDER), false),
        () => (family, basis, false),
    })
}

impl Sustained {
    /// The family, and its rule; `seen` is what other patterns show.
    fn family(&self, seen: (Family, Rule)) -> (Family, Rule) {
        let [twice, alone, contrary] = ALIKE;
        match seen {
            _ if self.depths.is_some() => (Family::Block, IN_ORDER),
            (Family::LogBlock, _) if self.merges() => (Family::LogBlock, twice),
            (Family::Block, _) if self.merges() => (Family::LogBlock, contrary),
            _ if self.merges() => (Family::LogBlock, alone),
            (Family::Block | Family::LogBlock, _) if self.is_cheap() => (Family::Page, REFUTED),
            _ => seen,
        }
    }
}

impl FamilyCosts {
    /// The costs of all patterns, in words.
    fn evidence(&self) -> String {
        format!(
            "Sequential writes of {} take {}. Relative to that, repeated writes to one offset take {:.1} x, to the device's first page \
             {:.1} x, and to different blocks of one die {:.1} x. Random writes with many in flight take {:.1} x the time of sequential \
             ones.",
            self.size,
            duration(self.base),
            self.in_place,
            self.first,
            self.apart,
            self.random,
        )
    }

    /// What limits the family: what a buffer hides was not seen.
    fn visible(&self) -> Rule {
        match (self.unbuffered, self.kept) {
            (true, _) if self.fast => FAST,
            (true, _) => VISIBLE,
            (false, false) => Rule::likely("behind a buffer"),
            (false, true) => Rule::likely("kept in a buffer"),
        }
    }

    /// Whether a page takes so long in sequence that each may be a merge.
    fn takes_long(&self, session: &Session<'_, '_>) -> bool {
        let filled = page_on_die(session, self.size);
        self.base >= priors::PROGRAM_MOST
            || self.base >= priors::MERGE_LEAST && self.base >= priors::MERGE_OF_FILL * filled
    }

    /// Whether pages in different regions take longer than sequential and rewritten ones, but no merge.
    fn is_slow_apart(&self) -> bool {
        self.apart >= SLOW_REGIONS_RATIO * self.in_place.max(self.dies)
    }

    /// The family, a page map kept on the flash counting as a page map, and its rule.
    fn family(&self) -> (Family, Rule) {
        // Behind a buffer a page may seem to cost next to nothing, and what is many times as much no merge.
        let at_first = match self.first * self.base >= priors::MERGE_LEAST {
            true => level(self.first / self.in_place.max(1e-9), priors::NO_MERGE_RATIO, priors::MERGE_RATIO),
            false => Level { merges: false, clear: true },
        };
        let apart = level(self.apart / self.in_place.max(1e-9), priors::NO_MERGE_RATIO, priors::MERGE_RATIO);
        let again = level(self.in_place, priors::NO_MERGE_RATIO * self.dies, priors::MERGE_RATIO * self.dies);
        let busy = level(self.random, COLLECTION_RATIO, priors::BLOCK_MERGE_RATIO);
        // If rewriting a page costs a merge, so do pages in different regions, unless a buffer hides it.
        let far =
            !level(self.in_place / self.apart.max(1e-9), priors::NO_MERGE_RATIO, priors::MERGE_RATIO).merges;
        let beyond_dies = self.unbuffered || self.in_place >= priors::MERGE_RATIO * priors::DIES_USUAL as f64;
        let block = again.merges && far && (self.random > priors::MERGE_RATIO || beyond_dies);
        // A buffer, or a device that gives a page that is written again a new block, makes one place fast. Shared logs make
        // places far apart fast as well.
        let block_but_again = at_first.merges && apart.merges && busy.merges;
        // Collecting on one die alone is slow as well, but not if it costs next to nothing on all of them.
        // Deferred merges are done while other dies work, so that random writes may cost little.
        let log =
            apart.merges && (busy.merges || self.unbuffered && self.random > priors::NO_MERGE_RATIO / 1.2);
        // Behind a buffer a log that is merged when it is full costs its die a few pages for each.
        let apart_cost = (2.0 * priors::MERGE_RATIO).max(priors::NO_MERGE_RATIO * self.dies);
        let everywhere = self.in_place >= apart_cost && self.apart >= priors::MERGE_RATIO && busy.merges;
        let all = |levels: &[Level], clear, unclear| {
            if levels.iter().all(|level| level.clear) { Rule::strong(clear) } else { Rule::weak(unclear) }
        };
        match () {
            () if block_but_again && !block => (Family::Block, Rule::weak("all but one place")),
            () if at_first.merges && !block => {
                (Family::SharedLogBlock, all(&[again, at_first], "first page", "first page, unclear"))
            }
            () if log => (
                Family::LogBlock,
                all(&[again, at_first, apart, busy], "blocks far apart", "blocks far apart, unclear"),
            ),
            // Deferred merges make different regions faster than one page, but not fast.
            () if everywhere => (Family::Block, Rule::weak("merges everywhere")),
            () if block => (Family::Block, all(&[again, apart, busy], "one place", "one place, unclear")),
            () if busy.merges && again.merges => (Family::Block, Rule::weak("one place and in parallel")),
            () if busy.merges => (Family::Page, Rule::weak("collection in parallel")),
            // Few writes may be fewer than there are logs, or merges that are deferred. A device without flash merges nothing
            // as well.
            () if self.few => (Family::Page, Rule::likely("few writes").capped(caps::NO_FLASH)),
            () => (
                Family::Page,
                all(&[again, at_first, apart, busy], "nothing merges", "nothing merges, unclear"),
            ),
        }
    }
}
