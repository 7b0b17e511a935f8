//! Sequences of records on the machine's devices, and the space that algorithms on graphs and lists work in.
//!
//! # Model
//! A [`Record`] has a fixed size that divides every block, so that no record crosses an IO. A [`Workspace`] has the machine,
//! its free space and the sizes of the IOs. Each record that is read or written costs the host time of one element.
//!
//! # Invariants
//! - The bytes of two records compare as the records do: the fields are big-endian and in the order of `Ord`.
//! - All buffers are leased from the machine's budget.

use std::marker::PhantomData;

use flashlab_base::Bytes;

use crate::error::EmError;
use crate::extent::{ExtentAllocator, Region, Spread};
use crate::machine::Machine;
use crate::sequence::{SequenceReader, SequenceWriter};

/// A value of fixed size that sequences are made of.
pub trait Record: Copy + Ord {
    /// Its bytes: a power of two, at most 512.
    const SIZE: usize;

    /// Writes it to exactly [`Record::SIZE`] bytes.
    fn encode(&self, bytes: &mut [u8]);

    /// Reads it from exactly [`Record::SIZE`] bytes.
    fn decode(bytes: &[u8]) -> Self;
}

/// The machine with its free space and the sizes of IOs.
pub struct Workspace<'m, 'a> {
    /// Devices, memory, clock and ledger.
    pub machine: &'m mut Machine<'a>,
    /// The space that no sequence takes.
    pub space: ExtentAllocator,
    /// The size of an IO of a sequence.
    pub block: Bytes,
    /// How many blocks a reader requests in advance and a writer has in flight.
    pub ahead: usize,
}

/// Records on devices.
#[derive(Debug)]
pub struct Stored<T> {
    region: Region,
    count: u64,
    kind: PhantomData<T>,
}

impl<T> Stored<T> {
    /// How many records.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Where they lie.
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl<T: Record> Stored<T> {
    /// A reader of all records in blocks of at most `block`, with `ahead` of them requested in advance.
    ///
    /// # Errors
    /// [`EmError::Memory`].
    pub fn reader(
        &self,
        machine: &Machine<'_>,
        block: Bytes,
        ahead: usize,
    ) -> Result<RecordReader<T>, EmError> {
        let length = self.count * T::SIZE as u64;
        let block = block.min(Bytes(length.max(1)).round_up(machine.unit()));
        let range = (Bytes::ZERO, Bytes(length));
        let reader = SequenceReader::new(machine, self.region.clone(), range, block, ahead)?;
        Ok(RecordReader { reader, at: 0, length: 0, kind: PhantomData })
    }

    /// A second name for the same records.
    pub(crate) fn alias(&self) -> Stored<T> {
        Stored { region: self.region.clone(), count: self.count, kind: PhantomData }
    }
}

impl Workspace<'_, '_> {
    /// A writer of at most `most` records.
    ///
    /// # Errors
    /// [`EmError::Space`] and [`EmError::Memory`].
    pub fn write<T: Record>(&mut self, most: u64, spread: Spread) -> Result<RecordWriter<T>, EmError> {
        let region = self.space.allocate(Bytes(most.max(1) * T::SIZE as u64), spread)?;
        let length = Bytes((most * T::SIZE as u64).max(1));
        let block = self.block.min(length.round_up(self.machine.unit()));
        let blocks = length.0.div_ceil(block.0) as usize;
        let behind = self.ahead.min(blocks - 1);
        let writer = SequenceWriter::new(self.machine, region.clone(), Bytes::ZERO, block, behind);
        match writer {
            Ok(writer) => Ok(RecordWriter { writer, region, most, count: 0, computed: 0, kind: PhantomData }),
            Err(error) => {
                self.space.release(&region);
                Err(error)
            }
        }
    }

    /// A reader of all records of a sequence.
    ///
    /// # Errors
    /// [`EmError::Memory`].
    pub fn read<T: Record>(&mut self, stored: &Stored<T>) -> Result<RecordReader<T>, EmError> {
        stored.reader(self.machine, self.block, self.ahead)
    }

    /// Frees the space of a sequence.
    pub fn free<T>(&mut self, stored: Stored<T>) {
        self.space.release(&stored.region);
    }
}

/// Writes records one after the other.
pub struct RecordWriter<T> {
    writer: SequenceWriter,
    region: Region,
    most: u64,
    count: u64,
    /// How many records have cost host time.
    computed: u64,
    kind: PhantomData<T>,
}

impl<T: Record> RecordWriter<T> {
    /// Appends a record.
    ///
    /// # Errors
    /// As [`Machine::wait`], of an earlier write.
    ///
    /// # Panics
    /// When more records are written than were announced: the caller's mistake.
    #[inline]
    pub fn push(&mut self, machine: &mut Machine<'_>, record: T) -> Result<(), EmError> {
        assert!(self.count < self.most, "more than the {} records that were announced", self.most);
        let space = self.writer.space(machine)?;
        let is_last = space.len() == T::SIZE;
        record.encode(&mut space[..T::SIZE]);
        self.count += 1;
        if is_last {
            machine.compute(self.count - self.computed);
            self.computed = self.count;
        }
        self.writer.advance(machine, T::SIZE);
        Ok(())
    }

    /// How many records were written.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes what is left, and waits for all writes.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    pub fn finish(self, machine: &mut Machine<'_>) -> Result<Stored<T>, EmError> {
        machine.compute(self.count - self.computed);
        self.writer.finish(machine)?;
        Ok(Stored { region: self.region, count: self.count, kind: PhantomData })
    }
}

/// Reads records one after the other.
pub struct RecordReader<T> {
    reader: SequenceReader,
    /// The next record in the block, and the block's end.
    at: usize,
    length: usize,
    kind: PhantomData<T>,
}

impl<T: Record> RecordReader<T> {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    #[inline]
    pub fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<T>, EmError> {
        if self.at == self.length {
            self.at = 0;
            self.length = self.reader.next_block(machine)?.map_or(0, <[u8]>::len);
            if self.length == 0 {
                return Ok(None);
            }
            machine.compute((self.length / T::SIZE) as u64);
        }
        let record = T::decode(&self.reader.current()[self.at..self.at + T::SIZE]);
        self.at += T::SIZE;
        Ok(Some(record))
    }
}

/// Two numbers, ordered by the first: an arc, a node with its level, an element with its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// What it is sorted by.
    pub first: u32,
    /// What belongs to it.
    pub second: u32,
}

/// Three numbers, ordered by the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Triple {
    /// What it is sorted by first.
    pub first: u32,
    /// What it is sorted by next.
    pub second: u32,
    /// What belongs to them.
    pub third: u64,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Record for u32 {
    const SIZE: usize = 4;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_be_bytes());
    }

    #[inline]
    fn decode(bytes: &[u8]) -> u32 {
        number(bytes, 0)
    }
}

impl Record for u64 {
    const SIZE: usize = 8;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_be_bytes());
    }

    #[inline]
    fn decode(bytes: &[u8]) -> u64 {
        u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
    }
}

impl Record for Pair {
    const SIZE: usize = 8;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.first.to_be_bytes());
        bytes[4..].copy_from_slice(&self.second.to_be_bytes());
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Pair {
        Pair { first: number(bytes, 0), second: number(bytes, 4) }
    }
}

impl Record for Triple {
    const SIZE: usize = 16;

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.first.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.second.to_be_bytes());
        bytes[8..].copy_from_slice(&self.third.to_be_bytes());
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Triple {
        let third = u64::from_be_bytes(bytes[8..16].try_into().expect("eight bytes"));
        Triple { first: number(bytes, 0), second: number(bytes, 4), third }
    }
}
