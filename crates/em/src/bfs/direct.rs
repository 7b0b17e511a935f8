//! Munagala and Ranade's search, and the semi-external one: each node's list is read where it lies.
//!
//! # Method, for each level
//! 1. The nodes of the level are read in ascending order. For each the two offsets of its list, then the list, are read at
//!    random, with the reads of the following nodes in flight. A block that consecutive nodes share is read once.
//! 2. Munagala and Ranade: the neighbours are sorted, and the current and the previous level subtracted. Semi-external: a
//!    neighbour whose bit is set was visited.

use std::collections::VecDeque;

use flashlab_base::Bytes;

use crate::block_reads::BlockReads;
use crate::budget::MemoryLease;
use crate::collection::{Collected, Collection, CollectionOrder, Cursor};
use crate::error::EmError;
use crate::machine::Machine;
use crate::records::{Pair, Workspace};

use super::frontier::{LevelShape, Levels, Search};
use super::stored_graph::StoredGraph;
use super::{SearchPlacement, Shares};

/// Munagala and Ranade's search, with random reads of `block`.
///
/// # Errors
/// Those of the IOs, [`EmError::Memory`] and [`EmError::Space`].
pub fn munagala_ranade(
    workspace: &mut Workspace<'_, '_>,
    graph: &StoredGraph,
    source: u32,
    placement: SearchPlacement,
    block: Bytes,
) -> Result<Search, EmError> {
    search(workspace, graph, source, placement, block, None)
}

/// The search with a bit for each node in memory, and random reads of `block`.
///
/// # Errors
/// As [`munagala_ranade`]; [`EmError::Memory`] also when the bits do not fit.
pub fn semi_external(
    workspace: &mut Workspace<'_, '_>,
    graph: &StoredGraph,
    source: u32,
    placement: SearchPlacement,
    block: Bytes,
) -> Result<Search, EmError> {
    let visited = Visited::new(workspace.machine, graph.nodes())?;
    search(workspace, graph, source, placement, block, Some(visited))
}

fn search(
    workspace: &mut Workspace<'_, '_>,
    graph: &StoredGraph,
    source: u32,
    placement: SearchPlacement,
    block: Bytes,
    mut visited: Option<Visited>,
) -> Result<Search, EmError> {
    if source >= graph.nodes() {
        return Err(EmError::Parameter(format!("the source {source} is not below {} nodes", graph.nodes())));
    }
    let share = Shares::of(workspace.machine.budget().limit()).sort;
    let mut lists = Lists::new(workspace, graph, block)?;
    let mut levels = Levels::new(workspace, placement, graph.nodes(), Pair { first: source, second: 0 })?;
    if let Some(visited) = &mut visited {
        visited.insert(source);
    }
    let mut shape = Vec::new();
    loop {
        shape.push(LevelShape { nodes: levels.current.count() as f64, ..LevelShape::default() });
        let mut neighbours = Collection::new(workspace, CollectionOrder::Sorted, share, placement.pool)?;
        let mut see = |workspace: &mut Workspace<'_, '_>, node| {
            let is_new = visited.as_mut().is_none_or(|visited| visited.insert(node));
            if is_new { neighbours.push(workspace, Pair { first: node, second: 0 }) } else { Ok(()) }
        };
        lists.of(workspace, &levels.current, &mut see)?;
        let neighbours = neighbours.finish(workspace)?;
        if !levels.advance(workspace, neighbours)? {
            return levels.finish(workspace, shape);
        }
    }
}

/// A bit for each node.
struct Visited {
    bits: Vec<u64>,
    _lease: MemoryLease,
}

impl Visited {
    fn new(machine: &Machine<'_>, nodes: u32) -> Result<Visited, EmError> {
        let words = (nodes as usize).div_ceil(64);
        let lease = machine.budget().lease(Bytes(8 * words as u64), "a bit for each node")?;
        Ok(Visited { bits: vec![0; words], _lease: lease })
    }

    /// Sets a node's bit. Whether it was clear.
    fn insert(&mut self, node: u32) -> bool {
        let (word, bit) = (&mut self.bits[node as usize / 64], 1 << (node % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// Reads the adjacency lists of nodes at random.
struct Lists {
    offsets: BlockReads,
    targets: BlockReads,
    nodes: u32,
    arcs: u64,
}

impl Lists {
    fn new(workspace: &mut Workspace<'_, '_>, graph: &StoredGraph, block: Bytes) -> Result<Lists, EmError> {
        let machine = &*workspace.machine;
        let buffers = super::mehlhorn_meyer::buffers(machine, block);
        let reads =
            |region: &crate::Region, length| BlockReads::new(machine, region.clone(), length, block, buffers);
        Ok(Lists {
            offsets: reads(graph.offsets.region(), Bytes(8 * graph.offsets.count()))?,
            targets: reads(graph.targets.region(), Bytes(4 * graph.targets.count().max(1)))?,
            nodes: graph.nodes(),
            arcs: graph.arcs(),
        })
    }

    /// Shows each neighbour of each node.
    fn of(
        &mut self,
        workspace: &mut Workspace<'_, '_>,
        nodes: &Collected<Pair>,
        see: &mut dyn FnMut(&mut Workspace<'_, '_>, u32) -> Result<(), EmError>,
    ) -> Result<(), EmError> {
        let mut cursor = nodes.cursor(workspace)?;
        let (mut upcoming, mut located) = (VecDeque::new(), VecDeque::new());
        loop {
            self.look_ahead(workspace.machine, &mut cursor, &mut upcoming)?;
            while located.len() < self.targets.window()
                && let Some(node) = upcoming.pop_front()
            {
                let (from, to) = self.locate(workspace.machine, node)?;
                if from < to {
                    let first = self.targets.block_of::<u32>(from);
                    self.targets.request(workspace.machine, first, 2);
                    located.push_back((from, to));
                }
            }
            match located.pop_front() {
                Some((from, to)) => {
                    for index in from..to {
                        let target = self.targets.record::<u32>(workspace.machine, index)?;
                        see(workspace, target)?;
                    }
                    workspace.machine.compute(to - from);
                }
                None if upcoming.is_empty() => return Ok(()),
                None => {}
            }
        }
    }

    /// Requests the offsets of the next nodes.
    fn look_ahead(
        &mut self,
        machine: &mut Machine<'_>,
        cursor: &mut Cursor<Pair>,
        upcoming: &mut VecDeque<u32>,
    ) -> Result<(), EmError> {
        while upcoming.len() < self.offsets.window() {
            let Some(node) = cursor.next(machine)? else { break };
            let block = self.offsets.block_of::<u64>(node.first.into());
            self.offsets.request(machine, block, 2);
            upcoming.push_back(node.first);
        }
        Ok(())
    }

    /// Where a node's list begins and ends.
    fn locate(&mut self, machine: &mut Machine<'_>, node: u32) -> Result<(u64, u64), EmError> {
        let from = self.offsets.record::<u64>(machine, node.into())?;
        let to = self.offsets.record::<u64>(machine, u64::from(node) + 1)?;
        if from > to || to > self.arcs || node >= self.nodes {
            let reason = format!("the list of node {node} goes from {from} to {to} of {} arcs", self.arcs);
            return Err(EmError::Damaged { what: "the graph", reason });
        }
        Ok((from, to))
    }
}
