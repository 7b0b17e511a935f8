//! Prints results on standard output, and everything else on standard error.
//!
//! If the reader closes standard output (`flashlab devices | head -1`), that is not an error.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use flashlab_report::{Layout, printable_json, printable_text};
use serde::Serialize;

/// Prints a text. Names in it come from outside, so control characters are removed.
pub fn text(text: &str) -> Result<()> {
    write(&printable_text(text, is_coloured()))
}

/// Prints a page in place of the one before it.
pub fn page(page: &str) -> Result<()> {
    write(&format!("\x1b[H\x1b[2J{}", printable_text(page, is_coloured())))
}

fn write(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Prints a line on standard error. If standard error is closed, the measurement goes on. Names of files and
/// devices come from outside, so control characters are removed.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable_text(line, false));
}

/// Prints one JSON document.
pub fn json(value: &impl Serialize) -> Result<()> {
    write(&format!("{}\n", printable_json(&serde_json::to_string_pretty(value)?)))
}

/// Prints one JSON document in one line.
pub fn json_line(value: &impl Serialize) -> Result<()> {
    write(&format!("{}\n", printable_json(&serde_json::to_string(value)?)))
}

/// The layout of a report for the terminal; `report` is the path of its page.
pub fn layout(report: Option<String>) -> Layout {
    const WIDEST: u16 = 120;
    if !std::io::stdout().is_terminal() {
        return Layout { report, ..Layout::default() };
    }
    let size = terminal_size::terminal_size();
    let width = size.map_or(Layout::default().width, |(width, _)| usize::from(width.0.min(WIDEST)));
    Layout { width, colour: is_coloured(), report }
}

/// Whether texts on standard output have styles.
fn is_coloured() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
