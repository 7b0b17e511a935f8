//! What an IO asks of a device.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Mode;

/// What a request asks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Fill the buffer from the device.
    Read,
    /// Put the buffer on the device.
    Write,
    /// Make every completed write durable. Offset and size are ignored.
    Flush,
    /// Tell the device that the range's content is no longer needed.
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
