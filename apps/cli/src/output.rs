//! Prints results on standard output, and everything else on standard error.
//!
//! If the reader closes standard output (`flashlab devices | head -1`), that is not an error.

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

/// Prints a line on standard error. If standard error is closed, the measurement goes on. Names of files and
/// devices come from outside, so control characters are removed.
pub fn tell(line: &str) {
    let harmless = line.lines().map(flashlab_report::printable).collect::<Vec<_>>().join("\n");
    let _ = writeln!(std::io::stderr(), "{harmless}");
}

/// Prints one JSON document.
pub fn json(value: &impl Serialize) -> Result<()> {
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// The layout of a report for the terminal; `report` is the path of its page.
pub fn layout(report: Option<String>) -> Layout {
    const WIDEST: u16 = 120;
    if !std::io::stdout().is_terminal() {
        return Layout { report, ..Layout::default() };
    }
    let size = terminal_size::terminal_size();
    let width = size.map_or(Layout::default().width, |(width, _)| usize::from(width.0.min(WIDEST)));
    Layout { width, colour: std::env::var_os("NO_COLOR").is_none(), report }
}
