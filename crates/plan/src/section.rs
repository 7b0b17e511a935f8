//! A table in a plan's file. It knows the line of every key and value, for error messages.
//!
//! # Invariants
//! - If a table has an unknown key, it is refused before any of its values is read.
//! - Reading a value gives the value in its type and range, or an error with its key and line.

use std::ops::Range;

use flashlab_base::{Bytes, Nanos};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::PlanError;
use crate::parameter::{EXACT_MAX, Quantity};

/// The text of a plan and the name of its file.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    pub(crate) fn line(&self, position: usize) -> usize {
        1 + self.text.bytes().take(position).filter(|&byte| byte == b'\n').count()
    }

    fn missing(&self, position: usize, key: &str, legal: &str) -> PlanError {
        PlanError::MissingKey {
            file: self.file.to_owned(),
            line: self.line(position),
            key: key.to_owned(),
            legal: legal.to_owned(),
        }
    }

    /// A value as written in the file, shortened for a message.
    fn written(&self, span: Range<usize>) -> String {
        const LENGTH_MAX: usize = 40;
        let text = self.text.get(span).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let short: String = line.chars().take(LENGTH_MAX).collect();
        if short.len() == text.len() { short } else { short + "..." }
    }
}

/// A table.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    pub(crate) source: Source<'a>,
    table: &'a DeTable<'a>,
    /// Where it starts in the text.
    position: usize,
}

/// A key of a table, with its value.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    source: Source<'a>,
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Section<'a> {
    /// A table with keys from `legal`; any other key is an error.
    pub(crate) fn new(
        source: Source<'a>,
        table: &'a DeTable<'a>,
        position: usize,
        legal: &[&str],
    ) -> Result<Section<'a>, PlanError> {
        let section = Section { source, table, position };
        let unknown = section.entries().filter(|(name, _)| !legal.contains(name));
        match unknown.min_by_key(|(_, entry)| entry.value.span().start) {
            None => Ok(section),
            Some((name, entry)) => Err(PlanError::UnknownKey {
                file: source.file.to_owned(),
                line: entry.line(),
                key: name.to_owned(),
                nearest: nearest(name, legal).map(str::to_owned),
                legal: legal.iter().map(|&key| key.to_owned()).collect(),
            }),
        }
    }

    /// All keys, in alphabetical order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Entry<'a>)> + use<'a> {
        let source = self.source;
        self.table.iter().map(move |(key, value)| {
            let key = key.get_ref().as_ref();
            (key, Entry { source, key, value })
        })
    }

    /// The entry of this key, if the table has it.
    pub(crate) fn get(&self, key: &str) -> Option<Entry<'a>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some(Entry { source: self.source, key: key.get_ref(), value })
    }

    /// The entry of this key. `legal` is for the error: it says what to add.
    pub(crate) fn require(&self, key: &str, legal: &str) -> Result<Entry<'a>, PlanError> {
        self.get(key).ok_or_else(|| self.missing(key, legal))
    }

    fn missing(&self, key: &str, legal: &str) -> PlanError {
        self.source.missing(self.position, key, legal)
    }

    /// The error that `key` has an illegal value. The value is quoted from the file. If it is not in the
    /// file, so that the value is the default, `value` is quoted.
    pub(crate) fn illegal(&self, key: &str, value: String, legal: String) -> PlanError {
        match self.get(key) {
            Some(entry) => entry.illegal(legal),
            None => PlanError::Value {
                file: self.source.file.to_owned(),
                line: self.source.line(self.position),
                key: key.to_owned(),
                value,
                legal,
            },
        }
    }
}

impl<'a> Entry<'a> {
    pub(crate) fn line(&self) -> usize {
        self.source.line(self.value.span().start)
    }

    /// The error that this value is illegal.
    pub(crate) fn illegal(&self, legal: impl Into<String>) -> PlanError {
        PlanError::Value {
            file: self.source.file.to_owned(),
            line: self.line(),
            key: self.key.to_owned(),
            value: self.source.written(self.value.span()),
            legal: legal.into(),
        }
    }

    /// The error that the pattern cannot have this key. `use_it` says which pattern can, for example "with a
    /// `mix`".
    pub(crate) fn misplaced(&self, use_it: &str) -> PlanError {
        self.illegal(format!("left out, or used {use_it}"))
    }

    /// The error that `key` is missing, which this key requires.
    pub(crate) fn missing(&self, key: &str, legal: &str) -> PlanError {
        self.source.missing(self.value.span().start, key, legal)
    }

    pub(crate) fn text(&self) -> Result<&'a str, PlanError> {
        self.value.get_ref().as_str().ok_or_else(|| self.illegal("a text in quotes"))
    }

    /// One of these words.
    pub(crate) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, PlanError> {
        let given = self.value.get_ref().as_str();
        words.iter().find(|(word, _)| Some(*word) == given).map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            self.illegal(format!("one of {}", words.join(", ")))
        })
    }

    pub(crate) fn truth(&self) -> Result<bool, PlanError> {
        self.value.get_ref().as_bool().ok_or_else(|| self.illegal("true or false"))
    }

    /// A number of this quantity: in bytes, in nanoseconds or plain, exact as a double.
    pub(crate) fn number(&self, quantity: Quantity) -> Result<f64, PlanError> {
        let whole = |legal: &str, max: u64| match self.integer() {
            Some(number) if number >= 0 && number <= i128::from(max) => Ok(number as f64),
            _ => Err(self.illegal(legal)),
        };
        match quantity {
            Quantity::Bytes => {
                let legal = "a size such as \"32KiB\", at most 8PiB";
                self.unit(|text| text.parse::<Bytes>().ok().map(Bytes::get))
                    .ok_or_else(|| self.illegal(legal))
            }
            Quantity::Nanos => {
                let legal = "a duration such as \"0.1ms\", below 2502h";
                self.unit(|text| text.parse::<Nanos>().ok().map(Nanos::get))
                    .ok_or_else(|| self.illegal(legal))
            }
            Quantity::Count => whole("a whole number from 0 to 2^32 - 1", u64::from(u32::MAX)),
            Quantity::LongCount => whole("a whole number from 0 to 2^53", EXACT_MAX),
            Quantity::Integer => match self.integer() {
                Some(number) if number.unsigned_abs() <= u128::from(EXACT_MAX) => Ok(number as f64),
                _ => Err(self.illegal("a whole number from -2^53 to 2^53")),
            },
            Quantity::Real => self.real().ok_or_else(|| self.illegal("a number")),
        }
    }

    /// A text with a unit, or a number that needs none.
    fn unit(&self, parse: impl Fn(&str) -> Option<u64>) -> Option<f64> {
        let parsed = match self.value.get_ref().as_str() {
            Some(text) => parse(text),
            None => parse(&self.integer()?.to_string()),
        };
        parsed.filter(|&value| value <= EXACT_MAX).map(|value| value as f64)
    }

    fn integer(&self) -> Option<i128> {
        let integer = self.value.get_ref().as_integer()?;
        i128::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    fn real(&self) -> Option<f64> {
        match self.value.get_ref().as_float() {
            Some(float) => float.as_str().parse().ok(),
            None => self.integer().map(|integer| integer as f64),
        }
    }

    /// A table that may have the keys `legal`.
    pub(crate) fn section(&self, legal: &[&str]) -> Result<Section<'a>, PlanError> {
        let table = self.table()?;
        Section::new(self.source, table, self.value.span().start, legal)
    }

    /// A table of named tables.
    pub(crate) fn named_tables(&self) -> Result<Section<'a>, PlanError> {
        let table = self.table()?;
        Ok(Section { source: self.source, table, position: self.value.span().start })
    }

    fn table(&self) -> Result<&'a DeTable<'a>, PlanError> {
        self.value.get_ref().as_table().ok_or_else(|| self.illegal("a table"))
    }

    /// Whether it is a table.
    pub(crate) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// The elements of a list.
    pub(crate) fn list(&self) -> Result<Vec<Entry<'a>>, PlanError> {
        let list = self.value.get_ref().as_array().ok_or_else(|| self.illegal("a list in [ ]"))?;
        Ok(list.iter().map(|value| Entry { source: self.source, key: self.key, value }).collect())
    }
}

/// The candidate of which `word` is probably a misspelling, if there is one.
pub(crate) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let word = plain(word);
    let (distance, candidate) = candidates
        .iter()
        .map(|&candidate| (edit_distance(&word, &plain(candidate)), candidate))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= (candidate.len() / 3).max(1)).then_some(candidate)
}

/// Levenshtein's distance: insertions, deletions and replacements of one character.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, &b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances_are_levenshteins() {
        for (from, to, distance) in [("kitten", "sitting", 3), ("", "ab", 2), ("ab", "", 2), ("x", "x", 0)] {
            assert_eq!(edit_distance(from, to), distance, "{from} {to}");
        }
    }

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let keys = ["io_size", "io_shift", "target_size", "mode"];
        assert_eq!(nearest("IOSize", &keys), Some("io_size"));
        assert_eq!(nearest("io_sise", &keys), Some("io_size"));
        assert_eq!(nearest("targetsize", &keys), Some("target_size"));
        assert_eq!(nearest("colour", &keys), None);
    }
}
