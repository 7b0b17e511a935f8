//! Mehlhorn and Meyer's second phase: levels from clusters and a hot pool.
//!
//! # Method, for each level
//! 1. The pool, sorted by source, is scanned next to the level. The lists of the level's nodes leave it; their neighbours are
//!    collected. All other lists are kept for the next level.
//! 2. The clusters of the level's nodes that the pool did not have are read at random, each once. The lists of the level's
//!    nodes among them are used, the others enter the pool.
//! 3. The neighbours are sorted, and the current and the previous level subtracted (`frontier`).
//!
//! # Invariants
//! - A cluster is read once: after that its nodes' lists are in the pool until they are used.
//! - The pool is at most two sorted runs: what was kept and what was loaded. A scan merges them.

use std::collections::VecDeque;

use flashlab_base::{Bytes, Nanos};

use crate::block_reads::BlockReads;
use crate::collection::{Collected, Collection, CollectionOrder, Cursor, Peek};
use crate::error::EmError;
use crate::graph::NO_NODE;
use crate::machine::Machine;
use crate::records::{Pair, Stored, Workspace};

use super::cluster::{Arc, ArcCursor, Clustering};
use super::frontier::{LevelShape, Levels, Search};
use super::{SearchPlacement, Shares};

/// Random reads in flight when the devices allow more. Beyond it memory grows and no profile of the zoo gets faster.
const IN_FLIGHT_MAX: u32 = 128;

/// The buffers for random reads: two for each request that the devices take, so that one device's queue is not empty while
/// the other's is full; and at most a sixteenth of the memory.
pub(super) fn buffers(machine: &Machine<'_>, block: Bytes) -> usize {
    let depth: u32 = (0..machine.device_count()).map(|device| machine.geometry(device).depth.min(32)).sum();
    let memory = machine.budget().limit().0 / 16 / block.0.max(1);
    (2 * depth.max(2)).min(IN_FLIGHT_MAX).min(memory.min(u64::from(IN_FLIGHT_MAX)) as u32) as usize
}

/// Searches a clustered graph from the source that it was clustered for, with random reads of `block`.
///
/// # Errors
/// Those of the IOs, [`EmError::Memory`], [`EmError::Space`], and [`EmError::Damaged`] when the clusters are not what was
/// written.
pub fn mehlhorn_meyer(
    workspace: &mut Workspace<'_, '_>,
    clustering: &Clustering,
    placement: SearchPlacement,
    block: Bytes,
) -> Result<Search, EmError> {
    let share = Shares::of(workspace.machine.budget().limit()).sort;
    let source = Pair { first: clustering.source, second: clustering.source_cluster.unwrap_or(0) };
    let levels = Levels::new(workspace, placement, clustering.nodes, source)?;
    if clustering.source_cluster.is_none() {
        return levels.finish(workspace, Vec::new());
    }
    let mut levels = levels;
    let mut clusters = Clusters::new(workspace.machine, clustering, block)?;
    let mut pool = Pool { runs: Vec::new(), share, placement };
    let (mut shape, mut loading) = (Vec::new(), Nanos::ZERO);
    loop {
        let mut level = LevelShape { nodes: levels.current.count() as f64, ..LevelShape::default() };
        level.kept = pool.runs.first().map_or(0.0, |run| run.count() as f64);
        level.loaded = pool.runs.get(1).map_or(0.0, |run| run.count() as f64);
        let mut neighbours = Collection::new(workspace, CollectionOrder::Sorted, share, placement.pool)?;
        let missing = pool.scan(workspace, &levels.current, &mut neighbours)?;
        if missing.count() > 0 {
            let (before, begin) = (clusters.blocks, workspace.machine.now());
            let loaded = clusters.load(workspace, missing, share, placement)?;
            loading += workspace.machine.now().since(begin);
            level.clusters = clusters.loaded as f64;
            level.loads = 1.0;
            level.cluster_blocks = (clusters.blocks - before) as f64;
            level.fetched = loaded.count() as f64;
            pool.add(workspace, loaded, &levels.current, &mut neighbours)?;
        } else {
            missing.free(workspace);
        }
        level.arcs = neighbours.count() as f64;
        shape.push(level);
        let neighbours = neighbours.finish(workspace)?;
        if !levels.advance(workspace, neighbours)? {
            pool.runs.drain(..).for_each(|run| workspace.free(run));
            return Ok(Search { loading, ..levels.finish(workspace, shape)? });
        }
    }
}

/// The lists that were loaded and not used.
struct Pool {
    /// What was kept, then what was loaded.
    runs: Vec<Stored<Arc>>,
    share: Bytes,
    placement: SearchPlacement,
}

impl Pool {
    /// Takes the lists of the level's nodes out. Returns the clusters of the nodes that have none in the pool.
    fn scan(
        &mut self,
        workspace: &mut Workspace<'_, '_>,
        level: &Collected<Pair>,
        neighbours: &mut Collection<Pair>,
    ) -> Result<Collected<u32>, EmError> {
        let mut missing = Collection::new(
            workspace,
            CollectionOrder::Sorted,
            Bytes(self.share.0 / 2),
            self.placement.pool,
        )?;
        let mut nodes = level.cursor(workspace)?;
        let runs: Vec<&Stored<Arc>> = self.runs.iter().collect();
        let count = runs.iter().map(|run| run.count()).sum();
        let mut arcs = Peek::new(Cursor::merged(workspace, &runs)?);
        let mut kept = workspace.write(count, self.placement.pool)?;
        while let Some(node) = nodes.next(workspace.machine)? {
            let mut is_missing = true;
            while let Some(arc) = arcs.peek(workspace.machine)?
                && arc.source <= node.first
            {
                arcs.next(workspace.machine)?;
                if arc.source < node.first {
                    kept.push(workspace.machine, arc)?;
                } else {
                    is_missing = false;
                    neighbours.push(workspace, Pair { first: arc.target, second: arc.target_cluster })?;
                }
            }
            if is_missing {
                missing.push(workspace, node.second)?;
            }
        }
        while let Some(arc) = arcs.next(workspace.machine)? {
            kept.push(workspace.machine, arc)?;
        }
        drop((arcs, nodes));
        let kept = kept.finish(workspace.machine)?;
        self.runs.drain(..).for_each(|run| workspace.free(run));
        self.runs.push(kept);
        missing.finish(workspace)
    }

    /// Uses the lists of the level's nodes among those that were loaded; the others enter the pool.
    fn add(
        &mut self,
        workspace: &mut Workspace<'_, '_>,
        loaded: Collected<Arc>,
        level: &Collected<Pair>,
        neighbours: &mut Collection<Pair>,
    ) -> Result<(), EmError> {
        let mut nodes = Peek::new(level.cursor(workspace)?);
        let mut arcs: ArcCursor = loaded.cursor(workspace)?;
        let mut waiting = workspace.write(loaded.count(), self.placement.pool)?;
        while let Some(arc) = arcs.next(workspace.machine)? {
            match nodes.seek(workspace.machine, arc.source, |node| node.first)? {
                Some(_) => {
                    neighbours.push(workspace, Pair { first: arc.target, second: arc.target_cluster })?
                }
                None => waiting.push(workspace.machine, arc)?,
            }
        }
        drop((arcs, nodes));
        loaded.free(workspace);
        self.runs.push(waiting.finish(workspace.machine)?);
        Ok(())
    }
}

/// Reads clusters at random.
struct Clusters {
    reads: BlockReads,
    records: u64,
    /// The clusters that the last load read.
    loaded: u64,
    /// The blocks that all loads read.
    blocks: u64,
    last_block: Option<u64>,
}

impl Clusters {
    fn new(machine: &Machine<'_>, clustering: &Clustering, block: Bytes) -> Result<Clusters, EmError> {
        let records = clustering.arcs.count();
        let length = Bytes(16 * records.max(1));
        let region = clustering.arcs.region().clone();
        let reads = BlockReads::new(machine, region, length, block, buffers(machine, block))?;
        Ok(Clusters { reads, records, loaded: 0, blocks: 0, last_block: None })
    }

    /// The arcs of these clusters, by source.
    fn load(
        &mut self,
        workspace: &mut Workspace<'_, '_>,
        positions: Collected<u32>,
        share: Bytes,
        placement: SearchPlacement,
    ) -> Result<Collected<Arc>, EmError> {
        let mut loaded = Collection::new(workspace, CollectionOrder::Sorted, share, placement.pool)?;
        let mut cursor = positions.cursor(workspace)?;
        let mut upcoming: VecDeque<u32> = VecDeque::new();
        let mut newest = None;
        self.loaded = 0;
        loop {
            while upcoming.len() < self.reads.window()
                && let Some(position) = cursor.next(workspace.machine)?
            {
                if newest.replace(position) != Some(position) {
                    upcoming.push_back(position);
                }
            }
            let half = self.reads.window() / 2;
            for &position in &upcoming {
                let block = self.reads.block_of::<Arc>(position.into());
                if !self.reads.request(workspace.machine, block, half) {
                    break;
                }
            }
            let Some(position) = upcoming.pop_front() else { break };
            self.read(workspace, position.into(), &mut loaded)?;
        }
        drop(cursor);
        positions.free(workspace);
        loaded.finish(workspace)
    }

    /// Reads one cluster.
    fn read(
        &mut self,
        workspace: &mut Workspace<'_, '_>,
        position: u64,
        loaded: &mut Collection<Arc>,
    ) -> Result<(), EmError> {
        let header =
            if position < self.records { self.record(workspace.machine, position)? } else { NO_HEADER };
        let end = position + u64::from(header.target);
        if header.source != NO_NODE || u64::from(header.target_cluster) != position || end >= self.records {
            let reason = format!("no cluster begins at record {position}");
            return Err(EmError::Damaged { what: "the clusters", reason });
        }
        self.loaded += 1;
        let last = self.reads.block_of::<Arc>(end);
        for index in position + 1..=end {
            let block = self.reads.block_of::<Arc>(index);
            if Some(block) != self.last_block {
                self.reads.request_all(workspace.machine, block..=last, 1);
            }
            let arc = self.record(workspace.machine, index)?;
            loaded.push(workspace, arc)?;
        }
        workspace.machine.compute(u64::from(header.target));
        Ok(())
    }

    fn record(&mut self, machine: &mut Machine<'_>, index: u64) -> Result<Arc, EmError> {
        let block = self.reads.block_of::<Arc>(index);
        if self.last_block.replace(block) != Some(block) {
            self.blocks += 1;
        }
        self.reads.record(machine, index)
    }
}

/// What stands where no cluster begins.
const NO_HEADER: Arc = Arc { source: 0, target: 0, target_cluster: 0 };
