//! The records that are being filled in memory.

use flashlab_device::Buffer;

use crate::format::page_checksum::data_checksum;
use crate::format::record::Entry;
use crate::segment_table::SegmentId;

/// A record that is being filled.
pub(crate) struct OpenRecord {
    pub segment: SegmentId,
    /// Where its header will lie.
    pub position: u32,
    /// Its entries, with the checksums of their data alone: their record's sequence is given when it is written.
    pub entries: Vec<Entry>,
    /// Its pages, with space for the header in front.
    pub buffer: Buffer,
    /// The number of its pages.
    pub pages: u32,
    /// Whether it has writes or discards of the host, so that it belongs to the next group.
    pub has_host: bool,
    /// The write clock of its first and last page.
    pub written: [u64; 2],
}

impl OpenRecord {
    /// Which of its pages lies at this position, counted from 0.
    #[inline]
    pub fn index_of(&self, position: u32) -> Option<usize> {
        let distance = position.wrapping_sub(self.position);
        (distance >= 1 && distance <= self.pages).then(|| distance as usize - 1)
    }

    /// The bytes of a page.
    pub fn page(&self, index: usize, size: usize) -> &[u8] {
        &self.buffer[(index + 1) * size..(index + 2) * size]
    }

    /// The bytes of a page.
    pub fn page_mut(&mut self, index: usize, size: usize) -> &mut [u8] {
        &mut self.buffer[(index + 1) * size..(index + 2) * size]
    }

    /// Positions that it takes for the host: its header and the pages that are no copies.
    pub fn host_positions(&self) -> u32 {
        let writes = self.entries.iter().filter(|entry| matches!(entry, Entry::Write { .. }));
        1 + writes.count() as u32
    }

    /// Appends a page.
    pub fn push(&mut self, entry: Entry, data: &[u8], written: u64) {
        let index = self.pages as usize;
        self.page_mut(index, data.len()).copy_from_slice(data);
        self.entries.push(entry);
        if self.pages == 0 {
            self.written[0] = written;
        }
        self.written[1] = written;
        self.pages += 1;
    }

    /// The host overwrites a page that is not written yet.
    pub fn overwrite(&mut self, index: usize, page: u64, data: &[u8]) {
        self.page_mut(index, data.len()).copy_from_slice(data);
        self.has_host = true;
        let mut entries = self.entries.iter_mut().filter(|entry| entry.has_data());
        let entry = entries.nth(index).expect("each page has its entry");
        *entry = Entry::Write { page, checksum: data_checksum(data) };
    }
}
