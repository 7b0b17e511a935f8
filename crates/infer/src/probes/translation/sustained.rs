//! Single pages anywhere on one die, for so long that nothing hides what they cost.
//!
//! # Model
//! A block map and logs of one block each merge a block for nearly each page that is written anywhere. A write buffer hides it
//! until it is full, logs until all are open, and deferred merges until their backlog is full. So more pages are written to one die
//! than all of these take, and the last ones decide: most of them cost a merge, or few do, as with a page map and with
//! shared logs, where some pay for many. What a page takes on its die is at most what filling the
//! device took for as much, times the dies and planes that it kept busy.
//!
//! Whether merges copy what lies before the page only, or all alike, distinguishes a block map from logs (`depths`).
//!
//! # Invariants
//! - nothing is concluded where the dies are not known: pages of several dies would not wait for each other.

use crate::priors;
use crate::signals::depths::{DepthTrace, Depths, GAIN_LEAST, UNITS_LEAST};
use crate::signals::statistics::quantile;
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

/// Writes that are looked at, beside those that a buffer takes, and the fewest; and how many are done in a round.
const WRITES: u64 = 256;
const WRITES_LEAST: u64 = 96;
const ROUND: u64 = 32;
/// From round to round pages are this much further on: no neighbours, which leave a buffer together.
const APART: u64 = 3;
/// The addresses lie in this number of the shortest units; and in this number where the dies are not known.
const UNITS: u64 = 2048;
const UNITS_UNKNOWN: u64 = 8192;
/// A sawtooth counts where writes are as slow as this, as what copies makes them.
const COPIES: f64 = 2.0;
/// The rule of a unit that the depths of pages in it show.
const SHOWN: Rule = Rule::strong("depth in block");
/// The same of a unit whose half or double is nearly as likely.
const DEPTH_DOUBTFUL: Rule = Rule::likely("depth in block, little");

/// What single pages on one die cost in the end.
pub(super) struct Sustained {
    /// The usual one of the last ones, and the one that a tenth of them reach, relative to what a page takes on its die at
    /// most.
    usual: f64,
    expensive: f64,
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
    let (page, row, buffer) = (page_to_write(session), session.known().row_of_all_dies(), buffer(session));
    let stripe = session.known().whole_stripe(page);
    let slot = stripe.unwrap_or(page);
    let pages_of_slot = (slot.0 / dies(session) / page.0).max(1);
    let shortest = row.map_or(page, |row| row.max(page)) * priors::ROWS_LEAST;
    let units = if row.is_some() { UNITS } else { UNITS_UNKNOWN };
    let window = (shortest * units).min(session.capacity()).round_down(slot);
    let held = buffer.most(session).0 / page.0;
    let enough = WRITES_LEAST + held;
    let count = (WRITES + priors::MERGES_BEYOND + 2 * held).min(session.writes_left().0 / page.0 / 2);
    if count < enough || window < shortest.max(slot) * UNITS_LEAST {
        return Ok(None);
    }
    session.idle(priors::WRITES_DONE)?;
    let (mut addresses, mut costs) = (Vec::new(), Vec::new());
    for round in 0..count.div_ceil(ROUND) {
        let places = ROUND.min(count - round * ROUND).min(window.0 / slot.0);
        // What a buffer still holds would not leave it again: each round takes other pages.
        let anywhere = writes(Location::Permutation, page, places, Bytes::ZERO, window);
        let pattern = shifted(apart(anywhere, slot), page * (round * APART % pages_of_slot));
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
    let held = (buffer != Buffer::None).then_some(held as usize * 4 / 5);
    let trace = DepthTrace { addresses, costs, grain: page.0 as f64, window: window.0 as f64, held };
    // The second half is beyond all that hides merges.
    let late = &trace.costs[trace.costs.len() / 2..];
    let [usual, expensive] = [0.5, 0.9].map(|share| quantile(late, share) / page_takes);
    let long = usual * page_takes >= priors::MERGE_LEAST;
    let more_dies = dies_in_doubt(session)[0] as f64;
    let depths = (usual >= COPIES).then(|| trace.unit(shortest.0 as f64)).flatten();
    Ok((stripe.is_some() || depths.is_some()).then_some(Sustained {
        usual,
        expensive,
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
        self.expensive < COPIES
    }

    /// What was seen.
    pub(super) fn evidence(&self) -> String {
        let deep = self.unit().map_or(String::new(), |unit| format!(" {}", unit.evidence));
        format!(
            "In a long run of random writes to one die, a write takes at most {:.1} x the time of the fill for the same amount, and one \
             write in ten {:.1} x or more.{deep}",
            self.usual, self.expensive
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
        let basis = if beyond >= GAIN_LEAST { SHOWN } else { DEPTH_DOUBTFUL };
        Some(Rule::found(Parameter::EraseBlockSize, Bytes(unit as u64), basis, evidence).with(picture))
    }
}
