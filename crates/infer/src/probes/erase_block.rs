//! The erase block, which several earlier probes saw (`answers/erase_block.rs`), and the mapping granularity, which
//! follows from it.
//!
//! # Invariants
//! - nothing is written.

use flashlab_analysis::inference::{Family, Finding, Parameter};

use crate::answers::erase_block;
use crate::halt::Halt;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;

pub(crate) const PROBE: Probe = Probe {
    name: "erase-block",
    about: "no new IOs: the erase block follows from overwriting, log-block allocations and the family of the translation layer",
    parameters: &[Parameter::EraseBlockSize, Parameter::MappingGranularity],
    hands_in: &[],
    // It concludes from what was written, and has no answer without.
    write_share: 0.0005,
};

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    session.look_through();
    erase_block::conclude(session);
    let granularity = granularity(session, session.known().family());
    session.conclude(granularity);
    Ok(())
}

/// What can be placed by itself follows from the family: the page, or what is merged.
fn granularity(session: &Session<'_, '_>, family: Option<Family>) -> Finding {
    let parameter = Parameter::MappingGranularity;
    let Some(family) = family else {
        let reason =
            "The mapping granularity follows from the family of the translation layer, which is unknown.";
        return Finding::undetermined(parameter, reason);
    };
    let from = if family.maps_pages() { Parameter::WritePageSize } else { Parameter::EraseBlockSize };
    let (known, title) = (session.known(), from.title().to_lowercase());
    let finding = match known.bytes(from) {
        Some(size) => {
            let rule = Rule::strong("follows from the family")
                .min(known.premise(from))
                .min(known.premise(Parameter::TranslationFamily));
            let evidence = format!("A translation layer of the family '{family}' maps units of one {title}.");
            Rule::found(parameter, size, rule, evidence)
        }
        None => Finding::undetermined(
            parameter,
            format!("The mapping granularity of this family is the {title}, which is unknown."),
        ),
    };
    finding.seen_in(known.finding(from).and_then(|finding| finding.picture.clone()))
}
