//! Fits the zoo's models of real drives.

use std::path::PathBuf;

use clap::Args;
use flashlab_base::Seed;
use flashlab_reproduce::{Comparison, REAL_DRIVES, judge_profile, known_rows};
use flashlab_sim::Profile;

/// Fits.
#[derive(Args)]
pub struct FitZoo {
    /// Only this drive, by its name in the zoo
    drive: Option<String>,
    /// Show
    #[arg(long)]
    show: Option<PathBuf>,
    #[arg(long)]
    all: bool,
    #[arg(long)]
    latencies: bool,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Fits.
pub fn fit_zoo(arguments: &FitZoo) -> anyhow::Result<()> {
    for drive in &REAL_DRIVES {
        if arguments.drive.as_ref().is_some_and(|name| name != drive.zoo) {
            continue;
        }
        let profile = match &arguments.show {
            Some(path) => Profile::parse(&std::fs::read_to_string(path)?, "x")?,
            None => flashlab_sim::zoo().into_iter().find(|p| p.name == drive.zoo).unwrap(),
        };
        let mut rows = if arguments.all { known_rows().of_drives(|d| d == drive) } else { known_rows().to_fit(drive.zoo) };
        if !arguments.latencies {
            rows = rows.without_latencies();
        }
        let t = std::time::Instant::now();
        let c = judge_profile(&profile, &rows, Seed(arguments.seed))?;
        print(&c);
        println!("{} s", t.elapsed().as_secs_f64());
    }
    Ok(())
}

fn print(comparisons: &[Comparison]) {
    for one in comparisons {
        println!(
            "{:<16} {:<52} {:<12} {:>10.2} {:>10.2} {:>+7.1} % {} x{}",
            one.drive.zoo, one.workload, one.quantity, one.measured, one.simulated,
            100.0 * one.difference(), one.row_use, one.rows
        );
    }
}
