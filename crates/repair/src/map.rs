//! The map: where the newest version of each logical page lies.
//!
//! # Memory
//! Five bytes for each logical page: four for the position, and one for the distance to the header of its record, which has
//! its checksum.

use flashlab_device::vec_in_huge_pages;

/// Bytes that the map takes for each logical page.
pub(crate) const BYTES_PER_PAGE: usize = 5;

const NOWHERE: u32 = u32::MAX;

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The position, counted in pages from the first segment.
    pub position: u32,
    /// How many positions before it the header of its record lies.
    pub distance: u8,
}

impl Location {
    /// The position of the record's header.
    pub fn header(self) -> u32 {
        self.position - u32::from(self.distance)
    }
}

/// Divides by the same number many times, by multiplying with its inverse in 64 bits: exact for numbers of 32 bits (Lemire, Kaser and
/// Kurz, "Faster remainder by direct computation", Software: Practice and Experience 49(6), 2019).
struct Divisor {
    inverse: u64,
}

impl Divisor {
    /// For a number above 1.
    fn new(by: u32) -> Divisor {
        Divisor { inverse: u64::MAX / u64::from(by) + 1 }
    }

    #[inline]
    fn quotient(&self, of: u32) -> u32 {
        ((u128::from(self.inverse) * u128::from(of)) >> 64) as u32
    }
}

/// The places of all logical pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageMap {
    positions: Vec<u32>,
    distances: Vec<u8>,
    mapped: u64,
}

impl PageMap {
    /// A map of pages that lie nowhere.
    pub fn new(pages: u64) -> PageMap {
        let count = pages as usize;
        PageMap {
            positions: vec_in_huge_pages(NOWHERE, count),
            distances: vec_in_huge_pages(0, count),
            mapped: 0,
        }
    }

    /// Where the page lies. `None`: it was never written, or was discarded.
    #[inline]
    pub fn get(&self, page: u64) -> Option<Location> {
        let position = self.positions[page as usize];
        (position != NOWHERE).then(|| Location { position, distance: self.distances[page as usize] })
    }

    /// Puts the page there.
    #[inline]
    pub fn set(&mut self, page: u64, location: Option<Location>) {
        let index = page as usize;
        let before = self.positions[index] != NOWHERE;
        self.mapped = self.mapped + u64::from(location.is_some()) - u64::from(before);
        (self.positions[index], self.distances[index]) =
            location.map_or((NOWHERE, 0), |location| (location.position, location.distance));
    }

    /// Changes the number of pages. Those that are removed lie nowhere.
    pub fn resize(&mut self, pages: u64) {
        self.positions.resize(pages as usize, NOWHERE);
        self.distances.resize(pages as usize, 0);
    }

    /// Sets pages that lie nowhere, from here on, from their bytes in an image: four of the position, and the distance. Places are not
    /// checked: [`PageMap::live_pages`] does that.
    pub fn load(&mut self, first: u64, bytes: &[u8]) {
        let first = first as usize;
        let places = self.positions[first..].iter_mut().zip(&mut self.distances[first..]);
        for ((position, distance), bytes) in places.zip(bytes.chunks_exact(BYTES_PER_PAGE)) {
            *position = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            *distance = bytes[4];
            self.mapped += u64::from(*position != NOWHERE);
        }
    }

    /// The number of pages in each segment. `Err`: a page whose place does not exist.
    pub fn live_pages(&self, segment_count: u32, pages_per_segment: u32) -> Result<Vec<u32>, u64> {
        let segment_of = Divisor::new(pages_per_segment);
        let end = segment_count * pages_per_segment;
        let mut live = vec![0; segment_count as usize];
        for (page, (&position, &distance)) in (0..).zip(self.positions.iter().zip(&self.distances)) {
            if position == NOWHERE {
                continue;
            }
            let segment = segment_of.quotient(position);
            let within = position.wrapping_sub(segment * pages_per_segment);
            if position >= end || distance == 0 || u32::from(distance) > within {
                return Err(page);
            }
            live[segment as usize] += 1;
        }
        Ok(live)
    }

    /// The number of logical pages.
    pub fn pages(&self) -> u64 {
        self.positions.len() as u64
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
            let mut map = PageMap::new(5);
            let first_of_second = pages_per_segment;
            let mut bytes = Vec::new();
            for (position, distance) in
                [(1, 1), (NOWHERE, 0), (first_of_second + 3, 2), (first_of_second - 1, 1)]
            {
                bytes.extend_from_slice(&u32::to_le_bytes(position));
                bytes.push(distance);
            }
            map.load(1, &bytes);
            assert_eq!(map.live_pages(2, pages_per_segment), Ok(vec![2, 1]), "{pages_per_segment}");
            assert_eq!(map.mapped(), 3);
            assert_eq!(map.get(3), Some(Location { position: first_of_second + 3, distance: 2 }));
            for (position, distance) in
                [(2 * pages_per_segment, 1), (first_of_second, 1), (2, 0), (NOWHERE - 1, 1)]
            {
                map.set(0, Some(Location { position, distance }));
                assert_eq!(map.live_pages(2, pages_per_segment), Err(0), "{position}");
            }
        }
    }

    #[test]
    fn dividing_by_an_inverse_is_exact() {
        for by in [2, 3, 7, 1000, 1024, 16384, u32::MAX] {
            let divisor = Divisor::new(by);
            for of in [0, 1, by - 1, by, 1_000_003, 2 * (by / 2), u32::MAX - 1, u32::MAX] {
                assert_eq!(divisor.quotient(of), of / by, "{of} / {by}");
            }
        }
    }
}
