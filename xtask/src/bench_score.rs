//! `cargo xtask bench-score`: judges the regimes of `flashlab bench` on random drives of today.
//!
//! # Model
//! The drives are those of [`drives`]: write buffers, SLC caches, demand maps, background work. `bench` sees a device of which everything is
//! hidden but its capacity, block and clock, as a whole run with all values (`--full`) of the micro-benchmarks [`PLANS`].
//!
//! # Method
//! 1. `bench` measures the hidden drive, until it is steady or ten capacities were written.
//! 2. Of its points with writes, at most [`POINTS_MOST`] in each regime are chosen at random, with the baselines.
//! 3. [`truth`] runs each of them on a copy of the drive, twenty times as long as its longest stage. It takes the stages from the profile and
//!    uses nothing of `bench`, its engine or its analysis: only the IOs of the pattern are the same.
//! 4. A point is in the wrong regime if its mean is nearer to the truth of the other one, where the two differ by [`APART`].
//! 5. The hints of the truth are those of the findings with the true means in place of the measured ones.
//!
//! # Invariants
//! - A drive follows from its seed alone, and so does its truth.
//! - What `bench` withholds is counted (`withheld`) and is no error. So is what has no settled truth (`unsettled_truths`).

mod drives;
mod truth;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result};
use clap::Args;
use flashlab_analysis::findings::{Findings, Hint, HintVerdict, Point, Regime, RunSummary};
use flashlab_base::{Bytes, Identity, Prng, Seed, quantile};
use flashlab_bench::{
    BenchManifest, Purpose, RunRecord, Settings, Silent, State, Thoroughness, bench, most_written, rebuild,
};
use flashlab_device::Device;
use flashlab_plan::{Choice, Pattern, Plan, Space};
use flashlab_samples::{FolderKind, Manifest, RunFolder};
use flashlab_sim::Profile;
use serde_json::{Value, json};

use crate::hidden::Hidden;
use truth::{TrueFigures, TruthLab};

/// Judges the regimes of `flashlab bench` on random drives of today whose truth it does not know.
#[derive(Args)]
pub struct BenchScore {
    /// How many drives
    #[arg(long, default_value_t = 10)]
    devices: u64,
    /// The seed of the first one; the next ones have the seeds after it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also print the drives, their stages and what was withheld
    #[arg(long)]
    explain: bool,
    /// The score as JSON
    #[arg(long)]
    json: bool,
    /// Keep the run of each drive in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
    /// How many drives at once
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// What is measured: each varies what a buffer, a cache or collection answers differently.
const PLANS: [&str; 3] = ["granularity", "locality", "order"];
/// Points of one regime whose truth is measured.
const POINTS_MOST: usize = 8;
/// Regimes closer than this cannot be mistaken for each other.
const APART: f64 = 1.5;

/// A judged figure.
struct Judged {
    regime: Regime,
    what: String,
    measured: f64,
    truth: f64,
    other_regime: Option<f64>,
    p99: Option<(f64, f64)>,
    /// The half width of the interval of the mean.
    precision: Option<f64>,
    /// ... and that of the truth.
    true_precision: f64,
    /// The repetitions, for [`BenchScore::explain`].
    runs: String,
}

impl Judged {
    fn error(&self) -> f64 {
        (self.measured / self.truth - 1.0).abs()
    }

    /// Whether the interval contains the truth, which has an error of its own; `None` without an interval.
    fn is_covered(&self, true_error: bool) -> Option<bool> {
        let width = self.precision? * self.measured;
        let error = if true_error { self.true_precision * self.truth } else { 0.0 };
        // An interval of 0 is one of a response time that is always the same; the mean is known to less than a nanosecond.
        Some((self.measured - self.truth).abs() <= width.hypot(error) + 1.0)
    }

    fn is_of_the_wrong_regime(&self) -> bool {
        let far = |a: f64, b: f64| (a / b).ln().abs();
        self.other_regime.is_some_and(|other| {
            far(other, self.truth) > APART.ln() && far(self.measured, other) < far(self.measured, self.truth)
        })
    }
}

/// What became of one drive.
struct Outcome {
    seed: u64,
    judged: Vec<Judged>,
    /// Hints decided, and of these the equal ones.
    hints: (usize, usize),
    /// Points and baselines that `bench` withheld.
    withheld: usize,
    /// Points and baselines whose truth did not settle.
    unsettled_truths: usize,
    within_announced: bool,
    /// The drive, and what `bench` found of its regimes.
    facts: String,
}

/// Judges the drives and prints the score.
pub fn bench_score(arguments: &BenchScore) -> Result<()> {
    let seeds: Vec<u64> = (arguments.seed..arguments.seed + arguments.devices).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..arguments.threads.clamp(1, seeds.len().max(1)) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome =
                        outcome(seed, arguments.keep.as_deref()).with_context(|| format!("seed {seed}"));
                    if let Ok(outcome) = &outcome {
                        eprint!("{}", lines(outcome, arguments.explain));
                    }
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(outcome);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut outcomes = done.into_iter().collect::<Result<Vec<Outcome>>>()?;
    outcomes.sort_by_key(|outcome| outcome.seed);
    let score = score(&outcomes);
    if arguments.json {
        println!("{score:#}");
    } else {
        for (name, value) in score.as_object().into_iter().flatten() {
            println!("{name}: {value}");
        }
    }
    Ok(())
}

fn outcome(seed: u64, keep: Option<&Path>) -> Result<Outcome> {
    let profile = drives::drive(seed);
    let directory = tempfile::tempdir()?;
    let path = keep.unwrap_or(directory.path()).join(seed.to_string());
    let settings = Settings {
        target: "hidden".to_owned(),
        target_size: profile.capacity,
        state: State::Steady,
        seed: Seed(seed),
        ..Settings::new(Thoroughness::Full)
    };
    let plans: Vec<Plan> = PLANS.iter().filter_map(|name| Plan::builtin(name)).collect();
    let mut device = Hidden::new(profile.device()?);
    let manifest = manifest(settings, device.identity(), &plans);
    let folder = RunFolder::create(&path, &manifest)?;
    bench(&mut device, &folder, &manifest, &AtomicBool::new(false), &Silent)?;
    let (findings, _) = rebuild(&path)?;
    let records: Vec<RunRecord> = folder.runs()?;
    let block = device.geometry().block;
    let announced = most_written(&plans, &manifest.settings, block);
    let mut judge = Judge::new(&profile, &findings, &records, Seed(seed))?;
    let judged = judge.judged()?;
    Ok(Outcome {
        seed,
        hints: judge.hints(),
        judged,
        withheld: judge.withheld(),
        unsettled_truths: judge.unsettled_truths,
        within_announced: announced.is_none_or(|most| device.written() <= most),
        facts: facts(&profile, &findings),
    })
}

fn manifest(settings: Settings, identity: Identity, plans: &[Plan]) -> BenchManifest {
    BenchManifest {
        plans: plans.iter().map(Plan::to_toml).collect(),
        ..Manifest::new(FolderKind::Bench, settings, identity, "none needed: simulated")
    }
}

/// Compares the findings of a drive with its truth.
struct Judge<'a> {
    findings: &'a Findings,
    records: &'a [RunRecord],
    lab: TruthLab,
    space: Space,
    seed: Seed,
    /// The findings with true means.
    corrected: Findings,
    unsettled_truths: usize,
}

impl<'a> Judge<'a> {
    fn new(
        profile: &Profile,
        findings: &'a Findings,
        records: &'a [RunRecord],
        seed: Seed,
    ) -> Result<Judge<'a>> {
        let random = findings.method.steady.as_ref().map_or(0, |steady| steady.written_bytes);
        let lab = TruthLab::new(profile, Bytes(random), findings.method.pause, seed)?;
        let space = Space { capacity: profile.capacity, block: lab.block() };
        Ok(Judge { findings, records, lab, space, seed, corrected: findings.clone(), unsettled_truths: 0 })
    }

    fn judged(&mut self) -> Result<Vec<Judged>> {
        let mut all = Vec::new();
        for (index, baseline) in self.findings.baselines.iter().enumerate() {
            let Some((pattern, record)) =
                self.pattern(baseline.run.run).filter(|(pattern, _)| pattern.writes())
            else {
                continue;
            };
            let [sustained, burst] =
                self.lab.both(&pattern, self.space, record.seed, baseline.run.response.count)?;
            if !sustained.is_settled {
                self.unsettled_truths += 1;
                continue;
            }
            let what = format!("baseline {}", baseline.pattern);
            let runs = [&baseline.run];
            all.push(judged(
                Regime::Sustained,
                what,
                (baseline.run.response.mean_ns, baseline.run.precision),
                &runs,
                &sustained,
                &burst,
            ));
            self.corrected.baselines[index].run.response.mean_ns = sustained.mean_ns;
        }
        for regime in [Regime::Sustained, Regime::Burst] {
            for (micro, experiment, point) in self.chosen(regime) {
                let found = &self.findings.micro_benchmarks[micro].experiments[experiment];
                let measured = &found.points[point];
                let Some(first) = measured.runs.first() else { continue };
                let Some((pattern, record)) = self.pattern(first.run) else { continue };
                let [sustained, burst] =
                    self.lab.both(&pattern, self.space, record.seed, first.response.count)?;
                let (own, other) =
                    if regime == Regime::Sustained { (sustained, burst) } else { (burst, sustained) };
                if !own.is_settled {
                    self.unsettled_truths += 1;
                    continue;
                }
                let what = format!(
                    "{} {} {}",
                    self.findings.micro_benchmarks[micro].name,
                    found.name(),
                    measured.label
                );
                let runs: Vec<&RunSummary> = measured.runs.iter().collect();
                all.push(judged(
                    regime,
                    what,
                    (measured.response_ns_mean, measured.precision),
                    &runs,
                    &own,
                    &other,
                ));
                let corrected =
                    &mut self.corrected.micro_benchmarks[micro].experiments[experiment].points[point];
                correct(corrected, own.mean_ns);
            }
        }
        Ok(all)
    }

    /// The pattern of a run, as its plan has it. The area of its sequential writes was a choice of `bench`: they may go on over all of the
    /// target.
    fn pattern(&self, run: u32) -> Option<(Pattern, &RunRecord)> {
        let record = self.records.iter().find(|record| record.run == run)?;
        let pattern = match &record.purpose {
            Purpose::Baseline { pattern } => Pattern::baseline(pattern)?,
            Purpose::Point { plan, experiment: name, label, .. } => {
                let plan = Plan::builtin(plan)?;
                let experiment = plan.experiments.iter().find(|experiment| experiment.name == *name)?;
                let mut runs = experiment.runs(Choice::Full);
                runs.find(|(value, _)| value.label == *label)?.1
            }
            _ => return None,
        };
        Some((pattern, record))
    }

    /// Random points of a regime, as the places of micro-benchmark, experiment and point. Drives with one regime have sustained ones only.
    fn chosen(&self, regime: Regime) -> Vec<(usize, usize, usize)> {
        let mut all = Vec::new();
        for (m, micro) in self.findings.micro_benchmarks.iter().enumerate() {
            for (e, experiment) in micro.experiments.iter().enumerate() {
                let writes = experiment.pattern.contains('W');
                if writes && experiment.regime.unwrap_or(Regime::Sustained) == regime {
                    all.extend((0..experiment.points.len()).map(|p| (m, e, p)));
                }
            }
        }
        let mut prng = Prng::new(self.seed.derive("points", u64::from(regime == Regime::Burst)));
        while all.len() > POINTS_MOST {
            all.swap_remove(prng.below(all.len() as u64) as usize);
        }
        all.sort_unstable();
        all
    }

    /// How many hints both decide, and how many of these are equal.
    fn hints(&self) -> (usize, usize) {
        let true_hints =
            flashlab_analysis::hints(&self.corrected.baselines, &self.corrected.micro_benchmarks);
        let decided = |hint: &Hint| hint.verdict != HintVerdict::NotSupportedByThisMeasurement;
        let both = self.findings.hints.iter().zip(&true_hints).filter(|(a, b)| decided(a) && decided(b));
        let equal = both.clone().filter(|(a, b)| a.verdict == b.verdict).count();
        (both.count(), equal)
    }

    /// Values with writes that were planned or run, and of which no point is given.
    fn withheld(&self) -> usize {
        let mut values = BTreeSet::new();
        for record in self.records {
            if let Purpose::Point { plan, experiment, regime, label, .. } = &record.purpose {
                let is_burst = *regime == Some(Regime::Burst);
                values.insert((plan.clone(), experiment.clone(), is_burst, label.clone()));
            }
        }
        for plan in PLANS.iter().filter_map(|name| Plan::builtin(name)) {
            for experiment in &plan.experiments {
                for (value, pattern) in experiment.runs(Choice::Full) {
                    if pattern.writes() && pattern.place(self.space, self.seed).is_ok() {
                        values.insert((plan.name.clone(), experiment.name.clone(), false, value.label));
                    }
                }
            }
        }
        let experiments = self.findings.micro_benchmarks.iter().flat_map(|micro| &micro.experiments);
        let given: usize = experiments.map(|experiment| experiment.points.len()).sum();
        values.len() - given + (4 - self.findings.baselines.len())
    }
}

fn judged(
    regime: Regime,
    what: String,
    (measured, precision): (f64, Option<f64>),
    runs: &[&RunSummary],
    own: &TrueFigures,
    other: &TrueFigures,
) -> Judged {
    let p99s: Vec<f64> = runs.iter().map(|run| run.response.p99_ns as f64).collect();
    let p99 = p99s.iter().sum::<f64>() / p99s.len().max(1) as f64;
    Judged {
        regime,
        what,
        measured,
        truth: own.mean_ns,
        other_regime: other.is_settled.then_some(other.mean_ns),
        p99: (own.p99_ns > 0.0).then_some((p99, own.p99_ns)),
        precision,
        true_precision: own.precision,
        runs: runs.iter().map(|run| described(run)).collect(),
    }
}

fn described(run: &RunSummary) -> String {
    format!(
        "      run {}: {:.1} us +- {:.1} %, {} IOs after {}, {:?}\n",
        run.run,
        run.response.mean_ns / 1e3,
        100.0 * run.precision.unwrap_or(f64::NAN),
        run.response.count,
        run.io_ignore,
        run.ended
    )
}

/// A point with the true mean.
fn correct(point: &mut Point, mean_ns: f64) {
    let factor = mean_ns / point.response_ns_mean.max(1.0);
    point.response_ns_mean = mean_ns;
    for run in &mut point.runs {
        run.response.mean_ns *= factor;
        run.throughput_bytes_per_s /= factor;
        run.ios_per_s /= factor;
    }
}

fn lines(outcome: &Outcome, explains: bool) -> String {
    let mut text = format!("seed {}: {} withheld\n", outcome.seed, outcome.withheld);
    for found in &outcome.judged {
        let mark = if found.is_of_the_wrong_regime() { " WRONG REGIME" } else { "" };
        text += &format!(
            "  {:?} {}: {:.1} us +- {:.1} %, truth {:.1} us +- {:.1} % ({:.1} %){mark}\n",
            found.regime,
            found.what,
            found.measured / 1e3,
            100.0 * found.precision.unwrap_or(f64::NAN),
            found.truth / 1e3,
            100.0 * found.true_precision,
            100.0 * found.error()
        );
        if explains {
            text += &found.runs;
        }
    }
    text + if explains { &outcome.facts } else { "" }
}

/// The drive, its stages, whether it was steady, and the warnings.
fn facts(profile: &Profile, findings: &Findings) -> String {
    let mut text = profile.to_toml().lines().skip(7).map(|line| format!("    {line}\n")).collect::<String>();
    for found in findings.stages.iter().flat_map(|stages| &stages.patterns) {
        let window = Bytes(found.window_bytes);
        text += &format!(
            "  stages {}: window {window} ({:?}), {}\n",
            found.pattern, found.window_scatter, found.evidence
        );
    }
    for recovery in findings.stages.iter().flat_map(|stages| &stages.recovery) {
        text += &format!("  after {}: {}\n", recovery.idle, Bytes(recovery.bytes));
    }
    let steady = findings.method.steady.as_ref();
    text += &format!(
        "  state {}, {:?}, pause {}\n",
        findings.method.state,
        steady.map(|steady| Bytes(steady.written_bytes)),
        findings.method.pause
    );
    for warning in &findings.warnings {
        text += &format!("  warning {}: {}\n", warning.kind, warning.message);
    }
    text
}

/// The quantile of some errors; null if there are none.
fn error_at(errors: &[f64], share: f64) -> Value {
    quantile(errors, share).map_or(Value::Null, |value| json!((value * 1e4).round() / 1e4))
}

fn share(part: usize, all: usize) -> Value {
    if all == 0 { Value::Null } else { json!((part as f64 / all as f64 * 1e4).round() / 1e4) }
}

fn score(outcomes: &[Outcome]) -> Value {
    let all: Vec<&Judged> = outcomes.iter().flat_map(|outcome| &outcome.judged).collect();
    let errors = |regime: Regime| -> Vec<f64> {
        all.iter().filter(|found| found.regime == regime).map(|found| found.error()).collect()
    };
    let (sustained, burst) = (errors(Regime::Sustained), errors(Regime::Burst));
    let p99s = all.iter().filter_map(|found| found.p99);
    let p99: Vec<f64> = p99s.map(|(measured, truth)| (measured / truth - 1.0).abs()).collect();
    let covered = |true_error: bool| {
        let covers: Vec<bool> = all.iter().filter_map(|found| found.is_covered(true_error)).collect();
        share(covers.iter().filter(|&&covers| covers).count(), covers.len())
    };
    let (decided, equal) =
        outcomes.iter().fold((0, 0), |sum, outcome| (sum.0 + outcome.hints.0, sum.1 + outcome.hints.1));
    json!({
        "devices": outcomes.len(),
        "points": all.len(),
        "withheld": outcomes.iter().map(|outcome| outcome.withheld).sum::<usize>(),
        "unsettled_truths": outcomes.iter().map(|outcome| outcome.unsettled_truths).sum::<usize>(),
        "sustained_error_median": error_at(&sustained, 0.5),
        "sustained_error_p95": error_at(&sustained, 0.95),
        "burst_error_median": error_at(&burst, 0.5),
        "burst_error_p95": error_at(&burst, 0.95),
        "p99_error_median": error_at(&p99, 0.5),
        "wrong_regime_share": share(all.iter().filter(|found| found.is_of_the_wrong_regime()).count(), all.len()),
        "hint_agreement": share(equal, decided),
        "coverage": covered(true),
        "coverage_of_exact_truths": covered(false),
        "within_announced": share(outcomes.iter().filter(|outcome| outcome.within_announced).count(), outcomes.len()),
    })
}
