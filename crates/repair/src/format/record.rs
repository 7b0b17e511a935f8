//! A record: a run of pages in a segment, behind a header that says what they are.
//!
//! # Model
//! Records have consecutive sequence numbers over all logs. Those that hold writes and discards of the host form groups, whose last record has
//! [`COMMIT`](RecordHeader::commits): recovery replays whole groups, in order, until the first record that is missing. A
//! record counts only if its header and all of its pages have the right checksums.
//!
//! A page's checksum covers the UUID, the logical page, the record's sequence and the data. So a page that was torn, or
//! written to the wrong place, or is an older one of the same place, does not pass for the one that was asked for.

use flashlab_base::Bytes;

use crate::format::{Decoder, Encoder, VolumeUuid};

const MAGIC: [u8; 8] = *b"FLRECORD";
/// Bytes of the header before its entries.
const FIXED: usize = 112;
const ENTRY: usize = 16;
/// Logical pages are numbered with 48 bits; what an entry is takes the top byte.
const PAGE_BITS: u64 = (1 << 48) - 1;
/// Distances to the header fit into a byte of the map.
const DISTANCE_MAX: u64 = 255;

/// The most entries of a record with pages of this size.
pub(crate) fn entries_max(page: Bytes) -> u64 {
    ((page.0 - FIXED as u64) / ENTRY as u64).min(DISTANCE_MAX)
}

/// What a record says of one logical page, or of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The next page of the record: the host wrote it.
    Write { page: u64, checksum: u32 },
    /// The next page of the record: packing copied it. Recovery does not replay it, because the original stays until a
    /// checkpoint has the copy's place.
    Copy { page: u64, checksum: u32 },
    /// The next page of the record: a newer version existed before the record was written.
    Superseded,
    /// Pages that the host discarded. Takes no page of the record.
    Discard { page: u64, count: u32 },
}

impl Entry {
    /// Whether it stands for a page of the record.
    pub fn has_data(self) -> bool {
        !matches!(self, Entry::Discard { .. })
    }
}

/// The header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// The mount that wrote it.
    pub epoch: u64,
    /// Its number.
    pub sequence: u64,
    /// Where it lies: the position of the header.
    pub position: u32,
    /// The log that it belongs to.
    pub log: u8,
    /// Whether it is the last of its group.
    pub commits: bool,
    /// The highest sequence that a flush had made durable before this was written.
    pub durable: u64,
    /// The newest checkpoint that was durable before this was written.
    pub checkpoint: u64,
    /// The number of its segment in the order of opening: which use of the segment it belongs to.
    pub segment_sequence: u64,
    /// The write clock when the segment was opened.
    pub opened: u64,
    /// When the host wrote the first and the last of its pages, on the write clock.
    pub written: [u64; 2],
    /// The write clock when it was written.
    pub now: u64,
    /// Its entries.
    pub entries: Vec<Entry>,
}

impl RecordHeader {
    /// Pages behind the header.
    pub fn page_count(&self) -> u32 {
        self.entries.iter().filter(|entry| entry.has_data()).count() as u32
    }

    /// Writes the header into a page, whose rest keeps what it has, and returns its length.
    pub fn encode(&self, uuid: VolumeUuid, page: &mut [u8]) -> usize {
        let mut fields = Encoder::new(page);
        fields.bytes(&MAGIC).u32(0).u32(self.entries.len() as u32);
        fields.u64(self.epoch).u64(self.sequence).u32(self.position);
        fields.u8(self.log).u8(u8::from(self.commits)).u16(self.page_count() as u16);
        fields.u64(self.durable).u64(self.checkpoint).u64(self.segment_sequence).u64(self.opened);
        fields.u64(self.written[0]).u64(self.written[1]).u64(self.now).u64(0).u64(0);
        debug_assert_eq!(fields.at(), FIXED);
        for entry in &self.entries {
            let (kind, page, value, count) = match *entry {
                Entry::Write { page, checksum } => (0, page, checksum, 0),
                Entry::Copy { page, checksum } => (1, page, checksum, 0),
                Entry::Superseded => (2, 0, 0, 0),
                Entry::Discard { page, count } => (3, page, 0, count),
            };
            fields.u64(page | kind << 56).u32(value).u32(count);
        }
        let used = fields.at();
        let checksum = crc32c::crc32c_append(uuid.seed(), &page[12..used]);
        page[8..12].copy_from_slice(&checksum.to_le_bytes());
        used
    }

    /// `None`: the page is no header of this volume.
    pub fn decode(uuid: VolumeUuid, page: &[u8]) -> Option<RecordHeader> {
        let used = verified_length(uuid.seed(), page)?;
        let mut fields = Decoder::new(page);
        let _: [u8; 12] = fields.array();
        let count = fields.u32() as usize;
        let (epoch, sequence, position) = (fields.u64(), fields.u64(), fields.u32());
        let (log, commits, _) = (fields.u8(), fields.u8() == 1, fields.u16());
        let (durable, checkpoint, segment_sequence) = (fields.u64(), fields.u64(), fields.u64());
        let (opened, written, now) = (fields.u64(), [fields.u64(), fields.u64()], fields.u64());
        let header = &page[..used];
        let entries: Option<Vec<Entry>> = (0..count).map(|index| entry(header, index)).collect();
        let entries = entries?;
        Some(RecordHeader {
            epoch,
            sequence,
            position,
            log,
            commits,
            durable,
            checkpoint,
            segment_sequence,
            opened,
            written,
            now,
            entries,
        })
    }
}

/// The length of the header that the page begins with. `None`: it is no header of the volume whose checksums begin
/// with `seed`.
pub(crate) fn verified_length(seed: u32, page: &[u8]) -> Option<usize> {
    let mut fields = Decoder::new(page);
    if fields.array() != MAGIC {
        return None;
    }
    let (stored, count) = (fields.u32(), fields.u32() as usize);
    let used = FIXED.checked_add(count.checked_mul(ENTRY)?)?;
    (crc32c::crc32c_append(seed, page.get(12..used)?) == stored).then_some(used)
}

/// An entry of a header. `None`: it has no such entry, or the entry is of no known kind.
pub(crate) fn entry(header: &[u8], index: usize) -> Option<Entry> {
    let at = FIXED + index * ENTRY;
    let mut fields = Decoder::new(header.get(at..at + ENTRY)?);
    let (packed, checksum, count) = (fields.u64(), fields.u32(), fields.u32());
    let page = packed & PAGE_BITS;
    Some(match packed >> 56 {
        0 => Entry::Write { page, checksum },
        1 => Entry::Copy { page, checksum },
        2 => Entry::Superseded,
        3 => Entry::Discard { page, count },
        _ => return None,
    })
}

/// What a page is verified with, but for its entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeaderSummary {
    pub entries: u32,
    pub pages: u32,
    pub position: u32,
    pub sequence: u64,
    pub segment_sequence: u64,
}

impl HeaderSummary {
    /// Of a header.
    pub fn of(header: &[u8]) -> HeaderSummary {
        let mut fields = Decoder::new(header);
        let _: [u8; 12] = fields.array();
        let (entries, _epoch, sequence) = (fields.u32(), fields.u64(), fields.u64());
        let (position, _log, pages) = (fields.u32(), fields.u16(), fields.u16());
        let (_durable, _checkpoint, segment_sequence) = (fields.u64(), fields.u64(), fields.u64());
        HeaderSummary { entries, pages: pages.into(), position, sequence, segment_sequence }
    }
}

/// The checksum of a page.
#[inline]
pub(crate) fn page_checksum(seed: u32, page: u64, sequence: u64, data: &[u8]) -> u32 {
    crc32c::crc32c_append(address_checksum(seed, page, sequence), data)
}

/// The checksum of what lies before the data: the page's logical address and its record's sequence.
#[inline]
pub(crate) fn address_checksum(seed: u32, page: u64, sequence: u64) -> u32 {
    let mut address = [0; 16];
    address[..8].copy_from_slice(&page.to_le_bytes());
    address[8..].copy_from_slice(&sequence.to_le_bytes());
    crc32c::crc32c_append(seed, &address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> RecordHeader {
        RecordHeader {
            epoch: 3,
            sequence: 17,
            position: 99,
            log: 1,
            commits: true,
            durable: 15,
            checkpoint: 2,
            segment_sequence: 5,
            opened: 1000,
            written: [900, 1200],
            now: 1300,
            entries: vec![
                Entry::Write { page: 5, checksum: 77 },
                Entry::Discard { page: 1 << 40, count: 9 },
                Entry::Superseded,
                Entry::Copy { page: 6, checksum: 78 },
            ],
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_by_its_volume_only() {
        let uuid = VolumeUuid([7; 16]);
        let mut page = vec![0; 4096];
        header().encode(uuid, &mut page);
        assert_eq!(RecordHeader::decode(uuid, &page), Some(header()));
        assert_eq!(RecordHeader::decode(VolumeUuid([8; 16]), &page), None);
        assert_eq!(header().page_count(), 3);
        for byte in 0..FIXED + 4 * ENTRY {
            let mut damaged = page.clone();
            damaged[byte] ^= 4;
            assert_eq!(RecordHeader::decode(uuid, &damaged), None, "byte {byte}");
        }
        for length in 0..FIXED + 4 * ENTRY {
            assert_eq!(RecordHeader::decode(uuid, &page[..length]), None);
        }
    }
}
