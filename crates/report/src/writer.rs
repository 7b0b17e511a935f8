//! Writes lines for a terminal: wrapped, with colours if requested.
//!
//! Invariant: the terminal executes no escape sequence except the writer's own colours, whatever the texts
//! contain.

use crate::escape::printable;

/// How the summary is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal. Lines are laid out for at least 40.
    pub width: usize,
    /// Whether to use colours (ANSI escapes).
    pub colour: bool,
    /// Where `report.html` is, for the last line.
    pub report: Option<String>,
}

impl Default for Layout {
    /// 80 columns without colours.
    fn default() -> Layout {
        Layout { width: 80, colour: false, report: None }
    }
}

const NARROWEST: usize = 40;

pub(crate) const BOLD: &str = "1";
pub(crate) const DIM: &str = "2";
pub(crate) const RED: &str = "31";
pub(crate) const GREEN: &str = "32";
pub(crate) const YELLOW: &str = "33";

/// Collects lines.
pub(crate) struct Writer<'a> {
    pub(crate) text: String,
    layout: &'a Layout,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Writer<'a> {
        Writer { text: String::new(), layout }
    }

    pub(crate) fn width(&self) -> usize {
        self.layout.width.max(NARROWEST)
    }

    /// The last line: where to read more.
    pub(crate) fn report(&mut self) {
        if let Some(report) = &self.layout.report {
            self.blank();
            self.wrapped("", &format!("Report: {report}"), BOLD);
        }
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// One line in one style, made printable.
    pub(crate) fn line(&mut self, line: &str, style: &str) {
        let line = printable(line);
        let painted = self.painted(&line, style);
        self.text.push_str(&painted);
        self.text.push('\n');
    }

    /// A text after a first word; further lines are indented under the text.
    pub(crate) fn wrapped(&mut self, first: &str, text: &str, style: &str) {
        let indent = first.chars().count();
        let lines = wrap(text, self.width() - indent);
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { first.to_owned() } else { " ".repeat(indent) };
            self.line(&format!("{lead}{line}"), style);
        }
    }

    /// A text after a coloured sign.
    pub(crate) fn marked(&mut self, sign: &str, colour: &str, text: &str) {
        for (index, line) in wrap(text, self.width() - 2).iter().enumerate() {
            let sign = if index == 0 { self.painted(sign, colour) } else { " ".to_owned() };
            self.text.push_str(&format!("{sign} {}\n", printable(line)));
        }
    }

    pub(crate) fn painted(&self, text: &str, style: &str) -> String {
        if self.layout.colour && !style.is_empty() {
            format!("\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Breaks `text` between words into lines of at most `width` characters. A longer word has its own line.
/// There is always at least one line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    // Only at ordinary spaces: a no-break space between a number and its unit must not break.
    for word in text.split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two  three\nfour", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("incomprehensible if", 5), ["incomprehensible", "if"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
