//! Roll-forward: applies the records behind the last checkpoint, and finds out whether the log goes on behind its seeming end.
//!
//! # Invariants
//! - It reads no more than was written since the last checkpoint, [`LOOK_BEHIND`] in each open segment and in one segment without records
//!   for each log that a volume can have ([`LOGS_MAX`]). If all segments that the checkpoint lists have records, it reads the first page of
//!   each segment.
//! - Less than that number of segments without records lie before a flushed record. A segment without a record was opened by a
//!   log whose first record in it is still in memory. A log has one record in memory, and opens its next segment when that is
//!   written. So each log but the flushed record's can have left one such segment.
//! - A checkpoint writes all open records. So records behind a newer checkpoint than the last lie in the segments that the last one lists, or
//!   each of these has a record.
//! - A record that is missing although a flush had made it durable is damage, not the end of the log. Later records say how far
//!   flushes had come.

use std::collections::BTreeMap;

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::state::{Recovered, apply, damaged};
use crate::device_io::{DeviceIo, ReadRange};
use crate::error::RepairError;
use crate::format::VolumeUuid;
use crate::format::checkpoint::{Change, Checkpoint, LOGS_MAX};
use crate::format::record::{Entry, RecordHeader, page_checksum};
use crate::layout::VolumeLayout;
use crate::map::Location;
use crate::seeded_bug::SeededBug;
use crate::segment_table::{LogId, Segment, SegmentId};

/// Behind a place without a record this much of its segment is looked through: two of the longest records, so that a record behind two
/// that are damaged is found.
const LOOK_BEHIND: Bytes = Bytes::mib(2);
/// Headers that are read at the same time.
const HEADERS_AT_ONCE: usize = 64;

/// A record that roll-forward found.
struct FoundRecord {
    header: RecordHeader,
    /// Whether all of its pages have their checksums.
    is_whole: bool,
}

/// Looks for the records behind a checkpoint.
struct Search<'a, D> {
    io: &'a mut DeviceIo<D>,
    layout: &'a VolumeLayout,
    uuid: VolumeUuid,
    bug: Option<SeededBug>,
    last: &'a Checkpoint,
    /// Whether the superblock names the checkpoint as that with which the volume was closed.
    is_known_end: bool,
    found: BTreeMap<u64, FoundRecord>,
    /// A record of any mount that says that a later checkpoint was durable: that checkpoint, and the record's position.
    later: Option<(u64, u32)>,
}

/// Applies the records behind the last checkpoint.
pub(super) fn roll_forward<D: Device>(
    io: &mut DeviceIo<D>,
    recovered: &mut Recovered,
) -> Result<(), RepairError> {
    let layout = recovered.superblock.layout.clone();
    let last = recovered.checkpoint.clone();
    let mut search = Search {
        io,
        layout: &layout,
        uuid: recovered.superblock.uuid,
        bug: recovered.bug,
        last: &last,
        is_known_end: recovered.is_closed() && recovered.superblock.checkpoint.is_some(),
        found: BTreeMap::new(),
        later: None,
    };
    search.run()?;
    let (found, later) = (search.found, search.later);
    let mut group = Vec::new();
    let mut next = last.sequence + 1;
    while let Some(record) = found.get(&next).filter(|record| record.is_whole) {
        group.push(&record.header);
        if record.header.commits {
            for header in group.drain(..) {
                replay(&layout, recovered, header)?;
            }
            recovered.sequence = next;
        }
        next += 1;
    }
    if let Some((checkpoint, position)) = later {
        let why = format!(
            "checkpoint {checkpoint} was durable when the record at byte {} was written, but checkpoint {} is not there",
            layout.offset(position),
            last.number + 1
        );
        return Err(damaged("a checkpoint", layout.ring.0 + recovered.ring.next(), why));
    }
    if let Some(late) = found.values().find(|record| record.header.durable > recovered.sequence) {
        let offset = layout.offset(late.header.position);
        let why = format!(
            "record {} was durable when this one, {}, was written, but record {next} is not there",
            late.header.durable, late.header.sequence
        );
        return Err(damaged("a record before the one", offset, why));
    }
    let is_closed =
        recovered.is_closed() && !SeededBug::is(recovered.bug, SeededBug::MissingCheckpointEndsChain);
    if is_closed && let Some(late) = found.values().next() {
        let why = format!(
            "the volume was closed in order, but record {} is behind its last checkpoint, {}",
            late.header.sequence, last.number
        );
        return Err(damaged("a checkpoint", layout.ring.0 + recovered.ring.next(), why));
    }
    Ok(())
}

impl<D: Device> Search<'_, D> {
    fn run(&mut self) -> Result<(), RepairError> {
        let positions = self.layout.pages_per_segment();
        let segments = self.layout.segment_count;
        let last = self.last;
        for &(id, position) in &last.open {
            if id.0 < segments && position <= positions {
                self.read_records(id, position)?;
            }
        }
        // Segments are opened in this order. One without a record does not end the log: its first record may have been in memory.
        let gaps_max = if SeededBug::is(self.bug, SeededBug::GapEndsLog) { 1 } else { LOGS_MAX };
        let mut gaps = 0;
        for &id in last.queue.iter().filter(|id| id.0 < segments) {
            let before = self.found.len();
            self.read_records(id, 0)?;
            gaps += usize::from(self.found.len() == before);
            if gaps >= gaps_max {
                break;
            }
        }
        // Before another segment was opened, a newer checkpoint was written.
        if gaps == 0 && !self.is_known_end {
            self.look_into_all_segments();
        }
        Ok(())
    }

    /// Reads the records of a segment from a position on, and looks for later ones behind their end.
    fn read_records(&mut self, segment: SegmentId, start: u32) -> Result<(), RepairError> {
        let first = segment.0 * self.layout.pages_per_segment();
        let end = first + self.layout.pages_per_segment();
        let mut at = first + start;
        while at < end {
            let mut range = [ReadRange::new(self.layout.offset(at), self.layout.options.page)];
            match self.io.read(&mut range) {
                Err(_) if SeededBug::is(self.bug, SeededBug::ReadErrorEndsLog) => return Ok(()),
                read => read?,
            }
            let Some(header) = self.record_in(range[0].bytes(), at) else {
                self.look_behind(at + 1, end);
                return Ok(());
            };
            let is_whole = self.is_whole(&header)?;
            at += 1 + header.page_count();
            self.found.insert(header.sequence, FoundRecord { header, is_whole });
        }
        Ok(())
    }

    /// The record behind the last checkpoint whose header is in this page.
    fn record_in(&mut self, page: &[u8], position: u32) -> Option<RecordHeader> {
        let header = RecordHeader::decode(self.uuid, page).filter(|header| header.position == position)?;
        if header.checkpoint > self.last.number {
            self.later.get_or_insert((header.checkpoint, position));
        }
        let within = position % self.layout.pages_per_segment();
        let is_behind = header.epoch == self.last.epoch
            && header.sequence > self.last.sequence
            && header.page_count() + within < self.layout.pages_per_segment();
        is_behind.then_some(header)
    }

    fn is_whole(&mut self, header: &RecordHeader) -> Result<bool, RepairError> {
        let (page, pages) = (self.layout.options.page, header.page_count());
        if pages == 0 || SeededBug::is(self.bug, SeededBug::TornRecordsCount) {
            return Ok(true);
        }
        let size = Bytes(u64::from(pages) * page.0);
        let mut data = [ReadRange::new(self.layout.offset(header.position + 1), size)];
        self.io.read(&mut data)?;
        let seed = self.uuid.seed();
        let entries = header.entries.iter().filter(|entry| entry.has_data());
        Ok(entries.zip(data[0].bytes().chunks_exact(page.0 as usize)).all(|(entry, data)| match *entry {
            Entry::Write { page, checksum } | Entry::Copy { page, checksum } => {
                page_checksum(seed, page, header.sequence, data) == checksum
            }
            Entry::Superseded | Entry::Discard { .. } => true,
        }))
    }

    /// Looks for records between these positions. They are not applied, because one before them is missing.
    fn look_behind(&mut self, start: u32, end: u32) {
        if self.is_known_end || SeededBug::is(self.bug, SeededBug::DamagedHeaderEndsLog) {
            return;
        }
        let page = self.layout.options.page;
        let end = end.min(start + (LOOK_BEHIND.0 / page.0) as u32);
        if start >= end {
            return;
        }
        let size = Bytes(u64::from(end - start) * page.0);
        let mut range = [ReadRange::new(self.layout.offset(start), size)];
        self.io.read_if_possible(&mut range, page);
        let mut at = start;
        while at < end {
            let from = ((at - start) as u64 * page.0) as usize;
            let header = self.record_in(&range[0].bytes()[from..from + page.0 as usize], at);
            at += 1;
            if let Some(header) = header {
                at += header.page_count();
                self.found.insert(header.sequence, FoundRecord { header, is_whole: false });
            }
        }
    }

    /// Looks at the first page of each segment for a record that says that a later checkpoint was durable.
    fn look_into_all_segments(&mut self) {
        let (positions, page) = (self.layout.pages_per_segment(), self.layout.options.page);
        let mut ranges: Vec<ReadRange> = (0..HEADERS_AT_ONCE).map(|_| ReadRange::new(0, page)).collect();
        let all: Vec<u32> = (0..self.layout.segment_count).collect();
        for segments in all.chunks(HEADERS_AT_ONCE) {
            let ranges = &mut ranges[..segments.len()];
            for (range, segment) in ranges.iter_mut().zip(segments) {
                range.offset = self.layout.offset(segment * positions);
            }
            let are_read = self.io.read(ranges).is_ok();
            for (range, segment) in ranges.chunks_exact_mut(1).zip(segments) {
                // One that cannot be read shows nothing.
                if are_read || self.io.read(range).is_ok() {
                    self.record_in(range[0].bytes(), segment * positions);
                }
            }
        }
    }
}

/// Applies a record.
fn replay(
    layout: &VolumeLayout,
    recovered: &mut Recovered,
    header: &RecordHeader,
) -> Result<(), RepairError> {
    let id = SegmentId(header.position / layout.pages_per_segment());
    let mut distance = 0;
    for entry in &header.entries {
        distance += u8::from(entry.has_data());
        let change = match *entry {
            Entry::Write { page, .. } => Change::Put {
                page,
                location: Location { position: header.position + u32::from(distance), distance },
            },
            Entry::Discard { page, count } => Change::Drop { page, count },
            Entry::Copy { .. } | Entry::Superseded => continue,
        };
        if !apply(recovered, change) {
            let why = "it names what does not exist".to_owned();
            return Err(damaged("a record", layout.offset(header.position), why));
        }
        recovered.changes.push(change);
    }
    let segment = &mut recovered.segments[id.0 as usize];
    if segment.sequence != header.segment_sequence || segment.written_pages == 0 {
        let (sequence, opened) = (header.segment_sequence, header.opened);
        let written = [header.written[0]; 2];
        *segment = Segment { sequence, opened, log: LogId(header.log), written, ..Segment::default() };
    }
    let end = header.position % layout.pages_per_segment() + 1 + u32::from(distance);
    segment.written_pages = segment.written_pages.max(end);
    segment.written[1] = header.written[1];
    segment.sealed = header.now;
    if !recovered.touched.contains(&id) {
        recovered.touched.push(id);
    }
    recovered.now = recovered.now.max(header.now);
    recovered.opened_count = recovered.opened_count.max(header.segment_sequence + 1);
    recovered.replayed += 1;
    Ok(())
}
