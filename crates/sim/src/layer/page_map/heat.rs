//! Telling hot pages from cold ones by how soon they are written again.

use serde::{Deserialize, Serialize};

use crate::flash::LogicalPage;

/// When each logical page was written last, in written pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Heat {
    within: u32,
    /// Wraps around: a page that is not written for 2^32 writes may be taken for a hot one, once.
    now: u32,
    last: Vec<u32>,
}

impl Heat {
    /// No page was written yet, so that none is hot at first.
    pub(super) fn new(within: u32, logical_pages: u32) -> Heat {
        Heat { within, now: within.saturating_add(1), last: vec![0; logical_pages as usize] }
    }

    /// Notes that the first of `count` pages from `page` on are written. Returns how many of them go together, and
    /// whether they are hot.
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

    /// How much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.last.capacity() * size_of::<u32>()
    }
}
