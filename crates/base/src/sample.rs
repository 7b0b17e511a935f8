//! The record of one IO.

use crate::{Bytes, Mode, Nanos};

/// One IO. Times are those of the device's clock, since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its position in the pattern of its process, from 0.
    pub position: u64,
    /// Which process of a parallel pattern issued it, from 0.
    pub process: u32,
    /// Read or write.
    pub mode: Mode,
    /// The offset on the device.
    pub offset: Bytes,
    /// How long it was.
    pub size: Bytes,
    /// The intended start: in an open loop the scheduled time, otherwise the submission.
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
