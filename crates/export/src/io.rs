//! An IO that a transport passes to a live disk, and the answer that the transport sends when it is due.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};

/// The data of an IO.
pub enum Data<'a> {
    /// The buffer that a read fills.
    Read(&'a mut [u8]),
    /// The bytes that a write stores.
    Write(&'a [u8]),
    /// Discards and flushes carry none.
    Nothing,
}

/// An IO that a transport received from a program.
pub struct Io<'a> {
    /// The operation; writing zeroes is a discard.
    pub operation: Operation,
    /// The start of its range.
    pub offset: Bytes,
    /// The length of its range.
    pub size: Bytes,
    /// Whether it must be durable when it is answered (FUA).
    pub durable: bool,
    /// Its data, of the same length as the range.
    pub data: Data<'a>,
}

/// An answer that waits for its due time.
#[derive(Clone, Copy, Debug)]
pub struct PendingAnswer {
    /// When the transport sends it, by the clock of the disk.
    pub due: Nanos,
    /// The result, unless the power fails before it is sent.
    pub result: Result<(), IoError>,
    /// The number of power losses before the IO began.
    pub(crate) power_losses: u64,
    pub(crate) operation: Operation,
    pub(crate) offset: Bytes,
    pub(crate) size: Bytes,
    pub(crate) arrived: Nanos,
    /// The response time that the device model computed.
    pub(crate) asked: Nanos,
    /// What was subtracted from it.
    pub(crate) transport_latency: Nanos,
    /// Whether the computed response time is shorter than the transport latency.
    pub(crate) is_too_fast: bool,
    /// Whether it enters the statistics; probes of the transport latency do not.
    pub(crate) is_counted: bool,
}
