//! A checkpoint: what changed since the checkpoint before. Checkpoints lie one behind the other in a ring.
//!
//! # Method
//! Recovery applies the checkpoints behind the newest image of the map in order, until one is missing. The last one says which
//! segments may hold newer records: the open ones, and the free ones in the order in which they will be opened.
//!
//! Each checkpoint has the checksum of the one before, so that none passes for another one with its number.

use flashlab_base::Bytes;

use crate::format::{BLOCK, Decoder, Encoder, VolumeUuid};
use crate::map::Location;
use crate::segment_table::{LogId, Segment, SegmentId};

const MAGIC: [u8; 8] = *b"FLCHKPT3";
/// That of version 2, which has no link to the checkpoint before.
const MAGIC_2: [u8; 8] = *b"FLCHKPNT";
/// Bytes before the link.
const FIXED_2: usize = 72 + 8 * COUNTERS;
/// Bytes before the lists.
const FIXED: usize = FIXED_2 + 8;
/// Counters that survive a restart.
pub(crate) const COUNTERS: usize = 12;
const CHANGE: usize = 16;
/// A segment's entry, here and in the image.
pub(crate) const SEGMENT: usize = 48;
/// The most logs that a policy may have: each has at most one open segment and one record in memory. It belongs to the format:
/// recovery reads on behind one segment without a record for each log. With more logs it would lose flushed records.
pub(crate) const LOGS_MAX: usize = 16;
/// The most free segments that are listed. Version 2 listed two more, in place of the link: both have the same longest checkpoint, from
/// which the places of a volume follow.
pub(crate) const QUEUE_MAX: u64 = 1022;

/// Which checkpoint: its number, and its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointName {
    pub number: u64,
    pub checksum: u32,
}

/// A change of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The page lies there now.
    Put { page: u64, location: Location },
    /// These pages lie nowhere.
    Drop { page: u64, count: u32 },
}

/// What changed since the checkpoint before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Its number.
    pub number: u64,
    /// Its checksum, as it was read.
    pub checksum: u32,
    /// The checksum of the checkpoint before; 0 in the first one. `None`: version 2, which does not say.
    pub previous: Option<u32>,
    /// The mount that wrote it: newer records carry the same epoch.
    pub epoch: u64,
    /// The last record that it covers.
    pub sequence: u64,
    /// The write clock.
    pub now: u64,
    /// Segments opened so far.
    pub opened_count: u64,
    /// Counters that survive a restart.
    pub counters: [u64; COUNTERS],
    /// Changes of the map, in order.
    pub changes: Vec<Change>,
    /// Segments that were opened, appended to or sealed, as they are now.
    pub segments: Vec<(SegmentId, Segment)>,
    /// The free segments in the order in which they will be opened.
    pub queue: Vec<SegmentId>,
    /// The open segments, and the position in each at which the next record begins.
    pub open: Vec<(SegmentId, u32)>,
}

/// The longest checkpoint with these numbers of changes and segments.
pub(crate) fn length_max(changes: u64, segments: u64) -> Bytes {
    let lists = changes * CHANGE as u64 + segments * (4 + SEGMENT) as u64;
    Bytes(FIXED as u64 + lists + QUEUE_MAX * 4 + LOGS_MAX as u64 * 8).round_up(BLOCK)
}

impl Checkpoint {
    /// Bytes that it takes in the ring.
    pub fn length(&self) -> Bytes {
        Bytes(self.used() as u64).round_up(BLOCK)
    }

    fn used(&self) -> usize {
        FIXED
            + self.changes.len() * CHANGE
            + self.segments.len() * (4 + SEGMENT)
            + self.queue.len() * 4
            + self.open.len() * 8
    }

    /// Its name, if it was read.
    pub fn name(&self) -> CheckpointName {
        CheckpointName { number: self.number, checksum: self.checksum }
    }

    /// Writes it into the first [`Checkpoint::length`] bytes, and returns its checksum.
    pub fn encode(&self, uuid: VolumeUuid, bytes: &mut [u8]) -> u32 {
        let mut fields = Encoder::new(bytes);
        fields.bytes(&MAGIC).u32(0).u32(self.used() as u32);
        fields.u64(self.number).u64(self.epoch).u64(self.sequence).u64(self.now).u64(self.opened_count);
        for count in [self.changes.len(), self.segments.len(), self.queue.len(), self.open.len()] {
            fields.u32(count as u32);
        }
        for &counter in &self.counters {
            fields.u64(counter);
        }
        fields.u32(self.previous.unwrap_or_default()).u32(0);
        debug_assert_eq!(fields.at(), FIXED);
        for change in &self.changes {
            match *change {
                Change::Put { page, location } => {
                    fields.u64(page).u32(location.position).u8(location.distance).u8(0).u16(0)
                }
                Change::Drop { page, count } => fields.u64(page).u32(count).u8(0).u8(1).u16(0),
            };
        }
        for (id, segment) in &self.segments {
            encode_segment(segment, fields.u32(id.0));
        }
        for id in &self.queue {
            fields.u32(id.0);
        }
        for (id, position) in &self.open {
            fields.u32(id.0).u32(*position);
        }
        let used = fields.at();
        debug_assert_eq!(used, self.used());
        bytes[used..self.length().0 as usize].fill(0);
        let checksum = crc32c::crc32c_append(uuid.seed(), &bytes[12..used]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// How many bytes a checkpoint that begins with this block takes. `None`: no checkpoint begins here.
    pub fn length_of(first: &[u8]) -> Option<Bytes> {
        let mut fields = Decoder::new(first);
        let magic: [u8; 8] = fields.array();
        let (_, used) = (fields.u32(), fields.u32());
        let fixed = fixed(magic)?;
        (used as usize >= fixed).then(|| Bytes(used.into()).round_up(BLOCK))
    }

    /// The number that a block claims with which a checkpoint seems to begin. It is not verified.
    pub fn claimed_number(first: &[u8]) -> Option<u64> {
        let mut fields = Decoder::new(first);
        fixed(fields.array())?;
        let _: [u8; 8] = fields.array();
        Some(fields.u64())
    }

    /// `None`: the bytes are no checkpoint of this volume.
    pub fn decode(uuid: VolumeUuid, bytes: &[u8]) -> Option<Checkpoint> {
        let mut fields = Decoder::new(bytes);
        let magic: [u8; 8] = fields.array();
        let (stored, used) = (fields.u32(), fields.u32() as usize);
        let fixed = fixed(magic)?;
        if used < fixed {
            return None;
        }
        if crc32c::crc32c_append(uuid.seed(), bytes.get(12..used)?) != stored {
            return None;
        }
        let (number, epoch, sequence) = (fields.u64(), fields.u64(), fields.u64());
        let (now, opened_count) = (fields.u64(), fields.u64());
        let counts: [usize; 4] = std::array::from_fn(|_| fields.u32() as usize);
        let counters = std::array::from_fn(|_| fields.u64());
        let previous = (fixed == FIXED).then(|| (fields.u32(), fields.u32()).0);
        let (checksum, lists) = (stored, Checkpoint::default());
        let mut checkpoint =
            Checkpoint { number, checksum, previous, epoch, sequence, now, opened_count, counters, ..lists };
        let lists = [CHANGE, 4 + SEGMENT, 4, 8].iter().zip(counts).map(|(size, count)| size * count);
        if fixed + lists.sum::<usize>() != used {
            return None;
        }
        let changes = fields.slice(counts[0] * CHANGE)?.as_chunks().0;
        checkpoint.changes = changes.iter().map(decode_change).collect();
        for _ in 0..counts[1] {
            checkpoint.segments.push((SegmentId(fields.u32()), decode_segment(&mut fields)));
        }
        checkpoint.queue.extend((0..counts[2]).map(|_| SegmentId(fields.u32())));
        checkpoint.open.extend((0..counts[3]).map(|_| (SegmentId(fields.u32()), fields.u32())));
        (!fields.is_short()).then_some(checkpoint)
    }
}

/// The bytes before the lists of a checkpoint with this magic number. `None`: it is none.
fn fixed(magic: [u8; 8]) -> Option<usize> {
    match magic {
        MAGIC => Some(FIXED),
        MAGIC_2 => Some(FIXED_2),
        _ => None,
    }
}

/// A change, of which a mount may decode tens of millions.
#[inline]
fn decode_change(bytes: &[u8; CHANGE]) -> Change {
    let [p0, p1, p2, p3, p4, p5, p6, p7, v0, v1, v2, v3, distance, kind, _, _] = *bytes;
    let page = u64::from_le_bytes([p0, p1, p2, p3, p4, p5, p6, p7]);
    let value = u32::from_le_bytes([v0, v1, v2, v3]);
    match kind {
        0 => Change::Put { page, location: Location { position: value, distance } },
        _ => Change::Drop { page, count: value },
    }
}

/// A segment's entry.
pub(crate) fn encode_segment(segment: &Segment, fields: &mut Encoder<'_>) {
    fields.u32(segment.written_pages).u8(segment.log.0).u8(0).u16(0);
    fields.u64(segment.sequence).u64(segment.opened).u64(segment.sealed);
    fields.u64(segment.written[0]).u64(segment.written[1]);
}

/// A segment as its entry describes it, without live pages and free.
pub(crate) fn decode_segment(fields: &mut Decoder<'_>) -> Segment {
    let (written_pages, log, _, _) = (fields.u32(), fields.u8(), fields.u8(), fields.u16());
    Segment {
        written_pages,
        log: LogId(log),
        sequence: fields.u64(),
        opened: fields.u64(),
        sealed: fields.u64(),
        written: [fields.u64(), fields.u64()],
        ..Segment::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let uuid = VolumeUuid([3; 16]);
        let segment =
            Segment { written_pages: 7, log: LogId(1), sequence: 4, written: [1, 2], ..Segment::default() };
        let mut checkpoint = Checkpoint {
            number: 5,
            checksum: 0,
            previous: Some(77),
            epoch: 2,
            sequence: 44,
            now: 1000,
            opened_count: 9,
            counters: std::array::from_fn(|index| index as u64),
            changes: vec![
                Change::Put { page: 3, location: Location { position: 77, distance: 4 } },
                Change::Drop { page: 9, count: 1 },
            ],
            segments: vec![(SegmentId(8), segment)],
            queue: vec![SegmentId(1), SegmentId(5)],
            open: vec![(SegmentId(8), 3)],
        };
        let mut bytes = vec![0xff; checkpoint.length().0 as usize];
        checkpoint.checksum = checkpoint.encode(uuid, &mut bytes);
        assert_eq!(Checkpoint::length_of(&bytes), Some(checkpoint.length()));
        assert_eq!(Checkpoint::decode(uuid, &bytes), Some(checkpoint.clone()));
        assert_eq!(Checkpoint::decode(VolumeUuid::default(), &bytes), None);
        for byte in 0..checkpoint.used() {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 1;
            assert_eq!(Checkpoint::decode(uuid, &damaged), None, "byte {byte}");
        }
    }
}
