//! The device's row of uFLIP's Table 3, column by column, as texts.
//!
//! Invariant: each column says whether it was measured, and only measured ones have a figure.

use flashlab_analysis::findings::{Characteristics, Findings};

use crate::units;

/// One column of Table 3 for this device.
pub struct Table3Column {
    /// Its heading, as `Locality`.
    pub title: &'static str,
    /// Its figure, for example `8 MB`; `None` if it was not measured.
    pub value: Option<String>,
    /// A detail of the figure, for example `2.00× a sequential write`; may be empty.
    pub detail: String,
    /// What the column means, in a sentence (uFLIP section 5.2).
    pub meaning: &'static str,
}

/// A baseline: its short name, its full name, and its mean response time in nanoseconds.
pub struct BaselineFigure {
    /// `SR`, `RR`, `SW`, `RW`.
    pub name: &'static str,
    /// As `sequential read`.
    pub words: &'static str,
    /// Mean response time; `None` if it was not measured.
    pub mean_ns: Option<f64>,
}

/// The four baselines, in Table 3's order.
pub fn baselines(row: &Characteristics) -> [BaselineFigure; 4] {
    let figure = |name, words, milliseconds: Option<f64>| BaselineFigure {
        name,
        words,
        mean_ns: milliseconds.map(|ms| ms * 1e6),
    };
    [
        figure("SR", "sequential read", row.sr_ms),
        figure("RR", "random read", row.rr_ms),
        figure("SW", "sequential write", row.sw_ms),
        figure("RW", "random write", row.rw_ms),
    ]
}

/// The columns after the baselines, in Table 3's order.
pub fn columns(findings: &Findings) -> Vec<Table3Column> {
    let row = &findings.characteristics;
    vec![
        pause(findings),
        locality(row),
        partitions(row),
        cost(
            "Reverse",
            row.reverse_ratio,
            "a sequential write",
            "The cost of writing backwards (Incr = -1), relative to sequential writes.",
        ),
        cost(
            "In place",
            row.in_place_ratio,
            "a sequential write",
            "The cost of writing repeatedly to the same offset (Incr = 0), relative to sequential writes.",
        ),
        cost(
            "Large gaps",
            row.large_incr_vs_rw,
            "a random write",
            "The cost of writing in order with gaps of 1 to 8 MB (large Incr), relative to random writes.",
        ),
    ]
}

fn pause(findings: &Findings) -> Table3Column {
    // If pauses were measured, a null means that none helps. Otherwise it means "not measured".
    let measured = findings.micro_benchmarks.iter().any(|m| {
        m.name == "pause" && m.experiments.iter().any(|e| e.pattern == "RW" && !e.points.is_empty())
    });
    let (value, detail) = match findings.characteristics.pause_rw_ms {
        Some(ms) => (Some(units::time(ms * 1e6)), "then a random write costs as a sequential one"),
        None if measured => (Some("no effect".to_owned()), "pauses do not make random writes cheaper"),
        None => (None, ""),
    };
    Table3Column {
        title: "Pause",
        value,
        detail: detail.to_owned(),
        meaning: "The pause before each random write from which random writes behave like sequential writes. \
                  No effect means that the device reclaims nothing in the background.",
    }
}

fn locality(row: &Characteristics) -> Table3Column {
    let value = row.locality_mb.map(|mb| match mb {
        0.0 => "no area".to_owned(),
        mb => format!("{} MB", short(mb)),
    });
    let detail = match (row.locality_mb, row.locality_ratio) {
        (Some(mb), Some(ratio)) if mb > 0.0 => format!("{} a sequential write at most", units::ratio(ratio)),
        (Some(0.0), _) => "random writes are expensive in the smallest area too".to_owned(),
        _ => String::new(),
    };
    Table3Column {
        title: "Locality",
        value,
        detail,
        meaning: "The largest area within which random writes stay fast, and their largest cost there, \
                  relative to sequential writes.",
    }
}

fn partitions(row: &Characteristics) -> Table3Column {
    let detail = match (row.partitions, row.partition_ratio) {
        (Some(_), Some(ratio)) => format!("{} one partition", units::ratio(ratio)),
        _ => String::new(),
    };
    Table3Column {
        title: "Partitions",
        value: row.partitions.map(|count| count.to_string()),
        detail,
        meaning: "How many partitions can be written sequentially at once without significant degradation, \
                  and their cost relative to one partition.",
    }
}

fn cost(title: &'static str, ratio: Option<f64>, reference: &str, meaning: &'static str) -> Table3Column {
    let detail = if ratio.is_some() { reference.to_owned() } else { String::new() };
    Table3Column { title, value: ratio.map(units::ratio), detail, meaning }
}

/// `8` for 8, `0.25` for 0.25.
pub fn short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { units::digits(value) }
}
