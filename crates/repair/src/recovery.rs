//! Recovery: from what is on the device to the state that a volume continues with. It only reads.
//!
//! # Method
//! 1. The superblock is the valid copy with the highest update number.
//! 2. The newest complete image gives the map and the segments. Its digest is that of the superblock.
//! 3. `chain`: the checkpoints since the image was begun are applied in order, until one is missing.
//! 4. `roll_forward`: the last checkpoint names the open segments and the free ones in the order of their opening. Their records
//!    of the same epoch are read, and applied group by group in the order of their sequence, until one is missing.
//! 5. A segment without live pages is free. They are counted in one pass over the map.
//!
//! Copies that packing made since the last checkpoint are not replayed: their originals are still there.
//!
//! # What is missing: cut by a power failure, or damaged
//! A power failure cuts what was written behind the last flush of the device. So what something written later depends on was durable, and
//! is damaged if it is not there. Then recovery fails; it never takes an older state for the newest. The later things are:
//! - the superblock, which names a checkpoint and, by its digest, an image;
//! - a later checkpoint in the ring, and the checksum in each checkpoint of the one before;
//! - a record, which says which record and which checkpoint was durable when it was written. Records are looked for behind the end of the
//!   log, too: behind a damaged header in the same segment, and in all segments if the log may have left those that the checkpoint lists.
//!
//! What was flushed last, and behind which nothing was written, cannot be distinguished from what a power failure cut.
//!
//! # Invariants
//! - Recovering does not change the device, so that recovering twice is the same as once.

mod chain;
mod roll_forward;
mod state;

use flashlab_base::Bytes;
use flashlab_device::Device;

use crate::device_io::{DeviceIo, ReadRange};
use crate::error::RepairError;
use crate::format::BLOCK;
use crate::format::checkpoint::Checkpoint;
use crate::format::image::{self, ChunkContent};
use crate::format::superblock::Superblock;
use crate::layout::VolumeLayout;
use crate::map::PageMap;
use crate::ring::Ring;
use crate::seeded_bug::SeededBug;
use crate::segment_table::{Segment, SegmentState};

pub(crate) use state::Recovered;
use state::damaged;

/// The map is read in parts of this size.
const IMAGE_READ: Bytes = Bytes::mib(1);

/// Recovers the state.
///
/// # Errors
/// See [`RepairError`].
pub(crate) fn recover<D: Device>(
    io: &mut DeviceIo<D>,
    superblock: Superblock,
    bug: Option<SeededBug>,
) -> Result<Recovered, RepairError> {
    let mut recovered = up_to_checkpoints(io, superblock, bug)?;
    chain::verify_end(io, &recovered)?;
    roll_forward::roll_forward(io, &mut recovered)?;
    finish(&mut recovered)?;
    Ok(recovered)
}

/// The state as of the last checkpoint that can be reached, which may be an older one. For what is left of a damaged volume.
///
/// # Errors
/// When not even the image can be read.
pub(crate) fn reachable_state<D: Device>(
    io: &mut DeviceIo<D>,
    superblock: Superblock,
) -> Result<Recovered, RepairError> {
    let mut recovered = up_to_checkpoints(io, superblock, None)?;
    finish(&mut recovered)?;
    Ok(recovered)
}

/// The image and the checkpoints.
fn up_to_checkpoints<D: Device>(
    io: &mut DeviceIo<D>,
    superblock: Superblock,
    bug: Option<SeededBug>,
) -> Result<Recovered, RepairError> {
    let layout = &superblock.layout;
    let map = match superblock.image {
        0 => PageMap::new(layout.options.logical_pages),
        _ => PageMap::with_capacity(layout.options.logical_pages),
    };
    let mut recovered = Recovered {
        map,
        segments: vec![Segment::default(); layout.segment_count as usize],
        ring: Ring::new(layout.ring_length, superblock.first_position),
        checkpoint: Checkpoint {
            number: superblock.first_checkpoint.saturating_sub(1),
            ..Checkpoint::default()
        },
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
    let last = chain::apply(io, &mut recovered)?;
    recovered.sequence = last.sequence;
    recovered.now = last.now;
    recovered.opened_count = last.opened_count;
    recovered.checkpoint = last;
    Ok(recovered)
}

/// Counts the live pages.
fn finish(recovered: &mut Recovered) -> Result<(), RepairError> {
    let layout = recovered.superblock.layout.clone();
    take_live_pages(&layout, recovered)?;
    // On a damaged device the segments may be newer than the last checkpoint. No page was written in the future.
    let newest =
        recovered.segments.iter().map(|segment| segment.sealed.max(segment.opened).max(segment.written[1]));
    recovered.now = newest.fold(recovered.now, u64::max);
    Ok(())
}

fn read_image<D: Device>(io: &mut DeviceIo<D>, recovered: &mut Recovered) -> Result<(), RepairError> {
    let (layout, uuid, image) =
        (&recovered.superblock.layout, recovered.superblock.uuid, recovered.superblock.image);
    let start = layout.images[(image % 2) as usize].0;
    let (pages, segments) = (layout.options.logical_pages, u64::from(layout.segment_count));
    let chunks = image::length(pages, segments).0 / BLOCK.0;
    let mut chunk = 0;
    let mut digest = 0;
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
            digest = image::digest(digest, block);
            chunk += 1;
        }
    }
    let expected = recovered.superblock.image_digest.unwrap_or(digest);
    if digest != expected {
        let why = "a chunk is that of an earlier attempt at this image".to_owned();
        return Err(damaged("the map's image", start, why));
    }
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
