//! `flashlab bench`: measures a device with uFLIP's methodology.

use anyhow::Result;
use clap::{Args, ValueEnum};
use flashlab_bench::{State, Thoroughness};

use crate::measure::{self, MeasureOptions};
use crate::selection::Selection;

/// Characterise a device with uFLIP; without TARGET, the disk under the current directory
#[derive(Args)]
pub struct Bench {
    #[command(flatten)]
    options: MeasureOptions,
    /// Some minutes: thinned values, short runs (the default without TARGET)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// An hour or more: all values of uFLIP's Table 1, runs as long as the device's phases need
    #[arg(long)]
    full: bool,
    /// Only these micro-benchmarks
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// The state that the device is brought to first; steady for a full run, random for a quick one if not given
    #[arg(long, value_enum)]
    state: Option<StateChoice>,
    /// As --state steady: write randomly until the device is steady, at most ten times its capacity
    #[arg(long, conflicts_with = "state")]
    until_steady: bool,
}

/// A state of the device before the first run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateChoice {
    /// Written from end to end, then randomly until throughput, response time and write amplification are steady
    Steady,
    /// Random IOs of random size over the whole target, one capacity
    Random,
    /// The whole target, written from end to end
    Sequential,
    /// As it is
    None,
}

impl From<StateChoice> for State {
    fn from(choice: StateChoice) -> State {
        match choice {
            StateChoice::Steady => State::Steady,
            StateChoice::Random => State::Random,
            StateChoice::Sequential => State::Sequential,
            StateChoice::None => State::None,
        }
    }
}

impl Bench {
    /// Runs the micro-benchmarks with the methodology.
    pub fn run(self) -> Result<()> {
        let thoroughness = match (self.full, self.quick, &self.options.target) {
            (true, _, _) | (false, false, Some(_)) => Thoroughness::Full,
            _ => Thoroughness::Quick,
        };
        let state = match (self.until_steady, self.state, thoroughness) {
            (true, ..) | (false, None, Thoroughness::Full) => State::Steady,
            (false, None, Thoroughness::Quick) => State::Random,
            (false, Some(choice), _) => choice.into(),
        };
        let selection = Selection::micro_benchmarks(&self.only)?;
        let settings = self.options.settings(thoroughness, state);
        measure::measure(self.options, selection, settings)
    }
}
