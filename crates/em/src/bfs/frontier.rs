//! The levels of a search: from the neighbours of one level to the next level.

use flashlab_base::Nanos;

use crate::collection::{Collected, Collection, CollectionOrder, Peek};
use crate::error::EmError;
use crate::graph::{AdjacencyArrays, GraphSource, LevelTree};
use crate::records::{Pair, RecordWriter, Stored, Workspace};

use super::{SearchPlacement, Shares};

/// What one level of a search moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelShape {
    /// Arcs in the pool that the level scanned, in the run that the level before kept.
    pub kept: f64,
    /// Arcs in the pool that the level scanned, in the run that the level before loaded.
    pub loaded: f64,
    /// Clusters that the level loaded.
    pub clusters: f64,
    /// The probability that it loaded any: 0 or 1 where they are counted.
    pub loads: f64,
    /// Blocks that loading them read.
    pub cluster_blocks: f64,
    /// Arcs in those clusters.
    pub fetched: f64,
    /// Nodes of the level.
    pub nodes: f64,
    /// Arcs of its nodes.
    pub arcs: f64,
}

/// What a search found.
pub struct Search {
    /// Each reached node with its level, by level.
    pub levels: Stored<Pair>,
    /// The number of levels, the source's included.
    pub depth: u32,
    /// What each level moved.
    pub shape: Vec<LevelShape>,
    /// How long reading clusters took.
    pub loading: Nanos,
}

/// The levels that the search is at, and what it found.
pub(super) struct Levels {
    placement: SearchPlacement,
    shares: Shares,
    output: RecordWriter<Pair>,
    previous: Collected<Pair>,
    /// The nodes of the current level with their clusters, ascending.
    pub current: Collected<Pair>,
    /// The number of the current level.
    pub level: u32,
}

impl Levels {
    /// Level 0 is the source. A node's second number goes along with it.
    pub fn new(
        workspace: &mut Workspace<'_, '_>,
        placement: SearchPlacement,
        nodes: u32,
        source: Pair,
    ) -> Result<Levels, EmError> {
        let shares = Shares::of(workspace.machine.budget().limit());
        let mut output = workspace.write(u64::from(nodes), placement.pool)?;
        output.push(workspace.machine, Pair { first: source.first, second: 0 })?;
        let level = |workspace: &mut Workspace<'_, '_>, node: Option<Pair>| {
            let mut level = Collection::new(workspace, CollectionOrder::Kept, shares.level, placement.pool)?;
            node.map_or(Ok(()), |node| level.push(workspace, node))?;
            level.finish(workspace)
        };
        let previous = level(workspace, None)?;
        let current = level(workspace, Some(source))?;
        Ok(Levels { placement, shares, output, previous, current, level: 0 })
    }

    /// Goes on to the next level, which is what `neighbours` holds without the current and the previous level. Whether
    /// there is one.
    pub fn advance(
        &mut self,
        workspace: &mut Workspace<'_, '_>,
        neighbours: Collected<Pair>,
    ) -> Result<bool, EmError> {
        let mut next =
            Collection::new(workspace, CollectionOrder::Kept, self.shares.level, self.placement.pool)?;
        let mut cursor = neighbours.cursor(workspace)?;
        let mut current = Peek::new(self.current.cursor(workspace)?);
        let mut previous = Peek::new(self.previous.cursor(workspace)?);
        let mut last = None;
        while let Some(node) = cursor.next(workspace.machine)? {
            if last.replace(node.first) == Some(node.first) {
                continue;
            }
            let is_known = current.seek(workspace.machine, node.first, |known| known.first)?.is_some()
                || previous.seek(workspace.machine, node.first, |known| known.first)?.is_some();
            if !is_known {
                next.push(workspace, node)?;
                let found = Pair { first: node.first, second: self.level + 1 };
                self.output.push(workspace.machine, found)?;
            }
        }
        drop((cursor, current, previous));
        neighbours.free(workspace);
        let next = next.finish(workspace)?;
        let current = std::mem::replace(&mut self.current, next);
        std::mem::replace(&mut self.previous, current).free(workspace);
        self.level += 1;
        Ok(self.current.count() > 0)
    }

    /// Ends the search.
    pub fn finish(
        self,
        workspace: &mut Workspace<'_, '_>,
        shape: Vec<LevelShape>,
    ) -> Result<Search, EmError> {
        self.previous.free(workspace);
        self.current.free(workspace);
        let levels = self.output.finish(workspace.machine)?;
        Ok(Search { levels, depth: self.level.max(1), shape, loading: Nanos::ZERO })
    }
}

/// Compares what a search found with the textbook's search, node by node.
///
/// # Errors
/// [`EmError::Wrong`] with the first node whose level differs, and those of reading.
pub fn verify_levels(
    workspace: &mut Workspace<'_, '_>,
    search: &Search,
    graph: &AdjacencyArrays,
    source: u32,
) -> Result<(), EmError> {
    let mut expected = graph.levels(source);
    let mut found = workspace.read(&search.levels)?;
    while let Some(Pair { first: node, second: level }) = found.next(workspace.machine)? {
        let is_right = expected.get_mut(node as usize).and_then(Option::take) == Some(level);
        if !is_right {
            let expected = graph.levels(source).get(node as usize).copied().flatten();
            return Err(EmError::Wrong(format!("node {node} has level {level}, not once {expected:?}")));
        }
    }
    match expected.iter().position(Option::is_some) {
        Some(node) => Err(EmError::Wrong(format!("node {node} is reachable and was not found"))),
        None => Ok(()),
    }
}

/// Compares what a search of a level tree from its root found with the tree's own levels, which takes no memory. Each level
/// has to have its number of nodes, each in its place.
///
/// # Errors
/// [`EmError::Wrong`] with the first node whose level differs, and those of reading.
pub fn verify_level_tree(
    workspace: &mut Workspace<'_, '_>,
    search: &Search,
    tree: &LevelTree,
) -> Result<(), EmError> {
    let mut found = workspace.read(&search.levels)?;
    let mut last: Option<Pair> = None;
    let mut count = 0u64;
    while let Some(Pair { first: node, second: level }) = found.next(workspace.machine)? {
        // A level's nodes ascend, so that none can be there twice.
        let is_after = last.is_none_or(|last| (last.second, last.first) < (level, node));
        if node >= tree.nodes() || tree.level(node) != level || !is_after {
            return Err(EmError::Wrong(format!(
                "node {node} has level {level}, out of place or not its own"
            )));
        }
        last = Some(Pair { first: node, second: level });
        count += 1;
    }
    match count == u64::from(tree.nodes()) {
        true => Ok(()),
        false => Err(EmError::Wrong(format!("{count} of {} nodes were found", tree.nodes()))),
    }
}
