//! `cargo xtask exercise`: random operations on volumes, compared with a model (see `flashlab_repair::exercise`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::ensure;
use clap::Args;
use flashlab_base::Seed;
use flashlab_repair::{ExerciseReport, exercise};

/// Operations on one volume; then a volume of the next seed is made.
const OPERATIONS_PER_VOLUME: u64 = 20_000;

/// Does random operations on volumes of `flashlab repair`, and compares them with a model in memory.
#[derive(Args)]
pub struct Exercise {
    /// How many operations, at least
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// The seed of the first volume; the next ones have the seeds after it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many threads
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// Exercises volumes, prints, and fails if one differs from its model.
pub fn exercise_volumes(arguments: &Exercise) -> anyhow::Result<()> {
    let each = arguments.operations.clamp(1, OPERATIONS_PER_VOLUME);
    let volumes = arguments.operations.div_ceil(each);
    let next = AtomicU64::new(0);
    let work = || {
        let (mut report, mut failures) = (ExerciseReport::default(), Vec::new());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= volumes {
                return (report, failures);
            }
            match exercise(each, Seed(arguments.seed + index)) {
                Ok(found) => report.add(found),
                Err(failure) => failures.push(failure),
            }
        }
    };
    let (mut report, mut failures) = (ExerciseReport::default(), Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.threads.max(1)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok((found, failed)) => {
                    report.add(found);
                    failures.extend(failed);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    if arguments.json {
        let json = serde_json::json!({
            "operations": report.operations,
            "failures": failures.len(),
            "volumes": volumes,
            "written_bytes": report.written.0,
            "remounts": report.remounts,
            "kills": report.kills,
            "resizes": report.resizes,
            "packed_segments": report.packed_segments,
        });
        println!("{json}");
    } else {
        println!(
            "{} operations on {volumes} volumes, which wrote {}, with {} remounts, {} kills, {} resized volumes and {} \
             packed segments: {} failures",
            report.operations,
            report.written,
            report.remounts,
            report.kills,
            report.resizes,
            report.packed_segments,
            failures.len()
        );
    }
    for failure in &failures {
        eprintln!("seed {}, operation {}: {}", failure.seed, failure.operation, failure.what);
        eprintln!("    replay: cargo xtask exercise --operations {each} --seed {}", failure.seed);
    }
    ensure!(failures.is_empty(), "{} volumes differ from their model", failures.len());
    Ok(())
}
