//! Moving files away from the end of the volume, before the volume is made smaller.
//!
//! # Method
//! For each extent, or part of one, behind the new end: (1) find free pages before it, (2) copy the data, (3) record in one change of
//! the log that the file has the new pages and not the old ones. So each moved extent is a step that is recovered whole or not at all,
//! and a power failure leaves every file as it was.
//!
//! # Invariants
//! - Nothing is lost when the space does not suffice: files that were moved are where they were moved to, the others stay.

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::change::{self, Change};
use super::extents::VolumePages;
use super::file::FileId;
use super::reading::holds_files;
use super::{Files, FilesLayout};
use crate::error::{FileRefusal, RepairError};
use crate::volume::Volume;

/// Pages that are copied at once.
const COPIED_AT_ONCE: u64 = 256;

impl<D: Device> Files<D> {
    /// Whether a volume holds files, as opposed to the data of a block device.
    ///
    /// # Errors
    /// When the device fails.
    pub fn are_on(volume: &mut Volume<D>) -> Result<bool, RepairError> {
        let layout = FilesLayout::new(volume);
        Ok(holds_files(&mut |page, bytes| volume.read(page * layout.page, bytes), layout))
    }

    /// Moves files so that none has a page at or behind `end`, and makes that durable. Returns how much was moved. The volume may be
    /// made as small as that afterwards; more files must not be written before.
    ///
    /// # Errors
    /// [`FileRefusal::NoSpace`] when the space before `end` does not suffice, [`RepairError::Options`] when the catalogue itself lies behind
    /// it; no file is changed by that. When the device fails.
    pub fn move_before(&mut self, end: Bytes) -> Result<Bytes, RepairError> {
        let end = end.0 / self.layout.page;
        self.check_end(end)?;
        self.give_windows_back();
        // What is free behind the end must not be given to anybody.
        let behind = VolumePages { first: end, count: self.layout.pages.saturating_sub(end) };
        for run in self.space.free_runs() {
            if let Some(run) = common(run, behind) {
                self.space.take(run);
            }
        }
        let mut moved = 0;
        while let Some((id, file_page, pages)) = self.extent_behind(end) {
            moved += self.move_pages(id, file_page, pages)?;
        }
        self.sync(false)?;
        Ok(Bytes(moved * self.layout.page))
    }

    /// The volume, for whoever goes on with it.
    pub fn into_volume(self) -> Volume<D> {
        self.volume
    }

    fn check_end(&self, end: u64) -> Result<(), RepairError> {
        let FilesLayout { page, .. } = self.layout;
        let first = self.layout.data();
        if end <= first {
            return Err(RepairError::Options(format!(
                "the catalogue of the volume's files takes {}: give a size above that",
                Bytes(first * page)
            )));
        }
        let used: u64 = self.catalogue.nodes().map(|(_, node)| node.extents.pages()).sum();
        match used <= end - first {
            true => Ok(()),
            false => Err(RepairError::Options(format!(
                "the volume's files take {}, and their catalogue {}: remove files, or give a larger size",
                Bytes(used * page),
                Bytes(first * page)
            ))),
        }
    }

    /// The part of an extent behind `end`: file, page of the file, pages of the volume.
    pub(super) fn extent_behind(&self, end: u64) -> Option<(FileId, u64, VolumePages)> {
        let behind = VolumePages { first: end, count: u64::MAX - end };
        self.catalogue.nodes().find_map(|(id, node)| {
            node.extents.iter().find_map(|(file_page, pages)| {
                let part = common(pages, behind)?;
                Some((id, file_page + (part.first - pages.first), part))
            })
        })
    }

    /// Moves the first pages of an extent. Returns their number.
    fn move_pages(&mut self, id: FileId, file_page: u64, from: VolumePages) -> Result<u64, RepairError> {
        // The extent may become two.
        self.check_catalogue(2 * change::EXTENT_BYTES)?;
        let wanted = from.count.min(COPIED_AT_ONCE);
        let to = self.space.find(None, wanted).ok_or(FileRefusal::NoSpace)?;
        self.space.take(to);
        let hole = Change::Hole { id, file_page, count: to.count };
        let copied = self.copy_pages(from.first, to);
        let moved = copied.and_then(|()| self.change(&[hole, Change::Extent { id, file_page, pages: to }]));
        if let Err(error) = moved {
            self.unplan(id, &[(file_page, to)]);
            return Err(error);
        }
        // They were freed, and lie behind the end.
        self.space.take(VolumePages { first: from.first, count: to.count });
        Ok(to.count)
    }

    /// Copies pages of the volume to free ones.
    fn copy_pages(&mut self, from: u64, to: VolumePages) -> Result<(), RepairError> {
        let page = self.layout.page;
        let mut data = vec![0; (to.count * page) as usize];
        self.volume.read(from * page, &mut data)?;
        // Free pages are zeroes. Pages that were never written stay so.
        for (at, data) in (to.first..).zip(data.chunks_exact(page as usize)) {
            if data.iter().any(|&byte| byte != 0) {
                self.volume.write(at * page, data)?;
            }
        }
        Ok(())
    }
}

/// The pages that are in both.
fn common(one: VolumePages, other: VolumePages) -> Option<VolumePages> {
    let first = one.first.max(other.first);
    let end = (one.first + one.count).min(other.first.saturating_add(other.count));
    (first < end).then(|| VolumePages { first, count: end - first })
}
