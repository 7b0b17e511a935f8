//! Record headers that were read or written lately: a page's checksum lies in its record's header.

use crate::format::record::{Entry, RecordHeader};

/// Headers that are kept: 1 MiB with pages of 4 KiB.
const HEADERS: usize = 256;

/// What is needed of a header to verify a page.
#[derive(Debug)]
pub(crate) struct KnownHeader {
    pub position: u32,
    pub sequence: u64,
    pub segment_sequence: u64,
    /// The logical page and the checksum at each distance, from 1 on. `None`: no version that can be asked for.
    pages: Box<[Option<(u64, u32)>]>,
}

impl KnownHeader {
    pub fn of(header: &RecordHeader) -> KnownHeader {
        let pages = header.entries.iter().filter(|entry| entry.has_data()).map(|entry| match *entry {
            Entry::Write { page, checksum } | Entry::Copy { page, checksum } => Some((page, checksum)),
            Entry::Superseded | Entry::Discard { .. } => None,
        });
        KnownHeader {
            position: header.position,
            sequence: header.sequence,
            segment_sequence: header.segment_sequence,
            pages: pages.collect(),
        }
    }

    /// The checksum of this logical page at this distance, if that is what lies there.
    #[inline]
    pub fn checksum(&self, distance: u8, page: u64) -> Option<u32> {
        let (found, checksum) = (*self.pages.get(usize::from(distance).checked_sub(1)?)?)?;
        (found == page).then_some(checksum)
    }

    /// The logical pages in it, with their distances and checksums.
    pub fn pages(&self) -> impl Iterator<Item = (u64, u8, u32)> + '_ {
        let pages = (1..=u8::MAX).zip(&self.pages);
        pages.filter_map(|(distance, page)| page.map(|(page, checksum)| (page, distance, checksum)))
    }

    /// The number of its pages.
    pub fn page_count(&self) -> u32 {
        self.pages.len() as u32
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
        self.headers[place(position)].as_ref().filter(|header| header.position == position)
    }

    pub fn put(&mut self, header: KnownHeader) -> &KnownHeader {
        self.headers[place(header.position)].insert(header)
    }
}

fn place(position: u32) -> usize {
    // Fibonacci hashing: headers lie at regular distances.
    (position.wrapping_mul(0x9E37_79B9) >> 16) as usize % HEADERS
}
