//! Searches in a sorted sequence on a device, one query at a time or several in flight.
//!
//! # Model
//! The answer to a query is the rank of its key: how many records have a smaller or the same key. A search reads one block
//! after the other, and each depends on the one before. So one query at a time leaves a device idle that serves many IOs at
//! the same time; several queries in flight use it (Roh et al., "B+-tree index optimization by exploiting internal
//! parallelism of flash-based solid state drives", PVLDB 2011).
//!
//! - [`BinarySearch`]: the blocks of the sequence, halved; the first levels of the halving may be cached.
//! - [`StaticTree`]: a B-tree without pointers in nodes of the device's page; levels from the root on may be cached.
//!
//! # Invariants
//! - A query reads exactly the blocks that [`SearchStructure::planned_reads`] says.

mod binary;
mod tree;

use std::collections::BTreeMap;

use flashlab_base::{Bytes, Mode, Operation};

pub use binary::BinarySearch;
pub use tree::StaticTree;

use crate::error::EmError;
use crate::extent::Region;
use crate::ledger::IoCounts;
use crate::machine::{Machine, Ticket};
use crate::record_format::RecordFormat;

/// Records in order on a device, whose key has at most eight bytes. Blocks hold whole records.
#[derive(Clone, Debug)]
pub struct SortedSequence {
    /// The records.
    pub format: RecordFormat,
    /// Where they are.
    pub region: Region,
    /// How many there are.
    pub count: u64,
    /// The size of the blocks that searches read.
    pub block: Bytes,
}

impl SortedSequence {
    /// A sequence.
    ///
    /// # Errors
    /// [`EmError::Parameter`] when the key is longer than eight bytes, the block holds no whole number of records, or there
    /// are no records.
    pub fn new(
        format: RecordFormat,
        region: Region,
        count: u64,
        block: Bytes,
    ) -> Result<SortedSequence, EmError> {
        let refuse = |reason: &str| Err(EmError::Parameter(reason.to_owned()));
        if format.key_is_long() {
            return refuse("a search needs a key of at most 8 bytes");
        }
        if block == Bytes::ZERO || !block.0.is_multiple_of(format.size() as u64) {
            return Err(EmError::Parameter(format!(
                "a block of {block} has no whole number of records of {} B: leave --block out, or give a multiple of {}",
                format.size(),
                Bytes(format.size() as u64).least_common_multiple(Bytes::kib(4))
            )));
        }
        if count == 0 {
            return refuse("a search needs at least one record");
        }
        Ok(SortedSequence { format, region, count, block })
    }

    /// The records of a block.
    pub fn per_block(&self) -> u64 {
        self.block.0 / self.format.size() as u64
    }

    /// The number of blocks.
    pub fn blocks(&self) -> u64 {
        self.count.div_ceil(self.per_block())
    }

    /// The block that the answer `rank` is found in: that of the last record that is not greater, or the first one.
    pub fn block_of(&self, rank: u64) -> u64 {
        rank.saturating_sub(1) / self.per_block()
    }

    /// The key of the first record of a block's data.
    fn first_key(&self, data: &[u8]) -> u64 {
        self.format.prefix(self.format.at(data, 0))
    }

    /// The rank of a key that the block `index` decides.
    fn rank_in(&self, index: u64, data: &[u8], key: u64) -> u64 {
        let before = index * self.per_block();
        let records = (self.count - before).min(self.per_block()) as usize;
        let data = &data[..records * self.format.size()];
        let (mut low, mut high) = (0, records);
        while low < high {
            let middle = (low + high) / 2;
            let is_below = self.format.prefix(self.format.at(data, middle)) <= key;
            if is_below { low = middle + 1 } else { high = middle }
        }
        before + low as u64
    }
}

/// What a search does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep<S> {
    /// It reads a block, and goes on in this state when it has the data.
    Read(S),
    /// The rank.
    Found(u64),
}

/// A structure that is searched block by block.
pub trait SearchStructure {
    /// Where a search is.
    type State: Copy;

    /// Begins to search for a key.
    fn begin(&self, key: u64) -> SearchStep<Self::State>;

    /// The region and the offset within it of the block that a state reads.
    fn block(&self, state: Self::State) -> (&Region, Bytes);

    /// Goes on with the data of the block.
    fn advance(&self, state: Self::State, data: &[u8]) -> SearchStep<Self::State>;

    /// The size of the blocks.
    fn block_size(&self) -> Bytes;

    /// How many blocks a search reads that finds `rank`.
    fn planned_reads(&self, rank: u64) -> u64;
}

/// Searches for all keys, with `in_flight` of them at a time. Shows each query's number and rank.
///
/// # Errors
/// Those of the IOs, and [`EmError::Memory`] when the budget lacks a block for each query in flight.
pub fn search<S: SearchStructure>(
    machine: &mut Machine<'_>,
    structure: &S,
    keys: impl Iterator<Item = u64>,
    in_flight: usize,
    mut found: impl FnMut(u64, u64),
) -> Result<(), EmError> {
    machine.begin_phase("search");
    let size = structure.block_size();
    let (mut free, _lease) = machine.budget().buffers(in_flight.max(1), size, "queries in flight")?;
    let mut running: BTreeMap<Ticket, (u64, S::State)> = BTreeMap::new();
    let mut keys = keys.enumerate();
    loop {
        while let Some(buffer) = free.pop() {
            let Some((query, key)) = keys.next() else { break };
            machine.compute(1);
            match structure.begin(key) {
                SearchStep::Found(rank) => {
                    found(query as u64, rank);
                    free.push(buffer);
                }
                SearchStep::Read(state) => {
                    let ticket = read(machine, structure, state, buffer);
                    running.insert(ticket, (query as u64, state));
                }
            }
        }
        let Some((ticket, buffer)) = machine.wait_any()? else { return Ok(()) };
        let (query, state) = running.remove(&ticket).expect("only queries have IOs in flight");
        match structure.advance(state, &buffer) {
            SearchStep::Found(rank) => {
                found(query, rank);
                free.push(buffer);
            }
            SearchStep::Read(state) => {
                let ticket = read(machine, structure, state, buffer);
                running.insert(ticket, (query, state));
            }
        }
    }
}

fn read<S: SearchStructure>(
    machine: &mut Machine<'_>,
    structure: &S,
    state: S::State,
    buffer: flashlab_device::Buffer,
) -> Ticket {
    let (region, offset) = structure.block(state);
    let (device, offset) = region.locate(offset);
    machine.submit(device, Operation::Read, offset, structure.block_size(), buffer)
}

/// Plans the reads of a search that finds these ranks, and returns them.
pub fn plan_search<S: SearchStructure>(
    machine: &mut Machine<'_>,
    structure: &S,
    ranks: impl Iterator<Item = u64>,
) -> IoCounts {
    let mut planned = IoCounts::default();
    planned.add(Mode::Read, structure.block_size(), ranks.map(|rank| structure.planned_reads(rank)).sum());
    machine.ledger_mut().current().planned.merge(&planned);
    planned
}
