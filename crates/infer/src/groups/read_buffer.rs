//! The answer for the read buffer, which needs the family of the translation layer: a map on the flash looks like a buffer.

use flashlab_analysis::inference::{Family, Finding, Parameter};
use flashlab_base::Bytes;

use crate::session::Session;

/// What was supposed of a buffer that may be none ends so.
pub(crate) const AT_HAND: &str = "Something else may have been cached, for example their part of the map.";

/// How sure it is at most that this was the map.
pub(crate) const MAP_AT_HAND: f64 = 0.8;

/// Concludes the buffer when the family of the translation layer is known: a map on the flash is what may have been at hand.
pub(crate) fn conclude_buffer(session: &mut Session<'_, '_>) {
    let Some(supposed) = session.supposed(Parameter::ReadBufferSize) else { return };
    let family = session.inference().get(Parameter::TranslationFamily);
    let of_map = family.filter(|_| session.known().family() == Some(Family::DemandCachedPage));
    session.conclude(match of_map {
        Some(family) if supposed.evidence.ends_with(AT_HAND) => {
            let evidence = format!(
                "{} The device keeps its map on the flash and reads it on demand, so it was the map.",
                supposed.evidence
            );
            let sure = family.confidence.min(MAP_AT_HAND);
            Finding::found(supposed.parameter, Bytes::ZERO, sure, evidence).seen_in(supposed.picture)
        }
        _ => supposed,
    });
}
