//! The erase block, from log-block allocations: single writes at descending offsets in equal steps.
//!
//! # Method
//! 1. Steps begin larger than any block and are halved. They are whole stripes, which lie on one die, as far as these
//!    are known; else three times a power of two pages, which do so for most numbers of dies.
//! 2. Each page is read back at once, which takes longer while its die is busy. Behind a full buffer the cost comes
//!    later, by as many writes as it holds.
//! 3. `likeliest_block` finds the block from the costs of all steps. No block has fewer than [`priors::ROWS_LEAST`]
//!    multi-plane pages of all dies: what comes back sooner are the dies.

use std::ops::RangeInclusive;

use crate::priors;
use crate::signals::log_allocations::{SteppedWrites, likeliest_block};
use crate::signals::pictures::folded;
use crate::thresholds;
use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::writes::{apart, buffer, page_to_write, shifted};
use crate::patterns::{in_turn, ios, with_reads};
use crate::rule::Rule;
use crate::session::Session;

/// The writes of a step, behind those that a buffer hides: the fewest, and as many as the budget allows.
/// Unit: writes. Source: choice. Too many: the budget is used up; too few: positions in a block have no mean.
const WRITES: RangeInclusive<u64> = 48..=128;
/// Behind a write buffer there are more writes, as many as it holds, up to this number. Unit: writes. Source:
/// choice. Too many: the budget is used up; too few: large buffers hide the allocations.
const BUFFERED_MOST: u64 = 512;
/// The first step is about this part of the device. Unit: part. Source: choice. Too small: a step has few
/// writes; too large: large blocks are not seen.
const FIRST_PART: u64 = 24;
/// The last step is this number of pages. Unit: pages. Source: derivation: neighbours share a multi-plane
/// page. Too many: small blocks are not seen; too few: multi-plane pages count as blocks.
const LAST_PAGES: u64 = 2;
/// The probe ends once this number of steps shows the same block. Unit: steps. Source: choice. Too many: the
/// budget is used up; too few: two long steps make a multiple.
const STEPS_ENOUGH: usize = 3;
/// The rule of a unit that log-block allocations show.
const SHOWN: Rule = Rule::strong("log-block allocations");

/// A unit that several steps showed.
pub(super) struct Allocations {
    pub unit: Bytes,
    /// The smallest step.
    pub step: Bytes,
    /// How much likelier than none it is, as a log-likelihood ratio.
    pub gain: f64,
    /// Address and cost of the writes of the steps that can show it.
    pub costs: Vec<(f64, f64)>,
}

/// Looks for log-block allocations with smaller and smaller steps.
pub(super) fn allocations(session: &mut Session<'_, '_>) -> Result<Option<Allocations>, Halt> {
    let (page, capacity) = (page_to_write(session), session.capacity());
    let least = session.known().whole_stripe(page).unwrap_or(page * 3);
    let most = capacity.0 / FIRST_PART / least.0.max(1);
    if most == 0 {
        return Ok(None);
    }
    let mut size = least * (1 << most.ilog2());
    let shortest = session.known().superpage_size().map_or(0.0, |row| (row * priors::ROWS_LEAST).0 as f64);
    // What is written comes out of a buffer as many writes later as it holds.
    let buffered = (buffer(session).most(session).0 / page.0).min(BUFFERED_MOST);
    let mut steps: Vec<SteppedWrites> = Vec::new();
    let mut found = None;
    while size >= page * LAST_PAGES {
        let count = (WRITES.end() + buffered).min(session.writes_left().0 / page.0 / 2);
        if count < WRITES.start() + buffered {
            break;
        }
        let Some(costs) = if_affordable(write_down(session, page, size, count))? else { break };
        let settled = costs.len().min(buffered as usize);
        steps.push(SteppedWrites::new(size, &costs[settled..], capacity));
        found = likeliest_block(&steps, shortest);
        let shown_by =
            |(unit, _)| steps.iter().filter(|step| step.gain(unit) >= thresholds::PART_GAIN).count();
        if found.map_or(0, shown_by) >= STEPS_ENOUGH {
            break;
        }
        size = Bytes(size.0 / 2).round_down(page);
    }
    let step = Bytes(steps.last().map_or(0.0, |step| step.size) as u64);
    let shown = |(unit, gain)| {
        let showing = steps.iter().filter(|step| step.shows(unit)).flat_map(|step| &step.costs);
        let costs = showing.map(|&(address, time)| (address, time.exp())).collect();
        Allocations {
            unit: priors::whole_block(Bytes(unit as u64).round_down(page), page),
            step,
            gain,
            costs,
        }
    };
    Ok(found.map(shown).filter(|seen| !is_segment(session, seen.unit)))
}

impl Allocations {
    /// What it shows of the erase block.
    pub(super) fn finding(&self) -> Finding {
        let evidence = format!(
            "Single writes at descending offsets, in steps of {} and more, cost the same at the same position in each {} \
             (log-likelihood ratio {:.0}).",
            self.step, self.unit, self.gain,
        );
        let picture = folded(
            "Single writes at descending offsets, each read back at once: the first in each erase block allocates a log block, which costs a merge.",
            "write and read",
            self.unit,
            &[("writes", self.costs.clone())],
        );
        Rule::found(Parameter::EraseBlockSize, self.unit, SHOWN, evidence).with(picture)
    }
}

/// Whether the unit is the span of a segment group, to which switching costs time as an allocation does.
fn is_segment(session: &Session<'_, '_>, unit: Bytes) -> bool {
    let span = session.known().number(Parameter::SegmentGroupSpan);
    span.is_some_and(|span| (unit.0 as f64 / span - 1.0).abs() <= thresholds::RIGHT)
}

/// Single pages down the addresses, each read at once, which takes longer while its die is busy: the address of each and what
/// both took.
fn write_down(
    session: &mut Session<'_, '_>,
    page: Bytes,
    step: Bytes,
    count: u64,
) -> Result<Vec<(f64, f64)>, Halt> {
    let offsets = (session.capacity().0 / step.0).saturating_sub(1).min(count).max(1);
    let part =
        Bytes(session.capacity().0 - (step * (offsets + 1)).0.min(session.capacity().0)).round_down(step);
    let mut costs: Vec<(f64, f64)> = Vec::new();
    for round in 0..count.div_ceil(offsets) {
        let ios_of = offsets.min(count - round * offsets);
        let down = |mode| {
            let ios = ios(mode, Location::Ordered { incr: -1 }, page, ios_of);
            // Each page but once, and none at the beginning of a step.
            let shift = Bytes(page.0 * ((1 + round) % (step.0 / page.0).max(1)));
            shifted(apart(ios.on_target(part, step * (offsets + 1)), step), shift)
        };
        let mut writes = down(Mode::Write);
        writes.io_count = Some(2 * ios_of);
        let samples = session.run("down-in-steps", &in_turn(writes, down(Mode::Read)))?;
        costs.extend(with_reads(&samples).iter().map(|(write, both)| (write.offset.0 as f64, *both)));
    }
    Ok(costs)
}
