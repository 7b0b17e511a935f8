//! Mehlhorn and Meyer's first phase: nodes are grouped into clusters of small diameter, whose lists lie together.
//!
//! # Model
//! Each node is a master with probability 1 / c, and the source is one. All masters grow their clusters at the same time, a
//! level in each round, so that a cluster of c nodes on average has a small diameter (Mehlhorn and Meyer 2002, section 3.1).
//!
//! # Method
//! 1. A round scans the arcs of the nodes that no cluster has yet, next to the sorted nodes that the clusters reached in the
//!    round before. The lists of the nodes that both have are taken out, and their neighbours are what is reached next.
//! 2. The nodes are sorted by cluster, which says where each cluster begins. Two sorts of the arcs give each arc the
//!    beginning of its target's cluster and bring it to its source's cluster.
//!
//! # Invariants
//! - Each node that is reached from a master is in one cluster; one that is not cannot be reached from the source.
//! - A cluster is a header, whose target is its number of arcs, and its arcs by source and target.

use flashlab_base::{Bytes, Prng, Seed};

use crate::collection::{Collected, Collection, CollectionOrder, Cursor, Peek};
use crate::error::EmError;
use crate::extent::Spread;
use crate::graph::NO_NODE;
use crate::machine::Machine;
use crate::records::{Pair, Record, RecordReader, Stored, Triple, Workspace};

use super::stored_graph::{ArcScan, StoredGraph};
use super::{SearchPlacement, Shares};

/// An arc in a cluster or in the pool; as a header its source is [`NO_NODE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arc {
    /// Where it begins.
    pub source: u32,
    /// Where it ends; the number of arcs in a header.
    pub target: u32,
    /// Where the cluster of the target begins, as an index of records.
    pub target_cluster: u32,
}

impl Record for Arc {
    /// Padded to a power of two.
    const SIZE: usize = 16;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        for (word, number) in
            bytes.chunks_exact_mut(4).zip([self.source, self.target, self.target_cluster, 0])
        {
            word.copy_from_slice(&number.to_be_bytes());
        }
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Arc {
        let Triple { first: source, second: target, third } = Triple::decode(bytes);
        Arc { source, target, target_cluster: (third >> 32) as u32 }
    }
}

/// The clusters of a graph.
pub struct Clustering {
    /// The clusters one after the other: headers and arcs.
    pub(super) arcs: Stored<Arc>,
    /// Where the source's cluster begins; `None` where the source has no neighbours.
    pub(super) source_cluster: Option<u32>,
    /// The source.
    pub(super) source: u32,
    /// The nodes of the graph.
    pub(super) nodes: u32,
    /// How many clusters there are.
    pub clusters: u64,
    /// How many rounds they grew.
    pub rounds: u32,
}

/// Groups the nodes of a graph into clusters of `size` nodes on average.
///
/// # Errors
/// Those of the IOs, [`EmError::Memory`], [`EmError::Space`], and [`EmError::Parameter`] when the graph is too large.
pub fn cluster(
    workspace: &mut Workspace<'_, '_>,
    graph: &StoredGraph,
    source: u32,
    size: u64,
    placement: SearchPlacement,
    seed: Seed,
) -> Result<Clustering, EmError> {
    let nodes = graph.nodes();
    if source >= nodes || size == 0 {
        return Err(EmError::Parameter(format!(
            "a search from node {source} of {nodes} nodes with clusters of {size}: the source is a node, and a cluster has \
             one at least"
        )));
    }
    // Positions are indices of arcs and headers.
    if graph.arcs() + u64::from(nodes) >= u64::from(u32::MAX) {
        return Err(EmError::Parameter(format!(
            "{nodes} nodes and {} arcs are too many: together they must be below 2^32",
            graph.arcs()
        )));
    }
    let share = Shares::of(workspace.machine.budget().limit()).sort;
    let mut growth = Growth { share, spill: placement.pool, rounds: 0 };
    let masters = growth.masters(workspace, nodes, source, size, seed)?;
    let members = growth.grow(workspace, graph, masters)?;
    let layout = growth.layout(workspace, members, source)?;
    growth.write(workspace, graph, placement.structure, layout, source)
}

struct Growth {
    share: Bytes,
    spill: Spread,
    rounds: u32,
}

/// Where clusters lie.
struct DataLayout {
    /// Each node with the beginning of its cluster, by node.
    map: Collected<Pair>,
    /// The beginning and the number of arcs of each cluster, in order.
    sizes: Collected<Pair>,
    source_cluster: Option<u32>,
}

impl Growth {
    fn collection<T: Record>(
        &self,
        workspace: &Workspace<'_, '_>,
        order: CollectionOrder,
    ) -> Result<Collection<T>, EmError> {
        Collection::new(workspace, order, self.share, self.spill)
    }

    /// The masters, each with itself as its cluster.
    fn masters(
        &self,
        workspace: &mut Workspace<'_, '_>,
        nodes: u32,
        source: u32,
        size: u64,
        seed: Seed,
    ) -> Result<Collected<Pair>, EmError> {
        let mut masters = self.collection(workspace, CollectionOrder::Kept)?;
        let mut prng = Prng::new(seed.derive("masters", size));
        for node in 0..nodes {
            if prng.below(size) == 0 || node == source {
                masters.push(workspace, Pair { first: node, second: node })?;
            }
        }
        masters.finish(workspace)
    }

    /// Grows the clusters; each member as its master, itself and its degree, by master.
    fn grow(
        &mut self,
        workspace: &mut Workspace<'_, '_>,
        graph: &StoredGraph,
        masters: Collected<Pair>,
    ) -> Result<Collected<Triple>, EmError> {
        let mut members = self.collection(workspace, CollectionOrder::Sorted)?;
        let mut reached = masters;
        let mut left: Option<Stored<Pair>> = None;
        loop {
            let (arcs, count) = match &left {
                None => (Arcs::All(Box::new(graph.scan(workspace)?)), graph.arcs()),
                Some(left) => (Arcs::Left(workspace.read(left)?), left.count()),
            };
            let (next, kept) = self.round(workspace, arcs, count, &reached, &mut members)?;
            self.rounds += 1;
            reached.free(workspace);
            left.replace(kept).into_iter().for_each(|before| workspace.free(before));
            reached = next;
            let is_done = reached.count() == 0 || left.as_ref().is_none_or(|left| left.count() == 0);
            if is_done {
                reached.free(workspace);
                left.into_iter().for_each(|left| workspace.free(left));
                return members.finish(workspace);
            }
        }
    }

    /// One round: what is reached next, and the arcs that no cluster has.
    fn round(
        &self,
        workspace: &mut Workspace<'_, '_>,
        mut arcs: Arcs,
        count: u64,
        reached: &Collected<Pair>,
        members: &mut Collection<Triple>,
    ) -> Result<(Collected<Pair>, Stored<Pair>), EmError> {
        let mut next = self.collection(workspace, CollectionOrder::Sorted)?;
        let mut kept = workspace.write(count, self.spill)?;
        let mut reached = Peek::new(reached.cursor(workspace)?);
        // The node whose list is being read, its cluster if it was reached, and its degree so far.
        let mut list: Option<(u32, Option<u32>, u64)> = None;
        loop {
            let arc = arcs.next(workspace.machine)?;
            let node = arc.map(|arc| arc.first);
            if list.map(|list| list.0) != node {
                if let Some((node, Some(master), degree)) = list {
                    members.push(workspace, Triple { first: master, second: node, third: degree })?;
                }
                let Some(node) = node else { break };
                let master = reached.seek(workspace.machine, node, |pair| pair.first)?;
                list = Some((node, master.map(|pair| pair.second), 0));
            }
            let (Some(arc), Some((_, master, degree))) = (arc, &mut list) else { break };
            *degree += 1;
            match *master {
                Some(master) => next.push(workspace, Pair { first: arc.second, second: master })?,
                None => kept.push(workspace.machine, arc)?,
            }
        }
        Ok((next.finish(workspace)?, kept.finish(workspace.machine)?))
    }

    /// Where each cluster begins.
    fn layout(
        &self,
        workspace: &mut Workspace<'_, '_>,
        members: Collected<Triple>,
        source: u32,
    ) -> Result<DataLayout, EmError> {
        let mut map = self.collection(workspace, CollectionOrder::Sorted)?;
        let mut sizes = self.collection(workspace, CollectionOrder::Kept)?;
        let mut cursor = members.cursor(workspace)?;
        let (mut at, mut source_cluster) = (0u32, None);
        let mut cluster: Option<(u32, Pair)> = None;
        loop {
            let member = cursor.next(workspace.machine)?;
            if cluster.map(|cluster| cluster.0) != member.map(|member| member.first) {
                if let Some((_, size)) = cluster {
                    sizes.push(workspace, size)?;
                }
                let Some(member) = member else { break };
                cluster = Some((member.first, Pair { first: at, second: 0 }));
                at += 1;
            }
            let (Some(member), Some((_, size))) = (member, &mut cluster) else { break };
            map.push(workspace, Pair { first: member.second, second: size.first })?;
            if member.second == source {
                source_cluster = Some(size.first);
            }
            size.second += member.third as u32;
            at += member.third as u32;
        }
        drop(cursor);
        members.free(workspace);
        Ok(DataLayout { map: map.finish(workspace)?, sizes: sizes.finish(workspace)?, source_cluster })
    }

    /// Writes the arcs cluster by cluster.
    fn write(
        &self,
        workspace: &mut Workspace<'_, '_>,
        graph: &StoredGraph,
        structure: Spread,
        layout: DataLayout,
        source: u32,
    ) -> Result<Clustering, EmError> {
        let by_target = self.with_source_cluster(workspace, graph, &layout.map)?;
        let mut by_cluster = self.collection::<Placed>(workspace, CollectionOrder::Sorted)?;
        let mut cursor = by_target.cursor(workspace)?;
        let mut map = Peek::new(layout.map.cursor(workspace)?);
        while let Some(Triple { first: target, second: from, third: cluster }) =
            cursor.next(workspace.machine)?
        {
            let found = map.seek(workspace.machine, target, |pair| pair.first)?;
            let Some(Pair { second: target_cluster, .. }) = found else {
                let reason = format!("node {from} has the neighbour {target}, which does not have {from}");
                return Err(EmError::Damaged { what: "the graph", reason });
            };
            let arc = Arc { source: from, target, target_cluster };
            by_cluster.push(workspace, Placed { cluster: cluster as u32, arc })?;
        }
        drop((cursor, map));
        by_target.free(workspace);
        let by_cluster = by_cluster.finish(workspace)?;
        let most = by_cluster.count() + layout.sizes.count();
        let mut writer = workspace.write(most, structure)?;
        let mut arcs = by_cluster.cursor(workspace)?;
        let mut sizes = layout.sizes.cursor(workspace)?;
        while let Some(size) = sizes.next(workspace.machine)? {
            let header = Arc { source: NO_NODE, target: size.second, target_cluster: size.first };
            writer.push(workspace.machine, header)?;
            for _ in 0..size.second {
                let placed = arcs.next(workspace.machine)?.expect("the clusters' sizes are counts of arcs");
                writer.push(workspace.machine, placed.arc)?;
            }
        }
        drop((arcs, sizes));
        let clusters = layout.sizes.count();
        by_cluster.free(workspace);
        layout.map.free(workspace);
        layout.sizes.free(workspace);
        Ok(Clustering {
            arcs: writer.finish(workspace.machine)?,
            source_cluster: layout.source_cluster,
            source,
            nodes: graph.nodes(),
            clusters,
            rounds: self.rounds,
        })
    }

    /// Each arc as its target, its source, and the beginning of its source's cluster, by target.
    fn with_source_cluster(
        &self,
        workspace: &mut Workspace<'_, '_>,
        graph: &StoredGraph,
        map: &Collected<Pair>,
    ) -> Result<Collected<Triple>, EmError> {
        let mut by_target = self.collection(workspace, CollectionOrder::Sorted)?;
        let mut arcs = graph.scan(workspace)?;
        let mut map = Peek::new(map.cursor(workspace)?);
        while let Some(arc) = arcs.next(workspace.machine)? {
            if let Some(found) = map.seek(workspace.machine, arc.first, |pair| pair.first)? {
                let third = u64::from(found.second);
                by_target.push(workspace, Triple { first: arc.second, second: arc.first, third })?;
            }
        }
        by_target.finish(workspace)
    }
}

/// The arcs that a round scans.
enum Arcs {
    All(Box<ArcScan>),
    Left(RecordReader<Pair>),
}

impl Arcs {
    fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<Pair>, EmError> {
        match self {
            Arcs::All(scan) => scan.next(machine),
            Arcs::Left(reader) => reader.next(machine),
        }
    }
}

/// An arc and the beginning of its source's cluster, by which it is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Placed {
    cluster: u32,
    arc: Arc,
}

impl Record for Placed {
    const SIZE: usize = 16;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        let Arc { source, target, target_cluster } = self.arc;
        for (word, number) in bytes.chunks_exact_mut(4).zip([self.cluster, source, target, target_cluster]) {
            word.copy_from_slice(&number.to_be_bytes());
        }
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Placed {
        let Triple { first: cluster, second: source, third } = Triple::decode(bytes);
        let (target, target_cluster) = ((third >> 32) as u32, third as u32);
        Placed { cluster, arc: Arc { source, target, target_cluster } }
    }
}

/// A cursor over arcs that are read in some order.
pub(super) type ArcCursor = Cursor<Arc>;
