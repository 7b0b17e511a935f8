//! Logs of fio: a line for each request, `time, value, direction, size[, offset][, priority][, issue time]`, in ms, ns and bytes (iolog.c,
//! `flush_samples`; the priority since fio 3.20, the issue time in ns since 3.38).
//!
//! # Model
//! A line does not say which fields it has behind the size: [`LogColumns::of`] judges it by many lines.

use std::io::BufRead;

use flashlab_base::Operation;

use crate::TraceError;
use crate::parse::{Lines, shown};

/// Lines by which the columns are judged, while a log is read once.
const JUDGED_LINES: usize = 4096;

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When the request ended, since the job began.
    pub at_ms: u64,
    /// Its latency in nanoseconds, or what else the log is of.
    pub value: u64,
    /// What it was.
    pub operation: Operation,
    /// Its size; 0 for the mean of a window of time.
    pub size: u64,
    /// The fields behind the size.
    more: [Option<MoreField>; 3],
}

/// A field behind the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoreField {
    Number(u64),
    /// A priority as a hexadecimal number.
    Hexadecimal,
}

/// Which fields the lines of a log have behind the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogColumns {
    /// Whether an offset is the first of them.
    pub has_offset: bool,
    /// Whether an issue time is the last of them.
    pub has_issue_time: bool,
}

impl LogLine {
    /// Parses a line.
    ///
    /// # Errors
    /// What was expected, and what was found.
    pub fn parse(line: &str) -> Result<LogLine, String> {
        let mut fields = line.split(',').map(str::trim);
        let mut next = |what: &str| {
            let field = fields.next().unwrap_or_default();
            field.parse::<u64>().map_err(|_| wrong(what, field))
        };
        let at_ms = next("a time in milliseconds")?;
        let value = next("a latency in nanoseconds")?;
        let operation = match next("a direction (0, 1 or 2)")? {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Discard,
            other => return Err(wrong("a direction (0, 1 or 2)", &other.to_string())),
        };
        let size = next("a size in bytes")?;
        let mut more = [None; 3];
        for place in &mut more {
            let Some(field) = fields.next() else { break };
            *place = Some(match field.strip_prefix("0x") {
                Some(digits) if u32::from_str_radix(digits, 16).is_ok() => MoreField::Hexadecimal,
                _ => MoreField::Number(field.parse().map_err(|_| wrong("an offset in bytes", field))?),
            });
        }
        match fields.next() {
            Some(field) => Err(wrong("at most seven fields", field)),
            None => Ok(LogLine { at_ms, value, operation, size, more }),
        }
    }

    /// How many fields it has.
    pub fn field_count(&self) -> usize {
        4 + self.more.iter().flatten().count()
    }

    /// The offset in bytes, if the log has offsets.
    pub fn offset(&self, columns: LogColumns) -> Option<u64> {
        self.number(0).filter(|_| columns.has_offset)
    }

    /// When it was issued, in nanoseconds since the job began, if the log has that.
    pub fn issued_ns(&self, columns: LogColumns) -> Option<u64> {
        self.number(self.field_count().checked_sub(5)?).filter(|_| columns.has_issue_time)
    }

    fn number(&self, at: usize) -> Option<u64> {
        match self.more.get(at) {
            Some(Some(MoreField::Number(number))) => Some(*number),
            _ => None,
        }
    }

    /// Whether the field `at` behind the size can be a priority: 0, 1, or hexadecimal.
    fn may_be_priority(&self, at: usize) -> bool {
        matches!(self.more.get(at), Some(Some(MoreField::Hexadecimal | MoreField::Number(0 | 1))))
    }
}

impl LogColumns {
    /// The columns of a log with these lines, all of which have the same number of fields.
    pub fn of(lines: &[LogLine]) -> LogColumns {
        let count = lines.first().map_or(0, LogLine::field_count);
        // One line at offset 0 is no log without offsets.
        let are_priorities = lines.len() > 1 && lines.iter().all(|line| line.may_be_priority(0))
            || lines.iter().any(|line| line.more[0] == Some(MoreField::Hexadecimal));
        // A job of one block has offset 0 in each line, and then its priority: no IO is issued at 0 or 1 ns.
        let are_priorities =
            are_priorities && !(count == 6 && lines.iter().all(|line| line.may_be_priority(1)));
        LogColumns {
            has_offset: count == 7 || (count > 4 && !are_priorities),
            has_issue_time: count == 7 || (count == 6 && are_priorities),
        }
    }
}

fn wrong(expected: &str, found: &str) -> String {
    format!("expected {expected}, found `{}`", found.chars().take(40).collect::<String>())
}

/// Reads a log line by line; `file` is its name in messages. Passes each line to `see` with the columns of the log and the bytes that were
/// read. Returns the columns; `None` if there is no line.
///
/// # Errors
/// At the first line that is none of a log; or what `see` returns.
pub fn parse_log<E: From<TraceError>>(
    text: impl BufRead,
    file: &str,
    mut see: impl FnMut(&LogLine, LogColumns) -> Result<(), E>,
) -> Result<Option<LogColumns>, E> {
    let mut text_lines = Lines::new(text, file);
    let (mut judged, mut columns, mut fields) = (Vec::new(), None, None);
    while let Some((number, line)) = text_lines.next()? {
        let refused = |message: String| TraceError::LogLine { file: file.to_owned(), line: number, message };
        let text = std::str::from_utf8(line)
            .map_err(|_| refused(format!("expected a line of a log of fio, found `{}`", shown(line))))?;
        let line = LogLine::parse(text).map_err(refused)?;
        if *fields.get_or_insert(line.field_count()) != line.field_count() {
            let message = format!("has {} fields, and the lines before have others", line.field_count());
            return Err(refused(message).into());
        }
        match columns {
            Some(columns) => see(&line, columns)?,
            None => {
                judged.push(line);
                if judged.len() == JUDGED_LINES {
                    columns = Some(LogColumns::of(&judged));
                    pass(&mut judged, columns, &mut see)?;
                }
            }
        }
    }
    if columns.is_none() && !judged.is_empty() {
        columns = Some(LogColumns::of(&judged));
        pass(&mut judged, columns, &mut see)?;
    }
    Ok(columns)
}

fn pass<E>(
    lines: &mut Vec<LogLine>,
    columns: Option<LogColumns>,
    see: &mut impl FnMut(&LogLine, LogColumns) -> Result<(), E>,
) -> Result<(), E> {
    let Some(columns) = columns else { return Ok(()) };
    lines.drain(..).try_for_each(|line| see(&line, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(lines: &[&str]) -> (bool, bool) {
        let lines: Vec<LogLine> = lines.iter().map(|line| LogLine::parse(line).unwrap()).collect();
        let LogColumns { has_offset, has_issue_time } = LogColumns::of(&lines);
        (has_offset, has_issue_time)
    }

    #[test]
    fn a_job_of_one_block_has_offsets_and_no_issue_times() {
        assert_eq!(columns(&["1, 900, 1, 4096, 0, 0", "2, 800, 1, 4096, 0, 0"]), (true, false));
        assert_eq!(columns(&["1, 900, 1, 4096, 0, 1000", "2, 800, 1, 4096, 0, 2000"]), (false, true));
        assert_eq!(columns(&["1, 900, 1, 4096, 8192, 0", "2, 800, 1, 4096, 0, 0"]), (true, false));
    }
}
