//! The record of one IO.

use flashlab_base::{Bytes, Mode, Nanos};

/// One IO, as it was done. Times are of the device's clock, since the run's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its position in its process's pattern, from 0.
    pub position: u64,
    /// Which process of a parallel pattern issued it, from 0.
    pub process: u32,
    /// Read or write.
    pub mode: Mode,
    /// Where it started on the device.
    pub offset: Bytes,
    /// How long it was.
    pub size: Bytes,
    /// When the pattern wanted it to start: for open-loop arrival the scheduled time, otherwise
    /// when it was submitted.
    pub intended: Nanos,
    /// When the device took it.
    pub submitted: Nanos,
    /// When it was done.
    pub completed: Nanos,
    /// 0, or the operating system's error number.
    pub errno: i32,
}

impl Sample {
    /// The time from the intended start to the completion.
    #[inline]
    pub fn response(&self) -> Nanos {
        self.completed.since(self.intended)
    }
}
