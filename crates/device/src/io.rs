//! One IO: the [`Request`] that a caller submits and the [`Completion`] that the device returns.
//!
//! # Invariant
//! - The caller owns the data. A [`Buffer`] travels with the request and returns with the completion, so no IO copies or
//!   allocates memory.

use flashlab_base::{Bytes, Nanos, Operation};
use thiserror::Error;

use crate::buffer::Buffer;

/// An IO that a caller submits to a device.
#[derive(Debug)]
pub struct Request {
    /// The caller's number for the IO; the completion returns it.
    pub tag: u64,
    /// Read, write, flush or discard.
    pub operation: Operation,
    /// The first byte of the range.
    pub offset: Bytes,
    /// The length of the range.
    pub size: Bytes,
    /// The data, at least `size` long. Where the device ignores data
    /// ([`DataHandling::Ignored`](crate::DataHandling::Ignored)), [`Buffer::empty`] is enough.
    pub buffer: Buffer,
}

/// An IO that the device has finished.
#[derive(Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// When the device accepted the request.
    pub submitted: Nanos,
    /// When the device finished it.
    pub completed: Nanos,
    /// Whether the IO succeeded.
    pub result: Result<(), IoError>,
    /// The request's buffer.
    pub buffer: Buffer,
}

/// Why an IO failed, as the operating system's error number.
///
/// It is a number and not a text because every recorded IO carries one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("{}", std::io::Error::from_raw_os_error(*.errno))]
pub struct IoError {
    /// The error number (errno), greater than zero.
    pub errno: i32,
}

impl IoError {
    /// EIO: the device failed the IO.
    pub const IO: IoError = IoError { errno: 5 };
    /// ENXIO: the device is gone.
    pub const GONE: IoError = IoError { errno: 6 };
    /// EINVAL: the range is misaligned or empty.
    pub const INVALID: IoError = IoError { errno: 22 };
    /// ENOSPC: the range ends beyond the device's capacity.
    pub const OUT_OF_RANGE: IoError = IoError { errno: 28 };
    /// EOVERFLOW: the host writes to more open zones than the device allows. Linux reports it with this number.
    pub const TOO_MANY_ZONES: IoError = IoError { errno: 75 };
    /// EROFS: the device is read-only.
    pub const READ_ONLY: IoError = IoError { errno: 30 };

    /// Whether the device itself is gone, so that every later IO will fail too.
    pub fn device_is_gone(self) -> bool {
        const ENODEV: i32 = 19;
        self == IoError::GONE || self.errno == ENODEV
    }
}
