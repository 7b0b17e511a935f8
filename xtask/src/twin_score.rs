//! Judges `flashlab model twin`: measure a random device, infer it, fit a twin, measure the twin, and compare.
//!
//! # Model
//! The devices are those that `infer-score` judges, with two changes. A host queues up to 32 requests in front of a device that
//! takes fewer, as the kernel does. And 0.2 % of the response times are ten times as long, or 2 % are four times as long: with
//! the 1 % of `infer-score` the 99th percentile would lie on the edge between the usual times and the outliers, and two
//! measurements of one device would differ by 95 % there.
//!
//! # Method
//! 1. `flashlab bench` measures the device, by the quick values, in the steady state, each run several times.
//! 2. `flashlab infer` infers the same device, new and hidden behind its answers.
//! 3. `flashlab model twin` makes a twin of the two. It sees nothing else of the device.
//! 4. `flashlab bench` measures the device once more, with another seed, so other requests and other noise; and the twin with that seed.
//!    So a twin is judged on what it was not made of.
//! 5. What the device differs by from itself, between the two, is the repeatability. `agreement` judges each point by it.
//! 6. Device and twin are measured [`MEASUREMENTS`] times with other seeds. Together these measurements say more precisely how far the twin is from
//!    the device; and what lies beyond all of the device's is no chance of one measurement.

mod agreement;
mod table3;

use std::panic;
use std::path::Path;
use std::slice::from_ref;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use flashlab_analysis::inference::Parameter;
use flashlab_analysis::{TwinDifference, TwinFigures};
use flashlab_base::{Nanos, Seed};
use flashlab_bench::{BenchManifest, Settings, Silent, State, Thoroughness, bench};
use flashlab_model::twin::{MeasuredRuns, TwinFit, compare_runs, fit_twin};
use flashlab_plan::Plan;
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use flashlab_sim::Profile;
use flashlab_sim::profile::Noise;
use serde_json::json;
use tempfile::TempDir;

use self::agreement::{Agreement, agreement, beyond};
use crate::hidden::Hidden;
use crate::population::{self, DeviceFamily};
use crate::score;

/// How often the device is measured with seeds of its own. A further measurement lies between the others' smallest and largest figure with a
/// probability of 3 in 5; with two it would be 1 in 3.
const MEASUREMENTS: u64 = 4;

/// Judges `flashlab model twin` on random devices.
#[derive(Args)]
pub struct TwinScore {
    /// How many devices
    #[arg(long, default_value_t = 20)]
    devices: u64,
    /// The seed of the first one; the next ones have the seeds after it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The score as JSON
    #[arg(long)]
    json: bool,
    /// How often each run of a benchmark is repeated
    #[arg(long, default_value_t = 10)]
    repetitions: u32,
    /// How many devices at once
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Judge the seven devices of uFLIP's Table 3 instead, by their characteristics
    #[arg(long)]
    zoo: bool,
    /// With --zoo: these devices only
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "zoo")]
    only: Vec<String>,
    /// Make the twins without an inference: of runs of bench alone
    #[arg(long)]
    no_inference: bool,
    /// What was tried for each device, its profile and its twin's, and the figures of each point; with --json the points
    #[arg(long)]
    verbose: bool,
}

/// What became of one device.
struct TwinOutcome {
    seed: u64,
    family: DeviceFamily,
    fit: TwinFit,
    profile: Profile,
    /// The twin against the device's second measurement.
    difference: TwinDifference,
    /// The device's first measurement against its second.
    repeatability: TwinDifference,
    /// All further measurements of the twin against all of the device; and the device's first one.
    long: [TwinDifference; 2],
    /// The twin, and the device's first measurement: by how much they lie beyond all further measurements of the device.
    beyond: [TwinDifference; 2],
}

impl TwinOutcome {
    /// The errors of the twin, and of the device measured once more.
    fn plain(&self) -> [&TwinDifference; 2] {
        [&self.difference, &self.repeatability]
    }

    /// The same of all further measurements together.
    fn long(&self) -> [&TwinDifference; 2] {
        [&self.long[0], &self.long[1]]
    }

    /// The same beyond all measurements of the device.
    fn beyond(&self) -> [&TwinDifference; 2] {
        [&self.beyond[0], &self.beyond[1]]
    }
}

/// Judges the devices and prints the score.
pub fn twin_score(arguments: &TwinScore) -> Result<()> {
    if arguments.zoo {
        return table3::judge(arguments);
    }
    let seeds: Vec<u64> = (arguments.seed..arguments.seed + arguments.devices).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..arguments.threads.clamp(1, seeds.len().max(1)) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = panic::catch_unwind(|| outcome(seed, arguments))
                        .unwrap_or_else(|_| Err(anyhow!("something panicked")))
                        .with_context(|| format!("seed {seed}"));
                    if let Ok(outcome) = &outcome {
                        eprintln!("{}", line(outcome));
                    }
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((seed, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|&(seed, _)| seed);
    let (mut outcomes, mut failed) = (Vec::new(), 0);
    for (_, outcome) in done {
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => {
                failed += 1;
                eprintln!("error: {error:#}");
            }
        }
    }
    if arguments.json {
        println!("{:#}", document(&outcomes, arguments.verbose));
    } else {
        if arguments.verbose {
            outcomes.iter().for_each(|outcome| print!("{}", details(outcome)));
        }
        print!("{}", table(&outcomes));
    }
    anyhow::ensure!(failed == 0, "{failed} devices could not be judged");
    Ok(())
}

/// A device of `infer-score` behind a host's queue, and with outliers that a 99th percentile can tell.
fn device(seed: u64) -> Profile {
    const QUEUE: u32 = 32;
    let mut profile = population::profile(seed);
    profile.controller.depth = profile.controller.depth.max(QUEUE);
    let (outlier_share, outlier_factor) = if seed.is_multiple_of(2) { (0.002, 10.0) } else { (0.02, 4.0) };
    profile.noise = profile.noise.map(|noise| Noise { outlier_share, outlier_factor, ..noise });
    profile
}

fn outcome(seed: u64, arguments: &TwinScore) -> Result<TwinOutcome> {
    let repetitions = arguments.repetitions;
    let profile = device(seed);
    let measured = measure(&profile, Seed(seed), repetitions)?;
    let known = match arguments.no_inference {
        true => None,
        false => Some(score::inferred(
            &mut Hidden::new(profile.device()?),
            seed,
            Parameter::ALL,
            score::VIRTUAL,
            &mut (),
        )),
    };
    let fit = fit_twin(&measured, known.as_ref(), &|_| ())?;
    let other = |which: u64| Seed(seed).derive("judged", which);
    let again = |which: u64| measure(&population::with_noise(&profile, !which), other(which), repetitions);
    let again: Vec<MeasuredRuns> = (0..MEASUREMENTS).map(again).collect::<Result<_>>()?;
    let twin: Vec<MeasuredRuns> = (0..MEASUREMENTS)
        .map(|which| measure(&fit.profile, other(which), repetitions))
        .collect::<Result<_>>()?;
    let against = |run| again.iter().map(|again| compare_runs(from_ref(again), from_ref(run))).collect();
    let [of_twin, of_itself]: [Vec<TwinDifference>; 2] = [against(&twin[0]), against(&measured)];
    let long = [compare_runs(&again, &twin), compare_runs(&again, from_ref(&measured))];
    let beyond = [beyond(&of_twin), beyond(&of_itself)];
    let first =
        |differences: Vec<TwinDifference>| differences.into_iter().next().context("nothing was measured");
    Ok(TwinOutcome {
        seed,
        family: population::family_of(seed),
        difference: first(of_twin)?,
        repeatability: first(of_itself)?,
        long,
        beyond,
        fit,
        profile,
    })
}

/// Measures as `flashlab bench --quick --until-steady --repetitions N` does, with as much time as the runs need.
fn measure(profile: &Profile, seed: Seed, repetitions: u32) -> Result<MeasuredRuns> {
    const BUDGET: Nanos = Nanos::from_secs(5000);
    let settings = Settings {
        state: State::Steady,
        repetitions,
        budget: Some(BUDGET),
        ..Settings::new(Thoroughness::Quick)
    };
    let directory = measured_in_folder(profile, Settings { seed, ..settings })?;
    Ok(MeasuredRuns::read(&directory.path().join("run"))?)
}

/// Measures the whole device; the run is in the folder `run` of this directory.
fn measured_in_folder(profile: &Profile, settings: Settings) -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    let target = format!("sim:{}", profile.name);
    let settings = Settings { target, target_size: profile.capacity, ..settings };
    run_bench(&directory.path().join("run"), profile, settings)?;
    Ok(directory)
}

fn run_bench(path: &Path, profile: &Profile, settings: Settings) -> Result<()> {
    let plan = |name: &&str| Plan::builtin(name).expect("the micro-benchmarks are shipped").to_toml();
    let manifest = BenchManifest {
        plans: Plan::MICRO_BENCHMARKS.iter().map(plan).collect(),
        ..Manifest::new(FolderKind::Bench, settings, profile.identity(), "none needed: simulated")
    };
    let folder = RunFolder::create(path, &manifest)?;
    Ok(bench(&mut profile.device()?, &folder, &manifest, &AtomicBool::new(false), &Silent)?)
}

/// One device in a line.
fn line(outcome: &TwinOutcome) -> String {
    let TwinOutcome { seed, family, fit, profile, .. } = outcome;
    let [twin, itself] = outcome.plain().map(|found| three(&found.error));
    format!(
        "{seed:>9} {family:<7} {:>9}  {:<24} twin {twin}   itself {itself}",
        profile.capacity.to_string(),
        fit.model
    )
}

fn three(error: &TwinFigures) -> String {
    let percent = |share: f64| format!("{:>6.1} %", share * 100.0);
    format!("{} {} {}", percent(error.mean), percent(error.p50), percent(error.p99))
}

/// By device, by micro-benchmark and by family.
fn table(outcomes: &[TwinOutcome]) -> String {
    let mut text =
        "errors of mean, median and 99th percentile: of the twin, and of the device measured once more\n"
            .to_owned();
    for outcome in outcomes {
        text += &format!("{}\n", line(outcome));
    }
    text += &rows(outcomes, TwinOutcome::plain);
    text +=
        &format!("{MEASUREMENTS} measurements of the twin and {MEASUREMENTS} of the device, each together\n");
    text += &rows(outcomes, TwinOutcome::long);
    text += &format!("beyond all {MEASUREMENTS} further measurements of the device\n");
    text += &rows(outcomes, TwinOutcome::beyond);
    let found = agreed(outcomes);
    let shares = [
        ("within 10 %, or 1.5 times what the device is off from itself, of all points", found.within),
        ("points that the device repeats within 10 %", found.repeatable),
        ("error of the twin at those", found.error_where_repeatable),
    ];
    for (name, figures) in shares {
        text += &format!("{name}: {}\n", three(&figures));
    }
    for outcome in outcomes {
        for micro in &outcome.difference.micro_benchmarks {
            if let Some(missing) = micro.missing {
                text += &format!("{}: {} is not reproduced; missing: {missing}\n", outcome.seed, micro.name);
            }
        }
        // Where no mechanism was chosen, what the best one lacks is what the simulator lacks for this device.
        let flash = outcome.fit.candidates.iter().find(|candidate| candidate.model.starts_with("flash"));
        if let Some(flash) = flash.filter(|flash| flash.model != outcome.fit.model) {
            for (micro, missing) in &flash.missing {
                text +=
                    &format!("{}: {} was not chosen; {micro} lacks: {missing}\n", outcome.seed, flash.model);
            }
            if let Some(reason) = &flash.refused {
                text += &format!("{}: no flash: {reason}\n", outcome.seed);
            }
        }
    }
    text
}

/// Errors by micro-benchmark, by family and of all.
fn rows(outcomes: &[TwinOutcome], errors: fn(&TwinOutcome) -> [&TwinDifference; 2]) -> String {
    let mut text = String::new();
    let mut row = |name: &str, all: Vec<[TwinFigures; 2]>| {
        if !all.is_empty() {
            let [twin, itself] =
                [0, 1].map(|side| three(&TwinFigures::mean_of(all.iter().map(|both| both[side]))));
            text += &format!("{name:<17} twin {twin}   itself {itself}\n");
        }
    };
    for name in Plan::MICRO_BENCHMARKS {
        let of = |found: &TwinDifference| {
            found.micro_benchmarks.iter().find(|micro| micro.name == *name).map(|micro| micro.error)
        };
        let both = |outcome| {
            let [twin, itself] = errors(outcome);
            Some([of(twin)?, of(itself)?])
        };
        row(name, outcomes.iter().filter_map(both).collect());
    }
    let both = |outcome| errors(outcome).map(|found| found.error);
    for family in DeviceFamily::ALL {
        let of_family = outcomes.iter().filter(|outcome| outcome.family == family);
        row(&format!("family {family}"), of_family.map(both).collect());
    }
    row("all", outcomes.iter().map(both).collect());
    text
}

fn agreed(outcomes: &[TwinOutcome]) -> Agreement {
    agreement(outcomes.iter().map(TwinOutcome::plain))
}

fn document(outcomes: &[TwinOutcome], verbose: bool) -> serde_json::Value {
    let mean = |of: &dyn Fn(&TwinOutcome) -> &TwinDifference| {
        TwinFigures::mean_of(outcomes.iter().map(|outcome| of(outcome).error))
    };
    let [all, itself] = [0, 1].map(|side| mean(&|outcome| outcome.plain()[side]));
    let agreed = agreed(outcomes);
    let worst = outcomes.iter().max_by(|a, b| a.difference.error.mean.total_cmp(&b.difference.error.mean));
    json!({
        "devices": outcomes.len(),
        "mean_error": all.mean,
        "p50_error": all.p50,
        "p99_error": all.p99,
        "worst": worst.map(|worst| json!({
            "seed": worst.seed,
            "family": worst.family.name(),
            "model": worst.fit.model,
            "error": worst.difference.error,
            "point": worst.difference.outliers().first().map(|(micro, point)| json!({"micro_benchmark": micro.name, "point": point})),
        })),
        "repeatability": itself,
        "long": {
            "measurements": MEASUREMENTS,
            "twin": mean(&|outcome| &outcome.long[0]),
            "itself": mean(&|outcome| &outcome.long[1]),
        },
        "beyond": {
            "measurements": MEASUREMENTS,
            "twin": mean(&|outcome| &outcome.beyond[0]),
            "itself": mean(&|outcome| &outcome.beyond[1]),
        },
        "agreement": {
            "within": agreed.within,
            "repeatable": agreed.repeatable,
            "error_where_repeatable": agreed.error_where_repeatable,
        },
        "by_device": outcomes.iter().map(|outcome| by_device(outcome, verbose)).collect::<Vec<_>>(),
    })
}

/// A device's errors; with `verbose`, its points, too.
fn by_device(outcome: &TwinOutcome, verbose: bool) -> serde_json::Value {
    let ([twin, itself], [long, long_itself]) = (outcome.plain(), outcome.long());
    let [beyond, beyond_itself] = outcome.beyond();
    let of = |found: &TwinDifference| match verbose {
        true => json!(found),
        false => json!(found.error),
    };
    json!({
        "seed": outcome.seed,
        "family": outcome.family.name(),
        "model": outcome.fit.model,
        "candidates": outcome.fit.candidates,
        "error": of(twin),
        "repeatability": of(itself),
        "long": of(long),
        "long_itself": of(long_itself),
        "beyond": of(beyond),
        "beyond_itself": of(beyond_itself),
    })
}

/// What was tried, both profiles, and each point.
fn details(outcome: &TwinOutcome) -> String {
    let mut text = format!("{}\n", line(outcome));
    for step in &outcome.fit.log {
        text += &format!("    {step}\n");
    }
    text +=
        &format!("---- twin\n{}---- device\n{}", outcome.fit.profile.to_toml(), outcome.profile.to_toml());
    for micro in &outcome.difference.micro_benchmarks {
        for point in &micro.points {
            let figures = |figures: &TwinFigures| {
                format!(
                    "{:>9.0} {:>9.0} {:>9.0} us",
                    figures.mean / 1e3,
                    figures.p50 / 1e3,
                    figures.p99 / 1e3
                )
            };
            text += &format!(
                "{:<14} {:<6} {:<8} device {} twin {} error {}\n",
                micro.name,
                point.experiment,
                point.label,
                figures(&point.device),
                figures(&point.twin),
                three(&point.error)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_a_queue_and_outliers_that_a_percentile_can_tell() {
        for seed in 0..50 {
            let profile = device(seed);
            assert!(profile.controller.depth >= 32);
            let noise = profile.noise.unwrap();
            assert!((noise.outlier_share - 0.01).abs() > 0.005);
            assert_eq!(profile.flash, population::profile(seed).flash);
        }
    }
}
