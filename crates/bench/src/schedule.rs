//! The benchmark plan (uFLIP section 4.2): every run, in order, with what it will cost.
//!
//! # Model
//! Runs that only read come first, then those that leave the state alone, each repetition after the
//! other, so that a drift shows as spread between repetitions and not as a difference between values.
//! Runs with sequential writes are delayed and grouped; each gets an [area](crate::area) of its own,
//! and the state is enforced again when the target is used up. Reads leave nothing behind, so that
//! only a run that follows writes has to wait for the device.
//!
//! What a run costs is estimated from the baselines: an IO takes its baseline's mean, scaled by its
//! size, and its pause.

use std::fmt;

use flashlab_analysis::findings::{Baseline, Warning};
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::{Basic, Experiment, Location, ModeRule, Pattern, Plan, PlanError, Space, Time, Value};

use crate::area::Areas;
use crate::record::Purpose;
use crate::settings::{IO_SIZE, Lengths, Settings, State, Thoroughness};

/// One run of a micro-benchmark, to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The plan's name, as `granularity`.
    pub plan: String,
    /// The experiment's name, as `SR`.
    pub experiment: String,
    /// The parameter's value.
    pub value: Value,
    /// From 1.
    pub repetition: u32,
    /// What is run.
    pub pattern: Pattern,
    /// The size of the area that it needs for itself; `None` when it works on the whole target.
    pub area: Option<Bytes>,
    /// The smallest IOCount beyond IOIgnore with which it may end early.
    pub io_count_min: u64,
    /// When it ends at the latest, beside its pattern's own end.
    pub time_limit: Option<Nanos>,
    /// How long it takes at the most, as far as can be told.
    pub time: Nanos,
    /// How many bytes it writes, as far as can be told.
    pub written: Bytes,
}

/// Everything that the micro-benchmarks will do.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// In order.
    pub steps: Vec<Step>,
    /// The pause before a run that follows one that wrote.
    pub pause: Nanos,
    /// How often the state will be enforced again.
    pub resets: u32,
    /// How long everything takes at the most.
    pub time: Nanos,
    /// How many bytes are written, resets included, as far as can be told.
    pub written: Bytes,
    /// What was left out, and why.
    pub left_out: Vec<Warning>,
}

impl Step {
    /// What the run is, for the manifest.
    pub(crate) fn purpose(&self) -> Purpose {
        Purpose::Point {
            plan: self.plan.clone(),
            experiment: self.experiment.clone(),
            value: self.value.number,
            label: self.value.label.clone(),
            repetition: self.repetition,
        }
    }

    /// The pattern with its sequential writers in the run's area.
    pub(crate) fn placed_at(&self, area: Option<Bytes>) -> Pattern {
        let mut pattern = self.pattern.clone();
        let (Some(offset), Some(size)) = (area, self.area) else { return pattern };
        for basic in pattern.basics_mut().filter(|basic| writes_sequentially(basic)) {
            basic.target_offset = offset;
            basic.target_size = Some(basic.target_size.map_or(size, |own| own.min(size)));
        }
        pattern
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { plan, experiment, value, repetition, .. } = self;
        match value.label.as_str() {
            "" => write!(f, "{plan} {experiment} #{repetition}"),
            label => write!(f, "{plan} {experiment} {label} #{repetition}"),
        }
    }
}

/// What is known of the device when the schedule is made.
pub(crate) struct Known<'a> {
    pub space: Space,
    pub baselines: &'a [Baseline],
    pub pause: Nanos,
    /// What enforcing the state took.
    pub state_time: Nanos,
    /// What an IO of 32 KiB takes where there is no baseline for it.
    pub unknown_ns: f64,
}

/// The most that a bench run can write: what a device would that takes no time.
pub fn most_written(plans: &[Plan], settings: &Settings, block: Bytes) -> Bytes {
    let space = Space { capacity: settings.target_size.round_down(block), block };
    let known = Known { space, baselines: &[], pause: Nanos::ZERO, state_time: Nanos::ZERO, unknown_ns: 1.0 };
    let lengths = settings.lengths();
    let state = if settings.state == State::None { Bytes::ZERO } else { space.capacity };
    let preparation = if settings.methodology {
        baseline_area(space, lengths) + IO_SIZE * lengths.run_ios_most * 2
    } else {
        Bytes::ZERO
    };
    let written = if settings.methodology {
        schedule(plans, &Settings { budget: None, ..settings.clone() }, &known).written
    } else {
        plain_schedule(plans, settings, space, Nanos::ZERO).written
    };
    Bytes([state, preparation, written].iter().map(|bytes| bytes.0).fold(0, u64::saturating_add))
}

/// Where the baseline of sequential writes works: long enough for its phases, but a part of the target.
pub(crate) fn baseline_area(space: Space, lengths: Lengths) -> Bytes {
    let wanted = Bytes(space.capacity.0 / 8).max(IO_SIZE * lengths.baseline_ios);
    wanted.min(space.capacity).round_down(IO_SIZE)
}

/// Makes the schedule for these plans.
pub(crate) fn schedule(plans: &[Plan], settings: &Settings, known: &Known<'_>) -> Schedule {
    let mut left_out = Vec::new();
    let mut runs = Vec::new();
    for plan in plans {
        collect(plan, settings, known, &mut runs, &mut left_out);
    }
    let pause = affordable_pause(&runs, settings, known);
    let known = &Known { pause, ..*known };
    let per_run = per_run_time(&runs, settings, known);
    let steps = in_order(&runs, settings, known, per_run);
    let resets = count_resets(&steps, known.space);
    let measuring = steps.iter().fold(Nanos::ZERO, |sum, step| sum.saturating_add(step.time));
    let written = steps.iter().map(|step| step.written.0).sum::<u64>();
    let again = known.state_time * u64::from(resets);
    Schedule {
        pause,
        resets,
        time: measuring.saturating_add(pauses(&steps, settings, pause)).saturating_add(again),
        written: Bytes(written + known.space.capacity.0 * u64::from(resets)),
        left_out,
        steps,
    }
}

/// How long a run without an end of its own may take outside the methodology.
const PLAIN_TIME: Nanos = Nanos::from_secs(10);

/// The runs of plans as they are written: where a pattern has no IOCount and no duration, it ends
/// when its mean is precise, or after ten seconds.
pub(crate) fn plain_schedule(plans: &[Plan], settings: &Settings, space: Space, pause: Nanos) -> Schedule {
    let mut steps = Vec::new();
    let mut left_out = Vec::new();
    for repetition in 1..=settings.repetitions {
        for plan in plans {
            for experiment in &plan.experiments {
                for (value, pattern) in experiment.runs(settings.choice()) {
                    if let Err(error) = pattern.place(space, settings.seed) {
                        if repetition == 1 {
                            left_out.push(left_out_warning(plan, experiment, &value, &error));
                        }
                        continue;
                    }
                    steps.push(plain_step(plan, experiment, value, pattern, repetition, space));
                }
            }
        }
    }
    let time = steps.iter().fold(Nanos::ZERO, |sum, step| sum.saturating_add(step.time));
    let written = Bytes(steps.iter().map(|step| step.written.0).fold(0, u64::saturating_add));
    let pauses = Nanos(pause.0.saturating_mul(steps.len() as u64));
    Schedule { steps, pause, resets: 0, time: time.saturating_add(pauses), written, left_out }
}

fn plain_step(
    plan: &Plan,
    experiment: &Experiment,
    value: Value,
    pattern: Pattern,
    repetition: u32,
    space: Space,
) -> Step {
    let has_end = pattern.io_count.is_some() || pattern.duration.is_some();
    let known = Known { space, baselines: &[], pause: Nanos::ZERO, state_time: Nanos::ZERO, unknown_ns: 1e6 };
    let per_io_ns = known.per_io_ns(&pattern);
    let counted = pattern.io_count.map(|count| Nanos((count as f64 * per_io_ns) as u64));
    let time = [pattern.duration, counted].into_iter().flatten().min().unwrap_or(PLAIN_TIME);
    let ios = pattern.io_count.unwrap_or((time.0 as f64 / per_io_ns) as u64) as f64;
    Step {
        plan: plan.name.clone(),
        experiment: experiment.name.clone(),
        value,
        repetition,
        area: None,
        // A pattern with an end of its own comes to it.
        io_count_min: if has_end { u64::MAX } else { 256 },
        time_limit: (!has_end).then_some(PLAIN_TIME),
        time,
        written: Bytes((writing_share(&pattern) * ios * f64::from(pattern.parallel_degree)) as u64),
        pattern,
    }
}

fn left_out_warning(plan: &Plan, experiment: &Experiment, value: &Value, error: &PlanError) -> Warning {
    let message = format!("{} {} at {}: {error}", plan.name, experiment.name, value.label);
    Warning { kind: "left_out".to_owned(), run: None, message }
}

/// A run before it is known how much time it gets.
struct Run {
    plan: String,
    experiment: String,
    value: Value,
    pattern: Pattern,
    io_count_min: u64,
    /// Estimated time of one IO, its pause included.
    per_io_ns: f64,
    /// What the run takes at the least.
    required: Nanos,
}

fn collect(
    plan: &Plan,
    settings: &Settings,
    known: &Known<'_>,
    runs: &mut Vec<Run>,
    left_out: &mut Vec<Warning>,
) {
    for experiment in &plan.experiments {
        for (value, pattern) in experiment.runs(settings.choice()) {
            if let Err(error) = pattern.place(known.space, settings.seed) {
                left_out.push(left_out_warning(plan, experiment, &value, &error));
                continue;
            }
            runs.push(Run::new(plan, &experiment.name, value, pattern, settings.lengths(), known));
        }
    }
}

impl Run {
    fn new(
        plan: &Plan,
        experiment: &str,
        value: Value,
        mut pattern: Pattern,
        lengths: Lengths,
        known: &Known<'_>,
    ) -> Run {
        let counts = |basic: &Basic| {
            let baseline = known.baseline(basic);
            baseline.map_or((0, lengths.run_ios), |baseline| (baseline.io_ignore, baseline.io_count_min))
        };
        let second = pattern.mix.as_ref().map_or((0, 0), |mix| counts(&mix.second));
        let (io_ignore, mut io_count_min) = pattern.scaled_for_mix(counts(&pattern.first), second);
        if let Time::Burst { burst, .. } = pattern.first.time {
            io_count_min = io_count_min.max(3 * u64::from(burst));
        }
        pattern.io_ignore = io_ignore;
        let per_io_ns = known.per_io_ns(&pattern);
        let ios = io_ignore + if is_timed(&pattern) { lengths.run_ios } else { lengths.run_ios.max(32) };
        let required = Nanos((ios as f64 * per_io_ns) as u64);
        let (plan, experiment) = (plan.name.clone(), experiment.to_owned());
        Run { plan, experiment, value, pattern, io_count_min, per_io_ns, required }
    }

    fn step(&self, per_run: Nanos, settings: &Settings, space: Space) -> Step {
        let lengths = settings.lengths();
        let mut pattern = self.pattern.clone();
        let time_limit = match settings.thoroughness {
            Thoroughness::Quick => per_run.max(self.required),
            Thoroughness::Full => {
                let ios = pattern.io_ignore + self.io_count_min;
                per_run.max(Nanos((1.5 * ios as f64 * self.per_io_ns) as u64))
            }
        };
        let ios = (time_limit.0 as f64 / self.per_io_ns) as u64;
        let least = pattern.io_ignore + lengths.run_ios;
        let most =
            (pattern.io_ignore + lengths.run_ios_most).min(most_ios(&pattern, lengths, space)).max(least);
        let ios = ios.clamp(least, most);
        let area = area(&pattern, ios, lengths, space);
        pattern.io_count = Some(match area {
            Some(area) if !wraps(&pattern) => {
                (area.0 / widest(&pattern).0 / u64::from(pattern.parallel_degree)).max(1)
            }
            _ => most,
        });
        let written = writing_share(&pattern) * (ios.min(pattern.io_count.unwrap_or(ios))) as f64;
        Step {
            plan: self.plan.clone(),
            experiment: self.experiment.clone(),
            value: self.value.clone(),
            repetition: 1,
            io_count_min: self.io_count_min,
            time_limit: Some(time_limit),
            time: time_limit,
            written: Bytes((written * f64::from(pattern.parallel_degree)) as u64),
            area,
            pattern,
        }
    }
}

/// A budget that all pauses would use up leaves nothing to measure with: they get this part of it.
const PAUSES_SHARE: f64 = 0.25;

/// The pause after a run that wrote: what the device asks for, if the budget can afford it.
fn affordable_pause(runs: &[Run], settings: &Settings, known: &Known<'_>) -> Nanos {
    let Some(budget) = settings.budget else { return known.pause };
    let writing = runs.iter().filter(|run| run.pattern.writes()).count() as f64;
    let each = budget.0 as f64 * PAUSES_SHARE / (writing * f64::from(settings.repetitions)).max(1.0);
    known.pause.min(Nanos(each as u64)).max(settings.pause(None))
}

/// All pauses of these steps.
fn pauses(steps: &[Step], settings: &Settings, after_writes: Nanos) -> Nanos {
    let each = |step: &Step| if step.pattern.writes() { after_writes } else { settings.pause(None) };
    Nanos(steps.iter().map(|step| each(step).0).fold(0, u64::saturating_add))
}

/// How long a run may take so that all of them stay within the budget.
fn per_run_time(runs: &[Run], settings: &Settings, known: &Known<'_>) -> Nanos {
    let [mut shortest, longest] = settings.lengths().run;
    let Some(budget) = settings.budget else { return longest };
    let repetitions = u64::from(settings.repetitions);
    let fits = |per_run: Nanos| {
        let steps = in_order(runs, settings, known, per_run);
        let resets = u64::from(count_resets(&steps, known.space)) * known.state_time.0;
        let each = |run: &Run| run.required.max(per_run).0;
        let all = runs.iter().map(each).fold(0, u64::saturating_add).saturating_mul(repetitions);
        let pauses = pauses(&steps, settings, known.pause).0;
        all.saturating_add(resets).saturating_add(pauses) <= budget.0
    };
    if fits(longest) {
        return longest;
    }
    let mut too_long = longest;
    for _ in 0..12 {
        let middle = Nanos(shortest.0.midpoint(too_long.0));
        if fits(middle) { shortest = middle } else { too_long = middle }
    }
    shortest
}

fn in_order(runs: &[Run], settings: &Settings, known: &Known<'_>, per_run: Nanos) -> Vec<Step> {
    let all = runs.iter().map(|run| run.step(per_run, settings, known.space));
    let (delayed, free): (Vec<Step>, Vec<Step>) = all.partition(|step| step.area.is_some());
    let (writing, reading): (Vec<Step>, Vec<Step>) = free.into_iter().partition(|step| step.pattern.writes());
    let repeated = |steps: Vec<Step>| {
        (1..=settings.repetitions).flat_map(move |repetition| {
            steps.clone().into_iter().map(move |step| Step { repetition, ..step })
        })
    };
    repeated(reading).chain(repeated(writing)).chain(repeated(delayed)).collect()
}

fn count_resets(steps: &[Step], space: Space) -> u32 {
    let mut areas = areas(space);
    let mut resets = 0;
    for size in steps.iter().filter_map(|step| step.area) {
        if areas.take(size).is_none() {
            resets += 1;
            areas.reset();
            areas.take(size);
        }
    }
    resets
}

/// The areas of a fresh target.
pub(crate) fn areas(space: Space) -> Areas {
    Areas::new(space.capacity, Bytes::mib(1))
}

/// Whether this basic pattern writes sequentially, and so disturbs a random state.
pub(crate) fn writes_sequentially(basic: &Basic) -> bool {
    basic.mode != ModeRule::Always(Mode::Read)
        && match basic.location {
            Location::Sequential | Location::Partitioned { .. } => true,
            Location::Ordered { incr } => incr.abs() <= 1,
            _ => false,
        }
}

/// Whether it is meant to come back to the same places.
fn wraps(pattern: &Pattern) -> bool {
    pattern.basics().any(|basic| {
        writes_sequentially(basic)
            && (basic.target_size.is_some() || basic.location == Location::Ordered { incr: 0 })
    })
}

fn is_timed(pattern: &Pattern) -> bool {
    pattern.first.time != Time::Consecutive
}

fn widest(pattern: &Pattern) -> Bytes {
    pattern.basics().map(|basic| basic.io_size.largest()).max().unwrap_or(Bytes(1))
}

/// How many IOs of each process write no more than a run may: benchmarking must not wear the device out.
fn most_ios(pattern: &Pattern, lengths: Lengths, space: Space) -> u64 {
    let per_io = writing_share(pattern) * f64::from(pattern.parallel_degree);
    let most = space.capacity.0 as f64 / lengths.written_divisor as f64;
    if per_io > 0.0 { (most / per_io) as u64 } else { u64::MAX }
}

fn area(pattern: &Pattern, ios: u64, lengths: Lengths, space: Space) -> Option<Bytes> {
    let writer = pattern.basics().find(|basic| writes_sequentially(basic))?;
    if let Some(own) = writer.target_size {
        return Some((own + writer.io_shift).min(space.capacity));
    }
    let slot = widest(pattern);
    let degree = u64::from(pattern.parallel_degree);
    let lines = match writer.location {
        Location::Partitioned { partitions } => degree.max(u64::from(partitions)),
        _ => degree,
    };
    let least = slot * (lengths.run_ios.max(2 * lines) + degree);
    let most = Bytes(space.capacity.0 / lengths.area_divisor).round_down(slot);
    let wanted = Bytes((slot.0).saturating_mul(ios).saturating_mul(degree));
    Some((wanted.min(most).max(least) + writer.io_shift).min(space.capacity))
}

/// Bytes that an average IO of the pattern writes.
fn writing_share(pattern: &Pattern) -> f64 {
    weighted(pattern, |basic| match basic.mode {
        ModeRule::Always(Mode::Read) => 0.0,
        ModeRule::Always(Mode::Write) => basic.io_size.largest().0 as f64,
        ModeRule::WriteProbability(p) => p * basic.io_size.largest().0 as f64,
    })
}

/// The mean of a figure over the IOs of a pattern.
fn weighted(pattern: &Pattern, figure: impl Fn(&Basic) -> f64) -> f64 {
    match &pattern.mix {
        None => figure(&pattern.first),
        Some(mix) => {
            let ratio = f64::from(mix.ratio);
            (ratio * figure(&pattern.first) + figure(&mix.second)) / (ratio + 1.0)
        }
    }
}

impl Known<'_> {
    /// The baseline that a basic pattern departs from.
    fn baseline(&self, basic: &Basic) -> Option<&Baseline> {
        let sequential = matches!(
            basic.location,
            Location::Sequential | Location::Partitioned { .. } | Location::Ordered { .. }
        );
        let name = match (basic.mode == ModeRule::Always(Mode::Read), sequential) {
            (true, true) => "SR",
            (true, false) => "RR",
            (false, true) => "SW",
            (false, false) => "RW",
        };
        self.baselines.iter().find(|baseline| baseline.pattern == name)
    }

    fn per_io_ns(&self, pattern: &Pattern) -> f64 {
        let response = weighted(pattern, |basic| {
            let mean = self.baseline(basic).map_or(self.unknown_ns, |baseline| baseline.run.response.mean_ns);
            let relative = basic.io_size.largest().0 as f64 / 32768.0;
            mean * (0.3 + 0.7 * relative)
        });
        let pause = match pattern.first.time {
            Time::Pause { pause } => pause.0 as f64,
            Time::Burst { burst, pause } => pause.0 as f64 / f64::from(burst),
            Time::Consecutive | Time::Rate { .. } => 0.0,
        };
        (response * f64::from(pattern.parallel_degree) + pause).max(1.0)
    }
}
