//! The read buffer: pages in the controller's memory that the host read, or that were read ahead.

use std::collections::VecDeque;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::layer::Pages;

/// The most recently read runs of pages, the oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReadBuffer {
    capacity: u32,
    used: u32,
    runs: VecDeque<Kept>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Kept {
    first: u32,
    count: u32,
    ready: Nanos,
}

impl ReadBuffer {
    /// An empty buffer for `capacity` pages.
    pub(super) fn new(capacity: u32) -> ReadBuffer {
        ReadBuffer { capacity, used: 0, runs: VecDeque::new() }
    }

    /// When a page is in the buffer; `None` if it has to be read.
    pub(super) fn ready(&self, page: u32) -> Option<Nanos> {
        self.runs.iter().rev().find(|run| page.wrapping_sub(run.first) < run.count).map(|run| run.ready)
    }

    /// Keeps the last pages of a run, which are read at `ready`.
    pub(super) fn keep(&mut self, pages: Pages, ready: Nanos) {
        let count = pages.count.min(self.capacity);
        if count == 0 {
            return;
        }
        while self.used + count > self.capacity {
            let Some(oldest) = self.runs.pop_front() else { break };
            self.used -= oldest.count;
        }
        self.used += count;
        self.runs.push_back(Kept { first: pages.first.0 + pages.count - count, count, ready });
    }

    /// Drops runs with pages that were overwritten.
    pub(super) fn forget(&mut self, pages: Pages) {
        let end = pages.first.0 + pages.count;
        let used = &mut self.used;
        self.runs.retain(|run| {
            let apart = run.first >= end || run.first + run.count <= pages.first.0;
            if !apart {
                *used -= run.count;
            }
            apart
        });
    }

    /// Whether this, read from outside bytes, is a state of `fresh`.
    pub(super) fn is_like(&self, fresh: &ReadBuffer) -> bool {
        let used = self.runs.iter().try_fold(0u32, |used, run| {
            run.first.checked_add(run.count)?;
            used.checked_add(run.count)
        });
        self.capacity == fresh.capacity && used == Some(self.used) && self.used <= self.capacity
    }

    /// Drops all pages.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.used = 0;
    }

    /// Sets the time to zero.
    pub(super) fn restart(&mut self) {
        for run in &mut self.runs {
            run.ready = Nanos::ZERO;
        }
    }
}
