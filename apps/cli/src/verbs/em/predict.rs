//! `flashlab em predict`: what the cost models expect, without running the algorithm.

use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_base::{Bytes, Target};
use flashlab_em::Machine;
use flashlab_em::experiment::{
    AlgorithmPrediction, CostPrediction, CostSource, MeasuredCosts, PredictedAlgorithm, predict,
};
use serde_json::json;

use super::graph_input::Placed;
use super::model_costs::ModelCosts;
use super::options::{Algorithm, AlgorithmOptions, Input};
use super::show;
use crate::arguments::JsonOption;
use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::output;
use crate::verbs::model;

/// An algorithm, and a device or what is known of one.
#[derive(Args)]
pub struct Predict {
    /// The algorithm
    #[arg(value_enum)]
    algorithm: Algorithm,
    /// What is measured: a block device, a regular file, sim:NAME or sim:./profile.toml; a scratch file if not given. Or what
    /// was measured: the folder of a run, or of flashlab model fit, or its model.json
    #[arg(value_name = "TARGET|RUN")]
    target: Option<Target>,
    #[command(flatten)]
    options: AlgorithmOptions,
    #[command(flatten)]
    json: JsonOption,
}

impl Predict {
    /// Measures what the device charges or reads it, and prints the predictions.
    pub fn run(self) -> Result<()> {
        let input = self.options.prepare(self.algorithm)?;
        if self.options.structure_target().is_some() || self.options.graph.pool.is_some() {
            bail!(Usage(
                "predict takes one TARGET or RUN: leave --structure TARGET and --pool out".to_owned()
            ));
        }
        let (prediction, name) = match &self.target {
            Some(Target::Path(path)) if is_measured(Path::new(path)) => {
                let model = model::source::model(Path::new(path))?;
                let mut source = ModelCosts { model, memory: self.options.machine.memory };
                (self.predict(&mut source, &input)?, path.clone())
            }
            _ => self.measured(&input)?,
        };
        self.print(&prediction, &name)
    }

    /// Measures the device.
    fn measured(&self, input: &Input) -> Result<(AlgorithmPrediction, String)> {
        let interrupt = interrupt()?;
        let machine = &self.options.machine;
        // What is measured is at most 256 MiB of each kind.
        let space = input.space.min(Bytes::gib(1));
        let opened = machine.open(self.target.as_ref(), space, &interrupt)?;
        let name = opened.name.clone();
        let mut em = Machine::new(vec![opened.device], machine.memory, machine.host_time())?
            .with_interrupt(&interrupt);
        let mut source = MeasuredCosts::new(&mut em, Bytes(space.0 / 4), machine.seed)?;
        Ok((self.predict(&mut source, input)?, name))
    }

    fn predict(&self, source: &mut dyn CostSource, input: &Input) -> Result<AlgorithmPrediction> {
        let AlgorithmOptions { input: elements, graph, machine, .. } = &self.options;
        let block = || self.options.random_read();
        Ok(match self.algorithm {
            Algorithm::Scan => {
                let (elements, format) = (elements.elements()?, elements.format()?);
                predict(source, &PredictedAlgorithm::Scan { elements, format })?
            }
            Algorithm::Sort => predict(source, &PredictedAlgorithm::Sort(&elements.sort_options(machine)?))?,
            Algorithm::Search => {
                predict(source, &PredictedAlgorithm::Search(&self.options.search_options()?))?
            }
            Algorithm::Rank => {
                let options =
                    graph.rank_options(elements.elements()?, block()?.max(source.unit()), machine)?;
                predict(source, &PredictedAlgorithm::Rank(&options))?
            }
            Algorithm::Bfs => {
                let task = graph.search_task(Placed::On(1), block()?.max(source.unit()), machine)?;
                let graph = input.graph.as_ref().expect("bfs was given a graph");
                predict(source, &PredictedAlgorithm::Bfs(graph, &task))?
            }
        })
    }

    fn print(&self, prediction: &AlgorithmPrediction, name: &str) -> Result<()> {
        let AlgorithmPrediction { ios, block, costs, choices } = prediction;
        let predictions = CostPrediction::all(ios, *block, costs);
        let elements = match (&self.options.input.elements, self.algorithm) {
            (Some(elements), _) => format!(" of {elements} elements"),
            (None, _) => String::new(),
        };
        if self.json.json {
            return output::json(&json!({
                "algorithm": self.algorithm.name(),
                "elements": self.options.input.elements,
                "predicted": show::predicted(&predictions, None),
            }));
        }
        let (choices, table) = (show::choices(choices), show::prediction_table(&predictions, None));
        output::text(&format!("{}{elements} on {name}\n\n{choices}\n{table}", self.algorithm.name()))
    }
}

/// Whether a path is what was measured: a folder, or a document.
fn is_measured(path: &Path) -> bool {
    path.is_dir() || path.is_file() && path.extension().is_some_and(|extension| extension == "json")
}
