//! Recovery: from what is on the device to the state that a volume continues with. It only reads.
//!
//! # Method
//! 1. The superblock is the valid copy with the highest update number.
//! 2. The newest complete image gives the map and the segments.
//! 3. The checkpoints since the image was begun are applied in order, until one is missing.
//! 4. Roll-forward: the last checkpoint names the open segments and the free ones in the order of their opening. Their records
//!    of the same epoch are read, and applied group by group in the order of their sequence, until one is missing.
//! 5. A segment without live pages is free. They are counted in one pass over the map.
//!
//! Copies that packing made since the last checkpoint are not replayed: their originals are still there.
//!
//! # Invariants
//! - Step 4 reads no more than was written since the last checkpoint, the header of one more record in each segment, and the
//!   first page of one segment without records for each log that a volume can have ([`LOGS_MAX`]).
//! - Less than that number of segments without records lie before a flushed record. A segment without a record was opened by a
//!   log whose first record in it is still in memory. A log has one record in memory, and opens its next segment when that is
//!   written. So each log but the flushed record's can have left one such segment.
//! - A record that is missing although a flush had made it durable is damage, not the end of the log. Later records say how far
//!   flushes had come.
//! - Recovering does not change the device, so that recovering twice is the same as once.

use std::collections::BTreeMap;

use flashlab_base::Bytes;
use flashlab_device::Device;

use crate::device_io::{DeviceIo, ReadRange};
use crate::error::RepairError;
use crate::format::checkpoint::{Change, Checkpoint, LOGS_MAX};
use crate::format::image::{self, ChunkContent};
use crate::format::record::{Entry, RecordHeader, page_checksum};
use crate::format::superblock::Superblock;
use crate::format::{BLOCK, VolumeUuid};
use crate::layout::VolumeLayout;
use crate::map::{Location, PageMap};
use crate::ring::{Placed, Ring};
use crate::seeded_bug::SeededBug;
use crate::segment_table::{LogId, Segment, SegmentId, SegmentState};

/// The map is read in parts of this size.
const IMAGE_READ: Bytes = Bytes::mib(1);

/// The state of a volume as the device has it.
pub(crate) struct Recovered {
    pub superblock: Superblock,
    pub map: PageMap,
    pub segments: Vec<Segment>,
    pub ring: Ring,
    /// The last checkpoint, without its lists.
    pub checkpoint: Checkpoint,
    /// Changes since the last checkpoint.
    pub changes: Vec<Change>,
    /// Segments with records since the last checkpoint.
    pub touched: Vec<SegmentId>,
    /// The last record that was applied.
    pub sequence: u64,
    /// The write clock.
    pub now: u64,
    /// Segments opened so far.
    pub opened_count: u64,
    /// Records that roll-forward applied.
    pub replayed: u64,
    bug: Option<SeededBug>,
}

/// Recovers the state.
///
/// # Errors
/// See [`RepairError`].
pub(crate) fn recover<D: Device>(
    io: &mut DeviceIo<D>,
    superblock: Superblock,
    bug: Option<SeededBug>,
) -> Result<Recovered, RepairError> {
    let layout = superblock.layout.clone();
    let map = match superblock.image {
        0 => PageMap::new(layout.options.logical_pages),
        _ => PageMap::with_capacity(layout.options.logical_pages),
    };
    let mut recovered = Recovered {
        map,
        segments: vec![Segment::default(); layout.segment_count as usize],
        ring: Ring::new(layout.ring_length, superblock.first_position),
        checkpoint: Checkpoint { number: superblock.first_checkpoint - 1, ..Checkpoint::default() },
        changes: Vec::new(),
        touched: Vec::new(),
        sequence: 0,
        now: 0,
        opened_count: 0,
        replayed: 0,
        bug,
        superblock,
    };
    if recovered.superblock.image > 0 {
        read_image(io, &mut recovered)?;
    }
    let last = read_checkpoints(io, &mut recovered)?;
    recovered.sequence = last.sequence;
    recovered.now = last.now;
    recovered.opened_count = last.opened_count;
    roll_forward(io, &mut recovered, &last)?;
    recovered.checkpoint = last;
    take_live_pages(&layout, &mut recovered)?;
    // On a damaged device the segments may be newer than the last checkpoint. No page was written in the future.
    let newest =
        recovered.segments.iter().map(|segment| segment.sealed.max(segment.opened).max(segment.written[1]));
    recovered.now = newest.fold(recovered.now, u64::max);
    Ok(recovered)
}

fn read_image<D: Device>(io: &mut DeviceIo<D>, recovered: &mut Recovered) -> Result<(), RepairError> {
    let (layout, uuid, image) =
        (&recovered.superblock.layout, recovered.superblock.uuid, recovered.superblock.image);
    let start = layout.images[(image % 2) as usize].0;
    let (pages, segments) = (layout.options.logical_pages, u64::from(layout.segment_count));
    let chunks = image::length(pages, segments).0 / BLOCK.0;
    let mut chunk = 0;
    let mut part = [ReadRange::new(start, IMAGE_READ)];
    while chunk < chunks {
        let size = IMAGE_READ.min(Bytes((chunks - chunk) * BLOCK.0));
        part[0].offset = start + chunk * BLOCK.0;
        part[0].size = size;
        io.read(&mut part)?;
        for block in part[0].bytes().chunks_exact(BLOCK.0 as usize) {
            let id = (image, chunk);
            let fits = match image::content(chunk, pages, segments) {
                Some(ChunkContent::Pages(range)) => {
                    let bytes = image::page_bytes(uuid, id, range.end - range.start, block);
                    bytes.is_some_and(|bytes| {
                        recovered.map.load(bytes);
                        true
                    })
                }
                Some(ChunkContent::Segments(range)) => {
                    image::decode_segments(uuid, id, range.end - range.start, block).is_some_and(|found| {
                        range.zip(found).all(|(at, segment)| {
                            recovered.segments[at as usize] = segment;
                            segment.written_pages <= layout.pages_per_segment()
                        })
                    })
                }
                None => true,
            };
            if !fits {
                let offset = start + chunk * BLOCK.0;
                return Err(damaged(
                    "the map's image",
                    offset,
                    format!("chunk {chunk} is not what was written"),
                ));
            }
            chunk += 1;
        }
    }
    Ok(())
}

/// Applies a change to the map. False: the volume has no such page. Whether a place exists is checked when all are counted.
fn apply(recovered: &mut Recovered, change: Change) -> bool {
    let map = &mut recovered.map;
    match change {
        Change::Put { page, location } => {
            let fits = page < map.pages();
            if fits {
                map.replay(page, Some(location));
            }
            fits
        }
        Change::Drop { page, count } => {
            let end = page.saturating_add(count.into());
            let fits = end <= map.pages();
            (page..end.min(map.pages())).for_each(|page| map.replay(page, None));
            fits
        }
    }
}

/// Applies the checkpoints and returns the last one.
fn read_checkpoints<D: Device>(
    io: &mut DeviceIo<D>,
    recovered: &mut Recovered,
) -> Result<Checkpoint, RepairError> {
    let (layout, uuid) = (&recovered.superblock.layout.clone(), recovered.superblock.uuid);
    let mut last = recovered.checkpoint.clone();
    let mut range = [ReadRange::new(layout.ring.0, layout.checkpoint_max)];
    loop {
        let wanted = last.number + 1;
        let mut found = None;
        for position in recovered.ring.positions() {
            found = read_checkpoint(io, layout, uuid, position, &mut range)?
                .filter(|found| found.number == wanted);
            if let Some(found) = &found {
                recovered.ring.add(Placed { number: wanted, position, length: found.length() });
                break;
            }
        }
        let Some(found) = found else { return Ok(last) };
        let applied = found.changes.iter().all(|&change| apply(recovered, change))
            && found.segments.iter().all(|&(id, segment)| {
                let Some(place) = recovered.segments.get_mut(id.0 as usize) else { return false };
                *place = segment;
                segment.written_pages <= layout.pages_per_segment()
            })
            && found.open.len() <= LOGS_MAX;
        if !applied {
            let offset = layout.ring.0 + recovered.ring.next() - found.length().0;
            return Err(damaged("a checkpoint", offset, "it names what does not exist".to_owned()));
        }
        last = found;
    }
}

fn read_checkpoint<D: Device>(
    io: &mut DeviceIo<D>,
    layout: &VolumeLayout,
    uuid: VolumeUuid,
    position: u64,
    range: &mut [ReadRange; 1],
) -> Result<Option<Checkpoint>, RepairError> {
    if position + BLOCK.0 > layout.ring_length.0 {
        return Ok(None);
    }
    (range[0].offset, range[0].size) = (layout.ring.0 + position, BLOCK);
    io.read(range)?;
    let Some(length) = Checkpoint::length_of(range[0].bytes()) else { return Ok(None) };
    if length == BLOCK {
        return Ok(Checkpoint::decode(uuid, range[0].bytes()));
    }
    if length > layout.checkpoint_max || position + length.0 > layout.ring_length.0 {
        return Ok(None);
    }
    range[0].size = length;
    io.read(range)?;
    Ok(Checkpoint::decode(uuid, range[0].bytes()))
}

/// A record that roll-forward found.
struct FoundRecord {
    header: RecordHeader,
    /// Whether all of its pages have their checksums.
    is_whole: bool,
}

/// Applies the records behind the last checkpoint.
fn roll_forward<D: Device>(
    io: &mut DeviceIo<D>,
    recovered: &mut Recovered,
    last: &Checkpoint,
) -> Result<(), RepairError> {
    let layout = recovered.superblock.layout.clone();
    let mut found: BTreeMap<u64, FoundRecord> = BTreeMap::new();
    let exists =
        |id: SegmentId, position: u32| id.0 < layout.segment_count && position <= layout.pages_per_segment();
    for &(id, position) in last.open.iter().filter(|(id, position)| exists(*id, *position)) {
        read_records(io, recovered, last, (id, position), &mut found)?;
    }
    // Segments are opened in this order. One without a record does not end the log: its first record may have been in memory.
    let gaps_max = if SeededBug::is(recovered.bug, SeededBug::GapEndsLog) { 1 } else { LOGS_MAX };
    let mut gaps = 0;
    for &id in last.queue.iter().filter(|id| exists(**id, 0)) {
        let before = found.len();
        read_records(io, recovered, last, (id, 0), &mut found)?;
        gaps += usize::from(found.len() == before);
        if gaps >= gaps_max {
            break;
        }
    }
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
    if let Some(late) = found.values().find(|record| record.header.checkpoint > last.number) {
        let why = format!(
            "checkpoint {} was durable when record {} was written, but it is not there",
            late.header.checkpoint, late.header.sequence
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
    Ok(())
}

/// Reads the records of a segment from a position on.
fn read_records<D: Device>(
    io: &mut DeviceIo<D>,
    recovered: &Recovered,
    last: &Checkpoint,
    (segment, start): (SegmentId, u32),
    found: &mut BTreeMap<u64, FoundRecord>,
) -> Result<(), RepairError> {
    let (layout, uuid) = (&recovered.superblock.layout, recovered.superblock.uuid);
    let (page, seed) = (layout.options.page, uuid.seed());
    let first = segment.0 * layout.pages_per_segment();
    let mut at = start;
    while at < layout.pages_per_segment() {
        let mut range = [ReadRange::new(layout.offset(first + at), page)];
        match io.read(&mut range) {
            Err(_) if SeededBug::is(recovered.bug, SeededBug::ReadErrorEndsLog) => return Ok(()),
            read => read?,
        }
        let header = RecordHeader::decode(uuid, range[0].bytes()).filter(|header| {
            header.position == first + at
                && header.epoch == last.epoch
                && header.sequence > last.sequence
                && header.page_count() + at < layout.pages_per_segment()
        });
        let Some(header) = header else { return Ok(()) };
        let pages = header.page_count();
        let is_whole = pages == 0 || SeededBug::is(recovered.bug, SeededBug::TornRecordsCount) || {
            let size = Bytes(u64::from(pages) * page.0);
            let mut data = [ReadRange::new(layout.offset(first + at + 1), size)];
            io.read(&mut data)?;
            let entries = header.entries.iter().filter(|entry| entry.has_data());
            entries.zip(data[0].bytes().chunks_exact(page.0 as usize)).all(|(entry, data)| match *entry {
                Entry::Write { page, checksum } | Entry::Copy { page, checksum } => {
                    page_checksum(seed, page, header.sequence, data) == checksum
                }
                Entry::Superseded | Entry::Discard { .. } => true,
            })
        };
        at += 1 + pages;
        found.insert(header.sequence, FoundRecord { header, is_whole });
    }
    Ok(())
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

/// Gives each segment its number of live pages; those with any are sealed, the others free.
fn take_live_pages(layout: &VolumeLayout, recovered: &mut Recovered) -> Result<(), RepairError> {
    let live_pages = recovered.map.finish_recovery(layout.segment_count, layout.pages_per_segment());
    let live_pages = live_pages.map_err(|page| {
        damaged("the map", layout.images[0].0, format!("page {page} of the volume lies where no page can"))
    })?;
    for ((at, segment), live_pages) in (0..).zip(&mut recovered.segments).zip(live_pages) {
        segment.live_pages = live_pages;
        segment.state = if segment.live_pages > 0 { SegmentState::Sealed } else { SegmentState::Free };
        if segment.live_pages > segment.written_pages {
            let offset = layout.offset(at * layout.pages_per_segment());
            let why =
                format!("the map has {} pages in it, but {}", segment.live_pages, segment.written_pages);
            return Err(damaged("a segment", offset, format!("{why} were written")));
        }
    }
    Ok(())
}

fn damaged(what: &'static str, offset: u64, why: String) -> RepairError {
    RepairError::Damaged { what, offset, why }
}
