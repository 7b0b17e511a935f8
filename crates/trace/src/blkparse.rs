//! blkparse's text in its default format: `MAJOR,MINOR CPU SEQUENCE SECONDS PID ACTION RWBS SECTOR + SECTORS [COMMAND]`.
//!
//! # Model
//! An IO appears in the trace with several actions. It arrives when it is queued (`Q`). If a device
//! was filtered and has no `Q`, its IOs arrive when they are issued to it (`D`). Other actions, messages, the
//! names of the files before the trace, and the summary after it are ignored. A write with a flush counts as
//! the write, and a zone append or a write of zeroes as a write. What is none of ours is left out and counted.

use std::collections::{BTreeMap, BTreeSet};

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
    /// What is left out, by its name: how often it was issued, and how often queued.
    left_out: BTreeMap<String, [u64; 2]>,
}

/// Whether this line can be the first one.
pub(crate) fn is_line(line: &[u8]) -> bool {
    Record::of(line).is_some()
}

/// The fields that all actions have in common.
pub(crate) struct Record<'a> {
    pub device: &'a [u8],
    pub time: u64,
    pub action: &'a [u8],
}

impl<'a> Record<'a> {
    fn of(line: &'a [u8]) -> Option<Record<'a>> {
        Record::read(&mut words(line))
    }

    pub fn read(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<Record<'a>> {
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
            if is_preamble(line) && !self.has_begun {
                return Ok(LineContent::Nothing);
            }
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
        let (operation, (offset, size)) = match asked(rwbs, &mut words)? {
            Asked::Io(operation, range) => (operation, range),
            Asked::Other(name) => {
                self.left_out.entry(name).or_default()[usize::from(is_queued)] += 1;
                return Ok(LineContent::Nothing);
            }
        };
        if is_queued {
            self.queued.push(self.ios);
        }
        self.ios += 1;
        Ok(LineContent::Io(FoundIo { arrival: record.time, operation, offset, size, source: record.device }))
    }

    /// What arrived and is left out, once for each arrival.
    pub(crate) fn left_out(&self) -> BTreeMap<String, u64> {
        let arrivals = |(name, [issued, queued]): (&String, &[u64; 2])| (name.clone(), *issued.max(queued));
        self.left_out.iter().map(arrivals).collect()
    }

    /// Keeps one arrival of each IO: of a device that has queued IOs, removes those that were issued. Each device was filtered on its own.
    pub(crate) fn keep_arrivals(&self, ios: &mut Vec<TraceIo>) {
        let is_queued = |place: usize| self.queued.binary_search(&place).is_ok();
        let of_queued = self.queued.iter().filter_map(|&place| ios.get(place).map(|io| io.source));
        let sources: BTreeSet<u32> = of_queued.collect();
        let mut place = 0;
        ios.retain(|io| {
            place += 1;
            !sources.contains(&io.source) || is_queued(place - 1)
        });
    }
}

/// Whether this line says which file blkparse reads, as `Input file sda.blktrace.0 added`.
pub(crate) fn is_preamble(line: &[u8]) -> bool {
    line.starts_with(b"Input file ") && line.ends_with(b" added")
}

/// What the letters of an IO mean.
enum Meaning {
    /// An operation with a range; a flush may come before it.
    Operation(Operation, HasFlush),
    /// A flush without data.
    Flush,
    /// Something that no device model serves, by its name.
    LeftOut(&'static str),
}

type HasFlush = bool;

/// The letters by their position, as the kernel writes them (`blk_fill_rwbs`, kernel/trace/blktrace.c, Linux 2.6.18 to 6.19):
/// `F` for a flush before it, the operation in one or two letters, then flags.
fn meaning(letters: &[u8]) -> Result<Meaning, String> {
    let unknown = || format!("the RWBS `{}`", String::from_utf8_lossy(letters));
    let (has_flush, after) = match letters {
        [b'F', after @ ..] => (true, after),
        _ => (false, letters),
    };
    let (meaning, flags) = match after {
        // The operation is the flush itself.
        [b'F' | b'N', flags @ ..] if has_flush => (Meaning::Flush, flags),
        [b'Z', b'A', flags @ ..] => (Meaning::Operation(Operation::Write, has_flush), flags),
        [b'Z', b'R', b'A', flags @ ..] | [b'Z', b'R', flags @ ..] => {
            (Meaning::LeftOut("zone resets (ZR)"), flags)
        }
        [b'Z', b'F', flags @ ..] => (Meaning::LeftOut("zone finishes (ZF)"), flags),
        [b'Z', b'O', flags @ ..] => (Meaning::LeftOut("zone opens (ZO)"), flags),
        [b'Z', b'C', flags @ ..] => (Meaning::LeftOut("zone closes (ZC)"), flags),
        // Zeroes are written.
        [b'W', b'Z', flags @ ..] | [b'W', flags @ ..] => {
            (Meaning::Operation(Operation::Write, has_flush), flags)
        }
        // A secure erase discards, too.
        [b'D', b'E', flags @ ..] | [b'D', flags @ ..] => {
            (Meaning::Operation(Operation::Discard, has_flush), flags)
        }
        [b'R', flags @ ..] => (Meaning::Operation(Operation::Read, has_flush), flags),
        [b'N', flags @ ..] => (Meaning::LeftOut("commands without data (N)"), flags),
        flags if has_flush => (Meaning::Flush, flags),
        _ => return Err(unknown()),
    };
    // Forced unit access, ahead, barrier (before 2.6.37), sync, metadata, atomic.
    match flags.iter().all(|flag| b"FABSMU".contains(flag)) {
        true => Ok(meaning),
        false => Err(unknown()),
    }
}

/// What a line asked of the device: an operation and its range, or the name of something else.
pub(crate) enum Asked {
    Io(Operation, (Bytes, Bytes)),
    Other(String),
}

/// What these letters and the words behind them ask.
pub(crate) fn asked<'a>(rwbs: &[u8], words: &mut impl Iterator<Item = &'a [u8]>) -> Result<Asked, Expected> {
    let (operation, has_flush) = match meaning(rwbs) {
        Ok(Meaning::Operation(operation, has_flush)) => (operation, has_flush),
        Ok(Meaning::Flush) => return Ok(FLUSH),
        Ok(Meaning::LeftOut(name)) => return Ok(Asked::Other(name.to_owned())),
        Err(unknown) => return Ok(Asked::Other(unknown)),
    };
    let Some(first) = words.next().and_then(number) else {
        // A flush alone has no range: `FWS [kworker]`.
        return if has_flush { Ok(FLUSH) } else { Err(RANGE) };
    };
    match words.next() {
        Some(b"+") => {}
        // A command to the drive: its bytes, then `(12 00 ...)`.
        Some(word) if word.starts_with(b"(") => return Ok(Asked::Other("commands to the drive".to_owned())),
        _ => return Err(RANGE),
    }
    match next_number(words, RANGE)? {
        0 if has_flush => Ok(FLUSH),
        count => Ok(Asked::Io(operation, sectors(first, count, RANGE)?)),
    }
}

const FLUSH: Asked = Asked::Io(Operation::Flush, (Bytes::ZERO, Bytes::ZERO));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_by_their_position() {
        let shown = |letters: &str| match meaning(letters.as_bytes()) {
            Ok(Meaning::Operation(operation, has_flush)) => {
                format!("{operation}{}", if has_flush { " +flush" } else { "" })
            }
            Ok(Meaning::Flush) => "flush".to_owned(),
            Ok(Meaning::LeftOut(name)) => name.to_owned(),
            Err(unknown) => unknown,
        };
        let rows = [
            ("R", "read"),
            ("RA", "read"),
            ("RSM", "read"),
            ("RAM", "read"),
            ("W", "write"),
            ("WS", "write"),
            ("WFS", "write"),
            ("FWFS", "write +flush"),
            ("FWS", "write +flush"),
            ("WSM", "write"),
            ("WBS", "write"),
            ("WZS", "write"),
            ("WZFS", "write"),
            ("D", "discard"),
            ("DS", "discard"),
            ("DE", "discard"),
            ("F", "flush"),
            ("FF", "flush"),
            ("FN", "flush"),
            ("FS", "flush"),
            ("ZA", "write"),
            ("ZAS", "write"),
            ("ZAFS", "write"),
            ("ZR", "zone resets (ZR)"),
            ("ZRA", "zone resets (ZR)"),
            ("ZF", "zone finishes (ZF)"),
            ("ZO", "zone opens (ZO)"),
            ("ZC", "zone closes (ZC)"),
            ("N", "commands without data (N)"),
            ("WSU", "write"),
            ("X", "the RWBS `X`"),
            ("ZQ", "the RWBS `ZQ`"),
            ("RX", "the RWBS `RX`"),
        ];
        for (letters, expected) in rows {
            assert_eq!(shown(letters), expected, "{letters}");
        }
    }
}
