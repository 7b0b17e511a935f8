//! What a volume counts over its life. Checkpoints carry the counters.

use crate::format::checkpoint::COUNTERS;

/// Declares the counters, and their order in a checkpoint.
macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What a volume did since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct VolumeCounters {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl VolumeCounters {
            pub(crate) fn to_array(self) -> [u64; COUNTERS] {
                [$(self.$field),*]
            }

            pub(crate) fn from_array([$($field),*]: [u64; COUNTERS]) -> VolumeCounters {
                VolumeCounters { $($field),* }
            }
        }
    };
}

counters! {
    /// Pages that the host wrote, without those that were overwritten in memory.
    host_pages,
    /// Pages that the host overwrote before they left memory.
    coalesced_pages,
    /// Pages that packing copied.
    copied_pages,
    /// Pages for headers of records.
    header_pages,
    /// Of those, headers of records that a flush ended before they were full: what small flushes cost.
    flush_header_pages,
    /// Positions at the ends of segments that no record fits into.
    padding_pages,
    /// Pages that the host discarded.
    discarded_pages,
    /// Flushes of the host.
    flushes,
    /// Flushes that found nothing to write: others had written it.
    shared_flushes,
    /// Bytes of checkpoints, images of the map and superblocks.
    metadata_bytes,
    /// Segments that were packed.
    packed_segments,
    /// Bytes of free segments that were discarded on the device.
    device_discarded_bytes,
}

impl VolumeCounters {
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
