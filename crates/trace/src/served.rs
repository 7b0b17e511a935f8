//! Traces with response times: what each IO took, and not only when it arrived.
//!
//! # Model
//! - MSR's lines have a response time.
//! - blkparse's text has an action for each step: an IO arrives when it is queued (`Q`), or issued (`D`) if the trace has no `Q` of it, and
//!   ends when its device completes (`C`) all of its sectors. The kernel merges and splits IOs in between, so that an action's range may be
//!   that of several IOs or a part of one.
//!
//! # Invariants
//! - IOs that wait for their end are at most [`PENDING_MOST`]: a trace that lost its completions does not fill the memory.

use std::collections::BTreeMap;
use std::io::BufRead;

use flashlab_base::{Bytes, Nanos, Operation};

use crate::blkparse::{Asked, Record, asked};
use crate::fields::{Expected, words};
use crate::format::Format;
use crate::parse::{Lines, Sources, shown};
use crate::parsed_line::LineContent;
use crate::{TraceError, blkparse, msr};

/// IOs in flight, of all devices together: thousands of times the deepest queue of a disk.
const PENDING_MOST: usize = 1 << 20;

/// An IO and how it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedIo {
    /// When it arrived, on the clock of the trace.
    pub arrival: Nanos,
    /// When it was issued to the device.
    pub submitted: Nanos,
    /// When it was completed.
    pub completed: Nanos,
    /// What was asked.
    pub operation: Operation,
    /// Its offset.
    pub offset: Bytes,
    /// Its size.
    pub size: Bytes,
    /// The index of its source in [`ServedTrace::sources`].
    pub source: u32,
    /// 0, or the error number.
    pub errno: i32,
}

/// What a trace was, besides its IOs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedTrace {
    /// Its format.
    pub format: Format,
    /// The names of the devices.
    pub sources: Vec<String>,
    /// IOs that are left out, by what they are: how many.
    pub left_out: BTreeMap<String, u64>,
}

/// Reads a trace with response times; `file` is its name in messages. Passes each IO to `see` in the order of the completions.
///
/// # Errors
/// At the first line that does not fit the format, or if the format has no response times; or what `see` returns.
pub fn parse_served<E: From<TraceError>>(
    text: impl BufRead,
    file: &str,
    mut see: impl FnMut(&ServedIo) -> Result<(), E>,
) -> Result<ServedTrace, E> {
    let mut lines = Lines::new(text, file);
    let mut format = None;
    let mut actions = Actions::default();
    let mut sources = Sources::default();
    while let Some((number, line)) = lines.next()? {
        if format.is_none() && blkparse::is_preamble(line) {
            continue;
        }
        let refused = |expected: Expected| TraceError::Line {
            file: file.to_owned(),
            line: number,
            expected,
            found: shown(line),
        };
        let format = match format {
            Some(format) => format,
            None => {
                let unknown =
                    || TraceError::UnknownFormat { file: file.to_owned(), line: number, found: shown(line) };
                *format.insert(Format::recognised(line).ok_or_else(unknown)?)
            }
        };
        match format {
            Format::Blkparse => match actions.line(line, &mut sources, &mut see) {
                Ok(Step::Continue) => {}
                Ok(Step::End) => break,
                Err(Refusal::Line(expected)) => return Err(refused(expected).into()),
                Err(Refusal::Seen(error)) => return Err(error),
            },
            Format::Msr => {
                if let (LineContent::Io(found), response) = msr::served_line(line).map_err(refused)? {
                    let arrival = Nanos(found.arrival);
                    see(&ServedIo {
                        arrival,
                        submitted: arrival,
                        completed: Nanos(found.arrival.saturating_add(response)),
                        operation: found.operation,
                        offset: found.offset,
                        size: found.size,
                        source: sources.number(found.source),
                        errno: 0,
                    })?;
                }
            }
            Format::Fio | Format::Mqsim => {
                return Err(TraceError::NoResponses { file: file.to_owned(), format: format.name() }.into());
            }
        }
    }
    let Some(format) = format else { return Err(TraceError::Empty { file: file.to_owned() }.into()) };
    let mut left_out = actions.left_out;
    let pending: u64 = actions.devices.values().map(|device| device.count() as u64).sum();
    if actions.lost + pending > 0 {
        left_out.insert("IOs whose completion is not in the trace".to_owned(), actions.lost + pending);
    }
    Ok(ServedTrace { format, sources: sources.names, left_out })
}

/// Whether the trace goes on behind a line.
enum Step {
    Continue,
    End,
}

/// Why a line ends the reading.
enum Refusal<E> {
    Line(Expected),
    Seen(E),
}

/// The IOs of blkparse's text that wait for their completion.
#[derive(Default)]
struct Actions {
    has_begun: bool,
    devices: BTreeMap<u32, PendingIos>,
    left_out: BTreeMap<String, u64>,
    lost: u64,
}

impl Actions {
    fn line<E>(
        &mut self,
        line: &[u8],
        sources: &mut Sources,
        see: &mut impl FnMut(&ServedIo) -> Result<(), E>,
    ) -> Result<Step, Refusal<E>> {
        let mut words = words(line);
        let Some(record) = Record::read(&mut words) else {
            // The summary follows the trace.
            let is_end = self.has_begun && (line.starts_with(b"CPU") || line.starts_with(b"Total"));
            return if is_end { Ok(Step::End) } else { Err(Refusal::Line(blkparse::LINE)) };
        };
        self.has_begun = true;
        if !matches!(record.action, b"Q" | b"D" | b"C") {
            return Ok(Step::Continue);
        }
        let rwbs = words.next().ok_or(Refusal::Line(blkparse::LINE))?;
        let (operation, (offset, size)) = match asked(rwbs, &mut words).map_err(Refusal::Line)? {
            Asked::Io(operation, range) => (operation, range),
            Asked::Other(name) => {
                // Once for each, whatever actions the trace was filtered for.
                if record.action == b"C" {
                    *self.left_out.entry(name).or_default() += 1;
                }
                return Ok(Step::Continue);
            }
        };
        if size == Bytes::ZERO {
            return Ok(Step::Continue);
        }
        let source = sources.number(record.device);
        let device = self.devices.entry(source).or_default();
        let time = Nanos(record.time);
        let asked = AskedRange { operation, start: offset.0, end: offset.0.saturating_add(size.0) };
        match record.action {
            b"Q" => device.add(asked, time, None),
            b"D" => device.issue(asked, time),
            _ => {
                let errno = error_number(words.next());
                for (io, pending) in device.complete(asked) {
                    see(&ServedIo {
                        arrival: pending.arrival,
                        submitted: pending.submitted.unwrap_or(pending.arrival),
                        completed: time,
                        operation: io.operation,
                        offset: Bytes(io.start),
                        size: Bytes(io.end - io.start),
                        source,
                        errno,
                    })
                    .map_err(Refusal::Seen)?;
                }
            }
        }
        if self.devices.values().map(PendingIos::count).sum::<usize>() > PENDING_MOST {
            let lost: usize = self.devices.values().map(PendingIos::count).sum();
            self.lost += lost as u64;
            self.devices.clear();
        }
        Ok(Step::Continue)
    }
}

/// The number behind a completion: `[0]`, or `[-5]` for an error.
fn error_number(word: Option<&[u8]>) -> i32 {
    let text = word.and_then(|word| std::str::from_utf8(word).ok());
    let number = text.and_then(|text| text.strip_prefix('[')?.strip_suffix(']')?.parse::<i32>().ok());
    number.map_or(0, i32::saturating_abs)
}

/// What an action is about.
#[derive(Clone, Copy, PartialEq, Eq)]
struct AskedRange {
    operation: Operation,
    start: u64,
    end: u64,
}

/// An IO that waits for its completion.
#[derive(Clone, Copy)]
struct PendingIo {
    arrival: Nanos,
    submitted: Option<Nanos>,
    /// Bytes that are not completed.
    left: u64,
}

/// The IOs of a device that wait, by their begin and the order in which they came.
#[derive(Default)]
struct PendingIos {
    ios: BTreeMap<(u64, u64), (AskedRange, PendingIo)>,
    added: u64,
    size_most: u64,
}

impl PendingIos {
    fn count(&self) -> usize {
        self.ios.len()
    }

    fn add(&mut self, asked: AskedRange, arrival: Nanos, submitted: Option<Nanos>) {
        let size = asked.end - asked.start;
        self.size_most = self.size_most.max(size);
        self.ios.insert((asked.start, self.added), (asked, PendingIo { arrival, submitted, left: size }));
        self.added += 1;
    }

    /// The IOs that an action is about: the first of exactly its range, or all that have a part of it.
    fn about(&self, asked: AskedRange) -> Vec<(u64, u64)> {
        let from = asked.start.saturating_sub(self.size_most);
        let near = self.ios.range((from, 0)..(asked.end, 0));
        let mut overlapping = Vec::new();
        for (&key, (own, _)) in near {
            if *own == asked {
                return vec![key];
            }
            if own.operation == asked.operation && own.start < asked.end && asked.start < own.end {
                overlapping.push(key);
            }
        }
        overlapping
    }

    fn issue(&mut self, asked: AskedRange, time: Nanos) {
        let about = self.about(asked);
        if about.is_empty() {
            // The trace was filtered, or begins after it was queued.
            self.add(asked, time, Some(time));
        }
        for key in about {
            if let Some((_, pending)) = self.ios.get_mut(&key) {
                pending.submitted.get_or_insert(time);
            }
        }
    }

    /// The IOs that end with this completion.
    fn complete(&mut self, asked: AskedRange) -> Vec<(AskedRange, PendingIo)> {
        let mut ended = Vec::new();
        for key in self.about(asked) {
            let Some((own, pending)) = self.ios.get_mut(&key) else { continue };
            let covered = own.end.min(asked.end) - own.start.max(asked.start);
            pending.left = pending.left.saturating_sub(covered);
            if pending.left == 0 {
                ended.extend(self.ios.remove(&key));
            }
        }
        ended
    }
}
