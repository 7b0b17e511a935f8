//! How many IOs Mehlhorn and Meyer's second phase needs, as a formula.
//!
//! # Model
//! The IOs of a level follow from what it moves ([`LevelShape`]): the pool is read and what stays is written in blocks of S;
//! clusters are read in blocks of B. [`search_ios`] adds them up. [`level_tree_shape`] computes what the levels of a level
//! tree move, as expected values over the draw of the masters:
//! - On a leg, a node belongs to the nearest master; the root is a master. A cluster is the cell between two midpoints.
//! - At level t a cell that contains node t of the leg has been loaded, and its nodes beyond t wait in the pool.
//! - The cell that begins at node t is loaded at level t.
//!
//! # Invariant
//! - Only the first phase's draw is random, so that the formula and a search differ by sampling alone.

use std::collections::BTreeMap;

use flashlab_base::{Bytes, Mode};

use crate::graph::{GraphSource, LevelTree};

use super::Shares;
use super::frontier::LevelShape;

/// The size of an arc in the pool and in clusters.
const ARC: f64 = 16.0;
/// The size of a node with its level.
const NODE: f64 = 8.0;

/// The IOs of a search, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchIos {
    /// Random reads of clusters.
    pub cluster_reads: f64,
    /// Their bytes.
    pub cluster_bytes: f64,
    /// Reads of the pool.
    pub pool_reads: f64,
    /// Their bytes.
    pub pool_read_bytes: f64,
    /// Writes of the pool and of the levels.
    pub pool_writes: f64,
    /// Their bytes.
    pub pool_write_bytes: f64,
    /// Records that cost host time: read, written, collected or sorted.
    pub elements: f64,
    /// The levels, those that read most first.
    pub groups: Vec<LevelGroup>,
}

impl SearchIos {
    /// The number of IOs of a direction.
    pub fn count(&self, mode: Mode) -> f64 {
        if mode.is_write() { self.pool_writes } else { self.cluster_reads + self.pool_reads }
    }

    /// Moves a run of so many bytes on average, which is there with a probability: it is written and read once.
    fn move_run(&mut self, bytes: f64, probability: f64, block: Bytes) {
        if probability > 0.0 {
            let ios = probability * blocks(bytes / probability, block);
            self.pool_reads += ios;
            self.pool_writes += ios;
            self.pool_read_bytes += bytes;
            self.pool_write_bytes += bytes;
        }
    }

    /// Adds what a collection of `count` records writes as runs and reads `times` times, if its share is too small.
    fn spill(&mut self, count: f64, in_memory: f64, stored: f64, share: Bytes, times: f64, block: Bytes) {
        let run = (share.0 as f64 / in_memory).floor().max(1.0);
        if count <= run {
            return;
        }
        for (records, runs) in [(run, (count / run).floor()), (count % run, 1.0)] {
            let ios = runs * blocks(records * stored, block);
            self.pool_writes += ios;
            self.pool_reads += times * ios;
        }
        self.pool_write_bytes += count * stored;
        self.pool_read_bytes += times * count * stored;
        self.elements += (1.0 + times) * count;
    }
}

/// The IOs for so many bytes, in blocks of which the last is short.
fn blocks(bytes: f64, block: Bytes) -> f64 {
    if bytes <= 0.0 { 0.0 } else { (bytes / block.0 as f64).ceil() }
}

/// The sizes that the IOs of a search depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchSizes {
    /// B: a random read of the clusters.
    pub block: Bytes,
    /// S: an IO of a sequence.
    pub sequence_block: Bytes,
    /// M: the memory.
    pub memory: Bytes,
}

/// The IOs of a search whose levels move this, when `reached` nodes are written. What fits into its share of the memory
/// ([`Collection`](crate::collection::Collection)) costs none; the rest is written as runs and read once.
pub fn search_ios(shape: &[LevelShape], reached: f64, sizes: SearchSizes) -> SearchIos {
    let mut ios = SearchIos::default();
    let SearchSizes { block, sequence_block, memory } = sizes;
    let shares = Shares::of(memory);
    let nothing = LevelShape::default();
    for (index, level) in shape.iter().enumerate() {
        let next = shape.get(index + 1).unwrap_or(&nothing);
        ios.cluster_reads += level.cluster_blocks;
        ios.cluster_bytes += level.cluster_blocks * block.0 as f64;
        // What the next level reads was written by this one.
        ios.move_run(next.kept * ARC, 1.0, sequence_block);
        ios.move_run(next.loaded * ARC, level.loads, sequence_block);
        // In memory an arc takes 12 bytes; a level is read once for its lists, once more where it loads clusters, once to
        // subtract it from the next level, and once to subtract it from the one after that.
        ios.spill(level.fetched, 12.0, ARC, shares.sort, 1.0, sequence_block);
        ios.spill(level.arcs, NODE, NODE, shares.sort, 1.0, sequence_block);
        let passes = if level.clusters > 0.0 { 4.0 } else { 3.0 };
        ios.spill(level.nodes, NODE, NODE, shares.level, passes, sequence_block);
        ios.elements += 2.0 * (next.kept + next.loaded);
        ios.elements += 2.0 * level.fetched + level.arcs + 2.0 * level.nodes + level.clusters;
    }
    ios.pool_writes += blocks(reached * NODE, sequence_block);
    ios.pool_write_bytes += reached * NODE;
    ios.groups = LevelGroup::all(shape);
    ios
}

/// Levels of a search that read about the same number of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelGroup {
    /// What a level moves on average.
    pub mean: LevelShape,
    /// The number of levels.
    pub count: f64,
}

impl LevelGroup {
    /// A group for each power of two of the blocks that a level reads: a level tree begins with a large cluster, and most nodes of a
    /// random graph are in two or three levels.
    fn all(shape: &[LevelShape]) -> Vec<LevelGroup> {
        let mut groups: BTreeMap<u32, Vec<&LevelShape>> = BTreeMap::new();
        for level in shape {
            groups.entry((level.cluster_blocks as u64 + 1).ilog2()).or_default().push(level);
        }
        groups.into_values().rev().map(|levels| LevelGroup::of(&levels)).collect()
    }

    fn of(levels: &[&LevelShape]) -> LevelGroup {
        let count = levels.len() as f64;
        let mean = |of: fn(&LevelShape) -> f64| levels.iter().map(|level| of(level)).sum::<f64>() / count;
        let mean = LevelShape {
            kept: mean(|level| level.kept),
            loaded: mean(|level| level.loaded),
            clusters: mean(|level| level.clusters),
            loads: mean(|level| level.loads),
            cluster_blocks: mean(|level| level.cluster_blocks),
            fetched: mean(|level| level.fetched),
            nodes: mean(|level| level.nodes),
            arcs: mean(|level| level.arcs),
        };
        LevelGroup { mean, count }
    }
}

/// What the levels of a level tree move when clusters have `size` nodes on average and lie in blocks of `block`.
pub fn level_tree_shape(tree: &LevelTree, size: u64, block: Bytes) -> Vec<LevelShape> {
    let leg = Leg { depth: i64::from(tree.depth()), stay: 1.0 - 1.0 / size.max(1) as f64 };
    let legs = f64::from(tree.legs());
    let masters = 1.0 + (f64::from(tree.nodes()) - 1.0) / size.max(1) as f64;
    let records = tree.arcs() as f64 + masters;
    let all_blocks = (records * ARC / block.0 as f64).max(1.0);
    // A node of a leg has two arcs. The root's cluster has the root's list, too.
    let mut before = leg.cell(0);
    let root = (legs + 2.0 * legs * before.beyond) * ARC / block.0 as f64;
    let mut kept = 0.0;
    let mut loaded = 2.0 * legs * before.beyond;
    let mut shape = vec![LevelShape {
        nodes: 1.0,
        arcs: legs,
        clusters: 1.0,
        loads: 1.0,
        cluster_blocks: 1.0 + root,
        fetched: legs + loaded,
        ..LevelShape::default()
    }];
    for level in 1..=leg.depth {
        let clusters = legs * (1.0 - before.has_next);
        let now = leg.cell(level);
        // A cluster that begins here has the node itself and what waits of it.
        let fresh = (now.beyond - (before.beyond - before.has_next)).max(0.0);
        let fetched = 2.0 * (clusters + legs * fresh);
        // Clusters lie in the order of their masters' numbers, which are random: two may share a block.
        let touched = clusters + (clusters + fetched) * ARC / block.0 as f64;
        let distinct = all_blocks * (1.0 - (1.0 - 1.0 / all_blocks.max(2.0)).powf(touched));
        shape.push(LevelShape {
            kept,
            loaded,
            clusters,
            // Legs are many, and a cluster begins on few of them: a Poisson distribution.
            loads: 1.0 - (-clusters).exp(),
            cluster_blocks: distinct.min(touched),
            fetched,
            nodes: legs,
            arcs: 2.0 * legs,
        });
        let stays = before.beyond - before.has_next;
        kept = 2.0 * legs * stays;
        loaded = 2.0 * legs * fresh;
        before = now;
    }
    shape
}

/// A leg whose nodes are 1 to `depth`, and whose root, 0, is a master.
struct Leg {
    depth: i64,
    /// The probability that a node is no master.
    stay: f64,
}

/// The cell that contains a node.
struct Cell {
    /// The expected number of its nodes beyond the node.
    beyond: f64,
    /// The probability that the next node is in it.
    has_next: f64,
}

impl Leg {
    /// The cell of node t, over the distance `a` of its master below or above it. Of two masters at the same distance
    /// either has the node.
    fn cell(&self, t: i64) -> Cell {
        let mut cell = Cell { beyond: 0.0, has_next: 0.0 };
        for a in 0..=self.depth.max(t) {
            if a <= t {
                let is_master = if a == t { 1.0 } else { 1.0 - self.stay };
                let above_master = self.depth - (t - a);
                cell.beyond += is_master * self.reach(2 * a, self.depth - t, above_master);
                cell.has_next += is_master * self.reach(2 * a, 1.min(self.depth - t), above_master);
            }
            if a >= 1 && t + a <= self.depth && a <= t {
                // No master is nearer. One as near below has the node in half of the cases; the root always is one.
                let tie = if a == t { 0.5 } else { (1.0 + self.stay) / 2.0 };
                let has_node = (1.0 - self.stay) * self.stay.powi(2 * a as i32 - 1) * tie;
                let above = self.depth - t - a;
                cell.beyond += has_node * (a as f64 + self.reach(0, above, above));
                cell.has_next += has_node;
            }
            if self.stay.powi(2 * a.min(1 << 20) as i32) < 1e-12 {
                break;
            }
        }
        cell
    }

    /// The expected number of nodes, of `count` in order, that belong to a master below them, when the first one is
    /// `nearer / 2 + 1` nodes from it and `above` nodes lie above the master. Node h has no master up to the same distance
    /// beyond it, or one at just that distance and half of the chance: the mean of two powers of `stay`.
    fn reach(&self, nearer: i64, count: i64, above: i64) -> f64 {
        let (first, last) = (nearer + 1, nearer + 2 * count);
        let power = |exponent: i64| self.stay.powi(exponent.min(1 << 20) as i32);
        let bounded = last.min(above);
        let inside =
            if bounded < first { 0.0 } else { (power(first) - power(bounded + 1)) / (1.0 - self.stay) };
        let outside = (last - above.max(nearer)).max(0) as f64 * power(above);
        (inside + outside) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Draws masters on legs and counts, instead of computing.
    fn drawn(depth: usize, size: u64, legs: u64) -> Vec<(f64, f64)> {
        let mut prng = Prng::new(Seed(7));
        let mut sums = vec![(0.0, 0.0); depth + 1];
        for _ in 0..legs {
            let is_master: Vec<bool> = (0..=depth).map(|node| node == 0 || prng.below(size) == 0).collect();
            let mut owner = vec![0; depth + 1];
            for (node, owner) in owner.iter_mut().enumerate() {
                let masters = (0..=depth).filter(|&master| is_master[master]);
                let nearest = masters.clone().map(|master| master.abs_diff(node)).min().unwrap();
                let nearest: Vec<usize> = masters.filter(|master| master.abs_diff(node) == nearest).collect();
                *owner = nearest[prng.below(nearest.len() as u64) as usize];
            }
            for (node, sum) in sums.iter_mut().enumerate() {
                let beyond = owner[node + 1..].iter().take_while(|&&other| other == owner[node]).count();
                sum.0 += beyond as f64 / legs as f64;
                sum.1 += f64::from(u8::from(beyond > 0)) / legs as f64;
            }
        }
        sums
    }

    #[test]
    fn cells_are_what_drawing_masters_gives() {
        for (depth, size) in [(40, 8), (30, 100), (20, 2)] {
            let leg = Leg { depth, stay: 1.0 - 1.0 / size as f64 };
            let drawn = drawn(depth as usize, size, 4000);
            for (t, (beyond, has_next)) in drawn.into_iter().enumerate() {
                let cell = leg.cell(t as i64);
                // The deviation of a mean over 4000 legs is below depth / 2 / 63.
                let tolerance = 4.0 * (0.02 + 0.016 * (size.min(depth as u64) as f64) / 2.0);
                assert!(
                    (cell.beyond - beyond).abs() < tolerance,
                    "{depth} {size} {t}: {} {beyond}",
                    cell.beyond
                );
                assert!(
                    (cell.has_next - has_next).abs() < 0.04,
                    "{depth} {size} {t}: {} {has_next}",
                    cell.has_next
                );
            }
        }
    }

    #[test]
    fn clusters_of_one_node_never_wait() {
        let tree = LevelTree::new(1001, 10, Seed(1)).unwrap();
        let shape = level_tree_shape(&tree, 1, Bytes::kib(4));
        assert!(shape.iter().all(|level| level.kept == 0.0 && level.loaded < 1e-9));
        assert!(shape[1..].iter().all(|level| (level.clusters - 100.0).abs() < 1e-9));
    }
}
