//! What programs did with the data of files.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the requests that were served.
#[derive(Debug, Default)]
pub struct FileCounts {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

/// What files are served through counts.
#[cfg(feature = "fuse")]
impl FileCounts {
    pub(crate) fn read(&self, bytes: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn written(&self, bytes: usize) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }
}

impl FileCounts {
    /// The counts with their names.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("reads", &self.reads),
            ("read_bytes", &self.read_bytes),
            ("writes", &self.writes),
            ("written_bytes", &self.written_bytes),
            ("syncs", &self.syncs),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}
