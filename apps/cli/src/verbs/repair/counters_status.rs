//! The counters of a volume, as `--json` and texts show them.

use flashlab_base::Bytes;
use flashlab_repair::VolumeCounters;
use serde::{Deserialize, Serialize};

/// What the volume did since it was made.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CountersStatus {
    host_pages: u64,
    coalesced_pages: u64,
    copied_pages: u64,
    header_pages: u64,
    flush_header_pages: u64,
    padding_pages: u64,
    discarded_pages: u64,
    flushes: u64,
    shared_flushes: u64,
    metadata_bytes: u64,
    packed_segments: u64,
    device_discarded_bytes: u64,
}

impl CountersStatus {
    /// Of a volume's counters.
    pub fn of(counters: &VolumeCounters) -> CountersStatus {
        CountersStatus {
            host_pages: counters.host_pages,
            coalesced_pages: counters.coalesced_pages,
            copied_pages: counters.copied_pages,
            header_pages: counters.header_pages,
            flush_header_pages: counters.flush_header_pages,
            padding_pages: counters.padding_pages,
            discarded_pages: counters.discarded_pages,
            flushes: counters.flushes,
            shared_flushes: counters.shared_flushes,
            metadata_bytes: counters.metadata_bytes,
            packed_segments: counters.packed_segments,
            device_discarded_bytes: counters.device_discarded_bytes,
        }
    }

    /// For people.
    pub fn text(&self, page_bytes: u64) -> String {
        let pages = |pages: u64| Bytes(pages.saturating_mul(page_bytes));
        format!(
            "written: {} by the host, of it {} overwritten in memory; {} copied by packing, {} for headers ({} of them \
             because of flushes), {} for the map\n\
             {} flushes, {} of them served by another; {} discarded by the host, {} discarded on the device\n",
            pages(self.host_pages.saturating_add(self.coalesced_pages)),
            pages(self.coalesced_pages),
            pages(self.copied_pages),
            pages(self.header_pages),
            pages(self.flush_header_pages),
            Bytes(self.metadata_bytes),
            self.flushes,
            self.shared_flushes,
            pages(self.discarded_pages),
            Bytes(self.device_discarded_bytes),
        )
    }
}
