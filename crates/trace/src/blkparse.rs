//! blkparse's text in its default format: `MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS [COMMAND]`.
//!
//! # Model
//! An IO appears in the trace with several actions. It arrives when it is queued (`Q`). If the trace was
//! filtered and has no `Q`, it arrives when it is issued to the device (`D`). Other actions, messages, and
//! the summary after the trace are ignored. A write with a flush counts as the write.

use flashlab_base::{Bytes, Operation};

use crate::TraceIo;
use crate::fields::{Expected, next_number, number, sectors, words};
use crate::parsed_line::{FoundIo, LineContent};

pub(crate) const LINE: Expected =
    "MAJOR,MINOR CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS SECTOR + SECTORS [COMMAND]";
const RANGE: Expected = "SECTOR + SECTORS after the RWBS, in sectors of 512 bytes that end within 64 bits";

/// Which lines had which action.
#[derive(Default)]
pub(crate) struct Blkparse {
    /// How many IOs were seen.
    ios: usize,
    /// Indices of the queued ones among them.
    queued: Vec<usize>,
    has_begun: bool,
}

/// Whether this line can be the first one.
pub(crate) fn is_line(line: &[u8]) -> bool {
    Record::of(line).is_some()
}

/// The fields that all actions have in common.
struct Record<'a> {
    device: &'a [u8],
    time: u64,
    action: &'a [u8],
}

impl<'a> Record<'a> {
    fn of(line: &'a [u8]) -> Option<Record<'a>> {
        Record::read(&mut words(line))
    }

    fn read(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<Record<'a>> {
        let device = words.next()?;
        let comma = device.iter().position(|&byte| byte == b',')?;
        number(&device[..comma]).and(number(&device[comma + 1..]))?;
        number(words.next()?).and(number(words.next()?))?;
        let time = seconds(words.next()?)?;
        number(words.next()?)?;
        let action = words.next().filter(|action| action.iter().all(u8::is_ascii_alphabetic))?;
        Some(Record { device, time, action })
    }
}

/// Seconds with up to nine decimals, as nanoseconds.
fn seconds(word: &[u8]) -> Option<u64> {
    let point = word.iter().position(|&byte| byte == b'.')?;
    let (whole, decimals) = (number(&word[..point])?, &word[point + 1..]);
    let unit = 10_u64.checked_pow(9_u32.checked_sub(decimals.len() as u32)?)?;
    whole.checked_mul(1_000_000_000)?.checked_add(number(decimals)? * unit)
}

impl Blkparse {
    pub(crate) fn line<'a>(&mut self, line: &'a [u8]) -> Result<LineContent<'a>, Expected> {
        let mut words = words(line);
        let Some(record) = Record::read(&mut words) else {
            // The summary after the trace: `CPU0 (8,0):`, or `Total (8,0):`.
            let is_summary = self.has_begun && (line.starts_with(b"CPU") || line.starts_with(b"Total"));
            return if is_summary { Ok(LineContent::End) } else { Err(LINE) };
        };
        self.has_begun = true;
        let is_queued = record.action == b"Q";
        if !is_queued && record.action != b"D" {
            return Ok(LineContent::Nothing);
        }
        let rwbs = words.next().ok_or(LINE)?;
        let Some((operation, (offset, size))) = asked(rwbs, &mut words)? else {
            return Ok(LineContent::Nothing);
        };
        if is_queued {
            self.queued.push(self.ios);
        }
        self.ios += 1;
        Ok(LineContent::Io(FoundIo { arrival: record.time, operation, offset, size, source: record.device }))
    }

    /// Keeps one arrival of each IO: removes those whose IO had already arrived with another action.
    pub(crate) fn keep_arrivals(&self, ios: &mut Vec<TraceIo>) {
        if !self.queued.is_empty() {
            *ios = self.queued.iter().filter_map(|&place| ios.get(place).copied()).collect();
        }
    }
}

/// An operation and its range.
type Asked = (Operation, (Bytes, Bytes));

/// The operation that these letters mean. `None` for an IO that does not concern the flash, such as a command
/// to the drive.
fn asked<'a>(rwbs: &[u8], words: &mut impl Iterator<Item = &'a [u8]>) -> Result<Option<Asked>, Expected> {
    let has = |letter: u8| rwbs.contains(&letter);
    let operation = match () {
        () if has(b'D') => Operation::Discard,
        () if has(b'R') => Operation::Read,
        () if has(b'W') => Operation::Write,
        () if has(b'F') => return Ok(Some(FLUSH)),
        () => return Ok(None),
    };
    let Some(first) = words.next().and_then(number) else {
        // A flush alone has no range: `FWS [kworker]`.
        return if has(b'F') { Ok(Some(FLUSH)) } else { Err(RANGE) };
    };
    match words.next() {
        Some(b"+") => {}
        // A command to the drive: its bytes, then `(12 00 ...)`.
        Some(word) if word.starts_with(b"(") => return Ok(None),
        _ => return Err(RANGE),
    }
    match next_number(words, RANGE)? {
        0 if has(b'F') => Ok(Some(FLUSH)),
        count => Ok(Some((operation, sectors(first, count, RANGE)?))),
    }
}

const FLUSH: Asked = (Operation::Flush, (Bytes::ZERO, Bytes::ZERO));
