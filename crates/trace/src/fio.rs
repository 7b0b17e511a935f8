//! Parses fio's IO logs: those that `write_iolog` writes (version 3 since fio 3.31) and `read_iolog` reads.
//!
//! # Model
//! Version 2 has lines `FILE ACTION [OFFSET LENGTH]`. Time passes only in `wait` lines, whose offset is in
//! microseconds and counts from the `wait` before, as fio's manual says. In version 3, each line begins with the
//! microseconds since the start, and there is no `wait`. Opening and closing a file takes no time in either.
//!
//! Jobs that name one file each append a header and their lines to it. They began together: the times of each count from the
//! same start, and their IOs are merged by time.

use flashlab_base::{Bytes, Operation};

use crate::fields::{Expected, next_number, range, words};
use crate::parsed_line::{FoundIo, LineContent};

pub(crate) const HEADER: Expected = "`fio version 2 iolog` or `fio version 3 iolog`";
const ONE_VERSION: Expected = "the version of the header before, because the jobs of one file ran together";
const LINE_2: Expected = "FILE ACTION [OFFSET LENGTH]";
const LINE_3: Expected = "MICROSECONDS FILE ACTION [OFFSET LENGTH]";
const ACTION_2: Expected =
    "an action of fio version 2: add, open, close, wait, read, write, trim, sync or datasync";
const ACTION_3: Expected =
    "an action of fio version 3: add, open, close, read, write, trim, sync or datasync";
const RANGE: Expected = "an offset and a length above 0, in bytes, that end within 64 bits";
const WAIT: Expected = "the microseconds of the wait, that end within 64 bits of nanoseconds";

/// The state of parsing a log.
#[derive(Default)]
pub(crate) struct Fio {
    /// Not known before the first line.
    version: Option<Version>,
    /// The sum of all waits so far, in nanoseconds.
    waited: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

impl Version {
    fn of(header: &[u8]) -> Result<Version, Expected> {
        match header {
            b"fio version 2 iolog" => Ok(Version::Two),
            b"fio version 3 iolog" => Ok(Version::Three),
            _ => Err(HEADER),
        }
    }
}

impl Fio {
    pub(crate) fn line<'a>(&mut self, line: &'a [u8]) -> Result<LineContent<'a>, Expected> {
        let version = match (self.version, line.starts_with(b"fio version ")) {
            (Some(version), false) => version,
            (before, _) => {
                let version = Version::of(line)?;
                if before.is_some_and(|before| before != version) {
                    return Err(ONE_VERSION);
                }
                (self.version, self.waited) = (Some(version), 0);
                return Ok(LineContent::Nothing);
            }
        };
        let mut words = words(line);
        let (arrival, expected, actions) = match version {
            Version::Two => (self.waited, LINE_2, ACTION_2),
            Version::Three => (nanos(next_number(&mut words, LINE_3)?)?, LINE_3, ACTION_3),
        };
        let (Some(source), Some(action)) = (words.next(), words.next()) else { return Err(expected) };
        let operation = match action {
            b"add" | b"open" | b"close" => return Ok(LineContent::Nothing),
            b"wait" if version == Version::Two => {
                let wait = nanos(next_number(&mut words, WAIT)?)?;
                self.waited = self.waited.checked_add(wait).ok_or(WAIT)?;
                return Ok(LineContent::Nothing);
            }
            b"read" => Operation::Read,
            b"write" => Operation::Write,
            b"trim" => Operation::Discard,
            b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" => Operation::Flush,
            _ => return Err(actions),
        };
        let (offset, size) = match operation {
            Operation::Flush => (Bytes::ZERO, Bytes::ZERO),
            _ => range(next_number(&mut words, RANGE)?, next_number(&mut words, RANGE)?, RANGE)?,
        };
        Ok(LineContent::Io(FoundIo { arrival, operation, offset, size, source }))
    }
}

fn nanos(micros: u64) -> Result<u64, Expected> {
    micros.checked_mul(1000).ok_or(WAIT)
}
