//! The mode of an IO: read or write (uFLIP section 3.1).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether an IO reads or writes: uFLIP's `Mode(IO)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The IO reads.
    Read,
    /// The IO writes.
    Write,
}

impl Mode {
    /// Whether this is [`Mode::Write`].
    pub const fn is_write(self) -> bool {
        matches!(self, Mode::Write)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_write() { "write" } else { "read" })
    }
}
