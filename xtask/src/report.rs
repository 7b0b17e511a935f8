//! Prints the score, as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use flashlab_analysis::inference::{Parameter, Unit, Value, Verdict};
use flashlab_base::{Bytes, Nanos};
use serde_json::{Map, json};

use crate::score::{JudgedAnswer, ProbeOutcome, Set, Tally};
use crate::truth::{Mark, Rule, Truth, rule};

/// The number of wrong answers that are listed.
const WORST: usize = 40;

/// Per parameter, as an object.
pub fn json(outcomes: &[ProbeOutcome], only: &[Parameter]) -> String {
    let parameters: Map<String, serde_json::Value> = only
        .iter()
        .map(|&parameter| {
            let tally = Tally::of(of(outcomes, parameter).map(|(_, answer)| answer));
            let object = json!({
                "exact": tally.exact,
                "within_3_percent": tally.within_3_percent,
                "wrong": tally.wrong,
                "confidently_wrong": tally.confidently_wrong,
                "undetermined": tally.undetermined,
                "not_identifiable": tally.not_identifiable,
                "not_identifiable_wrong": tally.not_identifiable_wrong,
                "identifiable": tally.identifiable,
                "devices": tally.devices,
            });
            (parameter.name().to_owned(), object)
        })
        .collect();
    serde_json::to_string_pretty(&parameters).expect("names and numbers")
}

fn of(
    outcomes: &[ProbeOutcome],
    parameter: Parameter,
) -> impl Iterator<Item = (&ProbeOutcome, &JudgedAnswer)> {
    outcomes.iter().flat_map(move |outcome| {
        let answers = outcome.answers.iter().filter(move |answer| answer.parameter == parameter);
        answers.map(move |answer| (outcome, answer))
    })
}

/// The tables.
pub fn text(set: Set, outcomes: &[ProbeOutcome], only: &[Parameter]) -> String {
    let mut out = String::new();
    let _ = write_all(&mut out, set, outcomes, only);
    out
}

fn write_all(out: &mut String, set: Set, outcomes: &[ProbeOutcome], only: &[Parameter]) -> std::fmt::Result {
    writeln!(
        out,
        "{:<22}{:>6} {:>8}{:>6}{:>6}{:>6}{:>6} {:>9}{:>7}{:>7}",
        "parameter", "rule", "devices", "exact", "<=3%", "wrong", "at 0.95", "undeterm.", "hidden", "denied"
    )?;
    for &parameter in only {
        let tally = Tally::of(of(outcomes, parameter).map(|(_, answer)| answer));
        let rule = if rule(parameter) == Rule::Exact { "exact" } else { "3 %" };
        writeln!(
            out,
            "{parameter:<22}{rule:>6} {:>8}{:>6}{:>6}{:>6}{:>6} {:>9}{:>7}{:>7}",
            tally.devices,
            tally.exact,
            tally.within_3_percent,
            tally.wrong,
            tally.confidently_wrong,
            tally.undetermined,
            tally.not_identifiable,
            tally.not_identifiable_wrong,
        )?;
    }
    writeln!(
        out,
        "\n<=3%: the exact ones among them. at 0.95: wrong with a confidence of at least 0.95. hidden: not identifiable, \
         which is right. denied: not identifiable, which is wrong. Devices whose truth is not known are not counted."
    )?;
    goals(out, outcomes, only)?;
    confusion(out, outcomes, only)?;
    worst(out, set, outcomes)?;
    times(out, outcomes)
}

/// By family: the share of right answers, without those that are correctly "not identifiable", and how many
/// of all are wrong with a confidence of 0.95 or more.
fn goals(out: &mut String, outcomes: &[ProbeOutcome], only: &[Parameter]) -> std::fmt::Result {
    let by_rule = |family: Option<&str>, of: Rule| {
        let answers = outcomes
            .iter()
            .filter(|outcome| family.is_none_or(|family| outcome.family == family))
            .flat_map(|outcome| &outcome.answers)
            .filter(|answer| rule(answer.parameter) == of && only.contains(&answer.parameter));
        Tally::of(answers)
    };
    let right = |right: u64, of: u64| {
        let share = 100.0 * right as f64 / of.max(1) as f64;
        format!("{right} of {of} ({share:.1} %)")
    };
    writeln!(
        out,
        "\n{:<18}{:>8} {:>24}{:>24}{:>24}",
        "family", "devices", "equal", "within 3 %", "wrong at 0.95"
    )?;
    let families: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.family).collect();
    for family in families.into_iter().map(Some).chain([None]) {
        let (equal, near) = (by_rule(family, Rule::Exact), by_rule(family, Rule::Near));
        let devices =
            outcomes.iter().filter(|outcome| family.is_none_or(|family| outcome.family == family)).count();
        writeln!(
            out,
            "{:<18}{devices:>8} {:>24}{:>24}{:>24}",
            family.unwrap_or("all"),
            right(equal.exact, equal.devices - equal.not_identifiable),
            right(near.within_3_percent, near.devices - near.not_identifiable),
            right(equal.confidently_wrong + near.confidently_wrong, equal.devices + near.devices),
        )?;
    }
    writeln!(
        out,
        "\nequal: of counts, powers of two, words and truths; within 3 %: of sizes, times and shares; each of those that do not \
         rightly say that nothing is to be found."
    )
}

/// By family: truth and answer of parameters that are words or yes/no, and "too high" or "too low" for the
/// others.
fn confusion(out: &mut String, outcomes: &[ProbeOutcome], only: &[Parameter]) -> std::fmt::Result {
    writeln!(out, "\nConfusion, by parameter and family (truth -> answer: how often)")?;
    for &parameter in only {
        let mut counts: BTreeMap<(&str, String), u64> = BTreeMap::new();
        for (outcome, answer) in of(outcomes, parameter) {
            if let Some(kind) = confused(answer) {
                *counts.entry((outcome.family, kind)).or_default() += 1;
            }
        }
        for ((family, kind), count) in counts {
            writeln!(out, "  {parameter:<22}{family:<12}{kind}: {count}")?;
        }
    }
    Ok(())
}

/// How an answer differs from the truth, if it does.
fn confused(answer: &JudgedAnswer) -> Option<String> {
    let (mark, truth) = (answer.mark?, in_words(&answer.truth, answer.parameter));
    match (mark, &answer.finding.value, &answer.truth) {
        (Mark::Exact | Mark::Near | Mark::NotIdentifiable, ..) => None,
        (Mark::Undetermined, ..) => Some("undetermined".to_owned()),
        (_, _, Truth::NotIdentifiable(_)) => Some("not identifiable -> found".to_owned()),
        (Mark::NotIdentifiableWrong, ..) => Some("found -> not identifiable".to_owned()),
        (_, Some(Value::Number(found)), Truth::Is(Value::Number(right))) => {
            Some(if found > right { "over" } else { "under" }.to_owned())
        }
        _ => Some(format!("{truth} -> {}", answer.finding.value_in_words())),
    }
}

/// The wrong answers, those with the highest confidence first, each with the command that repeats it.
fn worst(out: &mut String, set: Set, outcomes: &[ProbeOutcome]) -> std::fmt::Result {
    let is_bad =
        |answer: &JudgedAnswer| matches!(answer.mark, Some(Mark::Wrong | Mark::NotIdentifiableWrong));
    let mut bad: Vec<(&ProbeOutcome, &JudgedAnswer)> = outcomes
        .iter()
        .flat_map(|outcome| outcome.answers.iter().map(move |answer| (outcome, answer)))
        .filter(|(_, answer)| is_bad(answer))
        .collect();
    bad.sort_by(|(a, x), (b, y)| {
        let by_confidence = y.finding.confidence.total_cmp(&x.finding.confidence);
        by_confidence.then(x.parameter.cmp(&y.parameter)).then(a.seed.cmp(&b.seed))
    });
    writeln!(out, "\nWrong answers ({}), the surest first", bad.len())?;
    for (outcome, answer) in bad.iter().take(WORST) {
        writeln!(out, "{}", line(outcome, answer))?;
        writeln!(
            out,
            "      cargo xtask infer-score{} --devices 1 --seed {} --only {} --verbose",
            set.option(),
            outcome.seed,
            answer.parameter
        )?;
    }
    Ok(())
}

/// All answers, next to the truth.
pub fn answers(outcomes: &[ProbeOutcome]) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        for answer in &outcome.answers {
            let _ = writeln!(out, "{}", line(outcome, answer));
        }
        let _ = writeln!(
            out,
            "{:>6} {:<12}{}: {:.1} s, {} on its clock, {} written",
            outcome.seed,
            outcome.family,
            outcome.capacity,
            outcome.real.as_secs_f64(),
            outcome.virtual_time,
            outcome.written
        );
    }
    out
}

fn line(outcome: &ProbeOutcome, answer: &JudgedAnswer) -> String {
    let finding = &answer.finding;
    let found = match finding.verdict {
        Verdict::Found => finding.value_in_words(),
        other => other.to_string(),
    };
    let mark = match answer.mark {
        None => "not judged",
        Some(Mark::Exact) => "exact",
        Some(Mark::Near) => "near",
        Some(Mark::Wrong) => "WRONG",
        Some(Mark::Undetermined) => "-",
        Some(Mark::NotIdentifiable) => "right",
        Some(Mark::NotIdentifiableWrong) => "DENIED",
    };
    format!(
        "{:>6} {:<12}{:<22}{mark:<11}{found} ({:.3}{}); truth: {}; {}",
        outcome.seed,
        outcome.family,
        answer.parameter.name(),
        finding.confidence,
        finding.rule.as_ref().map_or(String::new(), |rule| format!(", {rule}")),
        in_words(&answer.truth, answer.parameter),
        finding.evidence
    )
}

/// A truth, with its unit.
fn in_words(truth: &Truth, parameter: Parameter) -> String {
    let value = |value: &Value| match (value, parameter.unit()) {
        (Value::Truth(truth), _) => if *truth { "yes" } else { "no" }.to_owned(),
        (Value::Word(word), _) => word.clone(),
        (Value::Number(number), Unit::Bytes) => Bytes(number.round() as u64).exact(),
        (Value::Number(number), Unit::Nanos) => Nanos(number.round() as u64).to_string(),
        (Value::Number(number), Unit::Count) => format!("{number:.0}"),
        (Value::Number(number), _) => format!("{number:.4}"),
    };
    match truth {
        Truth::Is(right) => value(right),
        Truth::OneOf(right) => right.iter().map(value).collect::<Vec<_>>().join(" or "),
        Truth::Between(ends) => ends.map(|end| value(&end.into())).join(" to "),
        Truth::NotIdentifiable(why) => format!("not identifiable ({why})"),
        Truth::Unjudged(why) => format!("not judged ({why})"),
    }
}

/// What the inferences took.
fn times(out: &mut String, outcomes: &[ProbeOutcome]) -> std::fmt::Result {
    let Some(slowest) = outcomes.iter().max_by_key(|outcome| outcome.real) else { return Ok(()) };
    let total: f64 = outcomes.iter().map(|outcome| outcome.real.as_secs_f64()).sum();
    let per_gib = |outcome: &ProbeOutcome| {
        outcome.real.as_secs_f64() / (outcome.capacity.0 as f64 / f64::from(1 << 30)).max(1.0)
    };
    let worst = outcomes.iter().map(per_gib).fold(0.0, f64::max);
    let most_written = outcomes
        .iter()
        .map(|outcome| outcome.written.0 as f64 / outcome.capacity.0 as f64)
        .fold(0.0, f64::max);
    writeln!(
        out,
        "\n{} devices; real time of an inference: mean {:.1} s, longest {:.1} s (seed {}, {}, {} on its clock), at most \
         {worst:.1} s for each GiB begun; written at most {most_written:.2} times the capacity",
        outcomes.len(),
        total / outcomes.len() as f64,
        slowest.real.as_secs_f64(),
        slowest.seed,
        slowest.capacity,
        slowest.virtual_time,
    )?;
    let mut groups: BTreeMap<&str, (f64, f64, u64)> = BTreeMap::new();
    for outcome in outcomes {
        for &(group, real) in &outcome.groups {
            let real = real.as_secs_f64();
            let (all, longest, seed) = groups.entry(group).or_default();
            *all += real;
            if real >= *longest {
                (*longest, *seed) = (real, outcome.seed);
            }
        }
    }
    for (group, (all, longest, seed)) in groups {
        let mean = all / outcomes.len() as f64;
        writeln!(out, "  {group:<20} mean {mean:>6.2} s, longest {longest:>7.2} s (seed {seed})")?;
    }
    Ok(())
}
