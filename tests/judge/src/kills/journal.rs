//! What a writer did, recorded outside of the volume: a line before each operation, and one after it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::operation::Operation;

#[derive(Serialize, Deserialize)]
enum Line {
    /// An operation begins. Stamps order the lines of all writers.
    Begin { stamp: u64, operation: Operation },
    /// It returned at this time, in milliseconds since 1970; `error` is empty if it succeeded.
    End { stamp: u64, at_ms: u64, error: String },
    /// After the first error of a dead server something succeeded.
    Beneath { what: String },
}

/// An operation as it was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub operation: Operation,
    pub begin: u64,
    pub end: Option<u64>,
    /// When it returned, in milliseconds since 1970.
    pub end_ms: Option<u64>,
    /// Empty if it succeeded or did not return.
    pub error: String,
}

impl Recorded {
    /// Whether it returned without an error.
    pub fn succeeded(&self) -> bool {
        self.end.is_some() && self.error.is_empty()
    }
}

/// What a writer recorded.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    pub operations: Vec<Recorded>,
    /// What succeeded after the server was dead.
    pub beneath: Vec<String>,
}

impl Journal {
    /// Reads it; a last line without an end was never written.
    pub fn read(path: &Path) -> Result<Journal, String> {
        let mut journal = Journal::default();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journal),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line =
                serde_json::from_str(line).map_err(|error| format!("{}: {error}: {line}", path.display()))?;
            match line {
                Line::Begin { stamp, operation } => {
                    journal.operations.push(Recorded {
                        operation,
                        begin: stamp,
                        end: None,
                        end_ms: None,
                        error: String::new(),
                    });
                }
                Line::End { stamp, at_ms, error } => {
                    let last = journal.operations.last_mut().ok_or("a journal begins with an end")?;
                    (last.end, last.end_ms, last.error) = (Some(stamp), Some(at_ms), error);
                }
                Line::Beneath { what } => journal.beneath.push(what),
            }
        }
        Ok(journal)
    }
}

/// The time, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// Writes it.
pub struct JournalWriter(File);

impl JournalWriter {
    pub fn create(path: &Path) -> io::Result<JournalWriter> {
        Ok(JournalWriter(OpenOptions::new().append(true).create_new(true).open(path)?))
    }

    pub fn begin(&mut self, stamp: u64, operation: &Operation) -> io::Result<()> {
        self.line(&Line::Begin { stamp, operation: operation.clone() })
    }

    pub fn end(&mut self, stamp: u64, error: String) -> io::Result<()> {
        self.line(&Line::End { stamp, at_ms: now_ms(), error })
    }

    pub fn beneath(&mut self, what: String) -> io::Result<()> {
        self.line(&Line::Beneath { what })
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.0.write_all(text.as_bytes())
    }
}
