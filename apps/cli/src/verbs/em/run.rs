//! `flashlab em run`: an algorithm on generated input.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_base::{Bytes, Target};
use flashlab_em::experiment::{
    ExperimentOutcome, RankOptions, SearchOptions, SequencePlacement, SortOptions, run_bfs, run_rank,
    run_scan, run_search, run_sort,
};
use flashlab_em::{EmError, Machine};

use super::graph_input::Placed;
use super::machine::OpenMachine;
use super::options::{Algorithm, AlgorithmOptions, Input};
use super::recorder::Recorder;
use super::show;
use crate::arguments::{ConsentOptions, JsonOption};
use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::{output, run_folder};

/// An algorithm with a generated input.
#[derive(Args)]
pub struct RunExperiment {
    /// The algorithm
    #[arg(value_enum)]
    algorithm: Algorithm,
    /// A block device, a regular file, sim:NAME or sim:./profile.toml; a scratch file if not given. Over several everything is
    /// striped, unless --by-role is given
    target: Vec<Target>,
    /// Of two TARGETs, the first has what the algorithm is given and returns, and the second what it makes in between: sort:
    /// runs; search: the levels of the tree; rank: sorted sets; bfs: pool and levels
    #[arg(long)]
    by_role: bool,
    #[command(flatten)]
    options: AlgorithmOptions,
    /// Where the folder of the run goes; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
}

impl RunExperiment {
    /// Runs the experiment, and prints it.
    pub fn run(self) -> Result<()> {
        run_folder::check_output(self.output.as_deref())?;
        let interrupt = interrupt()?;
        let input = self.options.prepare(self.algorithm)?;
        let opened = self.open(&input, &interrupt)?;
        let all = |of: fn(&OpenMachine) -> &str| opened.iter().map(of).collect::<Vec<_>>().join(" and ");
        let (name, consent) = (all(|machine| &machine.name), all(|machine| &machine.consent));
        let identity = opened[0].device.identity();
        let named: Vec<String> = self.target.iter().map(ToString::to_string).collect();
        let target = if named.is_empty() { name.clone() } else { named.join(" and ") };
        let mut recorder = Recorder::begin(
            self.output.as_deref(),
            identity,
            &consent,
            &target,
            "flashlab em run",
            opened.len() as u32,
        )?;
        let folder = recorder.path().display().to_string();
        // A scratch file has to live until the machine has ended.
        let (devices, scratch): (Vec<_>, Vec<_>) =
            opened.into_iter().map(|machine| (machine.device, machine.scratch)).unzip();
        let machine = Machine::new(devices, self.options.machine.memory, self.options.machine.host_time())?;
        let mut machine = machine.with_interrupt(&interrupt).with_observer(&mut recorder);
        let outcome = self.experiment(&mut machine, &input);
        drop(machine);
        drop(scratch);
        let folder_of_run = recorder.finish()?;
        let outcome = outcome?;
        let document = show::document(&outcome);
        folder_of_run.write_json("em.json", &document)?;
        match self.json.json {
            true => output::json(&document),
            false => output::text(&show::text(&outcome, &name, &folder)),
        }
    }

    /// Opens one device, or one for each role.
    fn open(&self, input: &Input, interrupt: &AtomicBool) -> Result<Vec<OpenMachine>> {
        if self.by_role && self.target.len() != 2 {
            bail!(Usage("--by-role needs two TARGETs: one for each role".to_owned()));
        }
        if self.by_role && self.algorithm == Algorithm::Scan {
            bail!(Usage("scan only reads what it is given: leave --by-role out".to_owned()));
        }
        let (structure, pool) = match (self.options.structure_target(), &self.options.graph.pool) {
            (None, None) if self.target.len() > 1 => {
                check_apart(&self.target.iter().collect::<Vec<_>>())?;
                let open = |target| self.options.machine.open(Some(target), input.space, interrupt);
                return self.target.iter().map(open).collect();
            }
            (None, None) => {
                return Ok(vec![self.options.machine.open(self.target.first(), input.space, interrupt)?]);
            }
            (Some(structure), Some(pool)) if self.target.is_empty() => (structure, pool),
            (Some(_), Some(_)) => {
                bail!(Usage("give either TARGET, or --structure TARGET and --pool TARGET".to_owned()))
            }
            _ => bail!(Usage("--structure TARGET and --pool TARGET are given together".to_owned())),
        };
        check_apart(&[structure, pool])?;
        let consent = ConsentOptions {
            destroy_data_on: self.options.graph.destroy_pool_data_on.clone(),
            overwrite_file: self.options.machine.consent.overwrite_file,
        };
        Ok(vec![
            self.options.machine.open(Some(structure), input.space, interrupt)?,
            self.options.machine.open_with(Some(pool), input.space, &consent, interrupt)?,
        ])
    }

    /// On which devices the sequences lie.
    fn placement(&self, machine: &Machine<'_>, record: Bytes) -> SequencePlacement {
        match self.target.len() {
            0 | 1 => SequencePlacement::ONE,
            _ if self.by_role => SequencePlacement::BY_ROLE,
            _ => SequencePlacement::striped(machine, record),
        }
    }

    fn experiment(&self, machine: &mut Machine<'_>, input: &Input) -> Result<ExperimentOutcome> {
        let AlgorithmOptions { input: elements, graph, machine: options, .. } = &self.options;
        let outcome: Result<ExperimentOutcome, EmError> = match self.algorithm {
            Algorithm::Rank => {
                let block = self.options.random_read()?.max(machine.unit());
                let placement = self.placement(machine, block);
                let rank = graph.rank_options(elements.elements()?, block, options)?;
                run_rank(machine, &RankOptions { placement, ..rank })
            }
            Algorithm::Bfs => {
                let block = self.options.random_read()?.max(machine.unit());
                let placed = match self.target.len() > 1 && !self.by_role {
                    true => Placed::Striped,
                    false => Placed::On(machine.device_count()),
                };
                let task = graph.search_task(placed, block, options)?;
                run_bfs(machine, input.graph.as_ref().expect("bfs was given a graph"), &task)
            }
            Algorithm::Scan => {
                let data = self.placement(machine, elements.record).data;
                run_scan(machine, elements.elements()?, &elements.format()?, data, options.seed)
            }
            Algorithm::Sort => {
                let placement = self.placement(machine, elements.record);
                run_sort(machine, &SortOptions { placement, ..elements.sort_options(options)? })
            }
            Algorithm::Search => {
                let placement = self.placement(machine, elements.record);
                run_search(machine, &SearchOptions { placement, ..self.options.search_options()? })
            }
        };
        Ok(outcome?)
    }
}

/// Refuses a path that is given twice.
fn check_apart(targets: &[&Target]) -> Result<()> {
    let mut seen = Vec::new();
    for target in targets {
        let Target::Path(path) = target else { continue };
        let Ok(path) = fs::canonicalize(path) else { continue };
        if seen.contains(&path) {
            bail!(Usage(format!("{} is given twice: give each device once", path.display())));
        }
        seen.push(path);
    }
    Ok(())
}
