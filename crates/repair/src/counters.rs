//! What a volume counts over its life. Checkpoints carry the counters.

use crate::format::checkpoint::COUNTERS;

/// What a volume did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeCounters {
    /// Pages that the host wrote, without those that were overwritten in memory.
    pub host_pages: u64,
    /// Pages that the host overwrote before they left memory.
    pub coalesced_pages: u64,
    /// Pages that packing copied.
    pub copied_pages: u64,
    /// Pages for headers of records.
    pub header_pages: u64,
    /// Of those, headers of records that a flush ended before they were full: what small flushes cost.
    pub flush_header_pages: u64,
    /// Positions at the ends of segments that no record fits into.
    pub padding_pages: u64,
    /// Pages that the host discarded.
    pub discarded_pages: u64,
    /// Flushes of the host.
    pub flushes: u64,
    /// Flushes that found nothing to write: others had written it.
    pub shared_flushes: u64,
    /// Bytes of checkpoints, images of the map and superblocks.
    pub metadata_bytes: u64,
    /// Segments that were packed.
    pub packed_segments: u64,
    /// Bytes of free segments that were discarded on the device.
    pub device_discarded_bytes: u64,
}

impl VolumeCounters {
    pub(crate) fn to_array(self) -> [u64; COUNTERS] {
        [
            self.host_pages,
            self.coalesced_pages,
            self.copied_pages,
            self.header_pages,
            self.flush_header_pages,
            self.padding_pages,
            self.discarded_pages,
            self.flushes,
            self.shared_flushes,
            self.metadata_bytes,
            self.packed_segments,
            self.device_discarded_bytes,
        ]
    }

    pub(crate) fn from_array(array: [u64; COUNTERS]) -> VolumeCounters {
        let [
            host_pages,
            coalesced_pages,
            copied_pages,
            header_pages,
            flush_header_pages,
            padding_pages,
            discarded_pages,
            flushes,
            shared_flushes,
            metadata_bytes,
            packed_segments,
            device_discarded_bytes,
        ] = array;
        VolumeCounters {
            host_pages,
            coalesced_pages,
            copied_pages,
            header_pages,
            flush_header_pages,
            padding_pages,
            discarded_pages,
            flushes,
            shared_flushes,
            metadata_bytes,
            packed_segments,
            device_discarded_bytes,
        }
    }

    /// The share of the pages of packed segments that packing copied. `None` before it packed.
    pub fn packed_share(&self, pages_per_segment: u32) -> Option<f64> {
        let packed = self.packed_segments.saturating_mul(pages_per_segment.into());
        (packed > 0).then(|| self.copied_pages as f64 / packed as f64)
    }

    /// Bytes written to the device for each byte that the host wrote. `None` before it wrote.
    pub fn write_amplification(&self, page: u64) -> Option<f64> {
        let host = (self.host_pages + self.coalesced_pages) * page;
        let pages = self.host_pages + self.copied_pages + self.header_pages;
        (host > 0).then(|| (pages * page + self.metadata_bytes) as f64 / host as f64)
    }
}
