//! From a text to a trace: lines, the format, the sources.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use flashlab_base::{Bytes, Nanos, Operation};

use crate::blkparse::Blkparse;
use crate::fields::Expected;
use crate::fio::Fio;
use crate::{Trace, TraceError, TraceIo, blkparse, fio, mqsim, msr};

/// The longest line. A file without line ends is none of ours.
const LONGEST_LINE: usize = 64 << 10;
/// How much of a wrong line is shown.
const SHOWN: usize = 60;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's `write_iolog`, versions 2 and 3.
    Fio,
    /// blkparse's text, in its default format.
    Blkparse,
    /// The CSV files of Microsoft Research Cambridge.
    Msr,
    /// MQSim's text.
    Mqsim,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Fio, Format::Blkparse, Format::Msr, Format::Mqsim];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Fio => "fio",
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
            Format::Mqsim => "mqsim",
        }
    }

    /// What its first line is like.
    pub(crate) const fn line(self) -> Expected {
        match self {
            Format::Fio => fio::HEADER,
            Format::Blkparse => blkparse::LINE,
            Format::Msr => msr::LINE,
            Format::Mqsim => mqsim::LINE,
        }
    }

    /// The format of a trace with this first line.
    fn recognised(line: &[u8]) -> Option<Format> {
        let is = |format: Format| match format {
            Format::Fio => line.starts_with(b"fio version"),
            Format::Blkparse => blkparse::is_line(line),
            Format::Msr => msr::is_line(line),
            Format::Mqsim => mqsim::is_line(line),
        };
        Format::ALL.into_iter().find(|&format| is(format))
    }
}

/// An IO as a format's parser finds it in a line.
pub(crate) struct Found<'a> {
    /// Nanoseconds from anywhere.
    pub arrival: u64,
    pub operation: Operation,
    pub offset: Bytes,
    pub size: Bytes,
    pub source: &'a [u8],
}

/// A format's own state.
enum Parser {
    Fio(Fio),
    Blkparse(Blkparse),
    Msr,
    Mqsim,
}

/// What a line says: an IO, something else, or that the trace ends before it.
pub(crate) enum Said<'a> {
    Io(Found<'a>),
    Nothing,
    End,
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

    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Said<'a>, Expected> {
        match self {
            Parser::Fio(fio) => fio.line(line),
            Parser::Blkparse(blkparse) => blkparse.line(line),
            Parser::Msr => msr::line(line),
            Parser::Mqsim => mqsim::line(line).map(Said::Io),
        }
    }
}

/// Reads a trace; `file` is its name in messages. Its format is recognised by its first line, if it is not given.
///
/// # Errors
/// At the first line that is not as the format has it, or when there is no IO at all.
pub fn parse(mut text: impl BufRead, file: &str, format: Option<Format>) -> Result<Trace, TraceError> {
    let mut buffer = Vec::new();
    let mut parser = format.map(Parser::new);
    let (mut ios, mut sources) = (Vec::new(), Sources::default());
    for number in 1.. {
        let line = match next_line(&mut text, &mut buffer) {
            Ok(Some(line)) => line.trim_ascii(),
            Ok(None) => break,
            Err(source) => return Err(TraceError::Read { file: file.to_owned(), line: number, source }),
        };
        if line.is_empty() {
            continue;
        }
        if parser.is_none() {
            let unknown =
                || TraceError::UnknownFormat { file: file.to_owned(), line: number, found: shown(line) };
            parser = Some(Parser::new(Format::recognised(line).ok_or_else(unknown)?));
        }
        let Some(parser) = &mut parser else { continue };
        match parser.line(line) {
            Ok(Said::Io(Found { arrival, operation, offset, size, source })) => {
                let source = sources.number(source);
                ios.push(TraceIo { arrival: Nanos(arrival), operation, offset, size, source, line: number });
            }
            Ok(Said::Nothing) => {}
            Ok(Said::End) => break,
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
    if let Some(Parser::Blkparse(blkparse)) = &parser {
        blkparse.keep_arrivals(&mut ios);
    }
    if ios.is_empty() {
        return Err(TraceError::Empty { file: file.to_owned() });
    }
    Ok(Trace::new(ios, sources.names))
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

/// How a line begins, for people.
fn shown(line: &[u8]) -> String {
    let text: String =
        String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]).chars().take(SHOWN).collect();
    if text.len() < line.len() { format!("{text}...") } else { text }
}

/// The sources seen so far.
#[derive(Default)]
struct Sources {
    names: Vec<String>,
    numbers: BTreeMap<Vec<u8>, u32>,
    last: Vec<u8>,
    last_number: u32,
}

impl Sources {
    fn number(&mut self, name: &[u8]) -> u32 {
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
