//! Reads traces: IOs that other programs recorded, with arrival time and offset.
//!
//! # Model
//! 1. [`parse()`] reads a text line by line into a [`Trace`]. It recognises four formats by their first line.
//!    The IOs are in the order of their arrival; the first arrives at time zero.
//! 2. [`Trace::fit`] changes them so that a device of a given size and block can serve them.
//!
//! Response times in a trace are ignored: the replay measures those of another device. [`parse_served`] reads them, to look at them, and
//! [`parse_log`] those of fio's logs.
//!
//! # Invariants
//! - A parsed trace is ordered by arrival. Lines with the same time keep their order.
//! - The result is a trace, or an error with the file, the line and what was expected. No bytes cause a
//!   panic.
//! - Parsing a line allocates only the IO itself. A line has at most 64 KiB.

mod blkparse;
mod error;
mod fields;
mod fio;
mod fio_log;
mod fit;
mod format;
mod mqsim;
mod msr;
mod parse;
mod parsed_line;
mod served;

pub use error::TraceError;
pub use fio_log::{LogColumns, LogLine, parse_log};
pub use fit::{Fit, Fitted, TraceMisfit};
pub use format::Format;
pub use parse::parse;
pub use served::{ServedIo, ServedTrace, parse_served};

use std::collections::BTreeMap;

use flashlab_base::{Bytes, Nanos, Operation};

/// One recorded IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceIo {
    /// When it arrived, counted from the first IO.
    pub arrival: Nanos,
    /// What was asked.
    pub operation: Operation,
    /// Its offset; zero for a flush.
    pub offset: Bytes,
    /// Its size; zero for a flush.
    pub size: Bytes,
    /// The index of its source in [`Trace::sources`].
    pub source: u32,
    /// Its line in the file, from 1.
    pub line: u64,
}

impl TraceIo {
    /// The first offset after it, saturating.
    pub fn end(&self) -> Bytes {
        Bytes(self.offset.0.saturating_add(self.size.0))
    }
}

/// Recorded IOs in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The IOs.
    pub ios: Vec<TraceIo>,
    /// The names of the devices, files or processes that issued the IOs.
    pub sources: Vec<String>,
    /// What arrived at the device and is no read, write, flush or discard: its name, and how often it arrived.
    pub left_out: BTreeMap<String, u64>,
}

impl Trace {
    /// A trace from IOs in any order, whose times have any origin.
    pub fn new(mut ios: Vec<TraceIo>, sources: Vec<String>) -> Trace {
        ios.sort_by_key(|io| io.arrival);
        let begin = ios.first().map_or(Nanos::ZERO, |io| io.arrival);
        for io in &mut ios {
            io.arrival = io.arrival.since(begin);
        }
        Trace { ios, sources, left_out: BTreeMap::new() }
    }

    /// The part of the trace from one source; `None` if there is no source of this name.
    pub fn of_source(mut self, name: &str) -> Option<Trace> {
        let wanted = self.sources.iter().position(|source| source == name)? as u32;
        self.ios.retain(|io| io.source == wanted);
        Some(Trace { left_out: self.left_out, ..Trace::new(self.ios, self.sources) })
    }

    /// The first offset after all IOs.
    pub fn extent(&self) -> Bytes {
        self.ios.iter().map(TraceIo::end).max().unwrap_or_default()
    }
}
