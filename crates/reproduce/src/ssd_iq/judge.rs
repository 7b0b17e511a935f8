//! Rows next to what the models of their drives do.
//!
//! # Method
//! 1. Rows of the same workload on the same drive share one experiment, and rows that differ in nothing but the run are one value: their mean.
//! 2. Experiments run on all CPUs. A ladder of rates is one experiment.
//! 3. The counter of a drive whose sequential run does not come to about 1 counts in a unit of its own. Its rows are compared after
//!    division by the sequential one, and so are the model's.
//! 4. The knee of a drive is the most writes a second that it did on the ladder, if the ladder offers more than that.

use std::fmt;

use flashlab_base::Seed;
use flashlab_sim::Profile;

use super::drives::RealDrive;
use super::experiment::{Model, Steady, steady};
use super::ladder::{Rung, climb};
use super::rows::{DriveRows, LatencyRow, RowUse};
use super::workload::Workload;
use crate::lab::{Result, on_all_processors, profile};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The steady rate of writes, in MiB/s.
    SteadyRate,
    /// Bytes programmed for each byte of the host.
    MediaWrites,
    /// The most writes a second.
    Knee,
    /// The median response time of reads, in microseconds.
    ReadP50,
    /// The 99th percentile of reads.
    ReadP99,
    /// The median response time of writes.
    WriteP50,
    /// The 99th percentile of writes.
    WriteP99,
}

impl Quantity {
    /// Every quantity.
    pub const ALL: [Quantity; 7] = [
        Quantity::SteadyRate,
        Quantity::MediaWrites,
        Quantity::Knee,
        Quantity::ReadP50,
        Quantity::ReadP99,
        Quantity::WriteP50,
        Quantity::WriteP99,
    ];

    /// Its unit; empty for a ratio.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::SteadyRate => "MiB/s",
            Quantity::MediaWrites => "",
            Quantity::Knee => "writes/s",
            _ => "us",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Quantity::SteadyRate => "steady rate",
            Quantity::MediaWrites => "media writes",
            Quantity::Knee => "knee",
            Quantity::ReadP50 => "read p50",
            Quantity::ReadP99 => "read p99",
            Quantity::WriteP50 => "write p50",
            Quantity::WriteP99 => "write p99",
        })
    }
}

/// A value of a real drive, and its model's.
#[derive(Clone, Debug)]
pub struct RowComparison {
    /// The drive.
    pub drive: &'static RealDrive,
    /// What is compared.
    pub quantity: Quantity,
    /// The workload, and the part of the drive in use if it is not all of it.
    pub workload: String,
    /// The number of rows whose mean `measured` is.
    pub rows: usize,
    /// The real drive's value.
    pub measured: f64,
    /// The model's value.
    pub simulated: f64,
    /// Whether the profile was fitted to it.
    pub row_use: RowUse,
    /// The rate offered, in operations a second, of a latency.
    pub offered: Option<f64>,
}

impl RowComparison {
    /// The model's difference from the drive, as a share of the drive's value.
    pub fn difference(&self) -> f64 {
        self.simulated / self.measured - 1.0
    }
}

/// One run of a workload.
#[derive(Clone, Debug, PartialEq)]
struct Experiment {
    drive: &'static RealDrive,
    workload: Workload,
    gib: f64,
    overwrites: f64,
}

enum Task {
    Steady(Experiment),
    Ladder(&'static RealDrive, Vec<f64>),
}

enum Outcome {
    Steady(Steady),
    Ladder(Vec<Rung>),
}

/// Compares rows with the zoo's models of their drives.
///
/// # Errors
/// If a model cannot be measured.
pub fn judge(rows: &DriveRows, seed: Seed) -> Result<Vec<RowComparison>> {
    compare(rows, seed, &|drive| profile(drive.zoo))
}

/// Compares rows with a model that is not the zoo's.
///
/// # Errors
/// If the model cannot be measured.
pub fn judge_profile(model: &Profile, rows: &DriveRows, seed: Seed) -> Result<Vec<RowComparison>> {
    compare(rows, seed, &|_| Ok(model.clone()))
}

fn compare(
    rows: &DriveRows,
    seed: Seed,
    model: &(dyn Fn(&RealDrive) -> Result<Profile> + Sync),
) -> Result<Vec<RowComparison>> {
    let experiments = experiments(rows);
    let ladders = ladders(rows);
    let tasks: Vec<Task> = ladders
        .iter()
        .map(|(drive, offered)| Task::Ladder(drive, offered.clone()))
        .chain(experiments.iter().cloned().map(Task::Steady))
        .collect();
    let outcomes = on_all_processors(&tasks, |task| match task {
        Task::Steady(Experiment { drive, workload, gib, overwrites }) => {
            let profile = model(drive)?;
            let model = Model { drive, profile: &profile };
            steady(model, workload, *gib, *overwrites, seed).map(Outcome::Steady)
        }
        Task::Ladder(drive, offered) => {
            let profile = model(drive)?;
            climb(Model { drive, profile: &profile }, offered, seed).map(Outcome::Ladder)
        }
    })?;
    let (mut climbed, mut measured) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Outcome::Steady(steady) => measured.push(steady),
            Outcome::Ladder(rungs) => climbed.push(rungs),
        }
    }
    let mut comparisons = steady_rates(rows, &experiments, &measured);
    comparisons.extend(media_writes(rows, &experiments, &measured));
    for ((drive, _), rungs) in ladders.iter().zip(&climbed) {
        comparisons.extend(latencies(rows, drive, rungs));
    }
    Ok(comparisons)
}

fn experiments(rows: &DriveRows) -> Vec<Experiment> {
    let mut experiments = Vec::new();
    for row in &rows.steady {
        let whole = row.gib.min(row.drive.gib as f64);
        let overwrites = row.overwrites.round().max(1.0);
        let one = Experiment { drive: row.drive, workload: row.workload.clone(), gib: whole, overwrites };
        if !experiments.contains(&one) {
            experiments.push(one);
        }
    }
    for row in &rows.media {
        let (gib, overwrites) =
            (row.gib.min(row.drive.gib as f64), if row.workload.begins_empty() { 1.0 } else { 4.0 });
        if of_media(&experiments, row.drive, &row.workload, gib).is_none() {
            experiments.push(Experiment {
                drive: row.drive,
                workload: row.workload.clone(),
                gib,
                overwrites,
            });
        }
    }
    experiments
}

/// The experiment that a row of media writes belongs to: the counter's rows do not say how often the drive was written.
fn of_media(experiments: &[Experiment], drive: &RealDrive, workload: &Workload, gib: f64) -> Option<usize> {
    experiments.iter().position(|one| {
        one.drive == drive && one.workload == *workload && one.gib == gib.min(drive.gib as f64)
    })
}

/// The drives with ladders, and the rates of each.
fn ladders(rows: &DriveRows) -> Vec<(&'static RealDrive, Vec<f64>)> {
    let mut ladders: Vec<(&'static RealDrive, Vec<f64>)> = Vec::new();
    for row in &rows.latency {
        let index = ladders.iter().position(|(drive, _)| *drive == row.drive).unwrap_or_else(|| {
            ladders.push((row.drive, Vec::new()));
            ladders.len() - 1
        });
        if !ladders[index].1.contains(&row.offered) {
            ladders[index].1.push(row.offered);
        }
    }
    ladders
}

/// Adds a row to the comparison that it is one of, or makes a new one. `measured` is the sum until [`means`].
fn add(comparisons: &mut Vec<RowComparison>, one: RowComparison) {
    let is_same = |other: &&mut RowComparison| {
        (other.drive, other.quantity, &other.workload, other.row_use)
            == (one.drive, one.quantity, &one.workload, one.row_use)
            && other.simulated == one.simulated
    };
    match comparisons.iter_mut().find(is_same) {
        Some(other) => {
            other.measured += one.measured;
            other.rows += 1;
        }
        None => comparisons.push(one),
    }
}

fn means(mut comparisons: Vec<RowComparison>) -> Vec<RowComparison> {
    comparisons.iter_mut().for_each(|one| one.measured /= one.rows as f64);
    comparisons
}

fn label(workload: &Workload, gib: f64, drive: &RealDrive) -> String {
    if gib >= drive.gib as f64 { workload.to_string() } else { format!("{workload}, {gib} GiB in use") }
}

fn steady_rates(rows: &DriveRows, experiments: &[Experiment], measured: &[Steady]) -> Vec<RowComparison> {
    let mut comparisons = Vec::new();
    for row in &rows.steady {
        let gib = row.gib.min(row.drive.gib as f64);
        let overwrites = row.overwrites.round().max(1.0);
        let found = experiments.iter().zip(measured).find(|(one, _)| {
            one.drive == row.drive
                && one.workload == row.workload
                && one.gib == gib
                && one.overwrites == overwrites
        });
        let Some((_, steady)) = found else { continue };
        let one = RowComparison {
            drive: row.drive,
            quantity: Quantity::SteadyRate,
            workload: label(&row.workload, gib, row.drive),
            rows: 1,
            measured: row.mib_s,
            simulated: steady.mib_s,
            row_use: row.row_use,
            offered: None,
        };
        add(&mut comparisons, one);
    }
    means(comparisons)
}

/// The least and the most that a counter in bytes comes to in a sequential run.
const IN_BYTES: std::ops::RangeInclusive<f64> = 0.9..=1.5;

fn media_writes(rows: &DriveRows, experiments: &[Experiment], measured: &[Steady]) -> Vec<RowComparison> {
    let simulated = |drive: &RealDrive, workload: &Workload, gib: f64| {
        of_media(experiments, drive, workload, gib).map(|index| measured[index].media_per_host)
    };
    let mut comparisons = Vec::new();
    for row in &rows.media {
        let sequential: Vec<f64> = rows
            .media
            .iter()
            .filter(|other| other.drive == row.drive && other.workload == Workload::Sequential)
            .map(|other| other.media_per_host)
            .collect();
        let mean = crate::lab::mean(&sequential);
        let unit = if sequential.is_empty() || IN_BYTES.contains(&mean) { 1.0 } else { mean };
        let Some(media) = simulated(row.drive, &row.workload, row.gib) else { continue };
        let of_sequential =
            simulated(row.drive, &Workload::Sequential, row.drive.gib as f64).filter(|_| unit != 1.0);
        let one = RowComparison {
            drive: row.drive,
            quantity: Quantity::MediaWrites,
            workload: label(&row.workload, row.gib, row.drive),
            rows: 1,
            measured: row.media_per_host / unit,
            simulated: media / of_sequential.unwrap_or(1.0),
            row_use: row.row_use,
            offered: None,
        };
        add(&mut comparisons, one);
    }
    means(comparisons)
}

/// Each percentile of a drive at each rate, and its knee.
fn latencies(rows: &DriveRows, drive: &'static RealDrive, rungs: &[Rung]) -> Vec<RowComparison> {
    let mut comparisons = Vec::new();
    let of_drive: Vec<&LatencyRow> = rows.latency.iter().filter(|row| row.drive == drive).collect();
    for row in &of_drive {
        let Some(rung) = rungs.iter().find(|rung| rung.offered == row.offered) else { continue };
        for (quantity, measured, simulated) in [
            (Quantity::ReadP50, row.read_p50_us, rung.read_p50_us),
            (Quantity::ReadP99, row.read_p99_us, rung.read_p99_us),
            (Quantity::WriteP50, row.write_p50_us, rung.write_p50_us),
            (Quantity::WriteP99, row.write_p99_us, rung.write_p99_us),
        ] {
            let one = RowComparison {
                drive,
                quantity,
                workload: format!("{} operations/s", row.offered),
                rows: 1,
                measured,
                simulated,
                row_use: row.row_use,
                offered: Some(row.offered),
            };
            add(&mut comparisons, one);
        }
    }
    let mut comparisons = means(comparisons);
    let most = of_drive.iter().max_by(|a, b| a.writes_per_s.total_cmp(&b.writes_per_s));
    let offers_more = of_drive.iter().any(|row| row.writes_per_s < 0.9 * row.offered);
    if let Some(most) = most.filter(|_| offers_more) {
        comparisons.push(RowComparison {
            drive,
            quantity: Quantity::Knee,
            workload: "4 KiB random writes".to_owned(),
            rows: of_drive.len(),
            measured: most.writes_per_s,
            simulated: rungs.iter().map(|rung| rung.writes_per_s).fold(0.0, f64::max),
            row_use: most.row_use,
            offered: None,
        });
    }
    comparisons
}
