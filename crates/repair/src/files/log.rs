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

use super::catalogue::Catalogue;
use super::change::Change;
use super::places::{FilesLayout, HEADER_MAGIC, PAGE_HEADER, PAGE_MAGIC};
use super::reading::{self, ReadCatalogue, ReadTo};
use crate::error::{FileRefusal, RepairError};
use crate::format::{Encoder, FILES_VERSION};
use crate::volume::Volume;

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
        let (layout, seed) = (FilesLayout::new(volume), volume.superblock().uuid.seed());
        let mut read = |page: u64, bytes: &mut [u8]| volume.read(page * layout.page, bytes);
        let Some(header) = reading::header(&mut read, layout, seed)? else { return Ok(None) };
        let ReadCatalogue { layout, index, changes, catalogue, faults } =
            reading::catalogue(&mut read, layout, seed, &header, ReadTo::TheEnd);
        if let Some(fault) = faults.into_iter().next() {
            return Err(fault);
        }
        let log = CatalogueLog { layout, seed, generation: header.generation, index, changes };
        if header.version < FILES_VERSION {
            // Versions 1 and 2 lack changes, and are otherwise the same. Who reads them alone must not find those.
            log.write_header(volume, header.complete)?;
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
