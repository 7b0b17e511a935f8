//! Reading and writing sequences of bytes in blocks, with the IOs of the next blocks in flight meanwhile.
//!
//! # Model
//! A [`SequenceReader`] has `ahead` blocks requested beyond the one that the algorithm looks at: prefetching. A
//! [`SequenceWriter`] has `behind` blocks in flight beyond the one that is being filled: write-behind. Both depths are
//! chosen from the device ([`Tuning`](crate::Tuning)), and their buffers are leased from the memory budget.
//!
//! # Invariants
//! - A reader issues `ceil(length / block)` reads, a writer as many writes; each is `block` long but for the last one,
//!   which is as short as the machine's unit allows.
//! - A block lies on one device: on several devices, the block divides the stripe unit.

use std::collections::VecDeque;

use flashlab_base::{Bytes, Operation};
use flashlab_device::Buffer;

use crate::budget::MemoryLease;
use crate::error::EmError;
use crate::extent::Region;
use crate::machine::{Machine, Ticket};

/// Reads a part of a region in order.
#[derive(Debug)]
pub struct SequenceReader {
    region: Region,
    block: Bytes,
    /// The next byte to request, and the end.
    next: Bytes,
    end: Bytes,
    requested: VecDeque<(Ticket, usize)>,
    free: Vec<Buffer>,
    /// The block that the algorithm looks at.
    current: Option<Buffer>,
    _lease: MemoryLease,
}

impl SequenceReader {
    /// A reader of the `length` bytes from `from` on, with `ahead` blocks requested in advance. Nothing is requested yet.
    ///
    /// # Errors
    /// [`EmError::Memory`] when the budget lacks `ahead + 1` blocks.
    pub fn new(
        machine: &Machine<'_>,
        region: Region,
        (from, length): (Bytes, Bytes),
        block: Bytes,
        ahead: usize,
    ) -> Result<SequenceReader, EmError> {
        let blocks = length.0.div_ceil(block.0) as usize;
        let count = (ahead + 1).min(blocks);
        let (free, lease) = machine.budget().buffers(count, block, "a reader")?;
        let requested = VecDeque::with_capacity(count);
        let (next, end) = (from, from + length);
        Ok(SequenceReader { region, block, next, end, requested, free, current: None, _lease: lease })
    }

    /// Requests blocks as long as buffers are free.
    pub fn prefetch(&mut self, machine: &mut Machine<'_>) {
        while self.next < self.end
            && let Some(buffer) = self.free.pop()
        {
            let length = (self.end.0 - self.next.0).min(self.block.0);
            let (device, offset) = self.region.locate(self.next);
            let size = Bytes(length).round_up(machine.unit());
            let ticket = machine.submit(device, Operation::Read, offset, size, buffer);
            self.requested.push_back((ticket, length as usize));
            self.next += Bytes(length);
        }
    }

    /// The next block's bytes; `None` at the end. The block before it is given up.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    pub fn next_block<'s>(&'s mut self, machine: &mut Machine<'_>) -> Result<Option<&'s [u8]>, EmError> {
        self.free.extend(self.current.take());
        match self.take(machine)? {
            Some((buffer, length)) => Ok(Some(&self.current.insert(buffer)[..length])),
            None => Ok(None),
        }
    }

    /// The next block's buffer and the length of its data; `None` at the end. It has to be given back
    /// ([`SequenceReader::give_back`]), or another one of the same size.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    pub fn take(&mut self, machine: &mut Machine<'_>) -> Result<Option<(Buffer, usize)>, EmError> {
        self.prefetch(machine);
        let Some((ticket, length)) = self.requested.pop_front() else { return Ok(None) };
        Ok(Some((machine.wait(ticket)?, length)))
    }

    /// Returns a buffer for the blocks to come.
    pub fn give_back(&mut self, buffer: Buffer) {
        self.free.push(buffer);
    }

    /// Whether the next block can be taken without waiting.
    pub fn is_next_there(&self, machine: &mut Machine<'_>) -> bool {
        self.requested.front().is_some_and(|&(ticket, _)| machine.is_done(ticket))
    }

    /// Whether a block follows the current one.
    pub fn has_more(&self) -> bool {
        self.next < self.end || !self.requested.is_empty()
    }

    /// The block that [`SequenceReader::next_block`] returned last, with its padding.
    pub fn current(&self) -> &[u8] {
        self.current.as_deref().unwrap_or_default()
    }
}

/// Writes a region in order.
#[derive(Debug)]
pub struct SequenceWriter {
    region: Region,
    block: Bytes,
    next: Bytes,
    /// The buffers that are being filled, the first of them with `filled` bytes.
    filling: VecDeque<Buffer>,
    filled: usize,
    written: VecDeque<Ticket>,
    free: Vec<Buffer>,
    count: usize,
    lease: MemoryLease,
}

impl SequenceWriter {
    /// A writer to the region from `from` on, with `behind` blocks in flight beyond the one that is being filled.
    ///
    /// # Errors
    /// [`EmError::Memory`] when the budget lacks `behind + 1` blocks.
    pub fn new(
        machine: &Machine<'_>,
        region: Region,
        from: Bytes,
        block: Bytes,
        behind: usize,
    ) -> Result<SequenceWriter, EmError> {
        let count = behind + 1;
        let (free, lease) = machine.budget().buffers(count, block, "a writer")?;
        let (filling, written) = (VecDeque::with_capacity(count), VecDeque::with_capacity(count));
        Ok(SequenceWriter { region, block, next: from, filling, filled: 0, written, free, count, lease })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// As [`Machine::wait`], of an earlier write.
    pub fn write(&mut self, machine: &mut Machine<'_>, mut bytes: &[u8]) -> Result<(), EmError> {
        while !bytes.is_empty() {
            let space = self.space(machine)?;
            let (now, later) = bytes.split_at(bytes.len().min(space.len()));
            space[..now.len()].copy_from_slice(now);
            self.advance(machine, now.len());
            bytes = later;
        }
        Ok(())
    }

    /// Appends `length` bytes of whatever its blocks hold, to measure what writing takes.
    ///
    /// # Errors
    /// As [`Machine::wait`], of an earlier write.
    pub(crate) fn write_anything(&mut self, machine: &mut Machine<'_>, length: Bytes) -> Result<(), EmError> {
        let mut left = length.0 as usize;
        while left > 0 {
            let count = self.space(machine)?.len().min(left);
            self.advance(machine, count);
            left -= count;
        }
        Ok(())
    }

    /// The rest of the block that is being filled: never empty.
    ///
    /// # Errors
    /// As [`Machine::wait`], of an earlier write.
    pub fn space<'s>(&'s mut self, machine: &mut Machine<'_>) -> Result<&'s mut [u8], EmError> {
        let length = self.block.0 as usize - self.filled;
        let mut spaces = self.spaces(machine, length)?;
        Ok(spaces.remove(0))
    }

    /// How many bytes can be prepared at a time while half of the blocks are in flight. At least the rest of a block.
    pub fn batch(&self) -> usize {
        self.batch_blocks() * self.block.0 as usize - self.filled
    }

    fn batch_blocks(&self) -> usize {
        (self.count / 2).max(1)
    }

    /// Whether [`SequenceWriter::batch`] bytes can be prepared without waiting for a write.
    pub fn is_batch_free(&self, machine: &mut Machine<'_>) -> bool {
        let needed = self.batch_blocks().saturating_sub(self.filling.len() + self.free.len());
        self.written.iter().take(needed).all(|&ticket| machine.is_done(ticket))
    }

    /// Space for the next `length` bytes, at most [`SequenceWriter::batch`], in one span for each block.
    ///
    /// # Errors
    /// As [`Machine::wait`], of an earlier write.
    pub fn spaces<'s>(
        &'s mut self,
        machine: &mut Machine<'_>,
        length: usize,
    ) -> Result<Vec<&'s mut [u8]>, EmError> {
        let block = self.block.0 as usize;
        while self.filling.len() * block < self.filled + length {
            let buffer = match self.free.pop() {
                Some(buffer) => buffer,
                None => machine.wait(self.written.pop_front().expect("a buffer is free or in flight"))?,
            };
            self.filling.push_back(buffer);
        }
        let (mut start, mut left) = (self.filled, length);
        let spans = self.filling.iter_mut().map_while(|buffer| {
            let span = &mut buffer[start..block.min(start + left)];
            left -= span.len();
            start = 0;
            (!span.is_empty()).then_some(span)
        });
        Ok(spans.collect())
    }

    /// Says that the first `count` bytes of the space were filled.
    pub fn advance(&mut self, machine: &mut Machine<'_>, count: usize) {
        self.filled += count;
        while self.filled >= self.block.0 as usize {
            self.submit(machine, self.block.0 as usize);
        }
    }

    /// Writes the block that is being filled as it is, and goes on at the next block's offset. Returns where it ended.
    pub fn end_block(&mut self, machine: &mut Machine<'_>) -> Bytes {
        let end = self.next + Bytes(self.filled as u64);
        if self.filled > 0 {
            self.submit(machine, self.filled);
            self.next = self.next.round_up(self.block);
        }
        end
    }

    /// Where the next byte goes.
    pub fn position(&self) -> Bytes {
        self.next + Bytes(self.filled as u64)
    }

    /// Writes what is left, and waits for all writes. Returns the end of what was written.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    pub fn finish(mut self, machine: &mut Machine<'_>) -> Result<Bytes, EmError> {
        let end = self.end_block(machine);
        for ticket in self.written.drain(..) {
            machine.wait(ticket)?;
        }
        drop(self.lease);
        Ok(end)
    }

    /// Writes the first `length` bytes of the first buffer.
    fn submit(&mut self, machine: &mut Machine<'_>, length: usize) {
        let mut buffer = self.filling.pop_front().expect("a buffer is being filled");
        let size = Bytes(length as u64).round_up(machine.unit());
        buffer[length..size.0 as usize].fill(0);
        let (device, offset) = self.region.locate(self.next);
        self.written.push_back(machine.submit(device, Operation::Write, offset, size, buffer));
        self.next += Bytes(length as u64);
        self.filled -= length;
    }
}
