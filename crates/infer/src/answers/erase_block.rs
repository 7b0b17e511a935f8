//! The erase block: what several signals show of it is merged here, and concluded here.
//!
//! # Model
//! At the end of each erase block a device has something to do that takes long: it erases a block, or merges a log block with its
//! data block. Several probes see that, and each hands in what it sees. A later signal replaces an earlier one, because the later
//! probes know more. There are two exceptions:
//! - blocks that an SLC cache relocates show more clearly than overwriting does (`overwritten` hands in nothing then);
//! - log-block allocations that agree with an earlier signal confirm it.
//!
//! Where every page can lie anywhere, nothing has to be erased before the over-provisioned space is used up. A period that
//! comes with the first writes may then be that of a write buffer, so that it limits the confidence.

use crate::signals::log_allocations::AGREES;
use flashlab_analysis::inference::{Family, Finding, Parameter};

use crate::rule::Rule;
use crate::session::Session;

/// The rule of an erase block that log-block allocations show, and an earlier signal as well.
const ALLOCATED_AND_OVERWRITTEN: Rule = Rule::strong("log-block allocations and overwriting");
/// The limit of an erase block whose period comes with the first writes, though pages can lie anywhere.
const FROM_THE_BEGINNING: Rule = Rule::weak("from the first write");

/// Hands in what log-block allocations show.
pub(crate) fn hand_in_allocations(session: &mut Session<'_, '_>, shown: Finding) {
    let earlier = session.provisional(Parameter::EraseBlockSize);
    session.hand_in(confirmed(earlier.as_ref(), shown));
}

/// What log-block allocations show, confirmed by an earlier signal if that agrees.
fn confirmed(earlier: Option<&Finding>, shown: Finding) -> Finding {
    let both = earlier.and_then(Finding::number).zip(shown.number());
    match shown.value.clone() {
        Some(unit) if both.is_some_and(|(earlier, unit)| (earlier / unit - 1.0).abs() <= AGREES) => {
            let evidence = format!("{} An earlier signal shows the same unit.", shown.evidence);
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
    fn allocations_confirm_an_earlier_signal() {
        let confirmed = |earlier: Option<u64>| confirmed(earlier.map(shown).as_ref(), shown(262_144));
        let both = confirmed(Some(262_144));
        assert_eq!(both.rule.unwrap(), "erase_block_size/log-block allocations and overwriting");
        assert_eq!(both.evidence, "Seen. An earlier signal shows the same unit.");
        for earlier in [None, Some(131_072)] {
            assert_eq!(confirmed(earlier).rule.unwrap(), "erase_block_size/log-block allocations");
        }
    }
}
