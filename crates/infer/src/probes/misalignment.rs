//! Measures the penalty of a write that covers parts of two pages (Ajwani et al., section 3.3.4).
//!
//! # Model
//! A write of one page that is shifted by half a page covers parts of two pages: the rest of each is read, and two
//! pages are written. The penalty is the difference of the medians of shifted and aligned writes.
//!
//! # Method
//! 1. Aligned and shifted writes alternate until the penalty is steady and exact, or a third of the budget is used
//!    up.
//! 2. Without a write buffer, a pause after each write lets the device complete it. Otherwise a write may find its
//!    die busy with the one before.
//! 3. The first rounds do not count: they find log blocks of other addresses, deferred merges and a map that is not
//!    in memory. If the second half of the rounds shows another penalty, the first half is dropped.
//!
//! # Invariants
//! - It writes more than the probes that look for blocks and log blocks can bear, and so comes after them.
//! - The penalty is known to three per cent and steady, or a doubt limits it.

use crate::priors;
use crate::signals::pictures::ranked;
use crate::signals::sizes::PAUSE_SHARE;
use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::level::centre;
use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Location, Time};

use crate::halt::Halt;
use crate::patterns::writes::{Buffer, RANDOM_TARGET, buffer, costs_of, shifted, writes};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::thresholds::RIGHT;
use crate::words::duration;

pub(crate) const PROBE: Probe = Probe {
    name: "misalignment",
    about: "writes of one page at random offsets in the first MiB, aligned and shifted by half a page: what does misalignment cost?",
    parameters: &[Parameter::MisalignmentPenalty],
    hands_in: &[],
    write_share: 0.0065,
};

/// The writes of a run. Unit: writes. Source: choice. Too many: drift within a run; too few: the first write
/// of a run counts too much.
const WRITES_OF_RUN: u64 = 50;
/// The fewest rounds of both kinds. Unit: rounds. Source: choice. Too many: the budget is used up; too few:
/// drift decides.
const ROUNDS_LEAST: u64 = 2;
/// The probe writes at most this part of what may be written. Unit: part. Source: choice. Too small: later
/// probes cannot write; too large: the penalty is not exact.
const BUDGET_PART: u64 = 3;
/// With this round, the first one is dropped, and it is computed whether the penalty is steady and exact.
/// Unit: rounds. Source: choice. Too many: the budget is used up; too few: the backlog of other addresses
/// counts.
const ROUNDS_SETTLED: u64 = 5;
/// The pages that an aligned and a shifted write take together. Unit: pages. Source: derivation: one and two.
/// Too high: the backlog of other addresses counts; too low: more rounds are dropped than necessary.
const PAGES_OF_BOTH: u64 = 3;
/// The penalty is exact if half of its interval is at most this share of it. Unit: share. Source: choice,
/// below [`crate::thresholds::RIGHT`]. Too high: the penalty is wrong; too low: the budget is used up.
const EXACT_SHARE: f64 = 0.02;
/// The same for an answer at all; with [`RIGHT`] it has no doubt. Unit: share. Source: tuned. Too high: the penalty is wrong; too low: it
/// stays undetermined.
const ROUGH_SHARE: f64 = 0.09;
/// A greater penalty, as a multiple of a write, is other work: two pages are written instead of one, and both
/// are read. Unit: ratio. Source: derivation: a page and two reads. Too high: merges count as a penalty; too
/// low: slow reads refute it.
const PENALTY_MOST: f64 = 2.0;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let parameter = Parameter::MisalignmentPenalty;
    let Some(page) = session.known().bytes(Parameter::ReadPageSize) else {
        return Err(Halt::Lacks(
            "the penalty is measured for a page, and the page size is unknown".to_owned(),
        ));
    };
    if page <= session.block() {
        let evidence = format!("A page is {page}, and no write can be shifted by less than that.");
        session.conclude(Rule::not_identifiable(parameter, Rule::strong("page is a block"), evidence));
        return Ok(());
    }
    let most = session.writes_left().0 / BUDGET_PART;
    let turns = (most / (2 * WRITES_OF_RUN * page.0)).max(ROUNDS_LEAST);
    let pattern = writes(Location::Random, page, WRITES_OF_RUN, Bytes::ZERO, RANDOM_TARGET);
    let across = shifted(pattern.clone(), Bytes(page.0 / 2));
    let pauses = buffer(session) == Buffer::None;
    let mut kinds = [("aligned", pattern, Vec::new()), ("across", across, Vec::new())];
    let settled = settled(session, page).filter(|&settled| settled <= turns / 2).unwrap_or(ROUNDS_SETTLED);
    let mut look = settled;
    for turn in 1..=turns {
        for (name, pattern, costs) in &mut kinds {
            if pauses && !costs.is_empty() {
                pattern.first.time = Time::Pause { pause: Nanos((PAUSE_SHARE * upper_median(costs)) as u64) };
            }
            costs.extend(costs_of(session, name, pattern)?);
        }
        let [(_, _, aligned), (_, _, misaligned)] = &mut kinds;
        if turn == settled {
            let forgotten = ((settled - ROUNDS_SETTLED + 1) * WRITES_OF_RUN) as usize;
            aligned.drain(..forgotten);
            misaligned.drain(..forgotten);
        }
        if turn >= look {
            look = turn * 5 / 4;
            if changes(aligned, misaligned) {
                aligned.drain(..aligned.len() / 2);
                misaligned.drain(..misaligned.len() / 2);
            } else if Penalty::of(aligned, misaligned).is_some_and(|penalty| penalty.is_exact()) {
                break;
            }
        }
    }
    let [(_, _, aligned), (_, _, misaligned)] = &kinds;
    session.conclude(finding(page, aligned, misaligned));
    Ok(())
}

/// The rounds after which all log blocks and all deferred merges are those of these addresses: the writes went
/// round the open blocks twice. `None` if the open blocks are not known.
fn settled(session: &Session<'_, '_>, page: Bytes) -> Option<u64> {
    let known = session.known();
    let (logs, unit) = known.count(Parameter::OpenBlocks).zip(known.bytes(Parameter::EraseBlockSize))?;
    Some(ROUNDS_SETTLED + (2 * logs * unit.0).div_ceil(WRITES_OF_RUN * PAGES_OF_BOTH * page.0))
}

/// Whether the later halves show another penalty than the earlier ones.
fn changes(aligned: &[f64], misaligned: &[f64]) -> bool {
    let (first, second) = aligned.split_at(aligned.len() / 2);
    let (third, fourth) = misaligned.split_at(misaligned.len() / 2);
    let [earlier, later] = [Penalty::of(first, third), Penalty::of(second, fourth)];
    let differ = |one: Penalty, other: Penalty| {
        let more = (one.more - other.more).abs();
        more > one.half.hypot(other.half) && more > EXACT_SHARE * one.more.min(other.more)
    };
    earlier.zip(later).is_some_and(|(one, other)| differ(one, other))
}

/// How much more shifted writes take.
#[derive(Clone, Copy)]
struct Penalty {
    /// The medians.
    aligned: f64,
    misaligned: f64,
    /// The difference, and half of the interval that holds it with 95 %.
    more: f64,
    half: f64,
}

impl Penalty {
    fn of(aligned: &[f64], misaligned: &[f64]) -> Option<Penalty> {
        let (one, two) = centre(aligned, 0.95).zip(centre(misaligned, 0.95))?;
        let half = ((one.high - one.low) / 2.0).hypot((two.high - two.low) / 2.0);
        let (aligned, misaligned) = (one.estimate, two.estimate);
        Some(Penalty { aligned, misaligned, more: misaligned - aligned, half })
    }

    /// Whether more writes would not show more.
    fn is_exact(&self) -> bool {
        self.half <= EXACT_SHARE * self.more.abs()
            || self.more + 1.5 * self.half < priors::FLASH_READ_LEAST.0 as f64
    }
}

fn finding(page: Bytes, aligned: &[f64], misaligned: &[f64]) -> Finding {
    let parameter = Parameter::MisalignmentPenalty;
    let picture = ranked(
        "Response times of writes of one page at random offsets in the first MiB: the penalty is the distance between the lines of \
         aligned and shifted writes at the median.",
        "writes",
        [("aligned", aligned), ("shifted by half a page", misaligned)],
    )
    .mark(0.5, "median");
    let is_steady = !changes(aligned, misaligned);
    let Some(Penalty { aligned, misaligned, more, half }) = Penalty::of(aligned, misaligned) else {
        return Finding::undetermined(parameter, "There are too few writes for medians.").with(picture);
    };
    let evidence = format!(
        "Random writes of {page} take {} when aligned and {} when shifted by half a page (medians): the shift costs {:.1} us, with a \
         95 % interval of +-{:.1} us.",
        duration(aligned),
        duration(misaligned),
        more / 1e3,
        half / 1e3
    );
    // What lies across reads from the flash.
    let most = more + 1.5 * half;
    let nothing = most < priors::FLASH_READ_LEAST.0 as f64 || (more <= 1.5 * half && half <= RIGHT * aligned);
    let found = match half / more {
        _ if nothing => Rule::found(parameter, Nanos::ZERO, Rule::likely("no difference"), evidence),
        // What a write costs may depend on the writes before it, which medians do not know.
        rough if (0.0..=RIGHT).contains(&rough) && more <= PENALTY_MOST * aligned && is_steady => {
            Rule::found(parameter, Nanos(more as u64), Rule::strong("tight medians"), evidence)
        }
        rough if (0.0..=ROUGH_SHARE).contains(&rough) => {
            let rule = if rough <= ROUGH_SHARE / 2.0 && is_steady {
                Rule::likely("medians")
            } else {
                Rule::weak("rough medians")
            };
            Rule::found(parameter, Nanos(more as u64), rule, evidence)
        }
        _ => Finding::undetermined(parameter, evidence),
    };
    found.with(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes that take about so long; one in `stalls` takes a hundred times as long.
    fn costs(level: f64, stalls: usize) -> Vec<f64> {
        let about = |index: usize| level * (1.0 + 0.02 * (index * 7 % 11) as f64 / 11.0);
        (0..400).map(|index| if index % stalls == 1 { 100.0 * level } else { about(index) }).collect()
    }

    fn found(aligned: &[f64], misaligned: &[f64]) -> Finding {
        finding(Bytes::kib(4), aligned, misaligned)
    }

    #[test]
    fn the_penalty_is_the_difference_of_the_medians() {
        let penalty = found(&costs(300e3, 20), &costs(450e3, 25));
        assert!(
            penalty.number().is_some_and(|more| (more / 150e3 - 1.0).abs() < 0.03),
            "{}",
            penalty.evidence
        );
        assert_eq!(penalty.rule.as_deref(), Some("misalignment_penalty/tight medians"));
        let none = found(&costs(300e3, 20), &costs(300e3, 25));
        assert_eq!(none.number(), Some(0.0), "{}", none.evidence);
    }

    #[test]
    fn a_penalty_that_changes_is_not_tight() {
        let rising = [costs(400e3, 500), costs(600e3, 500)].concat();
        let aligned = [costs(300e3, 500), costs(300e3, 500)].concat();
        assert!(changes(&aligned, &rising) && !changes(&aligned, &aligned));
        let rule = found(&aligned, &rising).rule;
        assert_ne!(rule.as_deref(), Some("misalignment_penalty/tight medians"));
        assert_eq!(found(&[1.0], &[2.0]).number(), None);
    }
}
