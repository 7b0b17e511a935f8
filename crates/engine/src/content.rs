//! What writes put on the device.
//!
//! Zeros, ones and half are there for devices whose program time depends on the content; half of
//! each 4 KiB random and half of it zeros is Figure 14 of Sun and Zhang. Incompressible content differs from IO to IO, so that a device can neither
//! compress nor deduplicate it. Stamped content says in each sector where it was meant to go and
//! which write it came from, so that it can be verified later.

use std::fmt;

use flashlab_base::{Bytes, Prng, Seed};
use flashlab_plan::{Content, PlannedIo};

const SECTOR: usize = 512;
/// Devices compress and deduplicate in units of this at the least.
const UNIT: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"flashlab");

/// Fills a fresh buffer with what every write of this content starts from.
pub(crate) fn prepare(buffer: &mut [u8], content: Content, seed: Seed) {
    match content {
        Content::Zeros => buffer.fill(0x00),
        Content::Ones => buffer.fill(0xFF),
        Content::Incompressible | Content::Stamped | Content::Half => Prng::new(seed).fill(buffer),
    }
    if content == Content::Half {
        for unit in buffer.chunks_mut(UNIT) {
            let middle = unit.len().div_ceil(2);
            unit[middle..].fill(0);
        }
    }
}

/// Makes a prepared buffer this IO's own, for a few nanoseconds each 4 KiB.
#[inline]
pub(crate) fn freshen(buffer: &mut [u8], io: &PlannedIo, process: u32) {
    match io.content {
        Content::Zeros | Content::Ones => {}
        Content::Incompressible | Content::Half => {
            let own = (io.position ^ (u64::from(process) << 56)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            for unit in buffer.chunks_mut(UNIT) {
                if let Some(word) = unit.first_chunk_mut::<8>() {
                    *word = (own ^ io.offset.0).to_le_bytes();
                }
            }
        }
        Content::Stamped => {
            for (index, sector) in buffer.chunks_exact_mut(SECTOR).enumerate() {
                let offset = io.offset.0 + (index * SECTOR) as u64;
                sector[..8].copy_from_slice(&MAGIC.to_le_bytes());
                sector[8..16].copy_from_slice(&offset.to_le_bytes());
                sector[16..24].copy_from_slice(&io.position.to_le_bytes());
                sector[24..32].copy_from_slice(&u64::from(process).to_le_bytes());
            }
        }
    }
}

/// A sector that does not hold what a stamped write put there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StampError {
    /// Where the sector is.
    pub offset: Bytes,
    /// Where its stamp says that it was meant to go; `None` where it has no stamp.
    pub found: Option<Bytes>,
}

impl fmt::Display for StampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found {
            Some(found) => {
                write!(f, "the sector at {} was written for {}", self.offset.exact(), found.exact())
            }
            None => write!(f, "the sector at {} has no stamp", self.offset.exact()),
        }
    }
}

impl std::error::Error for StampError {}

/// Checks that every 512-byte sector of `data`, read at `offset`, was written there by a stamped
/// pattern, and returns the position of the write that each came from.
///
/// # Errors
/// The first sector that is missing its stamp or was written for another place.
pub fn verify(data: &[u8], offset: Bytes) -> Result<Vec<u64>, StampError> {
    let word = |sector: &[u8], at: usize| {
        u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes of a whole sector"))
    };
    data.chunks_exact(SECTOR)
        .enumerate()
        .map(|(index, sector)| {
            let here = Bytes(offset.0 + (index * SECTOR) as u64);
            if word(sector, 0) != MAGIC {
                return Err(StampError { offset: here, found: None });
            }
            match Bytes(word(sector, 8)) {
                found if found == here => Ok(word(sector, 16)),
                found => Err(StampError { offset: here, found: Some(found) }),
            }
        })
        .collect()
}
