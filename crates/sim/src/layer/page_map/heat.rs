//! Distinguishes hot pages from cold ones by the time between two writes.

use serde::{Deserialize, Serialize};

use crate::flash::LogicalPage;

/// The time of the most recent write of each logical page. The clock counts written pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Heat {
    within: u32,
    /// Wraps around: a page that is not written for 2^32 writes may be taken for a hot one, once.
    now: u32,
    last: Vec<u32>,
}

impl Heat {
    /// No page was written yet: the first write of a page is cold.
    pub(super) fn new(within: u32, logical_pages: u32) -> Heat {
        Heat { within, now: within.saturating_add(1), last: vec![0; logical_pages as usize] }
    }

    /// Notes the write of the first pages of a run: of all that are hot as the first page is, or cold as it is. Returns
    /// their number, and whether they are hot.
    pub(super) fn note(&mut self, page: LogicalPage, count: u32) -> (u32, bool) {
        let hot = self.is_hot(page);
        let run = 1 + (1..count).take_while(|&i| self.is_hot(page + i) == hot).count() as u32;
        self.now = self.now.wrapping_add(run);
        self.last[page.index()..(page + run).index()].fill(self.now);
        (run, hot)
    }

    fn is_hot(&self, page: LogicalPage) -> bool {
        self.now.wrapping_sub(self.last[page.index()]) < self.within
    }

    /// Whether this, read from outside bytes, has an entry for each of `logical_pages` pages.
    pub(super) fn fits(&self, logical_pages: u32) -> bool {
        self.last.len() == logical_pages as usize
    }

    /// The memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.last.capacity() * size_of::<u32>()
    }
}
