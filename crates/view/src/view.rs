//! What a reader looks at: windows over time, offsets and response times, and filters.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::error::ViewError;
use crate::ios::{IoColumns, IoKind};

/// Which failed IOs are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Errors {
    /// Like the others.
    #[default]
    Any,
    /// Not at all.
    None,
    /// Without the others.
    Only,
}

/// The IOs that are looked at. `None` is no restriction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Intended starts, nanoseconds since the recording's first IO.
    pub time_ns: Option<Range<u64>>,
    /// Offsets, bytes.
    pub offset_bytes: Option<Range<u64>>,
    /// Response times, nanoseconds.
    pub response_ns: Option<Range<u64>>,
    /// Whether reads are shown.
    pub without_reads: bool,
    /// Whether writes are shown.
    pub without_writes: bool,
    /// Size classes.
    pub size_classes: Option<BTreeSet<u8>>,
    /// Failed IOs.
    pub errors: Errors,
    /// The process.
    pub process: Option<u32>,
    /// The run.
    pub run: Option<u32>,
}

impl View {
    /// The view that a query asks for; keys that are not of a view are left to the caller.
    ///
    /// # Errors
    /// [`ViewError::Query`] with the key and what it takes.
    pub fn parse(query: &[(String, String)]) -> Result<View, ViewError> {
        let mut view = View::default();
        for (key, value) in query {
            view.set(key, value)?;
        }
        Ok(view)
    }

    /// Takes a pair of a query; `false` if its key is not of a view.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, ViewError> {
        match key {
            "time_ns" => self.time_ns = Some(window(key, value)?),
            "offset_bytes" => self.offset_bytes = Some(window(key, value)?),
            "response_ns" => self.response_ns = Some(window(key, value)?),
            "modes" => {
                let modes: Vec<&str> = value.split(',').collect();
                if let Some(other) = modes.iter().find(|mode| !["read", "write"].contains(*mode)) {
                    return Err(ViewError::query(key, other, "read, write or both with a comma"));
                }
                self.without_reads = !modes.contains(&"read");
                self.without_writes = !modes.contains(&"write");
            }
            "sizes" => {
                let classes = value.split(',').map(|class| number(key, class));
                self.size_classes = Some(classes.collect::<Result<_, _>>()?);
            }
            "errors" => {
                self.errors = match value {
                    "any" => Errors::Any,
                    "none" => Errors::None,
                    "only" => Errors::Only,
                    other => return Err(ViewError::query(key, other, "any, none or only")),
                }
            }
            "process" => self.process = Some(number(key, value)?),
            "run" => self.run = Some(number(key, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks what follows `#` in the address of a page.
    ///
    /// # Errors
    /// [`ViewError::Query`] with the key and what it takes.
    pub fn check_state(state: &str) -> Result<(), ViewError> {
        let mut view = View::default();
        for pair in state.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            // Browsers write a comma so.
            let value = &value.replace("%2C", ",");
            if view.set(key, value)? {
                continue;
            }
            let are_numbers = || value.split(',').all(|number| number.parse::<u32>().is_ok());
            let (is_right, takes) = match key {
                "layout" => (["stacked", "overlay"].contains(&value.as_str()), "stacked or overlay"),
                "hidden" => (are_numbers(), "numbers with commas"),
                "marks" => (value == "0", "0"),
                "mark" => (true, ""),
                "recording" => (value.parse::<u32>().is_ok(), "a number"),
                _ => {
                    let keys = "only time_ns, offset_bytes, response_ns, modes, sizes, errors, process, run, layout, hidden, marks, mark and recording";
                    return Err(ViewError::query(key, value, keys));
                }
            };
            if !is_right {
                return Err(ViewError::query(key, value, takes));
            }
        }
        Ok(())
    }

    /// Whether IOs of this kind are shown.
    pub fn has_kind(&self, kind: IoKind) -> bool {
        let is_mode_shown = if kind.is_write() { !self.without_writes } else { !self.without_reads };
        let is_error_shown = match self.errors {
            Errors::Any => true,
            Errors::None => !kind.is_failed(),
            Errors::Only => kind.is_failed(),
        };
        is_mode_shown
            && is_error_shown
            && self.size_classes.as_ref().is_none_or(|classes| classes.contains(&kind.size_class()))
    }

    /// A table of [`View::has_kind`] by kind.
    pub fn kinds(&self) -> [bool; crate::ios::KIND_COUNT] {
        std::array::from_fn(|kind| self.has_kind(IoKind(kind as u8)))
    }

    /// Whether IOs of every kind are shown.
    pub fn has_all_kinds(&self) -> bool {
        let has_both = !self.without_reads && !self.without_writes;
        has_both && self.size_classes.is_none() && self.errors == Errors::Any
    }

    /// Whether the IO `index` is shown, its kind and its time left aside.
    #[inline]
    pub fn has_rest(&self, ios: &IoColumns, index: usize) -> bool {
        self.offset_bytes.as_ref().is_none_or(|window| window.contains(&ios.offset_bytes[index]))
            && self.response_ns.as_ref().is_none_or(|window| window.contains(&ios.response_ns[index]))
            && self.process.is_none_or(|process| ios.process[index] == process)
            && self.run.is_none_or(|run| ios.run[index] == run)
    }
}

fn number<T: std::str::FromStr>(key: &str, text: &str) -> Result<T, ViewError> {
    text.parse().map_err(|_| ViewError::query(key, text, "a number"))
}

fn window(key: &str, text: &str) -> Result<Range<u64>, ViewError> {
    let wrong = || ViewError::query(key, text, "two numbers with a comma, the smaller first");
    let (start, end) = text.split_once(',').ok_or_else(wrong)?;
    let (start, end): (u64, u64) = (start.parse().map_err(|_| wrong())?, end.parse().map_err(|_| wrong())?);
    if start >= end { Err(wrong()) } else { Ok(start..end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(query: &[(&str, &str)]) -> Result<View, ViewError> {
        let query: Vec<_> =
            query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        View::parse(&query)
    }

    #[test]
    fn a_query_becomes_a_view() {
        let parsed = view(&[
            ("recording", "0"),
            ("time_ns", "5,9"),
            ("modes", "write"),
            ("sizes", "12,15"),
            ("errors", "only"),
            ("run", "3"),
        ])
        .unwrap();
        assert_eq!(parsed.time_ns, Some(5..9));
        assert!(parsed.has_kind(IoKind::new(true, true, 4096)));
        assert!(!parsed.has_kind(IoKind::new(false, true, 4096)));
        assert!(!parsed.has_kind(IoKind::new(true, false, 4096)));
        assert!(!parsed.has_kind(IoKind::new(true, true, 8192)));
        assert_eq!(parsed.run, Some(3));
    }

    #[test]
    fn a_state_is_checked_as_a_whole() {
        for right in [
            "",
            "time_ns=5,9&modes=write&layout=overlay",
            "mark=erase_block_size",
            "hidden=0,2&marks=0",
            "time_ns=5%2C9",
        ] {
            View::check_state(right).unwrap();
        }
        for wrong in [
            "time_ns=5,1",
            "run=abc",
            "modes=foo",
            "nosuch=1",
            "garbage",
            "layout=bogus",
            "hidden=x",
            "marks=2",
            "%zz",
        ] {
            assert!(View::check_state(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_query_is_refused_with_its_key() {
        for (key, value) in [
            ("time_ns", "9,5"),
            ("time_ns", "5"),
            ("time_ns", "-1,5"),
            ("offset_bytes", ""),
            ("modes", "trim"),
            ("sizes", "12,x"),
            ("errors", "some"),
            ("process", "1.5"),
        ] {
            let error = view(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
