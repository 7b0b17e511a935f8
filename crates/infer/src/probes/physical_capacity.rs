//! Concludes the over-provisioning and the physical capacity, once the translation layer is known.
//!
//! # Model
//! - Page map: the over-provisioning is what was written until garbage collection began
//!   ([`super::over_provisioning`]).
//! - Shared log blocks: it is their number times their size.
//! - Log blocks of one data block each: no over-provisioning can be identified. An onset is the moment at which all
//!   log blocks are full.
//!
//! # Invariants
//! - Nothing is written.
//! - If each single page cost a merge, that refutes a translation layer without merges.

use flashlab_analysis::inference::{Family, Finding, Parameter, Verdict};

use crate::answers::space::{SPACE, value};
use crate::halt::Halt;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;

pub(crate) const PROBE: Probe = Probe {
    name: "physical-capacity",
    about: "no new IOs: the physical capacity follows from the overwriting and from the translation layer",
    parameters: &SPACE,
    hands_in: &[],
    // It concludes from what was written, and has no answer without.
    write_share: 0.0005,
};

/// The rule that pages lie anywhere where writes in the middle of units were merged.
const CONTRADICTED: Rule = Rule::weak("pages anywhere");
/// The number of logs and their size.
const OF_LOGS: Rule = Rule::strong("shared logs");

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let known = session.known();
    let block = Parameter::EraseBlockSize;
    let counted = session.reclaim_unit().filter(|unit| unit.logs.is_some());
    let unit = known.bytes(block).or(counted.map(|unit| unit.size));
    let logs = known.count(Parameter::OpenBlocks).zip(unit);
    let family_rule = known.premise(Parameter::TranslationFamily);
    let of_logs =
        OF_LOGS.min(known.premise(Parameter::OpenBlocks)).min(known.premise(block)).min(family_rule);
    let capacity = session.capacity().0 as f64;
    let family = known.family();
    for parameter in SPACE {
        let Some(provisional) = session.provisional(parameter) else { continue };
        let finding = match (family, logs) {
            (Some(family @ (Family::Block | Family::LogBlock)), _)
                if provisional.verdict != Verdict::NotIdentifiable =>
            {
                let evidence = format!(
                    "In a translation layer of the family '{family}', each log block belongs to one data block."
                );
                Rule::not_identifiable(
                    parameter,
                    Rule::strong("one log block for each data block").min(family_rule),
                    evidence,
                )
            }
            (Some(Family::SharedLogBlock), Some((logs, unit))) if (unit * logs).0 as f64 <= capacity => {
                let value = value(parameter, capacity, (unit * logs).0 as f64);
                let evidence = format!("All blocks share {logs} log blocks of {unit}.");
                let of_logs = Rule::found(parameter, value, of_logs, evidence);
                let logs = session.inference().get(Parameter::OpenBlocks);
                of_logs.seen_in(provisional.picture.or_else(|| logs.and_then(|logs| logs.picture.clone())))
            }
            (Some(Family::SharedLogBlock), _) => {
                let evidence = format!(
                    "The number of log blocks that all blocks share is unknown. {}",
                    provisional.evidence
                );
                Finding::undetermined(parameter, evidence)
            }
            (Some(family), _) if family.maps_pages() && counted.is_some() => {
                let evidence = format!(
                    "The number of log blocks contradicts a translation layer of the family '{family}'. {}",
                    provisional.evidence
                );
                Finding::undetermined(parameter, evidence)
            }
            (Some(family), _) if family.maps_pages() && provisional.verdict == Verdict::NotIdentifiable => {
                CONTRADICTED.limits(provisional)
            }
            (Some(_), _) => family_rule.limits(provisional),
            (None, _) => provisional,
        };
        session.conclude(finding);
    }
    Ok(())
}
