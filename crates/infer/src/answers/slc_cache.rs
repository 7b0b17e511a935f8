//! The provisional findings of an SLC cache: made while the device is filled, and concluded when the dies are known.

use crate::priors;
use flashlab_analysis::inference::{Finding, Parameter, Picture};
use flashlab_base::Bytes;

use crate::rule::Rule;
use crate::session::Session;

/// The parameters of an SLC cache: found provisionally by the fill, and concluded when the dies are known.
pub(crate) const REGION: [Parameter; 2] = [Parameter::SlcCacheSize, Parameter::SlcCacheRefill];

/// Concludes the SLC cache when the dies are known: the blocks of all dies have [`priors::ROWS_LEAST`] pages on each of them, so that writes
/// that are slow more often do not relocate whole blocks.
pub(crate) fn conclude_provisional(session: &mut Session<'_, '_>) {
    let known = session.known();
    let moved = known.provisional(Parameter::EraseBlockSize).and_then(Finding::number);
    // Not a row of all planes: pages may be programmed one by one.
    let page_of_each = known.bytes(Parameter::ReadPageSize).zip(known.count(Parameter::ParallelUnits));
    let least = page_of_each.map_or(Bytes::ZERO, |(page, dies)| page * (dies * priors::ROWS_LEAST));
    let is_refuted = known.has_slc_cache() && moved.is_some_and(|moved| moved < least.0 as f64);
    if let Some(region) = session.provisional(Parameter::SlcCacheSize).filter(|_| is_refuted) {
        let evidence = format!(
            "{} But a block of all dies holds at least {least}, and these slow writes come back sooner: the device does not relocate \
             blocks of an SLC cache.",
            region.evidence
        );
        no_region(session, REFUTED, evidence, region.picture);
        let unknown = "Slow sequential writes come back after less than a block of all dies, and so show no erase block.";
        let refuted = Finding::undetermined(Parameter::EraseBlockSize, unknown);
        session.hand_in(refuted);
    }
    for parameter in REGION {
        if let Some(provisional) = session.provisional(parameter) {
            session.conclude(provisional);
        }
    }
}

/// There is no SLC cache, and so none that could be refilled.
pub(crate) fn no_region(
    session: &mut Session<'_, '_>,
    basis: Rule,
    evidence: String,
    picture: Option<Picture>,
) {
    let found = Rule::found(Parameter::SlcCacheSize, Bytes::ZERO, basis, evidence);
    session.hand_in(found.seen_in(picture));
    let none = "There is no SLC cache.";
    session.hand_in(Rule::not_identifiable(Parameter::SlcCacheRefill, basis, none));
}

/// The rule that there is no SLC cache where less is relocated at a time than blocks of all dies have.
pub(crate) const REFUTED: Rule = Rule::likely("relocation below a block");
