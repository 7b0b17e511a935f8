//! Reliability: how often answers of a confidence are right.
//!
//! # Method
//! 1. Each answer whose truth is known, and that is not "undetermined", falls into the bin of its confidence.
//! 2. A bin has the mean confidence of its answers and the number of right ones. If the confidences are calibrated,
//!    the share of right answers is the mean confidence (DeGroot and Fienberg 1983, "The comparison and evaluation of
//!    forecasters").

use flashlab_analysis::inference::{CONFIDENT, Verdict};
use serde_json::{Value, json};

use crate::score::{JudgedAnswer, ProbeOutcome};

/// The ends of the bins. They are finer where answers are many.
const EDGES: [f64; 9] = [0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 1.0];

/// The answers whose confidence is at least `from` and below `to`; 1 is in the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    pub from: f64,
    pub to: f64,
    /// The sum of the confidences.
    confidence: f64,
    pub answers: u64,
    pub right: u64,
}

impl Bin {
    /// The mean confidence of its answers; 0 without answers.
    pub fn confidence(&self) -> f64 {
        self.confidence / self.answers.max(1) as f64
    }
}

/// The bins of these devices, empty ones included.
pub fn bins(outcomes: &[ProbeOutcome]) -> Vec<Bin> {
    let mut bins: Vec<Bin> =
        EDGES.windows(2).map(|ends| Bin { from: ends[0], to: ends[1], ..Bin::default() }).collect();
    for answer in judged(outcomes) {
        let confidence = answer.finding.confidence;
        let index = EDGES[1..EDGES.len() - 1].partition_point(|&edge| edge <= confidence);
        bins[index].confidence += confidence;
        bins[index].answers += 1;
        bins[index].right += u64::from(answer.is_right());
    }
    bins
}

/// Answers that were given, and whose truth is known.
fn judged(outcomes: &[ProbeOutcome]) -> impl Iterator<Item = &JudgedAnswer> {
    let answers = outcomes.iter().flat_map(|outcome| &outcome.answers);
    answers.filter(|answer| answer.mark.is_some() && answer.finding.verdict != Verdict::Undetermined)
}

/// `[{"from", "to", "confidence", "answers", "right"}]`, without empty bins.
pub fn json(outcomes: &[ProbeOutcome]) -> String {
    let filled = bins(outcomes).into_iter().filter(|bin| bin.answers > 0);
    let bins: Vec<Value> = filled
        .map(|bin| {
            json!({
                "from": bin.from, "to": bin.to, "confidence": bin.confidence(), "answers": bin.answers, "right": bin.right
            })
        })
        .collect();
    serde_json::to_string_pretty(&bins).expect("numbers")
}

/// The bins as a table, and the goals: how many right answers are confident, and how many confident ones are wrong.
pub fn text(outcomes: &[ProbeOutcome]) -> String {
    let mut out = format!(
        "{:>6} {:>6} {:>11}{:>9}{:>8}{:>9}{:>12}\n",
        "from", "to", "confidence", "answers", "right", "share", "difference"
    );
    for bin in bins(outcomes).iter().filter(|bin| bin.answers > 0) {
        let share = bin.right as f64 / bin.answers as f64;
        let (percent, points) = (100.0 * share, 100.0 * (share - bin.confidence()));
        out += &format!(
            "{:>6} {:>6} {:>11.3}{:>9}{:>8}{percent:>7.1} %{points:>+11.1}\n",
            bin.from,
            bin.to,
            bin.confidence(),
            bin.answers,
            bin.right
        );
    }
    out + &summary(outcomes)
}

/// How many right answers are confident, and how many confident ones are wrong.
pub fn summary(outcomes: &[ProbeOutcome]) -> String {
    let count = |is: &dyn Fn(&JudgedAnswer) -> bool| judged(outcomes).filter(|answer| is(answer)).count();
    let right = count(&|answer| answer.is_right());
    let sharp = count(&|answer| answer.is_right() && answer.finding.confidence >= CONFIDENT);
    let wrong = count(&|answer| !answer.is_right() && answer.finding.confidence >= CONFIDENT);
    let all =
        outcomes.iter().flat_map(|outcome| &outcome.answers).filter(|answer| answer.mark.is_some()).count();
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    format!(
        "{sharp} of {right} right answers ({:.1} %) have a confidence of {CONFIDENT} or more.\n\
         {wrong} of {all} answers ({:.2} %) are wrong, or denied although there is a value, with a confidence of {CONFIDENT} or more.\n",
        percent(sharp, right),
        percent(wrong, all)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flashlab_analysis::inference::{Finding, Parameter};
    use flashlab_base::{Bytes, Nanos};

    use super::*;
    use crate::truth::{Mark, Truth};

    fn outcome(answers: &[(f64, Option<Mark>)]) -> ProbeOutcome {
        let answers = answers.iter().map(|&(confidence, mark)| JudgedAnswer {
            parameter: Parameter::ReadPageSize,
            finding: Finding::found(Parameter::ReadPageSize, 4096u64, confidence, ""),
            truth: Truth::unjudged("a test"),
            mark,
        });
        ProbeOutcome {
            seed: 1,
            family: "page",
            capacity: Bytes::mib(64),
            answers: answers.collect(),
            real: Duration::ZERO,
            groups: Vec::new(),
            virtual_time: Nanos::ZERO,
            written: Bytes::ZERO,
        }
    }

    #[test]
    fn an_answer_is_in_the_bin_of_its_confidence() {
        let one = outcome(&[
            (0.95, Some(Mark::Exact)),
            (0.96, Some(Mark::Wrong)),
            (0.94, Some(Mark::Near)),
            (1.0, Some(Mark::Exact)),
            (0.3, None),
        ]);
        let counts: Vec<_> = bins(&[one])
            .into_iter()
            .filter(|bin| bin.answers > 0)
            .map(|bin| (bin.from, bin.answers, bin.right, (bin.confidence() * 1e3).round()))
            .collect();
        assert_eq!(counts, [(0.9, 1, 1, 940.0), (0.95, 2, 1, 955.0), (0.975, 1, 1, 1000.0)]);
    }

    #[test]
    fn the_table_says_how_sharp_and_how_often_wrong() {
        let text = text(&[outcome(&[
            (0.96, Some(Mark::Exact)),
            (0.5, Some(Mark::Exact)),
            (0.97, Some(Mark::Wrong)),
        ])]);
        assert!(text.contains("1 of 2 right answers (50.0 %)"), "{text}");
        assert!(text.contains("1 of 3 answers (33.33 %) are wrong"), "{text}");
    }
}
