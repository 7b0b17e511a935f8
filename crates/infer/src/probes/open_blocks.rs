//! How many blocks can be written to alternating: the log list (Sun and Zhang, section 4.3).
//!
//! # Model
//! Where logs belong to one block each, it is the number of most recently written blocks that still have one
//! (`recency`): any other block costs a merge, as in Table 2 of the paper. Logs that all blocks share (FAST) were
//! counted when single pages filled them ([`super::over_provisioning`]).
//!
//! # Invariants
//! - a number is found only if it was seen again.

mod recency;

use flashlab_analysis::inference::{Family, Finding, Parameter};

use crate::halt::Halt;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::times;
use recency::recency;

pub(crate) const PROBE: Probe = Probe {
    name: "open-blocks",
    about: "single pages in many blocks of one die: in how many blocks can the device write without a merge?",
    parameters: &[Parameter::OpenBlocks],
    hands_in: &[],
    write_share: 0.0495,
};

/// A number of logs that a pass of its own confirmed; one close to the number of offsets; and one that was not confirmed.
const CONFIRMED: Rule = Rule::strong("recency confirmed");
const CLOSE: Rule = Rule::likely("recency confirmed, few blocks");
const LIKELY: Rule = Rule::weak("recency");

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    session.look_through();
    let known = session.known();
    let family = known.family();
    let family_rule = known.premise(Parameter::TranslationFamily);
    let is_shared = family == Some(Family::SharedLogBlock);
    if is_shared && let Some(seen) = session.provisional(Parameter::OpenBlocks) {
        session.conclude(family_rule.limits(seen));
        return Ok(());
    }
    let maps_pages = family.is_some_and(Family::maps_pages);
    let counted = if (maps_pages || is_shared) && family_rule.is_strong() { None } else { count(session)? };
    // Where switching segment groups costs, only the most recent block is fast, whatever the layer.
    let groups = session.known().count(Parameter::SegmentGroups).is_some_and(|groups| groups > 1);
    let of_groups = |counted: &Finding| groups && counted.number() == Some(1.0);
    session.conclude(match counted {
        // Only a clear number contradicts an uncertain page map.
        Some(counted) if !maps_pages || !LIKELY.decided(&counted) && !of_groups(&counted) => counted,
        _ if maps_pages => {
            let reason =
                "The device can put every page anywhere, so that no write depends on which blocks are open.";
            Rule::not_identifiable(Parameter::OpenBlocks, Rule::strong("page map").min(family_rule), reason)
        }
        _ if is_shared => {
            Finding::undetermined(Parameter::OpenBlocks, "Single pages did not fill the shared log blocks.")
        }
        _ => {
            let reason = "The cost of a write does not depend on how long ago its block was written to.";
            Finding::undetermined(Parameter::OpenBlocks, reason)
        }
    });
    Ok(())
}

/// Logs of one block each, by how long ago blocks were written to.
fn count(session: &mut Session<'_, '_>) -> Result<Option<Finding>, Halt> {
    let Some(seen) = recency(session)? else { return Ok(None) };
    let evidence = format!(
        "Single-page writes that alternate between {} blocks of one die are fast in the {} most recent blocks, and take {} the time \
         in the others. The log-likelihood ratio to any other number of open blocks is {:.0} or more.{}",
        seen.blocks,
        seen.logs,
        times(seen.contrast),
        seen.margin,
        if seen.confirmed {
            " Writes that alternate between this number of blocks stay fast, and with one block more they are slow."
        } else {
            ""
        },
    );
    let rule = match seen.confirmed {
        true if 2 * seen.logs <= seen.blocks => CONFIRMED,
        true => CLOSE,
        false => LIKELY,
    };
    // Where it is unclear what merges, as with deferred merges, what is fast may be so for another reason.
    let rule = rule.min(session.known().premise(Parameter::TranslationFamily));
    Ok(Some(Rule::found(Parameter::OpenBlocks, seen.logs, rule, evidence).with(seen.picture)))
}
