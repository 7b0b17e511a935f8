//! Files on a volume: named files in directories, whose data lies on the volume's pages.
//!
//! # Model
//! The catalogue (files, names, extents) is in memory. Every change of it is appended to a log on the volume's first pages
//! before it takes effect. Data goes straight to pages of the volume.
//!
//! # Method
//! - `file`: what is known of a file. `catalogue`: what is in memory; `change`: what can change; `log`: the changes on the volume.
//! - `places`: where the logs and the data lie. `budget`: how much of its log a catalogue may take.
//! - `extents` and `space`: which pages a file has, and which no file has.
//! - `growth`: pages for files that grow. `times` and `extended`: the times and extended attributes of files.
//! - `reading`: the catalogue is read from its log, also where that is damaged; `salvage`: files of a damaged volume are copied out.
//! - `links`: symbolic links. `names`: files are made, renamed and removed. `data`: they are read and written.
//! - `shrinking`: they are moved away from the end of a volume that becomes smaller.
//!
//! # Invariants
//! - The operations are recovered in their order, because a volume recovers a prefix of its writes. After a power failure the
//!   directory is as it was after some operation (of a write: after some of its pages), and not before the last
//!   [`Files::sync`].
//! - A freed page is discarded before another file has it, so that no file shows data of another.
//! - What a file's last page holds beyond its end is not defined; who enlarges the file writes zeroes over it.
//! - A file without a name exists while it is open, and is removed at the next mount otherwise.

mod budget;
mod catalogue;
mod change;
mod data;
mod extended;
mod extents;
mod file;
mod growth;
mod links;
mod log;
mod names;
mod places;
mod reading;
mod salvage;
mod shrinking;
mod space;
mod times;

use std::collections::BTreeMap;

use flashlab_base::Bytes;
use flashlab_device::Device;

use crate::error::{FileRefusal, RepairError};
use crate::volume::Volume;

use catalogue::{Catalogue, Node};
use change::Change;
use extents::VolumePages;
use log::CatalogueLog;
use space::Space;

pub use extended::SetExtended;
pub use file::{FileAttributes, FileId, FileKind, FileStatus, FilesUsage};
pub use links::LINK_PERMISSIONS;
pub(crate) use places::FilesLayout;
pub(crate) use salvage::check_files;
pub use salvage::{FilesCheck, SalvagedEntry, SalvagedFiles, SalvagedRanges};
pub(crate) use times::RECORDED_AT_ONCE;

/// What a file takes in the catalogue: itself, its size, an extent, and a name of 24 bytes.
const USUAL_FILE_BYTES: u64 = change::NODE_BYTES + change::SIZE_BYTES + change::EXTENT_BYTES + 18 + 24;

/// The files of a volume that is open.
pub struct Files<D> {
    volume: Volume<D>,
    layout: FilesLayout,
    log: CatalogueLog,
    catalogue: Catalogue,
    space: Space,
    /// How often each file is open.
    opens: BTreeMap<FileId, u64>,
    /// Attributes that the log does not have yet.
    changed: BTreeMap<FileId, FileAttributes>,
    /// Free pages that are kept for files that grow.
    windows: BTreeMap<FileId, VolumePages>,
}

impl<D: Device> Files<D> {
    /// Opens the files of a volume. A volume that was never written gets an empty directory.
    ///
    /// # Errors
    /// When the volume holds something else, the catalogue is damaged or the device fails.
    pub fn open(mut volume: Volume<D>) -> Result<Files<D>, RepairError> {
        let loaded = Files::load(&mut volume);
        if loaded.is_err() {
            // It was only looked at: a volume that was closed in order stays so, as far as its device lets it.
            let _ = volume.finish();
        }
        let (log, catalogue, space) = loaded?;
        let layout = log.layout();
        let (opens, changed, windows) = Default::default();
        let mut files = Files { volume, layout, log, catalogue, space, opens, changed, windows };
        files.remove_nameless()?;
        files.discard_free()?;
        Ok(files)
    }

    /// Reads the catalogue, or makes an empty one on a volume that was never written.
    fn load(volume: &mut Volume<D>) -> Result<(CatalogueLog, Catalogue, Space), RepairError> {
        let (log, catalogue) = match CatalogueLog::load(volume)? {
            Some(loaded) => loaded,
            None if volume.mapped_pages() > 0 => return Err(RepairError::NoFiles),
            None => CatalogueLog::make(volume)?,
        };
        let (space, faults) = reading::space_and_faults(&catalogue, log.layout());
        match faults.into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok((log, catalogue, space)),
        }
    }

    /// Whether a file has a page on the volume for this page of it.
    pub(crate) fn has_page(&self, id: FileId, page: u64) -> bool {
        self.catalogue.node(id).is_some_and(|node| node.extents.at(page).is_ok())
    }

    /// The volume.
    pub fn volume(&self) -> &Volume<D> {
        &self.volume
    }

    pub(crate) fn volume_mut(&mut self) -> &mut Volume<D> {
        &mut self.volume
    }

    /// Does a step of packing or a discard of the device, if one is due. False: there is nothing to do.
    pub fn work_while_idle(&mut self) -> bool {
        self.volume.work_while_idle()
    }

    /// Whether something is not durable yet.
    pub fn is_dirty(&self) -> bool {
        !self.changed.is_empty() || self.volume.is_dirty()
    }

    /// Makes everything so far durable: data, names, and attributes. With `data_only` the times of the last changes may be
    /// missing, as after `fdatasync`.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sync(&mut self, data_only: bool) -> Result<(), RepairError> {
        if !data_only {
            self.record_attributes()?;
        }
        self.volume.flush()
    }

    /// Makes everything durable and closes the volume in order; it is read-only from now on.
    ///
    /// # Errors
    /// As [`Files::sync`].
    pub fn finish(&mut self) -> Result<(), RepairError> {
        self.record_attributes()?;
        self.volume.finish()
    }

    /// The device beneath. Whatever is not flushed is lost, as when the power fails.
    pub fn abandon(self) -> D {
        self.volume.abandon()
    }

    /// How much is used.
    pub fn usage(&self) -> FilesUsage {
        let left = self.catalogue_max().saturating_sub(self.catalogue.charge());
        FilesUsage {
            total: Bytes(self.space.pages() * self.layout.page),
            free: Bytes(self.free_pages() * self.layout.page),
            files: self.catalogue.nodes().count() as u64,
            free_files: left / USUAL_FILE_BYTES,
        }
    }

    /// Gives back the space that was kept for files that grow.
    pub fn give_back(&mut self) {
        self.give_windows_back();
    }

    fn node(&self, id: FileId) -> Result<&Node, RepairError> {
        self.catalogue.node(id).ok_or(FileRefusal::Missing.into())
    }

    /// Appends changes to the log, applies them, and frees what they free.
    fn change(&mut self, changes: &[Change]) -> Result<(), RepairError> {
        self.log.append(&mut self.volume, &self.catalogue, changes)?;
        for change in changes {
            if let Change::Remove { id } = change {
                self.changed.remove(id);
                self.give_window_back(*id);
            }
            let freed = self.catalogue.apply(change).expect("changes are checked before they are made");
            for pages in freed {
                self.volume.discard(pages.first * self.layout.page, pages.count * self.layout.page)?;
                self.space.release(pages);
            }
        }
        Ok(())
    }

    fn catalogue_max(&self) -> u64 {
        budget::catalogue_max(self.layout.log_pages, self.layout.page)
    }

    /// Fails if the catalogue cannot be charged this much more.
    fn check_catalogue(&self, charge: u64) -> Result<(), RepairError> {
        match self.catalogue.charge() + charge <= self.catalogue_max() {
            true => Ok(()),
            false => Err(FileRefusal::CatalogueFull.into()),
        }
    }

    /// Removes the files that were open without a name when the power failed.
    fn remove_nameless(&mut self) -> Result<(), RepairError> {
        let nameless: Vec<FileId> =
            self.catalogue.nodes().filter(|(_, node)| node.links == 0).map(|(id, _)| id).collect();
        nameless.into_iter().try_for_each(|id| self.change(&[Change::Remove { id }]))
    }

    /// Discards what was freed or written when the power failed, so that new pages of files are zeroes.
    fn discard_free(&mut self) -> Result<(), RepairError> {
        for VolumePages { first, count } in self.space.free_runs() {
            self.volume.discard(first * self.layout.page, count * self.layout.page)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_log;
#[cfg(test)]
mod tests_posix;
#[cfg(test)]
mod tests_salvage;
