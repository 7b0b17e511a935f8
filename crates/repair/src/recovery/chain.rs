//! The chain of checkpoints behind the image: applies it, and finds out whether its end is the newest checkpoint.

use flashlab_base::Bytes;
use flashlab_device::Device;

use super::state::{Recovered, apply as apply_change, damaged};
use crate::device_io::{DeviceIo, ReadRange};
use crate::error::RepairError;
use crate::format::checkpoint::{Checkpoint, LOGS_MAX};
use crate::format::{BLOCK, VolumeUuid};
use crate::layout::VolumeLayout;
use crate::ring::Placed;
use crate::seeded_bug::SeededBug;

/// Behind the end of the chain a later checkpoint is looked for in as many bytes as this number of the longest checkpoints. So it is found
/// behind two that are damaged. One that is further away is shown by the superblock or by records.
const LOOK_BEHIND: u64 = 2;
/// The ring is looked through in parts of this size.
const PART: Bytes = Bytes::kib(256);

/// Applies the checkpoints and returns the last one.
pub(super) fn apply<D: Device>(
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
        let why = if !follows(recovered, &last, &found) {
            "it is not the one that was written behind the checkpoint before it"
        } else if !apply_all(recovered, layout, &found) {
            "it names what does not exist"
        } else {
            last = found;
            continue;
        };
        let offset = layout.ring.0 + recovered.ring.next() - found.length().0;
        return Err(damaged("a checkpoint", offset, why.to_owned()));
    }
}

/// Whether `found` is the checkpoint behind `last`, and the one that the superblock names if it has that number.
fn follows(recovered: &Recovered, last: &Checkpoint, found: &Checkpoint) -> bool {
    // Of the first one behind an image the checkpoint before is not known. That of the very first one is none.
    let is_first = found.number == recovered.superblock.first_checkpoint && found.number > 1;
    let is_linked = is_first || found.previous.is_none_or(|previous| previous == last.checksum);
    let named = recovered.superblock.checkpoint.filter(|named| named.number == found.number);
    is_linked && named.is_none_or(|named| named == found.name())
}

fn apply_all(recovered: &mut Recovered, layout: &VolumeLayout, found: &Checkpoint) -> bool {
    found.changes.iter().all(|&change| apply_change(recovered, change))
        && found.segments.iter().all(|&(id, segment)| {
            let Some(place) = recovered.segments.get_mut(id.0 as usize) else { return false };
            *place = segment;
            segment.written_pages <= layout.pages_per_segment()
        })
        && found.open.len() <= LOGS_MAX
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

/// Fails if the end of the chain is not the newest checkpoint that was durable, as the superblock and the ring say.
pub(super) fn verify_end<D: Device>(io: &mut DeviceIo<D>, recovered: &Recovered) -> Result<(), RepairError> {
    if SeededBug::is(recovered.bug, SeededBug::MissingCheckpointEndsChain) {
        return Ok(());
    }
    let (superblock, last) = (&recovered.superblock, &recovered.checkpoint);
    let first = superblock.first_checkpoint;
    let next = last.number + 1;
    let why = if let Some(named) = superblock.checkpoint.filter(|named| named.number > last.number) {
        format!("the superblock names checkpoint {}, but checkpoint {next} is not there", named.number)
    } else if superblock.image > 0 && last.number < first {
        format!("the map's image was begun at checkpoint {first}, which is not there")
    } else if superblock.is_clean && last.epoch < superblock.epoch {
        format!(
            "the volume was closed in order by mount {}, but checkpoint {next} of that mount is not there",
            superblock.epoch
        )
    } else if let Some(later) = later_checkpoint(io, recovered)? {
        format!("checkpoint {later} is there, but checkpoint {next} before it is not")
    } else {
        return Ok(());
    };
    Err(damaged("a checkpoint", superblock.layout.ring.0 + recovered.ring.next(), why))
}

/// A checkpoint in the ring that is newer than the end of the chain.
fn later_checkpoint<D: Device>(
    io: &mut DeviceIo<D>,
    recovered: &Recovered,
) -> Result<Option<u64>, RepairError> {
    let (layout, uuid) = (&recovered.superblock.layout, recovered.superblock.uuid);
    let mut part = [ReadRange::new(layout.ring.0, PART)];
    let mut whole = [ReadRange::new(layout.ring.0, layout.checkpoint_max)];
    for start in recovered.ring.positions() {
        let end = (start + LOOK_BEHIND * layout.checkpoint_max.0).min(layout.ring_length.0);
        let mut at = start;
        while at < end {
            (part[0].offset, part[0].size) = (layout.ring.0 + at, PART.min(Bytes(end - at)));
            io.read_if_possible(&mut part, BLOCK);
            for (index, block) in (0..).zip(part[0].bytes().chunks_exact(BLOCK.0 as usize)) {
                let is_later = Checkpoint::claimed_number(block)
                    .is_some_and(|number| number > recovered.checkpoint.number);
                if is_later
                    && let Some(found) = read_checkpoint(io, layout, uuid, at + index * BLOCK.0, &mut whole)?
                {
                    return Ok(Some(found.number));
                }
            }
            at += PART.0;
        }
    }
    Ok(None)
}
