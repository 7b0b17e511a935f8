//! The write buffer: what several signals show of its size and of when it is flushed is merged here.
//!
//! # Model
//! Data that is read back directly after it was written shows whether there is a buffer (`write_buffer`). The fill shows where it is
//! full (`fill`), and parts of pages that are rewritten repeatedly show how many pages it holds (`buffered_writes`). The last one is
//! the most exact and decides; an earlier size that agrees confirms it.

use flashlab_analysis::inference::{Finding, Parameter, Picture};
use flashlab_base::Bytes;

use crate::rule::Rule;
use crate::session::Session;
use crate::thresholds::RIGHT;

/// The rules of a size that parts of pages show: with an earlier size that agrees, with one that does not, and alone.
const PARTS_TWICE: Rule = Rule::strong("parts of pages, twice");
const PARTS_CONTRADICTED: Rule = Rule::likely("parts of pages, contradicted");
const PARTS: Rule = Rule::likely("parts of pages");

/// Hands in that there is no write buffer.
pub(crate) fn hand_in_none(session: &mut Session<'_, '_>, rule: Rule, evidence: String, picture: Picture) {
    let none = Rule::found(Parameter::WriteBufferSize, Bytes::ZERO, rule, evidence);
    session.hand_in(none.with(picture));
    let no_policy = Rule::not_identifiable(Parameter::WriteBufferFlush, rule, "There is no write buffer.");
    session.hand_in(no_policy);
}

/// The size that parts of pages show, merged with what was found earlier.
pub(crate) fn of_parts(size: Bytes, evidence: String, earlier: Option<Finding>) -> Finding {
    let parameter = Parameter::WriteBufferSize;
    let Some((earlier, known)) = earlier.and_then(|earlier| Some((earlier.number()?, earlier.evidence)))
    else {
        return Rule::found(parameter, size, PARTS, evidence);
    };
    if (earlier / size.0 as f64 - 1.0).abs() <= RIGHT {
        return Rule::found(parameter, earlier, PARTS_TWICE, format!("{evidence} {known}"));
    }
    let evidence = format!("{evidence} An earlier measurement disagrees: {known}");
    Rule::found(parameter, size, PARTS_CONTRADICTED, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_size_that_agrees_confirms_parts_of_pages() {
        let earlier = |size: u64| Finding::found(Parameter::WriteBufferSize, size, 0.8, "Full there.");
        let of = |earlier| {
            let merged = of_parts(Bytes(65_536), "Held.".to_owned(), earlier);
            (merged.number(), merged.rule.unwrap(), merged.evidence)
        };
        let rule = |name: &str| format!("write_buffer_size/{name}");
        assert_eq!(of(None), (Some(65_536.0), rule("parts of pages"), "Held.".to_owned()));
        let twice = of(Some(earlier(66_000)));
        assert_eq!((twice.0, twice.1), (Some(66_000.0), rule("parts of pages, twice")));
        let contradicted = of(Some(earlier(32_768)));
        assert_eq!((contradicted.0, contradicted.1), (Some(65_536.0), rule("parts of pages, contradicted")));
    }
}
