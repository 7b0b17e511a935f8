//! How an answer was decided, and the confidence that follows from it.
//!
//! # Model
//! A [`Rule`] names how an answer is decided, not what the answer is. Its confidence is how often it was right on
//! devices whose truth is known (`calibration.tsv`, `CalibrationTable`). No confidence is chosen by hand. Only what
//! simulation cannot calibrate has a cap of its own (`caps.rs`).
//!
//! Within a probe, a rule has a [`Strength`]: an order, not a probability. It decides which of two rules limits the
//! other one, and whether a probe looks again.
//!
//! # Invariants
//! - The rule of an answer is `PARAMETER/NAME`, or `PARAMETER/NAME/LIMIT` if something weaker limits it.
//! - Every confidence in a finding comes from [`Rule::found`], [`Rule::not_identifiable`] or [`Rule::limits`].

use std::sync::LazyLock;

use flashlab_analysis::inference::{CONFIDENT, CalibrationTable, Finding, Parameter, Value, Verdict};

use crate::caps;

/// The generated table. Its comments have the command that generates it.
static CALIBRATION: LazyLock<CalibrationTable> = LazyLock::new(|| {
    CalibrationTable::parse(include_str!("calibration.tsv")).expect("a test reads the table")
});

/// A premise with this confidence is firm for other answers. Unit: probability. Source: choice. Too high:
/// probes repeat what is right; too low: answers that follow from a doubtful one count as strong.
pub(crate) const FIRM: f64 = 0.9;
/// A premise with this confidence is likely. Unit: probability. Source: choice. Too high: probes repeat what
/// is right; too low: answers that follow from a wrong one are reported.
pub(crate) const LIKELY_LEAST: f64 = 0.75;

/// The order of rules within a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Weak,
    Likely,
    Strong,
}

/// How an answer is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rule {
    name: &'static str,
    strength: Strength,
    /// What limits it: a weaker rule, or a premise.
    limit: Option<&'static str>,
    /// The highest confidence, where a cap holds (`caps.rs`).
    most: f64,
}

impl Rule {
    /// One that decides by itself.
    pub(crate) const fn strong(name: &'static str) -> Rule {
        Rule { name, strength: Strength::Strong, limit: None, most: 1.0 }
    }

    /// One that other causes may look like.
    pub(crate) const fn likely(name: &'static str) -> Rule {
        Rule { name, strength: Strength::Likely, limit: None, most: 1.0 }
    }

    /// One that decides where nothing else does.
    pub(crate) const fn weak(name: &'static str) -> Rule {
        Rule { name, strength: Strength::Weak, limit: None, most: 1.0 }
    }

    /// A premise: the finding of a parameter, if there is one. If a cap limits it, the cap limits what follows from it, too.
    pub(crate) fn premise(parameter: Parameter, finding: Option<&Finding>) -> Rule {
        let confidence = finding.map_or(0.0, |finding| finding.confidence);
        let of_rule =
            finding.and_then(|finding| finding.rule.as_deref()).map(|rule| CALIBRATION.confidence(rule));
        let most = if of_rule.is_some_and(|of_rule| confidence < of_rule) { confidence } else { 1.0 };
        let rule = match parameter.name() {
            name if confidence >= CONFIDENT => Rule::strong(name),
            name if confidence >= LIKELY_LEAST => Rule::likely(name),
            name => Rule::weak(name),
        };
        rule.capped(most)
    }

    /// This rule with a cap of the confidence, one of `caps.rs`.
    pub(crate) const fn capped(self, most: f64) -> Rule {
        Rule { most: self.most.min(most), ..self }
    }

    /// This rule, limited by the other one unless that is stronger. A limit leaves its mark, so that the calibration counts such
    /// answers apart: what is strong limits nothing, and of two equal limits the first one is named.
    pub(crate) fn min(self, other: Rule) -> Rule {
        let capped = self.capped(other.most);
        let limit = other.limit.unwrap_or(other.name);
        if other.is_strong() || other.strength > self.strength || limit == self.name {
            return capped;
        }
        let is_weaker = other.strength < self.strength;
        let limit = if is_weaker { limit } else { self.limit.unwrap_or(limit) };
        Rule { strength: other.strength, limit: Some(limit), ..capped }
    }

    /// The stronger one of both.
    pub(crate) fn max(self, other: Rule) -> Rule {
        if other.strength > self.strength { other } else { self }
    }

    /// This rule, limited by the probability that a statistical model gives the answer.
    pub(crate) fn of_chance(self, chance: f64) -> Rule {
        self.min(match chance {
            _ if chance >= 0.99 => Rule::strong("probability"),
            _ if chance >= 0.9 => Rule::likely("probability below 99 %"),
            _ => Rule::weak("probability below 90 %"),
        })
    }

    /// Whether it decides by itself, and nothing limits it.
    pub(crate) fn is_strong(self) -> bool {
        self.strength == Strength::Strong
    }

    fn key(self, parameter: Parameter) -> String {
        let limit = self.limit.map_or(String::new(), |limit| format!("/{limit}"));
        format!("{}/{}{limit}", parameter.name(), self.name)
    }

    /// The highest confidence of an answer by this rule: what the calibration never saw is capped where it is weak.
    fn highest(self, parameter: Parameter) -> f64 {
        let is_unseen = CALIBRATION.counted(&self.key(parameter)).answers == 0;
        if self.strength == Strength::Weak && is_unseen { self.most.min(caps::UNSEEN) } else { self.most }
    }

    /// A value that this rule decided.
    pub(crate) fn found(
        parameter: Parameter,
        value: impl Into<Value>,
        rule: Rule,
        evidence: impl Into<String>,
    ) -> Finding {
        by_rule(Finding::found(parameter, value, 0.0, evidence), rule.key(parameter), rule.highest(parameter))
    }

    /// The answer, decided by this rule, that there is no visible value on this device.
    pub(crate) fn not_identifiable(parameter: Parameter, rule: Rule, evidence: impl Into<String>) -> Finding {
        by_rule(
            Finding::not_identifiable(parameter, 0.0, evidence),
            rule.key(parameter),
            rule.highest(parameter),
        )
    }

    /// What this rule suggests without deciding it, for the owner of the answer: an undetermined finding that names the rule.
    pub(crate) fn hypothesis(self, parameter: Parameter, evidence: impl Into<String>) -> Finding {
        Finding { rule: Some(self.key(parameter)), ..Finding::undetermined(parameter, evidence) }
    }

    /// The same finding, limited by this rule, unless this rule is strong.
    pub(crate) fn limits(self, finding: Finding) -> Finding {
        match finding.rule.clone() {
            Some(rule) if !self.is_strong() => by_rule(finding, format!("{rule}/{}", self.name), self.most),
            _ => finding,
        }
    }

    /// Whether this rule decided a finding, limited or not.
    pub(crate) fn decided(self, finding: &Finding) -> bool {
        let name = finding.rule.as_deref().and_then(|rule| rule.split('/').nth(1));
        name == Some(self.name)
    }
}

/// The finding with its rule, and the confidence of that, which is at most `most`.
fn by_rule(finding: Finding, rule: String, most: f64) -> Finding {
    match finding.verdict {
        Verdict::Undetermined => finding,
        _ => Finding { confidence: CALIBRATION.confidence(&rule).min(most), rule: Some(rule), ..finding },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_knows_most_rules() {
        assert!(CALIBRATION.counted("").answers > 1000);
        for parameter in Parameter::ALL {
            assert!(CALIBRATION.counted(parameter.name()).answers > 0, "{parameter}");
        }
    }

    #[test]
    fn what_is_weaker_limits_and_names_itself() {
        const SEEN: Rule = Rule::strong("seen");
        let key = |rule: Rule| rule.key(Parameter::OpenBlocks);
        assert_eq!(key(SEEN.min(Rule::strong("also"))), "open_blocks/seen");
        assert_eq!(key(SEEN.min(Rule::weak("hardly"))), "open_blocks/seen/hardly");
        assert_eq!(key(SEEN.min(Rule::likely("a").min(Rule::weak("b")))), "open_blocks/seen/b");
        assert_eq!(key(SEEN.of_chance(0.95)), "open_blocks/seen/probability below 99 %");
        assert_eq!(key(Rule::likely("a").max(SEEN)), "open_blocks/seen");
        // Of equal strength, and what is stronger.
        assert_eq!(key(Rule::likely("a").min(Rule::likely("b"))), "open_blocks/a/b");
        assert_eq!(key(Rule::weak("a").min(Rule::weak("b")).min(Rule::weak("c"))), "open_blocks/a/b");
        assert_eq!(key(Rule::likely("a").min(Rule::likely("a"))), "open_blocks/a");
        assert_eq!(key(Rule::weak("a").min(Rule::likely("b"))), "open_blocks/a");
        assert_eq!(
            key(SEEN.min(Rule::premise(Parameter::TranslationFamily, None))),
            "open_blocks/seen/translation_family"
        );
    }

    #[test]
    fn a_cap_limits_what_follows_from_it() {
        let page = Rule::found(Parameter::ReadPageSize, 4096u64, Rule::strong("layout"), "Seen.");
        let firm = Rule::premise(Parameter::ReadPageSize, Some(&page));
        let of = |premise| {
            Rule::found(Parameter::WritePageSize, 4096u64, Rule::strong("read page").min(premise), "So.")
        };
        assert!(of(firm).confidence > 0.9, "{}", of(firm).confidence);
        let capped = Finding { confidence: 0.6, ..page };
        assert_eq!(of(Rule::premise(Parameter::ReadPageSize, Some(&capped))).confidence, 0.6);
        // A doubt that no calibrated device raised.
        let unseen = Rule::strong("each page merges, twice").min(Rule::weak("never counted"));
        let found = Rule::found(Parameter::TranslationFamily, "log-block", unseen, "Seen.");
        assert_eq!(found.confidence, caps::UNSEEN);
    }

    #[test]
    fn a_finding_has_the_confidence_of_its_rule() {
        let rule = Rule::strong("full logs");
        let found = Rule::found(Parameter::OpenBlocks, 3u64, rule, "Seen.");
        assert_eq!(found.confidence, CALIBRATION.confidence("open_blocks/full logs"));
        let limited = Rule::weak("doubt").limits(found.clone());
        assert_eq!(limited.rule.as_deref(), Some("open_blocks/full logs/doubt"));
        assert!(rule.decided(&limited) && !Rule::strong("full").decided(&limited));
        assert_eq!(Rule::strong("firm").limits(found.clone()), found);
        let none = Rule::found(Parameter::OpenBlocks, f64::NAN, rule, "Nothing.");
        assert_eq!((none.verdict, none.confidence, none.rule), (Verdict::Undetermined, 0.0, None));
    }
}
