//! A step of the schedule: one run with its pattern, its area and its end.

use std::fmt;

use flashlab_analysis::findings::{Regime, Warning};
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Experiment, ExperimentValue, Pattern, Plan, PlanError};

use crate::area::writes_sequentially;
use crate::record::Purpose;

/// One scheduled run of a micro-benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The plan's name, as `granularity`.
    pub plan: String,
    /// The experiment's name, as `SR`.
    pub experiment: String,
    /// The parameter's value.
    pub value: ExperimentValue,
    /// From 1.
    pub repetition: u32,
    /// What is run.
    pub pattern: Pattern,
    /// The regime of its writes; `None` if the device has one regime. Unknown if the run goes on until it shows the regimes.
    pub regime: Option<Regime>,
    /// The IOs of each process in a window of whole cycles, over which the run has to settle; `None` if it does not have to.
    pub window_ios: Option<u64>,
    /// The size of the area that it needs; `None` if it uses the whole target.
    pub area: Option<Bytes>,
    /// The IOIgnore that the device's start-up phase requires. The pattern's own is smaller if time or space
    /// is short.
    pub io_ignore_wanted: u64,
    /// The least IOCount after IOIgnore at which the run may end because its mean is precise.
    pub io_count_min: u64,
    /// The least IOCount after IOIgnore at which the run may end because its time is used up.
    pub io_count_least: u64,
    /// When the run ends at the latest, if it has that many IOs; `None` for no limit.
    pub time_limit: Option<Nanos>,
    /// Its longest time, as far as it can be estimated.
    pub time: Nanos,
    /// The bytes that it writes, as far as they can be estimated.
    pub written: Bytes,
}

/// All runs of the micro-benchmarks.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// In order.
    pub steps: Vec<Step>,
    /// The pause before a run that follows one that wrote.
    pub pause: Nanos,
    /// How often the state will be enforced again.
    pub resets: u32,
    /// The longest time of all, as far as it can be estimated.
    pub time: Nanos,
    /// The bytes written, resets included, as far as they can be estimated.
    pub written: Bytes,
    /// The runs that were left out, and why.
    pub left_out: Vec<Warning>,
}

impl Schedule {
    /// The bytes written in a regime, lead-ins included, as far as they can be estimated; `None` if nothing is measured in it.
    pub fn written_in(&self, regime: Regime) -> Option<Bytes> {
        let steps = || self.steps.iter().filter(|step| step.regime == Some(regime));
        steps().next()?;
        Some(Bytes(steps().map(|step| step.written.0).fold(0, u64::saturating_add)))
    }
}

impl Step {
    /// The purpose of the run, for its record.
    pub(crate) fn purpose(&self) -> Purpose {
        Purpose::Point {
            plan: self.plan.clone(),
            experiment: self.experiment.clone(),
            regime: self.regime.filter(|&regime| regime != Regime::Unknown),
            value: self.value.number,
            label: self.value.label.clone(),
            repetition: self.repetition,
        }
    }

    /// The pattern, with its sequential writers in the run's area.
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
            "" => write!(f, "{plan} {experiment} #{repetition}")?,
            label => write!(f, "{plan} {experiment} {label} #{repetition}")?,
        }
        match self.regime {
            Some(Regime::Burst) => f.write_str(" in a burst"),
            Some(Regime::Sustained) => f.write_str(" sustained"),
            Some(Regime::Unknown) | None => Ok(()),
        }
    }
}

/// A warning that a run was left out, and why.
pub(crate) fn left_out_warning(
    plan: &Plan,
    experiment: &Experiment,
    value: &ExperimentValue,
    error: &PlanError,
) -> Warning {
    let message = format!("{} {} at {}: {error}", plan.name, experiment.name, value.label);
    Warning { kind: "left_out".to_owned(), run: None, message }
}
