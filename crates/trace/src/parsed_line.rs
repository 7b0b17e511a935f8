//! The content of one line of a trace.

use flashlab_base::{Bytes, Operation};

/// An IO that a format's parser found in a line.
pub(crate) struct FoundIo<'a> {
    /// Nanoseconds from any origin.
    pub arrival: u64,
    pub operation: Operation,
    pub offset: Bytes,
    pub size: Bytes,
    pub source: &'a [u8],
}

/// The meaning of a line: an IO, something to ignore, or the end of the trace.
pub(crate) enum LineContent<'a> {
    Io(FoundIo<'a>),
    Nothing,
    End,
}
