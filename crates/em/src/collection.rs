//! Records that are collected in any order and read sorted, in memory as long as they fit.
//!
//! # Model
//! External merge sort with its last merge left to the reader: a [`Collection`] has a share of the memory. When that is full, it
//! is sorted and written as a run. What is collected is read by merging the runs, so that the sorted sequence is never
//! written. What fits into the share costs no IO. A collection that keeps the order reads its runs one after the other.
//!
//! It shares no code with [`sort`](crate::sort()), which takes a stored sequence of untyped records, has all the memory and all cores, and
//! writes its result in large blocks: here records come one by one, many collections share the memory, and the library's sort and heap
//! suffice, because the graph's computation on each record takes longer.
//!
//! # Invariants
//! - The share is leased from the budget from the first record to the last reader.
//! - A cursor yields each record once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use flashlab_base::Bytes;

use crate::budget::{MemoryBudget, MemoryLease};
use crate::error::EmError;
use crate::extent::Spread;
use crate::machine::Machine;
use crate::records::{Record, RecordReader, Stored, Workspace};

/// In which order a collection is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionOrder {
    /// By the records' order.
    Sorted,
    /// As they came.
    Kept,
}

/// Records that are being collected.
pub struct Collection<T> {
    order: CollectionOrder,
    spread: Spread,
    records: Vec<T>,
    /// How many records the share holds.
    capacity: usize,
    lease: MemoryLease,
    runs: Vec<Stored<T>>,
    count: u64,
}

/// Records that were collected.
pub struct Collected<T> {
    order: CollectionOrder,
    count: u64,
    runs: Vec<Stored<T>>,
    records: Rc<Vec<T>>,
    _lease: MemoryLease,
}

impl<T: Record> Collection<T> {
    /// An empty collection that takes at most `share` of the memory and spills to `spread`.
    ///
    /// # Errors
    /// [`EmError::Memory`] when less than the share is left.
    pub fn new(
        workspace: &Workspace<'_, '_>,
        order: CollectionOrder,
        share: Bytes,
        spread: Spread,
    ) -> Result<Collection<T>, EmError> {
        let lease = workspace.machine.budget().lease(share, "a collection")?;
        let capacity = (share.0 as usize / size_of::<T>()).max(1);
        Ok(Collection { order, spread, records: Vec::new(), capacity, lease, runs: Vec::new(), count: 0 })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Those of writing a run.
    #[inline]
    pub fn push(&mut self, workspace: &mut Workspace<'_, '_>, record: T) -> Result<(), EmError> {
        if self.records.len() == self.capacity {
            self.spill(workspace)?;
        }
        if self.records.len() == self.records.capacity() {
            // Doubling must not take more than the share.
            let more = self.records.len().max(64).min(self.capacity - self.records.len());
            self.records.reserve_exact(more);
        }
        self.records.push(record);
        self.count += 1;
        Ok(())
    }

    /// How many records were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn spill(&mut self, workspace: &mut Workspace<'_, '_>) -> Result<(), EmError> {
        self.arrange(workspace.machine);
        let mut writer = workspace.write(self.records.len() as u64, self.spread)?;
        for &record in &self.records {
            writer.push(workspace.machine, record)?;
        }
        self.runs.push(writer.finish(workspace.machine)?);
        self.records.clear();
        Ok(())
    }

    fn arrange(&mut self, machine: &mut Machine<'_>) {
        machine.compute(self.records.len() as u64);
        if self.order == CollectionOrder::Sorted {
            self.records.sort_unstable();
        }
    }

    /// Ends collecting. Where runs were written, the last one is, too, and gives its memory to the readers.
    ///
    /// # Errors
    /// Those of writing a run.
    pub fn finish(mut self, workspace: &mut Workspace<'_, '_>) -> Result<Collected<T>, EmError> {
        if !self.runs.is_empty() && !self.records.is_empty() {
            self.spill(workspace)?;
        }
        self.arrange(workspace.machine);
        self.records.shrink_to_fit();
        let in_memory = Bytes((self.records.len() * size_of::<T>()) as u64);
        drop(self.lease);
        let lease = workspace.machine.budget().lease(in_memory, "a collection")?;
        Ok(Collected {
            order: self.order,
            count: self.count,
            runs: self.runs,
            records: Rc::new(self.records),
            _lease: lease,
        })
    }
}

impl<T: Record> Collected<T> {
    /// How many records there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A cursor at the first record.
    ///
    /// # Errors
    /// [`EmError::Memory`] when not even the smallest blocks of all runs fit.
    pub fn cursor(&self, workspace: &mut Workspace<'_, '_>) -> Result<Cursor<T>, EmError> {
        match self.order {
            _ if self.runs.is_empty() => Ok(Cursor::Memory(Rc::clone(&self.records), 0)),
            CollectionOrder::Sorted => Cursor::merged(workspace, &self.runs.iter().collect::<Vec<_>>()),
            CollectionOrder::Kept => {
                let runs = self.runs.iter().map(Stored::alias).collect();
                let (block, ahead) = (workspace.block, workspace.ahead);
                Ok(Cursor::Chained(Chain { runs, block, ahead, reader: None }))
            }
        }
    }

    /// Frees the space of the runs.
    pub fn free(self, workspace: &mut Workspace<'_, '_>) {
        for run in self.runs {
            workspace.free(run);
        }
    }
}

/// Yields records in order.
pub enum Cursor<T> {
    /// Of a collection in memory.
    Memory(Rc<Vec<T>>, usize),
    /// Of runs one after the other.
    Chained(Chain<T>),
    /// Of sorted runs.
    Merged(Merge<T>),
}

/// Runs that are read one after the other: only one has a reader.
pub struct Chain<T> {
    runs: VecDeque<Stored<T>>,
    block: Bytes,
    ahead: usize,
    reader: Option<RecordReader<T>>,
}

/// Sorted runs that are being merged: the heap has the next record of each.
pub struct Merge<T> {
    readers: Vec<RecordReader<T>>,
    heads: BinaryHeap<Reverse<(T, usize)>>,
    is_begun: bool,
}

impl<T: Record> Cursor<T> {
    /// A cursor over sorted sequences, merged.
    ///
    /// # Errors
    /// [`EmError::Memory`] when not even the smallest blocks of all of them fit.
    pub fn merged(workspace: &mut Workspace<'_, '_>, runs: &[&Stored<T>]) -> Result<Cursor<T>, EmError> {
        // Half of what is left is for the runs: whole blocks with prefetching, or as small as a buffer can be without.
        let share = Bytes(workspace.machine.budget().left().0 / 2 / runs.len().max(1) as u64);
        let smallest = MemoryBudget::buffer_size(Bytes(1));
        let fits = |ahead: usize| share.0 / (ahead as u64 + 1) >= smallest.0;
        let ahead = if fits(workspace.ahead) { workspace.ahead } else { 0 };
        // Halved, so that a block still divides the unit of a striped region.
        let mut block = workspace.block;
        while block.0 * (ahead as u64 + 1) > share.0 && block.0 / 2 >= smallest.0 {
            block = Bytes(block.0 / 2);
        }
        let readers: Result<Vec<_>, _> =
            runs.iter().map(|run| run.reader(workspace.machine, block, ahead)).collect();
        Ok(Cursor::Merged(Merge { readers: readers?, heads: BinaryHeap::new(), is_begun: false }))
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    #[inline]
    pub fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<T>, EmError> {
        match self {
            Cursor::Memory(records, at) => {
                *at += 1;
                Ok(records.get(*at - 1).copied())
            }
            Cursor::Chained(chain) => chain.next(machine),
            Cursor::Merged(merge) => merge.next(machine),
        }
    }
}

impl<T: Record> Chain<T> {
    fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<T>, EmError> {
        loop {
            if let Some(reader) = &mut self.reader {
                if let Some(record) = reader.next(machine)? {
                    return Ok(Some(record));
                }
                self.reader = None;
            }
            let Some(run) = self.runs.pop_front() else { return Ok(None) };
            self.reader = Some(run.reader(machine, self.block, self.ahead)?);
        }
    }
}

impl<T: Record> Merge<T> {
    fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<T>, EmError> {
        if !self.is_begun {
            self.is_begun = true;
            for (index, reader) in self.readers.iter_mut().enumerate() {
                self.heads.extend(reader.next(machine)?.map(|record| Reverse((record, index))));
            }
        }
        let Some(mut least) = self.heads.peek_mut() else { return Ok(None) };
        let Reverse((record, index)) = *least;
        match self.readers[index].next(machine)? {
            Some(next) => *least = Reverse((next, index)),
            None => drop(std::collections::binary_heap::PeekMut::pop(least)),
        }
        Ok(Some(record))
    }
}

/// A cursor whose next record can be looked at.
pub struct Peek<T> {
    cursor: Cursor<T>,
    /// The next record, where it was looked at.
    head: Option<Option<T>>,
}

impl<T: Record> Peek<T> {
    /// Looks ahead in this cursor.
    pub fn new(cursor: Cursor<T>) -> Peek<T> {
        Peek { cursor, head: None }
    }

    /// The next record, which stays the next one.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    #[inline]
    pub fn peek(&mut self, machine: &mut Machine<'_>) -> Result<Option<T>, EmError> {
        match self.head {
            Some(head) => Ok(head),
            None => {
                let head = self.cursor.next(machine)?;
                self.head = Some(head);
                Ok(head)
            }
        }
    }

    /// The next record.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    #[inline]
    pub fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<T>, EmError> {
        match self.head.take() {
            Some(head) => Ok(head),
            None => self.cursor.next(machine),
        }
    }

    /// Whether the cursor has a record with this key; records with smaller keys are passed over.
    ///
    /// # Errors
    /// As [`Machine::wait`].
    #[inline]
    pub fn seek<K: Ord>(
        &mut self,
        machine: &mut Machine<'_>,
        key: K,
        of: impl Fn(&T) -> K,
    ) -> Result<Option<T>, EmError> {
        while let Some(head) = self.peek(machine)? {
            match of(&head).cmp(&key) {
                std::cmp::Ordering::Less => self.head = None,
                std::cmp::Ordering::Equal => return Ok(Some(head)),
                std::cmp::Ordering::Greater => return Ok(None),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Nanos, Prng, Seed};
    use flashlab_device::MemoryDevice;

    use super::*;
    use crate::extent::ExtentAllocator;
    use crate::machine::HostTime;
    use crate::records::Pair;

    fn with_workspace(memory: Bytes, test: impl FnOnce(&mut Workspace<'_, '_>)) {
        let device = MemoryDevice::new(Bytes::mib(8), Nanos(1000));
        let mut machine = Machine::new(vec![Box::new(device)], memory, HostTime::Declared(Nanos(1))).unwrap();
        let space = ExtentAllocator::new(&machine);
        let mut workspace = Workspace { machine: &mut machine, space, block: Bytes::kib(8), ahead: 1 };
        test(&mut workspace);
    }

    fn collect(workspace: &mut Workspace<'_, '_>, order: CollectionOrder, pairs: &[Pair]) -> Vec<Pair> {
        let mut collection = Collection::new(workspace, order, Bytes::kib(64), Spread::On(0)).unwrap();
        for &pair in pairs {
            collection.push(workspace, pair).unwrap();
        }
        let collected = collection.finish(workspace).unwrap();
        assert_eq!(collected.count(), pairs.len() as u64);
        let mut cursor = collected.cursor(workspace).unwrap();
        let mut read = Vec::new();
        while let Some(pair) = cursor.next(workspace.machine).unwrap() {
            read.push(pair);
        }
        drop(cursor);
        collected.free(workspace);
        read
    }

    #[test]
    fn what_does_not_fit_is_spilled_and_read_in_order() {
        let mut prng = Prng::new(Seed(4));
        for count in [0, 1, 8_000, 50_000] {
            let pairs: Vec<Pair> = (0..count)
                .map(|_| Pair { first: prng.below(1000) as u32, second: prng.next_u64() as u32 })
                .collect();
            let mut sorted = pairs.clone();
            sorted.sort_unstable();
            with_workspace(Bytes::kib(256), |workspace| {
                assert!(collect(workspace, CollectionOrder::Sorted, &pairs) == sorted);
                assert!(collect(workspace, CollectionOrder::Kept, &pairs) == pairs);
                let budget = workspace.machine.budget();
                assert_eq!(budget.left(), budget.limit(), "leases are left over");
                assert_eq!(workspace.space.free_on(0), Bytes::mib(8), "space is left over");
                let is_small = count * 8 <= 64 << 10;
                assert_eq!(workspace.machine.ledger().total().issued.total() == 0, is_small);
            });
        }
    }

    #[test]
    fn too_little_memory_is_an_error() {
        with_workspace(Bytes::kib(32), |workspace| {
            let collection =
                Collection::<Pair>::new(workspace, CollectionOrder::Sorted, Bytes::kib(64), Spread::On(0));
            let Err(error) = collection else { panic!("it has no memory") };
            assert_eq!(
                error.to_string(),
                "a collection needs 64 KiB of memory, and 32 KiB of 32 KiB are left: give more memory"
            );
        });
    }

    #[test]
    fn seeking_passes_smaller_keys_over() {
        let records = [1, 3, 3, 7].map(|first| Pair { first, second: 0 }).to_vec();
        with_workspace(Bytes::kib(64), |workspace| {
            let mut peek = Peek::new(Cursor::Memory(Rc::new(records), 0));
            let mut seek = |key| peek.seek(workspace.machine, key, |pair| pair.first).unwrap().is_some();
            assert_eq!([0, 1, 2, 3, 7, 8].map(&mut seek), [false, true, false, true, true, false]);
        });
    }
}
