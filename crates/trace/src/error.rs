//! Why a text is no trace.

use std::fmt;
use std::io;

use crate::Format;

/// Why a text is no trace.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be read on.
    Read {
        /// The file.
        file: String,
        /// The line that was to be read.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// Its first line is of no known format.
    UnknownFormat {
        /// The file.
        file: String,
        /// The first line that is not empty.
        line: u64,
        /// How it begins.
        found: String,
    },
    /// A line is not as the format has it.
    Line {
        /// The file.
        file: String,
        /// Its number, from 1.
        line: u64,
        /// What should be there.
        expected: &'static str,
        /// How the line begins.
        found: String,
    },
    /// There is no IO in it.
    Empty {
        /// The file.
        file: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Read { file, line, source } => write!(f, "{file}:{line}: cannot be read: {source}"),
            TraceError::UnknownFormat { file, line, found } => {
                write!(f, "{file}:{line}: `{found}` begins no known trace; known are:")?;
                Format::ALL
                    .iter()
                    .try_for_each(|format| write!(f, "\n  {:<9} {}", format.name(), format.line()))
            }
            TraceError::Line { file, line, expected, found } => {
                write!(f, "{file}:{line}: expected {expected}, found `{found}`")
            }
            TraceError::Empty { file } => {
                write!(f, "{file}: there is no read, write, flush or discard in it")
            }
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TraceError::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}
