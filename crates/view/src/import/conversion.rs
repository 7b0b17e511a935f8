//! What the conversions of all formats share.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flashlab_input::{GZIP, HEAD};
use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use crate::error::ViewError;
use crate::recording::ReadProgress;
use crate::stamp::Stamp;

/// The latest time that is shown, nanoseconds: 73 years. Sums of times stay within 64 bits.
pub const TIME_MOST: u64 = 1 << 61;
/// Bytes between two reports of progress.
const PROGRESS_STEP: u64 = 1 << 20;

/// What was converted, and what was assumed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Imported {
    /// The version of what is converted to what.
    pub version: u32,
    /// The files as they were.
    pub stamps: Vec<Stamp>,
    /// The names of the segments.
    pub segments: Vec<PathBuf>,
    /// The program that wrote the files.
    pub verb: String,
    /// What was measured.
    pub target: String,
    /// Numbers and names of the runs.
    pub runs: Vec<(u32, String)>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// Reads a text, which gzip may have compressed, and reports how far it is.
pub fn open_text<'a>(
    path: &Path,
    progress: ReadProgress<'a>,
) -> Result<Box<dyn io::BufRead + 'a>, ViewError> {
    let failed = |source| ViewError::Read { file: path.to_owned(), source };
    let mut file = flashlab_input::open(path).map_err(failed)?;
    let all = file.metadata().map_err(failed)?.len();
    let mut head = Vec::new();
    file.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
    let is_gzip = head.starts_with(GZIP);
    let counted =
        CountedRead { inner: io::Cursor::new(head).chain(file), done: 0, reported: 0, all, progress };
    let text = BufReader::with_capacity(HEAD, counted);
    Ok(match is_gzip {
        true => Box::new(BufReader::with_capacity(HEAD, MultiGzDecoder::new(text))),
        false => Box::new(text),
    })
}

/// Reports the bytes that were read.
struct CountedRead<'a, R> {
    inner: R,
    done: u64,
    reported: u64,
    all: u64,
    progress: ReadProgress<'a>,
}

impl<R: Read> Read for CountedRead<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done += count as u64;
        if count == 0 || self.done - self.reported >= PROGRESS_STEP {
            (self.progress)("converting bytes", self.done, self.all.max(self.done));
            self.reported = self.done;
        }
        Ok(count)
    }
}
