//! `flashlab em run`: an algorithm on generated input.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use flashlab_base::{Bytes, Target};
use flashlab_em::experiment::{
    ExperimentOutcome, SearchGraph, SearchKind, SearchOptions, SortOptions, run_bfs, run_rank, run_scan,
    run_search, run_sort,
};
use flashlab_em::{EmError, Machine, RecordFormat, SortMethod};

use super::graph_input::{self, GraphOptions};
use super::machine::{MachineOptions, OpenMachine};
use super::recorder::Recorder;
use super::show;
use crate::arguments::{self, ConsentOptions, JsonOption};
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
    /// search: binary, cached (its top levels in memory) or tree (a static B-tree in nodes of the device's page) [default:
    /// tree]; bfs: the device of the graph and its clusters
    #[arg(long, value_name = "KIND|TARGET")]
    structure: Option<Structure>,
    /// How many keys are searched
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    queries: u64,
    /// How many queries are in flight; the number that saturates the device, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    in_flight: Option<u32>,
    /// The size of random reads; search: what suits the device, if not given; bfs and rank: 4 KiB
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true)]
    block: Option<Bytes>,
    #[command(flatten)]
    graph: GraphOptions,
    #[command(flatten)]
    machine: MachineOptions,
    /// Where the folder of the run goes; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
}

/// What is made before a device is opened.
struct Input {
    space: Bytes,
    graph: Option<SearchGraph>,
}

/// What is generated, and how it is sorted.
#[derive(Args)]
pub struct InputOptions {
    /// How many elements; of a graph, how many nodes
    #[arg(long, visible_alias = "nodes", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub elements: Option<u64>,
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
    /// List ranking: the distance of each element of a random list from its head
    Rank,
    /// Breadth-first search on a graph
    Bfs,
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

/// What a search works on, or where a graph lies.
#[derive(Clone)]
enum Structure {
    Searched(SearchKind),
    On(Target),
}

impl FromStr for Structure {
    type Err = <Target as FromStr>::Err;

    fn from_str(text: &str) -> Result<Structure, Self::Err> {
        Ok(match text {
            "binary" => Structure::Searched(SearchKind::Binary),
            "cached" => Structure::Searched(SearchKind::Cached),
            "tree" => Structure::Searched(SearchKind::Tree),
            target => Structure::On(target.parse()?),
        })
    }
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
            elements: self.elements()?,
            format: self.format()?,
            method,
            threads: cores(),
            seed: machine.seed,
        })
    }

    /// How many elements, which must be given.
    pub fn elements(&self) -> Result<u64> {
        let missing = || Usage("--elements N is missing: how many elements are generated".to_owned()).into();
        self.elements.ok_or_else(missing)
    }

    fn format(&self) -> Result<RecordFormat> {
        Ok(RecordFormat::new(self.record, 0..self.record.0.min(8) as usize)?)
    }

    /// The space that an algorithm needs: its input, its output, its runs and what is measured.
    pub fn space(&self, copies: u64) -> Result<Bytes> {
        let elements = self.elements()?;
        let length = elements.checked_mul(self.record.0).and_then(|length| length.checked_mul(copies));
        match length {
            Some(length) => Ok(Bytes(length) + Bytes::mib(64)),
            None => bail!(Usage(format!("--elements {elements}: that is more than any device holds"))),
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
        let input = self.prepare()?;
        let opened = self.open(&input, &interrupt)?;
        let all = |of: fn(&OpenMachine) -> &str| opened.iter().map(of).collect::<Vec<_>>().join(" and ");
        let (name, consent) = (all(|machine| &machine.name), all(|machine| &machine.consent));
        let identity = opened[0].device.identity();
        let target = self.target.as_ref().map_or(name.clone(), ToString::to_string);
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
        let machine = Machine::new(devices, self.machine.memory, self.machine.host_time())?;
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

    /// The input that is made before a device is opened, and the space that the algorithm needs.
    fn prepare(&self) -> Result<Input> {
        match &self.structure {
            Some(Structure::On(_)) if self.algorithm != Algorithm::Bfs => {
                bail!(Usage("--structure is binary, cached or tree; only bfs has devices by role".to_owned()))
            }
            Some(Structure::Searched(_)) if self.algorithm == Algorithm::Bfs => {
                bail!(Usage(
                    "--structure of bfs is a TARGET: where the graph lies; write ./tree for a file"
                        .to_owned()
                ))
            }
            _ => {}
        }
        let flat = |space| Input { space, graph: None };
        let plain = |name, copies| {
            self.graph.check_unneeded(name)?;
            self.input.space(copies).map(flat)
        };
        match self.algorithm {
            Algorithm::Scan => plain("scan", 2),
            Algorithm::Search => plain("search", 2),
            Algorithm::Sort => plain("sort", 4),
            Algorithm::Rank => {
                if self.graph.pool.is_some() {
                    bail!(Usage("rank works on one device: leave --pool out".to_owned()));
                }
                self.random_read()?;
                graph_input::rank_space(self.input.elements()?).map(flat)
            }
            Algorithm::Bfs => {
                self.random_read()?;
                self.graph.search_task(1, Bytes::kib(4), &self.machine)?;
                let graph = self.graph.graph(self.input.elements, self.machine.seed)?;
                Ok(Input { space: graph_input::search_space(&graph), graph: Some(graph) })
            }
        }
    }

    /// Opens one device, or one for each role.
    fn open(&self, input: &Input, interrupt: &AtomicBool) -> Result<Vec<OpenMachine>> {
        let structure = match &self.structure {
            Some(Structure::On(target)) => Some(target),
            _ => None,
        };
        let (structure, pool) = match (structure, &self.graph.pool) {
            (None, None) => {
                return Ok(vec![self.machine.open(self.target.as_ref(), input.space, interrupt)?]);
            }
            (Some(structure), Some(pool)) if self.target.is_none() => (structure, pool),
            (Some(_), Some(_)) => {
                bail!(Usage("give either TARGET, or --structure TARGET and --pool TARGET".to_owned()))
            }
            _ => bail!(Usage("--structure TARGET and --pool TARGET are given together".to_owned())),
        };
        if let (Target::Path(one), Target::Path(other)) = (structure, pool)
            && let (Ok(one), Ok(other)) = (fs::canonicalize(one), fs::canonicalize(other))
            && one == other
        {
            bail!(Usage(format!(
                "--structure and --pool are both {}: give it as TARGET, without the two",
                one.display()
            )));
        }
        let consent = ConsentOptions {
            destroy_data_on: self.graph.destroy_pool_data_on.clone(),
            overwrite_file: self.machine.consent.overwrite_file,
        };
        Ok(vec![
            self.machine.open(Some(structure), input.space, interrupt)?,
            self.machine.open_with(Some(pool), input.space, &consent, interrupt)?,
        ])
    }

    /// B of bfs and rank.
    fn random_read(&self) -> Result<Bytes> {
        let block = self.block.unwrap_or(Bytes::kib(4));
        match block.0.is_power_of_two() && (512..=1 << 20).contains(&block.0) {
            true => Ok(block),
            false => bail!(Usage(format!("--block {block}: it is a power of two from 512 bytes to 1 MiB"))),
        }
    }

    fn experiment(&self, machine: &mut Machine<'_>, input: &Input) -> Result<ExperimentOutcome> {
        let seed = self.machine.seed;
        let elements = || self.input.elements();
        let outcome: Result<ExperimentOutcome, EmError> = match self.algorithm {
            Algorithm::Rank => {
                let block = self.random_read()?.max(machine.unit());
                run_rank(machine, &self.graph.rank_options(elements()?, block, &self.machine)?)
            }
            Algorithm::Bfs => {
                let block = self.random_read()?.max(machine.unit());
                let task = self.graph.search_task(machine.device_count(), block, &self.machine)?;
                run_bfs(machine, input.graph.as_ref().expect("bfs was given a graph"), &task)
            }
            Algorithm::Scan => run_scan(machine, elements()?, &self.input.format()?, seed),
            Algorithm::Sort => run_sort(machine, &self.input.sort_options(&self.machine)?),
            Algorithm::Search => {
                let kind = match self.structure {
                    Some(Structure::Searched(kind)) => kind,
                    _ => SearchKind::Tree,
                };
                let options = SearchOptions {
                    elements: elements()?,
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
