//! `flashlab em graph`: writes graph files.

use std::fs::{self, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use flashlab_base::{Bytes, Seed};
use flashlab_em::graph::{
    AdjacencyArrays, GraphSource, graph_file_size, grid_graph, parse_edge_list, write_graph,
};
use flashlab_host::ScratchFile;
use flashlab_input::InputKind;
use serde_json::json;

use super::graph_input::{checked_nodes, level_tree, random};
use super::machine::check_memory;
use crate::arguments::{self, JsonOption};
use crate::exit::Usage;
use crate::output;

/// The permissions of a graph file.
const MODE: u32 = 0o644;

/// A graph and the file that it goes to.
#[derive(Args)]
pub struct WriteGraph {
    /// The graph
    #[arg(value_enum)]
    kind: Kind,
    /// The graph file, which must not exist
    output: PathBuf,
    /// The number of nodes; a grid has at least so many, a level tree at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    nodes: Option<u64>,
    /// level-tree: the levels below its root [default: the root of the number of nodes, at most 512]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    levels: Option<u32>,
    /// random: how many edges are drawn [default: twice the number of nodes]
    #[arg(long, value_name = "N")]
    edges: Option<u64>,
    /// grid: the nodes of a row [default: the root of the number of nodes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    width: Option<u32>,
    /// edges: the text file with an edge a line
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The seed of what is drawn
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = arguments::seed)]
    seed: Seed,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A root with legs of equal length, whose nodes have random numbers: the hard case of a search
    LevelTree,
    /// Edges between random nodes
    Random,
    /// Rows and columns
    Grid,
    /// The edges of a text file, two numbers a line
    Edges,
}

impl WriteGraph {
    /// Makes the graph and writes it.
    pub fn run(self) -> Result<()> {
        let shown = self.output.display().to_string();
        if fs::symlink_metadata(&self.output).is_ok() {
            bail!(Usage(format!("{shown} exists: give the graph another name")));
        }
        self.check_options()?;
        match self.kind {
            Kind::LevelTree => self.write(&level_tree(self.nodes()?, self.levels, self.seed)?, self.seed),
            Kind::Random => self.write(&random(self.nodes()?, self.edges, self.seed)?, self.seed),
            Kind::Grid => self.write(&self.grid()?, Seed(0)),
            Kind::Edges => self.write(&self.edge_list()?, Seed(0)),
        }
    }

    /// Refuses options of other graphs, which would be without effect.
    fn check_options(&self) -> Result<()> {
        let options = [
            ("--levels", self.levels.is_some(), self.kind == Kind::LevelTree),
            ("--edges", self.edges.is_some(), self.kind == Kind::Random),
            ("--width", self.width.is_some(), self.kind == Kind::Grid),
            ("--from", self.from.is_some(), self.kind == Kind::Edges),
            ("--nodes", self.nodes.is_some(), self.kind != Kind::Edges),
        ];
        match options.iter().find(|(_, is_given, fits)| *is_given && !fits) {
            Some((name, ..)) => bail!(Usage(format!("{name} is no option of this graph: leave it out"))),
            None => Ok(()),
        }
    }

    fn nodes(&self) -> Result<u64> {
        let missing = || Usage("--nodes N is missing: how many nodes the graph has".to_owned());
        checked_nodes(self.nodes.ok_or_else(missing)?)
    }

    fn grid(&self) -> Result<AdjacencyArrays> {
        let nodes = self.nodes()?;
        let width = self.width.unwrap_or((nodes.isqrt() as u32).max(1));
        check_memory(Bytes(nodes.saturating_mul(48)), "--nodes")?;
        let height = u32::try_from(nodes.div_ceil(u64::from(width))).ok();
        let grid = height.and_then(|height| grid_graph(width, height));
        let too_large =
            || Usage(format!("a grid of {nodes} nodes in rows of {width} is too large: take fewer"));
        grid.ok_or_else(|| too_large().into())
    }

    fn edge_list(&self) -> Result<AdjacencyArrays> {
        let Some(from) = &self.from else {
            bail!(Usage("--from FILE is missing: the text file with an edge a line".to_owned()));
        };
        let shown = from.display();
        let unreadable = |error| Usage(format!("cannot read the edges {shown}: {error}"));
        let mut head = Vec::new();
        let file = flashlab_input::open(from).map_err(unreadable)?;
        let length = Bytes(file.metadata().map_err(unreadable)?.len());
        file.take(4096).read_to_end(&mut head).map_err(unreadable)?;
        if head.contains(&0) {
            bail!(Usage(format!("{shown} is no text with an edge a line: it contains a byte of 0")));
        }
        // An edge of four bytes becomes two arcs of eight, sorted in place.
        check_memory(Bytes(length.0.saturating_mul(6)), "edges")?;
        let kind = InputKind { name: "list of edges that fits into memory", largest: length };
        let text = flashlab_input::read(from, kind).map_err(unreadable)?;
        let memory = flashlab_host::available_memory().unwrap_or(Bytes::gib(4));
        parse_edge_list(&text, memory).map_err(|error| Usage(format!("{shown}: {error}")).into())
    }

    /// Writes a file without a name, which gets its name when it is complete.
    fn write(&self, graph: &impl GraphSource, seed: Seed) -> Result<()> {
        let output = self.output.display();
        let Some(name) = self.output.file_name().and_then(|name| name.to_str()) else {
            bail!(Usage(format!("{output} is no name of a file")));
        };
        let parent = self.output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new("."));
        if !directory.is_dir() {
            bail!(Usage(format!("{} is no directory: make it first", directory.display())));
        }
        let size = graph_file_size(graph);
        let scratch = ScratchFile::allocate(directory, size)?;
        let failed = || format!("cannot write {output}; nothing is left of it");
        let file = OpenOptions::new().write(true).open(scratch.path()).with_context(failed)?;
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        write_graph(graph, seed, |bytes| writer.write_all(bytes)).with_context(failed)?;
        writer.flush().with_context(failed)?;
        scratch.complete(size, MODE)?;
        let kept = scratch.keep(name)?;
        let (nodes, edges) = (graph.nodes(), graph.arcs() / 2);
        if self.json.json {
            return output::json(&json!({
                "version": 1, "output": kept.display().to_string(), "nodes": nodes, "edges": edges, "bytes": size.0,
            }));
        }
        let kept = kept.display();
        output::text(&format!(
            "{kept}: {nodes} nodes, {edges} edges, {size}; search it with: flashlab em run bfs --graph {kept}\n"
        ))
    }
}
