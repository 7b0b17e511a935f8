//! Reads: every page is verified against the header of its record.
//!
//! # Method
//! Pages that lie behind each other are read with one IO. The header of their record is read at the same time, unless
//! it is known. A page that was never written, or was discarded, reads as zeroes.

use flashlab_base::Bytes;
use flashlab_device::{Arena, Buffer, Device};

use super::Volume;
use crate::device_io::ReadRange;
use crate::error::RepairError;
use crate::format::record::page_checksum;
use crate::map::Location;

/// Logical pages that lie behind each other in one record.
struct Run {
    page: u64,
    location: Location,
    count: usize,
}

impl<D: Device> Volume<D> {
    /// Reads bytes.
    ///
    /// # Errors
    /// When the range is not inside the volume, the device fails, or a page is not what was written there. `data` is
    /// undefined then.
    pub fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), RepairError> {
        self.check_range(offset, data.len() as u64)?;
        let size = self.page_size();
        let mut at = 0;
        while at < data.len() {
            let start = offset + at as u64;
            let (page, within) = (start / size as u64, (start % size as u64) as usize);
            let rest = data.len() - at;
            let Some(location) = self.map.get(page) else {
                let part = rest.min(size - within);
                data[at..at + part].fill(0);
                at += part;
                continue;
            };
            if let Some((log, index)) = self.in_memory(location)
                && let Some(record) = &self.open[log]
            {
                let part = rest.min(size - within);
                data[at..at + part].copy_from_slice(&record.page(index, size)[within..within + part]);
                at += part;
                continue;
            }
            let wanted = (within + rest).div_ceil(size);
            let run = Run { page, location, count: self.run_length(page, location, wanted) };
            let part = rest.min(run.count * size - within);
            self.read_run(&run, within, &mut data[at..at + part])?;
            at += part;
        }
        Ok(())
    }

    /// How many pages from this one on lie behind each other in its record.
    fn run_length(&self, page: u64, first: Location, wanted: usize) -> usize {
        let follows = |index: &usize| {
            let distance = usize::from(first.distance) + index;
            distance <= usize::from(u8::MAX)
                && self.map.get(page + *index as u64)
                    == Some(Location { position: first.position + *index as u32, distance: distance as u8 })
        };
        1 + (1..wanted).take_while(follows).count()
    }

    fn read_run(&mut self, run: &Run, within: usize, data: &mut [u8]) -> Result<(), RepairError> {
        let size = self.page_size();
        let length = Bytes((run.count * size) as u64);
        let offset = self.layout().offset(run.location.position);
        if self.scratch.len() < length.0 as usize {
            self.scratch = Arena::buffers(1, length).remove(0);
        }
        let buffer = std::mem::replace(&mut self.scratch, Buffer::empty());
        let whole = ReadRange { offset, size: length, buffer };
        let header = run.location.header();
        let read = if self.headers.get(header).is_some() {
            let mut ranges = [whole];
            let read = self.io.read(&mut ranges);
            let [whole] = ranges;
            self.scratch = whole.buffer;
            read
        } else {
            let size = self.layout().options.page;
            if self.header_scratch.is_empty() {
                self.header_scratch = Arena::buffers(1, size).remove(0);
            }
            let buffer = std::mem::replace(&mut self.header_scratch, Buffer::empty());
            let mut ranges = [whole, ReadRange { offset: self.layout().offset(header), size, buffer }];
            let read = self.io.read(&mut ranges);
            let [whole, first] = ranges;
            if read.is_ok() {
                self.headers.put_read(self.seed, header, first.bytes());
            }
            (self.scratch, self.header_scratch) = (whole.buffer, first.buffer);
            read
        };
        read?;
        self.verify(run, offset)?;
        data.copy_from_slice(&self.scratch[within..within + data.len()]);
        Ok(())
    }

    /// Whether the pages in the scratch buffer are those of the run.
    fn verify(&self, run: &Run, offset: u64) -> Result<(), RepairError> {
        let size = self.page_size();
        let segment_sequence = self.placer.table().segment(self.slot(run.location).segment).sequence;
        let header = self.headers.get(run.location.header());
        let Some(header) = header.filter(|header| header.segment_sequence() == segment_sequence) else {
            let offset = self.layout().offset(run.location.header());
            let why = "it is not the record that the map names".to_owned();
            return Err(RepairError::Damaged { what: "the header of a record", offset, why });
        };
        for (index, data) in self.scratch[..run.count * size].chunks_exact(size).enumerate() {
            let page = run.page + index as u64;
            let expected = header.checksum(run.location.distance + index as u8, page);
            if expected != Some(page_checksum(self.seed, page, header.sequence(), data)) {
                let why = format!("its checksum is not that of page {page} of the volume");
                let offset = offset + (index * size) as u64;
                return Err(RepairError::Damaged { what: "a page", offset, why });
            }
        }
        Ok(())
    }
}
