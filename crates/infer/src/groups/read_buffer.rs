//! The answer for the read buffer, which needs the family of the translation layer: a map on the flash looks like a buffer.

use flashlab_analysis::inference::{Family, Finding, Parameter};
use flashlab_base::Bytes;

use crate::session::Session;

/// The end of the evidence of a provisional finding that may be the cached map instead of a read buffer.
pub(crate) const MAYBE_THE_MAP: &str =
    "Something else may have been cached, for example their part of the map.";

/// The highest confidence that it was the map. Set by hand: a demand-cached map does not exclude a read buffer next to it, so that
/// a higher value would deny some buffers with confidence.
pub(crate) const CACHED_MAP_CONFIDENCE: f64 = 0.8;

/// Concludes the buffer when the family of the translation layer is known: a map on the flash
/// may have been cached instead of the data.
pub(crate) fn conclude_buffer(session: &mut Session<'_, '_>) {
    let Some(supposed) = session.supposed(Parameter::ReadBufferSize) else { return };
    let family = session.inference().get(Parameter::TranslationFamily);
    let of_map = family.filter(|_| session.known().family() == Some(Family::DemandCachedPage));
    session.conclude(match of_map {
        Some(family) if supposed.evidence.ends_with(MAYBE_THE_MAP) => {
            let evidence = format!(
                "{} The device keeps its map on the flash and reads it on demand, so it was the map.",
                supposed.evidence
            );
            let sure = family.confidence.min(CACHED_MAP_CONFIDENCE);
            Finding::found(supposed.parameter, Bytes::ZERO, sure, evidence).seen_in(supposed.picture)
        }
        _ => supposed,
    });
}
