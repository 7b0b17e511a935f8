//! The log of the catalogue, on the first pages of the volume. docs/repair-format.md has it byte by byte.
//!
//! # Model
//! Page 0 names the newest of two logs. A log begins with changes that lead to the catalogue as it was then, and goes on with
//! every change since. When it is full, the other one is begun, and page 0 is written last.
//!
//! # Invariants
//! - Nothing here waits for a flush: a volume recovers a prefix of its writes. A change is there when the writes before it are, and
//!   page 0 names a log only if that is complete.
//! - A page of a log is written whole, and a volume never returns half of a page.

use flashlab_device::Device;

use super::budget;
use super::catalogue::Catalogue;
use super::change::Change;
use crate::error::{FileRefusal, RepairError};
use crate::format::{Decoder, Encoder, FILES_VERSION};
use crate::volume::Volume;

const HEADER_MAGIC: &[u8; 8] = b"FLFILES\0";
const PAGE_MAGIC: &[u8; 8] = b"FLCATLOG";
/// Bytes in front of the changes of a page.
const PAGE_HEADER: usize = budget::PAGE_HEADER as usize;
/// The share of the volume that each of the two logs takes, and its bounds in pages.
const LOG_SHARE: u64 = 64;
const LOG_PAGES_MIN: u64 = 2;
const LOG_PAGES_MAX: u64 = 16384;

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
        let pages = volume.size().0 / page;
        FilesLayout { page, pages, log_pages: (pages / LOG_SHARE).clamp(LOG_PAGES_MIN, LOG_PAGES_MAX) }
    }

    /// The first page of data.
    pub fn data(&self) -> u64 {
        1 + 2 * self.log_pages
    }

    fn log_page(&self, generation: u64, index: u64) -> u64 {
        1 + (generation % 2) * self.log_pages + index
    }
}

/// The end of the newest log.
pub(crate) struct CatalogueLog {
    layout: FilesLayout,
    seed: u32,
    generation: u64,
    /// The page that is being filled, and its changes.
    index: u64,
    changes: Vec<u8>,
}

impl CatalogueLog {
    /// Begins the first log of a volume that holds nothing: page 0 names an empty log.
    pub fn make<D: Device>(volume: &mut Volume<D>) -> Result<(CatalogueLog, Catalogue), RepairError> {
        let layout = FilesLayout::new(volume);
        if layout.pages <= layout.data() {
            return Err(RepairError::Options(format!(
                "the volume has {} pages, too few for files: make a larger one",
                layout.pages
            )));
        }
        let log = CatalogueLog {
            layout,
            seed: volume.superblock().uuid.seed(),
            generation: 0,
            index: 0,
            changes: Vec::new(),
        };
        log.write_header(volume, 0)?;
        Ok((log, Catalogue::new(layout.page)))
    }

    /// Reads the newest log. `None`: page 0 is empty.
    pub fn load<D: Device>(volume: &mut Volume<D>) -> Result<Option<(CatalogueLog, Catalogue)>, RepairError> {
        let mut layout = FilesLayout::new(volume);
        let seed = volume.superblock().uuid.seed();
        let mut page = vec![0; layout.page as usize];
        volume.read(0, &mut page)?;
        if page.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let HeaderOfLog { version, generation, complete, log_pages } = decode_header(&page, seed)?;
        // It stays when the volume is resized.
        layout.log_pages = log_pages;
        if !(LOG_PAGES_MIN..=LOG_PAGES_MAX).contains(&log_pages) || layout.pages <= layout.data() {
            return Err(damaged("the header of the catalogue", 0, "its log does not fit the volume"));
        }
        let mut log = CatalogueLog { layout, seed, generation, index: 0, changes: Vec::new() };
        let mut catalogue = Catalogue::new(layout.page);
        let mut index = 0;
        while index < layout.log_pages {
            let at = layout.log_page(generation, index) * layout.page;
            volume.read(at, &mut page)?;
            let damaged = |why: &str| damaged("the catalogue of files", at, why);
            let Some(changes) = decode_page(&page, seed, generation, index).map_err(damaged)? else { break };
            let mut from = Decoder::new(changes);
            while from.at() < changes.len() {
                let change = Change::decode(&mut from).ok_or_else(|| damaged("it has an unknown change"))?;
                catalogue.apply(&change).map_err(damaged)?;
            }
            (log.index, log.changes) = (index, changes.to_vec());
            index += 1;
        }
        if index < complete {
            return Err(damaged("the catalogue of files", 0, "pages of its log are missing"));
        }
        if version < FILES_VERSION {
            // Versions 1 and 2 lack changes, and are otherwise the same. Who reads them alone must not find those.
            log.write_header(volume, complete)?;
        }
        Ok(Some((log, catalogue)))
    }

    /// Where everything lies.
    pub fn layout(&self) -> FilesLayout {
        self.layout
    }

    /// The generation of the newest log.
    #[cfg(test)]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Appends changes, which are recovered together or not at all. `catalogue` is the one before them.
    ///
    /// # Errors
    /// When the volume fails. When the log is full and the other one has too few pages, which `budget` prevents. The log is as
    /// before then, and lacks the changes.
    pub fn append<D: Device>(
        &mut self,
        volume: &mut Volume<D>,
        catalogue: &Catalogue,
        changes: &[Change],
    ) -> Result<(), RepairError> {
        let mut added = Vec::new();
        changes.iter().for_each(|change| change.encode(&mut added));
        if !self.put(volume, &added)? {
            *self = self.begin_other(volume, catalogue, &added)?;
            return Ok(());
        }
        let written = self.write_page(volume);
        if written.is_err() {
            self.changes.truncate(self.changes.len() - added.len());
        }
        written
    }

    /// Adds changes to the page in memory, and goes on to the next page if they do not fit. False: the log is full.
    fn put<D: Device>(&mut self, volume: &mut Volume<D>, changes: &[u8]) -> Result<bool, RepairError> {
        if PAGE_HEADER + self.changes.len() + changes.len() > self.layout.page as usize {
            if self.index + 1 == self.layout.log_pages {
                return Ok(false);
            }
            self.write_page(volume)?;
            self.index += 1;
            self.changes.clear();
        }
        self.changes.extend_from_slice(changes);
        Ok(true)
    }

    /// The other log, with the catalogue as it is and the changes behind it. Until page 0 names it, this one is the newest.
    fn begin_other<D: Device>(
        &self,
        volume: &mut Volume<D>,
        catalogue: &Catalogue,
        added: &[u8],
    ) -> Result<CatalogueLog, RepairError> {
        let (layout, seed, generation) = (self.layout, self.seed, self.generation + 1);
        let mut other = CatalogueLog { layout, seed, generation, index: 0, changes: Vec::new() };
        // A log of this generation that was not completed may be there, and be longer.
        volume.discard(layout.log_page(generation, 0) * layout.page, layout.log_pages * layout.page)?;
        let mut encoded = Vec::new();
        for change in catalogue.changes() {
            encoded.clear();
            change.encode(&mut encoded);
            if !other.put(volume, &encoded)? {
                return Err(FileRefusal::CatalogueFull.into());
            }
        }
        if !other.put(volume, added)? {
            return Err(FileRefusal::CatalogueFull.into());
        }
        other.write_page(volume)?;
        other.write_header(volume, other.index + 1)?;
        Ok(other)
    }

    fn write_page<D: Device>(&self, volume: &mut Volume<D>) -> Result<(), RepairError> {
        let mut page = vec![0; self.layout.page as usize];
        let length = PAGE_HEADER + self.changes.len();
        let mut to = Encoder::new(&mut page);
        to.bytes(PAGE_MAGIC).u32(0).u32(length as u32).u64(self.generation).u32(self.index as u32).u32(0);
        to.bytes(&self.changes);
        let crc = crc32c::crc32c_append(self.seed, &page[12..length]);
        page[8..12].copy_from_slice(&crc.to_le_bytes());
        volume.write(self.layout.log_page(self.generation, self.index) * self.layout.page, &page)
    }

    fn write_header<D: Device>(&self, volume: &mut Volume<D>, complete: u64) -> Result<(), RepairError> {
        let mut page = vec![0; self.layout.page as usize];
        let mut to = Encoder::new(&mut page);
        to.bytes(HEADER_MAGIC).u32(FILES_VERSION).u32(0).u64(self.generation);
        to.u64(self.layout.log_pages).u64(complete);
        let crc = crc32c::crc32c_append(self.seed, &page);
        page[12..16].copy_from_slice(&crc.to_le_bytes());
        volume.write(0, &page)
    }
}

/// Whether page 0 is the header of a catalogue. Where it cannot be read, the first pages of the logs decide.
pub(crate) fn holds_files<D: Device>(volume: &mut Volume<D>) -> Result<bool, RepairError> {
    let layout = FilesLayout::new(volume);
    let mut begins_with = |page: u64, magic: &[u8; 8]| {
        let mut found = [0; 8];
        volume.read(page * layout.page, &mut found).map(|()| found == *magic)
    };
    begins_with(0, HEADER_MAGIC).or_else(|_| {
        let has_log = |generation| begins_with(layout.log_page(generation, 0), PAGE_MAGIC) == Ok(true);
        Ok([0, 1].into_iter().any(has_log))
    })
}

/// What page 0 says.
struct HeaderOfLog {
    version: u32,
    /// Of the newest log.
    generation: u64,
    /// The pages with which it was begun.
    complete: u64,
    /// The pages that each log has.
    log_pages: u64,
}

fn decode_header(page: &[u8], seed: u32) -> Result<HeaderOfLog, RepairError> {
    let mut from = Decoder::new(page);
    if from.array::<8>() != *HEADER_MAGIC {
        return Err(RepairError::NoFiles);
    }
    let (version, crc) = (from.u32(), from.u32());
    if !(1..=FILES_VERSION).contains(&version) {
        return Err(RepairError::OtherFilesVersion(version));
    }
    let mut checked = page.to_vec();
    checked[12..16].fill(0);
    if crc32c::crc32c_append(seed, &checked) != crc {
        return Err(damaged("the header of the catalogue", 0, "its checksum is wrong"));
    }
    let (generation, log_pages, complete) = (from.u64(), from.u64(), from.u64());
    Ok(HeaderOfLog { version, generation, complete, log_pages })
}

/// The changes of a page. `None`: it is none of this log.
fn decode_page(page: &[u8], seed: u32, generation: u64, index: u64) -> Result<Option<&[u8]>, &'static str> {
    let mut from = Decoder::new(page);
    if from.array::<8>() != *PAGE_MAGIC {
        return Ok(None);
    }
    let (crc, length) = (from.u32(), from.u32() as usize);
    let Some(checked) = page.get(12..length) else { return Err("a page of it has an impossible length") };
    if crc32c::crc32c_append(seed, checked) != crc {
        return Err("a page of it has the wrong checksum");
    }
    if from.u64() != generation {
        return Ok(None);
    }
    if u64::from(from.u32()) != index || length < PAGE_HEADER {
        return Err("a page of it lies at another page's place");
    }
    Ok(Some(&page[PAGE_HEADER..length]))
}

pub(crate) fn damaged(what: &'static str, offset: u64, why: &str) -> RepairError {
    RepairError::Damaged { what, offset, why: why.to_owned() }
}
