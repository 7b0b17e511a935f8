//! Reads the newest superblock, writes the next one, and erases all of them.

use flashlab_base::Bytes;
use flashlab_device::Device;

use crate::device_io::{DeviceIo, ReadRange};
use crate::error::RepairError;
use crate::format::superblock::Superblock;
use crate::format::{BLOCK, VolumeUuid};

/// Places that are looked at for copies: those of the device and of a few volumes of other sizes.
const OFFSETS_MAX: usize = 16;

/// The superblock of the volume on a device, without recovering the volume.
///
/// # Errors
/// See [`RepairError`].
pub fn superblock<D: Device>(device: D) -> Result<Superblock, RepairError> {
    read_superblock(&mut DeviceIo::new(device, Bytes::ZERO, 0))
}

/// Removes a volume: overwrites every copy of its superblock with zeroes, also damaged ones. Its pages stay.
///
/// # Errors
/// When the device fails.
pub fn erase<D: Device>(device: D) -> Result<(), RepairError> {
    let mut io = DeviceIo::new(device, Bytes::ZERO, 0);
    let capacity = io.device().geometry().capacity;
    // A volume may be smaller than its device.
    let own = read_superblock(&mut io).map(|superblock| superblock.layout.options.capacity);
    let mut offsets: Vec<u64> = [Some(capacity), own.ok()].into_iter().flatten().flat_map(copies).collect();
    offsets.sort_unstable();
    offsets.dedup();
    let zeroes = vec![0; BLOCK.0 as usize];
    for offset in offsets.into_iter().filter(|offset| offset + BLOCK.0 <= capacity.0) {
        io.write_bytes(offset, &zeroes)?;
    }
    io.flush()
}

/// Overwrites the superblocks at the device's end: those of a larger volume, which would be taken for newer ones.
pub(crate) fn clear_end<D: Device>(io: &mut DeviceIo<D>, volume: Bytes) -> Result<(), RepairError> {
    let capacity = io.device().geometry().capacity;
    let zeroes = vec![0; BLOCK.0 as usize];
    for offset in copies(capacity).filter(|offset| offset + BLOCK.0 > volume.0) {
        io.write_bytes(offset, &zeroes)?;
    }
    Ok(())
}

/// Where all copies lie on a device of this capacity.
fn copies(capacity: Bytes) -> impl Iterator<Item = u64> {
    (0..2).flat_map(move |pair| Superblock::offsets(pair, capacity))
}

/// Writes the pair of copies that is due by the update number, and flushes.
pub(crate) fn write_superblock<D: Device>(
    io: &mut DeviceIo<D>,
    superblock: &Superblock,
) -> Result<(), RepairError> {
    let mut block = vec![0; BLOCK.0 as usize];
    superblock.encode(&mut block);
    for offset in Superblock::offsets(superblock.update % 2, superblock.layout.options.capacity) {
        io.write_bytes(offset, &block)?;
    }
    io.flush()
}

/// Reads one copy; `None` where none is.
fn read_copy<D: Device>(io: &mut DeviceIo<D>, offset: u64) -> Result<Option<Superblock>, RepairError> {
    let mut block = [ReadRange::new(offset, BLOCK)];
    io.read(&mut block)?;
    Superblock::decode(block[0].bytes(), offset)
}

/// Reads the superblock of a volume that is whole.
///
/// # Errors
/// See [`RepairError`].
pub(crate) fn read_superblock<D: Device>(io: &mut DeviceIo<D>) -> Result<Superblock, RepairError> {
    let (superblock, device) = (newest_superblock(io)?, io.device().geometry().capacity);
    let volume = superblock.layout.options.capacity;
    if volume > device {
        return Err(RepairError::Truncated { volume, device });
    }
    Ok(superblock)
}

/// Where copies of this volume's superblock are damaged. A crash can tear those of one pair; the next mount writes them again.
pub(crate) fn damaged_copies<D: Device>(io: &mut DeviceIo<D>, superblock: &Superblock) -> Vec<u64> {
    let mut is_damaged = |offset: u64| {
        !read_copy(io, offset).is_ok_and(|found| found.is_some_and(|found| found.uuid == superblock.uuid))
    };
    copies(superblock.layout.options.capacity).filter(|&offset| is_damaged(offset)).collect()
}

/// Reads the newest superblock that a device has, also of a volume of which it has only a part.
///
/// # Errors
/// See [`RepairError`].
pub(crate) fn newest_superblock<D: Device>(io: &mut DeviceIo<D>) -> Result<Superblock, RepairError> {
    let capacity = io.device().geometry().capacity;
    if capacity.0 < 4 * BLOCK.0 {
        return Err(RepairError::NoVolume);
    }
    let (mut found, mut other): (Vec<(u64, Superblock)>, Option<RepairError>) = (Vec::new(), None);
    let mut offsets: Vec<u64> = copies(capacity).collect();
    let mut at = 0;
    while at < offsets.len() {
        match read_copy(io, offsets[at]) {
            Ok(Some(copy)) => {
                // A volume that is smaller than its device has its last copies before the device's end.
                for own in copies(copy.layout.options.capacity) {
                    if own + BLOCK.0 <= capacity.0 && !offsets.contains(&own) && offsets.len() < OFFSETS_MAX {
                        offsets.push(own);
                    }
                }
                found.push((offsets[at], copy));
            }
            Ok(None) => {}
            // A copy that can be read says more than a damaged one.
            Err(error) if matches!(other, None | Some(RepairError::NoSuperblock)) => other = Some(error),
            Err(_) => {}
        }
        at += 1;
    }
    match of_one_volume(&found)? {
        Some(newest) => Ok(newest),
        None => Err(other.unwrap_or(RepairError::NoVolume)),
    }
}

/// The newest superblock of the volume that has the most copies. Those of another volume came here by mistake, or lie behind the end of a
/// volume that was copied to a larger device.
fn of_one_volume(found: &[(u64, Superblock)]) -> Result<Option<Superblock>, RepairError> {
    let copies = |uuid: VolumeUuid| found.iter().filter(|(_, copy)| copy.uuid == uuid).count();
    let Some((_, first)) = found.iter().max_by_key(|(_, copy)| copies(copy.uuid)) else { return Ok(None) };
    let rival =
        |(_, copy): &&(u64, Superblock)| copy.uuid != first.uuid && copies(copy.uuid) == copies(first.uuid);
    if let Some((offset, copy)) = found.iter().find(rival) {
        return Err(RepairError::Damaged {
            what: "a superblock",
            offset: *offset,
            why: format!(
                "it is that of volume {}, and an equal number of copies are those of volume {}: the device has parts of two volumes; \
                 copy the device before you overwrite the superblocks of the volume that is to be lost",
                copy.uuid, first.uuid
            ),
        });
    }
    let own = found.iter().map(|(_, copy)| copy).filter(|copy| copy.uuid == first.uuid);
    Ok(own.max_by_key(|copy| copy.update).cloned())
}
