//! A binary heap of records in one array, without pointers: all memory holds records.
//!
//! # Invariants
//! - The first `count` records of the array are a heap: no record goes before its parent.

use std::cmp::Ordering;

use flashlab_base::Bytes;

use crate::budget::{MemoryBudget, MemoryLease};
use crate::error::EmError;
use crate::record_format::RecordFormat;

/// A heap of records, with the record on top that goes first by `order`.
pub struct RecordHeap {
    records: Vec<u8>,
    count: usize,
    size: usize,
    _lease: MemoryLease,
}

impl RecordHeap {
    /// An empty array for `capacity` records.
    ///
    /// # Errors
    /// [`EmError::Memory`].
    pub fn new(budget: &MemoryBudget, format: &RecordFormat, capacity: usize) -> Result<RecordHeap, EmError> {
        let size = format.size();
        let lease = budget.lease(Bytes((capacity * size) as u64), "a heap of records")?;
        Ok(RecordHeap { records: Vec::with_capacity(capacity * size), count: 0, size, _lease: lease })
    }

    /// The number of records in the heap.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the array is full: the heap, and what lies behind it.
    pub fn is_full(&self) -> bool {
        self.records.len() + self.size > self.records.capacity()
    }

    /// The record that goes first.
    pub fn top(&self) -> Option<&[u8]> {
        (self.count > 0).then(|| self.at(0))
    }

    /// Adds a record to the heap, which must fill the array.
    pub fn push(&mut self, record: &[u8], order: impl Fn(&[u8], &[u8]) -> Ordering) {
        self.records.extend_from_slice(record);
        let mut at = self.count;
        self.count += 1;
        while at > 0 && order(self.at(at), self.at((at - 1) / 2)).is_lt() {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Replaces the top.
    pub fn replace_top(&mut self, record: &[u8], order: impl Fn(&[u8], &[u8]) -> Ordering) {
        self.records[..self.size].copy_from_slice(record);
        self.sift_down(0, &order);
    }

    /// Takes the top out of the heap and lays it behind the heap.
    pub fn pop_behind(&mut self, order: impl Fn(&[u8], &[u8]) -> Ordering) {
        self.count -= 1;
        self.swap(0, self.count);
        self.sift_down(0, &order);
    }

    /// Overwrites the first record behind the heap.
    pub fn set_behind(&mut self, record: &[u8]) {
        let at = self.count * self.size;
        self.records[at..at + self.size].copy_from_slice(record);
    }

    /// Makes one heap of the whole array.
    pub fn heapify(&mut self, order: impl Fn(&[u8], &[u8]) -> Ordering) {
        self.count = self.records.len() / self.size;
        for at in (0..self.count / 2).rev() {
            self.sift_down(at, &order);
        }
    }

    /// Removes the top from the array.
    pub fn remove_top(&mut self, order: impl Fn(&[u8], &[u8]) -> Ordering) {
        self.pop_behind(order);
        self.swap(self.count, self.records.len() / self.size - 1);
        self.records.truncate(self.records.len() - self.size);
    }

    /// The whole array: the heap and what lies behind it.
    pub fn array(&self) -> &[u8] {
        &self.records
    }

    /// Empties the array.
    pub fn clear(&mut self) {
        self.records.clear();
        self.count = 0;
    }

    fn at(&self, index: usize) -> &[u8] {
        &self.records[index * self.size..][..self.size]
    }

    fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            let (low, high) = (a.min(b) * self.size, a.max(b) * self.size);
            let (head, tail) = self.records.split_at_mut(high);
            head[low..low + self.size].swap_with_slice(&mut tail[..self.size]);
        }
    }

    fn sift_down(&mut self, mut at: usize, order: &impl Fn(&[u8], &[u8]) -> Ordering) {
        loop {
            let mut first = 2 * at + 1;
            if first >= self.count {
                return;
            }
            if first + 1 < self.count && order(self.at(first + 1), self.at(first)).is_lt() {
                first += 1;
            }
            if order(self.at(first), self.at(at)).is_ge() {
                return;
            }
            self.swap(first, at);
            at = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn popping_behind_sorts_the_array() {
        let format = RecordFormat::new(Bytes(4), 0..2).unwrap();
        let budget = MemoryBudget::new(Bytes(400));
        let mut heap = RecordHeap::new(&budget, &format, 100).unwrap();
        let mut prng = Prng::new(Seed(4));
        let mut expected = Vec::new();
        while !heap.is_full() {
            let record = (prng.next_u64() as u32).to_be_bytes();
            expected.push(record);
            heap.push(&record, |a, b| b.cmp(a));
        }
        assert_eq!((heap.count(), heap.top().unwrap()), (100, &expected.iter().max().unwrap()[..]));
        while heap.count() > 0 {
            heap.pop_behind(|a, b| b.cmp(a));
        }
        expected.sort();
        assert!(heap.array() == expected.concat());
    }
}
