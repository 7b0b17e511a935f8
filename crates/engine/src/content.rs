//! The data that writes carry.
//!
//! # Model
//! - Zeros, ones and half are for devices whose program time depends on the data. Half is random data in the
//!   first half of each 4 KiB and zeros in the second (Sun and Zhang, Figure 14).
//! - Incompressible: differs from IO to IO, so that a device can neither compress nor deduplicate it.
//! - Stamped: each sector contains its offset and the number of the write, so that [`verify`] can check it later.
//!
//! # Invariant
//! - The expensive part ([`prepare`]) runs once per buffer before the run; [`freshen`] runs before each write and changes
//!   only a few bytes per 4 KiB.

use flashlab_base::{Bytes, Prng, Seed};
use flashlab_plan::{Content, PlannedIo};
use thiserror::Error;

const SECTOR: usize = 512;
/// Devices that compress or deduplicate do so in units of at least 4 KiB; a smaller unit would cost CPU time per write.
const UNIT: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"flashlab");

/// Fills a new buffer with the data that all writes of this content have in common.
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

/// Adds to a prepared buffer what differs between IOs; takes a few nanoseconds per 4 KiB.
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

/// A sector that does not contain what a stamped write wrote there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", match .found {
    Some(found) => format!("the sector at {} contains data that was written for offset {}", .offset.exact(), found.exact()),
    None => format!("the sector at {} has no stamp", .offset.exact()),
})]
pub struct StampError {
    /// The sector's offset.
    pub offset: Bytes,
    /// The offset in its stamp; `None` for a sector without a stamp.
    pub found: Option<Bytes>,
}

/// Checks that a stamped pattern wrote every 512-byte sector of `data`, which was read at `offset`. Returns for each sector
/// the position of its write in the pattern.
///
/// # Errors
/// The first sector that has no stamp, or the stamp of another offset.
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
