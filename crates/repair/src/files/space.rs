//! Which pages of the volume no file has.
//!
//! # Method
//! A bit for each page. A file continues behind its last page while that is free. Otherwise the search begins behind the last
//! allocation, takes the first run that is long enough, and the longest one if there is none.

use super::extents::VolumePages;

/// The free pages.
pub(crate) struct Space {
    first: u64,
    /// A set bit: used.
    used: Vec<u64>,
    pages: u64,
    free: u64,
    cursor: u64,
}

impl Space {
    /// `pages` free pages from `first` on.
    pub fn new(first: u64, pages: u64) -> Space {
        let mut used = vec![0; pages.div_ceil(64) as usize];
        if let (Some(last), 1..) = (used.last_mut(), pages % 64) {
            *last = u64::MAX << (pages % 64);
        }
        Space { first, used, pages, free: pages, cursor: 0 }
    }

    /// The number of free pages.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// The number of pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Takes these pages. False: one of them is used, or is none of these pages.
    pub fn take(&mut self, pages: VolumePages) -> bool {
        let Some(at) = pages.first.checked_sub(self.first) else { return false };
        let Some(end) = at.checked_add(pages.count).filter(|end| *end <= self.pages) else { return false };
        if (at..end).any(|page| self.is_used(page)) {
            return false;
        }
        (at..end).for_each(|page| self.used[(page / 64) as usize] |= 1 << (page % 64));
        self.free -= pages.count;
        true
    }

    /// Gives pages back.
    pub fn release(&mut self, pages: VolumePages) {
        let at = pages.first - self.first;
        (at..at + pages.count).for_each(|page| self.used[(page / 64) as usize] &= !(1 << (page % 64)));
        self.free += pages.count;
    }

    /// Up to `wanted` free pages behind each other, if possible from `goal` on. They are still free. `None`: no page is.
    pub fn find(&mut self, goal: Option<u64>, wanted: u64) -> Option<VolumePages> {
        let goal = goal.and_then(|goal| goal.checked_sub(self.first));
        if let Some(goal) = goal.filter(|goal| *goal < self.pages && !self.is_used(*goal)) {
            return Some(self.run(goal, wanted));
        }
        let mut longest: Option<VolumePages> = None;
        for range in [self.cursor..self.pages, 0..self.cursor] {
            let mut at = range.start;
            while let Some(start) = self.next_free(at).filter(|start| *start < range.end) {
                let run = self.run(start, wanted);
                if longest.is_none_or(|found| found.count < run.count) {
                    longest = Some(run);
                }
                if run.count == wanted {
                    self.cursor = start + wanted;
                    return longest;
                }
                at = start + run.count;
            }
        }
        longest
    }

    /// The runs of free pages.
    pub fn free_runs(&self) -> Vec<VolumePages> {
        let mut runs = Vec::new();
        let mut at = 0;
        while let Some(start) = self.next_free(at) {
            let run = self.run(start, self.pages);
            at = start + run.count;
            runs.push(run);
        }
        runs
    }

    fn is_used(&self, page: u64) -> bool {
        self.used[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    fn next_free(&self, from: u64) -> Option<u64> {
        if from >= self.pages {
            return None;
        }
        let first = (from / 64) as usize;
        let masked = self.used[first] | ((1 << (from % 64)) - 1);
        let words = std::iter::once(masked).chain(self.used[first + 1..].iter().copied());
        let found = words.enumerate().find(|(_, word)| *word != u64::MAX)?;
        Some((first + found.0) as u64 * 64 + u64::from(found.1.trailing_ones()))
    }

    fn run(&self, start: u64, most: u64) -> VolumePages {
        let end = self.pages.min(start.saturating_add(most));
        let count = (start..end).take_while(|page| !self.is_used(*page)).count() as u64;
        VolumePages { first: self.first + start, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_long_enough_is_found_and_the_longest_otherwise() {
        let mut space = Space::new(10, 130);
        assert!(!space.take(VolumePages { first: 139, count: 2 }), "beyond the end");
        assert!(!space.take(VolumePages { first: 9, count: 1 }), "before the start");
        for first in (10..140).step_by(10).filter(|first| *first != 70) {
            assert!(space.take(VolumePages { first, count: 2 }));
        }
        assert_eq!(space.find(None, 8), Some(VolumePages { first: 12, count: 8 }));
        assert_eq!(space.find(None, 12), Some(VolumePages { first: 62, count: 12 }));
        assert_eq!(space.find(Some(25), 3), Some(VolumePages { first: 25, count: 3 }));
        assert_eq!(space.find(None, 50), Some(VolumePages { first: 62, count: 18 }));
        assert_eq!(space.free_runs().iter().map(|run| run.count).sum::<u64>(), space.free());
        let runs = space.free_runs();
        assert!(runs.iter().all(|run| space.take(*run)) && space.free() == 0);
        assert_eq!(space.find(Some(20), 1), None);
        space.release(VolumePages { first: 139, count: 1 });
        assert_eq!(space.find(None, 4), Some(VolumePages { first: 139, count: 1 }));
    }
}
