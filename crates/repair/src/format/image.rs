//! An image of the whole map and of the table of segments, in 4 KiB chunks.
//!
//! # Model
//! The image is fuzzy: its chunks are written one after the other, each as the map is at that moment, while checkpoints go on.
//! Recovery reads the image and applies all checkpoints since it was begun. Changes are absolute and in order, so that
//! those which a chunk has already do no harm. Two slots alternate: the slot of the newest complete image is not written
//! to.

use flashlab_base::Bytes;

use crate::format::checkpoint::{SEGMENT, decode_segment, encode_segment};
use crate::format::{BLOCK, Decoder, Encoder, VolumeUuid};
use crate::map::BYTES_PER_PAGE;
use crate::segment_table::Segment;

const MAGIC: [u8; 8] = *b"FLMAPIMG";
const FIXED: usize = 24;
/// Pages of the map in a chunk.
const PAGES: u64 = ((BLOCK.0 as usize - FIXED) / BYTES_PER_PAGE) as u64;
/// Segments in a chunk.
const SEGMENTS: u64 = ((BLOCK.0 as usize - FIXED) / SEGMENT) as u64;

/// The length of an image.
pub(crate) fn length(pages: u64, segments: u64) -> Bytes {
    Bytes((page_chunks(pages) + segments.div_ceil(SEGMENTS)) * BLOCK.0)
}

fn page_chunks(pages: u64) -> u64 {
    pages.div_ceil(PAGES)
}

/// What a chunk holds: the indices of its pages or of its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChunkContent {
    Pages(std::ops::Range<u64>),
    Segments(std::ops::Range<u64>),
}

/// The content of a chunk. `None`: the image has fewer chunks.
pub(crate) fn content(chunk: u64, pages: u64, segments: u64) -> Option<ChunkContent> {
    let of = |chunk: u64, size: u64, count: u64| {
        let start = chunk * size;
        (start < count).then(|| start..count.min(start + size))
    };
    match chunk.checked_sub(page_chunks(pages)) {
        None => of(chunk, PAGES, pages).map(ChunkContent::Pages),
        Some(chunk) => of(chunk, SEGMENTS, segments).map(ChunkContent::Segments),
    }
}

/// Writes a chunk of places, from their bytes in the map.
pub(crate) fn encode_pages(uuid: VolumeUuid, (image, chunk): (u64, u64), places: &[u8], block: &mut [u8]) {
    begin(image, chunk, block).bytes(places);
    end(uuid, block);
}

/// Writes a chunk of segments.
pub(crate) fn encode_segments<'a>(
    uuid: VolumeUuid,
    (image, chunk): (u64, u64),
    segments: impl Iterator<Item = &'a Segment>,
    block: &mut [u8],
) {
    let mut fields = begin(image, chunk, block);
    segments.for_each(|segment| encode_segment(segment, &mut fields));
    end(uuid, block);
}

fn begin(image: u64, chunk: u64, block: &mut [u8]) -> Encoder<'_> {
    block.fill(0);
    let mut fields = Encoder::new(block);
    fields.bytes(&MAGIC).u32(0).u32(chunk as u32).u64(image);
    fields
}

fn end(uuid: VolumeUuid, block: &mut [u8]) {
    let checksum = crc32c::crc32c_append(uuid.seed(), &block[12..]);
    block[8..12].copy_from_slice(&checksum.to_le_bytes());
}

fn open(uuid: VolumeUuid, (image, chunk): (u64, u64), block: &[u8]) -> Option<Decoder<'_>> {
    let mut fields = Decoder::new(block);
    let (magic, stored): ([u8; 8], u32) = (fields.array(), fields.u32());
    let is_right = magic == MAGIC
        && crc32c::crc32c_append(uuid.seed(), block.get(12..)?) == stored
        && u64::from(fields.u32()) == chunk
        && fields.u64() == image;
    is_right.then_some(fields)
}

/// The digest of an image's chunks up to this one, from that of those before it; 0 before the first. The superblock has that of all chunks:
/// one of an earlier attempt at the same image does not pass for this one's.
pub(crate) fn digest(before: u32, block: &[u8]) -> u32 {
    crc32c::crc32c_append(before, &block[8..12])
}

/// The places in a chunk, `count` of them, as [`PageMap::load`](crate::map::PageMap::load) takes them. `None`: the block
/// is not this chunk of this image.
pub(crate) fn page_bytes(
    uuid: VolumeUuid,
    image_and_chunk: (u64, u64),
    count: u64,
    block: &[u8],
) -> Option<&[u8]> {
    open(uuid, image_and_chunk, block)?;
    block.get(FIXED..FIXED + count as usize * BYTES_PER_PAGE)
}

/// The segments in a chunk, `count` of them. `None`: the block is not this chunk of this image.
pub(crate) fn decode_segments(
    uuid: VolumeUuid,
    image_and_chunk: (u64, u64),
    count: u64,
    block: &[u8],
) -> Option<impl Iterator<Item = Segment> + '_> {
    let mut fields = open(uuid, image_and_chunk, block)?;
    Some((0..count).map(move |_| decode_segment(&mut fields)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Location, PageMap};

    #[test]
    fn chunks_cover_all_pages_and_then_all_segments() {
        let (pages, segments) = (2 * PAGES + 1, SEGMENTS + 1);
        let chunks: Vec<ChunkContent> = (0..).map_while(|chunk| content(chunk, pages, segments)).collect();
        assert_eq!(chunks.len() as u64 * BLOCK.0, length(pages, segments).0);
        assert_eq!(chunks[2], ChunkContent::Pages(2 * PAGES..pages));
        assert_eq!(chunks[4], ChunkContent::Segments(SEGMENTS..segments));
    }

    #[test]
    fn a_chunk_is_read_as_it_was_written_and_not_as_another() {
        let uuid = VolumeUuid([1; 16]);
        let mut block = vec![0; 4096];
        let places = [None, Some(Location { position: 9, distance: 2 })];
        let mut written = PageMap::new(2);
        written.set(1, places[1]);
        encode_pages(uuid, (4, 1), written.bytes(0..2), &mut block);
        assert_eq!(page_bytes(uuid, (4, 1), 2, &block), Some(written.bytes(0..2)));
        assert!(page_bytes(uuid, (5, 1), 2, &block).is_none());
        assert!(page_bytes(uuid, (4, 2), 2, &block).is_none());
        block[4000] ^= 1;
        assert!(page_bytes(uuid, (4, 1), 2, &block).is_none());
    }
}
