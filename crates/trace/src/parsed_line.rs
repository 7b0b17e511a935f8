//! What one line of a trace says.

use flashlab_base::{Bytes, Operation};

/// An IO as a format's parser finds it in a line.
pub(crate) struct Found<'a> {
    /// Nanoseconds from any origin.
    pub arrival: u64,
    pub operation: Operation,
    pub offset: Bytes,
    pub size: Bytes,
    pub source: &'a [u8],
}

/// What a line says: an IO, something else, or that the trace ends before it.
pub(crate) enum Said<'a> {
    Io(Found<'a>),
    Nothing,
    End,
}
