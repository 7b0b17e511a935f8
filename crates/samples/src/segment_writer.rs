//! Writes a segment: samples as one Parquet file.
//!
//! # Encodings
//! They were chosen by measurement (`cargo run --example encodings`). DuckDB, pandas and polars can read each
//! of them:
//! - Times differ from one IO to the next by about a response time. DELTA_BINARY_PACKED stores the difference
//!   in about that number of bits, and no compression makes it smaller.
//! - Random offsets have some random bits and many zero bits. BYTE_STREAM_SPLIT groups the bytes by their
//!   position in the number. Then brotli removes the zeros; zstd does it less well.
//! - The other columns have few values, or count. Dictionaries, differences and zstd reduce them to nearly
//!   nothing.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parquet::basic::{BrotliLevel, Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;

use crate::checksum::Checksummed;
use crate::columns::{COLUMNS, Columns, SAMPLES_VERSION, VERSION_KEY};
use crate::{Sample, SamplesError};

/// Lower levels make offsets larger, and higher levels do not make them smaller.
const OFFSET_BROTLI_LEVEL: u32 = 4;
/// Samples of a row group, which a reader unpacks together.
pub(crate) const ROW_GROUP: usize = 1 << 17;

/// A segment that is being written. The file gets its name when it is complete. An incomplete file is
/// removed.
pub(crate) struct SegmentFile {
    path: PathBuf,
    part: PathBuf,
    writer: Option<SerializedFileWriter<Checksummed<BufWriter<File>>>>,
}

impl SegmentFile {
    pub fn create(path: &Path) -> Result<SegmentFile, SamplesError> {
        let part = path.with_extension("part");
        let mut segment = SegmentFile { path: path.to_owned(), part, writer: None };
        let created = File::create(&segment.part).and_then(|file| {
            let file = Checksummed::new(BufWriter::with_capacity(1 << 18, file));
            SerializedFileWriter::new(file, Arc::clone(&COLUMNS), properties()).map_err(into_io)
        });
        segment.writer = Some(created.map_err(|source| segment.failed(source))?);
        Ok(segment)
    }

    /// Writes the samples in `columns` in their order.
    pub fn row_group(&mut self, columns: &Columns) -> Result<(), SamplesError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let written = writer.next_row_group().and_then(|group| columns.write(group));
        written.map_err(|error| self.failed(into_io(error)))
    }

    /// Gives the file its name; returns its length and the CRC-32 of its content.
    pub fn finish(mut self) -> Result<(u64, u32), SamplesError> {
        let Some(mut writer) = self.writer.take() else { return Ok((0, 0)) };
        let close = || {
            // Bytes that the library still buffers are not in the checksum yet.
            writer.flush()?;
            let checksum = writer.inner().entry(writer.flushed_row_groups());
            writer.append_key_value_metadata(checksum);
            let file = writer.into_inner().map_err(into_io)?;
            let written = file.written();
            file.into_inner().flush()?;
            fs::rename(&self.part, &self.path)?;
            Ok(written)
        };
        let closed = close();
        closed.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> SamplesError {
        SamplesError::io("write samples to", &self.path, source)
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        // After the rename this file does not exist. An incomplete one is useless, and a full disk needs the
        // space.
        let _ = fs::remove_file(&self.part);
    }
}

/// Writes a segment with several runs, which are so short that a file for each would be mostly footer. Returns its length and the
/// CRC-32 of its content.
pub(crate) fn write_short_runs(
    path: &Path,
    runs: &[&(u32, Vec<Sample>)],
) -> Result<(u64, u32), SamplesError> {
    let mut file = SegmentFile::create(path)?;
    let mut columns = Columns::default();
    for (run, samples) in runs {
        let mut samples = samples.clone();
        samples.sort_unstable_by_key(|sample| (sample.process, sample.position));
        for sample in &samples {
            columns.push(*run, sample);
            if columns.len() == ROW_GROUP {
                file.row_group(&columns)?;
                columns.clear();
            }
        }
    }
    if !columns.is_empty() {
        file.row_group(&columns)?;
    }
    file.finish()
}

impl Columns {
    fn write<W: io::Write + Send>(
        &self,
        mut group: SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        put::<Int32Type, W>(&mut group, &self.run)?;
        put::<Int64Type, W>(&mut group, &self.position)?;
        put::<Int32Type, W>(&mut group, &self.process)?;
        self.put_modes(&mut group)?;
        put::<Int64Type, W>(&mut group, &self.offset_bytes)?;
        put::<Int64Type, W>(&mut group, &self.size_bytes)?;
        put::<Int64Type, W>(&mut group, &self.intended_ns)?;
        put::<Int64Type, W>(&mut group, &self.submission_delay_ns)?;
        put::<Int64Type, W>(&mut group, &self.response_ns)?;
        put::<Int32Type, W>(&mut group, &self.errno)?;
        group.close().map(drop)
    }

    /// Writes the column of modes in small batches: a text for each sample takes much memory.
    fn put_modes<W: io::Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        const AT_ONCE: usize = 4096;
        let read_or_write = [ByteArray::from("read"), ByteArray::from("write")];
        let mut column = next_column(group)?;
        let mut modes = Vec::with_capacity(AT_ONCE);
        for some in self.write.chunks(AT_ONCE) {
            modes.clear();
            modes.extend(some.iter().map(|&write| read_or_write[usize::from(write)].clone()));
            column.typed::<ByteArrayType>().write_batch(&modes, None, None)?;
        }
        column.close()
    }
}

fn next_column<'a, W: io::Write + Send>(
    group: &'a mut SerializedRowGroupWriter<'_, W>,
) -> Result<SerializedColumnWriter<'a>, ParquetError> {
    group.next_column()?.ok_or_else(|| ParquetError::General("the schema has fewer columns".to_owned()))
}

/// Writes the next column.
fn put<T: DataType, W: io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let mut column = next_column(group)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

/// Keeps the operating system's reason, for example that the disk is full.
fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}

fn properties() -> Arc<WriterProperties> {
    static PROPERTIES: LazyLock<Arc<WriterProperties>> = LazyLock::new(|| {
        let version = KeyValue::new(VERSION_KEY.to_owned(), SAMPLES_VERSION.to_owned());
        let brotli = BrotliLevel::try_new(OFFSET_BROTLI_LEVEL).expect("brotli has levels up to 11");
        let mut builder = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_column_compression(ColumnPath::from("offset_bytes"), Compression::BROTLI(brotli))
            // Readers use the statistics of this column to skip other runs. For other columns they are not
            // worth their size.
            .set_statistics_enabled(EnabledStatistics::None)
            .set_column_statistics_enabled(ColumnPath::from("run"), EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(vec![version]))
            .set_data_page_size_limit(1 << 20)
            .set_created_by(concat!("flashlab ", env!("CARGO_PKG_VERSION")).to_owned());
        for (name, encoding) in [
            ("run", Encoding::DELTA_BINARY_PACKED),
            ("position", Encoding::DELTA_BINARY_PACKED),
            ("process", Encoding::DELTA_BINARY_PACKED),
            ("offset_bytes", Encoding::BYTE_STREAM_SPLIT),
            ("intended_ns", Encoding::DELTA_BINARY_PACKED),
            ("submission_delay_ns", Encoding::DELTA_BINARY_PACKED),
            ("response_ns", Encoding::DELTA_BINARY_PACKED),
            ("errno", Encoding::DELTA_BINARY_PACKED),
        ] {
            let column = ColumnPath::from(name);
            builder = builder
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, encoding);
        }
        Arc::new(builder.build())
    });
    Arc::clone(&PROPERTIES)
}
