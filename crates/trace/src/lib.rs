//! Recorded IOs of other programs: what arrived when, and where.
//!
//! # Model
//! [`parse()`] reads a text line by line, in one of four formats that it recognises by their first line, into a
//! [`Trace`]: IOs in the order of their arrival, the first one at time zero. [`Trace::fit`] makes them IOs that a
//! device of some size and block can serve. Response times that a trace carries are not looked at: it is replayed to
//! find out what they are elsewhere.
//!
//! # Invariants
//! - a parsed trace is ordered by arrival, and lines of the same time stay in their order;
//! - whatever the bytes are, the answer is a trace or an error that names the file, the line and what was expected;
//! - nothing is allocated for a line but the IO itself, and a line has at most 64 KiB.

mod blkparse;
mod error;
mod fields;
mod fio;
mod fit;
mod format;
mod mqsim;
mod msr;
mod parse;
mod parsed_line;

pub use error::TraceError;
pub use fit::{Fit, Fitted, TraceMisfit};
pub use format::Format;
pub use parse::parse;

use flashlab_base::{Bytes, Nanos, Operation};

/// One recorded IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceIo {
    /// When it arrived, since the first one did.
    pub arrival: Nanos,
    /// What was asked.
    pub operation: Operation,
    /// Where it started; zero for a flush.
    pub offset: Bytes,
    /// How long it was; zero for a flush.
    pub size: Bytes,
    /// From which of [`Trace::sources`] it came.
    pub source: u32,
    /// The line that it stands in, from 1.
    pub line: u64,
}

impl TraceIo {
    /// The first offset behind it, saturating.
    pub fn end(&self) -> Bytes {
        Bytes(self.offset.0.saturating_add(self.size.0))
    }
}

/// Recorded IOs in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The IOs.
    pub ios: Vec<TraceIo>,
    /// The devices, files or processes that the IOs were of, by their names in the trace.
    pub sources: Vec<String>,
}

impl Trace {
    /// A trace of IOs that came in any order, at times that count from anywhere.
    pub fn new(mut ios: Vec<TraceIo>, sources: Vec<String>) -> Trace {
        ios.sort_by_key(|io| io.arrival);
        let begin = ios.first().map_or(Nanos::ZERO, |io| io.arrival);
        for io in &mut ios {
            io.arrival = io.arrival.since(begin);
        }
        Trace { ios, sources }
    }

    /// The part of the trace that came from one source; `None` when there is none of this name.
    pub fn of_source(mut self, name: &str) -> Option<Trace> {
        let wanted = self.sources.iter().position(|source| source == name)? as u32;
        self.ios.retain(|io| io.source == wanted);
        Some(Trace::new(self.ios, self.sources))
    }

    /// The first offset behind all IOs.
    pub fn extent(&self) -> Bytes {
        self.ios.iter().map(TraceIo::end).max().unwrap_or_default()
    }
}
