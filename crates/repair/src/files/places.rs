//! Where the catalogue and the data of files lie on a volume.

use flashlab_device::Device;

use super::budget;
use crate::volume::Volume;

pub(super) const HEADER_MAGIC: &[u8; 8] = b"FLFILES\0";
pub(super) const PAGE_MAGIC: &[u8; 8] = b"FLCATLOG";
/// Bytes in front of the changes of a page.
pub(super) const PAGE_HEADER: usize = budget::PAGE_HEADER as usize;
/// The share of the volume that each of the two logs takes, and its bounds in pages.
const LOG_SHARE: u64 = 64;
pub(super) const LOG_PAGES_MIN: u64 = 2;
pub(super) const LOG_PAGES_MAX: u64 = 16384;

/// Where the logs and the data of files lie, in pages of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilesLayout {
    pub page: u64,
    pub pages: u64,
    pub log_pages: u64,
}

impl FilesLayout {
    /// The layout on a volume.
    pub fn new<D: Device>(volume: &Volume<D>) -> FilesLayout {
        let page = volume.layout().options.page.0;
        FilesLayout::of(page, volume.size().0 / page)
    }

    /// The layout on a volume with this many pages of this size, on which no file was made yet.
    pub fn of(page: u64, pages: u64) -> FilesLayout {
        FilesLayout { page, pages, log_pages: (pages / LOG_SHARE).clamp(LOG_PAGES_MIN, LOG_PAGES_MAX) }
    }

    /// The first page of data.
    pub fn data(&self) -> u64 {
        1 + 2 * self.log_pages
    }

    /// A page of the log with this generation.
    pub fn log_page(&self, generation: u64, index: u64) -> u64 {
        1 + (generation % 2) * self.log_pages + index
    }
}
