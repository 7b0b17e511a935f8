//! The map: where the newest version of each logical page lies.
//!
//! # Memory
//! Five bytes for each logical page: four for the position, and one for the distance to the header of its record, which has
//! its checksum.

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
        PageMap { positions: vec![NOWHERE; pages as usize], distances: vec![0; pages as usize], mapped: 0 }
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

    /// The number of logical pages.
    pub fn pages(&self) -> u64 {
        self.positions.len() as u64
    }

    /// The number of pages that lie somewhere.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }
}
