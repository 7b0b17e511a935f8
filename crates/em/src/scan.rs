//! Scans: every element of a sequence is read once, in order.

use flashlab_base::{Bytes, Mode};

use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;
use crate::record_format::{RecordChecksum, RecordFormat};
use crate::sequence::SequenceReader;

/// Reads the `length` bytes of records of a region, in blocks of `block` with `ahead` of them requested in advance, and
/// returns their checksum. It issues `ceil(length / block)` reads.
///
/// # Errors
/// Those of the IOs, and [`EmError::Memory`].
pub fn scan(
    machine: &mut Machine<'_>,
    format: &RecordFormat,
    region: &Region,
    length: Bytes,
    block: Bytes,
    ahead: usize,
) -> Result<RecordChecksum, EmError> {
    machine.begin_phase("scan");
    let unit = machine.unit();
    machine.ledger_mut().current().planned.add_blocks(Mode::Read, length, block, unit);
    let mut reader = SequenceReader::new(machine, region.clone(), (Bytes(0), length), block, ahead)?;
    let mut checksum = RecordChecksum::default();
    while let Some(block) = reader.next_block(machine)? {
        let seen = RecordChecksum::of(format, block);
        checksum = checksum.merge(seen);
        machine.compute(seen.count);
    }
    Ok(checksum)
}
