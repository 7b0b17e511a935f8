//! `flashlab em run`: an algorithm on generated input.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use flashlab_base::{Bytes, Target};
use flashlab_em::experiment::{
    ExperimentOutcome, SearchKind, SearchOptions, SortOptions, run_scan, run_search, run_sort,
};
use flashlab_em::{EmError, Machine, RecordFormat, SortMethod};

use super::machine::MachineOptions;
use super::recorder::Recorder;
use super::show;
use crate::arguments::{self, JsonOption};
use crate::exit::Usage;
use crate::interrupt::interrupt;
use crate::{output, run_folder};

/// An algorithm with a generated input.
#[derive(Args)]
pub struct RunExperiment {
    /// The algorithm
    #[arg(value_enum)]
    algorithm: Algorithm,
    /// A block device, a regular file, sim:NAME or sim:./profile.toml; a scratch file if not given
    target: Option<Target>,
    #[command(flatten)]
    input: InputOptions,
    /// What is searched
    #[arg(long, value_enum, default_value_t = Structure::Tree)]
    structure: Structure,
    /// How many keys are searched
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    queries: u64,
    /// How many queries are in flight; as many as saturate the device, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    in_flight: Option<u32>,
    /// The size of the blocks that a search reads; what suits the device, if not given
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true)]
    block: Option<Bytes>,
    #[command(flatten)]
    machine: MachineOptions,
    /// Where the folder of the run goes; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
}

/// What is generated, and how it is sorted.
#[derive(Args)]
pub struct InputOptions {
    /// How many elements
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub elements: u64,
    /// The size of an element; its key is its first 8 bytes
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, default_value = "16B", allow_negative_numbers = true)]
    pub record: Bytes,
    /// How a sort forms runs
    #[arg(long, value_enum, default_value_t = Runs::Sorting)]
    runs: Runs,
    /// With --runs write-saving: how many reads a write costs
    #[arg(long, value_name = "FACTOR", default_value_t = 5.0)]
    write_cost: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Algorithm {
    /// Read all elements in order
    Scan,
    /// External multiway merge sort
    Sort,
    /// Search for random keys in sorted elements
    Search,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Runs {
    /// One half of the memory is sorted while the other half is read
    Sorting,
    /// Replacement selection
    Replacement,
    /// Several scans for each run, where that pays because writes cost more than reads
    WriteSaving,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Structure {
    /// Binary search
    Binary,
    /// Binary search with its top levels in memory
    Cached,
    /// A static B-tree in nodes of the device's page, with its top levels in memory
    Tree,
}

impl InputOptions {
    /// The options of a sort.
    pub fn sort_options(&self, machine: &MachineOptions) -> Result<SortOptions> {
        if !(1.0..=1000.0).contains(&self.write_cost) {
            bail!(Usage(format!("--write-cost {}: a write costs 1 to 1000 reads", self.write_cost)));
        }
        let method = match self.runs {
            Runs::Sorting => SortMethod::Sorting,
            Runs::Replacement => SortMethod::Replacement,
            Runs::WriteSaving => SortMethod::WriteSaving { write_cost: self.write_cost },
        };
        Ok(SortOptions {
            elements: self.elements,
            format: self.format()?,
            method,
            threads: cores(),
            seed: machine.seed,
        })
    }

    fn format(&self) -> Result<RecordFormat> {
        Ok(RecordFormat::new(self.record, 0..self.record.0.min(8) as usize)?)
    }

    /// The space that an algorithm needs: its input, its output, its runs and what is measured.
    pub fn space(&self, copies: u64) -> Result<Bytes> {
        let length = self.elements.checked_mul(self.record.0).and_then(|length| length.checked_mul(copies));
        match length {
            Some(length) => Ok(Bytes(length) + Bytes::mib(64)),
            None => bail!(Usage(format!("--elements {}: that is more than any device holds", self.elements))),
        }
    }
}

/// How many cores there are.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl RunExperiment {
    /// Runs the experiment, and prints it.
    pub fn run(self) -> Result<()> {
        run_folder::check_output(self.output.as_deref())?;
        let interrupt = interrupt()?;
        let copies = if self.algorithm == Algorithm::Sort { 4 } else { 2 };
        let opened = self.machine.open(self.target.as_ref(), self.input.space(copies)?, &interrupt)?;
        let (name, identity) = (opened.name.clone(), opened.device.identity());
        let mut recorder = Recorder::begin(
            self.output.as_deref(),
            identity,
            &opened.consent,
            &self.target.as_ref().map_or(name.clone(), ToString::to_string),
            "flashlab em run",
            1,
        )?;
        let folder = recorder.path().display().to_string();
        let machine = Machine::new(vec![opened.device], self.machine.memory, self.machine.host_time())?;
        let mut machine = machine.with_interrupt(&interrupt).with_observer(&mut recorder);
        let outcome = self.experiment(&mut machine);
        drop(machine);
        let folder_of_run = recorder.finish()?;
        let outcome = outcome?;
        let document = show::document(&outcome);
        folder_of_run.write_json("em.json", &document)?;
        match self.json.json {
            true => output::json(&document),
            false => output::text(&show::text(&outcome, &name, &folder)),
        }
    }

    fn experiment(&self, machine: &mut Machine<'_>) -> Result<ExperimentOutcome> {
        let seed = self.machine.seed;
        let outcome: Result<ExperimentOutcome, EmError> = match self.algorithm {
            Algorithm::Scan => run_scan(machine, self.input.elements, &self.input.format()?, seed),
            Algorithm::Sort => run_sort(machine, &self.input.sort_options(&self.machine)?),
            Algorithm::Search => {
                let kind = match self.structure {
                    Structure::Binary => SearchKind::Binary,
                    Structure::Cached => SearchKind::Cached,
                    Structure::Tree => SearchKind::Tree,
                };
                let options = SearchOptions {
                    elements: self.input.elements,
                    record: self.input.record,
                    kind,
                    queries: self.queries,
                    in_flight: self.in_flight,
                    block: self.block,
                    seed,
                };
                run_search(machine, &options)
            }
        };
        Ok(outcome?)
    }
}
