//! Reads of single blocks of a region at any offsets, with several in flight.
//!
//! # Model
//! Whoever knows which blocks it will need requests them in advance ([`BlockReads::request`]) and takes them later
//! ([`BlockReads::get`]). The block that was taken last stays in memory, so that consecutive uses of one block cost one read.
//!
//! # Invariant
//! - At least one buffer is kept for a block that was not requested in advance.

use std::collections::BTreeMap;

use flashlab_base::{Bytes, Operation};
use flashlab_device::Buffer;

use crate::budget::MemoryLease;
use crate::error::EmError;
use crate::extent::Region;
use crate::machine::{Machine, Ticket};
use crate::records::Record;

/// Random reads of a region.
pub struct BlockReads {
    region: Region,
    /// The bytes of the region that hold data.
    length: Bytes,
    block: Bytes,
    free: Vec<Buffer>,
    in_flight: BTreeMap<u64, Ticket>,
    /// The block that was taken last.
    held: Option<(u64, Buffer)>,
    buffers: usize,
    _lease: MemoryLease,
}

impl BlockReads {
    /// Reads of a region with `length` bytes of data, of which at most `buffers` are in flight; at least 3 are needed.
    ///
    /// # Errors
    /// [`EmError::Memory`].
    pub fn new(
        machine: &Machine<'_>,
        region: Region,
        length: Bytes,
        block: Bytes,
        buffers: usize,
    ) -> Result<BlockReads, EmError> {
        let buffers = buffers.max(3);
        let (free, lease) = machine.budget().buffers(buffers, block, "random reads")?;
        let length = length.round_up(machine.unit());
        Ok(BlockReads {
            region,
            length,
            block,
            free,
            in_flight: BTreeMap::new(),
            held: None,
            buffers,
            _lease: lease,
        })
    }

    /// How many blocks can usefully be requested in advance.
    pub fn window(&self) -> usize {
        self.buffers - 2
    }

    /// The block with the record of this index.
    pub fn block_of<T: Record>(&self, record: u64) -> u64 {
        record * T::SIZE as u64 / self.block.0
    }

    /// Requests a block in advance, if more than `keep` buffers are free. Whether it was, or had been before.
    pub fn request(&mut self, machine: &mut Machine<'_>, block: u64, keep: usize) -> bool {
        let is_held = self.held.as_ref().is_some_and(|held| held.0 == block);
        if is_held || self.in_flight.contains_key(&block) {
            return true;
        }
        if self.free.len() <= keep.max(1) {
            return false;
        }
        self.submit(machine, block);
        true
    }

    /// Requests blocks in advance, one after the other, until one could not be: how many were.
    pub fn request_all(
        &mut self,
        machine: &mut Machine<'_>,
        blocks: impl IntoIterator<Item = u64>,
        keep: usize,
    ) -> usize {
        blocks.into_iter().take_while(|&block| self.request(machine, block, keep)).count()
    }

    fn submit(&mut self, machine: &mut Machine<'_>, block: u64) {
        let buffer = self.free.pop().expect("a buffer is kept for a block that was not requested");
        let from = self.block * block;
        let size = self.block.min(Bytes(self.length.0 - from.0));
        let (device, offset) = self.region.locate(from);
        self.in_flight.insert(block, machine.submit(device, Operation::Read, offset, size, buffer));
    }

    /// A block's bytes.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    pub fn get(&mut self, machine: &mut Machine<'_>, block: u64) -> Result<&[u8], EmError> {
        if self.held.as_ref().is_none_or(|held| held.0 != block) {
            self.free.extend(self.held.take().map(|held| held.1));
            if !self.in_flight.contains_key(&block) {
                self.submit(machine, block);
            }
            let ticket = self.in_flight.remove(&block).expect("the block was submitted");
            self.held = Some((block, machine.wait(ticket)?));
        }
        Ok(self.held.as_ref().map(|held| &*held.1).unwrap_or_default())
    }

    /// The record of this index.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    pub fn record<T: Record>(&mut self, machine: &mut Machine<'_>, index: u64) -> Result<T, EmError> {
        let block = self.block_of::<T>(index);
        let within = (index * T::SIZE as u64 - block * self.block.0) as usize;
        Ok(T::decode(&self.get(machine, block)?[within..within + T::SIZE]))
    }
}
