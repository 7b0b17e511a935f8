//! The erase block: what several signals show of it is merged here, and concluded here.
//!
//! # Model
//! At the end of each erase block a device has something to do that takes long: it erases a block, or merges a log block with its
//! data block. Several probes see that, each by a [`Signal`]. A later signal replaces an earlier one, because the later probes know
//! more. There are two exceptions:
//! - blocks that an SLC cache relocates show more clearly than overwriting does;
//! - log-block allocations that agree with an earlier signal confirm it.
//!
//! Where every page can lie anywhere, nothing has to be erased before the over-provisioned space is used up. A period that
//! comes with the first writes may then be that of a write buffer, so that it limits the confidence.

use flashlab_analysis::inference::{Family, Finding, Parameter};
use flashlab_analysis::signals::log_allocations::AGREES;

use crate::rule::Rule;
use crate::session::Session;

/// What shows an erase block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The relocation of blocks of an SLC cache.
    SlcRelocation,
    /// Garbage collection while the filled device is overwritten.
    Overwriting,
    /// Shared logs that are full.
    FullLogs,
    /// Single pages that cost more, the deeper they lie in their block.
    DepthInBlock,
    /// Log-block allocations.
    LogAllocations,
    /// Pages that begin a block.
    FirstPages,
}

/// The rule of a unit that log-block allocations show, and an earlier signal as well.
const ALLOCATED_AND_OVERWRITTEN: Rule = Rule::strong("log-block allocations and overwriting");
/// The limit of an erase block whose period comes with the first writes, though pages can lie anywhere.
const FROM_THE_BEGINNING: Rule = Rule::weak("from the first write");

/// Hands in what a signal shows.
pub(crate) fn hand_in(session: &mut Session<'_, '_>, signal: Signal, shown: Finding) {
    if signal == Signal::Overwriting && session.known().has_slc_cache() {
        return;
    }
    let earlier = session.provisional(Parameter::EraseBlockSize);
    session.hand_in(merged(earlier.as_ref(), signal, shown));
}

/// What a signal shows, merged with what an earlier one showed.
fn merged(earlier: Option<&Finding>, signal: Signal, shown: Finding) -> Finding {
    let both = earlier.and_then(Finding::number).zip(shown.number());
    match shown.value.clone() {
        Some(unit)
            if signal == Signal::LogAllocations
                && both.is_some_and(|(earlier, unit)| (earlier / unit - 1.0).abs() <= AGREES) =>
        {
            let evidence = format!("{} Sequential overwriting shows the same unit.", shown.evidence);
            Rule::found(shown.parameter, unit, ALLOCATED_AND_OVERWRITTEN, evidence).seen_in(shown.picture)
        }
        _ => shown,
    }
}

/// Concludes the erase block from all that was handed in.
pub(crate) fn conclude(session: &mut Session<'_, '_>) {
    let known = session.known();
    let maps_pages = known.family().is_some_and(Family::maps_pages);
    let begins_later = session.reclaim_unit().is_some_and(|unit| unit.onset.is_some());
    let hidden = known.word(Parameter::WriteBufferFlush) == Some("when-full") && !session.looks_through();
    let is_relocated = !hidden && known.has_slc_cache();
    session.conclude(match session.provisional(Parameter::EraseBlockSize) {
        Some(seen) if !maps_pages || begins_later || is_relocated => seen,
        Some(seen) => FROM_THE_BEGINNING.limits(seen),
        None => Finding::undetermined(
            Parameter::EraseBlockSize,
            "No write pattern shows after how many bytes the device erases or merges a block.",
        ),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(unit: u64) -> Finding {
        Rule::found(Parameter::EraseBlockSize, unit, Rule::strong("log-block allocations"), "Seen.")
    }

    #[test]
    fn allocations_confirm_what_overwriting_showed() {
        let merged = |earlier: Option<u64>, signal| {
            merged(earlier.map(shown).as_ref(), signal, shown(262_144)).rule.unwrap()
        };
        let both = "erase_block_size/log-block allocations and overwriting";
        assert_eq!(merged(Some(262_144), Signal::LogAllocations), both);
        for (earlier, signal) in [
            (None, Signal::LogAllocations),
            (Some(131_072), Signal::LogAllocations),
            (Some(262_144), Signal::DepthInBlock),
        ] {
            assert_eq!(merged(earlier, signal), "erase_block_size/log-block allocations", "{signal:?}");
        }
    }
}
