//! Generates the table that the confidences of `infer` come from: `crates/infer/src/calibration.tsv`.
//!
//! # Method
//! 1. Infer devices of all sets: of ten, eight random ones of the simulator (half of them with the usual noise, half
//!    with the other kinds), and two that share no code with the simulator. In addition, one device of the zoo for each
//!    twenty others, and none of them twice.
//! 2. Count for each rule how many of its answers are right (`CalibrationTable`).
//! 3. Write the counts, with the command and the commit.
//!
//! After each batch of devices the table so far is written, so that an interrupted calibration leaves a table.
//!
//! # Invariants
//! - Only answers whose truth is known count, and only those that are not "undetermined".
//! - The number of threads does not change the table.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use flashlab_analysis::inference::{CalibrationTable, Parameter};

use crate::noise;
use crate::score::{self, ProbeOutcome, Set};

/// Devices of a batch.
const BATCH: u64 = 20;
/// The flash devices of the zoo; a test compares it.
const ZOO: u64 = 34;

/// The table that `infer` is built with.
pub fn table() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates/infer/src/calibration.tsv")
}

/// Infers this number of devices from this seed on, and writes the table to `path`.
pub fn calibrate(devices: u64, seed: u64, threads: usize, path: &Path) -> anyhow::Result<()> {
    let commit = commit()?;
    let mut table = CalibrationTable::new();
    let (mut judged, mut failed) = (0, 0);
    let all = devices_of_all_sets(devices, seed);
    for batch in all.chunks(BATCH as usize) {
        for outcome in score::each(batch, Parameter::ALL, threads) {
            match outcome {
                Ok(outcome) => {
                    judged += 1;
                    count(&mut table, &outcome);
                }
                Err(error) => {
                    failed += 1;
                    eprintln!("error: {error:#}");
                }
            }
        }
        let comments = [
            format!("cargo xtask infer-score --calibrate --devices {devices} --seed {seed}"),
            format!("commit {commit}; {judged} devices of all sets"),
        ];
        std::fs::write(path, table.to_text(&comments))
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("{judged} of {devices} devices");
    }
    anyhow::ensure!(failed == 0, "{failed} devices could not be judged");
    Ok(())
}

/// This number of devices from this seed on, of all sets.
pub fn devices_of_all_sets(devices: u64, seed: u64) -> Vec<(Set, u64)> {
    (0..devices).map(|index| chosen(index, seed)).collect()
}

/// The device with this index.
fn chosen(index: u64, seed: u64) -> (Set, u64) {
    let of_zoo = index / BATCH;
    match index % 10 {
        9 if index % BATCH == 9 && of_zoo < ZOO => (Set::Zoo, of_zoo),
        8 | 9 => (Set::Foreign, seed + index),
        _ => (Set::OtherNoise(noise::kind_of(index)), seed + index),
    }
}

/// Counts the answers of a device by the rules that gave them.
fn count(table: &mut CalibrationTable, outcome: &ProbeOutcome) {
    for answer in outcome.answers.iter().filter(|answer| answer.mark.is_some()) {
        if let Some(rule) = &answer.finding.rule {
            table.count(rule, answer.is_right());
        }
    }
}

/// The commit of the working tree; with `+` if it has changes.
fn commit() -> anyhow::Result<String> {
    let git = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .context("cannot run git")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let mark = if changed.is_empty() { "" } else { "+" };
    Ok(format!("{}{mark}", git(&["rev-parse", "--short", "HEAD"])?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::noise::NoiseKind;

    #[test]
    fn a_calibration_has_devices_of_all_sets() {
        let all = devices_of_all_sets(1000, 5_000_000);
        let count = |is: &dyn Fn(&Set) -> bool| all.iter().filter(|(set, _)| is(set)).count();
        assert_eq!(count(&|set| *set == Set::Zoo), ZOO as usize);
        assert_eq!(count(&|set| *set == Set::Foreign), 200 - ZOO as usize);
        // About half of the random devices: the foreign ones take places of other kinds more often.
        assert_eq!(count(&|set| *set == Set::OtherNoise(NoiseKind::Usual)), 420);
        let families: BTreeSet<u64> = all.iter().map(|(_, seed)| seed % 5).collect();
        assert_eq!(families.len(), 5);
    }
}
