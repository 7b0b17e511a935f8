//! Bouganim, Jonsson and Bonnet, uFLIP: Understanding Flash IO Patterns (CIDR 2009), Table 3.
//!
//! # Model
//! Each device is measured by the methodology of `flashlab bench`, with the micro-benchmarks that Table 3 needs, and
//! the row is what [`characteristics`](flashlab_analysis::characteristics) finds. Two things differ from the paper:
//! the pauses are closer together than Table 1's powers of two, since the paper gives 5 and 9 ms, and only
//! the first [`TARGET`] of a larger device is measured, as its columns do not depend on the size: 8 MB gaps still
//! meet 512 places.

use flashlab_analysis::findings::{Characteristics, Findings};
use flashlab_base::Bytes;
use flashlab_bench::{Settings, Thoroughness};
use flashlab_plan::Plan;

use crate::lab::{Result, benchmark, on_all_processors, plan, profile};
use crate::{Agreement, Figure, Reproduction};

/// Table 3.
pub(crate) const TABLE_3: Reproduction = Reproduction {
    name: "uflip-table3",
    title: "The key characteristics of seven flash devices",
    source: "Bouganim et al., uFLIP: Understanding Flash IO Patterns (CIDR 2009), Table 3",
    measure: || table(&ROWS),
};

/// The values of Table 3, with the names of the devices in the zoo.
const PAPER: &str = include_str!("../figures/uflip_table3.csv");

/// The devices, those that take longest first.
const ROWS: [&str; 7] = [
    "uflip-transcend-mlc",
    "uflip-dti",
    "uflip-dt-hyperx",
    "uflip-memoright",
    "uflip-mtron",
    "uflip-samsung",
    "uflip-transcend-ide",
];

/// How much of a larger device is measured.
const TARGET: Bytes = Bytes(4 << 30);

/// The pause micro-benchmark with closer values.
const PAUSES: &str = r#"
version = 1
name = "pause"
title = "Pause: response time of random writes over Pause"
description = "Closer together than Table 1 of uFLIP has them."
vary = "Pause"
values = ["3ms", "4ms", "4.5ms", "5ms", "5.5ms", "6ms", "7ms", "8ms", "9ms", "10ms", "12.8ms", "25.6ms"]
quick_values = ["3ms", "25.6ms"]

[[experiment]]
name = "RW"
pattern = "RW"
"#;

/// How the runs are done: as long as they need, each once.
pub(crate) fn settings(name: &str) -> Result<Settings> {
    let target_size = TARGET.min(profile(name)?.capacity);
    Ok(Settings { target_size, repetitions: 1, ..Settings::new(Thoroughness::Full) })
}

/// What the methodology finds with these plans.
pub(crate) fn findings(name: &str, plans: &[Plan]) -> Result<Findings> {
    benchmark(name, plans, settings(name)?)
}

/// A column: its name, its unit, how near it has to be, and where it stands in what was found.
struct Column {
    name: &'static str,
    unit: &'static str,
    agreement: Agreement,
    of: fn(&Characteristics) -> Option<f64>,
}

const fn time(name: &'static str, of: fn(&Characteristics) -> Option<f64>) -> Column {
    Column { name, unit: "ms", agreement: Agreement::Within(0.15), of }
}

const fn ratio(name: &'static str, of: fn(&Characteristics) -> Option<f64>) -> Column {
    Column { name, unit: "", agreement: Agreement::Within(0.25), of }
}

const fn count(name: &'static str, unit: &'static str, of: fn(&Characteristics) -> Option<f64>) -> Column {
    Column { name, unit, agreement: Agreement::PowerOfTwo, of }
}

const COLUMNS: [Column; 12] = [
    time("sr_ms", |row| row.sr_ms),
    time("rr_ms", |row| row.rr_ms),
    time("sw_ms", |row| row.sw_ms),
    time("rw_ms", |row| row.rw_ms),
    time("pause_rw_ms", |row| row.pause_rw_ms),
    count("locality_mb", "MB", |row| row.locality_mb),
    ratio("locality_ratio", |row| row.locality_ratio),
    count("partitions", "", |row| row.partitions.map(f64::from)),
    ratio("partition_ratio", |row| row.partition_ratio),
    ratio("reverse_ratio", |row| row.reverse_ratio),
    ratio("in_place_ratio", |row| row.in_place_ratio),
    ratio("large_incr_vs_rw", |row| row.large_incr_vs_rw),
];

/// The paper's value; `None` where it says that there is none.
pub(crate) fn paper(name: &str, column: &str) -> Option<f64> {
    let mut lines = PAPER.lines().filter(|line| !line.starts_with('#'));
    let at = lines.next()?.split(',').position(|heading| heading == column)?;
    let row = lines.find(|line| line.split(',').next() == Some(name))?;
    row.split(',').nth(at)?.parse().ok()
}

/// The rows of these devices, in the paper's order.
fn table(names: &[&'static str]) -> Result<Vec<Figure>> {
    let pauses = Plan::parse(PAUSES, "the pauses of uflip-table3").expect("a test measures with it");
    let plans = [pauses, plan("locality"), plan("partitioning"), plan("order")];
    let rows = on_all_processors(names, |name| Ok((*name, findings(name, &plans)?.characteristics)))?;
    let in_paper = |name: &str| PAPER.lines().position(|line| line.split(',').next() == Some(name));
    let mut rows = rows;
    rows.sort_by_key(|(name, _)| in_paper(name));
    let figure = |name: &str, row: &Characteristics, column: &Column| Figure {
        device: name.to_owned(),
        quantity: column.name.to_owned(),
        unit: column.unit.to_owned(),
        paper: paper(name, column.name),
        flashlab: (column.of)(row),
        agreement: column.agreement,
    };
    Ok(rows.iter().flat_map(|(name, row)| COLUMNS.iter().map(|column| figure(name, row, column))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cells of a row that do not agree, with what was found.
    fn differing(name: &'static str) -> Vec<String> {
        let figures = table(&[name]).unwrap();
        assert_eq!(figures.len(), COLUMNS.len());
        assert!(figures.iter().filter(|figure| figure.paper.is_some()).count() >= 10, "{name}");
        let differing = figures.into_iter().filter(|figure| !figure.agrees());
        differing.map(|figure| format!("{} {:.1?}", figure.quantity, figure.flashlab)).collect()
    }

    #[test]
    fn the_memoright() {
        assert_eq!(differing("uflip-memoright"), [""; 0]);
    }

    #[test]
    fn the_mtron() {
        assert_eq!(differing("uflip-mtron"), [""; 0]);
    }

    #[test]
    fn the_samsung() {
        assert_eq!(differing("uflip-samsung"), [""; 0]);
    }

    #[test]
    fn the_transcend_ide_module() {
        assert_eq!(differing("uflip-transcend-ide"), [""; 0]);
    }

    #[test]
    fn the_transcend_mlc() {
        assert_eq!(differing("uflip-transcend-mlc"), ["locality_ratio Some(1.8)"]);
    }

    #[test]
    fn the_hyper_x() {
        assert_eq!(differing("uflip-dt-hyperx"), [""; 0]);
    }

    #[test]
    fn the_dti() {
        assert_eq!(differing("uflip-dti"), [""; 0]);
    }
}
