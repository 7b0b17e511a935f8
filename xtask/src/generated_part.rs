//! Parts of a page of docs that a command writes, between two marks; the prose around them stays as it is.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// A part of a page.
pub struct GeneratedPart<'a> {
    /// Its name in the marks.
    pub name: &'a str,
    /// The command that writes it, in words.
    pub writer: &'a str,
}

impl GeneratedPart<'_> {
    /// The marks before and after it.
    fn marks(&self) -> [String; 2] {
        let GeneratedPart { name, writer } = self;
        [format!("<!-- {name}: written by {writer} -->\n"), format!("<!-- end of {name} -->\n")]
    }

    /// Replaces it in a page: the command with the commit and the date, and the text.
    ///
    /// # Errors
    /// When the page cannot be read or written, or has no such marks.
    pub fn write(&self, page: &Path, command: &str, text: &str) -> anyhow::Result<()> {
        let name = page.display();
        let before = std::fs::read_to_string(page).with_context(|| format!("cannot read {name}"))?;
        let output = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
        };
        let (commit, date) =
            (output("git", &["rev-parse", "--short", "HEAD"]), output("date", &["+%Y-%m-%d"]));
        let generated = format!("\n    {command}    # commit {commit}, {date}\n\n{text}");
        let Some(replaced) = self.replaced(&before, &generated) else {
            let [begin, end] = self.marks();
            bail!("{name} has no line `{}` with a line `{}` after it", begin.trim_end(), end.trim_end())
        };
        std::fs::write(page, replaced).with_context(|| format!("cannot write {name}"))
    }

    /// The text with another part between its marks.
    fn replaced(&self, text: &str, generated: &str) -> Option<String> {
        let [begin, end] = self.marks();
        let (before, rest) = text.split_once(&begin)?;
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}{generated}{end}{after}"))
    }

    /// Whether the page has its marks.
    #[cfg(test)]
    pub fn is_in(&self, page: &str) -> bool {
        self.replaced(page, "").is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let zoo = GeneratedPart { name: "zoo", writer: "a command" };
        let [begin, end] = zoo.marks();
        let page = |part: &str| format!("# A\n{begin}{part}{end}prose\n");
        assert_eq!(zoo.replaced(&page("old\n"), "new\n"), Some(page("new\n")));
        let live = GeneratedPart { name: "live", ..zoo };
        assert_eq!(live.replaced(&page("old\n"), "new\n"), None);
        assert_eq!(zoo.replaced(&format!("{end}{begin}"), "new\n"), None);
    }
}
