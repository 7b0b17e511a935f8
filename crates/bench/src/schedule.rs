//! Makes the benchmark plan (uFLIP section 4.2): every run in its order, with its estimated time and bytes.
//!
//! # Model
//! 1. Runs that only read come first. Reads have no lingering effect, so only a run after writes needs a
//!    pause.
//! 2. Runs that keep the state follow. Repetitions come one after the other. So a drift of the device shows
//!    as spread between repetitions, not as a difference between values.
//! 3. If the device has two regimes, each run that writes is done twice: as a burst after the pause, and sustained after a lead-in.
//!    Sustained runs follow each other without pauses, in random order.
//! 4. Runs with sequential writes come last, in groups. Each gets an [area](crate::area) of its own, and the
//!    state is enforced again when the target is used up.
//!
//! # Invariants
//! - [`most_written`] is an upper bound. The [length of a run](crate::length) is bounded independently of the
//!   baselines, so no baseline can make a run, an area or the number of resets larger.
//! - The same plans, settings and knowledge give the same schedule. So a resumed run has its original
//!   schedule.

use flashlab_analysis::findings::Warning;
use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_plan::{Plan, Space};

use crate::area::{Areas, baseline_area, state_size};
use crate::estimate::DeviceKnowledge;
use crate::length::{Allowance, Run};
use crate::plain::plain_schedule;
use crate::regimes::{RESTORES_MOST, Regimes, WriteRegimes, lead_in_bound};
use crate::settings::{CAPACITIES_MOST, IO_SIZE, ROUNDS_PER_CAPACITY, Settings, State};
use crate::step::{Schedule, Step, left_out_warning};

/// The most that a bench run can write, on a device whose IOs take no time. `None` if a pattern of the user's
/// plan writes for a time without an IOCount: the amount then depends on the device.
pub fn most_written(plans: &[Plan], settings: &Settings, block: Bytes) -> Option<Bytes> {
    let space = Space { capacity: settings.target_size.round_down(block), block };
    let lengths = settings.lengths();
    let state = match settings.state {
        State::None => Bytes::ZERO,
        // The sequential fill, and the random rounds. Each may end beyond the last byte.
        State::Steady => {
            let rounds = u64::from(CAPACITIES_MOST) * ROUNDS_PER_CAPACITY;
            state_size(space)
                + Bytes(state_size(space).0 - space.capacity.0) * rounds
                + space.capacity * u64::from(CAPACITIES_MOST)
        }
        State::Random | State::Sequential => state_size(space),
    };
    if !settings.methodology {
        let schedule = plain_schedule(plans, settings, space, Nanos::ZERO);
        let endless = |step: &Step| step.pattern.writes() && step.pattern.io_count.is_none();
        let is_bounded = !schedule.steps.iter().any(endless);
        return is_bounded.then(|| Bytes(state.0.saturating_add(schedule.written.0)));
    }
    let mut areas = Areas::of(space);
    let baseline = baseline_area(space, lengths);
    areas.take(baseline);
    let known = DeviceKnowledge { areas, ..DeviceKnowledge::nothing(space, 1.0) };
    let (runs, _) = runs(plans, settings, &known);
    let endless = Allowance { run: Nanos(u64::MAX / 4), startup: Nanos::ZERO };
    // Each run that writes in both regimes, with the lead-in before the sustained one.
    let lead_in = lead_in_bound(space.capacity, lengths);
    let both = |run: &Run| match run.pattern.writes() {
        true => run.most_written().iter().fold(lead_in.0, |sum, bytes| sum.saturating_add(bytes.0)),
        false => 0,
    };
    let once = runs.iter().map(both).fold(0, u64::saturating_add);
    let resets = count_resets(&in_order(&runs, settings, endless), settings, &known)
        .max(resets_bound(&runs, settings, &known));
    let again = state_size(space).0.saturating_mul(u64::from(resets));
    let written = Bytes(once.saturating_mul(u64::from(settings.repetitions)).saturating_add(again));
    // The writes of the lingering experiment, and the baseline of random writes.
    let random = IO_SIZE * lengths.baseline_ios_most * 2;
    // A lead-in and what follows each idle time.
    let idle_times = lengths.recovery.len() + lengths.recovery_longer.len() + 1;
    let recovery = lead_in * 2 * (idle_times * lengths.recovery_tries) as u64;
    let restores = Bytes(state_size(space).0.saturating_mul(u64::from(RESTORES_MOST)));
    let parts = [state, baseline, random, recovery, written, restores];
    Some(Bytes(parts.iter().map(|bytes| bytes.0).fold(0, u64::saturating_add)))
}

/// The expected bytes of a bench run on an unknown device: those of a typical device of today, with 200 us
/// for an IO of 32 KiB.
pub fn expected_written(plans: &[Plan], settings: &Settings, block: Bytes) -> Bytes {
    let space = Space { capacity: settings.target_size.round_down(block), block };
    let lengths = settings.lengths();
    // A fill from end to end, within its time limit.
    let in_time = |time: Nanos| IO_SIZE * (time.0 / USUAL_NS);
    let state = match settings.state {
        State::None => Bytes::ZERO,
        // A fill, one capacity before the rule's window, and the window.
        State::Steady => {
            lengths.steady.map_or(space.capacity * 4, |time| in_time(time).min(space.capacity * 4))
        }
        _ => lengths.state.map_or(space.capacity, |time| in_time(time).min(space.capacity)),
    };
    if !settings.methodology {
        return state + plain_schedule(plans, settings, space, Nanos::ZERO).written;
    }
    let mut areas = Areas::of(space);
    let baseline = baseline_area(space, lengths);
    areas.take(baseline);
    let known = DeviceKnowledge { areas, ..DeviceKnowledge::nothing(space, USUAL_NS as f64) };
    let long = in_time(lengths.baseline).max(IO_SIZE * lengths.baseline_ios);
    let lingering = in_time(lengths.lingering[1]);
    let most = IO_SIZE * lengths.baseline_ios_most;
    let runs = schedule(plans, settings, &known).written;
    state + long.min(baseline) + long.min(most) + lingering.min(most) + runs
}

/// The time of an IO of 32 KiB on a typical device of today, in ns: 160 MB/s, one IO at a time.
const USUAL_NS: u64 = 200_000;

/// How often the state is enforced again at most, in two regimes with the largest areas.
fn resets_bound(runs: &[Run], settings: &Settings, known: &DeviceKnowledge<'_>) -> u32 {
    let areas: Vec<Bytes> = runs.iter().filter_map(Run::area_bound).collect();
    let all = (0..settings.repetitions * 2).flat_map(|_| areas.iter().copied());
    count_area_resets(all, settings, known)
}

/// Makes the schedule for these plans.
pub(crate) fn schedule(plans: &[Plan], settings: &Settings, known: &DeviceKnowledge<'_>) -> Schedule {
    let (runs, mut left_out) = runs(plans, settings, known);
    let pause = affordable_pause(&runs, settings, known);
    let known = &DeviceKnowledge { pause, ..known.clone() };
    let runs = in_regimes(runs, settings, known, &mut left_out);
    let steps = in_order(&runs, settings, allowance(&runs, settings, known));
    let resets = count_resets(&steps, settings, known);
    let time = total_time(&steps, settings, known);
    let written = steps.iter().map(|step| step.written.0).fold(0, u64::saturating_add);
    let again = state_size(known.space).0.saturating_mul(u64::from(resets));
    Schedule { pause, resets, time, written: Bytes(written.saturating_add(again)), left_out, steps }
}

/// All runs that the device supports, and those that were left out.
fn runs(plans: &[Plan], settings: &Settings, known: &DeviceKnowledge<'_>) -> (Vec<Run>, Vec<Warning>) {
    let (mut runs, mut left_out) = (Vec::new(), Vec::new());
    for plan in plans {
        for experiment in &plan.experiments {
            for (value, pattern) in experiment.runs(settings.choice()) {
                match pattern.place(known.space, settings.seed) {
                    Ok(_) => runs.push(Run::new(plan, &experiment.name, value, pattern, settings, known)),
                    Err(error) => left_out.push(left_out_warning(plan, experiment, &value, &error)),
                }
            }
        }
    }
    (runs, left_out)
}

/// Each run that writes in both regimes, if the device has two.
fn in_regimes(
    runs: Vec<Run>,
    settings: &Settings,
    known: &DeviceKnowledge<'_>,
    left_out: &mut Vec<Warning>,
) -> Vec<Run> {
    let regimes = match &known.regimes {
        WriteRegimes::One => return runs,
        WriteRegimes::Settling(regimes) => {
            let settling = |run: &Run| run.clone().settling(run.pattern.io_ignore, regimes);
            let lasting = |run: Run| if run.pattern.writes() { settling(&run).unwrap_or(run) } else { run };
            return runs.into_iter().map(lasting).collect();
        }
        WriteRegimes::Two(regimes) => regimes,
        WriteRegimes::Unknown => return only_reads(runs, left_out),
    };
    let writing = || runs.iter().filter(|run| run.pattern.writes());
    let sustained: Vec<Run> = writing().filter_map(|run| run.clone().sustained(regimes)).collect();
    let too_small = writing().count() - sustained.len();
    if too_small > 0 {
        left_out.push(Warning {
            kind: "small_writes_left_out".to_owned(),
            run: None,
            message: format!(
                "{too_small} values were not measured sustained: a run may not have as many of their writes as fill the device's buffer"
            ),
        });
    }
    let shortest = Allowance { run: settings.lengths().run[0], startup: Nanos(u64::MAX / 4) };
    let time = total_time(&in_order(&sustained, settings, shortest), settings, known);
    let bytes: u64 = in_order(&sustained, settings, shortest).iter().map(|step| step.written.0).sum();
    let budget = settings.budget.map(|budget| Nanos((budget.0 as f64 * SUSTAINED_SHARE) as u64));
    let is_affordable = budget.is_none_or(|budget| time <= budget);
    if !is_affordable {
        left_out.push(Warning {
            kind: "sustained_left_out".to_owned(),
            run: None,
            message: format!(
                "the sustained regime of the micro-benchmarks was not measured: it needs about {time} and {}, and this run may \
                 take {} for it; their writes are bursts (--full measures both)",
                Bytes(bytes),
                budget.unwrap_or_default()
            ),
        });
    }
    let mut short = 0;
    let mut all: Vec<Run> = Vec::new();
    for run in runs {
        if !run.pattern.writes() {
            all.push(run);
        } else if let Some(ios) = regimes.burst_ios(&run.pattern, known.pause) {
            all.push(run.burst(ios));
        } else {
            short += 1;
        }
    }
    if short > 0 {
        left_out.push(Warning {
            kind: "burst_left_out".to_owned(),
            run: None,
            message: format!(
                "{short} values were not measured in bursts: the pause of {} brings back too little of the device's buffers",
                known.pause
            ),
        });
    }
    if is_affordable {
        all.extend(sustained);
    }
    all
}

/// No run that writes: nobody would know its regime.
fn only_reads(runs: Vec<Run>, left_out: &mut Vec<Warning>) -> Vec<Run> {
    let (writing, reading): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.pattern.writes());
    if !writing.is_empty() {
        left_out.push(Warning {
            kind: "writes_left_out".to_owned(),
            run: None,
            message: format!(
                "{} values with writes were not measured: what lasts after the device's buffers is not known, so neither is the regime of \
                 a write",
                writing.len()
            ),
        });
    }
    reading
}

/// The part of a quick run's budget that the sustained regime may take: bursts and reads need the other half.
const SUSTAINED_SHARE: f64 = 0.5;

/// If the pauses would use up the budget, they get this share of it.
const PAUSES_SHARE: f64 = 0.25;

/// The pause after a run that wrote: what the device needs, and what brings its buffers back, within the budget.
fn affordable_pause(runs: &[Run], settings: &Settings, known: &DeviceKnowledge<'_>) -> Nanos {
    let wanted = known.pause.max(known.regimes.two().map_or(Nanos::ZERO, Regimes::full_recovery));
    let Some(budget) = settings.budget else { return wanted };
    let writing = runs.iter().filter(|run| run.pattern.writes()).count() as f64;
    let each = budget.0 as f64 * PAUSES_SHARE / (writing * f64::from(settings.repetitions)).max(1.0);
    wanted.min(Nanos(each as u64)).max(settings.pause(None))
}

/// The time of everything: the runs, a pause after each, and the resets, as far as it can be estimated.
fn total_time(steps: &[Step], settings: &Settings, known: &DeviceKnowledge<'_>) -> Nanos {
    let pause = |step: &Step| match step.window_ios {
        Some(_) => Nanos::ZERO,
        _ if step.pattern.writes() => known.pause,
        _ => settings.pause(None),
    };
    let each = |sum: Nanos, step: &Step| sum.saturating_add(step.time).saturating_add(pause(step));
    let reset = known.state_time.saturating_add(settings.lengths().settle.max(known.pause));
    let resets = reset.0.saturating_mul(u64::from(count_resets(steps, settings, known)));
    steps.iter().fold(Nanos(resets), each)
}

/// How long a run may take so that all runs stay within the budget. If even the shortest runs exceed it,
/// their start-up phases get less time. If that is not enough, the budget is exceeded.
fn allowance(runs: &[Run], settings: &Settings, known: &DeviceKnowledge<'_>) -> Allowance {
    let [shortest, longest] = settings.lengths().run;
    let startup = runs.iter().map(Run::startup).max().unwrap_or_default();
    let Some(budget) = settings.budget else { return Allowance { run: longest, startup } };
    let fits = |allowance| total_time(&in_order(runs, settings, allowance), settings, known) <= budget;
    if fits(Allowance { run: shortest, startup }) {
        return Allowance {
            run: longest_that(shortest, longest, |run| fits(Allowance { run, startup })),
            startup,
        };
    }
    let run = shortest;
    Allowance { run, startup: longest_that(Nanos::ZERO, startup, |startup| fits(Allowance { run, startup })) }
}

/// The longest time between `least` and `most` for which `fits` is true, by bisection; `least` if there is
/// none.
fn longest_that(least: Nanos, most: Nanos, fits: impl Fn(Nanos) -> bool) -> Nanos {
    if fits(most) {
        return most;
    }
    let (mut fitting, mut too_long) = (least, most);
    for _ in 0..12 {
        let middle = Nanos(fitting.0.midpoint(too_long.0));
        if fits(middle) { fitting = middle } else { too_long = middle }
    }
    fitting
}

fn in_order(runs: &[Run], settings: &Settings, allowance: Allowance) -> Vec<Step> {
    let all = runs.iter().map(|run| run.step(allowance, settings.thoroughness));
    let (delayed, free): (Vec<Step>, Vec<Step>) = all.partition(|step| step.area.is_some());
    let (writing, reading): (Vec<Step>, Vec<Step>) = free.into_iter().partition(|step| step.pattern.writes());
    let repeated = |steps: Vec<Step>| {
        let (lasting, others): (Vec<Step>, Vec<Step>) =
            steps.into_iter().partition(|step| step.window_ios.is_some());
        let of = |steps: Vec<Step>| {
            (1..=settings.repetitions).flat_map(move |repetition| {
                let mut steps = steps.clone();
                // Only runs that settle are in random order: the others are as in the paper.
                if steps.first().is_some_and(|step| step.window_ios.is_some()) {
                    shuffle(&mut steps, settings.seed.derive("sustained", u64::from(repetition)));
                }
                steps.into_iter().map(move |step| Step { repetition, ..step })
            })
        };
        of(others).chain(of(lasting))
    };
    repeated(reading).chain(repeated(writing)).chain(repeated(delayed)).collect()
}

/// In random order (Fisher and Yates).
fn shuffle(steps: &mut [Step], seed: Seed) {
    let mut prng = Prng::new(seed);
    for last in (1..steps.len()).rev() {
        steps.swap(last, prng.below(last as u64 + 1) as usize);
    }
}

/// How often the state will be enforced again because the target is used up. The baseline has already taken
/// its area.
fn count_resets(steps: &[Step], settings: &Settings, known: &DeviceKnowledge<'_>) -> u32 {
    count_area_resets(steps.iter().filter_map(|step| step.area), settings, known)
}

fn count_area_resets(
    sizes: impl Iterator<Item = Bytes>,
    settings: &Settings,
    known: &DeviceKnowledge<'_>,
) -> u32 {
    if settings.state == State::None {
        return 0;
    }
    let mut areas = known.areas.clone();
    let mut resets = 0;
    for size in sizes {
        if areas.take(size).is_none() {
            resets += 1;
            areas.reset();
            areas.take(size);
        }
    }
    resets
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::settings::Thoroughness;
    use crate::shares::bytes_written_each;
    use flashlab_analysis::findings::Regime;
    use flashlab_analysis::findings::{
        Baseline, BufferRecovery, Distribution, PatternStages, Phases, RunEnd, RunSummary, WriteStage,
        WriteStages,
    };
    use flashlab_plan::Location;

    /// A baseline with a random start-up phase, period and mean.
    pub(crate) fn any_baseline(name: &str, most: u64, prng: &mut Prng) -> Baseline {
        let mean_ns = 1e3 * 10f64.powf(5.0 * prng.unit());
        let phases = Phases {
            startup_ios: 0,
            startup_ns_mean: None,
            running_ns_mean: mean_ns,
            period_ios: None,
            startup_confidence: 1.0,
            period_confidence: 1.0,
            evidence: String::new(),
        };
        let run = RunSummary {
            run: 1,
            repetition: 1,
            io_ignore: 0,
            io_end: None,
            response: Distribution { mean_ns, ..Distribution::default() },
            throughput_bytes_per_s: 0.0,
            ios_per_s: 0.0,
            modes: Vec::new(),
            write_amplification: None,
            failed_ios: 0,
            precision: None,
            ended: RunEnd::BudgetUsed,
            flags: Vec::new(),
        };
        let io_ignore = if prng.unit() < 0.3 { 0 } else { prng.below(most) };
        Baseline { pattern: name.to_owned(), phases, io_ignore, io_count_min: 256 + prng.below(5000), run }
    }

    /// Regimes of a random device.
    fn any_regimes(settings: &Settings, prng: &mut Prng) -> Regimes {
        let mut size = || 1 << (18 + prng.below(16));
        let stage = WriteStage { bytes: size(), bytes_per_s: 1e9, response_ns_mean: 3e4 };
        let stages = PatternStages {
            pattern: "RW".to_owned(),
            volatile_bytes: stage.bytes,
            stages: vec![stage],
            window_bytes: size(),
            sustained_ns_mean: Some(1e6),
            is_settled: true,
            window_scatter: Some(0.3),
            ..PatternStages::default()
        };
        let bytes = size();
        let recovery =
            vec![BufferRecovery { idle: Nanos(1), bytes, burst_bytes: bytes, ..BufferRecovery::default() }];
        Regimes::new(&WriteStages { patterns: vec![stages], recovery }, settings).unwrap()
    }

    #[test]
    fn no_device_makes_a_run_write_more_than_was_announced() {
        let plans: Vec<Plan> = Plan::MICRO_BENCHMARKS.map(crate::manifest::builtin).to_vec();
        for seed in 0..60 {
            let mut prng = Prng::new(Seed(seed));
            let thoroughness = if prng.unit() < 0.7 { Thoroughness::Quick } else { Thoroughness::Full };
            let target_size = Bytes(1 << (24 + prng.below(18)));
            let settings = Settings { target_size, ..Settings::new(thoroughness) };
            let (space, lengths) = (Space { capacity: target_size, block: Bytes(512) }, settings.lengths());
            let baselines =
                ["SR", "RR", "SW", "RW"].map(|name| any_baseline(name, lengths.baseline_ios_most, &mut prng));
            let mut areas = Areas::of(space);
            areas.take(baseline_area(space, lengths));
            let state_time = Nanos::from_secs(prng.below(20));
            let has_two = prng.unit() < 0.5;
            let regimes = if has_two {
                WriteRegimes::Two(Box::new(any_regimes(&settings, &mut prng)))
            } else {
                WriteRegimes::One
            };
            let known = DeviceKnowledge {
                baselines: &baselines,
                regimes,
                state_time,
                areas,
                ..DeviceKnowledge::nothing(space, 1e6)
            };
            let schedule = schedule(&plans, &settings, &known);
            // Every run does all of its IOs.
            let each = |step: &Step| {
                let ios = step.pattern.io_count.unwrap() * u64::from(step.pattern.parallel_degree);
                (bytes_written_each(&step.pattern) * ios as f64) as u64
            };
            let runs = schedule.steps.iter().map(each).sum::<u64>();
            let lead_ins =
                schedule.steps.iter().filter(|step| step.regime == Some(Regime::Sustained)).count();
            let runs = runs + lead_in_bound(target_size, lengths).0 * lead_ins as u64;
            let resets = target_size.0 * u64::from(schedule.resets);
            let most =
                most_written(&plans, &settings, Bytes(512)).expect("the methodology bounds what it writes");
            assert!(runs + resets <= most.0, "{} of {most}, seed {seed}", Bytes(runs + resets));
            let expected = expected_written(&plans, &settings, Bytes(512));
            assert!(expected <= most, "{expected} of {most}, seed {seed}");
            for step in &schedule.steps {
                let needed = step.pattern.io_ignore + step.io_count_least;
                assert!(step.pattern.io_count.unwrap() >= needed, "{step}, seed {seed}");
                // What it wrote in order is no longer in the state: it never wraps around.
                let is_in_order =
                    step.pattern.first.location == Location::Sequential && step.pattern.mix.is_none();
                let area = step.area.filter(|_| is_in_order && step.pattern.first.target_size.is_none());
                if let Some(area) = area.filter(|_| step.regime == Some(Regime::Sustained)) {
                    assert!(each(step) <= area.0, "{step} in {area}, seed {seed}");
                }
            }
        }
    }
}
