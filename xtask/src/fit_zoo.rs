//! Fits the zoo's models of real drives to rows that others measured.
//!
//! # Method
//! Only rows marked `fit` are seen. For each drive:
//! 1. `program` follows from the sequential rate, of the rows or of the data sheet, and the pipeline's bandwidth from what one large
//!    write at a time reaches.
//! 2. Coarse search: for each way of collecting garbage, `over_provisioning` is set so that uniform writes have their rate.
//! 3. Refinement of the best: over-provisioning, the time of a copy and the size of the blocks change in turn, by smaller and smaller factors, as
//!    long as the errors become smaller.
//! 4. The same for the time of a read and the step that it waits for, with the latencies.
//!
//! # Invariants
//! - The same program and seed give the same profile.

mod knobs;
mod search;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use flashlab_base::Seed;
use flashlab_reproduce::{
    Quantity, REAL_DRIVES, RealDrive, RowComparison, judge_profile, known_rows, summaries,
};
use flashlab_sim::Profile;

/// Fits the zoo's models of real drives to the rows that others measured.
#[derive(Args)]
pub struct FitZoo {
    /// The drive, by its name in the zoo; default: all of them
    drive: Option<String>,
    /// The seed of the writes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Begin with this profile instead of the zoo's
    #[arg(long, value_name = "FILE", requires = "drive")]
    from: Option<PathBuf>,
    /// Change nothing, and show how the profile does
    #[arg(long)]
    show: bool,
    /// Fit rates only, which takes less time than latencies
    #[arg(long)]
    rates: bool,
    /// Keep the way of collecting garbage
    #[arg(long)]
    keep_collection: bool,
    /// Write the profile into this folder instead of crates/sim/profiles
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Fits each drive and writes its profile.
///
/// # Errors
/// When a model cannot be measured or a profile not be written.
pub fn fit_zoo(arguments: &FitZoo) -> Result<()> {
    let is_wanted = |drive: &&RealDrive| arguments.drive.as_ref().is_none_or(|name| name == drive.zoo);
    let drives: Vec<&RealDrive> = REAL_DRIVES.iter().filter(is_wanted).collect();
    let names: Vec<&str> = REAL_DRIVES.iter().map(|drive| drive.zoo).collect();
    ensure!(!drives.is_empty(), "there is no such drive; there are {}", names.join(", "));
    for drive in drives {
        let profile = match &arguments.from {
            Some(file) => Profile::parse(&std::fs::read_to_string(file)?, &file.display().to_string())?,
            None => flashlab_sim::zoo()
                .into_iter()
                .find(|profile| profile.name == drive.zoo)
                .context("the zoo has a model of each drive")?,
        };
        fit(drive, profile, arguments)?;
    }
    Ok(())
}

fn fit(drive: &'static RealDrive, profile: Profile, arguments: &FitZoo) -> Result<()> {
    let mut rows = known_rows().to_fit(drive.zoo);
    if arguments.rates {
        rows = rows.without_latencies();
    }
    let seed = Seed(arguments.seed);
    let fitted = if arguments.show {
        profile
    } else {
        let search = search::Search { drive, rows: &rows, seed, keep_collection: arguments.keep_collection };
        search.fit(profile)?
    };
    let comparisons = judge_profile(&fitted, &rows, seed)?;
    print!("{}", table(&comparisons));
    if !arguments.show {
        let fitted = Profile { fit: fit_text(drive, arguments.seed, &fitted.fit, &comparisons), ..fitted };
        let folder = arguments
            .output
            .clone()
            .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/sim/profiles")));
        let file = folder.join(format!("{}.toml", drive.zoo));
        std::fs::write(&file, fitted.to_toml())
            .with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}; seed {}", file.display(), arguments.seed);
    }
    Ok(())
}

/// How well a profile fits. What a person wrote behind [`NOT_EXPLAINED`] stays.
fn fit_text(drive: &RealDrive, seed: u64, before: &str, comparisons: &[RowComparison]) -> String {
    let errors: Vec<String> = summaries(comparisons)
        .into_iter()
        .filter(|one| matches!(one.quantity, Quantity::SteadyRate | Quantity::ReadP50 | Quantity::ReadP99))
        .map(|one| format!("{} within {:.1} % (95 % of {})", one.quantity, 100.0 * one.p95, one.values))
        .collect();
    let text =
        format!("`cargo xtask fit-zoo {}`, seed {seed}, rows marked fit: {}.", drive.zoo, errors.join(", "));
    match before.split_once(NOT_EXPLAINED) {
        Some((_, what)) => format!("{text} {NOT_EXPLAINED}{what}"),
        None => text,
    }
}

/// Before what no mechanism of a profile explains.
const NOT_EXPLAINED: &str = "Not explained:";

fn table(comparisons: &[RowComparison]) -> String {
    let mut text = String::new();
    for one in comparisons {
        text += &format!(
            "{:<16} {:<40} {:<12} {:>10.1} {:>10.1} {:>+7.1} %\n",
            one.drive.zoo,
            one.workload,
            one.quantity,
            one.measured,
            one.simulated,
            100.0 * one.difference()
        );
    }
    for one in summaries(comparisons) {
        text += &format!(
            "{:<12} {:>3} values, median {:.1} %, p95 {:.1} %\n",
            one.quantity,
            one.values,
            100.0 * one.median,
            100.0 * one.p95
        );
    }
    text
}
