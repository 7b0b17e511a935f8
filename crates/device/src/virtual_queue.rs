//! The clock of a device in virtual time, and its requests in flight.
//!
//! # Model
//! The device computes a request's completion time when it accepts the request. The queue sorts completions by time and
//! moves the clock only when the caller waits.
//!
//! # Invariants
//! - Completions leave in the order of their times; completions with the same time leave in the order of submission.
//! - The clock never decreases.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use flashlab_base::Nanos;

use crate::device::VirtualTime;
use crate::io::{Completion, IoError, Request};

/// Requests in flight with their completion times, and the clock.
#[derive(Debug)]
pub struct VirtualQueue {
    depth: u32,
    clock: Nanos,
    submissions: u64,
    /// The next to complete. Outside the heap, because at depth 1 it is the only one.
    next: Option<Pending>,
    later: BinaryHeap<Pending>,
}

/// A completion that is due later. The heap returns its greatest element first, so the order is reversed.
#[derive(Debug)]
struct Pending {
    submission: u64,
    completion: Completion,
}

impl VirtualQueue {
    /// An empty queue for `depth` requests, at time zero.
    pub fn new(depth: u32) -> VirtualQueue {
        let later = BinaryHeap::with_capacity(depth as usize);
        VirtualQueue { depth, clock: Nanos::ZERO, submissions: 0, next: None, later }
    }

    /// The time on the clock.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.clock
    }

    /// How many requests may be in flight.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether nothing is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    /// Adds a request that ends with `result` at `completed`, or now if that is later.
    ///
    /// # Panics
    /// When more requests than the depth are in flight: the caller's mistake.
    #[inline]
    pub fn push(&mut self, request: Request, completed: Nanos, result: Result<(), IoError>) {
        let in_flight = self.later.len() + usize::from(self.next.is_some());
        assert!(in_flight < self.depth as usize, "more than {} requests in flight", self.depth);
        let Request { tag, buffer, .. } = request;
        let completed = completed.max(self.clock);
        let completion = Completion { tag, submitted: self.clock, completed, result, buffer };
        self.submissions += 1;
        let pending = Pending { submission: self.submissions, completion };
        match &mut self.next {
            None => self.next = Some(pending),
            Some(next) if pending > *next => self.later.push(std::mem::replace(next, pending)),
            Some(_) => self.later.push(pending),
        }
    }

    /// See [`Device::wait`](crate::Device::wait).
    #[inline]
    pub fn wait(&mut self, until: Nanos) -> Option<Completion> {
        match &self.next {
            Some(next) if next.completion.completed <= until => {
                self.clock = self.clock.max(next.completion.completed);
                self.next_completion()
            }
            None if until == Nanos::MAX => None,
            _ => {
                self.clock = self.clock.max(until);
                None
            }
        }
    }
}

impl VirtualTime for VirtualQueue {
    #[inline]
    fn next_completion(&mut self) -> Option<Completion> {
        let later = self.later.pop();
        std::mem::replace(&mut self.next, later).map(|pending| pending.completion)
    }
}

impl Pending {
    fn key(&self) -> (Nanos, u64) {
        (self.completion.completed, self.submission)
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Pending) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Pending) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Pending) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Pending {}

#[cfg(test)]
mod tests {
    use flashlab_base::{Bytes, Operation};

    use super::*;
    use crate::buffer::Buffer;

    fn push(queue: &mut VirtualQueue, tag: u64, completed: u64) {
        let (operation, offset, size) = (Operation::Read, Bytes::ZERO, Bytes(512));
        queue.push(
            Request { tag, operation, offset, size, buffer: Buffer::empty() },
            Nanos(completed),
            Ok(()),
        );
    }

    #[test]
    fn completions_come_by_time_and_then_by_submission() {
        let mut queue = VirtualQueue::new(8);
        for (tag, completed) in [(1, 30), (2, 10), (3, 30), (4, 10)] {
            push(&mut queue, tag, completed);
        }
        assert!(queue.wait(Nanos(9)).is_none());
        assert_eq!(queue.now(), Nanos(9));
        let order: Vec<u64> = std::iter::from_fn(|| queue.wait(Nanos::MAX)).map(|done| done.tag).collect();
        assert_eq!(order, [2, 4, 1, 3]);
        assert_eq!(queue.now(), Nanos(30));
        push(&mut queue, 5, 12);
        assert_eq!(queue.wait(Nanos::MAX).unwrap().completed, Nanos(30));
        push(&mut queue, 6, 50);
        assert_eq!(queue.next_completion().unwrap().completed, Nanos(50));
        assert!(queue.next_completion().is_none());
        assert_eq!(queue.now(), Nanos(30));
    }

    #[test]
    #[should_panic(expected = "more than 1 requests in flight")]
    fn more_than_the_depth_is_the_callers_mistake() {
        let mut queue = VirtualQueue::new(1);
        push(&mut queue, 1, 1);
        push(&mut queue, 2, 1);
    }
}
