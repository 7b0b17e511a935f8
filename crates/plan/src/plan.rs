//! A plan: experiments, each a pattern and the parameter that varies in it (uFLIP section 3.2).
//!
//! # Invariants
//! - The plans that [`Plan::parse`] returns are legal: each of their runs can be placed on a large enough
//!   device.
//! - Parsing the text of [`Plan::to_toml`] gives the same plan.

use flashlab_base::{Bytes, Nanos};

use crate::parameter::Quantity;
use crate::{Pattern, PatternParameter};

/// The version of the language.
pub const PLAN_VERSION: u32 = 1;

/// A list of experiments. It is a micro-benchmark if all of them vary the same parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    /// As `granularity`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What it shows and how to read it.
    pub description: String,
    /// The parameter that every experiment varies; `None` if they vary none, or different ones.
    pub parameter: Option<PatternParameter>,
    /// At least one.
    pub experiments: Vec<Experiment>,
}

/// A series of runs of the same reference pattern, in which one parameter varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// For example `SR`, or `SR/RW` for a mix.
    pub name: String,
    /// The reference pattern.
    pub pattern: Pattern,
    /// What varies; `None` for a single run.
    pub vary: Option<Vary>,
}

/// The parameter of an experiment and the values it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    /// The parameter.
    pub parameter: PatternParameter,
    /// Its values, ascending.
    pub values: Vec<ExperimentValue>,
    /// The values of a quick run: few of them, both ends included.
    pub quick_values: Vec<ExperimentValue>,
}

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentValue {
    /// In the parameter's unit.
    pub number: f64,
    /// The value as a text, for example `32KiB`; empty if nothing varies.
    pub label: String,
}

/// How many of the values are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The `quick_values`.
    Quick,
    /// All.
    Full,
}

impl Plan {
    /// A plan of this version. Its parameter is the one that every experiment varies.
    pub fn new(name: &str, title: &str, description: &str, experiments: Vec<Experiment>) -> Plan {
        let varied = |experiment: &Experiment| experiment.vary.as_ref().map(|vary| vary.parameter);
        let first = experiments.first().and_then(varied);
        let same = experiments.iter().all(|experiment| varied(experiment) == first);
        Plan {
            version: PLAN_VERSION,
            name: name.to_owned(),
            title: title.to_owned(),
            description: description.to_owned(),
            parameter: first.filter(|_| same),
            experiments,
        }
    }
}

impl Experiment {
    /// The runs: the reference pattern with each value of the parameter, in ascending order. Without a
    /// varying parameter there is one run, whose value has the number 0 and an empty label.
    ///
    /// Panics if the pattern cannot have the parameter; [`Plan::parse`] refuses such a plan.
    pub fn runs(&self, choice: Choice) -> impl Iterator<Item = (ExperimentValue, Pattern)> + '_ {
        let values = self.vary.as_ref().map(|vary| match choice {
            Choice::Quick => vary.quick_values.as_slice(),
            Choice::Full => vary.values.as_slice(),
        });
        let varied = self.vary.as_ref().zip(values).into_iter().flat_map(move |(vary, values)| {
            values.iter().map(|value| {
                let mut pattern = self.pattern.clone();
                if let Err(legal) = vary.parameter.set(&mut pattern, value.number) {
                    panic!("experiment {}: {} varies only {legal}", self.name, vary.parameter);
                }
                (value.clone(), pattern)
            })
        });
        let single = self
            .vary
            .is_none()
            .then(|| (ExperimentValue { number: 0.0, label: String::new() }, self.pattern.clone()));
        varied.chain(single)
    }
}

impl ExperimentValue {
    /// The value `number` of `parameter`, with its label.
    pub fn of(parameter: PatternParameter, number: f64) -> ExperimentValue {
        let label = match parameter.quantity() {
            Quantity::Bytes => Bytes(number as u64).exact(),
            Quantity::Nanos => Nanos(number as u64).exact(),
            Quantity::Count | Quantity::LongCount | Quantity::Integer => format!("{number:.0}"),
            Quantity::Real => number.to_string(),
        };
        ExperimentValue { number, label }
    }
}
