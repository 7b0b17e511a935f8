//! The superblock: identity, geometry, and where recovery begins.
//!
//! # Method
//! Update number `n` writes the two copies of pair `n % 2`: one at the device's start and one at its end. Recovery takes
//! the valid copy with the highest number. A power failure during an update leaves the other pair as it was, and one
//! damaged copy of a pair leaves its twin.
//!
//! It names the newest checkpoint that was durable when it was written, and has a digest of the image: what it names and is not there was
//! damaged, and not cut by a power failure.

use flashlab_base::Bytes;

use crate::error::RepairError;
use crate::format::checkpoint::CheckpointName;
use crate::format::{BLOCK, Decoder, Encoder, VERSION, VERSION_OLDEST, VolumeUuid};
use crate::layout::{LayoutOptions, VolumeLayout};

const MAGIC: [u8; 8] = *b"FLREPAIR";
/// The distance of copies from each other and from the device's ends: longer than a page of flash, so that one damaged
/// page does not take two copies.
const DISTANCE: Bytes = Bytes::kib(64);
/// Flag: the volume was closed in order.
const CLEAN: u32 = 1;
/// Flag: the digest of the image is known. A mount of version 2 keeps its image, of which it is not.
const HAS_DIGEST: u32 = 2;

/// What the superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The volume's identity.
    pub uuid: VolumeUuid,
    /// Counts updates of the superblock.
    pub update: u64,
    /// Counts mounts; records carry it, so that those of an earlier life are not replayed.
    pub epoch: u64,
    /// Whether the volume was closed in order.
    pub is_clean: bool,
    /// Where everything lies.
    pub layout: VolumeLayout,
    /// The number of the map's newest complete image; 0: the map was empty.
    pub image: u64,
    /// The first checkpoint that recovery applies to the image.
    pub first_checkpoint: u64,
    /// Where it lies in the ring.
    pub first_position: u64,
    /// The newest checkpoint that was durable when this was written. `None`: version 2, which does not say.
    pub(crate) checkpoint: Option<CheckpointName>,
    /// The digest of the image's chunks. `None`: a version 2 wrote the image.
    pub(crate) image_digest: Option<u32>,
}

impl Superblock {
    /// Where the copies of pair 0 or 1 lie on a device of this capacity.
    pub(crate) fn offsets(pair: u64, capacity: Bytes) -> [u64; 2] {
        [pair * DISTANCE.0, capacity.round_down(BLOCK).0.saturating_sub((pair + 1) * DISTANCE.0)]
    }

    pub(crate) fn encode(&self, block: &mut [u8]) {
        block[..BLOCK.0 as usize].fill(0);
        let options = &self.layout.options;
        let mut fields = Encoder::new(block);
        fields.bytes(&MAGIC).u32(VERSION).u32(0).bytes(&self.uuid.0);
        let is_clean = if self.is_clean { CLEAN } else { 0 };
        let has_digest = if self.image_digest.is_some() { HAS_DIGEST } else { 0 };
        fields.u64(self.update).u64(self.epoch).u32(is_clean | has_digest);
        fields.u32(options.page.0 as u32).u64(options.capacity.0).u64(options.segment.0);
        fields.u64(options.logical_pages).u64(options.checkpoint_interval.0);
        fields.u64(self.layout.ring.0).u64(self.layout.images[0].0).u64(self.layout.images[1].0);
        fields.u64(self.layout.segments.0).u32(self.layout.segment_count).u32(self.layout.record_pages_max);
        fields.u64(self.image).u64(self.first_checkpoint).u64(self.first_position);
        let named = self.checkpoint.unwrap_or_default();
        fields.u64(self.layout.made_on.0).u64(named.number).u32(named.checksum);
        fields.u32(self.image_digest.unwrap_or_default());
        let checksum = checksum(block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
    }

    /// `Ok(None)`: the block is no superblock.
    ///
    /// # Errors
    /// [`RepairError::NoSuperblock`] for a wrong checksum, [`RepairError::OtherVersion`], and [`RepairError::Damaged`] for one whose checksum is right and whose geometry is
    /// impossible.
    pub(crate) fn decode(block: &[u8], offset: u64) -> Result<Option<Superblock>, RepairError> {
        let mut fields = Decoder::new(block);
        if fields.array() != MAGIC {
            return Ok(None);
        }
        let (version, stored) = (fields.u32(), fields.u32());
        if block.len() < BLOCK.0 as usize || checksum(block) != stored {
            return Err(RepairError::NoSuperblock);
        }
        if !(VERSION_OLDEST..=VERSION).contains(&version) {
            return Err(RepairError::OtherVersion(version));
        }
        let uuid = VolumeUuid(fields.array());
        let (update, epoch, flags) = (fields.u64(), fields.u64(), fields.u32());
        let options = LayoutOptions {
            page: Bytes(fields.u32().into()),
            capacity: Bytes(fields.u64()),
            segment: Bytes(fields.u64()),
            logical_pages: fields.u64(),
            checkpoint_interval: Bytes(fields.u64()),
        };
        let impossible = |why: String| RepairError::Damaged { what: "the superblock", offset, why };
        let places: [u64; 4] = std::array::from_fn(|_| fields.u64());
        let counts = [fields.u32(), fields.u32()];
        let (image, first_checkpoint, first_position) = (fields.u64(), fields.u64(), fields.u64());
        let layout = VolumeLayout::resized(options, Bytes(fields.u64()))
            .map_err(|error| impossible(error.to_string()))?;
        if places != [layout.ring, layout.images[0], layout.images[1], layout.segments].map(|place| place.0)
            || counts != [layout.segment_count, layout.record_pages_max]
        {
            return Err(impossible("its places do not follow from its geometry".to_owned()));
        }
        if first_position > layout.ring_length.0 || !first_position.is_multiple_of(BLOCK.0) {
            return Err(impossible(format!("the ring has no byte {first_position}")));
        }
        let named = CheckpointName { number: fields.u64(), checksum: fields.u32() };
        let digest = fields.u32();
        let is_clean = flags & CLEAN != 0;
        Ok(Some(Superblock {
            uuid,
            update,
            epoch,
            is_clean,
            layout,
            image,
            first_checkpoint,
            first_position,
            checkpoint: (version > VERSION_OLDEST).then_some(named),
            image_digest: (flags & HAS_DIGEST != 0).then_some(digest),
        }))
    }
}

/// Of the block with its own field as zeroes.
fn checksum(block: &[u8]) -> u32 {
    let block = &block[..BLOCK.0 as usize];
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&block[..12]), &[0; 4]), &block[16..])
}
