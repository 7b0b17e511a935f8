//! The map: where the newest version of each logical page lies.
//!
//! # Memory
//! Five bytes for each logical page: four for the position, and one for the distance to the header of its record, which has
//! its checksum.

use std::ops::Range;

use flashlab_device::{empty_vec_in_huge_pages, vec_in_huge_pages};

use crate::live_page_counts::LivePageCounts;
pub(crate) use crate::location::{BYTES_PER_PAGE, Location};
use crate::location::{NOWHERE, NOWHERE_PLACE, Place, place_of, position_of};

/// The places of all logical pages, each in one piece: a random access misses the CPU's cache once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageMap {
    places: Vec<Place>,
    mapped: u64,
}

impl PageMap {
    /// A map of pages that lie nowhere.
    pub fn new(pages: u64) -> PageMap {
        PageMap { places: vec_in_huge_pages(NOWHERE_PLACE, pages as usize), mapped: 0 }
    }

    /// A map without pages, with memory for this number of them, which [`PageMap::load`] adds.
    pub fn with_capacity(pages: u64) -> PageMap {
        PageMap { places: empty_vec_in_huge_pages(pages as usize), mapped: 0 }
    }

    /// Where the page lies. `None`: it was never written, or was discarded.
    #[inline]
    pub fn get(&self, page: u64) -> Option<Location> {
        let place = self.places[page as usize];
        let position = position_of(place);
        (position != NOWHERE).then_some(Location { position, distance: place[4] })
    }

    /// Puts the page there.
    #[inline]
    pub fn set(&mut self, page: u64, location: Option<Location>) {
        let before = position_of(self.places[page as usize]) != NOWHERE;
        self.mapped = self.mapped + u64::from(location.is_some()) - u64::from(before);
        self.places[page as usize] = place_of(location);
    }

    /// As [`PageMap::set`], while the map is recovered and places may be wrong.
    #[inline]
    pub fn replay(&mut self, page: u64, location: Option<Location>) {
        self.places[page as usize] = place_of(location);
    }

    /// Changes the number of pages. Those that are removed lie nowhere.
    pub fn resize(&mut self, pages: u64) {
        self.places.resize(pages as usize, NOWHERE_PLACE);
    }

    /// Adds pages from their bytes in an image.
    pub fn load(&mut self, bytes: &[u8]) {
        self.places.extend_from_slice(bytes.as_chunks().0);
    }

    /// From now on places are right. Returns the number of live pages of each segment. `Err`: a page whose place does not exist.
    pub fn finish_recovery(&mut self, segments: u32, pages_per_segment: u32) -> Result<Vec<u32>, u64> {
        let counts = LivePageCounts::of(&self.places, segments, pages_per_segment);
        if let Some(page) = counts.wrong(&self.places) {
            return Err(page);
        }
        let of_segments = counts.of_segments().to_vec();
        self.mapped = of_segments.iter().map(|&live| u64::from(live)).sum();
        Ok(of_segments)
    }

    /// The bytes of these pages in an image.
    pub fn bytes(&self, pages: Range<u64>) -> &[u8] {
        self.places[pages.start as usize..pages.end as usize].as_flattened()
    }

    /// The number of logical pages.
    pub fn pages(&self) -> u64 {
        self.places.len() as u64
    }

    /// The number of pages that lie somewhere.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_in_their_segments_and_impossible_places_are_found() {
        for pages_per_segment in [4, 7, 1024, 16384] {
            let mut map = PageMap::with_capacity(5);
            let first_of_second = pages_per_segment;
            let mut bytes = Vec::new();
            for (position, distance) in
                [(NOWHERE, 0), (1, 1), (NOWHERE, 0), (first_of_second + 3, 2), (first_of_second - 1, 1)]
            {
                bytes.extend_from_slice(&u32::to_le_bytes(position));
                bytes.push(distance);
            }
            map.load(&bytes);
            assert_eq!(map.bytes(0..5), bytes);
            let place = |position, distance| Some(Location { position, distance });
            for (position, distance) in
                [(2 * pages_per_segment, 1), (first_of_second, 1), (2, 0), (NOWHERE - 1, 1)]
            {
                map.replay(0, place(position, distance));
                assert_eq!(map.finish_recovery(2, pages_per_segment), Err(0), "{position}");
            }
            map.replay(0, None);
            map.replay(2, place(first_of_second + 2, 1));
            assert_eq!(map.finish_recovery(2, pages_per_segment), Ok(vec![2, 2]), "{pages_per_segment}");
            assert_eq!(map.mapped(), 4);
            assert_eq!(map.get(3), place(first_of_second + 3, 2));
        }
    }
}
