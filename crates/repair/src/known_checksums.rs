//! Checksums of pages that were written or verified lately: a page whose checksum is known is read without its record's header.
//!
//! # Model
//! Each segment has one place, which it may share with others. A place belongs to one use of one segment, so a checksum of an earlier
//! use is never taken for one of the present use. What is kept is the checksum over the page's address, sequence 0 and its data
//! ([`PageChecksums::of_page`]), so that a map that names another page's place is still noticed.

use flashlab_base::Bytes;

use crate::format::page_checksum::PageChecksums;
use crate::header_cache::KnownHeader;
use crate::segment_table::{SegmentId, Slot};

/// The most memory that they take: 4 bytes for each page of 64 GiB, with pages of 4 KiB. On larger volumes some random reads read a
/// header, too.
const MEMORY_MAX: Bytes = Bytes::mib(64);
const CHECKSUM_BYTES: u64 = size_of::<u32>() as u64;
/// A page whose checksum happens to be this counts as unknown.
const UNKNOWN: u32 = 0;
/// The sequence in a checksum that is kept: the record's own is known by its place.
pub(crate) const NO_SEQUENCE: u64 = 0;

/// The pages of one use of a segment.
struct KnownSegment {
    segment: SegmentId,
    /// The use of the segment.
    sequence: u64,
    checksums: Box<[u32]>,
}

/// Checksums by place.
pub(crate) struct KnownChecksums {
    pages_per_segment: u32,
    places: Vec<Option<KnownSegment>>,
}

impl KnownChecksums {
    /// None yet, for a volume with this number of segments.
    pub fn new(segment_count: u32, pages_per_segment: u32) -> KnownChecksums {
        let most = MEMORY_MAX.0 / (CHECKSUM_BYTES * u64::from(pages_per_segment));
        let places = u64::from(segment_count).min(most).max(1);
        KnownChecksums { pages_per_segment, places: (0..places).map(|_| None).collect() }
    }

    fn place(&self, segment: SegmentId) -> usize {
        segment.0 as usize % self.places.len()
    }

    /// The checksum of the page that lies there in this use of the segment.
    #[inline]
    pub fn get(&self, slot: Slot, sequence: u64) -> Option<u32> {
        let known = self.places[self.place(slot.segment)].as_ref()?;
        let is_same = (known.segment, known.sequence) == (slot.segment, sequence);
        let checksum = *known.checksums.get(slot.page as usize)?;
        (is_same && checksum != UNKNOWN).then_some(checksum)
    }

    /// Keeps the checksum of a page.
    #[inline]
    pub fn put(&mut self, slot: Slot, sequence: u64, checksum: u32) {
        let place = self.place(slot.segment);
        let known = self.places[place].get_or_insert_with(|| KnownSegment {
            segment: slot.segment,
            sequence,
            checksums: vec![UNKNOWN; self.pages_per_segment as usize].into(),
        });
        if (known.segment, known.sequence) != (slot.segment, sequence) {
            (known.segment, known.sequence) = (slot.segment, sequence);
            known.checksums.fill(UNKNOWN);
        }
        if let Some(kept) = known.checksums.get_mut(slot.page as usize) {
            *kept = checksum;
        }
    }

    /// Keeps the checksums of a record whose header was verified and lies there.
    pub fn put_header(&mut self, slot: Slot, header: &KnownHeader, checksums: &PageChecksums) {
        for (page, distance, checksum) in header.pages() {
            // A checksum is linear: this replaces the record's sequence in it.
            let own = checksums.of_page(page, header.sequence(), 0);
            let kept = checksum ^ own ^ checksums.of_page(page, NO_SEQUENCE, 0);
            let page = slot.page + u32::from(distance);
            self.put(Slot { page, ..slot }, header.segment_sequence(), kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::VolumeUuid;
    use crate::format::page_checksum::data_checksum;
    use crate::format::record::{Entry, RecordHeader, page_checksum};

    fn slot(segment: u32, page: u32) -> Slot {
        Slot { segment: SegmentId(segment), page }
    }

    #[test]
    fn a_checksum_is_known_for_one_use_of_one_segment() {
        // More segments than places: 0 and `places` share one.
        let mut known = KnownChecksums::new(u32::MAX, 1 << 20);
        let places = known.places.len() as u32;
        assert_eq!(places, 16);
        known.put(slot(0, 5), 7, 99);
        assert_eq!(known.get(slot(0, 5), 7), Some(99));
        let others = [(slot(0, 5), 8), (slot(0, 4), 7), (slot(places, 5), 7), (slot(1, 5), 7)];
        assert!(others.iter().all(|&(slot, sequence)| known.get(slot, sequence).is_none()));
        known.put(slot(0, 6), 8, 98);
        assert_eq!((known.get(slot(0, 5), 7), known.get(slot(0, 5), 8)), (None, None));
        known.put(slot(places, 1), 8, 97);
        assert_eq!((known.get(slot(0, 6), 8), known.get(slot(places, 1), 8)), (None, Some(97)));
    }

    #[test]
    fn checksums_from_a_header_are_those_of_pages_without_their_sequence() {
        let (uuid, page_size) = (VolumeUuid([7; 16]), 4096);
        let checksums = PageChecksums::new(uuid.seed(), Bytes(page_size));
        let data: Vec<Vec<u8>> = (0..2).map(|fill| vec![fill; page_size as usize]).collect();
        let of = |page, data: &[u8]| checksums.of_page(page, 33, data_checksum(data));
        let entries = vec![
            Entry::Discard { page: 3, count: 2 },
            Entry::Write { page: 12, checksum: of(12, &data[0]) },
            Entry::Superseded,
            Entry::Copy { page: 13, checksum: of(13, &data[1]) },
        ];
        let header = RecordHeader {
            epoch: 1,
            sequence: 33,
            position: 40,
            log: 0,
            commits: true,
            durable: 0,
            checkpoint: 0,
            segment_sequence: 6,
            opened: 0,
            written: [0; 2],
            now: 0,
            entries,
        };
        let mut bytes = vec![0; page_size as usize];
        header.encode(uuid, &mut bytes);
        let header = KnownHeader::read(uuid.seed(), &bytes).unwrap();
        let mut known = KnownChecksums::new(10, 64);
        known.put_header(slot(0, 40), &header, &checksums);
        let expected = |page, data: &[u8]| Some(page_checksum(uuid.seed(), page, NO_SEQUENCE, data));
        assert_eq!(known.get(slot(0, 41), 6), expected(12, &data[0]));
        assert_eq!(known.get(slot(0, 42), 6), None);
        assert_eq!(known.get(slot(0, 43), 6), expected(13, &data[1]));
        assert_ne!(known.get(slot(0, 43), 6), expected(12, &data[1]));
    }
}
