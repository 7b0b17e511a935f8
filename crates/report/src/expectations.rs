//! Prints judged expectations: lines for a terminal, JUnit XML, and Markdown for a step summary of GitHub.
//!
//! In JUnit, "not met" is a failure and "cannot be told" an error, so that no reader takes it for a success.

use flashlab_analysis::inference::Verdict;
use flashlab_analysis::{Evidence, FigureUnit, Judgement, Outcome};
use maud::{Markup, html};

use crate::escape::{markdown, markdown_code, xml};
use crate::units;
use crate::writer::{BOLD, GREEN, Layout, RED, Writer, YELLOW};

/// The comment by which JUnit XML of flashlab is recognised.
pub const JUNIT_MARK: &str = "<!-- flashlab: judged expectations -->";
/// How many names of measured experiments a message lists.
const NAMES: usize = 12;

/// One or two lines for each judgement.
pub fn expectations_terminal(judgements: &[Judgement], layout: &Layout) -> String {
    let mut out = Writer::new(layout);
    out.line("Expectations", BOLD);
    for judgement in judgements {
        let (sign, colour) = match judgement.outcome {
            Outcome::Met => ("✓", GREEN),
            Outcome::NotMet => ("✗", RED),
            Outcome::CannotBeTold => ("?", YELLOW),
        };
        out.marked(sign, colour, &judgement_sentence(judgement));
    }
    out.text
}

/// One judgement as a sentence: the expectation, its outcome, and why.
pub fn judgement_sentence(judgement: &Judgement) -> String {
    format!(
        "{}: {}: {}",
        named(judgement),
        outcome_words(judgement.outcome),
        evidence_words(&judgement.evidence)
    )
}

/// The judgements as a test suite of this name in JUnit's XML, which Jenkins, GitLab and others read.
///
/// `doubts` are sentences that restrict what the answers mean; they are the suite's output.
pub fn expectations_junit(suite: &str, judgements: &[Judgement], doubts: &[String]) -> String {
    let count = |outcome| judgements.iter().filter(|judgement| judgement.outcome == outcome).count();
    let (failures, errors) = (count(Outcome::NotMet), count(Outcome::CannotBeTold));
    let suite = xml(suite);
    let body = html! {
        testsuites tests=(judgements.len()) failures=(failures) errors=(errors) {
            testsuite name=(suite) tests=(judgements.len()) failures=(failures) errors=(errors) {
                @for judgement in judgements {
                    testcase classname=(suite) name=(xml(&named(judgement))) { (case(judgement)) }
                }
                @if !doubts.is_empty() {
                    system-out { @for doubt in doubts { (xml(doubt)) "\n" } }
                }
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{JUNIT_MARK}\n{}\n", body.into_string())
}

/// The content of a test case.
fn case(judgement: &Judgement) -> Markup {
    let message = xml(&evidence_words(&judgement.evidence));
    match judgement.outcome {
        Outcome::Met => html! { system-out { (message) } },
        Outcome::NotMet => html! { failure message=(message) { (message) } },
        Outcome::CannotBeTold => html! { error message=(message) { (message) } },
    }
}

/// The judgements as a table in Markdown under a heading, for `$GITHUB_STEP_SUMMARY`.
/// `doubts` as above, in a list below the table.
pub fn expectations_markdown(suite: &str, judgements: &[Judgement], doubts: &[String]) -> String {
    let cell = markdown;
    let row = |judgement: &Judgement| {
        let sign = match judgement.outcome {
            Outcome::Met => "✅",
            Outcome::NotMet => "❌",
            Outcome::CannotBeTold => "❔",
        };
        let outcome = outcome_words(judgement.outcome);
        let evidence = cell(&evidence_words(&judgement.evidence));
        format!("| {sign} {outcome} | `{}` | {evidence} |\n", markdown_code(&named(judgement)))
    };
    let rows: String = judgements.iter().map(row).collect();
    let suite = cell(suite);
    let doubts: String = doubts.iter().map(|doubt| format!("- ⚠ {}\n", cell(doubt))).collect();
    let below = if doubts.is_empty() { doubts } else { format!("{doubts}\n") };
    format!("### flashlab: {suite}\n\n| | Expectation | Measured |\n|---|---|---|\n{rows}\n{below}")
}

/// How many are not met, and how many cannot be told; `None` if all are met.
pub fn expectations_summary(judgements: &[Judgement]) -> Option<String> {
    let count = |outcome| judgements.iter().filter(|judgement| judgement.outcome == outcome).count();
    let counts = [(count(Outcome::NotMet), "not met"), (count(Outcome::CannotBeTold), "cannot be told")];
    let parts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    match judgements {
        [one] if one.outcome == Outcome::NotMet => Some("the expectation is not met".to_owned()),
        [one] if one.outcome == Outcome::CannotBeTold => Some("the expectation cannot be told".to_owned()),
        all => (!parts.is_empty()).then(|| format!("of {} expectations {}", all.len(), parts.join(", "))),
    }
}

/// The expectation, with the experiment that it was applied to, unless it names the experiment itself.
fn named(judgement: &Judgement) -> String {
    let Judgement { expectation, of, .. } = judgement;
    if of.is_empty() || expectation.contains(of.as_str()) {
        expectation.clone()
    } else {
        format!("{expectation} ({of})")
    }
}

fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "met",
        Outcome::NotMet => "not met",
        Outcome::CannotBeTold => "cannot be told",
    }
}

/// The evidence of a judgement in words.
fn evidence_words(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Interval { value, low, high, unit, ios, not_among } => {
            let measured = interval_words(*value, *low, *high, *unit, *ios);
            match not_among {
                Some(ratios) => format!(
                    "{measured}. This holds for this ratio alone: of all {ratios} ratios that were compared, one in twenty \
                     differs as much by chance, and the comparison does not show that this one differs"
                ),
                None => measured,
            }
        }
        Evidence::Parameter { value, confidence, verdict: Verdict::Found } => {
            format!("inferred {value}, with a confidence of {confidence:.2}")
        }
        Evidence::Parameter { verdict, .. } => match verdict {
            Verdict::NotIdentifiable => "not identifiable on this device".to_owned(),
            _ => "undetermined on this device".to_owned(),
        },
        Evidence::NotMeasured { measured } if measured.is_empty() => "nothing was measured".to_owned(),
        Evidence::NotMeasured { measured } => {
            format!("nothing of this name was measured; there are {}", enumeration(measured))
        }
        Evidence::Unfinished { so_far } => {
            format!("the run is unfinished; so far it is met: {}", evidence_words(so_far))
        }
    }
}

/// The first names, and the number of the others.
pub fn enumeration(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMES)].join(", ");
    if names.len() > NAMES { format!("{shown} and {} more", names.len() - NAMES) } else { shown }
}

fn interval_words(value: f64, low: f64, high: Option<f64>, unit: FigureUnit, ios: u64) -> String {
    let with = |value: f64, digits: fn(f64) -> String| match unit {
        FigureUnit::Ns => units::time_as(value, digits),
        FigureUnit::IosPerS => format!("{} IOPS", digits(value)),
        FigureUnit::BytesPerS => units::rate_as(value, digits),
        FigureUnit::Ratio => units::ratio_as(value, digits),
    };
    // Simulated devices repeat so exactly that three digits may show both ends as the bound itself.
    let is_narrow = high.is_some_and(|high| with(low, units::digits) == with(high, units::digits));
    let figure = |value| with(value, if is_narrow { units::fine_digits } else { units::digits });
    let ios = units::grouped(ios);
    match high {
        Some(high) => {
            format!(
                "measured {} from {ios} IOs, with 95 % confidence {} to {}",
                figure(value),
                figure(low),
                figure(high)
            )
        }
        None => format!(
            "measured {} from {ios} IOs, which is at least {} with 95 % confidence; too few IOs are slower than that \
             for an upper bound",
            figure(value),
            figure(low)
        ),
    }
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::{Evidence, FigureUnit, Judgement, Outcome};

    use super::*;

    fn judgement(outcome: Outcome, evidence: Evidence) -> Judgement {
        Judgement { expectation: "RW.p99 < 500us".into(), of: "baseline:RW".into(), outcome, evidence }
    }

    fn interval(high: Option<f64>) -> Evidence {
        Evidence::Interval { value: 4e5, low: 3.5e5, high, unit: FigureUnit::Ns, ios: 1200, not_among: None }
    }

    fn three() -> Vec<Judgement> {
        vec![
            judgement(Outcome::Met, interval(Some(4.5e5))),
            judgement(Outcome::NotMet, interval(None)),
            judgement(Outcome::CannotBeTold, Evidence::NotMeasured { measured: vec!["baseline:SR".into()] }),
        ]
    }

    #[test]
    fn a_judgement_is_a_sentence_with_its_interval() {
        assert_eq!(
            judgement_sentence(&three()[0]),
            "RW.p99 < 500us (baseline:RW): met: measured 400 us from 1\u{202f}200 IOs, with 95 % confidence 350 us to \
             450 us"
        );
        assert!(judgement_sentence(&three()[1]).contains("at least 350 us"));
        assert!(judgement_sentence(&three()[2]).ends_with("there are baseline:SR"));
    }

    #[test]
    fn what_an_unfinished_run_meets_so_far_cannot_be_told() {
        let [met, not_met, unknown] = three().try_into().unwrap();
        let judged = met.of_unfinished();
        assert_eq!(judged.outcome, Outcome::CannotBeTold);
        assert_eq!(
            judgement_sentence(&judged),
            "RW.p99 < 500us (baseline:RW): cannot be told: the run is unfinished; so far it is met: measured 400 us from \
             1\u{202f}200 IOs, with 95 % confidence 350 us to 450 us"
        );
        for judgement in [not_met, unknown] {
            assert_eq!(judgement.clone().of_unfinished(), judgement);
        }
    }

    #[test]
    fn a_narrow_interval_has_enough_digits_to_show_the_side_of_the_bound() {
        let narrow = Evidence::Interval {
            value: 71_290.0,
            low: 71_270.0,
            high: Some(71_300.0),
            unit: FigureUnit::Ns,
            ios: 9,
            not_among: None,
        };
        let sentence = judgement_sentence(&judgement(Outcome::NotMet, narrow));
        assert!(
            sentence.ends_with("measured 71.290 us from 9 IOs, with 95 % confidence 71.270 us to 71.300 us"),
            "{sentence}"
        );
    }

    #[test]
    fn a_ratio_that_differs_only_alone_says_so() {
        let alone = Evidence::Interval {
            value: 1.2,
            low: 1.01,
            high: Some(1.4),
            unit: FigureUnit::Ratio,
            ios: 9,
            not_among: Some(40),
        };
        let sentence = judgement_sentence(&judgement(Outcome::Met, alone));
        assert!(sentence.contains("of all 40 ratios"), "{sentence}");
    }

    #[test]
    fn junit_counts_what_is_not_met_as_failure_and_what_cannot_be_told_as_error() {
        let xml =
            expectations_junit("disk \"a\" <1>\u{1b}", &three(), &["nothing was ever written".to_owned()]);
        assert!(xml.starts_with("<?xml version=\"1.0\""), "{xml}");
        assert!(xml.contains("<testsuite name=\"disk &quot;a&quot; &lt;1&gt;"), "{xml}");
        assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{xml}");
        assert!(!xml.contains('\u{1b}'), "{xml}");
        assert!(
            xml.contains("</testcase><system-out>nothing was ever written\n</system-out></testsuite>"),
            "{xml}"
        );
        assert_eq!(xml.matches("<testcase").count(), 3);
        assert_eq!((xml.matches("</failure>").count(), xml.matches("</error>").count()), (1, 1));
    }

    #[test]
    fn a_name_breaks_no_table_in_markdown() {
        let markdown = expectations_markdown("a|b", &three(), &["nothing <b> was ever written".to_owned()]);
        assert!(markdown.starts_with("### flashlab: a\\|b\n"), "{markdown}");
        assert_eq!(markdown.lines().filter(|line| line.starts_with("| ")).count(), 4, "{markdown}");
        assert!(markdown.contains("|\n\n- ⚠ nothing &lt;b> was ever written\n\n"), "{markdown}");
    }

    #[test]
    fn the_summary_counts_what_is_not_met() {
        assert_eq!(
            expectations_summary(&three()),
            Some("of 3 expectations 1 not met, 1 cannot be told".into())
        );
        assert_eq!(expectations_summary(&three()[..1]), None);
        assert_eq!(expectations_summary(&three()[1..2]), Some("the expectation is not met".into()));
    }
}
