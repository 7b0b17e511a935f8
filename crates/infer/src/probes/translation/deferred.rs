//! Measures the work that single-page writes leave for later.
//!
//! # Model
//! A device that defers merges answers a write as if it cost one page. It does a part of its backlog before each
//! later request to the same die, also before reads. No affordable number of writes fills a large backlog, but every
//! backlog is completed at some time.
//!
//! # Method
//! 1. The device is idle until earlier backlogs are complete.
//! 2. A few offsets are read once, so that their part of the map is in memory: writing back a map delays reads as
//!    well.
//! 3. Random pages are written to one die. Pages of the same die are then read until reads are as fast as before.
//! 4. The additional time of all writes and reads is the cost of the writes: a few pages each on a page map, else a
//!    merge each.
//! 5. The same for one page repeatedly and for the device's first page: what these defer distinguishes the families,
//!    as in [`crate::probes::translation`].
//!
//! # Invariants
//! - Where the dies are not known, nothing is concluded: the backlog of one die does not delay another one.

use std::ops::RangeInclusive;

use crate::priors;
use crate::signals::statistics::{mean, upper_median};
use flashlab_analysis::inference::Family;
use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Location, Pattern};

use crate::halt::{Halt, if_affordable};
use crate::patterns::writes::{apart, page_takes, page_to_write, place, shifted, writes};
use crate::patterns::{ios, responses};
use crate::rule::Rule;
use crate::session::Session;

/// The writes of a pattern: more than a device defers for one collected block. Unit: writes. Source: tuned.
/// Too many: the backlog takes minutes; too few: one collection looks like merges.
const WRITES: u64 = 64;
/// The reads of a round after the writes, and all rounds together. Unit: reads. Source: choice. Too many: the
/// probe takes longer; too few: the backlog is not complete.
const READS: RangeInclusive<u64> = 64..=8192;
/// The offsets that are read: more than a read cache holds. Unit: offsets. Source: choice. Too many: the
/// first reads take longer; too few: a read cache answers.
const OFFSETS: u64 = 1024;
/// The backlog is complete once reads take at most this many times what they took before. Unit: ratio.
/// Source: tuned. Too high: the end of the backlog is missed; too low: drift keeps it open.
const USUAL_RATIO: f64 = 1.15;
/// An offset whose writes defer at least this share of what others do defers the same work. Unit: share.
/// Source: tuned. Too high: a collection counts as log blocks; too low: log blocks count as a collection.
const ALIKE_SHARE: f64 = 0.25;
/// The rule of a family that what is deferred shows.
pub(super) const DEFERRED: Rule = Rule::likely("deferred work");

/// What single pages cost with all that they leave to be done, relative to what a page takes on its die at most.
pub(super) struct Deferred {
    random: f64,
    first: f64,
    /// The family that this shows, where there are merges.
    pub(super) family: Option<Family>,
}

/// Writes pages and reads until all is done that they left; none where that is not affordable, or the dies are not known.
pub(super) fn deferred(session: &mut Session<'_, '_>, alone: f64) -> Result<Option<Deferred>, Halt> {
    let page = page_to_write(session);
    let Some(stripe) = session.known().whole_stripe(page) else { return Ok(None) };
    let page_takes = page_takes(session, page, Some(alone));
    let window = session.capacity().round_down(stripe);
    let random = apart(writes(Location::Random, page, WRITES, Bytes::ZERO, window), stripe);
    let again = |spot| writes(Location::Sequential, page, WRITES, spot, page);
    let spot = place(session, 0.53, stripe);
    let Some(random) = cost(session, "deferred-anywhere", &random, Bytes::ZERO)? else { return Ok(None) };
    let Some(first) = cost(session, "deferred-first", &again(Bytes::ZERO), Bytes::ZERO)? else {
        return Ok(None);
    };
    let is_merge = |cost: f64| cost >= priors::MERGE_LEAST && cost >= priors::BLOCK_MERGE_RATIO * page_takes;
    let family = if is_merge(random) {
        let Some(here) = cost(session, "deferred-here", &again(spot), spot)? else { return Ok(None) };
        // Where all pages defer about as much, it is no merge of one kind of them.
        (here.max(first) < ALIKE_SHARE * random).then_some(Family::LogBlock)
    } else {
        // Where all pages cost about as much, it is collecting.
        (is_merge(first) && first >= priors::MERGE_RATIO * random).then_some(Family::SharedLogBlock)
    };
    Ok(Some(Deferred { random: random / page_takes, first: first / page_takes, family }))
}

/// What each of the writes costs with all that is done later; none where they are not affordable. What is read lies on the die of the
/// place `die`.
fn cost(
    session: &mut Session<'_, '_>,
    name: &str,
    pattern: &Pattern,
    die: Bytes,
) -> Result<Option<f64>, Halt> {
    let page = page_to_write(session);
    let Some(stripe) = session.known().whole_stripe(page) else { return Ok(None) };
    let shift = Bytes(die.0 % stripe.0);
    let offsets = ((session.capacity() - shift).0 / stripe.0).min(OFFSETS);
    if offsets == 0 {
        return Ok(None);
    }
    let of_die = |location, count| {
        let reads = ios(Mode::Read, location, page, count).on_target(Bytes::ZERO, stripe * offsets);
        shifted(apart(reads, stripe), shift)
    };
    let reads = of_die(Location::Random, *READS.start());
    if if_affordable(session.idle(priors::BACKLOG_DONE))?.is_none() {
        return Ok(None);
    }
    let mut times = |name, pattern: &Pattern| {
        let samples = if_affordable(session.run(name, pattern))?;
        Ok::<_, Halt>(samples.map(|samples| responses(&samples)))
    };
    if times("reads-first", &of_die(Location::Sequential, offsets))?.is_none() {
        return Ok(None);
    }
    let Some(before) = times("reads-before", &reads)? else { return Ok(None) };
    let Some(written) = times(name, pattern)? else { return Ok(None) };
    let (usual, mut took) = (mean(&before), written.iter().sum::<f64>());
    for _ in 0..READS.end() / READS.start() {
        let Some(after) = times("reads-after", &reads)? else { return Ok(None) };
        took += after.iter().sum::<f64>() - usual * *READS.start() as f64;
        if upper_median(&after) <= USUAL_RATIO * upper_median(&before) {
            return Ok(Some(took / WRITES as f64));
        }
    }
    // Reads that stay slow are slow for another reason.
    Ok(None)
}

impl Deferred {
    /// What was seen.
    pub(super) fn evidence(&self) -> String {
        format!(
            "Deferred work makes later reads wait. With that time added, {WRITES} random pages of one die take at most {:.1} x the time \
             of the fill for the same amount, and {WRITES} writes to the first page {:.1} x.",
            self.random, self.first
        )
    }
}
