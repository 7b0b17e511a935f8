//! Packing: copies the live pages out of a segment, record by record, so that the segment can be reused.
//!
//! # Method
//! 1. While fewer segments are free than the high mark, each group of records that the host writes is followed by
//!    steps that free about the positions that it took. A step packs one record. A checkpoint frees a batch of packed
//!    segments: it costs two flushes.
//!    Above the low mark they end before they take longer than the packing of one segment and a checkpoint.
//! 2. While the volume is idle, steps go on until the high mark is reached, but they take at most [`IDLE_SHARE`] times the positions
//!    that the host wrote. A volume with little slack may never reach the mark: headers of records take what its packing gains.
//!    At a mount the segments that lack for the high mark count as just written: the life before did not pack for them.
//! 3. If the reserve is reached, the host waits until a segment is packed.
//!
//! A page is verified before it is copied. A segment with a page that cannot be read is not freed.

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::reading::taken;
use super::{PackingProgress, Volume};
use crate::device_io::ReadRange;
use crate::error::RepairError;
use crate::format::page_checksum::data_checksum;
use crate::format::record::Entry;
use crate::map::Location;
use crate::seeded_bug::SeededBug;

/// Positions that idle time may pack for each one that the host wrote. A segment whose positions are live but for a tenth takes as many.
const IDLE_SHARE: f64 = 10.0;

impl<D: Device> Volume<D> {
    /// Waits until the host may write a page: packs segments in the foreground.
    pub(super) fn wait_for_space(&mut self) -> Result<(), RepairError> {
        if self.placer.can_write() {
            return Ok(());
        }
        // A round of all segments that frees none: each is full of live pages.
        let mut rounds = 2 * self.layout().segment_count;
        while !self.placer.can_write() {
            if rounds == 0 || !self.pack_segment()? {
                return Err(RepairError::Full);
            }
            rounds -= 1;
        }
        Ok(())
    }

    /// Packs one segment and frees it. False: there is none to pack.
    fn pack_segment(&mut self) -> Result<bool, RepairError> {
        loop {
            if self.pack_step()? == 0 {
                break;
            }
            if self.packing.is_none() {
                break;
            }
        }
        if self.packed.is_empty() {
            return Ok(false);
        }
        self.write_checkpoint()?;
        Ok(true)
    }

    /// Packs about as much as the host wrote since the last call. An error appears in the next write or flush.
    pub(super) fn pace_packing(&mut self) {
        let pages = std::mem::take(&mut self.written_positions);
        if pages == 0 {
            return;
        }
        let positions = f64::from(self.layout().pages_per_segment());
        let all = positions * f64::from(self.layout().segment_count);
        self.idle_allowance = (self.idle_allowance + IDLE_SHARE * f64::from(pages)).min(all);
        if !self.placer.should_pack() {
            self.packing_backlog = 0.0;
            return;
        }
        let record = f64::from(self.layout().record_pages_max + 1);
        // Packing while the volume was idle is no reason to pack less now.
        self.packing_backlog = self.packing_backlog.max(-record);
        // A position of a segment with many live pages frees little.
        self.packing_backlog += f64::from(pages) / (1.0 - self.victim_live_share).max(0.1);
        let (backlog, checkpoint) = (self.packing_backlog, self.checkpoint_name.number);
        while self.packing_backlog > 0.0 && self.background_step() {
            let is_above_low = self.placer.table().free_count() > self.placer.watermarks().low;
            let would_exceed_segment = backlog - self.packing_backlog + record > positions;
            if is_above_low && (would_exceed_segment || self.checkpoint_name.number > checkpoint) {
                self.packing_backlog = self.packing_backlog.min(positions);
                break;
            }
        }
    }

    /// Lets idle time pack for the segments that lack for the high mark.
    pub(super) fn allow_idle_packing_for_missing_segments(&mut self) {
        let lacking = self.placer.watermarks().high.saturating_sub(self.placer.table().free_count());
        let positions = f64::from(lacking) * f64::from(self.layout().pages_per_segment());
        self.idle_allowance = IDLE_SHARE * positions;
    }

    /// One step of packing while the volume is idle. False: nothing is to be done.
    pub(super) fn idle_step(&mut self) -> bool {
        let backlog = self.packing_backlog;
        let has_worked = self.idle_allowance > 0.0 && self.background_step();
        self.idle_allowance -= backlog - self.packing_backlog;
        has_worked
    }

    /// One step of packing, if any is due. False: nothing is to be done.
    pub(super) fn background_step(&mut self) -> bool {
        if self.poison().is_some() || !self.placer.should_pack() {
            return false;
        }
        let (free, marks) = (self.placer.table().free_count(), self.placer.watermarks());
        let packed = self.packed.len() + self.placer.table().dead_segments().len();
        let is_short = free <= marks.reserve + 1;
        let batch = self.layout().packed_batch().max(1) as usize;
        if packed >= batch || (packed > 0 && (is_short || free + packed as u32 >= marks.high)) {
            return self.write_checkpoint().is_ok();
        }
        match self.pack_step() {
            Ok(positions) => {
                self.packing_backlog -= f64::from(positions);
                positions > 0
            }
            Err(_) => false,
        }
    }

    /// Packs the next record. Returns the positions that it took, 0 if there is no segment to pack.
    pub(crate) fn pack_step(&mut self) -> Result<u32, RepairError> {
        let (segment, next) = match &self.packing {
            Some(packing) => (packing.segment, packing.next),
            None => {
                let Some(segment) = self.placer.begin_packing() else { return Ok(0) };
                self.packing = Some(PackingProgress { segment, next: 0 });
                let live_pages = self.placer.table().segment(segment).live_pages;
                self.victim_live_share = f64::from(live_pages) / f64::from(self.layout().pages_per_segment());
                (segment, 0)
            }
        };
        let table = self.placer.table().segment(segment);
        let written = table.written_pages;
        let is_done = table.live_pages == 0 || next >= written;
        let mut taken = 1;
        if !is_done {
            // Padding, or a header that is damaged: the next one is looked for behind it.
            let position = segment.0 * self.layout().pages_per_segment() + next;
            if let Some(record) = self.record_at(position) {
                taken += record.pages;
                self.copy_pages(&record)?;
            }
        }
        let end = next + taken;
        let live_pages = self.placer.table().segment(segment).live_pages;
        if live_pages == 0 || end >= written {
            self.packing = None;
            match live_pages {
                0 if self.has_bug(SeededBug::EarlyReuse) => self.placer.end_packing(segment),
                0 => self.packed.push(segment),
                // It stays as it is while the volume is open: its pages cannot be read.
                _ => self.damaged_segments += 1,
            }
            self.counters.packed_segments += u64::from(live_pages == 0);
        } else {
            self.packing = Some(PackingProgress { segment, next: end });
        }
        Ok(taken.min(written.max(1)))
    }

    /// The record at this position of a segment. `None`: no record of the segment begins here.
    fn record_at(&mut self, position: u32) -> Option<PackedRecord> {
        if self.headers.get(position).is_none() {
            let (offset, size) = (self.layout().offset(position), self.layout().options.page);
            let mut range = [ReadRange { offset, size, buffer: taken(&mut self.header_scratch, size) }];
            let read = self.io.read(&mut range);
            if read.is_ok() {
                self.headers.put_read(self.seed, position, range[0].bytes());
            }
            let [ReadRange { buffer, .. }] = range;
            self.header_scratch = buffer;
            read.ok()?;
        }
        let segment = self.slot(Location { position, distance: 0 }).segment;
        let use_of_segment = self.placer.table().segment(segment).sequence;
        let header =
            self.headers.get(position).filter(|header| header.segment_sequence() == use_of_segment)?;
        let pages = header.pages().map(|(page, distance, checksum)| {
            (page, Location { position: position + u32::from(distance), distance }, checksum)
        });
        let is_live = |&(page, location, _): &(u64, Location, u32)| {
            page < self.map.pages() && self.map.get(page) == Some(location)
        };
        let live = pages.filter(is_live).collect();
        Some(PackedRecord { sequence: header.sequence(), pages: header.page_count(), live })
    }

    /// Copies the live pages of a record.
    fn copy_pages(&mut self, record: &PackedRecord) -> Result<(), RepairError> {
        let (Some(first), Some(last)) = (record.live.first(), record.live.last()) else { return Ok(()) };
        let (start, end) = (first.1.position, last.1.position + 1);
        let page_size = self.page_size();
        let size = Bytes(u64::from(end - start) * page_size as u64);
        let (offset, buffer) = (self.layout().offset(start), taken(&mut self.scratch, size));
        let mut range = [ReadRange { offset, size, buffer }];
        let read = self.io.read(&mut range);
        let [ReadRange { buffer, .. }] = range;
        // If it fails, its segment is not freed.
        let copied = if read.is_ok() { self.copy_from(record, start, &buffer) } else { Ok(()) };
        self.scratch = buffer;
        copied
    }

    /// Copies the live pages of a record out of what was read from this position on.
    fn copy_from(&mut self, record: &PackedRecord, start: u32, read: &[u8]) -> Result<(), RepairError> {
        let page_size = self.page_size();
        for &(page, location, checksum) in &record.live {
            let at = (location.position - start) as usize * page_size;
            let data = &read[at..at + page_size];
            let of_data = data_checksum(data);
            if self.checksums.of_page(page, record.sequence, of_data) != checksum {
                continue;
            }
            let from = self.slot(location);
            let log = self.placer.log_for_copy(page, from);
            self.begin_record(log)?;
            let written = self.placer.table().written_at(from);
            let slot = self.placer.append_copy(log, from);
            self.counters.copied_pages += 1;
            self.put_page(log, slot, Entry::Copy { page, checksum: of_data }, data, written)?;
        }
        Ok(())
    }
}

/// A record of the segment that is being packed.
struct PackedRecord {
    sequence: u64,
    /// The number of its pages.
    pages: u32,
    /// The live ones: logical page, place and checksum.
    live: Vec<(u64, Location, u32)>,
}

#[cfg(test)]
mod tests;
