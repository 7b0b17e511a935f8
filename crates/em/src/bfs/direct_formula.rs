//! What the levels of a search move that reads each list where it lies: Munagala and Ranade's, and the semi-external one.
//!
//! # Model
//! The nodes of a level are read in ascending order, each with two offsets and its list. A block that consecutive reads
//! share is read once. So the reads follow from the graph and from the level of each node.

use flashlab_base::Bytes;

use crate::graph::GraphSource;

use super::frontier::LevelShape;

/// The blocks of one array that a level reads.
#[derive(Clone, Copy, Default)]
struct Touched {
    ends: Option<(u64, u64)>,
    blocks: u64,
}

impl Touched {
    /// Reads the blocks `first` to `last`, which are not before those read so far.
    fn read(&mut self, first: u64, last: u64) {
        let begin = self.ends.map_or(first, |ends| ends.0);
        let is_shared = self.ends.is_some_and(|ends| ends.1 == first);
        self.blocks += last - first + u64::from(!is_shared);
        self.ends = Some((begin, last));
    }
}

/// What each level moves, when the textbook's search gives the nodes these levels. `visited_bits`: a bit for each node keeps
/// what was visited from being collected.
pub fn direct_shape(
    graph: &impl GraphSource,
    levels: &[Option<u32>],
    block: Bytes,
    visited_bits: bool,
) -> Vec<LevelShape> {
    let depth = levels.iter().flatten().max().map_or(0, |&last| last as usize + 1);
    let mut shape = vec![LevelShape::default(); depth];
    let mut touched = vec![[Touched::default(); 2]; depth];
    let (mut list, mut from) = (Vec::new(), 0u64);
    for (node, level) in levels.iter().enumerate() {
        list.clear();
        graph.neighbours(node as u32, &mut list);
        let to = from + list.len() as u64;
        if let Some(level) = level.map(|level| level as usize) {
            let [offsets, targets] = &mut touched[level];
            offsets.read(8 * node as u64 / block.0, 8 * (node as u64 + 1) / block.0);
            if to > from {
                targets.read(4 * from / block.0, 4 * (to - 1) / block.0);
            }
            shape[level].nodes += 1.0;
            shape[level].arcs += list.len() as f64;
        }
        from = to;
    }
    // The block that a level read last is still in memory when the next level begins.
    let mut held = [None; 2];
    for (level, arrays) in shape.iter_mut().zip(touched) {
        for (array, held) in arrays.into_iter().zip(&mut held) {
            let Some((first, last)) = array.ends else { continue };
            level.cluster_blocks += (array.blocks - u64::from(*held == Some(first))) as f64;
            *held = Some(last);
        }
    }
    if visited_bits {
        for level in 0..depth {
            shape[level].arcs = shape.get(level + 1).map_or(0.0, |next| next.nodes);
        }
    }
    shape
}
