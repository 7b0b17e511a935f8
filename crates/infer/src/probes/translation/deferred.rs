//! What single pages leave to be done later.
//!
//! # Model
//! A device that defers merges answers a write as if it cost a page, and does a part of what it defers before each of the next requests
//! of the same die, reads among them. Where it may defer many merges, no affordable number of writes makes it do them at once; but
//! what is deferred is done some time. So after idle time that is long enough for what was deferred before, single pages are written anywhere on
//! one die, and then pages of the same die are read, until they take what they took before. What all of this took longer is
//! what the writes cost: a few pages each where every page may lie anywhere, even if blocks are collected later, and a merge each where not.
//!
//! Pages at one place, and the device's first page, are looked at in the same way then: what they defer distinguishes the families as in
//! [`crate::probes::translation`].
//!
//! A map of which only a part is in memory is written back when reads reclaim blocks for other parts of it. So a few places only are read,
//! and all of them once before.
//!
//! # Invariants
//! - nothing is concluded where the dies are not known: what one die defers does not slow down another one.

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

/// Writes: more than a device defers of one collected block for, so that collecting is seen as what it is for each page.
const WRITES: u64 = 64;
/// Reads at a time, and the most.
const READS: u64 = 64;
const READS_MOST: u64 = 8192;
/// Places that are read: more than a buffer for reads holds.
const PLACES: u64 = 1024;
/// Reads take what they took before up to this factor.
const USUAL: f64 = 1.15;
/// A place whose writes defer so large a part of what others do defers the same work as well: logs are merged for one in many writes.
const ALIKE: f64 = 0.25;
/// The rule of a family that what is deferred shows.
pub(super) const DEFERRED: Rule = Rule::likely("deferred work");

/// What single pages cost with all that they leave to be done, relative to what a page takes on its die at most.
pub(super) struct Deferred {
    anywhere: f64,
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
    let anywhere = apart(writes(Location::Random, page, WRITES, Bytes::ZERO, window), stripe);
    let again = |spot| writes(Location::Sequential, page, WRITES, spot, page);
    let spot = place(session, 0.53, stripe);
    let Some(anywhere) = cost(session, "deferred-anywhere", &anywhere, Bytes::ZERO)? else { return Ok(None) };
    let Some(first) = cost(session, "deferred-first", &again(Bytes::ZERO), Bytes::ZERO)? else {
        return Ok(None);
    };
    let is_merge = |cost: f64| cost >= priors::MERGE_LEAST && cost >= priors::BLOCK_MERGE_RATIO * page_takes;
    let family = if is_merge(anywhere) {
        let Some(here) = cost(session, "deferred-here", &again(spot), spot)? else { return Ok(None) };
        // Where all pages defer about as much, it is no merge of one kind of them.
        (here.max(first) < ALIKE * anywhere).then_some(Family::LogBlock)
    } else {
        // Where all pages cost about as much, it is collecting.
        (is_merge(first) && first >= priors::MERGE_RATIO * anywhere).then_some(Family::SharedLogBlock)
    };
    Ok(Some(Deferred { anywhere: anywhere / page_takes, first: first / page_takes, family }))
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
    let places = ((session.capacity() - shift).0 / stripe.0).min(PLACES);
    if places == 0 {
        return Ok(None);
    }
    let of_die = |location, count| {
        let reads = ios(Mode::Read, location, page, count).on_target(Bytes::ZERO, stripe * places);
        shifted(apart(reads, stripe), shift)
    };
    let reads = of_die(Location::Random, READS);
    if if_affordable(session.idle(priors::BACKLOG_DONE))?.is_none() {
        return Ok(None);
    }
    let mut times = |name, pattern: &Pattern| {
        let samples = if_affordable(session.run(name, pattern))?;
        Ok::<_, Halt>(samples.map(|samples| responses(&samples)))
    };
    if times("reads-first", &of_die(Location::Sequential, places))?.is_none() {
        return Ok(None);
    }
    let Some(before) = times("reads-before", &reads)? else { return Ok(None) };
    let Some(written) = times(name, pattern)? else { return Ok(None) };
    let (usual, mut took) = (mean(&before), written.iter().sum::<f64>());
    for _ in 0..READS_MOST / READS {
        let Some(after) = times("reads-after", &reads)? else { return Ok(None) };
        took += after.iter().sum::<f64>() - usual * READS as f64;
        if upper_median(&after) <= USUAL * upper_median(&before) {
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
            self.anywhere, self.first
        )
    }
}
