//! Errors of parsing a trace.

use std::io;

use thiserror::Error;

use crate::format::Format;

/// Why a text is not a trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be read to its end.
    #[error("{file}:{line}: cannot be read: {source}")]
    Read {
        /// The file.
        file: String,
        /// The line that failed.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// The first line has no known format.
    #[error("{file}:{line}: `{found}` begins no known trace; known are:{}", known_formats())]
    UnknownFormat {
        /// The file.
        file: String,
        /// The first line that is not empty.
        line: u64,
        /// How it begins.
        found: String,
    },
    /// A line breaks the format.
    #[error("{file}:{line}: expected {expected}, found `{found}`")]
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
    /// A line is none of a log of fio.
    #[error("{file}:{line}: {message}")]
    LogLine {
        /// The file.
        file: String,
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
    /// The trace says when its IOs arrived, and not what they took.
    #[error(
        "{file}: is a trace in the format {format}, which has no response times: `flashlab replay` measures them, and its recording can be \
         looked at"
    )]
    NoResponses {
        /// The file.
        file: String,
        /// Its format.
        format: &'static str,
    },
    /// The trace has more IOs than the memory of this machine holds.
    #[error("{file}:{line}: has more than {most} IOs, which is what fits into memory: give a part of it")]
    TooLong {
        /// The file.
        file: String,
        /// The line of the first IO that is too many.
        line: u64,
        /// How many there may be.
        most: usize,
    },
    /// The trace contains no IO.
    #[error("{file}: there is no read, write, flush or discard in it")]
    Empty {
        /// The file.
        file: String,
    },
}

/// A line for each format: its name and what its first line looks like.
fn known_formats() -> String {
    Format::ALL.iter().map(|format| format!("\n  {:<9} {}", format.name(), format.line())).collect()
}
