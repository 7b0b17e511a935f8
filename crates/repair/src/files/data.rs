//! Reading and writing files.
//!
//! # Method
//! A write (1) plans pages for the holes that it fills, (2) replaces by zeroes what an earlier, larger file left between the old end and
//! the write, (3) writes the data, and (4) records the new pages and the new size. So a size never covers data that is not there, and
//! what a write adds to a file is there as a whole or not at all. What it overwrites is there page by page.

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::Files;
use super::catalogue::Node;
use super::change::{self, Change};
use super::file::{FileId, FileKind};
use super::growth::{Planned, place_of};
use crate::error::{FileRefusal, RepairError};
use crate::seeded_bug::SeededBug;
use crate::volume::ReadStep;

/// The largest file, as Linux bounds it.
const SIZE_MAX: u64 = i64::MAX as u64;

impl<D: Device> Files<D> {
    /// Reads bytes from a file, and returns their number: fewer than `data` takes at the file's end.
    ///
    /// # Errors
    /// When there is no such file, or the device fails or holds something else than was written.
    pub fn read(&mut self, id: FileId, offset: u64, data: &mut [u8]) -> Result<usize, RepairError> {
        self.check_data(id)?;
        self.read_pages(id, offset, data)
    }

    /// Begins a read of a file's data: copies what needs no IO, or says which IO is needed next. `Done(0)`: the file ends there.
    pub(crate) fn plan_read(
        &mut self,
        id: FileId,
        offset: u64,
        data: &mut [u8],
    ) -> Result<ReadStep, RepairError> {
        self.check_data(id)?;
        let page = self.layout.page;
        let node = file(self.catalogue.node(id))?;
        let length = node.size.saturating_sub(offset).min(data.len() as u64);
        let (file_page, within) = (offset / page, offset % page);
        let span = |pages: u64| (pages.saturating_mul(page) - within).min(length) as usize;
        match node.extents.at(file_page) {
            _ if length == 0 => Ok(ReadStep::Done(0)),
            Ok(pages) => self.volume.plan_read(pages.first * page + within, &mut data[..span(pages.count)]),
            Err(hole) => {
                data[..span(hole)].fill(0);
                Ok(ReadStep::Done(span(hole)))
            }
        }
    }

    /// Reads the data of a file, or the target of a symbolic link.
    pub(super) fn read_pages(
        &mut self,
        id: FileId,
        offset: u64,
        data: &mut [u8],
    ) -> Result<usize, RepairError> {
        let page = self.layout.page;
        let node = file(self.catalogue.node(id))?;
        let length = node.size.saturating_sub(offset).min(data.len() as u64) as usize;
        let data = &mut data[..length];
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let (file_page, within) = (at / page, at % page);
            let left = (length - done) as u64;
            let span = |pages: u64| (pages.saturating_mul(page) - within).min(left) as usize;
            match node.extents.at(file_page) {
                Ok(pages) => {
                    let part = span(pages.count);
                    self.volume.read(pages.first * page + within, &mut data[done..done + part])?;
                    done += part;
                }
                Err(hole) => {
                    let part = span(hole);
                    data[done..done + part].fill(0);
                    done += part;
                }
            }
        }
        Ok(length)
    }

    /// Writes bytes into a file at an offset; with `None` at its end. Returns where they went.
    ///
    /// # Errors
    /// When there is no such file, the volume is full, or the device fails.
    pub fn write(
        &mut self,
        id: FileId,
        offset: Option<u64>,
        data: &[u8],
        now_ns: i64,
    ) -> Result<u64, RepairError> {
        self.check_data(id)?;
        let size = file(self.catalogue.node(id))?.size;
        let offset = offset.unwrap_or(size);
        let end = end_of(offset, data.len() as u64)?;
        if data.is_empty() {
            return Ok(offset);
        }
        let grown = (end > size).then_some(end);
        let planned = self.plan(id, offset, end, grown.is_some())?;
        let zeroed = if offset > size { self.zero(id, size, offset) } else { Ok(()) };
        let written = zeroed.and_then(|()| {
            if self.volume.has_bug(SeededBug::SizeBeforeData) {
                self.record(id, &planned, grown)?;
                return self.write_pages(id, offset, data, &Planned::new());
            }
            self.write_pages(id, offset, data, &planned)?;
            self.record(id, &planned, grown)
        });
        if let Err(error) = written {
            self.unplan(id, &planned);
            return Err(error);
        }
        self.modified(id, now_ns);
        Ok(offset)
    }

    /// Overwrites a part of a file, and calls `acknowledge` before, if only a failing device can prevent that it is written. False: it
    /// is not as simple, and nothing was done. After a failure every later write and flush fails.
    pub fn overwrite_acknowledging(
        &mut self,
        id: FileId,
        offset: u64,
        data: &[u8],
        now_ns: i64,
        acknowledge: impl FnOnce(),
    ) -> bool {
        let length = data.len() as u64;
        let Some(range) = self.range_on_volume(id, offset, length) else { return false };
        if !self.volume.takes_at_once(range, length) {
            return false;
        }
        acknowledge();
        self.volume.write_acknowledged(range, data);
        self.modified(id, now_ns);
        true
    }

    /// Where on the volume a range of a file lies, if it lies there in one run.
    fn range_on_volume(&self, id: FileId, offset: u64, length: u64) -> Option<u64> {
        let page = self.layout.page;
        let node = file(self.catalogue.node(id)).ok().filter(|node| node.kind == FileKind::Regular)?;
        let pages = node.extents.at(offset / page).ok()?;
        let (within, end) = (offset % page, offset.checked_add(length)?);
        (end <= node.size && within + length <= pages.count * page).then_some(pages.first * page + within)
    }

    /// Changes the size of a file. What is added reads as zeroes.
    ///
    /// # Errors
    /// As [`Files::write`].
    pub fn truncate(&mut self, id: FileId, size: Bytes, now_ns: i64) -> Result<(), RepairError> {
        self.check_data(id)?;
        let old = file(self.catalogue.node(id))?.size;
        end_of(size.0, 0)?;
        if size.0 > old {
            self.zero(id, old, size.0)?;
        }
        if size.0 != old {
            self.change(&[Change::Size { id, size: size.0 }])?;
            self.give_window_back(id);
        }
        self.modified(id, now_ns);
        Ok(())
    }

    /// Takes pages for a range of a file, which reads as before. Unless `keeps_size`, the file becomes large enough for it.
    ///
    /// # Errors
    /// As [`Files::write`].
    pub fn allocate(
        &mut self,
        id: FileId,
        offset: u64,
        length: u64,
        keeps_size: bool,
        now_ns: i64,
    ) -> Result<(), RepairError> {
        self.check_data(id)?;
        let size = file(self.catalogue.node(id))?.size;
        let end = end_of(offset, length)?;
        let planned = self.plan(id, offset, end, false)?;
        let grown = (end > size && !keeps_size).then_some(end);
        let zeroed = if grown.is_some() { self.zero(id, size, end) } else { Ok(()) };
        if let Err(error) = zeroed.and_then(|()| self.record(id, &planned, grown)) {
            self.unplan(id, &planned);
            return Err(error);
        }
        self.modified(id, now_ns);
        Ok(())
    }

    /// Makes a range of a file zeroes, and frees its pages. The size stays.
    ///
    /// # Errors
    /// As [`Files::write`].
    pub fn punch(&mut self, id: FileId, offset: u64, length: u64, now_ns: i64) -> Result<(), RepairError> {
        let page = self.layout.page;
        self.check_data(id)?;
        let end = end_of(offset, length)?;
        let (first, last) = (offset.div_ceil(page), end / page);
        self.check_catalogue(change::EXTENT_BYTES)?;
        if first >= last {
            self.zero(id, offset, end)?;
        } else {
            self.zero(id, offset, first * page)?;
            self.change(&[Change::Hole { id, file_page: first, count: last - first }])?;
            self.zero(id, last * page, end)?;
        }
        self.modified(id, now_ns);
        Ok(())
    }

    /// The first offset from `offset` on at which the file has data; what is allocated and was never written is none.
    ///
    /// # Errors
    /// [`FileRefusal::NoData`] when there is none; when there is no such file.
    pub fn seek_data(&self, id: FileId, offset: u64) -> Result<u64, RepairError> {
        self.seek(id, offset, true)?.ok_or(FileRefusal::NoData.into())
    }

    /// The first offset from `offset` on at which the file has no data; its end, if nothing else.
    ///
    /// # Errors
    /// As [`Files::seek_data`], when `offset` is not before the file's end.
    pub fn seek_hole(&self, id: FileId, offset: u64) -> Result<u64, RepairError> {
        let found = self.seek(id, offset, false)?;
        Ok(found.unwrap_or(file(self.catalogue.node(id))?.size))
    }

    fn seek(&self, id: FileId, offset: u64, data: bool) -> Result<Option<u64>, RepairError> {
        let page = self.layout.page;
        let node = file(self.catalogue.node(id))?;
        if offset >= node.size {
            return Err(FileRefusal::NoData.into());
        }
        let mut at = offset / page;
        while at * page < node.size {
            let (is_data, count) = match node.extents.at(at) {
                Ok(pages) => (self.volume.is_written(pages.first), 1),
                Err(hole) => (false, hole),
            };
            if is_data == data {
                return Ok(Some(offset.max(at * page)));
            }
            at = at.saturating_add(count);
            if at > node.size / page {
                break;
            }
        }
        Ok(None)
    }

    /// Fails unless programs may read and write it.
    fn check_data(&self, id: FileId) -> Result<(), RepairError> {
        match file(self.catalogue.node(id))?.kind {
            FileKind::SymbolicLink => Err(FileRefusal::SymbolicLink.into()),
            FileKind::Regular | FileKind::Directory => Ok(()),
        }
    }

    /// Replaces what the file's pages hold in a range by zeroes; they stay the file's.
    fn zero(&mut self, id: FileId, from: u64, to: u64) -> Result<(), RepairError> {
        let page = self.layout.page;
        let mut at = from;
        while at < to {
            let (file_page, within) = (at / page, at % page);
            let span = |pages: u64| (pages.saturating_mul(page) - within).min(to - at);
            at += match file(self.catalogue.node(id))?.extents.at(file_page) {
                Ok(pages) => {
                    let part = span(pages.count);
                    self.volume.discard(pages.first * page + within, part)?;
                    part
                }
                Err(hole) => span(hole),
            };
        }
        Ok(())
    }

    /// Writes data into pages that the file has or will have.
    fn write_pages(
        &mut self,
        id: FileId,
        offset: u64,
        data: &[u8],
        planned: &Planned,
    ) -> Result<(), RepairError> {
        let page = self.layout.page;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let pages = place_of(file(self.catalogue.node(id))?, planned, at / page);
            let pages = pages.expect("pages were planned for the holes");
            let part = ((pages.count * page - at % page) as usize).min(data.len() - done);
            self.volume.write(pages.first * page + at % page, &data[done..done + part])?;
            done += part;
        }
        Ok(())
    }
}

/// A file with data.
fn file(node: Option<&Node>) -> Result<&Node, RepairError> {
    match node {
        None => Err(FileRefusal::Missing.into()),
        Some(node) if node.kind == FileKind::Directory => Err(FileRefusal::IsDirectory.into()),
        Some(node) => Ok(node),
    }
}

fn end_of(offset: u64, length: u64) -> Result<u64, RepairError> {
    offset.checked_add(length).filter(|end| *end <= SIZE_MAX).ok_or(FileRefusal::TooLarge.into())
}
