//! A graph on a machine's devices: compressed adjacency arrays.

use crate::error::EmError;
use crate::extent::Spread;
use crate::graph::GraphSource;
use crate::machine::Machine;
use crate::records::{Pair, RecordReader, Stored, Workspace};

/// Adjacency arrays on devices: `nodes + 1` offsets, and the neighbours of each node, list after list.
pub struct StoredGraph {
    pub(super) nodes: u32,
    pub(super) offsets: Stored<u64>,
    pub(super) targets: Stored<u32>,
}

impl StoredGraph {
    /// Writes a graph.
    ///
    /// # Errors
    /// Those of the IOs, and [`EmError::Space`].
    pub fn write(
        workspace: &mut Workspace<'_, '_>,
        graph: &impl GraphSource,
        spread: Spread,
    ) -> Result<StoredGraph, EmError> {
        let nodes = graph.nodes();
        let mut offsets = workspace.write::<u64>(u64::from(nodes) + 1, spread)?;
        let mut targets = workspace.write::<u32>(graph.arcs(), spread)?;
        let (mut list, mut offset) = (Vec::new(), 0);
        offsets.push(workspace.machine, 0)?;
        for node in 0..nodes {
            list.clear();
            graph.neighbours(node, &mut list);
            for &target in &list {
                targets.push(workspace.machine, target)?;
            }
            offset += list.len() as u64;
            offsets.push(workspace.machine, offset)?;
        }
        let offsets = offsets.finish(workspace.machine)?;
        Ok(StoredGraph { nodes, offsets, targets: targets.finish(workspace.machine)? })
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The number of arcs.
    pub fn arcs(&self) -> u64 {
        self.targets.count()
    }

    /// All arcs, by source and target.
    pub(super) fn scan(&self, workspace: &mut Workspace<'_, '_>) -> Result<ArcScan, EmError> {
        let mut offsets = workspace.read(&self.offsets)?;
        offsets.next(workspace.machine)?;
        let targets = workspace.read(&self.targets)?;
        Ok(ArcScan { offsets, targets, node: 0, end: None, at: 0 })
    }
}

/// Yields the arcs of a stored graph.
pub(super) struct ArcScan {
    offsets: RecordReader<u64>,
    targets: RecordReader<u32>,
    node: u32,
    /// Where the list of `node` ends, once it is known.
    end: Option<u64>,
    at: u64,
}

impl ArcScan {
    /// The next arc; `None` at the end.
    pub fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<Pair>, EmError> {
        loop {
            let end = match self.end {
                Some(end) => end,
                None => match self.offsets.next(machine)? {
                    Some(end) => *self.end.insert(end),
                    None => return Ok(None),
                },
            };
            if self.at < end {
                self.at += 1;
                let target = self.targets.next(machine)?;
                let Some(second) = target else {
                    let reason = format!("the list of node {} ends beyond the last neighbour", self.node);
                    return Err(EmError::Damaged { what: "the graph", reason });
                };
                return Ok(Some(Pair { first: self.node, second }));
            }
            self.node += 1;
            self.end = None;
        }
    }
}
