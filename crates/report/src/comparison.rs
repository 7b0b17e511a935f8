//! The texts of a comparison, for the terminal and for the page.
//!
//! # Model
//! Runs are called A, B, C and so on, because two runs of one device have the same name. All are
//! compared with A. Experiments are grouped by micro-benchmark, pattern, and reads or writes.
//!
//! Invariant: a difference is stated only if [`compare`](fn@flashlab_analysis::compare) shows it. The ratios
//! of Table 3 are not tested, and no text states that they differ.

use flashlab_analysis::findings::Regime;
use flashlab_analysis::{
    Comparison, ExperimentKey, ExperimentRow, FigureRow, MissingRow, Ratio, RatioVerdict, RunDetails,
    Statistic, StatisticRatio,
};
use flashlab_base::Mode;

use crate::table3::short;
use crate::units::{self, UNKNOWN};

/// `A`, `B`, ..., `Z`, `27`, ...
pub fn letter(run: usize) -> String {
    let letter = u8::try_from(run).ok().filter(|&run| run < 26).map(|run| char::from(b'A' + run));
    letter.map_or_else(|| (run + 1).to_string(), String::from)
}

/// A run with its letter, its device, and what distinguishes it from other runs of this device.
pub fn run_name(comparison: &Comparison, run: usize) -> String {
    let device = comparison.devices.get(run).map_or("", String::as_str);
    let name = format!("{} {device}", letter(run));
    match comparison.runs.get(run).filter(|details| !details.folder.is_empty()) {
        Some(RunDetails { folder, started, state, .. }) => {
            let state = match state.as_str() {
                "none" => "as the device was".to_owned(),
                state => format!("state: {state}"),
            };
            format!("{name}: {folder}, {started}, {state}")
        }
        None => name,
    }
}

/// The warnings of the runs that may change a verdict, each with the letter of its run.
pub fn warnings(comparison: &Comparison) -> Vec<String> {
    let of = |(run, details): (usize, &RunDetails)| {
        details
            .warnings
            .iter()
            .map(move |warning| units::sentence(&format!("{}: {warning}", letter(run))))
            .collect::<Vec<_>>()
    };
    comparison.runs.iter().enumerate().flat_map(of).collect()
}

/// The title of a column of Table 3, from its name in `uflip_table3.csv`.
pub fn title(name: &str) -> &str {
    match name {
        "capacity_gb" => "Capacity",
        "sr_ms" => "Sequential read",
        "rr_ms" => "Random read",
        "sw_ms" => "Sequential write",
        "rw_ms" => "Random write",
        "pause_rw_ms" => "Pause",
        "locality_mb" => "Locality",
        "locality_ratio" => "Cost within it",
        "partitions" => "Partitions",
        "partition_ratio" => "Their cost",
        "reverse_ratio" => "Reverse",
        "in_place_ratio" => "In place",
        "large_incr_vs_rw" => "Large gaps",
        other => other,
    }
}

/// A run's figure in a column of Table 3, with its unit.
pub fn figure(row: &FigureRow, run: usize) -> String {
    let Some(value) = row.values.get(run).copied().flatten() else { return UNKNOWN.to_owned() };
    if row.name.ends_with("_ms") {
        units::time(value * 1e6)
    } else if row.name.ends_with("_gb") {
        format!("{} GB", short(value))
    } else if row.name == "locality_mb" && value == 0.0 {
        "no area".to_owned()
    } else if row.name.ends_with("_mb") {
        format!("{} MB", short(value))
    } else if row.name == "partitions" {
        short(value)
    } else {
        units::ratio(value)
    }
}

/// The columns of Table 3 that at least one of the runs has.
pub fn measured_rows(comparison: &Comparison) -> impl Iterator<Item = &FigureRow> {
    comparison.characteristics.iter().filter(|row| row.values.iter().any(Option::is_some))
}

/// Experiments of one micro-benchmark and pattern, reads or writes, in the order of the parameter.
pub type ExperimentGroup<'a> = Vec<&'a ExperimentRow>;

/// The experiments by micro-benchmark, pattern and mode, in the order of their first one.
pub fn groups(rows: &[ExperimentRow]) -> Vec<ExperimentGroup<'_>> {
    let curve = |row: &ExperimentRow| {
        let ExperimentKey { micro_benchmark, parameter, pattern, regime, mode, .. } = row.key.clone();
        (micro_benchmark, parameter, pattern, regime, mode)
    };
    let mut groups: Vec<ExperimentGroup<'_>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| curve(group[0]) == curve(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// `granularity RW`, `granularity RW sustained`; with `reads` or `writes` if the pattern has both.
pub fn group_name(key: &ExperimentKey) -> String {
    let name = match key.micro_benchmark == key.pattern {
        true => key.pattern.clone(),
        false => format!("{} {}", key.micro_benchmark, key.pattern),
    };
    let name = match key.regime {
        Some(Regime::Unknown) => format!("{name} (regime unknown)"),
        Some(regime) => format!("{name} {}", regime.name()),
        None => name,
    };
    match (key.pattern.as_str(), key.mode) {
        ("SR" | "RR" | "SW" | "RW", _) => name,
        (_, Mode::Read) => format!("{name} reads"),
        (_, Mode::Write) => format!("{name} writes"),
    }
}

/// `granularity RW 32KiB`.
pub fn experiment_name(key: &ExperimentKey) -> String {
    format!("{} {}", group_name(key), key.label).trim_end().to_owned()
}

/// `median`, `p99`.
pub fn statistic_name(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::P50 => "median",
        _ => statistic.name(),
    }
}

/// What a ratio shows, in one to three words.
pub fn verdict_word(verdict: RatioVerdict) -> &'static str {
    match verdict {
        RatioVerdict::Faster => "faster",
        RatioVerdict::Slower => "slower",
        RatioVerdict::Equal => "equal",
        RatioVerdict::CannotBeTold => "cannot be told",
    }
}

/// `1.85× to 1.95×`.
pub fn interval(ratio: &Ratio) -> String {
    match ratio.high {
        Some(high) => format!("{} to {}", units::ratio(ratio.low), units::ratio(high)),
        None if ratio.low > 0.0 => format!("{} or more", units::ratio(ratio.low)),
        None => "too few IOs".to_owned(),
    }
}

/// The ratios of one run to A, one for each statistic; empty if it lacks the experiment.
pub fn ratios_of(row: &ExperimentRow, run: usize) -> &[StatisticRatio] {
    row.ratios.get(run).and_then(Option::as_deref).unwrap_or_default()
}

/// How a run differs from A in one experiment: `B is slower than A at the median (1.90×) and equal within 10 % at the
/// mean. It cannot be told at p99.9 (about 30 000 IOs of each, in 15 repetitions, would tell).`
pub fn verdict_sentence(row: &ExperimentRow, run: usize) -> String {
    let with =
        |wanted: RatioVerdict| ratios_of(row, run).iter().filter(move |found| found.ratio.verdict == wanted);
    let named = |wanted: RatioVerdict| -> Vec<String> {
        with(wanted).map(|found| statistic_name(found.statistic).to_owned()).collect()
    };
    let with_ratio = |wanted: RatioVerdict| -> Vec<String> {
        let named = |found: &StatisticRatio| {
            format!("{} ({})", statistic_name(found.statistic), units::ratio(found.ratio.ratio))
        };
        with(wanted).map(named).collect()
    };
    let all = ratios_of(row, run);
    if let [first, .., last] = all
        && all.iter().all(|found| found.ratio.verdict == first.ratio.verdict)
        && matches!(first.ratio.verdict, RatioVerdict::Faster | RatioVerdict::Slower)
    {
        let word = verdict_word(first.ratio.verdict);
        let (median, mean) = (units::ratio(first.ratio.ratio), units::ratio(last.ratio.ratio));
        return format!(
            "{} is {word} than A at every quantile (median {median}) and in the mean ({mean}).",
            letter(run)
        );
    }
    let clauses: Vec<String> = [
        ("slower than A at ", with_ratio(RatioVerdict::Slower)),
        ("faster than A at ", with_ratio(RatioVerdict::Faster)),
        ("equal to A within 10 % at ", named(RatioVerdict::Equal)),
    ]
    .into_iter()
    .filter(|(_, named)| !named.is_empty())
    .map(|(words, named)| format!("{words}{}", listed(&named)))
    .collect();
    let mut sentences = Vec::new();
    if !clauses.is_empty() {
        sentences.push(format!("{} is {}.", letter(run), listed(&clauses)));
    }
    let unknown: Vec<String> =
        with(RatioVerdict::CannotBeTold).map(|found| unknown_words(found, run)).collect();
    if !unknown.is_empty() {
        sentences.push(format!("It cannot be told at {}.", listed(&unknown)));
    }
    sentences.join(" ")
}

/// A statistic that cannot be told, with the number of IOs or of repetitions that would tell.
fn unknown_words(found: &StatisticRatio, run: usize) -> String {
    let name = match found.statistic {
        Statistic::P50 | Statistic::Mean => format!("the {}", statistic_name(found.statistic)),
        _ => statistic_name(found.statistic).to_owned(),
    };
    format!("{name} ({})", what_would_tell(&found.ratio, run))
}

/// `about 30 000 IOs of each, in 15 repetitions, would tell`. Where repetitions differ, their number decides: `the repetitions of B differ (5.1 ms,
/// 48 ms and 5.3 ms): about 14 repetitions of each would tell`.
pub fn what_would_tell(ratio: &Ratio, run: usize) -> String {
    match (odd_repetitions(ratio, run), ratio.ios_needed, ratio.repetitions_needed) {
        (Some(odd), Some(_), Some(repetitions)) => {
            format!("{odd}: about {} repetitions of each would tell", units::about(repetitions))
        }
        (Some(odd), ..) => format!("{odd}: more repetitions than can be measured would tell"),
        (None, Some(ios), Some(repetitions)) => format!(
            "about {} IOs of each, in {} repetitions, would tell",
            units::about(ios),
            units::about(repetitions)
        ),
        (None, ..) => "more IOs than can be measured would tell".to_owned(),
    }
}

/// Whose repetitions differ more than their IOs explain, with their figures: `the repetitions of B differ (5.1 ms, 48 ms and
/// 5.3 ms)`. `None` if neither do.
pub fn odd_repetitions(ratio: &Ratio, run: usize) -> Option<String> {
    let of = |run: usize, repetitions: &Option<Vec<f64>>| {
        let figures: Vec<String> = repetitions.as_ref()?.iter().map(|&ns| units::time(ns)).collect();
        // Simulated devices repeat so exactly that even a difference of no consequence is significant.
        let is_shown = figures.iter().any(|figure| *figure != figures[0]);
        is_shown.then(|| format!("the repetitions of {} differ ({})", letter(run), listed(&figures)))
    };
    let odd: Vec<String> = [of(0, &ratio.first_repetitions_ns), of(run, &ratio.other_repetitions_ns)]
        .into_iter()
        .flatten()
        .collect();
    (!odd.is_empty()).then(|| odd.join(", "))
}

/// How a statistic of a run differs from A's over several experiments: `slower at 5 of 12 values (1.30× to 2.10×), equal
/// at 4, cannot be told at 3`.
pub fn statistic_over(rows: &[&ExperimentRow], run: usize, statistic: Statistic) -> String {
    let found: Vec<&Ratio> = rows
        .iter()
        .flat_map(|row| ratios_of(row, run))
        .filter(|found| found.statistic == statistic)
        .map(|found| &found.ratio)
        .collect();
    if found.is_empty() {
        return "not measured in both".to_owned();
    }
    let of = [RatioVerdict::Slower, RatioVerdict::Faster, RatioVerdict::Equal, RatioVerdict::CannotBeTold];
    let clause = |verdict: RatioVerdict| {
        let ratios: Vec<f64> =
            found.iter().filter(|ratio| ratio.verdict == verdict).map(|ratio| ratio.ratio).collect();
        let (least, most) =
            (ratios.iter().copied().reduce(f64::min)?, ratios.iter().copied().reduce(f64::max)?);
        let range = match verdict {
            RatioVerdict::Equal | RatioVerdict::CannotBeTold => String::new(),
            _ if units::ratio(least) == units::ratio(most) => format!(" ({})", units::ratio(least)),
            _ => format!(" ({} to {})", units::ratio(least), units::ratio(most)),
        };
        Some((verdict_word(verdict), ratios.len(), range))
    };
    let clauses = of.into_iter().filter_map(clause).enumerate().map(|(index, (word, count, range))| {
        let of_all = if index == 0 { format!(" of {}", found.len()) } else { String::new() };
        format!("{word} at {count}{of_all}{range}")
    });
    clauses.collect::<Vec<_>>().join(", ")
}

/// One or two sentences for each run after the first.
pub fn sentences(comparison: &Comparison) -> Vec<String> {
    let rows: Vec<&ExperimentRow> = comparison.experiments.iter().collect();
    (1..comparison.devices.len())
        .map(|run| {
            let name = letter(run);
            match rows.as_slice() {
                rows if rows.iter().all(|row| ratios_of(row, run).is_empty()) => {
                    format!("{name} and A have no experiment in common, so that nothing can be compared.")
                }
                [row] => verdict_sentence(row, run),
                rows => format!(
                    "{name}'s median: {}. Its p99: {}.",
                    statistic_over(rows, run, Statistic::P50),
                    statistic_over(rows, run, Statistic::P99)
                ),
            }
        })
        .collect()
}

/// What the figures mean, and what they do not mean.
pub fn method(comparison: &Comparison) -> String {
    format!(
        "Each ratio has a 95 % confidence interval that holds for dependent IOs and for few repetitions. Holm's correction \
         covers all {} ratios: if nothing differs, a difference is reported in at most one comparison of twenty. \
         \u{201c}Equal\u{201d} means that the whole interval lies within 10 % of A. Runs are compared, not device \
         models: their states, temperature and other load are part of the ratios.",
        units::grouped(comparison.tests as u64)
    )
}

/// The experiments that only some of the runs have, by these runs: `only A has`, and the experiments.
pub fn missing(comparison: &Comparison) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(Vec<usize>, Vec<String>)> = Vec::new();
    for MissingRow { key, runs } in &comparison.missing {
        match found.iter_mut().find(|(of, _)| of == runs) {
            Some((_, names)) => names.push(experiment_name(key)),
            None => found.push((runs.clone(), vec![experiment_name(key)])),
        }
    }
    let named = |runs: Vec<usize>| {
        let letters: Vec<String> = runs.into_iter().map(letter).collect();
        format!("only {} {}", listed(&letters), if letters.len() == 1 { "has" } else { "have" })
    };
    found.into_iter().map(|(runs, names)| (named(runs), names)).collect()
}

/// `a`, `a and b`, `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_letters_as_long_as_there_are_any() {
        assert_eq!([0, 1, 25, 26, 300].map(letter), ["A", "B", "Z", "27", "301"]);
    }
}
