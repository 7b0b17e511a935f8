//! Graphs as texts: with an edge a line, as most collections have them, or as METIS and MatrixMarket write them.
//!
//! # Model
//! What a text is follows from its banner, or from whether its first line counts its lines and numbers (`interchange.rs`). All
//! others are edge lists, in which all lines have the same number of fields. A line has the numbers of two nodes, separated by blanks,
//! tabs, a comma or a semicolon; what follows them, as a weight or a time, is left out. Lines that begin with `#` or `%` and empty lines are comments (the forms of SNAP and of KONECT).
//! Edges have no direction; loops and repetitions are left out.

use flashlab_base::Bytes;

use super::arrays::AdjacencyArrays;
use super::edge_list_error::{EdgeListError, NODE_MAX};
use super::interchange::{self, Edges};

/// The offset of a node's list.
const OFFSET: Bytes = Bytes(8);
/// How much of a wrong line is shown.
const SHOWN: usize = 40;

/// The graph of a text. An edge list has the nodes 0 to its largest number, which take at most `memory`.
///
/// # Errors
/// [`EdgeListError`] for the first line that breaks the format, or that names a node beyond the memory.
pub fn parse_edge_list(text: &[u8], memory: Bytes) -> Result<AdjacencyArrays, EdgeListError> {
    let Edges { nodes, edges } = match () {
        () if interchange::is_matrix_market(text) => interchange::matrix_market(text)?,
        // An edge list behind its counts may have the same number of lines and numbers.
        () if interchange::is_metis(text) => {
            interchange::metis(text).map_err(|error| match edges(text, memory) {
                Err(counts @ EdgeListError::Counts { .. }) => counts,
                _ => error,
            })?
        }
        () => edges(text, memory)?,
    };
    check_memory(1, nodes.saturating_sub(1), memory)?;
    Ok(AdjacencyArrays::from_edges(nodes, edges))
}

fn check_memory(line: u64, node: u32, memory: Bytes) -> Result<(), EdgeListError> {
    let needed = OFFSET * (u64::from(node) + 2);
    if node > 0 && needed > memory {
        Err(EdgeListError::Memory { line, node, needed, memory })
    } else {
        Ok(())
    }
}

/// The edges of an edge list.
fn edges(text: &[u8], memory: Bytes) -> Result<Edges, EdgeListError> {
    let (mut edges, mut nodes, mut first, mut first_line) = (Vec::new(), 0, None, (0, &b""[..]));
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let (line, index) = (line.trim_ascii(), index as u64 + 1);
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"%") {
            continue;
        }
        let Some((a, b)) = edge(line) else {
            return Err(EdgeListError::Line { line: index, found: shown(line) });
        };
        let found = fields(line).count();
        if first.is_none() {
            (first, first_line) = (Some(found), (index, line));
        }
        if let Some(first) = first.filter(|&first| first != found) {
            return Err(EdgeListError::Length { line: index, found, first });
        }
        check_memory(index, a.max(b), memory)?;
        nodes = nodes.max(a.max(b) + 1);
        edges.push((a, b));
    }
    check_counts(&edges, first_line)?;
    Ok(Edges { nodes, edges })
}

/// Refuses a list whose first line may be its counts: nodes and edges, edges and nodes as hMETIS has them, or the rows, columns and
/// entries of a matrix without its banner.
fn check_counts(edges: &[(u32, u32)], (line, text): (u64, &[u8])) -> Result<(), EdgeListError> {
    let [first, others @ ..] = edges else { return Ok(()) };
    let (a, b) = *first;
    let largest = others.iter().map(|(a, b)| *a.max(b)).max().unwrap_or(0);
    let is_nodes = |count: u32| count == largest || count == largest + 1;
    let is_edges = |count: u64| count == others.len() as u64 && count > 1;
    let is_count = match fields(text).nth(2) {
        None => is_nodes(a) && is_edges(b.into()) || is_nodes(b) && is_edges(a.into()),
        Some(third) => is_nodes(a) && is_nodes(b) && whole_number(third).is_some_and(is_edges),
    };
    match is_count {
        true => Err(EdgeListError::Counts { line, found: shown(text), others: others.len(), largest }),
        false => Ok(()),
    }
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).escape_debug().to_string()
}

fn whole_number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_separator = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';');
    line.split(is_separator).filter(|word| !word.is_empty())
}

fn edge(line: &[u8]) -> Option<(u32, u32)> {
    let mut words = fields(line);
    let mut node = || -> Option<u32> {
        let node = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        (node <= NODE_MAX).then_some(node)
    };
    Some((node()?, node()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphSource;

    #[test]
    fn edges_are_read_in_the_usual_forms() {
        let text = b"# a comment\n% another\n\n0 1 7\n1\t2\t8\r\n2,3;0.5\n3 3 1\n1 0 1\n";
        let graph = parse_edge_list(text, Bytes::mib(1)).unwrap();
        assert_eq!((graph.nodes(), graph.arcs()), (4, 6));
        assert_eq!(graph.of(1), [0, 2]);
        assert_eq!(parse_edge_list(b"", Bytes(0)).unwrap().nodes(), 0);
    }

    #[test]
    fn metis_and_matrix_market_are_read() {
        let lists = |text: &str| {
            let graph = parse_edge_list(text.as_bytes(), Bytes::mib(1))
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            (0..graph.nodes()).map(|node| graph.of(node).to_vec()).collect::<Vec<_>>()
        };
        let k4 = vec![vec![1, 2, 3], vec![0, 2, 3], vec![0, 1, 3], vec![0, 1, 2]];
        assert_eq!(lists("4 6\n2 3 4\n1 3 4\n1 2 4\n1 2 3\n"), k4);
        // The manual's graphs with weights of edges (fmt 001), and with two weights and a size of nodes (fmt 111).
        assert_eq!(lists("% c\n4 6 001\n2 1 3 1 4 9\n1 1 3 1 4 2\n1 1 2 1 4 2\n1 9 2 2 3 2"), k4);
        assert_eq!(lists("2 1 111 2\n5 1 2 2 7\n5 3 4 1 7\n\n"), [vec![1], vec![0]]);
        // A node without neighbours has an empty line.
        assert_eq!(lists("3 1\n3\n\n1\n"), [vec![2], vec![], vec![0]]);
        let banner = "%%MatrixMarket matrix coordinate";
        assert_eq!(
            lists(&format!("{banner} pattern symmetric\n% c\n3 3 2\n2 1\n3 1\n")),
            [vec![1, 2], vec![0], vec![0]]
        );
        // networkrepository.com writes one `%`, and the standard allows any case.
        assert_eq!(
            lists("%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 5\n3 1 2\n"),
            [vec![1, 2], vec![0], vec![0]]
        );
        assert_eq!(
            lists("%%matrixmarket MATRIX coordinate pattern general\n2 2 1\n2 1\n"),
            [vec![1], vec![0]]
        );
        assert_eq!(lists(&format!("{banner} real general\n3 3 1\n3 1 0.5\n")), [vec![2], vec![], vec![0]]);
    }

    #[test]
    fn what_has_another_length_or_other_counts_is_no_edge_list() {
        let refused = |text: &str| parse_edge_list(text.as_bytes(), Bytes::mib(1)).unwrap_err().to_string();
        assert!(refused("4 6\n2 3 4\n1 3 4\n").starts_with("line 2 has 3 fields, and the first line has 2"));
        assert!(refused("0 1\n1 2\n2 3 4\n").starts_with("line 3 has 3 fields"));
        assert!(
            refused("3 2\n1 2\n2 3\n")
                .starts_with("line 1 is `3 2`, and 2 lines follow, whose largest node is 3")
        );
        // hMETIS has the number of edges first, and a matrix may have lost its banner.
        for text in ["3 4\n1 2\n2 3\n3 4\n", "3 3 2\n2 1 5\n3 1 2\n"] {
            assert!(refused(text).contains("lines follow, whose largest node is"), "{text}");
        }
        assert!(refused("% 3 3 2\n2 1 5\n3 1\n").starts_with("line 3 has 2 fields"));
        let banner = "%%MatrixMarket matrix";
        assert!(
            refused(&format!("{banner} array real general\n2 2\n"))
                .starts_with("line 1: it is no matrix of coordinates")
        );
        assert!(
            refused(&format!("{banner} coordinate pattern general\n2 3 1\n1 1\n"))
                .contains("2 rows and 3 columns")
        );
        assert!(
            refused(&format!("{banner} coordinate pattern general\n2 2 2\n1 1\n"))
                .contains("announces 2 entries, and 1 follow")
        );
        assert!(
            refused(&format!("{banner} coordinate pattern general\n2 2 1\n1 3\n"))
                .starts_with("line 3: `3` is no node")
        );
        assert!(refused("4 2\n2 3\n1\n4\n\n").contains("node 1 has the neighbour 3, which does not have 1"));
        assert!(refused("2 1\n1\n2\n").contains("node 1 is its own neighbour"));
    }

    #[test]
    fn a_line_that_is_no_edge_is_named() {
        let refused = |text: &[u8]| parse_edge_list(text, Bytes::mib(1)).unwrap_err().to_string();
        assert_eq!(
            refused(b"0 1\n1 x\n"),
            "line 2 is `1 x`: an edge is the numbers of two nodes, each from 0 to 4294967293"
        );
        assert_eq!(
            refused(b"0 1\n2 4294967293"),
            "line 2 names the node 4294967293: the nodes up to it take 32.0 GiB of memory, and 1 MiB are there; number the \
             nodes from 0 without gaps"
        );
        assert!(refused(b"7").starts_with("line 1 is `7`"));
        assert!(refused(b"0 4294967294").starts_with("line 1 is "));
        assert!(refused(b"-1 2").starts_with("line 1 is "));
        assert!(refused(&[b'0', b' ', 0xFF, b'\n']).starts_with("line 1 is "));
    }
}
