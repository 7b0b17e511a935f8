//! Writes and discards: into open records, which are written when they are full.

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::Volume;
use crate::error::RepairError;
use crate::format::checkpoint::Change;
use crate::format::page_checksum::data_checksum;
use crate::format::record::{Entry, RecordHeader};
use crate::known_checksums::NO_SEQUENCE;
use crate::map::Location;
use crate::open_record::OpenRecord;
use crate::seeded_bug::SeededBug;
use crate::segment_table::{LogId, Slot};

/// The log whose records carry discards. It is written first of a group, so that a discard never comes after a later write.
const DISCARD_LOG: LogId = LogId(0);

impl<D: Device> Volume<D> {
    /// Writes bytes. They are durable after the next [`Volume::flush`].
    ///
    /// # Errors
    /// When the range is not inside the volume, an IO fails or failed before, or the volume is full.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), RepairError> {
        self.check_range(offset, data.len() as u64)?;
        self.check_poison()?;
        let size = self.page_size() as u64;
        let mut at = 0;
        while at < data.len() {
            let start = offset + at as u64;
            let (page, within) = (start / size, (start % size) as usize);
            let part = (data.len() - at).min(size as usize - within);
            let bytes = &data[at..at + part];
            if part == size as usize {
                self.write_page(page, bytes)?;
            } else {
                let mut whole = vec![0; size as usize];
                self.read(page * size, &mut whole)?;
                whole[within..within + part].copy_from_slice(bytes);
                self.write_page(page, &whole)?;
            }
            at += part;
        }
        Ok(())
    }

    /// Discards bytes: they read as zeroes from now on. It is durable after the next [`Volume::flush`].
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn discard(&mut self, offset: u64, length: u64) -> Result<(), RepairError> {
        self.check_range(offset, length)?;
        self.check_poison()?;
        let size = self.page_size() as u64;
        let end = offset + length;
        let (first, last) = (offset.div_ceil(size), end / size);
        if first >= last {
            return self.zero_within(offset, end);
        }
        self.zero_within(offset, first * size)?;
        self.zero_within(last * size, end)?;
        let mut page = first;
        while page < last {
            let count = (last - page).min(u32::MAX.into());
            self.discard_pages(page, count as u32)?;
            page += count;
        }
        Ok(())
    }

    /// Writes zeroes over parts of pages that hold data.
    fn zero_within(&mut self, start: u64, end: u64) -> Result<(), RepairError> {
        let size = self.page_size() as u64;
        let mut at = start;
        while at < end {
            let next = end.min((at / size + 1) * size);
            if self.map.get(at / size).is_some() {
                self.write(at, &vec![0; (next - at) as usize])?;
            }
            at = next;
        }
        Ok(())
    }

    pub(crate) fn check_range(&self, offset: u64, length: u64) -> Result<(), RepairError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size().0 => Ok(()),
            _ => Err(RepairError::OutOfRange(self.size())),
        }
    }

    fn write_page(&mut self, page: u64, data: &[u8]) -> Result<(), RepairError> {
        if let Some(location) = self.map.get(page)
            && let Some((log, index)) = self.in_memory(location)
            && let Some(record) = &mut self.open[log]
        {
            record.overwrite(index, page, data);
            self.counters.coalesced_pages += 1;
            return Ok(());
        }
        self.wait_for_space()?;
        let previous = self.map.get(page).map(|location| self.slot(location));
        let log = self.placer.log_for_write(page, previous);
        self.begin_record(log)?;
        let now = self.placer.now();
        let slot = self.placer.append_write(log, previous);
        self.counters.host_pages += 1;
        self.record(log).has_host = true;
        self.put_page(log, slot, Entry::Write { page, checksum: data_checksum(data) }, data, now)?;
        self.after_host_io()
    }

    fn discard_pages(&mut self, first: u64, count: u32) -> Result<(), RepairError> {
        let end = first + u64::from(count);
        if (first..end).all(|page| self.map.get(page).is_none()) {
            return Ok(());
        }
        self.wait_for_space()?;
        self.begin_record(DISCARD_LOG)?;
        for page in first..end {
            if let Some(location) = self.map.get(page) {
                self.placer.discard(self.slot(location));
                self.map.set(page, None);
                self.counters.discarded_pages += 1;
            }
        }
        let most = self.layout().record_entries_max();
        let forgets = self.has_bug(SeededBug::ForgottenDiscard);
        let record = self.record(DISCARD_LOG);
        record.has_host = true;
        if !forgets {
            record.entries.push(Entry::Discard { page: first, count });
        }
        if record.entries.len() >= most {
            self.write_group()?;
        }
        self.after_host_io()
    }

    /// What follows a write, discard or flush of the host.
    #[inline]
    pub(super) fn after_host_io(&mut self) -> Result<(), RepairError> {
        self.checkpoint_if_due()?;
        self.pace_packing();
        Ok(())
    }

    /// The log and the number of the page in its open record, if that is where the page lies.
    #[inline]
    pub(super) fn in_memory(&self, location: Location) -> Option<(usize, usize)> {
        let mut logs = self.open.iter().enumerate();
        logs.find_map(|(log, record)| Some((log, record.as_ref()?.index_of(location.position)?)))
    }

    fn record(&mut self, log: LogId) -> &mut OpenRecord {
        self.open[usize::from(log.0)].as_mut().expect("the record was begun")
    }

    /// Begins a record in a log that fills none: its header takes the next position.
    pub(super) fn begin_record(&mut self, log: LogId) -> Result<(), RepairError> {
        if self.open[usize::from(log.0)].is_some() {
            return Ok(());
        }
        let positions = self.layout().pages_per_segment();
        if let Some(segment) = self.placer.open_segment(log)
            && self.placer.table().segment(segment).written_pages + 1 == positions
        {
            self.placer.pad(log, 1);
            self.counters.padding_pages += 1;
            self.since_checkpoint.segments.insert(segment);
        }
        if self.placer.open_segment(log).is_none() {
            self.before_opening()?;
        }
        self.placer.pad(log, 1);
        let segment = self.placer.open_segment(log).expect("a segment has more positions than one");
        let at = self.placer.table().segment(segment).written_pages - 1;
        self.since_checkpoint.segments.insert(segment);
        self.counters.header_pages += 1;
        let position = segment.0 * positions + at;
        let buffer = self.io.record_buffer();
        let record = OpenRecord {
            segment,
            position,
            entries: Vec::with_capacity(self.superblock.layout.record_pages_max as usize),
            buffer,
            pages: 0,
            has_host: false,
            written: [self.placer.now(); 2],
        };
        self.open[usize::from(log.0)] = Some(record);
        Ok(())
    }

    /// Segments may be opened only as far as the last checkpoint says, so that recovery finds their records.
    fn before_opening(&mut self) -> Result<(), RepairError> {
        let opened = self.placer.table().opened_count() - self.since_checkpoint.opened_count;
        if opened >= self.since_checkpoint.queue || self.placer.table().free_count() == 0 {
            self.write_checkpoint()?;
        }
        if self.placer.table().free_count() == 0 { Err(RepairError::Full) } else { Ok(()) }
    }

    /// Puts a page that was placed into its log's record, which is written if that fills it or its segment.
    pub(super) fn put_page(
        &mut self,
        log: LogId,
        slot: Slot,
        entry: Entry,
        data: &[u8],
        written: u64,
    ) -> Result<(), RepairError> {
        let (positions, most) = (self.layout().pages_per_segment(), self.layout().record_pages_max);
        let entries = self.layout().record_entries_max();
        let record = self.record(log);
        record.push(entry, data, written);
        let position = slot.segment.0 * positions + slot.page;
        debug_assert_eq!(position, record.position + record.pages);
        let location = Location { position, distance: record.pages as u8 };
        let is_full = record.pages == most || slot.page + 1 == positions || record.entries.len() >= entries;
        if let Entry::Write { page, .. } | Entry::Copy { page, .. } = entry {
            self.map.set(page, Some(location));
        }
        if !is_full {
            return Ok(());
        }
        match self.record(log).has_host {
            true => self.write_group(),
            false => self.write_open_record(log, true),
        }
    }

    /// Writes all open records with writes of the host, as one group.
    pub(super) fn write_group(&mut self) -> Result<(), RepairError> {
        let is_host = |record: &Option<OpenRecord>| record.as_ref().is_some_and(|record| record.has_host);
        let Some(last) = self.open.iter().rposition(is_host) else { return Ok(()) };
        for log in 0..=last {
            if is_host(&self.open[log]) {
                self.written_positions += self.open[log].as_ref().map_or(0, OpenRecord::host_positions);
                self.write_open_record(LogId(log as u8), log == last)?;
            }
        }
        self.host_sequence = self.sequence;
        Ok(())
    }

    /// Writes the open record of a log.
    pub(super) fn write_open_record(&mut self, log: LogId, commits: bool) -> Result<(), RepairError> {
        let Some(record) = self.open[usize::from(log.0)].take() else { return Ok(()) };
        let page_size = self.page_size();
        self.sequence += 1;
        let OpenRecord { segment, position, mut entries, mut buffer, pages, written, .. } = record;
        let use_of_segment = self.placer.table().segment(segment).sequence;
        let mut distance = 0;
        for entry in &mut entries {
            distance += u8::from(entry.has_data());
            let location = Location { position: position + u32::from(distance), distance };
            match entry {
                Entry::Write { page, checksum } | Entry::Copy { page, checksum } => {
                    if self.map.get(*page) != Some(location) && !self.has_bug(SeededBug::CopyOverNewerWrite) {
                        // A newer version exists, and may be in a record that was written before this one.
                        *entry = Entry::Superseded;
                        continue;
                    }
                    let kept = self.checksums.of_page(*page, NO_SEQUENCE, *checksum);
                    self.known.put(self.slot(location), use_of_segment, kept);
                    *checksum = self.checksums.of_page(*page, self.sequence, *checksum);
                    self.since_checkpoint.changes.push(Change::Put { page: *page, location });
                }
                Entry::Discard { page, count } => {
                    self.since_checkpoint.changes.push(Change::Drop { page: *page, count: *count });
                }
                Entry::Superseded => {}
            }
        }
        let commits = commits || self.has_bug(SeededBug::LogsCommitAlone);
        let table = self.placer.table().segment(segment);
        let header = RecordHeader {
            epoch: self.superblock.epoch,
            sequence: self.sequence,
            position,
            log: log.0,
            commits,
            durable: self.durable,
            checkpoint: self.checkpoint_name.number,
            segment_sequence: table.sequence,
            opened: table.opened,
            written,
            now: self.placer.now(),
            entries,
        };
        buffer[..page_size].fill(0);
        let length = header.encode(self.superblock.uuid, &mut buffer);
        self.headers.put_written(position, &buffer[..length]);
        self.since_checkpoint.segments.insert(segment);
        let size = Bytes(u64::from(pages + 1) * page_size as u64);
        self.since_checkpoint.written += size.0;
        let offset = self.layout().offset(position);
        self.io.write_record(offset, size, buffer)
    }
}
