//! Parses a trace: splits lines, recognises the format, and collects the sources.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use flashlab_base::Nanos;

use crate::blkparse::Blkparse;
use crate::fields::Expected;
use crate::fio::Fio;
use crate::format::Format;
use crate::parsed_line::{FoundIo, LineContent};
use crate::{Trace, TraceError, TraceIo, blkparse, mqsim, msr};

/// The longest line. A file with longer lines is not a trace.
const LONGEST_LINE: usize = 64 << 10;
/// How many characters of a wrong line an error shows.
const SHOWN: usize = 60;

/// A format's own state.
enum Parser {
    Fio(Fio),
    Blkparse(Blkparse),
    Msr,
    Mqsim,
}

impl Parser {
    fn new(format: Format) -> Parser {
        match format {
            Format::Fio => Parser::Fio(Fio::default()),
            Format::Blkparse => Parser::Blkparse(Blkparse::default()),
            Format::Msr => Parser::Msr,
            Format::Mqsim => Parser::Mqsim,
        }
    }

    fn line<'a>(&mut self, line: &'a [u8]) -> Result<LineContent<'a>, Expected> {
        match self {
            Parser::Fio(fio) => fio.line(line),
            Parser::Blkparse(blkparse) => blkparse.line(line),
            Parser::Msr => msr::line(line),
            Parser::Mqsim => mqsim::line(line).map(LineContent::Io),
        }
    }
}

/// Reads a trace of at most `most` IOs; `file` is its name in messages. If no format is given, the first line shows it.
///
/// # Errors
/// At the first line that does not fit the format or is one IO too many, or if there is no IO.
pub fn parse(
    text: impl BufRead,
    file: &str,
    format: Option<Format>,
    most: usize,
) -> Result<Trace, TraceError> {
    let mut lines = Lines::new(text, file);
    let mut parser = format.map(Parser::new);
    let (mut ios, mut sources) = (Vec::new(), Sources::default());
    while let Some((number, line)) = lines.next()? {
        if parser.is_none() {
            if blkparse::is_preamble(line) {
                continue;
            }
            let unknown =
                || TraceError::UnknownFormat { file: file.to_owned(), line: number, found: shown(line) };
            parser = Some(Parser::new(Format::recognised(line).ok_or_else(unknown)?));
        }
        let Some(parser) = &mut parser else { continue };
        match parser.line(line) {
            Ok(LineContent::Io(FoundIo { arrival, operation, offset, size, source })) => {
                if ios.len() == most {
                    return Err(TraceError::TooLong { file: file.to_owned(), line: number, most });
                }
                let source = sources.number(source);
                ios.push(TraceIo { arrival: Nanos(arrival), operation, offset, size, source, line: number });
            }
            Ok(LineContent::Nothing) => {}
            Ok(LineContent::End) => break,
            Err(expected) => {
                return Err(TraceError::Line {
                    file: file.to_owned(),
                    line: number,
                    expected,
                    found: shown(line),
                });
            }
        }
    }
    let mut left_out = BTreeMap::new();
    if let Some(Parser::Blkparse(blkparse)) = &parser {
        blkparse.keep_arrivals(&mut ios);
        left_out = blkparse.left_out();
    }
    if ios.is_empty() {
        return Err(TraceError::Empty { file: file.to_owned() });
    }
    Ok(Trace { left_out, ..Trace::new(ios, sources.names) })
}

/// The lines of a text that are not blank.
pub(crate) struct Lines<'a, R> {
    text: R,
    /// Its name in messages.
    file: &'a str,
    number: u64,
    buffer: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub fn new(text: R, file: &'a str) -> Lines<'a, R> {
        Lines { text, file, number: 0, buffer: Vec::new() }
    }

    /// The next line without the blanks around it, and its number from 1; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>, TraceError> {
        loop {
            self.number += 1;
            let line = next_line(&mut self.text, &mut self.buffer).map_err(|source| TraceError::Read {
                file: self.file.to_owned(),
                line: self.number,
                source,
            })?;
            match line.map(<[u8]>::trim_ascii) {
                None => return Ok(None),
                Some([]) => {}
                Some(_) => break,
            }
        }
        Ok(Some((self.number, self.buffer.trim_ascii())))
    }
}

/// The next line, in `buffer`; `None` at the end.
fn next_line<'a>(text: &mut impl BufRead, buffer: &'a mut Vec<u8>) -> std::io::Result<Option<&'a [u8]>> {
    buffer.clear();
    let length = text.take(LONGEST_LINE as u64).read_until(b'\n', buffer)?;
    if length == LONGEST_LINE && !buffer.ends_with(b"\n") {
        return Err(std::io::Error::other("the line is longer than 64 KiB, as in no trace"));
    }
    Ok((length > 0).then_some(&buffer[..]))
}

/// The beginning of a line, for an error message.
pub(crate) fn shown(line: &[u8]) -> String {
    let text: String =
        String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]).chars().take(SHOWN).collect();
    if text.len() < line.len() { format!("{text}...") } else { text }
}

/// The sources seen so far.
#[derive(Default)]
pub(crate) struct Sources {
    pub names: Vec<String>,
    numbers: BTreeMap<Vec<u8>, u32>,
    last: Vec<u8>,
    last_number: u32,
}

impl Sources {
    pub fn number(&mut self, name: &[u8]) -> u32 {
        if !self.names.is_empty() && self.last == name {
            return self.last_number;
        }
        let number = self.numbers.get(name).copied().unwrap_or_else(|| {
            let number = self.names.len() as u32;
            self.numbers.insert(name.to_owned(), number);
            self.names.push(String::from_utf8_lossy(name).into_owned());
            number
        });
        self.last.clear();
        self.last.extend_from_slice(name);
        self.last_number = number;
        number
    }
}
