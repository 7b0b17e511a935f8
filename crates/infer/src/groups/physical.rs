//! What the signs of space beyond the capacity mean, by the translation layer.
//!
//! # Model
//! Where every page may lie anywhere, what was written until room was made is that space ([`super::spare`]). Where logs are
//! shared by all blocks it is their number times their size. Logs of one data block each put nothing off: what looks like
//! an onset there are logs that are full for the first time.
//!
//! # Invariants
//! - nothing is written: what was seen before is concluded;
//! - each single write that costs a merge weighs more than a translation layer that would not have it.

use flashlab_analysis::inference::{Family, Finding, Parameter, Verdict};

use super::space::{SPACE, value};
use crate::halt::Halt;
use crate::probe::Probe;
use crate::session::Session;

pub(crate) const PROBE: Probe = Probe {
    name: "physical-capacity",
    about: "no new IOs: the physical capacity follows from the overwriting and from the translation layer",
    parameters: &SPACE,
    supposes: &[],
    // It concludes from what was written, and has no answer without.
    write_share: 0.0005,
};

/// How sure it is that pages lie anywhere where writes in the middle of units were merged.
const CONTRADICTED: f64 = 0.6;
/// Logs do not take more than the capacity.
const LOGS_MOST: f64 = 1.0;
/// Nothing is surer that was not seen again.
const SUREST: f64 = 0.9;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let known = session.known();
    let block = Parameter::EraseBlockSize;
    let counted = session.fill().unit.filter(|unit| unit.logs.is_some());
    let unit = known.bytes(block).or(counted.map(|unit| unit.size));
    let logs = known.count(Parameter::OpenBlocks).zip(unit);
    let family_sure = known.confidence(Parameter::TranslationFamily).min(SUREST);
    let of_unit = known.bytes(block).map_or(1.0, |_| known.confidence(block));
    let of_logs = known.confidence(Parameter::OpenBlocks).min(of_unit).min(family_sure);
    let capacity = session.capacity().0 as f64;
    let family = known.family();
    for parameter in SPACE {
        let Some(supposed) = session.supposed(parameter) else { continue };
        let finding = match (family, logs) {
            (Some(family @ (Family::Block | Family::LogBlock)), _)
                if supposed.verdict != Verdict::NotIdentifiable =>
            {
                let evidence = format!(
                    "In a translation layer of the family '{family}', each log block belongs to one data block."
                );
                Finding::not_identifiable(parameter, family_sure, evidence)
            }
            (Some(Family::SharedLogBlock), Some((logs, unit)))
                if (unit * logs).0 as f64 <= LOGS_MOST * capacity =>
            {
                let value = value(parameter, capacity, (unit * logs).0 as f64);
                let evidence = format!("All blocks share {logs} log blocks of {unit}.");
                let of_logs = Finding::found(parameter, value, of_logs, evidence);
                let logs = session.inference().get(Parameter::OpenBlocks);
                of_logs.seen_in(supposed.picture.or_else(|| logs.and_then(|logs| logs.picture.clone())))
            }
            (Some(Family::SharedLogBlock), _) => {
                let evidence = format!(
                    "The number of log blocks that all blocks share is unknown. {}",
                    supposed.evidence
                );
                Finding::undetermined(parameter, evidence)
            }
            (Some(family), _) if family.maps_pages() && counted.is_some() => {
                let evidence = format!(
                    "The number of log blocks contradicts a translation layer of the family '{family}'. {}",
                    supposed.evidence
                );
                Finding::undetermined(parameter, evidence)
            }
            (Some(family), _) if family.maps_pages() && supposed.verdict == Verdict::NotIdentifiable => {
                Finding { confidence: CONTRADICTED, ..supposed }
            }
            (Some(_), _) => Finding { confidence: supposed.confidence.min(family_sure), ..supposed },
            (None, _) => supposed,
        };
        session.conclude(finding);
    }
    Ok(())
}
