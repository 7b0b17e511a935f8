//! Record headers that were read or written lately: a page's checksum lies in its record's header.
//!
//! Headers stay as the bytes that they are on the device. So a header that is needed for one page costs its checksum and
//! a copy, and no decoding of its other entries.

use crate::format::record::{self, Entry, HeaderSummary};

/// Headers that are kept: 1 MiB with pages of 4 KiB.
const HEADERS: usize = 256;

/// A header whose checksum was verified.
#[derive(Debug, Default)]
pub(crate) struct KnownHeader {
    summary: HeaderSummary,
    bytes: Vec<u8>,
}

impl KnownHeader {
    /// The header in a page. `None`: there is none of the volume whose checksums begin with `seed`.
    pub fn read(seed: u32, page: &[u8]) -> Option<KnownHeader> {
        let mut header = KnownHeader::default();
        header.replace(seed, page).then_some(header)
    }

    fn replace(&mut self, seed: u32, page: &[u8]) -> bool {
        let Some(length) = record::verified_length(seed, page) else { return false };
        self.fill(&page[..length]);
        true
    }

    fn fill(&mut self, header: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(header);
        self.summary = HeaderSummary::of(&self.bytes);
    }

    /// Where it lies.
    pub fn position(&self) -> u32 {
        self.summary.position
    }

    /// The record's number.
    pub fn sequence(&self) -> u64 {
        self.summary.sequence
    }

    /// Which use of its segment it belongs to.
    pub fn segment_sequence(&self) -> u64 {
        self.summary.segment_sequence
    }

    /// The number of its pages.
    pub fn page_count(&self) -> u32 {
        self.summary.pages
    }

    /// The checksum of this logical page at this distance, if that is what lies there.
    #[inline]
    pub fn checksum(&self, distance: u8, page: u64) -> Option<u32> {
        let index = usize::from(distance).checked_sub(1)?;
        let entry = if self.summary.entries == self.summary.pages {
            (index < self.summary.entries as usize).then(|| record::entry(&self.bytes, index))??
        } else {
            self.entries().filter(|entry| entry.has_data()).nth(index)?
        };
        match entry {
            Entry::Write { page: found, checksum } | Entry::Copy { page: found, checksum } => {
                (found == page).then_some(checksum)
            }
            Entry::Superseded | Entry::Discard { .. } => None,
        }
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.summary.entries as usize).filter_map(|index| record::entry(&self.bytes, index))
    }

    /// The logical pages in it, with their distances and checksums.
    pub fn pages(&self) -> impl Iterator<Item = (u64, u8, u32)> + '_ {
        let pages = (1..=u8::MAX).zip(self.entries().filter(|entry| entry.has_data()));
        pages.filter_map(|(distance, entry)| match entry {
            Entry::Write { page, checksum } | Entry::Copy { page, checksum } => {
                Some((page, distance, checksum))
            }
            Entry::Superseded | Entry::Discard { .. } => None,
        })
    }
}

/// A cache with one place for each header.
#[derive(Debug)]
pub(crate) struct HeaderCache {
    headers: Vec<Option<KnownHeader>>,
}

impl HeaderCache {
    pub fn new() -> HeaderCache {
        HeaderCache { headers: (0..HEADERS).map(|_| None).collect() }
    }

    #[inline]
    pub fn get(&self, position: u32) -> Option<&KnownHeader> {
        self.headers[place(position)].as_ref().filter(|header| header.position() == position)
    }

    /// Keeps the header in a page that was read from this position, if it is one.
    pub fn put_read(&mut self, seed: u32, position: u32, page: &[u8]) {
        let place = &mut self.headers[place(position)];
        let header = place.get_or_insert_default();
        if !header.replace(seed, page) || header.position() != position {
            *place = None;
        }
    }

    /// Keeps a header that was just encoded.
    pub fn put_written(&mut self, position: u32, header: &[u8]) {
        self.headers[place(position)].get_or_insert_default().fill(header);
    }
}

fn place(position: u32) -> usize {
    // Fibonacci hashing: headers lie at regular distances.
    (position.wrapping_mul(0x9E37_79B9) >> 16) as usize % HEADERS
}
