//! Scans: every element of a sequence is read once, in order.

use flashlab_base::{Bytes, Mode};

use crate::error::EmError;
use crate::extent::Region;
use crate::machine::Machine;
use crate::record_format::{RecordChecksum, RecordFormat};
use crate::sequence::SequenceReader;

/// Reads the `length` bytes of records of a region, in blocks of `block` with `ahead` of them requested in advance, and
/// returns their checksum. A record may begin in one block and end in a later one. It issues `ceil(length / block)` reads.
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
    // The beginning of the record that the next block ends.
    let mut begun = Vec::new();
    // Where blocks hold whole records they may fill the memory, and no record is begun in one.
    let crossing =
        if block.0.is_multiple_of(format.size() as u64) { Bytes(0) } else { Bytes(format.size() as u64) };
    let _lease = machine.budget().lease(crossing, "a record that crosses blocks")?;
    while let Some(mut block) = reader.next_block(machine)? {
        let mut seen = RecordChecksum::default();
        if !begun.is_empty() {
            let (end, rest) = block.split_at(block.len().min(format.size() - begun.len()));
            begun.extend_from_slice(end);
            block = rest;
            if begun.len() == format.size() {
                seen = RecordChecksum::of(format, &begun);
                begun.clear();
            }
        }
        let (whole, rest) = block.split_at(format.count(block) * format.size());
        begun.extend_from_slice(rest);
        seen = seen.merge(RecordChecksum::of(format, whole));
        checksum = checksum.merge(seen);
        machine.compute(seen.count);
    }
    Ok(checksum)
}
