//! A segment: some samples as one Parquet file.
//!
//! Columns are plain numbers with their unit in the name, so that DuckDB, pandas and polars read
//! them as they are (docs/formats.md). Durations are kept beside one absolute time, because three
//! absolute times would be as many incompressible numbers:
//! - submission = `intended_ns + submission_delay_ns`
//! - completion = `intended_ns + response_ns`

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use flashlab_base::{Bytes, Mode, Nanos};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

use crate::{Sample, SamplesError};

/// The version of the columns, kept in the file's metadata.
const SAMPLES_VERSION: &str = "1";

const SCHEMA: &str = "message samples {
    required int32 run;
    required int64 position;
    required int32 process;
    required binary mode (UTF8);
    required int64 offset_bytes;
    required int64 size_bytes;
    required int64 intended_ns;
    required int64 submission_delay_ns;
    required int64 response_ns;
    required int32 errno;
}";

static COLUMNS: LazyLock<TypePtr> =
    LazyLock::new(|| Arc::new(parse_message_type(SCHEMA).expect("a test parses the schema")));

/// Samples by column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Position in the process's pattern.
    pub position: Vec<i64>,
    /// Process.
    pub process: Vec<i32>,
    /// Whether the IO wrote.
    pub write: Vec<bool>,
    /// Offset in bytes.
    pub offset_bytes: Vec<i64>,
    /// Size in bytes.
    pub size_bytes: Vec<i64>,
    /// Intended start in nanoseconds of the device's clock.
    pub intended_ns: Vec<i64>,
    /// Submission after the intended start, in nanoseconds.
    pub submission_delay_ns: Vec<i64>,
    /// Completion after the intended start, in nanoseconds.
    pub response_ns: Vec<i64>,
    /// 0, or the error number.
    pub errno: Vec<i32>,
}

impl Columns {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.position.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the samples and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.position.clear();
        self.process.clear();
        self.write.clear();
        self.offset_bytes.clear();
        self.size_bytes.clear();
        self.intended_ns.clear();
        self.submission_delay_ns.clear();
        self.response_ns.clear();
        self.errno.clear();
    }

    /// Adds a sample.
    pub(crate) fn push(&mut self, sample: &Sample) {
        self.position.push(sample.position as i64);
        self.process.push(sample.process as i32);
        self.write.push(sample.mode.is_write());
        self.offset_bytes.push(sample.offset.0 as i64);
        self.size_bytes.push(sample.size.0 as i64);
        self.intended_ns.push(sample.intended.0 as i64);
        self.submission_delay_ns.push(sample.submitted.since(sample.intended).0 as i64);
        self.response_ns.push(sample.response().0 as i64);
        self.errno.push(sample.errno);
    }

    /// Sample `index`. Panics past the end.
    pub fn sample(&self, index: usize) -> Sample {
        let intended = self.intended_ns[index] as u64;
        Sample {
            position: self.position[index] as u64,
            process: self.process[index] as u32,
            mode: if self.write[index] { Mode::Write } else { Mode::Read },
            offset: Bytes(self.offset_bytes[index] as u64),
            size: Bytes(self.size_bytes[index] as u64),
            intended: Nanos(intended),
            submitted: Nanos(intended.wrapping_add(self.submission_delay_ns[index] as u64)),
            completed: Nanos(intended.wrapping_add(self.response_ns[index] as u64)),
            errno: self.errno[index],
        }
    }

    /// Writes the samples as a file of their own. It appears under its name when it is whole.
    pub(crate) fn write(&self, run: u32, path: &Path) -> Result<(), SamplesError> {
        let part = path.with_extension("part");
        let written = self.write_file(run, &part).and_then(|()| fs::rename(&part, path));
        written.map_err(|source| {
            // The part is worth nothing, and on a full disk its room is.
            let _ = fs::remove_file(&part);
            SamplesError::io("write samples to", path, source)
        })
    }

    fn write_file(&self, run: u32, path: &Path) -> io::Result<()> {
        let file = io::BufWriter::with_capacity(1 << 18, File::create(path)?);
        let mut writer =
            SerializedFileWriter::new(file, Arc::clone(&COLUMNS), properties()).map_err(into_io)?;
        self.write_row_group(run, writer.next_row_group().map_err(into_io)?).map_err(into_io)?;
        writer.finish().map_err(into_io)?;
        io::Write::flush(writer.inner_mut())
    }

    fn write_row_group<W: io::Write + Send>(
        &self,
        run: u32,
        mut group: SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let read_or_write = [ByteArray::from("read"), ByteArray::from("write")];
        let modes: Vec<ByteArray> =
            self.write.iter().map(|&write| read_or_write[usize::from(write)].clone()).collect();
        put::<Int32Type, W>(&mut group, &vec![run as i32; self.len()])?;
        put::<Int64Type, W>(&mut group, &self.position)?;
        put::<Int32Type, W>(&mut group, &self.process)?;
        put::<ByteArrayType, W>(&mut group, &modes)?;
        put::<Int64Type, W>(&mut group, &self.offset_bytes)?;
        put::<Int64Type, W>(&mut group, &self.size_bytes)?;
        put::<Int64Type, W>(&mut group, &self.intended_ns)?;
        put::<Int64Type, W>(&mut group, &self.submission_delay_ns)?;
        put::<Int64Type, W>(&mut group, &self.response_ns)?;
        put::<Int32Type, W>(&mut group, &self.errno)?;
        group.close().map(drop)
    }
}

/// Writes the next column.
fn put<T: DataType, W: io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("no such column".into()))?;
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
        let version = KeyValue::new("flashlab.samples".to_owned(), SAMPLES_VERSION.to_owned());
        let mut builder = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_key_value_metadata(Some(vec![version]))
            .set_data_page_size_limit(1 << 20)
            .set_created_by(concat!("flashlab ", env!("CARGO_PKG_VERSION")).to_owned());
        // Times and positions differ little from one IO to the next; the other columns take few values
        // each, which a dictionary turns into next to nothing.
        for (name, encoding) in [
            ("position", Encoding::DELTA_BINARY_PACKED),
            ("offset_bytes", Encoding::PLAIN),
            ("intended_ns", Encoding::DELTA_BINARY_PACKED),
            ("submission_delay_ns", Encoding::DELTA_BINARY_PACKED),
            ("response_ns", Encoding::DELTA_BINARY_PACKED),
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

/// Shows the samples of a segment in batches, in bounded memory.
///
/// # Errors
/// When it is no Parquet file, or not one with these columns. Nothing in it makes this panic.
pub fn for_each_batch(path: &Path, mut see: impl FnMut(&Columns)) -> Result<(), SamplesError> {
    let wrong = |error: ParquetError| SamplesError::format(path, format!("no samples: {error}"));
    let file = File::open(path).map_err(|source| SamplesError::io("open", path, source))?;
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let schema = reader.metadata().file_metadata().schema();
    if schema.get_fields() != COLUMNS.get_fields() {
        return Err(SamplesError::format(path, "its columns are not those of samples"));
    }
    let mut columns = Columns::default();
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index).map_err(wrong)?;
        let mut batches = Batches::new(group.as_ref()).map_err(wrong)?;
        while batches.next(&mut columns).map_err(wrong)? {
            see(&columns);
        }
    }
    Ok(())
}

/// How many samples are shown at once.
const BATCH: usize = 1 << 16;

struct Batches {
    position: ColumnReaderImpl<Int64Type>,
    process: ColumnReaderImpl<Int32Type>,
    mode: ColumnReaderImpl<ByteArrayType>,
    offset_bytes: ColumnReaderImpl<Int64Type>,
    size_bytes: ColumnReaderImpl<Int64Type>,
    intended_ns: ColumnReaderImpl<Int64Type>,
    submission_delay_ns: ColumnReaderImpl<Int64Type>,
    response_ns: ColumnReaderImpl<Int64Type>,
    errno: ColumnReaderImpl<Int32Type>,
    modes: Vec<ByteArray>,
}

impl Batches {
    fn new(group: &dyn RowGroupReader) -> Result<Batches, ParquetError> {
        let int64 = |index| match group.get_column_reader(index)? {
            ColumnReader::Int64ColumnReader(reader) => Ok(reader),
            _ => Err(ParquetError::General(format!("column {index} has another type"))),
        };
        let int32 = |index| match group.get_column_reader(index)? {
            ColumnReader::Int32ColumnReader(reader) => Ok(reader),
            _ => Err(ParquetError::General(format!("column {index} has another type"))),
        };
        let text = |index| match group.get_column_reader(index)? {
            ColumnReader::ByteArrayColumnReader(reader) => Ok(reader),
            _ => Err(ParquetError::General(format!("column {index} has another type"))),
        };
        Ok(Batches {
            position: int64(1)?,
            process: int32(2)?,
            mode: text(3)?,
            offset_bytes: int64(4)?,
            size_bytes: int64(5)?,
            intended_ns: int64(6)?,
            submission_delay_ns: int64(7)?,
            response_ns: int64(8)?,
            errno: int32(9)?,
            modes: Vec::new(),
        })
    }

    /// Replaces what is in `columns`; `false` at the end.
    fn next(&mut self, columns: &mut Columns) -> Result<bool, ParquetError> {
        columns.clear();
        self.modes.clear();
        fill(&mut self.position, &mut columns.position)?;
        fill(&mut self.process, &mut columns.process)?;
        fill(&mut self.mode, &mut self.modes)?;
        fill(&mut self.offset_bytes, &mut columns.offset_bytes)?;
        fill(&mut self.size_bytes, &mut columns.size_bytes)?;
        fill(&mut self.intended_ns, &mut columns.intended_ns)?;
        fill(&mut self.submission_delay_ns, &mut columns.submission_delay_ns)?;
        fill(&mut self.response_ns, &mut columns.response_ns)?;
        fill(&mut self.errno, &mut columns.errno)?;
        columns.write.extend(self.modes.iter().map(|mode| mode.data() == b"write"));
        let lengths = [
            columns.process.len(),
            columns.write.len(),
            columns.offset_bytes.len(),
            columns.size_bytes.len(),
            columns.intended_ns.len(),
            columns.submission_delay_ns.len(),
            columns.response_ns.len(),
            columns.errno.len(),
        ];
        if lengths.iter().any(|&length| length != columns.len()) {
            return Err(ParquetError::General("its columns are not of the same length".to_owned()));
        }
        Ok(!columns.is_empty())
    }
}

/// Reads the next batch of a column.
fn fill<T: DataType>(reader: &mut ColumnReaderImpl<T>, values: &mut Vec<T::T>) -> Result<(), ParquetError> {
    while values.len() < BATCH {
        let (records, _, _) = reader.read_records(BATCH - values.len(), None, None, values)?;
        if records == 0 {
            break;
        }
    }
    Ok(())
}
