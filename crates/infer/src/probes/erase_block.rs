//! The answers for the erase block and the mapping granularity.
//!
//! # Model
//! At the end of each erase block a device has something to do that takes long: it erases a block, or merges a log block with its
//! data block. Several probes see that: sequential overwriting, log-block allocations, pages that begin a block, the relocation of
//! an SLC cache. Each hands in its finding, and the last one stands, because the later probes know more. This file concludes it.
//!
//! Where every page can lie anywhere, nothing has to be erased before the over-provisioned space is used up. A period that
//! comes with the first writes may then be that of a write buffer, so that it limits the confidence.
//!
//! # Invariants
//! - nothing is written.

use flashlab_analysis::inference::{Family, Finding, Parameter};

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

/// The limit of an erase block whose period comes with the first writes, though pages can lie anywhere.
const FROM_THE_BEGINNING: Rule = Rule::weak("from the first write");

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    session.look_through();
    let known = session.known();
    let family = known.family();
    let maps_pages = family.is_some_and(Family::maps_pages);
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
    let granularity = granularity(session, family);
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
