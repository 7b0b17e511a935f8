//! `flashlab em predict`: what the cost models expect, without running the algorithm.

use anyhow::Result;
use clap::{Args, ValueEnum};
use flashlab_base::Target;
use flashlab_em::Machine;
use flashlab_em::experiment::{CostPrediction, SortPrediction, predict_sort};
use serde_json::json;

use super::machine::MachineOptions;
use super::run::InputOptions;
use super::show;
use crate::arguments::JsonOption;
use crate::interrupt::interrupt;
use crate::output;

/// An algorithm and a device.
#[derive(Args)]
pub struct Predict {
    /// The algorithm
    #[arg(value_enum)]
    algorithm: Predictable,
    /// A block device, a regular file, sim:NAME or sim:./profile.toml; a scratch file if not given
    target: Option<Target>,
    #[command(flatten)]
    input: InputOptions,
    #[command(flatten)]
    machine: MachineOptions,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Predictable {
    /// External multiway merge sort
    Sort,
}

impl Predict {
    /// Measures what the device charges, and prints the predictions.
    pub fn run(self) -> Result<()> {
        let interrupt = interrupt()?;
        let Predictable::Sort = self.algorithm;
        let options = self.input.sort_options(&self.machine)?;
        // What is measured is at most 256 MiB of each kind.
        let space = self.input.space(3)?.min(flashlab_base::Bytes::gib(1));
        let opened = self.machine.open(self.target.as_ref(), space, &interrupt)?;
        let name = opened.name.clone();
        let machine = Machine::new(vec![opened.device], self.machine.memory, self.machine.host_time())?;
        let mut machine = machine.with_interrupt(&interrupt);
        let SortPrediction { ios, block, costs, choices } = predict_sort(&mut machine, &options)?;
        let predictions = CostPrediction::all(&ios, block, &[costs]);
        if self.json.json {
            return output::json(&json!({
                "algorithm": "sort",
                "elements": options.elements,
                "predicted": show::predicted(&predictions, None),
            }));
        }
        let choices = show::choices(&choices);
        let table = show::prediction_table(&predictions, None);
        output::text(&format!("sort of {} elements on {name}\n\n{choices}\n{table}", options.elements))
    }
}
