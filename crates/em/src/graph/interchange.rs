//! Graphs as METIS and MatrixMarket write them.
//!
//! # Model
//! - METIS (manual of version 5.1, section 4.1.1): a line with the numbers of nodes and edges, the format and the number of weights;
//!   then a line for each node with its neighbours, numbered from 1, each edge in both lines. `fmt` says whether sizes, weights
//!   of nodes, and weights of edges are between them. Lines that begin with `%` are comments.
//! - MatrixMarket (Boisvert, Pozo and Remington, NISTIR 5935): a banner, comments, a line with rows, columns and entries, then a line for
//!   each entry with its row and column, numbered from 1. A graph is a square matrix; an entry is an edge without direction.

use super::edge_list_error::{EdgeListError, NODE_MAX};

/// The first word of a MatrixMarket file. The collection networkrepository.com writes it with one `%`.
const BANNER: &[u8] = b"%MatrixMarket";

/// Whether a text begins with the banner of MatrixMarket.
pub(super) fn is_matrix_market(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"%").filter(|text| text.starts_with(b"%")).unwrap_or(text);
    text.get(..BANNER.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(BANNER))
}

/// Edges between nodes from 0, and the number of nodes.
pub(super) struct Edges {
    pub nodes: u32,
    pub edges: Vec<(u32, u32)>,
}

fn wrong(line: u64, reason: String) -> EdgeListError {
    EdgeListError::Format { line, reason }
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The node of a number that counts from 1.
fn node(word: &[u8], nodes: u32, line: u64) -> Result<u32, EdgeListError> {
    match number::<u32>(word) {
        Some(found @ 1..) if found <= nodes => Ok(found - 1),
        _ => Err(wrong(line, format!("`{}` is no node from 1 to {nodes}", String::from_utf8_lossy(word)))),
    }
}

/// The header of a METIS file.
struct MetisHeader {
    nodes: u64,
    edges: u64,
    /// The numbers of a line before its neighbours: a size, and weights.
    before: u64,
    has_edge_weights: bool,
}

impl MetisHeader {
    fn of(line: &[u8]) -> Option<MetisHeader> {
        let words: Vec<&[u8]> = words(line).collect();
        if !(2..=4).contains(&words.len()) {
            return None;
        }
        let (nodes, edges) = (number(words[0])?, number(words[1])?);
        let format: u32 = words.get(2).map_or(Some(0), |word| number(word))?;
        let weights: u64 = words.get(3).map_or(Some(1), |word| number(word))?;
        let [sizes, weighted, has_edge_weights] =
            [format / 100, format / 10 % 10, format % 10].map(|digit| digit == 1);
        let is_format = [format / 100, format / 10 % 10, format % 10].iter().all(|&digit| digit <= 1);
        let before = u64::from(sizes) + if weighted { weights } else { 0 };
        is_format.then_some(MetisHeader { nodes, edges, before, has_edge_weights })
    }

    fn numbers(&self) -> u64 {
        let of_edges = self.edges.saturating_mul(if self.has_edge_weights { 4 } else { 2 });
        self.nodes.saturating_mul(self.before).saturating_add(of_edges)
    }
}

/// The lines that are no comments, with their numbers; empty ones are those of nodes without neighbours.
fn metis_lines(text: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let lines = text.split(|&byte| byte == b'\n').zip(1u64..).map(|(line, index)| (index, line.trim_ascii()));
    lines.filter(|(_, line)| !line.starts_with(b"%"))
}

/// Whether a text is a graph of METIS: its first line has the number of its lines and numbers.
pub(super) fn is_metis(text: &[u8]) -> bool {
    let mut lines = metis_lines(text).skip_while(|(_, line)| line.is_empty());
    let Some(header) = lines.next().and_then(|(_, line)| MetisHeader::of(line)) else { return false };
    let (mut last, mut all, mut count) = (0, 0_u64, 0_u64);
    for (_, line) in lines {
        count += 1;
        let found = words(line).count() as u64;
        all += found;
        last = if found > 0 { count } else { last };
    }
    last <= header.nodes && count >= header.nodes.saturating_sub(1) && all == header.numbers()
}

/// Reads a graph of METIS.
pub(super) fn metis(text: &[u8]) -> Result<Edges, EdgeListError> {
    let mut lines = metis_lines(text).skip_while(|(_, line)| line.is_empty());
    let Some((first, header)) = lines.next().and_then(|(index, line)| Some((index, MetisHeader::of(line)?)))
    else {
        return Err(wrong(1, "it has no line with the numbers of nodes and edges".to_owned()));
    };
    let nodes = u32::try_from(header.nodes).ok().filter(|&nodes| nodes <= NODE_MAX);
    let nodes =
        nodes.ok_or_else(|| wrong(first, format!("{} nodes are more than a graph has", header.nodes)))?;
    let mut arcs = Vec::new();
    for ((index, line), from) in lines.zip(0..nodes) {
        let mut words = words(line).skip(header.before as usize);
        while let Some(word) = words.next() {
            let to = node(word, nodes, index)?;
            if to == from {
                return Err(wrong(index, format!("node {} is its own neighbour", from + 1)));
            }
            arcs.push((from, to));
            if header.has_edge_weights && words.next().is_none() {
                return Err(wrong(index, "the last edge has no weight".to_owned()));
            }
        }
    }
    // Each edge is in the line of both of its nodes.
    arcs.sort_unstable();
    for &(from, to) in &arcs {
        if arcs.binary_search(&(to, from)).is_err() {
            let (from, to) = (from + 1, to + 1);
            return Err(wrong(
                first,
                format!("node {from} has the neighbour {to}, which does not have {from}"),
            ));
        }
    }
    Ok(Edges { nodes, edges: arcs })
}

/// Reads a graph of MatrixMarket.
pub(super) fn matrix_market(text: &[u8]) -> Result<Edges, EdgeListError> {
    let mut lines =
        text.split(|&byte| byte == b'\n').zip(1u64..).map(|(line, index)| (index, line.trim_ascii()));
    let banner = lines.next().map(|(_, line)| line.to_ascii_lowercase()).unwrap_or_default();
    let banner: Vec<&[u8]> = words(&banner).collect();
    let entry_length = match banner[..] {
        [_, b"matrix", b"coordinate", b"pattern", _] => 2,
        [_, b"matrix", b"coordinate", b"real" | b"integer", _] => 3,
        [_, b"matrix", b"coordinate", b"complex", _] => 4,
        _ => {
            return Err(wrong(
                1,
                "it is no matrix of coordinates (`%%MatrixMarket matrix coordinate pattern symmetric`), and only its entries are edges"
                    .to_owned(),
            ));
        }
    };
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"%"));
    let size =
        lines.next().map(|(index, line)| (index, words(line).map(number::<u64>).collect::<Option<Vec<_>>>()));
    let Some((index, Some(counts))) = size else {
        return Err(wrong(1, "it has no line with the numbers of rows, columns and entries".to_owned()));
    };
    let [rows, columns, entries] = counts[..] else {
        return Err(wrong(index, "it has other counts than rows, columns and entries".to_owned()));
    };
    let nodes = u32::try_from(rows).ok().filter(|&nodes| nodes <= NODE_MAX && rows == columns);
    let nodes = nodes.ok_or_else(|| {
        wrong(
            index,
            format!("a matrix of {rows} rows and {columns} columns is no graph, which has as many of both"),
        )
    })?;
    let mut edges = Vec::new();
    for (index, line) in lines {
        let words: Vec<&[u8]> = words(line).collect();
        if words.len() != entry_length {
            return Err(wrong(
                index,
                format!("it has {} numbers, and an entry has {entry_length}", words.len()),
            ));
        }
        edges.push((node(words[0], nodes, index)?, node(words[1], nodes, index)?));
    }
    match edges.len() as u64 == entries {
        true => Ok(Edges { nodes, edges }),
        false => Err(wrong(index, format!("it announces {entries} entries, and {} follow", edges.len()))),
    }
}
