//! Finds the erase block of a device with shared log blocks: which pages begin a block.
//!
//! # Model
//! The first page of a block goes to a log block of its own, whose earlier content is merged (FAST, Lee et al., ACM
//! TECS 6(3), 2007, section 4). All other pages go to the shared log blocks and cost a page.
//!
//! # Method
//! 1. Writes alternate between the device's first page, which begins a block, and one page of each stripe, in
//!    ascending order.
//! 2. A page as slow as the first one begins a block of the first die. There is one in each erase block of all dies.
//! 3. Deferred merges stay deferred up to their limit, because every second write is a merge.
//!
//! # Invariants
//! - At least two multiples of the block are slow, and few pages elsewhere are.
//! - Behind a write buffer nothing is concluded.

use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::{Axis, Parameter, Picture, Style};
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::in_turn;
use crate::patterns::writes::{Buffer, apart, buffer, page_to_write, writes};
use crate::rule::Rule;
use crate::session::Session;

/// The stripes between two searches. Unit: stripes. Source: choice. Too many: the budget is used up; too few:
/// the search takes longer.
const STRIPES: u64 = 32;
/// The most stripes. Unit: stripes. Source: choice. Too many: the budget is used up; too few: large blocks
/// stay undetermined.
const STRIPES_MOST: u64 = 2048;
/// The fewest multiples of a block that are seen. Unit: multiples. Source: derivation: one has no distance to
/// another. Too many: large blocks stay undetermined; too few: one outlier is a block.
const MULTIPLES_LEAST: usize = 2;
/// The share of the multiples that are slow. Unit: share. Source: tuned. Too high: outliers hide the block;
/// too low: half of the block is reported.
const SLOW_SHARE: f64 = 0.75;
/// The share of the other stripes that may be slow. Unit: share. Source: tuned. Too high: a multiple is
/// reported; too low: outliers hide the block.
const OUTLIER_SHARE: f64 = 0.08;
/// The share of the write budget that the search takes. Unit: share. Source: choice. Too high: later probes
/// cannot write; too low: large blocks stay undetermined.
const WRITE_SHARE: f64 = 0.5;
/// The most multiples that confirm the block. Unit: multiples. Source: choice. Too many: the budget is used
/// up; too few: chance confirms it.
const MULTIPLES_AGAIN: u64 = 6;
/// The rule.
const SHOWN: Rule = Rule::strong("first pages of blocks");

/// Looks for the unit by pages that begin a block, and hands in it; whether there is one.
pub(super) fn hand_in_unit(session: &mut Session<'_, '_>) -> Result<bool, Halt> {
    let (page, row) = (page_to_write(session), session.known().superpage_size());
    let (Some(stripe), Buffer::None) = (session.known().whole_stripe(page), buffer(session)) else {
        return Ok(false);
    };
    // A unit is a whole number of rows.
    let stripe = row.filter(|row| row.0.is_multiple_of(stripe.0)).map_or(stripe, |row| row.max(stripe));
    let shortest =
        row.map_or(page * priors::ROWS_LEAST, |row| row * priors::ROWS_LEAST).0.div_ceil(stripe.0) as usize;
    let affordable = (session.writes_left().0 as f64 * WRITE_SHARE / (2 * page.0) as f64) as u64;
    let most = affordable.min(session.capacity().0 / stripe.0 / 2).min(STRIPES_MOST);
    // As many merges are deferred as can be.
    let first = writes(Location::Sequential, page, priors::MERGES_BEYOND, Bytes::ZERO, page);
    if if_affordable(session.run("first-page", &first))?.is_none() {
        return Ok(false);
    }
    let mut seen = Turns { page, costs: Vec::new(), merges: Vec::new() };
    while (seen.costs.len() as u64) < most {
        let begin = seen.costs.len() as u64 + 1;
        let count = STRIPES.min(most + 1 - begin);
        if !seen.look(session, stripe * begin, stripe, count)? {
            return Ok(false);
        }
        let Some(level) = seen.level() else { return Ok(false) };
        let Some(stripes) = period(&seen.costs, level, shortest) else { continue };
        let unit = stripe * stripes as u64;
        if seen.is_confirmed(session, unit, stripe, level)? {
            conclude(session, unit, &seen.costs, stripe);
            return Ok(true);
        }
        return Ok(false);
    }
    Ok(false)
}

/// Pages alternating with the device's first page.
struct Turns {
    page: Bytes,
    /// What they took, and what the first page took.
    costs: Vec<f64>,
    merges: Vec<f64>,
}

impl Turns {
    /// `count` pages from `at` on, at this distance; false without a budget for them.
    fn look(
        &mut self,
        session: &mut Session<'_, '_>,
        at: Bytes,
        distance: Bytes,
        count: u64,
    ) -> Result<bool, Halt> {
        let pages = writes(Location::Sequential, self.page, 2 * count, at, distance * count);
        let first = writes(Location::Sequential, self.page, count, Bytes::ZERO, self.page);
        let pattern = in_turn(apart(pages, distance), first);
        let samples = match session.run("beginnings", &pattern) {
            Err(Halt::Time | Halt::Budget { .. } | Halt::Misfit(_)) => return Ok(false),
            other => other?,
        };
        for sample in samples {
            let took = sample.response().0 as f64;
            if sample.offset == Bytes::ZERO { self.merges.push(took) } else { self.costs.push(took) }
        }
        Ok(true)
    }

    /// What takes longer begins a block, if the first page takes as long as merges do.
    fn level(&self) -> Option<f64> {
        let (merge, page) = (upper_median(&self.merges), upper_median(&self.costs));
        (merge >= priors::MERGE_RATIO * page).then_some((merge / 2.0).max((merge * page).sqrt()))
    }

    /// Whether pages at other multiples of a unit are slow again, and those a stripe before them and half-way are not.
    fn is_confirmed(
        &mut self,
        session: &mut Session<'_, '_>,
        unit: Bytes,
        stripe: Bytes,
        level: f64,
    ) -> Result<bool, Halt> {
        let count = (session.capacity().0 / unit.0).saturating_sub(1).min(MULTIPLES_AGAIN);
        let mut again = Turns { page: self.page, costs: Vec::new(), merges: Vec::new() };
        let half = Bytes(unit.0 / 2).round_down(stripe).max(stripe);
        for at in [unit, unit - stripe, half] {
            if !again.look(session, at, unit, count)? {
                return Ok(false);
            }
        }
        let (multiples, between) = again.costs.split_at((count as usize).min(again.costs.len()));
        let slow = |costs: &[f64]| costs.iter().filter(|&&cost| cost > level).count();
        Ok(multiples.len() >= MULTIPLES_LEAST && slow(multiples) + 1 >= multiples.len() && slow(between) <= 1)
    }
}

/// The stripes from one slow one to the next: each multiple is slow and few others are. The first cost is of the first stripe.
fn period(costs: &[f64], level: f64, shortest: usize) -> Option<usize> {
    let slow = |stripe: usize| costs.get(stripe - 1).is_some_and(|&cost| cost > level);
    let all = (1..=costs.len()).filter(|&stripe| slow(stripe)).count();
    let is_period = |&period: &usize| {
        let multiples = costs.len() / period;
        let hits = (1..=multiples).filter(|times| slow(times * period)).count();
        let others = (costs.len() - multiples).max(1) as f64;
        slow(period)
            && multiples >= MULTIPLES_LEAST
            && hits >= MULTIPLES_LEAST
            && hits as f64 >= SLOW_SHARE * multiples as f64
            && (all - hits) as f64 <= OUTLIER_SHARE * others
    };
    (shortest.max(1)..=costs.len() / MULTIPLES_LEAST).find(is_period)
}

fn conclude(session: &mut Session<'_, '_>, unit: Bytes, costs: &[f64], stripe: Bytes) {
    let evidence = format!(
        "Of single pages that are {stripe} apart, alternating with the device's first page, one in each {unit} costs a merge: it is the \
         first page of a block. Other multiples of {unit} show the same, and offsets between them do not.",
    );
    let points = costs.iter().zip(1u64..).map(|(&cost, at)| ((stripe * at).0 as f64, cost)).collect();
    let picture = Picture::new(
        "Single pages at ascending offsets, a stripe apart, alternating with the device's first page: those that begin a block are slow.",
        Axis::linear("address", "bytes"),
        Axis::logarithmic("response time", "ns"),
    );
    let finding = Rule::found(Parameter::EraseBlockSize, unit, SHOWN, evidence);
    let picture = picture.draw("writes", Style::Dots, points).mark(unit.0 as f64, "erase block");
    session.hand_in(finding.with(picture));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_distance_of_expensive_stripes_is_the_unit() {
        let costs = |unit: usize| -> Vec<f64> {
            let one = |at: usize| if at.is_multiple_of(unit) { 100.0 } else { 1.0 };
            (1..=130).map(|at| if at == 41 { 10.5 } else { one(at) }).collect()
        };
        for unit in [8, 24, 64] {
            assert_eq!(period(&costs(unit), 10.0, 2), Some(unit));
        }
        assert_eq!(period(&costs(100), 10.0, 2), None);
    }
}
