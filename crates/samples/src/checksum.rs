//! The checksum of a segment, so that a damaged file is refused and not read as other figures.
//!
//! Parquet can have checksums of pages, but the library only verifies them and does not write them; the
//! footer has none. This checksum is in the footer's key-value metadata, which other readers ignore. It
//! covers every byte before the footer, and what the footer says about these bytes: where the columns are,
//! how they are compressed, and how many values they have.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use crc32fast::Hasher;
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};

/// Its key in the footer.
const KEY: &str = "flashlab.crc32";

/// Computes the checksum of everything that is written through it.
pub(crate) struct Checksummed<W> {
    inner: W,
    hasher: Hasher,
    bytes: u64,
}

impl<W> Checksummed<W> {
    pub fn new(inner: W) -> Checksummed<W> {
        Checksummed { inner, hasher: Hasher::new(), bytes: 0 }
    }

    pub fn into_inner(self) -> W {
        self.inner
    }

    /// The number of bytes so far, and their CRC-32.
    pub fn written(&self) -> (u64, u32) {
        (self.bytes, self.hasher.clone().finalize())
    }

    /// The footer's entry, once all row groups are written.
    pub fn entry(&self, groups: &[RowGroupMetaData]) -> KeyValue {
        let mut hasher = self.hasher.clone();
        hasher.update(description(groups).as_bytes());
        KeyValue::new(KEY.to_owned(), format!("{} {:08x}", self.bytes, hasher.finalize()))
    }
}

impl<W: Write> Write for Checksummed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Compares a segment with its checksum. A segment of an earlier flashlab has none.
pub(crate) fn verify(
    file: impl Read,
    pairs: &[KeyValue],
    groups: &[RowGroupMetaData],
) -> Result<(), ParquetError> {
    let Some(expected) = pairs.iter().find(|pair| pair.key == KEY) else { return Ok(()) };
    let expected = expected.value.as_deref().unwrap_or_default();
    let bytes = expected.split(' ').next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let mut read = Checksummed::new(io::sink());
    io::copy(&mut file.take(bytes), &mut read)?;
    match read.entry(groups).value.as_deref() {
        Some(found) if found == expected => Ok(()),
        _ => Err(ParquetError::General("it is damaged: its checksum is another one".to_owned())),
    }
}

/// The footer's description of the row groups, as a text.
fn description(groups: &[RowGroupMetaData]) -> String {
    let mut text = String::new();
    for group in groups {
        let _ = writeln!(text, "{}", group.num_rows());
        for column in group.columns() {
            let _ = writeln!(
                text,
                "{} {} {} {} {:?} {:?}",
                column.column_path(),
                column.num_values(),
                column.uncompressed_size(),
                column.compression(),
                column.byte_range(),
                column.dictionary_page_offset(),
            );
        }
    }
    text
}
