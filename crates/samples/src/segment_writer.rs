//! Writing a segment: some samples as one Parquet file.
//!
//! # Encodings
//! Chosen by measurement (`cargo run --example encodings`), each readable by DuckDB, pandas and
//! polars:
//! - times differ from one IO to the next by about a response time, which DELTA_BINARY_PACKED
//!   writes in about as many bits as it has; nothing compresses those further;
//! - random offsets have as many random bits as the target has blocks, and zeros beside them:
//!   BYTE_STREAM_SPLIT sorts the bytes by their place, and brotli leaves the zeros out where zstd
//!   looks for repetitions that are not there;
//! - the other columns take few values each, or count: dictionaries and differences make them next
//!   to nothing, together with zstd.

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

use crate::SamplesError;
use crate::checksum::Checksummed;
use crate::columns::{COLUMNS, Columns, SAMPLES_VERSION, VERSION_KEY};

/// Lower levels take more room for offsets, and higher ones take no less.
const OFFSET_BROTLI_LEVEL: u32 = 4;

/// A segment that is being written. It appears under its name when it is whole, and leaves nothing when
/// it is not.
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

    /// Writes the samples in `columns`, which are not sorted any further.
    pub fn row_group(&mut self, run: u32, columns: &Columns) -> Result<(), SamplesError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let written = writer.next_row_group().and_then(|group| columns.write(run, group));
        written.map_err(|error| self.failed(into_io(error)))
    }

    pub fn finish(mut self) -> Result<(), SamplesError> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        let close = || {
            // What the library still keeps is not in the checksum yet.
            writer.flush()?;
            let checksum = writer.inner().entry(writer.flushed_row_groups());
            writer.append_key_value_metadata(checksum);
            writer.into_inner().map_err(into_io)?.into_inner().flush()
        };
        let closed = close();
        closed.and_then(|()| fs::rename(&self.part, &self.path)).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> SamplesError {
        SamplesError::io("write samples to", &self.path, source)
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        // After a rename there is no part. One that was not finished is worth nothing, and on a full disk
        // its room is.
        let _ = fs::remove_file(&self.part);
    }
}

impl Columns {
    fn write<W: io::Write + Send>(
        &self,
        run: u32,
        mut group: SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        put::<Int32Type, W>(&mut group, &vec![run as i32; self.len()])?;
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

    /// Writes the column of modes, a little at a time: a text for each sample takes much memory.
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

/// Keeps the operating system's reason, as that the disk is full, where there is one.
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
            // Readers skip the segments of other runs by them; for the rest they are not worth the room.
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
