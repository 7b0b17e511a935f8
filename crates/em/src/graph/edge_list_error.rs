//! Why a text is no graph: the errors of edge lists, METIS and MatrixMarket.

use flashlab_base::Bytes;
use thiserror::Error;

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
    /// A line has other fields than the lines before.
    #[error(
        "line {line} has {found} fields, and the first line has {first}: in an edge list all have as many; a METIS graph has the numbers \
         of nodes and edges, then a line for each node, with each edge in the lines of both its nodes, which this text does not have"
    )]
    Length {
        /// The line, from 1.
        line: u64,
        /// Its fields.
        found: usize,
        /// Those of the first line.
        first: usize,
    },
    /// The first line may be an edge, or the counts of the others.
    #[error(
        "line {line} is `{found}`, and {others} lines follow, whose largest node is {largest}: if it has the numbers of nodes and \
         edges, remove it; if it is an edge, put it at the end"
    )]
    Counts {
        /// The line, from 1.
        line: u64,
        /// Its beginning.
        found: String,
        /// How many others there are.
        others: usize,
        /// The largest node of the others.
        largest: u32,
    },
    /// A line breaks the format of METIS or MatrixMarket.
    #[error("line {line}: {reason}")]
    Format {
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
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
pub(super) const NODE_MAX: u32 = u32::MAX - 2;
