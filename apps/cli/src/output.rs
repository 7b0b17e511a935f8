//! Standard output: results, and nothing else. Standard error: everything else.
//!
//! A reader that has seen enough (`flashlab devices | head -1`) is no error.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use flashlab_report::Layout;
use serde::Serialize;

/// Prints a text as it is.
pub fn text(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Prints a line on standard error, which may be closed: nobody reading along is no reason to end a
/// measurement of hours. Names of files and devices are from outside: a terminal obeys nothing in them.
pub fn tell(line: &str) {
    let harmless = line.lines().map(flashlab_report::printable).collect::<Vec<_>>().join("\n");
    let _ = writeln!(std::io::stderr(), "{harmless}");
}

/// Prints one JSON document.
pub fn json(value: &impl Serialize) -> Result<()> {
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// How a report is laid out for the terminal; `report` is where its page is.
pub fn layout(report: Option<String>) -> Layout {
    const WIDEST: u16 = 120;
    if !std::io::stdout().is_terminal() {
        return Layout { report, ..Layout::default() };
    }
    let size = terminal_size::terminal_size();
    let width = size.map_or(Layout::default().width, |(width, _)| usize::from(width.0.min(WIDEST)));
    Layout { width, colour: std::env::var_os("NO_COLOR").is_none(), report }
}
