//! The graph file: compressed adjacency arrays on disk, version 1.
//!
//! # Model
//! All numbers are little-endian.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0..8 | the magic `FLGRAPH` and a zero |
//! | 8..12 | the version, 1 |
//! | 12..16 | CRC-32 of the 32 bytes from byte 16 |
//! | 16..24 | the number of nodes, n |
//! | 24..32 | the number of arcs, a: twice the number of edges |
//! | 32..40 | the seed that the graph was generated from, or 0 |
//! | 40..48 | CRC-32 of everything behind the header in the lower half, 0 in the upper |
//! | 48..64 | zeros |
//! | 64..64 + 8 (n + 1) | the offsets, as counts of arcs: the list of node i is from offset i to offset i + 1 |
//! | then 4 a bytes | the neighbours, list after list, each list ascending |
//!
//! # Invariants
//! - Nothing panics on any bytes. What is wrong is reported with its byte.
//! - A graph that [`GraphFile::parse`] returns is undirected: it has an arc back for each arc.

use flashlab_base::{Bytes, Seed};
use thiserror::Error;

use super::arrays::OffsetsError;
use super::{AdjacencyArrays, GraphSource, MAX_NODES};

/// The version of the graph file that this program writes.
pub const GRAPH_FILE_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"FLGRAPH\0";
const HEADER: usize = 64;

/// Why a file is not a graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GraphFileError {
    /// It does not begin with the magic.
    #[error("it does not begin with `FLGRAPH`: it is not a graph file of flashlab")]
    Magic,
    /// Its version is another one.
    #[error("its version is {0}, and this program reads version {GRAPH_FILE_VERSION}")]
    Version(u32),
    /// Its header's checksum is wrong.
    #[error("the checksum of its header (bytes 16 to 48) is wrong: the file is damaged")]
    Header,
    /// It has more nodes or arcs than a graph may have.
    #[error(
        "it claims {nodes} nodes and {arcs} arcs; a graph has at most {MAX_NODES} nodes and as many arcs each"
    )]
    TooLarge {
        /// The nodes of the header.
        nodes: u64,
        /// The arcs of the header.
        arcs: u64,
    },
    /// It is shorter than its header says.
    #[error("it ends in the {part}, which its header says has {expected} bytes: the file is cut off")]
    Truncated {
        /// Offsets or neighbours.
        part: &'static str,
        /// The bytes that the header says.
        expected: u64,
    },
    /// It is longer than its header says.
    #[error("bytes follow the last neighbour: the header's counts are wrong, or the file is not one graph")]
    Trailing,
    /// An offset is below the one before it, or they do not go from 0 to the number of arcs.
    #[error(
        "the offset of node {node} (byte {byte}) is {found}: it is below the one before it or beyond the arcs"
    )]
    Offset {
        /// The node.
        node: u64,
        /// Where in the file.
        byte: u64,
        /// The offset.
        found: u64,
    },
    /// A neighbour is no node, is the node itself, or is not above the one before it.
    #[error(
        "node {node} has the neighbour {found} (byte {byte}): it is no node, the node itself, or out of order"
    )]
    Neighbour {
        /// The node.
        node: u64,
        /// Where in the file.
        byte: u64,
        /// The neighbour.
        found: u32,
    },
    /// An arc has no arc back.
    #[error("node {from} has the neighbour {to}, which does not have {from}: the graph is directed")]
    Directed {
        /// Where the arc begins.
        from: u32,
        /// Where it ends.
        to: u32,
    },
    /// The checksum of the content is wrong.
    #[error("the checksum of its offsets and neighbours is wrong: the file is damaged")]
    Content,
}

/// A graph that was read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphFile {
    /// The graph.
    pub graph: AdjacencyArrays,
    /// The seed that it was generated from; 0 of a graph that was not.
    pub seed: Seed,
}

impl GraphFile {
    /// Reads a graph from the bytes of its file, and checks all of it.
    ///
    /// # Errors
    /// When the bytes are no graph.
    pub fn parse(bytes: &[u8]) -> Result<GraphFile, GraphFileError> {
        let header = Header::parse(bytes)?;
        let content = &bytes[HEADER..];
        let (offsets, after) = numbers(content, header.nodes + 1, "offsets", u64::from_le_bytes)?;
        let (targets, after) = numbers(after, header.arcs, "neighbours", u32::from_le_bytes)?;
        if !after.is_empty() {
            return Err(GraphFileError::Trailing);
        }
        // What a list holds says more than that a checksum is wrong, so it is checked first.
        let graph = AdjacencyArrays::checked(offsets, targets).map_err(|wrong| header.locate(wrong))?;
        match crc32fast::hash(content) == header.content {
            true => Ok(GraphFile { graph, seed: header.seed }),
            false => Err(GraphFileError::Content),
        }
    }
}

/// The size of a graph's file.
pub fn graph_file_size(graph: &impl GraphSource) -> Bytes {
    let offsets = u64::from(graph.nodes()) + 1;
    Bytes(HEADER as u64 + 8 * offsets + 4 * graph.arcs())
}

/// Shows the bytes of a graph's file to `write`, in order. The graph is visited four times: its checksum stands before it,
/// and its offsets before its neighbours.
///
/// # Errors
/// The first error of `write`.
pub fn write_graph<E>(
    graph: &impl GraphSource,
    seed: Seed,
    mut write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut crc = crc32fast::Hasher::new();
    content(graph, |bytes| {
        crc.update(bytes);
        Ok(())
    })?;
    let header = Header { nodes: graph.nodes().into(), arcs: graph.arcs(), seed, content: crc.finalize() };
    write(&header.bytes())?;
    content(graph, write)
}

/// Shows the bytes behind the header, in order.
fn content<E>(graph: &impl GraphSource, mut see: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut list = Vec::new();
    let mut offset = 0u64;
    see(&offset.to_le_bytes())?;
    for node in 0..graph.nodes() {
        list.clear();
        graph.neighbours(node, &mut list);
        offset += list.len() as u64;
        see(&offset.to_le_bytes())?;
    }
    for node in 0..graph.nodes() {
        list.clear();
        graph.neighbours(node, &mut list);
        for target in &list {
            see(&target.to_le_bytes())?;
        }
    }
    Ok(())
}

struct Header {
    nodes: u64,
    arcs: u64,
    seed: Seed,
    content: u32,
}

impl Header {
    fn parse(file: &[u8]) -> Result<Header, GraphFileError> {
        let mut bytes = [0; HEADER];
        let length = file.len().min(HEADER);
        bytes[..length].copy_from_slice(&file[..length]);
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes[..8] != MAGIC {
            return Err(GraphFileError::Magic);
        }
        if half(8) != GRAPH_FILE_VERSION {
            return Err(GraphFileError::Version(half(8)));
        }
        if length < HEADER {
            return Err(GraphFileError::Truncated { part: "header", expected: HEADER as u64 });
        }
        let zeros = half(44) == 0 && number(48) == 0 && number(56) == 0;
        if crc32fast::hash(&bytes[16..48]) != half(12) || !zeros {
            return Err(GraphFileError::Header);
        }
        let (nodes, arcs) = (number(16), number(24));
        if nodes > MAX_NODES || arcs > nodes.saturating_mul(nodes) {
            return Err(GraphFileError::TooLarge { nodes, arcs });
        }
        Ok(Header { nodes, arcs, seed: Seed(number(32)), content: half(40) })
    }

    fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&GRAPH_FILE_VERSION.to_le_bytes());
        for (at, number) in [(16, self.nodes), (24, self.arcs), (32, self.seed.0), (40, self.content.into())]
        {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[16..48]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Says where in the file a list is wrong.
    fn locate(&self, wrong: OffsetsError) -> GraphFileError {
        let targets = HEADER as u64 + 8 * (self.nodes + 1);
        match wrong {
            OffsetsError::Offset { node, found } => {
                GraphFileError::Offset { node, byte: HEADER as u64 + 8 * node, found }
            }
            OffsetsError::Neighbour { node, arc, found } => {
                GraphFileError::Neighbour { node, byte: targets + 4 * arc, found }
            }
            OffsetsError::Directed { from, to } => GraphFileError::Directed { from, to },
        }
    }
}

/// The first `count` numbers of these bytes, and the bytes behind them. Memory is taken only for numbers that are there.
fn numbers<'b, T, const N: usize>(
    bytes: &'b [u8],
    count: u64,
    part: &'static str,
    number: fn([u8; N]) -> T,
) -> Result<(Vec<T>, &'b [u8]), GraphFileError> {
    let expected = count.saturating_mul(N as u64);
    let split = usize::try_from(expected).ok().and_then(|length| bytes.split_at_checked(length));
    let Some((array, after)) = split else {
        return Err(GraphFileError::Truncated { part, expected });
    };
    Ok((array.as_chunks::<N>().0.iter().map(|&word| number(word)).collect(), after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::random_graph;

    fn file() -> Vec<u8> {
        written(&random_graph(50, 80, Seed(2)), Seed(2))
    }

    fn written(graph: &AdjacencyArrays, seed: Seed) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = write_graph(graph, seed, |part| {
            bytes.extend_from_slice(part);
            Ok::<(), ()>(())
        });
        assert_eq!(written, Ok(()));
        bytes
    }

    fn refused(bytes: &[u8]) -> String {
        GraphFile::parse(bytes).unwrap_err().to_string()
    }

    #[test]
    fn what_was_written_is_read() {
        let read = GraphFile::parse(&file()).unwrap();
        assert_eq!(read, GraphFile { graph: random_graph(50, 80, Seed(2)), seed: Seed(2) });
        let empty = written(&AdjacencyArrays::from_edges(0, []), Seed(0));
        assert_eq!(GraphFile::parse(&empty).unwrap().graph.nodes(), 0);
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let whole = file();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert!(GraphFile::parse(&damaged).is_err(), "byte {at}");
            assert!(GraphFile::parse(&whole[..at]).is_err(), "cut off at {at}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_where() {
        assert_eq!(refused(b"GRAPH"), "it does not begin with `FLGRAPH`: it is not a graph file of flashlab");
        let mut bytes = file();
        bytes[8] = 9;
        assert_eq!(refused(&bytes), "its version is 9, and this program reads version 1");
        let mut bytes = file();
        bytes[64 + 8 * 3 + 7] = 1;
        assert!(refused(&bytes).starts_with("the offset of node 3 (byte 88) is "), "{}", refused(&bytes));
        let mut bytes = file();
        let first = 64 + 8 * 51;
        bytes[first + 3] = 200;
        assert!(refused(&bytes).contains(&format!("(byte {first})")), "{}", refused(&bytes));
        let mut bytes = file();
        bytes.push(0);
        assert!(refused(&bytes).starts_with("bytes follow"));
        let whole = file();
        assert!(refused(&whole[..whole.len() - 1]).starts_with("it ends in the neighbours"));
    }

    #[test]
    fn a_directed_graph_is_refused() {
        let mut bytes = Vec::new();
        let one_way = AdjacencyArrays::checked(vec![0, 1, 1], vec![1]);
        assert!(matches!(one_way, Err(OffsetsError::Directed { from: 0, to: 1 })));
        // Two nodes, one arc, with right checksums.
        let mut crc = crc32fast::Hasher::new();
        let content: Vec<u8> =
            [0u64, 1, 1].iter().flat_map(|o| o.to_le_bytes()).chain(1u32.to_le_bytes()).collect();
        crc.update(&content);
        let header = Header { nodes: 2, arcs: 1, seed: Seed(0), content: crc.finalize() };
        bytes.extend(header.bytes());
        bytes.extend(content);
        assert_eq!(
            refused(&bytes),
            "node 0 has the neighbour 1, which does not have 0: the graph is directed"
        );
    }
}
