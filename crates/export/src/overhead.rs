//! What the way between a program and the server costs, so that it can be subtracted.
//!
//! # Model
//! At start, before anybody is told of the disk, a program of the server's own reads through the transport, while every
//! IO is made to take one and the same time, and takes that time off what it sees. It is another process: a server that
//! waits for itself in the kernel cannot be killed.

use std::io;
use std::path::Path;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{Arena, Operation, Request};
use flashlab_host::{HostError, OpenOptions};
use serde::{Deserialize, Serialize};

use crate::live::LiveDisk;

/// What is lost between the moment at which a program asks and the one at which the server sees it, and between the
/// server's answer and its arrival: a straight line over the size, for reads and for writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Overhead {
    /// Of reads.
    pub read: Line,
    /// Of everything else.
    pub write: Line,
}

/// A time that grows with the size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// At size zero.
    pub base_ns: f64,
    /// For each byte.
    pub ns_per_byte: f64,
}

impl Line {
    /// The line through two measured points; it neither falls nor begins below zero.
    pub fn through(small: (Bytes, Nanos), large: (Bytes, Nanos)) -> Line {
        // A disk of one block has one size of IO.
        let ns_per_byte = match large.0.0 - small.0.0 {
            0 => 0.0,
            bytes => large.1.since(small.1).0 as f64 / bytes as f64,
        };
        let base_ns = (small.1.0 as f64 - small.0.0 as f64 * ns_per_byte).max(0.0);
        Line { base_ns, ns_per_byte }
    }

    /// The time for a size.
    pub fn of(self, size: Bytes) -> Nanos {
        Nanos((self.base_ns + self.ns_per_byte * size.0 as f64) as u64)
    }
}

/// How long an IO is made to take meanwhile: long enough for the thread that waits to sleep, as it will.
pub(crate) const RESPONSE: Nanos = Nanos(300_000);
const READS: u64 = 300;
const SMALL: Bytes = Bytes::kib(4);
const LARGE: Bytes = Bytes::mib(1);

/// What is lost on the way to the disk and back, while [`read_through`] runs in another process: `read` starts that and
/// hands over what it found. Only reads are made: writes are taken to cost the same.
///
/// # Errors
/// Those of `read`.
pub fn measure<E>(disk: &LiveDisk, read: impl FnOnce() -> Result<Line, E>) -> Result<Overhead, E> {
    // To open it is to read from it: no fault may strike that, and nobody counts it.
    disk.measure(Some(RESPONSE));
    let measured = read();
    disk.measure(None);
    measured.map(|line| Overhead { read: line, write: line })
}

/// What reads of the disk at `path` lose, while its server is in [`measure`].
///
/// # Errors
/// When the path cannot be read.
pub fn read_through(path: &Path) -> Result<Line, HostError> {
    let mut device = flashlab_host::open(path, &OpenOptions::default())?;
    let geometry = device.geometry();
    let mut spare = Arena::buffers(1, LARGE.min(geometry.capacity));
    line(geometry.capacity, geometry.block, |offset, size| {
        let buffer = spare.pop().expect("it comes back with every completion");
        device.submit(Request { tag: 0, operation: Operation::Read, offset, size, buffer });
        let done = device.wait(Nanos::MAX).expect("every request is answered");
        spare.push(done.buffer);
        match done.result {
            Ok(()) => Ok(done.completed.since(done.submitted)),
            Err(error) => {
                let source = io::Error::from_raw_os_error(error.errno);
                Err(HostError::System { attempt: "read", path: path.to_owned(), source })
            }
        }
    })
}

/// The line through the times lost of small reads and of large ones; `read` makes one and tells its response time.
pub(crate) fn line<E>(
    capacity: Bytes,
    block: Bytes,
    mut read: impl FnMut(Bytes, Bytes) -> Result<Nanos, E>,
) -> Result<Line, E> {
    let large = LARGE.min(capacity.round_down(block));
    let small = SMALL.max(block).min(large);
    let mut cost = |size: Bytes| {
        let mut lost = Vec::new();
        for number in 0..READS {
            let places = capacity.0 / size.0;
            let response = read(Bytes(number * 7919 % places * size.0), size)?;
            lost.push(response.0.saturating_sub(RESPONSE.0));
        }
        lost.sort_unstable();
        Ok(Nanos(lost[lost.len() / 2]))
    };
    Ok(Line::through((small, cost(small)?), (large, cost(large)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_of_one_block_has_a_flat_line() {
        let line = Line::through((Bytes::kib(4), Nanos(9_000)), (Bytes::kib(4), Nanos(12_000)));
        assert_eq!(line, Line { base_ns: 9_000.0, ns_per_byte: 0.0 });
        let line = Line::through((Bytes::kib(4), Nanos(9_000)), (Bytes::kib(8), Nanos(13_096)));
        assert_eq!(line, Line { base_ns: 4_904.0, ns_per_byte: 1.0 });
    }
}
