//! What a file holds, judged by its bytes and never by its name.
//!
//! # Model
//! 1. Magic bytes and the first words of a format decide. A text is then recognised by its first line.
//! 2. Of a file that gzip compressed, the content is what it holds inside.
//! 3. What no format claims is text, other data, or zeroes.
//!
//! Every verb uses this one recogniser, so two verbs never see the same file differently. A format is parsed elsewhere: what
//! is recognised here may still be damaged.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flashlab_trace::Format;
use flate2::read::MultiGzDecoder;

use crate::open;

/// The bytes from its start by which a file is recognised. fio writes up to some KiB of messages before its JSON.
pub const HEAD: usize = 64 << 10;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileContent {
    /// Nothing.
    Empty,
    /// Zero bytes, as far as it was read.
    Zeroes,
    /// fio's JSON, with or without other text around it.
    FioJson,
    /// fio's output for people.
    FioText,
    /// fio's output with semicolons.
    FioTerse,
    /// A log of fio: times, values, directions, sizes.
    FioLog,
    /// A job file of fio.
    FioJobs,
    /// IOs that another program recorded.
    Trace(Format),
    /// blktrace's binary file, which blkparse reads.
    Blktrace,
    /// Samples of flashlab, or another Parquet file.
    Parquet,
    /// A model of `flashlab model fit`.
    Model,
    /// The manifest of a run or an inference.
    RunDocument,
    /// JSON of somebody else.
    Json,
    /// A plan.
    Plan,
    /// A profile of a simulated device.
    Profile,
    /// The saved state of a simulated device.
    State,
    /// A graph file of `flashlab em graph`.
    Graph,
    /// A graph of METIS: lines of whole numbers, the first with the counts.
    Numbers,
    /// A matrix of MatrixMarket.
    MatrixMarket,
    /// A volume of `flashlab repair`.
    Volume,
    /// A page of HTML.
    Page,
    /// Data that a program compressed, other than with gzip: the name of that program.
    Compressed(&'static str),
    /// A log that fio compressed.
    FioCompressedLog,
    /// Text in no known format.
    Text,
    /// Bytes in no known format.
    Data,
}

/// Formats with magic bytes at their start.
const MAGIC: [(&[u8], FileContent); 15] = [
    (b"PAR1", FileContent::Parquet),
    (b"FLASHSIM", FileContent::State),
    (b"FLGRAPH\0", FileContent::Graph),
    (b"FLREPAIR", FileContent::Volume),
    (b"%%MatrixMarket", FileContent::MatrixMarket),
    // As networkrepository.com writes it.
    (b"%MatrixMarket", FileContent::MatrixMarket),
    (b"<!DOCTYPE html>", FileContent::Page),
    (b"\x28\xB5\x2F\xFD", FileContent::Compressed("zstd")),
    (b"\xFD7zXZ\0", FileContent::Compressed("xz")),
    (b"BZh", FileContent::Compressed("bzip2")),
    (b"\x04\x22\x4D\x18", FileContent::Compressed("lz4")),
    (b"PK\x03\x04", FileContent::Compressed("zip")),
    // zlib, as fio's log_store_compressed writes it.
    (b"\x78\x9C", FileContent::FioCompressedLog),
    // BLK_IO_TRACE_MAGIC with its version in the lowest byte (linux/blktrace_api.h), in both byte orders.
    (b"\x07\x74\x61\x65", FileContent::Blktrace),
    (b"\x65\x61\x74\x07", FileContent::Blktrace),
];

/// The magic bytes of gzip.
pub const GZIP: &[u8] = &[0x1F, 0x8B];

impl FileContent {
    /// What a file holds that begins with `head`. A gzip file is seen through.
    pub fn of(head: &[u8]) -> FileContent {
        if !head.starts_with(GZIP) {
            return FileContent::of_plain(head);
        }
        // The head ends within the stream, which is an error after what could be read.
        let mut inside = Vec::new();
        let _ = MultiGzDecoder::new(head).take(HEAD as u64).read_to_end(&mut inside);
        match inside.is_empty() {
            true => FileContent::Compressed("gzip"),
            false => FileContent::of_plain(&inside),
        }
    }

    /// What the file at this path holds.
    ///
    /// # Errors
    /// If it is no regular file, or cannot be read.
    pub fn of_file(path: &Path) -> io::Result<FileContent> {
        FileContent::of_open(&open(path)?)
    }

    /// What an open file holds, from where it is read.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_open(file: &File) -> io::Result<FileContent> {
        let mut head = Vec::new();
        file.take(HEAD as u64).read_to_end(&mut head)?;
        Ok(FileContent::of(&head))
    }

    fn of_plain(head: &[u8]) -> FileContent {
        if head.is_empty() {
            return FileContent::Empty;
        }
        if head.iter().all(|&byte| byte == 0) {
            return FileContent::Zeroes;
        }
        if let Some(&(_, content)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
            return content;
        }
        match text_of(head) {
            Some(text) => FileContent::of_text(text),
            None => FileContent::Data,
        }
    }

    fn of_text(text: &str) -> FileContent {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let has = |words: &str| text.contains(words);
        if has("\"fio version\"") {
            return FileContent::FioJson;
        }
        if let Some(format) = Format::of_head(text.as_bytes()) {
            return FileContent::Trace(format);
        }
        match () {
            () if is_log_line(first) => FileContent::FioLog,
            () if is_terse(first) => FileContent::FioTerse,
            () if first.starts_with('{') && has("\"sr\": {") => FileContent::Model,
            () if first.starts_with('{') && has("\"flashlab\": \"") => FileContent::RunDocument,
            () if first.starts_with('{') || first == "[" || first.starts_with("[{") => FileContent::Json,
            () if has("\nfio-") || first.starts_with("fio-") || has(": (g=") => FileContent::FioText,
            () if is_toml(text) && (has("\ncapacity = ") || has("\n[flash]")) => FileContent::Profile,
            () if is_toml(text) && (has("[[experiment") || has("\n[experiment")) => FileContent::Plan,
            () if is_job_file(text) => FileContent::FioJobs,
            () if is_numbers(text) => FileContent::Numbers,
            () => FileContent::Text,
        }
    }

    /// Whether somebody made it: it is no empty space.
    pub fn is_made(self) -> bool {
        !matches!(self, FileContent::Empty | FileContent::Zeroes)
    }

    /// Whether it is in a format that one recognises, and so no content of a disk.
    pub fn is_foreign(self) -> bool {
        self.is_made() && !matches!(self, FileContent::Data | FileContent::Text | FileContent::Volume)
    }

    /// Whether `flashlab model` reads it as a measurement by fio.
    pub fn is_of_fio(self) -> bool {
        use FileContent::{FioCompressedLog, FioJson, FioLog, FioTerse, FioText};
        matches!(self, FioJson | FioText | FioTerse | FioLog | FioCompressedLog)
    }

    /// What to do with it; `None` where flashlab has no use for it.
    pub fn advice(self, path: &str) -> Option<String> {
        Some(match self {
            FileContent::FioJson | FileContent::FioLog => format!("`flashlab model fit {path}` reads it"),
            FileContent::FioText | FileContent::FioTerse => {
                "flashlab reads fio's JSON: repeat the job with --output-format=json --output=FILE".to_owned()
            }
            FileContent::FioJobs => format!("`fio {path}` runs it"),
            FileContent::FioCompressedLog => format!("`fio --inflate-log={path}` prints it as text"),
            FileContent::Trace(_) => format!("`flashlab sim run PROFILE --trace {path}` replays it"),
            FileContent::Blktrace => format!("`blkparse -i {path}` prints it as text, which flashlab reads"),
            FileContent::Model => format!("`flashlab model predict {path}` reads it"),
            FileContent::Plan => format!("`flashlab run {path} TARGET` runs it"),
            FileContent::Profile => format!("sim:./{path} is the device that it describes"),
            FileContent::Graph => format!("`flashlab em run bfs --graph {path}` searches it"),
            FileContent::Numbers | FileContent::MatrixMarket => {
                format!("`flashlab em graph edges FILE --from {path}` makes a graph file of it")
            }
            FileContent::Volume => format!("`flashlab repair status {path}` describes it"),
            FileContent::Compressed(program) => format!("decompress it first, with {program}"),
            _ => return None,
        })
    }
}

impl fmt::Display for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileContent::Empty => "nothing",
            FileContent::Zeroes => "zeroes",
            FileContent::FioJson => "JSON output of fio",
            FileContent::FioText => "text output of fio",
            FileContent::FioTerse => "terse output of fio",
            FileContent::FioLog => "a log of fio",
            FileContent::FioJobs => "a job file of fio",
            FileContent::Trace(Format::Fio) => "an iolog of fio",
            FileContent::Trace(Format::Blkparse) => "a trace of blkparse",
            FileContent::Trace(Format::Msr) => "a trace of MSR Cambridge",
            FileContent::Trace(Format::Mqsim) => "a trace of MQSim",
            FileContent::Blktrace => "a binary trace of blktrace",
            FileContent::Parquet => "samples in Parquet",
            FileContent::Model => "a model of flashlab",
            FileContent::RunDocument => "a document of a flashlab run",
            FileContent::Json => "JSON",
            FileContent::Plan => "a plan of flashlab",
            FileContent::Profile => "a profile of a simulated device",
            FileContent::State => "the saved state of a simulated device",
            FileContent::Graph => "a graph file of flashlab",
            FileContent::Numbers => "lines of whole numbers, as a METIS graph or an edge list",
            FileContent::MatrixMarket => "a matrix of MatrixMarket",
            FileContent::Volume => "a flashlab volume",
            FileContent::Page => "a page of HTML",
            FileContent::Compressed(program) => return write!(f, "data that {program} compressed"),
            FileContent::FioCompressedLog => "zlib data, as fio compresses its logs",
            FileContent::Text => "text",
            FileContent::Data => "data in a format that flashlab does not know",
        })
    }
}

/// The head of a file as UTF-8, which may be cut off within a character; `None` if it is none.
pub fn utf8_of(head: &[u8]) -> Option<&str> {
    match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// The head as text, which has no control characters but those that texts have.
fn text_of(head: &[u8]) -> Option<&str> {
    let text = utf8_of(head)?;
    // Others than those of ASCII stand in names that JSON and TOML carry.
    let is_control =
        |c: char| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}' | '\u{8}');
    (!text.contains(is_control)).then_some(text)
}

/// A line of a log of fio: at least four fields between commas, all of them whole numbers.
fn is_log_line(line: &str) -> bool {
    let mut fields = 0;
    let is_number = |field: &str| {
        let digits = field.strip_prefix("0x").or_else(|| field.strip_prefix('-')).unwrap_or(field);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    line.split(',').map(str::trim).inspect(|_| fields += 1).all(is_number) && fields >= 4
}

/// A line of fio's terse output: the version of the format, the version of fio, and fields between semicolons.
fn is_terse(line: &str) -> bool {
    let mut fields = line.split(';');
    let version = fields.next().is_some_and(|version| version.parse::<u32>().is_ok());
    version && fields.next().is_some_and(|program| program.starts_with("fio-"))
}

fn is_toml(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("version = "))
}

/// An INI file with keys that every job of fio has.
fn is_job_file(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let has_section = lines.clone().any(|line| line.starts_with('[') && line.ends_with(']'));
    let is_key = |line: &str| {
        let key = line.split('=').next().unwrap_or_default();
        matches!(key, "rw" | "readwrite" | "ioengine" | "bs" | "blocksize" | "iodepth")
    };
    has_section && lines.any(is_key)
}

/// Lines of whole numbers between blanks, behind comments. The last line of a head may be cut off.
fn is_numbers(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.starts_with(['%', '#'])).peekable();
    let is_line =
        |line: &str| line.split_ascii_whitespace().all(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    lines.peek().is_some_and(|line| line.split_ascii_whitespace().count() >= 2) && lines.all(is_line)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// A beginning of each kind.
    const HEADS: &[(&[u8], FileContent)] = &[
        (b"", FileContent::Empty),
        (&[0; 4096], FileContent::Zeroes),
        (b"fio: pid=0, got signal=2\n\n{\n  \"fio version\" : \"fio-3.33\",", FileContent::FioJson),
        (b"{\"fio version\":\"fio-2.21\"}", FileContent::FioJson),
        (b"a: (g=0): rw=randread, bs=(R) 4096B-4096B\nfio-3.33\nStarting 1 process\n", FileContent::FioText),
        (b"3;fio-3.33;x;0;0;1024;1430;357;716;0", FileContent::FioTerse),
        (b"0, 82000, 0, 4096, 129744896, 0x0004\n", FileContent::FioLog),
        (b"# mine\n[global]\nioengine=libaio\n[a]\nrw=read\n", FileContent::FioJobs),
        (b"fio version 3 iolog\n0 /dev/sda add\n", FileContent::Trace(Format::Fio)),
        (
            b"Input file sda.blktrace.0 added\n  8,0 1 1 0.000000000 100 Q R 2048 + 8 [cat]\n",
            FileContent::Trace(Format::Blkparse),
        ),
        (b"128166372003061629,hm,0,Read,383496192,32768,413\n", FileContent::Trace(Format::Msr)),
        (b"4809 0 1245 8 1\n", FileContent::Trace(Format::Mqsim)),
        (b"\x07\x74\x61\x65\x01\0\0\0", FileContent::Blktrace),
        (b"PAR1\x15\x04", FileContent::Parquet),
        (b"{\n  \"sr\": {\n    \"a_us\": 37.0", FileContent::Model),
        (b"{\n  \"version\": 1,\n  \"flashlab\": \"0.1.0\",", FileContent::RunDocument),
        (b"{\"mine\": 1}", FileContent::Json),
        (b"# mine\nversion = 1\n[[experiments]]\n", FileContent::Plan),
        (b"version = 2\nname = \"x\"\ncapacity = \"1GiB\"\n", FileContent::Profile),
        (b"FLASHSIM\x01", FileContent::State),
        (b"FLGRAPH\0\x01\0\0\0", FileContent::Graph),
        (b"% a comment\n4 6\n2 3 4\n1 3 4\n", FileContent::Numbers),
        (b"%%MatrixMarket matrix coordinate pattern symmetric\n", FileContent::MatrixMarket),
        (b"%MatrixMarket matrix coordinate pattern symmetric\n", FileContent::MatrixMarket),
        (b"FLREPAIR\x01", FileContent::Volume),
        (b"<!DOCTYPE html><html>", FileContent::Page),
        (b"\x28\xB5\x2F\xFD\0", FileContent::Compressed("zstd")),
        (b"\x78\x9C\x75\x9A", FileContent::FioCompressedLog),
        (b"Dear diary,\ntoday", FileContent::Text),
        (&[0xA7; 512], FileContent::Data),
    ];

    #[test]
    fn every_kind_is_recognised_with_and_without_gzip() {
        for &(head, content) in HEADS {
            assert_eq!(FileContent::of(head), content, "{}", head.escape_ascii());
            if content.is_made() && !matches!(content, FileContent::Compressed(_)) {
                let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
                gzip.write_all(head).unwrap();
                assert_eq!(FileContent::of(&gzip.finish().unwrap()), content, "{}", head.escape_ascii());
            }
        }
    }
}
