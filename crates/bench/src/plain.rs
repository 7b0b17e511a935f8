//! Schedules plans as they are written, without the methodology.

use flashlab_analysis::findings::Regime;
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Experiment, ExperimentValue, Pattern, Plan, Space};

use crate::estimate::DeviceKnowledge;
use crate::settings::{Settings, Thoroughness};
use crate::shares::bytes_written_each;
use crate::shown::{LOOKED_FOR, shows_regimes};
use crate::step::{Schedule, Step, left_out_warning};

/// How long a run without IOCount and duration may take.
const PLAIN_TIME: Nanos = Nanos::from_secs(10);
/// ... if it writes: an SLC cache of 20 GB is full after that at 333 MB/s.
const PLAIN_WRITES_TIME: Nanos = Nanos::from_secs(60);

/// The longest time of a run without IOCount and duration whose writes show their regimes.
pub(crate) fn longest_writes(settings: &Settings) -> Nanos {
    match settings.thoroughness {
        Thoroughness::Quick => PLAIN_TIME,
        Thoroughness::Full => PLAIN_WRITES_TIME,
    }
}

/// The runs of plans as they are written. A pattern without IOCount and duration ends when its mean is
/// precise, or after ten seconds. One that writes goes on until its rate has settled.
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
                    let mut step = plain_step(plan, experiment, value, pattern, repetition, space);
                    if step.time_limit.is_some()
                        && step.pattern.writes()
                        && shows_regimes(experiment, settings)
                    {
                        // At least that much; how much more, the device decides.
                        step.written = step.written.max(LOOKED_FOR);
                        step.time = longest_writes(settings);
                        step.regime = Some(Regime::Unknown);
                    }
                    steps.push(step);
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
    value: ExperimentValue,
    pattern: Pattern,
    repetition: u32,
    space: Space,
) -> Step {
    let has_end = pattern.io_count.is_some() || pattern.duration.is_some();
    let per_io_ns = DeviceKnowledge::nothing(space, 1e6).per_io_ns(&pattern);
    let counted = pattern.io_count.map(|count| Nanos((count as f64 * per_io_ns) as u64));
    let time = [pattern.duration, counted].into_iter().flatten().min().unwrap_or(PLAIN_TIME);
    let ios = pattern.io_count.unwrap_or((time.0 as f64 / per_io_ns) as u64) as f64;
    Step {
        plan: plan.name.clone(),
        experiment: experiment.name.clone(),
        value,
        repetition,
        regime: None,
        window_ios: None,
        area: None,
        // A pattern with an IOCount or a duration runs to its end.
        io_count_min: if has_end { u64::MAX } else { 256 },
        io_count_least: 0,
        io_ignore_wanted: pattern.io_ignore,
        time_limit: (!has_end).then_some(PLAIN_TIME),
        time,
        written: Bytes((bytes_written_each(&pattern) * ios * f64::from(pattern.parallel_degree)) as u64),
        pattern,
    }
}
