//! Edge lists: texts with an edge a line, as most collections of graphs have them.
//!
//! # Model
//! A line has the numbers of two nodes, separated by blanks, tabs, a comma or a semicolon; what follows them, as a weight or
//! a time, is left out. Lines that begin with `#` or `%` and empty lines are comments (the forms of SNAP and of KONECT).
//! Edges have no direction; loops and repetitions are left out.

use flashlab_base::Bytes;
use thiserror::Error;

use super::arrays::AdjacencyArrays;

/// Why a text is no edge list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EdgeListError {
    /// A line is no edge.
    #[error("line {line} is `{found}`: an edge is the numbers of two nodes, each from 0 to 4294967293")]
    Line {
        /// The line, from 1.
        line: u64,
        /// Its beginning.
        found: String,
    },
    /// The graph has all nodes up to the largest number, and takes more memory than there is.
    #[error(
        "line {line} names the node {node}: the nodes up to it take {needed} of memory, and {memory} are there; number the \
         nodes from 0 without gaps"
    )]
    Memory {
        /// The line, from 1.
        line: u64,
        /// The node.
        node: u32,
        /// What the offsets of the nodes take.
        needed: Bytes,
        /// What there is.
        memory: Bytes,
    },
}

/// The largest number of a node, so that the number of nodes is below the number that no node has.
const NODE_MAX: u32 = u32::MAX - 2;
/// The offset of a node's list.
const OFFSET: Bytes = Bytes(8);
/// How much of a wrong line is shown.
const SHOWN: usize = 40;

/// The graph of an edge list. It has the nodes 0 to the largest number in the list, which take at most `memory`.
///
/// # Errors
/// [`EdgeListError`] for the first line that is no edge, or that names a node beyond the memory.
pub fn parse_edge_list(text: &[u8], memory: Bytes) -> Result<AdjacencyArrays, EdgeListError> {
    let (mut edges, mut nodes) = (Vec::new(), 0);
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"%") {
            continue;
        }
        let Some((a, b)) = edge(line) else {
            let found = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).escape_debug().to_string();
            return Err(EdgeListError::Line { line: index as u64 + 1, found });
        };
        let (line, node) = (index as u64 + 1, a.max(b));
        let needed = OFFSET * (u64::from(node) + 2);
        if needed > memory {
            return Err(EdgeListError::Memory { line, node, needed, memory });
        }
        nodes = nodes.max(node + 1);
        edges.push((a, b));
    }
    Ok(AdjacencyArrays::from_edges(nodes, edges))
}

fn edge(line: &[u8]) -> Option<(u32, u32)> {
    let is_separator = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';');
    let mut words = line.split(is_separator).filter(|word| !word.is_empty());
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
        let text = b"# a comment\n% another\n\n0 1\n1\t2\r\n2,3;0.5\n3 3\n1 0\n";
        let graph = parse_edge_list(text, Bytes::mib(1)).unwrap();
        assert_eq!((graph.nodes(), graph.arcs()), (4, 6));
        assert_eq!(graph.of(1), [0, 2]);
        assert_eq!(parse_edge_list(b"", Bytes(0)).unwrap().nodes(), 0);
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
