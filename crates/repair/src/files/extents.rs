//! Which pages of the volume hold which pages of a file.
//!
//! # Invariants
//! - Extents do not overlap. Extents that continue each other, in the file and in the volume, are one.

use std::collections::BTreeMap;

/// Pages of the volume that lie behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumePages {
    pub first: u64,
    pub count: u64,
}

/// The extents of a file, by the page of the file at which they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents(BTreeMap<u64, VolumePages>);

impl Extents {
    /// Where a page of the file lies, and how many pages follow it there. `Err`: it is in a hole, with the pages to its end.
    pub fn at(&self, file_page: u64) -> Result<VolumePages, u64> {
        if let Some((&start, pages)) = self.0.range(..=file_page).next_back()
            && file_page - start < pages.count
        {
            let skipped = file_page - start;
            return Ok(VolumePages { first: pages.first + skipped, count: pages.count - skipped });
        }
        let next = self.0.range(file_page..).next();
        Err(next.map_or(u64::MAX - file_page, |(&start, _)| start - file_page))
    }

    /// Adds pages. False: a page of the file has one already, or would lie beyond any file.
    pub fn insert(&mut self, file_page: u64, pages: VolumePages) -> bool {
        let fits = file_page.checked_add(pages.count).is_some()
            && pages.first.checked_add(pages.count).is_some()
            && pages.count > 0
            && matches!(self.at(file_page), Err(hole) if hole >= pages.count);
        if !fits {
            return false;
        }
        let mut start = file_page;
        let mut joined = pages;
        if let Some((&before, earlier)) = self.0.range(..file_page).next_back()
            && before + earlier.count == file_page
            && earlier.first + earlier.count == pages.first
        {
            start = before;
            joined = VolumePages { first: earlier.first, count: earlier.count + pages.count };
        }
        let after = file_page + pages.count;
        if let Some(later) = self.0.get(&after)
            && later.first == pages.first + pages.count
        {
            joined.count += later.count;
            self.0.remove(&after);
        }
        self.0.insert(start, joined);
        true
    }

    /// Removes the pages of the file from `from` up to `to`, and returns where they lay.
    pub fn remove(&mut self, from: u64, to: u64) -> Vec<VolumePages> {
        let mut removed = Vec::new();
        let mut at = from;
        while at < to {
            match self.at(at) {
                Err(hole) => at = at.saturating_add(hole),
                Ok(pages) => {
                    let count = pages.count.min(to - at);
                    self.cut(at, count);
                    removed.push(VolumePages { first: pages.first, count });
                    at += count;
                }
            }
        }
        removed
    }

    /// Cuts pages of one extent out.
    fn cut(&mut self, at: u64, count: u64) {
        let Some((&start, &whole)) = self.0.range(..=at).next_back() else { return };
        self.0.remove(&start);
        let before = at - start;
        if before > 0 {
            self.0.insert(start, VolumePages { first: whole.first, count: before });
        }
        let after = whole.count - before - count;
        if after > 0 {
            self.0.insert(at + count, VolumePages { first: whole.first + before + count, count: after });
        }
    }

    /// The extents in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (u64, VolumePages)> {
        self.0.iter().map(|(&start, &pages)| (start, pages))
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The pages that the file takes.
    pub fn pages(&self) -> u64 {
        self.0.values().map(|pages| pages.count).sum()
    }

    /// The first page of the file behind all extents.
    pub fn end(&self) -> u64 {
        self.0.iter().next_back().map_or(0, |(start, pages)| start + pages.count)
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn extents_are_as_a_table_of_single_pages() {
        let mut random = Prng::new(Seed(11));
        for _ in 0..200 {
            let (mut extents, mut table) = (Extents::default(), BTreeMap::new());
            for _ in 0..60 {
                let (file_page, count) = (random.below(40), 1 + random.below(8));
                if random.below(3) > 0 {
                    let first = random.below(100);
                    let is_free = (file_page..file_page + count).all(|page| !table.contains_key(&page));
                    assert_eq!(extents.insert(file_page, VolumePages { first, count }), is_free);
                    if is_free {
                        table.extend((0..count).map(|index| (file_page + index, first + index)));
                    }
                } else {
                    let removed: u64 =
                        extents.remove(file_page, file_page + count).iter().map(|pages| pages.count).sum();
                    let had = (file_page..file_page + count).filter(|page| table.remove(page).is_some());
                    assert_eq!(removed, had.count() as u64);
                }
                for page in 0..50 {
                    let found = extents.at(page).ok().map(|pages| pages.first);
                    assert_eq!(found, table.get(&page).copied(), "page {page}");
                }
            }
            assert_eq!(extents.pages(), table.len() as u64);
            assert_eq!(extents.end(), table.keys().next_back().map_or(0, |page| page + 1));
        }
    }
}
