//! The operations of an IO: read, write, flush and discard.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Mode;

/// What a request does on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Reads from the device into the buffer.
    Read,
    /// Writes the buffer to the device.
    Write,
    /// Makes every completed write durable. Offset and size are ignored.
    Flush,
    /// Tells the device that the content of the range is no longer needed (TRIM).
    Discard,
}

impl Operation {
    /// The mode of an operation that moves data; `None` for the others.
    pub const fn mode(self) -> Option<Mode> {
        match self {
            Operation::Read => Some(Mode::Read),
            Operation::Write => Some(Mode::Write),
            Operation::Flush | Operation::Discard => None,
        }
    }
}

impl From<Mode> for Operation {
    fn from(mode: Mode) -> Operation {
        match mode {
            Mode::Read => Operation::Read,
            Mode::Write => Operation::Write,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        })
    }
}
