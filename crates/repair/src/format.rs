//! The on-disk format of a volume, version 3. docs/repair-format.md has it byte by byte.
//!
//! # Parts
//! - [`superblock`]: four copies, written in pairs that alternate; where everything is.
//! - [`image`]: the whole map in 4 KiB chunks, in one of two slots that alternate.
//! - [`checkpoint`]: what changed in the map since the checkpoint before, appended to a ring.
//! - [`record`]: a run of pages in a segment, with their logical addresses and checksums in front.
//! - [`page_checksum`]: the checksum of a page without reading its data once more.
//!
//! # Invariants
//! - Integers are little-endian. Every structure carries a CRC-32C that begins with the volume's UUID, so that nothing of
//!   an earlier volume on the same device is taken for this one's.
//! - Decoding never panics: bytes that do not fit are no structure.

pub(crate) mod checkpoint;
pub(crate) mod image;
pub(crate) mod page_checksum;
pub(crate) mod record;
pub(crate) mod superblock;

use std::fmt;

use flashlab_base::Bytes;

/// The version of the format that this crate writes.
pub const VERSION: u32 = 3;

/// The oldest version that it reads. A mount makes version 3 of it. Version 2 does not say which checkpoint is the newest, has no checksum
/// over the whole image, and does not link checkpoints.
pub(crate) const VERSION_OLDEST: u32 = 2;

/// The version of the catalogue of files that this crate writes and reads.
pub const FILES_VERSION: u32 = 3;

/// The unit of superblocks, map chunks and checkpoints; the smallest page.
pub(crate) const BLOCK: Bytes = Bytes(4096);

/// A volume's identity: 16 random bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeUuid(pub [u8; 16]);

impl VolumeUuid {
    /// The state of a CRC-32C after the UUID: where every checksum of the volume begins.
    pub(crate) fn seed(self) -> u32 {
        crc32c::crc32c(&self.0)
    }
}

impl fmt::Display for VolumeUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Writes fields one after the other.
pub(crate) struct Encoder<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Encoder<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Encoder<'a> {
        Encoder { bytes, at: 0 }
    }

    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + value.len()].copy_from_slice(value);
        self.at += value.len();
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Where the next field goes.
    pub fn at(&self) -> usize {
        self.at
    }
}

/// Reads fields one after the other; beyond the end they are zero, and [`Decoder::is_short`] says so.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, at: 0 }
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let found = self.bytes.get(self.at..self.at + N).and_then(|bytes| bytes.try_into().ok());
        self.at += N;
        found.unwrap_or([0; N])
    }

    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// The next `length` bytes. `None`: there are fewer.
    pub fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let found = self.bytes.get(self.at..self.at + length)?;
        self.at += length;
        Some(found)
    }

    /// Where the next field begins.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether a field lay beyond the end.
    pub fn is_short(&self) -> bool {
        self.at > self.bytes.len()
    }
}
