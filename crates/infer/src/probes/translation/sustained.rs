//! Writes single random pages to one die until nothing hides what they cost.
//!
//! # Model
//! A block map, and log blocks that belong to one data block, merge for nearly each random page. Three things hide a
//! merge at first: the write buffer, free log blocks, and deferred merges. So the pattern writes more pages to one
//! die than all three take. Of the last writes, most cost a merge, or few do: on a page map and with shared log
//! blocks, one write pays for many. A page on its die takes at most what filling the device took for the same amount,
//! times the dies and planes that were busy.
//!
//! A block map copies only the pages before the written one, log blocks copy all pages alike
//! ([`depths`](crate::signals::depths)).
//!
//! # Invariants
//! - Where the dies are not known, nothing is concluded: pages of different dies do not wait for each other.

use std::ops::RangeInclusive;

use crate::priors;
use crate::signals::depths::{DepthTrace, Depths, UNITS_LEAST};
use crate::signals::statistics::quantile;
use crate::thresholds;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::responses;
use crate::patterns::writes::{
    Buffer, apart, buffer, dies, dies_in_doubt, page_takes, page_to_write, shifted, writes,
};
use crate::rule::Rule;
use crate::session::Session;

/// The writes that count, behind those that a buffer hides: the fewest, and as many as the budget allows.
/// Unit: writes. Source: choice. Too many: the budget is used up; too few: ranks correlate by chance.
const WRITES: RangeInclusive<u64> = 96..=256;
/// The writes of a round, each in another stripe. Unit: writes. Source: choice. Too many: a long round cannot
/// be afforded; too few: offsets repeat early.
const WRITES_OF_ROUND: u64 = 32;
/// The pages by which each round moves: no neighbours, which leave a buffer together. Unit: pages. Source:
/// choice: odd. Too many: nothing; too few: neighbours form a multi-plane page.
const PAGES_APART: u64 = 3;
/// The addresses lie in this number of the shortest blocks. Unit: blocks. Source: choice. Too many:
/// neighbouring sizes fit equally, so that the search takes longer; too few: large blocks are not seen.
const BLOCKS: u64 = 2048;
/// The same where the dies are not known, so that the shortest block is that of one die. Unit: blocks.
/// Source: choice. Too many: the search takes longer; too few: blocks of many dies are not seen.
const BLOCKS_UNKNOWN: u64 = 8192;
/// The depth in a block counts where the usual write takes this many times a page on its die. Unit: ratio.
/// Source: tuned. Too high: block maps with small blocks are not seen; too low: noise is a depth.
const COPIES_RATIO: f64 = 2.0;
/// The rule of a unit that the depths of pages in it show.
const SHOWN: Rule = Rule::strong("depth in block");
/// The same of a unit whose half or double is nearly as likely.
const DEPTH_DOUBTFUL: Rule = Rule::likely("depth in block, little");

/// What single pages on one die cost in the end.
pub(super) struct Sustained {
    /// The median of the last writes, and their upper tenth, relative to the longest that a page takes on
    /// its die.
    usual: f64,
    slow: f64,
    /// Whether the usual one takes as long as a merge does at least.
    long: bool,
    /// What a page takes on its die at most, in nanoseconds.
    page_takes: f64,
    /// This many times as many dies, or planes of them, as are known there may be.
    more_dies: f64,
    /// The unit in which they cost the more, the deeper they lie.
    pub(super) depths: Option<Depths>,
    trace: DepthTrace,
}

/// Writes them; none where there is no budget for as many as show, or the dies are not known. `alone` is what a page takes in
/// sequence, where no buffer hides it.
pub(super) fn sustained(
    session: &mut Session<'_, '_>,
    alone: Option<f64>,
) -> Result<Option<Sustained>, Halt> {
    let (page, row, buffer) = (page_to_write(session), session.known().superpage_size(), buffer(session));
    let stripe = session.known().whole_stripe(page);
    let slot = stripe.unwrap_or(page);
    let pages_of_slot = (slot.0 / dies(session) / page.0).max(1);
    let shortest = row.map_or(page, |row| row.max(page)) * priors::ROWS_LEAST;
    let units = if row.is_some() { BLOCKS } else { BLOCKS_UNKNOWN };
    let window = (shortest * units).min(session.capacity()).round_down(slot);
    let buffered = buffer.most(session).0 / page.0;
    let enough = WRITES.start() + buffered;
    let count =
        (WRITES.end() + priors::MERGES_BEYOND + 2 * buffered).min(session.writes_left().0 / page.0 / 2);
    if count < enough || window < shortest.max(slot) * UNITS_LEAST {
        return Ok(None);
    }
    session.idle(priors::WRITES_DONE)?;
    let (mut addresses, mut costs) = (Vec::new(), Vec::new());
    for round in 0..count.div_ceil(WRITES_OF_ROUND) {
        let places = WRITES_OF_ROUND.min(count - round * WRITES_OF_ROUND).min(window.0 / slot.0);
        // What a buffer still holds would not leave it again: each round takes other pages.
        let random = writes(Location::Permutation, page, places, Bytes::ZERO, window);
        let pattern = shifted(apart(random, slot), page * (round * PAGES_APART % pages_of_slot));
        let Some(samples) = if_affordable(session.run("sustained", &pattern))? else {
            if (costs.len() as u64) < enough {
                return Ok(None);
            }
            break;
        };
        addresses.extend(samples.iter().map(|sample| sample.offset.0 as f64));
        costs.extend(responses(&samples));
    }
    let page_takes = page_takes(session, page, alone);
    // A quarter more was written than what is known of a buffer.
    let buffered = (buffer != Buffer::None).then_some(buffered as usize * 4 / 5);
    let trace = DepthTrace { addresses, costs, grain: page.0 as f64, window: window.0 as f64, buffered };
    // The second half is beyond all that hides merges.
    let late = &trace.costs[trace.costs.len() / 2..];
    let [usual, slow] = [0.5, 0.9].map(|share| quantile(late, share) / page_takes);
    let long = usual * page_takes >= priors::MERGE_LEAST;
    let more_dies = dies_in_doubt(session)[0] as f64;
    let depths = (usual >= COPIES_RATIO).then(|| trace.unit(shortest.0 as f64)).flatten();
    Ok((stripe.is_some() || depths.is_some()).then_some(Sustained {
        usual,
        slow,
        long,
        page_takes,
        more_dies,
        depths,
        trace,
    }))
}

impl Sustained {
    /// What the usual one of the last ones took.
    pub(super) fn took(&self) -> f64 {
        self.usual * self.page_takes
    }

    /// Whether nearly each page cost a merge.
    pub(super) fn merges(&self) -> bool {
        self.long && self.usual >= priors::MERGE_OF_FILL * self.more_dies
    }

    /// Whether few pages cost a merge, even if most of them went to logs that were open.
    pub(super) fn is_cheap(&self) -> bool {
        self.slow < COPIES_RATIO
    }

    /// What was seen.
    pub(super) fn evidence(&self) -> String {
        let deep = self.unit().map_or(String::new(), |unit| format!(" {}", unit.evidence));
        format!(
            "In a long run of random writes to one die, a write takes at most {:.1} x the time of the fill for the same amount, and one \
             write in ten {:.1} x or more.{deep}",
            self.usual, self.slow
        )
    }

    /// What it says of the erase block, where depths show one.
    pub(super) fn unit(&self) -> Option<Finding> {
        let Depths { unit, gain, beyond, delay } = self.depths?;
        let evidence = format!(
            "Single random writes cost more the further they are from the beginning of their {} (log-likelihood ratio to chance \
             {gain:.0}).",
            Bytes(unit as u64)
        );
        let points = self.trace.waited(delay).map(|(address, cost)| (address % unit, cost)).collect();
        let picture = Picture::new(
            "Single random pages, over their position in an erase block: a block map copies all pages before them.",
            Axis::linear("position in the erase block", "bytes"),
            Axis::linear("response time", "ns"),
        )
        .draw("writes", Style::Dots, points);
        let basis = if beyond >= thresholds::PERIOD_GAIN { SHOWN } else { DEPTH_DOUBTFUL };
        Some(Rule::found(Parameter::EraseBlockSize, Bytes(unit as u64), basis, evidence).with(picture))
    }
}
