//! Where a page lies, and the five bytes that say so in the map and in its image.

/// Bytes that the map takes for each logical page.
pub(crate) const BYTES_PER_PAGE: usize = 5;

/// The position of a page that lies nowhere.
pub(crate) const NOWHERE: u32 = u32::MAX;

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

/// A [`Location`] as it lies in the map and in its image: four bytes of the position, little-endian, and the distance.
pub(crate) type Place = [u8; BYTES_PER_PAGE];

pub(crate) const NOWHERE_PLACE: Place = [0xff, 0xff, 0xff, 0xff, 0];

#[inline]
pub(crate) fn position_of(place: Place) -> u32 {
    u32::from_le_bytes([place[0], place[1], place[2], place[3]])
}

#[inline]
pub(crate) fn place_of(location: Option<Location>) -> Place {
    location.map_or(NOWHERE_PLACE, |Location { position, distance }| {
        let [a, b, c, d] = position.to_le_bytes();
        [a, b, c, d, distance]
    })
}
