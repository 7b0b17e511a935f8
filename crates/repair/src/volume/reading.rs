//! Reads: every page is verified against the header of its record.
//!
//! # Method
//! Pages that lie behind each other are read with one IO, also over the header of the next record, which is read with them. The header
//! of the first record is read at the same time, unless it is known; with the same IO, if it lies in front of the first page. A page that
//! was never written, or was discarded, reads as zeroes. No header is read for pages whose checksums are known
//! ([`KnownChecksums`](crate::known_checksums::KnownChecksums)): each header is read once.
//!
//! A read is planned, its IOs are done, and it is accepted. Between planning and accepting the volume may be used by others
//! ([`SharedVolume`](crate::SharedVolume)): a read whose pages were moved meanwhile is not accepted.

use flashlab_base::Bytes;
use flashlab_device::{Buffer, Device};

use super::Volume;
use crate::device_io::{ReadRange, read_buffer};
use crate::error::RepairError;
use crate::format::record::page_checksum;
use crate::known_checksums::NO_SEQUENCE;
use crate::map::Location;
use crate::segment_table::Slot;

/// A read of the device has at most this number of bytes, beside headers: it bounds the memory of a thread that reads.
const READ_MAX: usize = 4 << 20;

/// Logical pages that lie behind each other in one record.
struct Run {
    page: u64,
    location: Location,
    count: usize,
    /// The use of the segment that they lie in.
    segment_sequence: u64,
    /// The checksums of all pages. `None`: the header has them.
    known: Option<Vec<u32>>,
}

/// A read of pages that lie on the device.
pub(crate) struct PlannedRead {
    first: Run,
    /// Those of the next records in the same segment, each behind its header.
    next: Vec<Run>,
    /// The position of the first page that is read.
    start: u32,
    /// The first byte of the first run that is wanted.
    within: usize,
    /// The number of bytes that are wanted.
    pub length: usize,
    /// Where they lie.
    pub offset: u64,
    /// Its size.
    pub size: Bytes,
    /// Where the header of its record has to be read, in a page. `None`: it is known.
    pub header: Option<u64>,
    /// The size of a page.
    pub page_size: Bytes,
    /// Where every checksum begins.
    seed: u32,
}

/// The next part of a read.
pub(crate) enum ReadStep {
    /// This number of bytes is there.
    Done(usize),
    /// The device has to be read.
    Device(PlannedRead),
}

impl<D: Device> Volume<D> {
    /// Reads bytes.
    ///
    /// # Errors
    /// When the range is not inside the volume, the device fails, or a page is not what was written there. `data` is
    /// undefined then.
    pub fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), RepairError> {
        self.check_range(offset, data.len() as u64)?;
        let mut at = 0;
        while at < data.len() {
            at += match self.plan_read(offset + at as u64, &mut data[at..])? {
                ReadStep::Done(length) => length,
                ReadStep::Device(planned) => {
                    self.read_planned(&planned, &mut data[at..at + planned.length])?;
                    planned.length
                }
            };
        }
        Ok(())
    }

    /// Begins a read: copies what needs no IO, or says which IO is needed next.
    pub(crate) fn plan_read(&mut self, start: u64, data: &mut [u8]) -> Result<ReadStep, RepairError> {
        self.check_lost(start, data.len())?;
        let size = self.page_size();
        let (page, within) = (start / size as u64, (start % size as u64) as usize);
        let one = data.len().min(size - within);
        let Some(location) = self.map.get(page) else {
            data[..one].fill(0);
            return Ok(ReadStep::Done(one));
        };
        if let Some((log, index)) = self.in_memory(location)
            && let Some(record) = &self.open[log]
        {
            data[..one].copy_from_slice(&record.page(index, size)[within..within + one]);
            return Ok(ReadStep::Done(one));
        }
        Ok(ReadStep::Device(self.plan_at(start, location, data.len())))
    }

    /// The read of a page that lies on the device, and of what lies behind it.
    fn plan_at(&self, start_byte: u64, location: Location, length: usize) -> PlannedRead {
        let size = self.page_size();
        let (page, within) = (start_byte / size as u64, (start_byte % size as u64) as usize);
        let wanted = (within + length).min(READ_MAX).div_ceil(size);
        let first = self.run(page, location, wanted);
        let next = self.next_runs(&first, wanted);
        let last = next.last().unwrap_or(&first);
        let pages = first.count + next.iter().map(|run| run.count).sum::<usize>();
        let is_known = first.known.is_some() || self.headers.get(location.header()).is_some();
        let start = if is_known || location.distance > 1 { location.position } else { location.header() };
        PlannedRead {
            within,
            length: length.min(pages * size - within),
            start,
            offset: self.layout().offset(start),
            size: Bytes(u64::from(last.end() - start) * size as u64),
            header: (!is_known && start == location.position)
                .then(|| self.layout().offset(location.header())),
            page_size: Bytes(size as u64),
            seed: self.seed,
            first,
            next,
        }
    }

    /// Waits until the device has what a planned read wants, so that another handle may read it.
    pub(crate) fn settle(&mut self, planned: &PlannedRead) {
        self.io.settle(planned.offset, planned.size);
        if let Some(header) = planned.header {
            self.io.settle(header, planned.page_size);
        }
    }

    /// Whether the pages of a planned read are still where they were.
    pub(crate) fn is_there(&self, planned: &PlannedRead) -> bool {
        planned.runs().all(|run| {
            let segment = self.slot(run.location).segment;
            self.placer.table().segment(segment).sequence == run.segment_sequence
                && (0..run.count).all(|index| self.map.get(run.page + index as u64) == Some(run.at(index)))
        })
    }

    /// Takes what another handle has read. `false`: the pages were moved meanwhile, or are not what was written.
    pub(crate) fn accept(
        &mut self,
        planned: &PlannedRead,
        read: &[u8],
        header: &[u8],
        data: &mut [u8],
    ) -> bool {
        if !self.is_there(planned) {
            return false;
        }
        if planned.header.is_some() {
            self.headers.put_read(self.seed, planned.first.location.header(), header);
        }
        self.copy_verified(planned, read, data).is_ok()
    }

    /// The pages from this one on that lie behind each other in its record.
    fn run(&self, page: u64, location: Location, wanted: usize) -> Run {
        let slot = self.slot(location);
        let segment_sequence = self.placer.table().segment(slot.segment).sequence;
        let count = self.run_length(page, location, wanted);
        let pages = slot.page..slot.page + count as u32;
        let known = pages.map(|page| self.known.get(Slot { page, ..slot }, segment_sequence)).collect();
        Run { page, location, count, segment_sequence, known }
    }

    /// The runs that continue this one in the next records of its segment.
    fn next_runs(&self, first: &Run, wanted: usize) -> Vec<Run> {
        let segment = self.slot(first.location).segment;
        let mut runs = Vec::new();
        let (mut page, mut end, mut left) =
            (first.page + first.count as u64, first.end(), wanted - first.count);
        while left > 0 && page < self.map.pages() {
            let location = Location { position: end + 1, distance: 1 };
            let follows = self.map.get(page) == Some(location)
                && self.slot(location).segment == segment
                && self.in_memory(location).is_none();
            if !follows {
                break;
            }
            let run = self.run(page, location, left);
            (page, end, left) = (page + run.count as u64, run.end(), left - run.count);
            runs.push(run);
        }
        runs
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

    fn read_planned(&mut self, planned: &PlannedRead, data: &mut [u8]) -> Result<(), RepairError> {
        self.read_now(planned)?;
        let scratch = std::mem::replace(&mut self.scratch, Buffer::empty());
        let copied = self.copy_verified(planned, &scratch[..planned.size.0 as usize], data);
        self.scratch = scratch;
        copied
    }

    fn read_now(&mut self, planned: &PlannedRead) -> Result<(), RepairError> {
        let whole = ReadRange {
            offset: planned.offset,
            size: planned.size,
            buffer: taken(&mut self.scratch, planned.size),
        };
        match planned.header {
            None => {
                let mut ranges = [whole];
                let read = self.io.read(&mut ranges);
                let [whole] = ranges;
                self.scratch = whole.buffer;
                read
            }
            Some(offset) => {
                let size = planned.page_size;
                let buffer = taken(&mut self.header_scratch, size);
                let mut ranges = [whole, ReadRange { offset, size, buffer }];
                let read = self.io.read(&mut ranges);
                let [whole, first] = ranges;
                if read.is_ok() {
                    self.headers.put_read(self.seed, planned.first.location.header(), first.bytes());
                }
                (self.scratch, self.header_scratch) = (whole.buffer, first.buffer);
                read
            }
        }
    }

    /// Copies what was wanted out of what was read, if it is what was written.
    fn copy_verified(
        &mut self,
        planned: &PlannedRead,
        read: &[u8],
        data: &mut [u8],
    ) -> Result<(), RepairError> {
        let size = self.page_size();
        for run in planned.runs() {
            let header = run.location.header();
            if header >= planned.start && run.known.is_none() {
                let at = planned.place_of(header);
                self.headers.put_read(self.seed, header, &read[at..at + size]);
            }
            self.verify(run, planned.pages_of(run, read))?;
        }
        planned.copy_wanted(read, data);
        Ok(())
    }

    /// Whether these are the pages of the run. If their checksums were not known, they are from now on.
    fn verify(&mut self, run: &Run, read: &[u8]) -> Result<(), RepairError> {
        let size = self.page_size();
        if let Some(wrong) = run.wrong_page(self.seed, size, read) {
            return Err(self.damaged_page(run, wrong));
        }
        if run.known.is_some() {
            return Ok(());
        }
        let header = self.headers.get(run.location.header());
        let Some(header) = header.filter(|header| header.segment_sequence() == run.segment_sequence) else {
            let offset = self.layout().offset(run.location.header());
            let why = "it is not the record that the map names".to_owned();
            return Err(RepairError::Damaged { what: "the header of a record", offset, why });
        };
        for (index, data) in read.chunks_exact(size).enumerate() {
            let page = run.page + index as u64;
            let expected = header.checksum(run.at(index).distance, page);
            if expected != Some(page_checksum(self.seed, page, header.sequence(), data)) {
                return Err(self.damaged_page(run, index));
            }
        }
        let slot = self.slot(Location { position: run.location.header(), distance: 0 });
        self.known.put_header(slot, header, &self.checksums);
        Ok(())
    }

    fn damaged_page(&self, run: &Run, index: usize) -> RepairError {
        let why = format!("its checksum is not that of page {} of the volume", run.page + index as u64);
        let offset = self.layout().offset(run.location.position + index as u32);
        RepairError::Damaged { what: "a page", offset, why }
    }
}

impl PlannedRead {
    fn runs(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(&self.first).chain(&self.next)
    }

    /// Where a position lies in what was read.
    fn place_of(&self, position: u32) -> usize {
        (position - self.start) as usize * self.page_size.0 as usize
    }

    /// The pages of a run in what was read.
    fn pages_of<'a>(&self, run: &Run, read: &'a [u8]) -> &'a [u8] {
        &read[self.place_of(run.location.position)..self.place_of(run.end())]
    }

    /// Whether all checksums are known, so that no header is needed.
    pub fn is_known(&self) -> bool {
        self.runs().all(|run| run.known.is_some())
    }

    /// Copies what was wanted out of what was read, if the checksums are known and right.
    pub fn copy_known(&self, read: &[u8], data: &mut [u8]) -> bool {
        let size = self.page_size.0 as usize;
        let is_right = |run: &Run| {
            run.known.is_some() && run.wrong_page(self.seed, size, self.pages_of(run, read)).is_none()
        };
        let is_right = self.runs().all(is_right);
        if is_right {
            self.copy_wanted(read, data);
        }
        is_right
    }

    /// Copies what was wanted out of what was read.
    fn copy_wanted(&self, read: &[u8], data: &mut [u8]) {
        let mut copied = 0;
        for run in self.runs() {
            let wanted = &self.pages_of(run, read)[if copied == 0 { self.within } else { 0 }..];
            let length = wanted.len().min(data.len() - copied);
            data[copied..copied + length].copy_from_slice(&wanted[..length]);
            copied += length;
        }
    }
}

/// Memory of at least this size: the buffer that is kept, or a new one if it is too small.
pub(super) fn taken(kept: &mut Buffer, size: Bytes) -> Buffer {
    if (kept.len() as u64) < size.0 { read_buffer(size) } else { std::mem::replace(kept, Buffer::empty()) }
}

impl Run {
    /// The first page that does not have its known checksum. `None`: each has, or they are not known.
    fn wrong_page(&self, seed: u32, page_size: usize, pages: &[u8]) -> Option<usize> {
        let known = self.known.as_ref()?;
        let mut pages = (self.page..).zip(pages.chunks_exact(page_size)).zip(known);
        pages.position(|((page, data), &known)| page_checksum(seed, page, NO_SEQUENCE, data) != known)
    }

    /// The position behind its last page.
    fn end(&self) -> u32 {
        self.location.position + self.count as u32
    }

    /// Where a page of the run lies.
    fn at(&self, index: usize) -> Location {
        let Location { position, distance } = self.location;
        Location { position: position + index as u32, distance: distance + index as u8 }
    }
}
