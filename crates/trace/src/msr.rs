//! The traces of Microsoft Research Cambridge: CSV with the columns Timestamp, Hostname, DiskNumber, Type, Offset, Size
//! and ResponseTime. Times are in units of 100 ns since 1601, offsets and sizes in bytes. (Narayanan, Donnelly and
//! Rowstron, "Write Off-Loading: Practical Power Management for Enterprise Storage", FAST 2008.)

use flashlab_base::Operation;

use crate::fields::{Expected, number, range};
use crate::parsed_line::{FoundIo, LineContent};

pub(crate) const LINE: Expected = "TIMESTAMP,HOST,DISK,Read or Write,OFFSET,SIZE,RESPONSETIME";
/// Nanoseconds of a unit of time.
const TICK: u64 = 100;
/// 2000-01-01 as a timestamp. Counting from there, nanoseconds fit into 64 bits until the year 2584.
const ORIGIN: u64 = 125_911_584_000_000_000;

pub(crate) fn is_line(line: &[u8]) -> bool {
    is_header(line) || self::line(line).is_ok()
}

fn is_header(line: &[u8]) -> bool {
    line.to_ascii_lowercase().starts_with(b"timestamp,")
}

pub(crate) fn line(line: &[u8]) -> Result<LineContent<'_>, Expected> {
    served_line(line).map(|(content, _)| content)
}

/// As [`line()`], with the response time in nanoseconds.
pub(crate) fn served_line(line: &[u8]) -> Result<(LineContent<'_>, u64), Expected> {
    let comma = line.iter().position(|&byte| byte == b',').ok_or(LINE)?;
    let Some(time) = number(&line[..comma]) else {
        return if is_header(line) { Ok((LineContent::Nothing, 0)) } else { Err(LINE) };
    };
    let rest = &line[comma + 1..];
    let mut fields = rest.split(|&byte| byte == b',');
    let mut next = || fields.next().ok_or(LINE);
    let (host, disk) = (next()?, next()?);
    if host.is_empty() || number(disk).is_none() {
        return Err(LINE);
    }
    // The columns are next to each other.
    let source = &rest[..host.len() + 1 + disk.len()];
    let operation = match next()? {
        kind if kind.eq_ignore_ascii_case(b"read") => Operation::Read,
        kind if kind.eq_ignore_ascii_case(b"write") => Operation::Write,
        _ => return Err(LINE),
    };
    let mut next_number = || next().and_then(|field| number(field).ok_or(LINE));
    let (offset, size, response) = (next_number()?, next_number()?, next_number()?);
    let (offset, size) = range(offset, size, LINE)?;
    // Shortened traces may count from another origin.
    let arrival = time.checked_sub(ORIGIN).unwrap_or(time).checked_mul(TICK).ok_or(LINE)?;
    let io = FoundIo { arrival, operation, offset, size, source };
    Ok((LineContent::Io(io), response.saturating_mul(TICK)))
}
