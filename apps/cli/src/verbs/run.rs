//! `flashlab run`: runs a plan without the methodology.

use anyhow::Result;
use clap::Args;
use flashlab_bench::{Settings, Thoroughness};

use crate::measure::{self, MeasureOptions};
use crate::selection::Selection;
use crate::verbs::bench::StateChoice;

/// Run a plan of your own
#[derive(Args)]
pub struct Run {
    /// A plan's file, or the name of one that comes with flashlab (see flashlab plan list)
    plan: String,
    #[command(flatten)]
    options: MeasureOptions,
    /// Take the plan's quick_values instead of all its values
    #[arg(long)]
    quick: bool,
    /// The state that the device is brought to first
    #[arg(long, value_enum, default_value_t = StateChoice::None)]
    state: StateChoice,
}

impl Run {
    /// Runs the plan as it is written.
    pub fn run(self) -> Result<()> {
        let thoroughness = if self.quick { Thoroughness::Quick } else { Thoroughness::Full };
        let selection = Selection::named(&self.plan)?;
        let settings =
            Settings { methodology: false, ..self.options.settings(thoroughness, self.state.into()) };
        measure::measure(self.options, selection, settings)
    }
}
