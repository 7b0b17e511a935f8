//! Writes a segment: samples as one Parquet file.
//!
//! # Encodings
//! They were chosen by measurement (`cargo run --example encodings`), among those that readers of all kinds know: DuckDB since 1.1, pandas
//! with pyarrow or fastparquet, polars, Spark. So no BYTE_STREAM_SPLIT, which many know for floating-point numbers alone, and no brotli.
//! - Times differ from one IO to the next by about a response time. DELTA_BINARY_PACKED stores the difference
//!   in about that number of bits, and no compression makes it smaller.
//! - Offsets in order differ by the same step, and DELTA_BINARY_PACKED stores nearly nothing. Random ones have zero bits at both ends that
//!   zstd finds where numbers are whole bytes: PLAIN is 5 to 10 % smaller there. The first row group decides for its file.
//! - The other columns have few values, or count. Dictionaries, differences and zstd reduce them to nearly
//!   nothing.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;

use crate::SamplesError;
use crate::checksum::Checksummed;
use crate::columns::{COLUMNS, Columns, SAMPLES_VERSION, VERSION_KEY};
use flashlab_base::Sample;

/// Samples of a row group, which a reader unpacks together.
pub(crate) const ROW_GROUP: usize = 1 << 17;

/// A segment that is being written. The file gets its name when it is complete. An incomplete file is
/// removed.
pub(crate) struct SegmentFile {
    path: PathBuf,
    part: PathBuf,
    content: Content,
}

type Sink = Checksummed<BufWriter<File>>;

/// What a segment has so far.
enum Content {
    /// No row group, which decides the encodings.
    Nothing(Sink),
    RowGroups(SerializedFileWriter<Sink>),
    /// It was lost with an error, or is complete.
    Gone,
}

impl Content {
    /// The writer, which `columns` begin.
    fn writer(self, columns: &Columns) -> Result<SerializedFileWriter<Sink>, ParquetError> {
        match self {
            Content::Nothing(sink) => SerializedFileWriter::new(
                sink,
                Arc::clone(&COLUMNS),
                properties(steps_repeat(&columns.offset_bytes)),
            ),
            Content::RowGroups(writer) => Ok(writer),
            Content::Gone => {
                Err(ParquetError::General("the segment was lost with an error before".to_owned()))
            }
        }
    }
}

/// Whether most offsets follow the one before by the step that was made before.
fn steps_repeat(offsets: &[i64]) -> bool {
    let repeated = offsets.windows(3).filter(|three| three[2] - three[1] == three[1] - three[0]).count();
    2 * repeated >= offsets.len()
}

impl SegmentFile {
    pub fn create(path: &Path) -> Result<SegmentFile, SamplesError> {
        let part = path.with_extension("part");
        let mut segment = SegmentFile { path: path.to_owned(), part, content: Content::Gone };
        let file = File::create(&segment.part).map_err(|source| segment.failed(source))?;
        segment.content = Content::Nothing(Checksummed::new(BufWriter::with_capacity(1 << 18, file)));
        Ok(segment)
    }

    /// Writes the samples in `columns` in their order.
    pub fn row_group(&mut self, columns: &Columns) -> Result<(), SamplesError> {
        let written =
            mem::replace(&mut self.content, Content::Gone).writer(columns).and_then(|mut writer| {
                columns.write(writer.next_row_group()?)?;
                self.content = Content::RowGroups(writer);
                Ok(())
            });
        written.map_err(|error| self.failed(into_io(error)))
    }

    /// Gives the file its name; returns its length and the CRC-32 of its content.
    pub fn finish(mut self) -> Result<(u64, u32), SamplesError> {
        let close = |content: Content| {
            let mut writer = content.writer(&Columns::default()).map_err(into_io)?;
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
        let closed = close(mem::replace(&mut self.content, Content::Gone));
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

/// Those of files whose offsets advance in steps that repeat, or of others.
fn properties(steps_repeat: bool) -> Arc<WriterProperties> {
    static STEPS: LazyLock<Arc<WriterProperties>> =
        LazyLock::new(|| with_offsets(Encoding::DELTA_BINARY_PACKED));
    static OTHERS: LazyLock<Arc<WriterProperties>> = LazyLock::new(|| with_offsets(Encoding::PLAIN));
    Arc::clone(if steps_repeat { &STEPS } else { &OTHERS })
}

fn with_offsets(offsets: Encoding) -> Arc<WriterProperties> {
    let version = KeyValue::new(VERSION_KEY.to_owned(), SAMPLES_VERSION.to_owned());
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
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
        ("offset_bytes", offsets),
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
}
