//! Files of lines, each a JSON object with its checksum, to which lines are appended.
//!
//! # Invariants
//! - A full disk or a kill can leave a torn last line. Readers ignore it, and the next line replaces it.
//! - A complete line that does not match its checksum is refused with its number.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flashlab_input::InputKind;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{SamplesError, regular_file, seal};

/// What is read at once to find the end of the last complete line: more than a line has.
const TAIL: u64 = 1 << 16;

/// The lines of a file.
#[derive(Debug)]
pub(crate) struct JsonLines<T> {
    /// The complete lines, in their order.
    pub lines: Vec<T>,
    /// Whether an incomplete line follows them.
    pub is_torn: bool,
    /// The CRC-32 of the file in hexadecimal digits.
    pub crc32: String,
}

/// The text of these lines.
pub(crate) fn text<T: Serialize>(path: &Path, values: &[T]) -> Result<String, SamplesError> {
    let mut lines = String::new();
    for value in values {
        let line = serde_json::to_string(value).map_err(|error| SamplesError::format(path, error))?;
        lines += &seal::LINE.sealed(&line);
        lines.push('\n');
    }
    Ok(lines)
}

/// Appends lines. A torn line before them goes.
pub(crate) fn append<T: Serialize>(path: &Path, values: &[T]) -> Result<(), SamplesError> {
    let lines = text(path, values)?;
    let append = || {
        let mut file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path)?;
        let whole = complete_length(&mut file)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        file.write_all(lines.as_bytes())
    };
    append().map_err(|source| SamplesError::io("append to", path, source))
}

/// Reads the lines.
///
/// # Errors
/// If the file is missing, or a line has the wrong content or does not match its checksum.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<JsonLines<T>, SamplesError> {
    let text = regular_file::bytes(path, InputKind::RUN_LINES)?;
    let complete = complete_lines(&text);
    let lines = complete.split(|&byte| byte == b'\n').enumerate();
    let lines: Result<Vec<T>, SamplesError> = lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            parsed(line).map_err(|wrong| SamplesError::format(path, format!("line {}: {wrong}", index + 1)))
        })
        .collect();
    let torn = String::from_utf8_lossy(&text[complete.len()..]);
    if seal::LINE.has_more_behind(&torn) {
        let message = format!("the end of its last line is damaged; {}", seal::REMEDY);
        return Err(SamplesError::format(path, message));
    }
    let crc32 = format!("{:08x}", crc32fast::hash(&text));
    Ok(JsonLines { lines: lines?, is_torn: !torn.is_empty(), crc32 })
}

/// What a line says, or what is wrong with it.
fn parsed<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let text =
        std::str::from_utf8(line).map_err(|_| "is no text in UTF-8: the file is damaged".to_owned())?;
    seal::LINE.verify(text).map_err(|wrong| format!("{wrong}; {}", seal::REMEDY))?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The length of the complete lines of a file. It is read from its end.
fn complete_length(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    while end > 0 {
        let begin = end.saturating_sub(TAIL);
        let mut tail = vec![0; (end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut tail)?;
        match complete_lines(&tail).len() {
            0 => end = begin,
            length => return Ok(begin + length as u64),
        }
    }
    Ok(0)
}

/// The text up to its last end of a line.
fn complete_lines(text: &[u8]) -> &[u8] {
    let length = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    &text[..length]
}
