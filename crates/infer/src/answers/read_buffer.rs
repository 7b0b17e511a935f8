//! The answer for the read buffer, which needs the family of the translation layer: a map on the flash looks like a buffer.

use flashlab_analysis::inference::{Family, Parameter};
use flashlab_base::Bytes;

use crate::rule::Rule;
use crate::session::Session;

/// The hypothesis that the part of the map was cached, instead of the data.
pub(crate) const MAYBE_THE_MAP: Rule = Rule::weak("maybe the map");

/// The rule where the cached map explains what a read buffer would.
pub(crate) const CACHED_MAP: Rule = Rule::likely("cached map");

/// Concludes the buffer when the family of the translation layer is known: a map on the flash
/// may have been cached instead of the data.
pub(crate) fn conclude_buffer(session: &mut Session<'_, '_>) {
    let Some(provisional) = session.provisional(Parameter::ReadBufferSize) else { return };
    let has_map = session.known().family() == Some(Family::DemandCachedPage);
    session.conclude(match has_map {
        true if MAYBE_THE_MAP.decided(&provisional) => {
            let evidence = format!(
                "{} The device keeps its map on the flash and reads it on demand, so it was the map.",
                provisional.evidence
            );
            let rule = CACHED_MAP.min(session.known().premise(Parameter::TranslationFamily));
            Rule::found(provisional.parameter, Bytes::ZERO, rule, evidence).seen_in(provisional.picture)
        }
        _ => provisional,
    });
}
