//! The algorithms of `em run` and `em predict`, their inputs and options.

use std::fs;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use flashlab_base::{Bytes, Target};
use flashlab_em::experiment::{
    Algorithm, BfsOptions, DataLayout, ScanOptions, SearchKind, SearchOptions, SequencePlacement, SortOptions,
};
use flashlab_em::{RecordFormat, SortMethod};

use super::graph_input::GraphOptions;
use super::machine::{MachineOptions, OpenMachine};
use crate::arguments::{self, ConsentOptions};
use crate::exit::Usage;

/// An algorithm's input, its options, and the machine.
#[derive(Args, Clone)]
pub struct AlgorithmOptions {
    #[command(flatten)]
    pub input: InputOptions,
    /// search: binary, cached (its top levels in memory) or tree (a static B-tree in nodes of the device's page) [default:
    /// tree]; bfs: the device of the graph and its clusters
    #[arg(long, value_name = "KIND|TARGET")]
    structure: Option<Structure>,
    /// search: how many keys are searched [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub queries: Option<u64>,
    /// search: how many queries are in flight; the number that saturates the device, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: Option<u32>,
    /// The size of random reads; search: what suits the device, if not given; bfs and rank: 4 KiB
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true)]
    pub block: Option<Bytes>,
    #[command(flatten)]
    pub graph: GraphOptions,
    #[command(flatten)]
    pub machine: MachineOptions,
}

/// An element if its size is not given: a key and a value of 8 bytes.
const RECORD: Bytes = Bytes(16);
/// The keys that are searched if their number is not given: enough for a mean within 1 % at a spread of the size of the mean.
const QUERIES: u64 = 10_000;
/// c_W if it is not given.
const WRITE_COST: f64 = 5.0;

/// What is generated, and how it is sorted.
#[derive(Args, Clone)]
pub struct InputOptions {
    /// How many elements; of a graph, how many nodes
    #[arg(long, visible_alias = "nodes", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub elements: Option<u64>,
    /// scan, sort, search: the size of an element; its key is its first 8 bytes [default: 16B]
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, allow_negative_numbers = true)]
    record: Option<Bytes>,
    /// How a sort forms runs [default: sorting]
    #[arg(long, value_enum)]
    runs: Option<Runs>,
    /// With --runs write-saving: how many reads a write costs [default: 5]
    #[arg(long, value_name = "FACTOR")]
    write_cost: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmName {
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

impl AlgorithmName {
    /// As on the command line.
    fn name(self) -> String {
        self.to_possible_value().expect("no algorithm is hidden").get_name().to_owned()
    }
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
        let write_cost = self.write_cost.unwrap_or(WRITE_COST);
        if !(1.0..=1000.0).contains(&write_cost) {
            bail!(Usage(format!("--write-cost {write_cost}: a write costs 1 to 1000 reads")));
        }
        let runs = self.runs.unwrap_or(Runs::Sorting);
        if self.write_cost.is_some() && runs != Runs::WriteSaving {
            bail!(Usage("--write-cost is for --runs write-saving: give both, or leave it out".to_owned()));
        }
        let method = match runs {
            Runs::Sorting => SortMethod::Sorting,
            Runs::Replacement => SortMethod::Replacement,
            Runs::WriteSaving => SortMethod::WriteSaving { write_cost },
        };
        Ok(SortOptions {
            elements: self.elements()?,
            format: self.format()?,
            method,
            threads: cores(),
            placement: SequencePlacement::ONE,
            seed: machine.seed,
        })
    }

    /// How many elements, which must be given.
    pub fn elements(&self) -> Result<u64> {
        let missing = || Usage("--elements N is missing: how many elements are generated".to_owned()).into();
        self.elements.ok_or_else(missing)
    }

    /// The size of an element.
    pub fn record(&self) -> Bytes {
        self.record.unwrap_or(RECORD)
    }

    pub fn format(&self) -> Result<RecordFormat> {
        Ok(RecordFormat::new(self.record(), 0..self.record().0.min(8) as usize)?)
    }
}

/// How many cores there are.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl AlgorithmOptions {
    /// Opens the devices that are named: one, several, or one for each role. A scratch file, if none is.
    pub fn open(
        &self,
        algorithm: AlgorithmName,
        (targets, by_role): (&[Target], bool),
        space: Bytes,
        interrupt: &AtomicBool,
    ) -> Result<(Vec<OpenMachine>, DataLayout)> {
        if by_role && targets.len() != 2 {
            bail!(Usage("--by-role needs two TARGETs: one for each role".to_owned()));
        }
        if by_role && algorithm == AlgorithmName::Scan {
            bail!(Usage("scan only reads what it is given: leave --by-role out".to_owned()));
        }
        let open = |target| self.machine.open(target, space, interrupt);
        let (structure, pool) = match (self.structure_target(), &self.graph.pool) {
            (None, None) if targets.len() > 1 => {
                check_apart(&targets.iter().collect::<Vec<_>>())?;
                let opened = targets.iter().map(|target| open(Some(target))).collect::<Result<_>>()?;
                return Ok((opened, if by_role { DataLayout::ByRole } else { DataLayout::Striped }));
            }
            (None, None) => return Ok((vec![open(targets.first())?], DataLayout::ByRole)),
            (Some(structure), Some(pool)) if targets.is_empty() => (structure, pool),
            (Some(_), Some(_)) => {
                bail!(Usage("give either TARGET, or --structure TARGET and --pool TARGET".to_owned()))
            }
            _ => bail!(Usage("--structure TARGET and --pool TARGET are given together".to_owned())),
        };
        check_apart(&[structure, pool])?;
        let consent = ConsentOptions {
            destroy_data_on: self.graph.destroy_pool_data_on.clone(),
            overwrite_file: self.machine.consent.overwrite_file,
        };
        let pool =
            |structure| Ok(vec![structure, self.machine.open_with(Some(pool), space, &consent, interrupt)?]);
        Ok((open(Some(structure)).and_then(pool)?, DataLayout::ByRole))
    }

    /// The algorithm with its input, made before a device is opened.
    pub fn algorithm(&self, name: AlgorithmName) -> Result<Box<dyn Algorithm>> {
        self.check_used(name)?;
        let AlgorithmOptions { input, graph, machine, .. } = self;
        if !matches!(name, AlgorithmName::Rank | AlgorithmName::Bfs) {
            graph.check_unneeded(&name.name())?;
        }
        Ok(match name {
            AlgorithmName::Scan => Box::new(ScanOptions {
                elements: input.elements()?,
                format: input.format()?,
                placement: SequencePlacement::ONE,
                seed: machine.seed,
            }),
            AlgorithmName::Sort => Box::new(input.sort_options(machine)?),
            AlgorithmName::Search => Box::new(self.search_options()?),
            AlgorithmName::Rank => {
                if graph.pool.is_some() {
                    bail!(Usage("rank works on one device: leave --pool out".to_owned()));
                }
                Box::new(graph.rank_options(input.elements()?, self.random_read()?, machine)?)
            }
            AlgorithmName::Bfs => {
                let task = graph.search_task(self.random_read()?, machine)?;
                Box::new(BfsOptions { graph: graph.graph(input.elements, machine.seed)?, task })
            }
        })
    }

    /// Refuses options that the algorithm does not use: its result would be taken for one that they changed.
    fn check_used(&self, algorithm: AlgorithmName) -> Result<()> {
        use AlgorithmName::{Bfs, Rank, Scan, Search, Sort};
        match &self.structure {
            Some(Structure::On(_)) if algorithm != Bfs => {
                bail!(Usage("--structure is binary, cached or tree; only bfs has devices by role".to_owned()))
            }
            Some(Structure::Searched(_)) if algorithm == Bfs => {
                bail!(Usage(
                    "--structure of bfs is a TARGET: where the graph lies; write ./tree for a file"
                        .to_owned()
                ))
            }
            _ => {}
        }
        let searched = matches!(self.structure, Some(Structure::Searched(_)));
        let own: [(&str, bool, &[AlgorithmName]); 7] = [
            ("--record", self.input.record.is_some(), &[Scan, Sort, Search]),
            ("--runs", self.input.runs.is_some(), &[Sort]),
            ("--write-cost", self.input.write_cost.is_some(), &[Sort]),
            ("--structure KIND", searched && algorithm != Bfs, &[Search]),
            ("--queries", self.queries.is_some(), &[Search]),
            ("--in-flight", self.in_flight.is_some(), &[Search]),
            ("--block", self.block.is_some(), &[Search, Rank, Bfs]),
        ];
        let of_graphs = self.graph.given().map(|(option, is_given)| (option, is_given, &[Bfs][..]));
        let mut all = own.into_iter().chain(of_graphs);
        match all.find(|(_, is_given, users)| *is_given && !users.contains(&algorithm)) {
            Some((option, _, users)) => {
                let users: Vec<String> = users.iter().map(|user| user.name()).collect();
                bail!(Usage(format!(
                    "{option} is an option of {}, and {} does not use it: leave it out",
                    users.join(", "),
                    algorithm.name()
                )))
            }
            None => Ok(()),
        }
    }

    /// B of bfs and rank.
    fn random_read(&self) -> Result<Bytes> {
        let block = self.block.unwrap_or(Bytes::kib(4));
        match block.0.is_power_of_two() && (512..=1 << 20).contains(&block.0) {
            true => Ok(block),
            false => bail!(Usage(format!("--block {block}: it is a power of two from 512 bytes to 1 MiB"))),
        }
    }

    /// The device of the structure of bfs, if it is named.
    pub fn structure_target(&self) -> Option<&Target> {
        match &self.structure {
            Some(Structure::On(target)) => Some(target),
            _ => None,
        }
    }

    /// What is searched, and how.
    fn search_options(&self) -> Result<SearchOptions> {
        let kind = match self.structure {
            Some(Structure::Searched(kind)) => kind,
            _ => SearchKind::Tree,
        };
        Ok(SearchOptions {
            elements: self.input.elements()?,
            record: self.input.record(),
            kind,
            queries: self.queries.unwrap_or(QUERIES),
            in_flight: self.in_flight,
            block: self.block,
            placement: SequencePlacement::ONE,
            seed: self.machine.seed,
        })
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
