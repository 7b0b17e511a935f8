//! Pages for a file that grows.
//!
//! # Model
//! Pages are planned first, then written, and become the file's in one step with its new size. A file that grows gets more pages than
//! it needs: its window, which no other file takes, so that files that grow at the same time have few extents. The catalogue does not
//! know windows: they are in memory, and count as free.
//!
//! # Invariants
//! - A window is given back when the file is closed, when it grows elsewhere or becomes smaller, with each write-back, and to all files
//!   before any is refused for want of space.
//! - Pages of a window were never written: they are zeroes.

use flashlab_device::Device;

use super::Files;
use super::catalogue::Node;
use super::change::{self, Change};
use super::extents::VolumePages;
use super::file::FileId;
use crate::error::{FileRefusal, RepairError};

/// A file that grows takes a quarter of its pages in addition, at most this number.
const AHEAD_MAX: u64 = 256;
const AHEAD_SHARE: u64 = 4;
/// Extents that are recorded together: they lie in one page of the log, which has at least 4 KiB.
const EXTENTS_AT_ONCE: usize = 64;

/// Pages that a file will have: where in the file, and where on the volume.
pub(super) type Planned = Vec<(u64, VolumePages)>;

impl<D: Device> Files<D> {
    /// Takes pages for the holes of a range of a file, for [`Files::record`]; if the file `grows`, a window as well.
    ///
    /// # Errors
    /// When there are too few, or the catalogue is full; none is taken then.
    pub(super) fn plan(
        &mut self,
        id: FileId,
        from: u64,
        to: u64,
        grows: bool,
    ) -> Result<Planned, RepairError> {
        let mut planned = Planned::new();
        let result = self.plan_holes(id, (from, to), grows, &mut planned);
        let result = result.and_then(|()| self.check_catalogue(planned.len() as u64 * change::EXTENT_BYTES));
        if let Err(error) = result {
            planned.iter().for_each(|(_, pages)| self.space.release(*pages));
            return Err(error);
        }
        Ok(planned)
    }

    fn plan_holes(
        &mut self,
        id: FileId,
        (from, to): (u64, u64),
        grows: bool,
        planned: &mut Planned,
    ) -> Result<(), RepairError> {
        let page = self.layout.page;
        let (mut at, end) = (from / page, to.div_ceil(page));
        while at < end {
            let extents = &self.node(id)?.extents;
            let hole = match extents.at(at) {
                Ok(pages) => {
                    at += pages.count;
                    continue;
                }
                Err(hole) => hole,
            };
            let before = at.checked_sub(1).and_then(|before| extents.at(before).ok());
            let goal = match planned.last() {
                Some((start, pages)) if start + pages.count == at => Some(pages.first + pages.count),
                _ => before.map(|pages| pages.first + 1),
            };
            let needed = hole.min(end - at);
            let is_last = grows && hole > end - at;
            let ahead =
                if is_last { (extents.end() / AHEAD_SHARE).min(AHEAD_MAX).min(hole - needed) } else { 0 };
            let pages = self.take(id, goal, needed, ahead)?;
            planned.push((at, pages));
            at += pages.count;
        }
        Ok(())
    }

    /// Takes up to `needed` pages, from the file's window if that lies at the goal. A new window begins behind them.
    fn take(
        &mut self,
        id: FileId,
        goal: Option<u64>,
        needed: u64,
        ahead: u64,
    ) -> Result<VolumePages, RepairError> {
        if let Some(window) = self.windows.remove(&id) {
            if Some(window.first) == goal {
                let taken = window.count.min(needed);
                self.keep_window(id, window, taken);
                return Ok(VolumePages { first: window.first, count: taken });
            }
            self.space.release(window);
        }
        if self.space.free() < needed {
            self.give_windows_back();
        }
        let ahead = if self.space.free() > needed + 2 * AHEAD_MAX { ahead } else { 0 };
        let found = match self.space.free() >= needed {
            true => self.space.find(goal, needed + ahead),
            false => None,
        };
        let found = found.ok_or(FileRefusal::NoSpace)?;
        self.space.take(found);
        let taken = found.count.min(needed);
        self.keep_window(id, found, taken);
        Ok(VolumePages { first: found.first, count: taken })
    }

    /// Frees planned pages that the file did not get, because something failed. If they cannot be discarded, they stay taken until the
    /// next mount.
    pub(super) fn unplan(&mut self, id: FileId, planned: &[(u64, VolumePages)]) {
        let page = self.layout.page;
        for &(file_page, pages) in planned {
            let has = self.catalogue.node(id).and_then(|node| node.extents.at(file_page).ok());
            let is_its = has.is_some_and(|has| has.first == pages.first);
            if !is_its && self.volume.discard(pages.first * page, pages.count * page).is_ok() {
                self.space.release(pages);
            }
        }
    }

    /// Keeps the pages behind the first `taken` ones as the file's window.
    fn keep_window(&mut self, id: FileId, pages: VolumePages, taken: u64) {
        if pages.count > taken {
            self.windows.insert(id, VolumePages { first: pages.first + taken, count: pages.count - taken });
        }
    }

    /// Records that a file has the planned pages, and a new size. One step, unless there are more extents than a page of the log takes.
    pub(super) fn record(
        &mut self,
        id: FileId,
        planned: &Planned,
        size: Option<u64>,
    ) -> Result<(), RepairError> {
        let extents = planned.iter().map(|&(file_page, pages)| Change::Extent { id, file_page, pages });
        let size = size.map(|size| Change::Size { id, size });
        let changes: Vec<Change> = extents.chain(size).collect();
        changes.chunks(EXTENTS_AT_ONCE).try_for_each(|some| self.change(some))
    }

    /// Gives the window of a file back.
    pub(super) fn give_window_back(&mut self, id: FileId) {
        if let Some(window) = self.windows.remove(&id) {
            self.space.release(window);
        }
    }

    /// Gives the windows of all files back.
    pub(super) fn give_windows_back(&mut self) {
        while let Some((_, window)) = self.windows.pop_first() {
            self.space.release(window);
        }
    }

    /// Pages that no file has.
    pub(super) fn free_pages(&self) -> u64 {
        self.space.free() + self.windows.values().map(|window| window.count).sum::<u64>()
    }
}

/// Where a page of a file lies or will lie, and how many pages follow it there.
pub(super) fn place_of(node: &Node, planned: &Planned, file_page: u64) -> Option<VolumePages> {
    let of_planned = || {
        let at = planned.partition_point(|(start, _)| *start <= file_page).checked_sub(1)?;
        let (start, pages) = planned[at];
        let skipped = file_page - start;
        let count = pages.count.checked_sub(skipped).filter(|count| *count > 0)?;
        Some(VolumePages { first: pages.first + skipped, count })
    };
    node.extents.at(file_page).ok().or_else(of_planned)
}
