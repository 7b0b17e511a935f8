//! Several runs side by side, in words: what the terminal and the page of a comparison both say.
//!
//! # Model
//! Runs are called A, B, C and so on, because two runs of one device have the same name. All are
//! compared with A. Points are grouped by micro-benchmark and pattern.
//!
//! Invariant: a difference is called one only where the significance test of
//! [`compare`](fn@flashlab_analysis::compare) shows it; Table 3's ratios are not tested, and are
//! never said to differ.

use std::ops::Range;

use flashlab_analysis::{Comparison, Difference, FigureRow, PointRow};

use crate::table3::short;
use crate::units::{self, UNKNOWN};

/// `A`, `B`, ..., `Z`, `27`, ...
pub fn letter(run: usize) -> String {
    let letter = u8::try_from(run).ok().filter(|&run| run < 26).map(|run| char::from(b'A' + run));
    letter.map_or_else(|| (run + 1).to_string(), String::from)
}

/// A run with its letter and its device.
pub fn run_name(comparison: &Comparison, run: usize) -> String {
    format!("{} {}", letter(run), comparison.devices.get(run).map_or("", String::as_str))
}

/// A column of Table 3 in words, from its name in `uflip_table3.csv`.
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

/// Where the points of each pattern of each micro-benchmark are.
pub fn groups(points: &[PointRow]) -> Vec<Range<usize>> {
    let same = |a: &PointRow, b: &PointRow| a.micro_benchmark == b.micro_benchmark && a.pattern == b.pattern;
    let mut start = 0;
    let ranges = points.chunk_by(same).map(|group| {
        let range = start..start + group.len();
        start = range.end;
        range
    });
    ranges.collect()
}

/// The differences of one run from the first over some points.
pub fn differences(points: &[PointRow], run: usize) -> impl Iterator<Item = &Difference> {
    points.iter().filter_map(move |point| point.differences.get(run)?.as_ref())
}

/// `no difference shown`, or `3 of 12 points differ, 1.48× to 2.10×`.
pub fn in_words(points: &[PointRow], run: usize) -> String {
    let tested = differences(points, run).count();
    let shown: Vec<f64> =
        differences(points, run).filter(|found| found.shown).map(|found| found.ratio).collect();
    if tested == 0 {
        return "not measured in both".to_owned();
    }
    if differences(points, run).all(|found| found.p.is_none()) {
        return "no difference shown (too few repetitions)".to_owned();
    }
    let (Some(least), Some(most)) =
        (shown.iter().copied().reduce(f64::min), shown.iter().copied().reduce(f64::max))
    else {
        return "no difference shown".to_owned();
    };
    let (least, most) = (units::ratio(least), units::ratio(most));
    let range = if least == most { least } else { format!("{least} to {most}") };
    let differ = if shown.len() == 1 { "differs" } else { "differ" };
    format!("{} of {tested} points {differ}, {range}", shown.len())
}

/// One sentence for each run after the first.
pub fn sentences(comparison: &Comparison) -> Vec<String> {
    (1..comparison.devices.len())
        .map(|run| {
            let shown = || differences(&comparison.points, run).filter(|found| found.shown);
            let tested = differences(&comparison.points, run).filter(|found| found.p.is_some()).count();
            let slower = shown().filter(|found| found.ratio > 1.0).count();
            let faster = shown().count() - slower;
            let name = letter(run);
            if tested == 0 {
                format!("{name} and A have no repeated points in common: no difference can be shown.")
            } else if slower + faster == 0 {
                format!("Between {name} and A no difference is shown in any of {tested} points.")
            } else {
                let rest =
                    if slower + faster < tested { "; in the others no difference is shown" } else { "" };
                format!(
                    "Of {tested} points {name} is slower than A in {slower} and faster in {faster}{rest}."
                )
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_letters_as_long_as_there_are_any() {
        assert_eq!([0, 1, 25, 26, 300].map(letter), ["A", "B", "Z", "27", "301"]);
    }
}
