//! `flashlab em predict`: what the cost models expect, without running the algorithm.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use flashlab_base::{Bytes, Target};
use flashlab_em::experiment::{Algorithm, AlgorithmPrediction, CostPrediction, MeasuredCosts};
use flashlab_em::{EmError, ExtentAllocator, Machine};
use serde_json::json;

use super::model_costs::ModelCosts;
use super::options::{AlgorithmName, AlgorithmOptions};
use super::rehearsal::Rehearsal;
use super::show;
use crate::arguments::JsonOption;
use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::output;
use crate::verbs::model;

/// An algorithm, and devices or what is known of one.
#[derive(Args)]
pub struct Predict {
    /// The algorithm
    #[arg(value_enum)]
    algorithm: AlgorithmName,
    /// What is measured: a block device, a regular file, sim:NAME or sim:./profile.toml; a scratch file if not given. Over several
    /// everything is striped, unless --by-role is given. Or what was measured: the folder of a run, or of flashlab model fit, or its
    /// model.json
    #[arg(value_name = "TARGET|RUN")]
    target: Vec<Target>,
    /// Of two TARGETs, the first has what the algorithm is given and returns, and the second what it makes in between
    #[arg(long)]
    by_role: bool,
    #[command(flatten)]
    options: AlgorithmOptions,
    #[command(flatten)]
    json: JsonOption,
}

impl Predict {
    /// Measures what the device charges or reads it, and prints the predictions.
    pub fn run(self) -> Result<()> {
        let algorithm = self.options.algorithm(self.algorithm)?;
        let runs: Vec<&String> = self.target.iter().filter_map(measured_path).collect();
        match (&runs[..], self.target.len()) {
            ([], _) => self.of_devices(algorithm).map_err(explained),
            ([path], 1) => self.of_run(path, &*algorithm),
            ([path, ..], _) => bail!(Usage(format!(
                "{path} is what was measured of one device: give it alone, or TARGETs that can be measured"
            ))),
        }
    }

    /// Takes what was measured.
    fn of_run(&self, path: &str, algorithm: &dyn Algorithm) -> Result<()> {
        if self.options.structure_target().is_some() || self.options.graph.pool.is_some() {
            bail!(Usage(format!(
                "{path} is what was measured of one device: leave --structure TARGET and --pool out"
            )));
        }
        let model = model::source::model(Path::new(path))?;
        let mut source = ModelCosts {
            model,
            memory: self.options.machine.memory,
            host_cost: self.options.machine.declared_cost(),
        };
        self.print(algorithm, &algorithm.predict(&mut source)?, path)
    }

    /// Measures devices.
    fn of_devices(&self, mut algorithm: Box<dyn Algorithm>) -> Result<()> {
        let interrupt = interrupt()?;
        let machine = &self.options.machine;
        // What is measured is at most 256 MiB of each kind.
        let space = algorithm.space(machine.memory)?.min(Bytes::gib(1));
        let targets = (&self.target[..], self.by_role);
        let (opened, layout) = self.options.open(self.algorithm, targets, space, &interrupt)?;
        let name = opened.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" and ");
        // A scratch file has to live until the machine has ended.
        let (devices, scratch): (Vec<_>, Vec<_>) =
            opened.into_iter().map(|one| (one.device, one.scratch)).unzip();
        let mut em = Machine::new(devices, machine.memory, machine.host_time())?.with_interrupt(&interrupt);
        let (is_real, devices) = (!em.is_virtual(), em.device_count());
        algorithm.place(&em, layout);
        let (length, spread) = algorithm.data();
        // A scratch file is as large as what is measured; a run would make a larger one.
        let is_scratch = scratch.iter().any(Option::is_some);
        if !is_scratch {
            ExtentAllocator::new(&em).allocate(length, spread)?;
        }
        let mut source = MeasuredCosts::new(&mut em, length, spread, machine.seed)?;
        if !is_scratch {
            source = source.on_these();
        }
        let mut prediction = algorithm.predict(&mut source)?;
        if is_real {
            let rehearsal =
                Rehearsal { algorithm: &*algorithm, memory: machine.memory, interrupt: &interrupt };
            rehearsal.add_host_time(&mut prediction.ios, prediction.block, (devices, layout));
        }
        self.print(&*algorithm, &prediction, &name)
    }

    fn print(&self, algorithm: &dyn Algorithm, prediction: &AlgorithmPrediction, name: &str) -> Result<()> {
        let AlgorithmPrediction { ios, block, costs, choices } = prediction;
        let predictions = CostPrediction::all(ios, *block, costs);
        let elements = self.options.input.elements;
        let of = elements.map(|elements| format!(" of {elements} elements")).unwrap_or_default();
        if self.json.json {
            return output::json(&json!({
                "algorithm": algorithm.name(),
                "elements": elements,
                "predicted": show::predicted(&predictions, None),
            }));
        }
        let (choices, table) = (show::choices(choices), show::prediction_table(&predictions, None));
        output::text(&format!("{}{of} on {name}\n\n{choices}\n{table}", algorithm.name()))
    }
}

/// The path of what was measured: a folder, or a document.
fn measured_path(target: &Target) -> Option<&String> {
    let Target::Path(path) = target else { return None };
    let file = Path::new(path);
    let is_document = file.is_file() && file.extension().is_some_and(|extension| extension == "json");
    (file.is_dir() || is_document).then_some(path)
}

/// An error with what is left after it.
fn explained(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<EmError>() {
        Some(EmError::Interrupted) => {
            anyhow!("interrupted: no prediction was made and nothing is kept; run the command again")
        }
        _ => error,
    }
}
