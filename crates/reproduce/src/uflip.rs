//! Reproduces Bouganim, Jonsson and Bonnet, uFLIP: Understanding Flash IO Patterns (CIDR 2009), Table 3.
//!
//! # Model
//! The methodology of `flashlab bench` measures each device, with the micro-benchmarks that Table 3 needs.
//! The row is the result of [`characteristics`](flashlab_analysis::characteristics). Two things differ from
//! the paper:
//! - The pauses are closer together than Table 1's powers of two, because the paper gives 5 and 9 ms.
//! - Of a larger device, only the first [`TARGET`] is measured. The columns of the table do not depend on the
//!   size: gaps of 8 MB still visit 512 places.

use flashlab_analysis::findings::Characteristics;
use flashlab_base::{Bytes, Seed};
use flashlab_bench::{Settings, Thoroughness};
use flashlab_plan::Plan;

use crate::lab::{Result, Run, benchmark, on_all_processors, plan, profile};
use crate::papers::Measurement;
use crate::reproduction::{Measured, Reproduction};

/// Table 3.
pub(crate) const TABLE_3: Reproduction = Reproduction {
    name: "uflip-table3",
    title: "The key characteristics of seven flash devices",
    source: "Bouganim et al., uFLIP: Understanding Flash IO Patterns (CIDR 2009), Table 3",
    measure: |seed| Ok(Measured { values: table(&ROWS, seed)?, pictures: Vec::new() }),
};

/// The devices, with the longest runs first.
const ROWS: [&str; 7] = [
    "uflip-transcend-mlc",
    "uflip-dti",
    "uflip-dt-hyperx",
    "uflip-memoright",
    "uflip-mtron",
    "uflip-samsung",
    "uflip-transcend-ide",
];

/// The part of a larger device that is measured.
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

/// The settings: full runs, each of them once.
pub(crate) fn settings(name: &str, seed: Seed) -> Result<Settings> {
    let target_size = TARGET.min(profile(name)?.capacity);
    Ok(Settings { target_size, seed, repetitions: 1, one_regime: true, ..Settings::new(Thoroughness::Full) })
}

/// Measures with the methodology, with these plans.
pub(crate) fn measured(name: &str, plans: &[Plan], seed: Seed) -> Result<Run> {
    benchmark(name, plans, settings(name, seed)?)
}

/// A column: its name, its unit, and its value in the findings.
type Column = (&'static str, &'static str, fn(&Characteristics) -> Option<f64>);

const COLUMNS: [Column; 12] = [
    ("sr_ms", "ms", |row| row.sr_ms),
    ("rr_ms", "ms", |row| row.rr_ms),
    ("sw_ms", "ms", |row| row.sw_ms),
    ("rw_ms", "ms", |row| row.rw_ms),
    ("pause_rw_ms", "ms", |row| row.pause_rw_ms),
    ("locality_mb", "MB", |row| row.locality_mb),
    ("locality_ratio", "", |row| row.locality_ratio),
    ("partitions", "", |row| row.partitions.map(f64::from)),
    ("partition_ratio", "", |row| row.partition_ratio),
    ("reverse_ratio", "", |row| row.reverse_ratio),
    ("in_place_ratio", "", |row| row.in_place_ratio),
    ("large_incr_vs_rw", "", |row| row.large_incr_vs_rw),
];

/// The rows of these devices.
fn table(names: &[&'static str], seed: Seed) -> Result<Vec<Measurement>> {
    let pauses = Plan::parse(PAUSES, "the pauses of uflip-table3").expect("a test measures with it");
    let plans = [pauses, plan("locality"), plan("partitioning"), plan("order")];
    let rows = on_all_processors(names, |name| Ok(measured(name, &plans, seed)?.findings.characteristics))?;
    let of_row = |(name, row): (&&'static str, &Characteristics)| {
        COLUMNS.map(|(column, unit, of)| Measurement::new(name, column, unit, of(row)))
    };
    Ok(names.iter().zip(&rows).flat_map(of_row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::compare_with_paper;

    /// The cells of a row that do not agree, with the measured values.
    fn differing(name: &'static str) -> Vec<String> {
        let figures =
            compare_with_paper(TABLE_3.name, |zoo| zoo == name, table(&[name], Seed(1)).unwrap()).unwrap();
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
