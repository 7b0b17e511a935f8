//! MQSim's traces: `NANOSECONDS DEVICE SECTOR SECTORS TYPE`, where type 0 writes and 1 reads.

use flashlab_base::Operation;

use crate::fields::{Expected, next_number, number, sectors, words};
use crate::parsed_line::FoundIo;

pub(crate) const LINE: Expected =
    "NANOSECONDS DEVICE SECTOR SECTORS TYPE, where TYPE is 0 (write) or 1 (read)";

pub(crate) fn is_line(line: &[u8]) -> bool {
    words(line).count() == 5 && words(line).all(|word| number(word).is_some())
}

pub(crate) fn line(line: &[u8]) -> Result<FoundIo<'_>, Expected> {
    let mut words = words(line);
    let arrival = next_number(&mut words, LINE)?;
    let source = words.next().filter(|source| number(source).is_some()).ok_or(LINE)?;
    let (first, count) = (next_number(&mut words, LINE)?, next_number(&mut words, LINE)?);
    let (offset, size) = sectors(first, count, LINE)?;
    let operation = match words.next() {
        Some(b"0") => Operation::Write,
        Some(b"1") => Operation::Read,
        _ => return Err(LINE),
    };
    if words.next().is_some() {
        return Err(LINE);
    }
    Ok(FoundIo { arrival, operation, offset, size, source })
}
