//! Reading and writing sequences of bytes in blocks, with the IOs of the next blocks in flight meanwhile.
//!
//! # Model
//! A [`SequenceReader`] has `ahead` blocks requested beyond the one that the algorithm looks at: prefetching. A
//! [`SequenceWriter`] has `behind` blocks in flight beyond the one that is being filled: write-behind. Both depths are
//! chosen from the device ([`Tuning`](crate::Tuning)), and their buffers are leased from the memory budget.
//!
//! Records may cross from one block into the next ([`SequenceReader::of_records`], [`SequenceWriter::of_records`]). A buffer has
//! room for one record beyond its block then, so that whoever looks at a buffer sees whole records: the reader puts the part that
//! the block before it began in front of a block, and the writer moves what does not fit into a block to the next one. On the device the
//! records lie one after the other, as without blocks.
//!
//! # Invariants
//! - A reader issues `ceil(length / block)` reads, a writer as many writes; each is `block` long but for the last one,
//!   which is as short as the machine's unit allows.
//! - A block lies on one device: on several devices, the block divides the stripe unit.
//! - A block is at least as long as a record that crosses blocks. So one record at most crosses into a block.

use std::collections::VecDeque;

use flashlab_base::{Bytes, Operation};
use flashlab_device::Buffer;

use crate::budget::MemoryLease;
use crate::error::EmError;
use crate::extent::Region;
use crate::machine::{Machine, Ticket};

/// What a buffer has beyond its block: room for a record that crosses into the next block, if there is one.
pub(crate) fn crossing_room(block: Bytes, record: usize) -> Bytes {
    if block.0.is_multiple_of(record as u64) { Bytes::ZERO } else { Bytes(record as u64) }
}

/// Records that cross blocks.
#[derive(Debug)]
struct Crossing {
    /// The size of a record.
    record: usize,
    /// The part of a record that is on one side of the end of a block.
    begun: Vec<u8>,
    _lease: MemoryLease,
}

impl Crossing {
    /// The records that cross blocks, if any do, and the size of a buffer.
    fn new(
        machine: &Machine<'_>,
        (block, record): (Bytes, usize),
    ) -> Result<(Option<Box<Crossing>>, Bytes), EmError> {
        let room = crossing_room(block, record);
        if room == Bytes::ZERO {
            return Ok((None, block));
        }
        let lease = machine.budget().lease(room, "a record that crosses blocks")?;
        let crossing = Crossing { record, begun: Vec::with_capacity(record), _lease: lease };
        Ok((Some(Box::new(crossing)), block + room))
    }

    /// Makes the `length` bytes of a block whole records: with the begun one before them, without the one that they begin.
    fn whole_records(&mut self, block: &mut [u8], length: usize) -> usize {
        let begun = self.begun.len();
        block.copy_within(..length, begun);
        block[..begun].copy_from_slice(&self.begun);
        let (whole, rest) = block[..begun + length].split_at((begun + length) / self.record * self.record);
        self.begun.clear();
        self.begun.extend_from_slice(rest);
        whole.len()
    }
}

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
    /// The beginning of the record that the next block ends.
    crossing: Option<Box<Crossing>>,
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
        SequenceReader::of_records(machine, region, (from, length), (block, 1), ahead)
    }

    /// A reader whose blocks have whole records of `record` bytes, wherever the blocks on the device end. Each of them is a block, but for
    /// the part of a record that it begins, with the part of the record that it ends.
    ///
    /// # Errors
    /// As [`SequenceReader::new`].
    pub fn of_records(
        machine: &Machine<'_>,
        region: Region,
        (from, length): (Bytes, Bytes),
        (block, record): (Bytes, usize),
        ahead: usize,
    ) -> Result<SequenceReader, EmError> {
        let blocks = length.0.div_ceil(block.0) as usize;
        let count = (ahead + 1).min(blocks);
        let (crossing, buffer) = Crossing::new(machine, (block, record))?;
        let (free, lease) = machine.budget().buffers(count, buffer, "a reader")?;
        Ok(SequenceReader {
            region,
            block,
            next: from,
            end: from + length,
            requested: VecDeque::with_capacity(count),
            free,
            current: None,
            crossing,
            _lease: lease,
        })
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
        let mut buffer = machine.wait(ticket)?;
        let crossing = self.crossing.as_mut();
        let length = crossing.map_or(length, |crossing| crossing.whole_records(&mut buffer, length));
        Ok(Some((buffer, length)))
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
    /// The buffers that are being filled, and how many bytes they have from `next` on. The first of them ends a record of which the block
    /// before it has a part.
    filling: VecDeque<Buffer>,
    filled: usize,
    /// The end of the record that the block before began: the first bytes of the buffer that is filled first.
    crossing: Option<Box<Crossing>>,
    written: VecDeque<Ticket>,
    free: Vec<Buffer>,
    count: usize,
    _lease: MemoryLease,
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
        SequenceWriter::of_records(machine, region, from, (block, 1), behind)
    }

    /// A writer of whole records of `record` bytes, wherever the blocks on the device end.
    ///
    /// # Errors
    /// As [`SequenceWriter::new`].
    pub fn of_records(
        machine: &Machine<'_>,
        region: Region,
        from: Bytes,
        (block, record): (Bytes, usize),
        behind: usize,
    ) -> Result<SequenceWriter, EmError> {
        let count = behind + 1;
        let (crossing, buffer) = Crossing::new(machine, (block, record))?;
        let (free, lease) = machine.budget().buffers(count, buffer, "a writer")?;
        Ok(SequenceWriter {
            region,
            block,
            next: from,
            filling: VecDeque::with_capacity(count),
            filled: 0,
            crossing,
            written: VecDeque::with_capacity(count),
            free,
            count,
            _lease: lease,
        })
    }

    /// Appends bytes: whole records where they cross blocks.
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

    /// The rest of the block that is being filled, up to the end of the record that crosses its end: never empty.
    ///
    /// # Errors
    /// As [`Machine::wait`], of an earlier write.
    pub fn space<'s>(&'s mut self, machine: &mut Machine<'_>) -> Result<&'s mut [u8], EmError> {
        let length = self.end_of_records(self.filled) - self.filled;
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
        let (mut spans, mut start, mut left) = (Vec::new(), self.filled, length);
        while left > 0 {
            let end = self.end_of_records(start);
            let count = left.min(end - start);
            spans.push(start..start + count);
            left -= count;
            start = end - self.block.0 as usize;
        }
        self.take_buffers(machine, spans.len())?;
        Ok(self.filling.iter_mut().zip(spans).map(|(buffer, span)| &mut buffer[span]).collect())
    }

    /// Where the records that follow one another in a buffer from `from` on have filled its block.
    fn end_of_records(&self, from: usize) -> usize {
        let record = self.crossing.as_ref().map_or(1, |crossing| crossing.record);
        from + (self.block.0 as usize - from).next_multiple_of(record)
    }

    /// Takes buffers until `count` are being filled.
    fn take_buffers(&mut self, machine: &mut Machine<'_>, count: usize) -> Result<(), EmError> {
        while self.filling.len() < count {
            let mut buffer = match self.free.pop() {
                Some(buffer) => buffer,
                None => machine.wait(self.written.pop_front().expect("a buffer is free or in flight"))?,
            };
            if let (true, Some(Crossing { begun, .. })) = (self.filling.is_empty(), self.crossing.as_deref())
            {
                buffer[..begun.len()].copy_from_slice(begun);
            }
            self.filling.push_back(buffer);
        }
        Ok(())
    }

    /// Says that the first `count` bytes of the space were filled.
    pub fn advance(&mut self, machine: &mut Machine<'_>, count: usize) {
        self.filled += count;
        while self.filled >= self.block.0 as usize {
            self.submit(machine, self.block.0 as usize);
        }
    }

    /// Writes the block that is being filled as it is, and goes on at the next block's offset. Returns where it ended.
    ///
    /// # Errors
    /// As [`Machine::wait`], of an earlier write.
    pub fn end_block(&mut self, machine: &mut Machine<'_>) -> Result<Bytes, EmError> {
        let end = self.position();
        if self.filled > 0 {
            self.take_buffers(machine, 1)?;
            self.submit(machine, self.filled);
            self.next = self.next.round_up(self.block);
        }
        Ok(end)
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
        let end = self.end_block(machine)?;
        for ticket in self.written.drain(..) {
            machine.wait(ticket)?;
        }
        Ok(end)
    }

    /// Writes the first `length` bytes of the first buffer.
    fn submit(&mut self, machine: &mut Machine<'_>, length: usize) {
        let mut buffer = self.filling.pop_front().expect("a buffer is being filled");
        let begun = self.crossing.as_ref().map_or(0, |crossing| crossing.begun.len());
        let end = if length < self.block.0 as usize { length } else { self.end_of_records(begun) };
        if let Some(Crossing { begun, .. }) = self.crossing.as_deref_mut() {
            begun.clear();
            begun.extend_from_slice(&buffer[length..end]);
            if let Some(next) = self.filling.front_mut() {
                next[..begun.len()].copy_from_slice(begun);
            }
        }
        let size = Bytes(length as u64).round_up(machine.unit());
        buffer[length..size.0 as usize].fill(0);
        let (device, offset) = self.region.locate(self.next);
        self.written.push_back(machine.submit(device, Operation::Write, offset, size, buffer));
        self.next += Bytes(length as u64);
        self.filled -= length;
    }
}
