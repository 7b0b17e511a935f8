//! The IOs of a view as a file: comma-separated values, Arrow IPC or Parquet, all with the columns of the table.
//!
//! # Invariants
//! - A file has at most about a million IOs, because it is made in memory; more are refused with advice.
//! - Numbers are numbers: 64 bits, signed, where the name ends in a unit. Every reader knows these types and encodings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType};
use flashlab_base::Sample;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use crate::error::ViewError;
use crate::recording::ViewedRecording;
use crate::table::{self, COLUMNS};
use crate::view::View;

/// IOs of a batch or row group: a few MB.
const BATCH: usize = 1 << 16;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma-separated values.
    Csv,
    /// Arrow's IPC file, which is also called Feather.
    Arrow,
    /// Parquet.
    Parquet,
}

impl ExportFormat {
    /// By its name.
    ///
    /// # Errors
    /// [`ViewError::Query`] with the names that there are.
    pub fn named(name: &str) -> Result<ExportFormat, ViewError> {
        match name {
            "csv" => Ok(ExportFormat::Csv),
            "arrow" => Ok(ExportFormat::Arrow),
            "parquet" => Ok(ExportFormat::Parquet),
            _ => Err(ViewError::query("format", name, "csv, arrow or parquet")),
        }
    }

    /// What a browser is told that it is.
    pub fn media_type(self) -> &'static str {
        match self {
            ExportFormat::Csv => "text/csv; charset=utf-8",
            ExportFormat::Arrow => "application/vnd.apache.arrow.file",
            ExportFormat::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// The name under which a browser saves it.
    pub fn disposition(self) -> &'static str {
        match self {
            ExportFormat::Csv => "attachment; filename=\"flashlab-ios.csv\"",
            ExportFormat::Arrow => "attachment; filename=\"flashlab-ios.arrow\"",
            ExportFormat::Parquet => "attachment; filename=\"flashlab-ios.parquet\"",
        }
    }
}

/// All IOs of the view in the order of time, as a file.
///
/// # Errors
/// If samples are damaged, there are too many IOs, or `is_cancelled` was set.
pub fn export(
    recording: &ViewedRecording,
    view: &View,
    format: ExportFormat,
    is_cancelled: &AtomicBool,
) -> Result<Vec<u8>, ViewError> {
    let ios = table::all(recording, view, is_cancelled)?;
    let batches = ios
        .chunks(BATCH)
        .map(|some| if is_cancelled.load(Ordering::Relaxed) { Err(ViewError::Cancelled) } else { Ok(some) });
    match format {
        ExportFormat::Csv => csv(recording, batches),
        ExportFormat::Arrow => arrow(recording, batches),
        ExportFormat::Parquet => parquet(recording, batches),
    }
}

/// IOs with their runs.
type ExportedBatch<'a> = Result<&'a [(u32, Sample)], ViewError>;

fn csv<'a>(
    recording: &ViewedRecording,
    batches: impl Iterator<Item = ExportedBatch<'a>>,
) -> Result<Vec<u8>, ViewError> {
    let mut text = COLUMNS.join(",");
    text.push('\n');
    for batch in batches {
        for (run, sample) in batch? {
            let cells = table::row(recording, *run, sample);
            let cells = cells.as_array().map_or(&[][..], Vec::as_slice);
            let word =
                |cell: &serde_json::Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
            text.push_str(&cells.iter().map(word).collect::<Vec<String>>().join(","));
            text.push('\n');
        }
    }
    Ok(text.into_bytes())
}

/// IOs by the columns of the table.
fn by_column(recording: &ViewedRecording, ios: &[(u32, Sample)]) -> Result<RecordBatch, ArrowError> {
    fn of<'a, T, A: FromIterator<T> + Array + 'static>(
        ios: &'a [(u32, Sample)],
        value: impl Fn(u32, &'a Sample) -> T,
    ) -> ArrayRef {
        Arc::new(ios.iter().map(|(run, sample)| value(*run, sample)).collect::<A>())
    }
    let narrow = |value: &dyn Fn(u32, &Sample) -> i32| of::<_, Int32Array>(ios, value);
    let wide = |value: &dyn Fn(&Sample) -> i64| of::<_, Int64Array>(ios, |_, sample| value(sample));
    let columns = [
        narrow(&|run, _| run as i32),
        narrow(&|_, sample| sample.process as i32),
        wide(&|sample| sample.position as i64),
        Arc::new(StringArray::from_iter_values(ios.iter().map(|(_, sample)| table::mode(sample)))),
        wide(&|sample| table::time_ns(recording, sample)),
        wide(&|sample| sample.offset.0 as i64),
        wide(&|sample| sample.size.0 as i64),
        wide(&table::submission_delay_ns),
        wide(&table::response_ns),
        narrow(&|_, sample| sample.errno),
    ];
    RecordBatch::try_from_iter_with_nullable(
        COLUMNS.into_iter().zip(columns).map(|(name, column)| (name, column, false)),
    )
}

fn arrow<'a>(
    recording: &ViewedRecording,
    batches: impl Iterator<Item = ExportedBatch<'a>>,
) -> Result<Vec<u8>, ViewError> {
    let failed = |error: ArrowError| ViewError::Export(error.to_string());
    let schema = by_column(recording, &[]).map_err(failed)?.schema();
    let mut writer = FileWriter::try_new(Vec::new(), &schema).map_err(failed)?;
    for batch in batches {
        let batch = by_column(recording, batch?).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
    }
    writer.into_inner().map_err(failed)
}

/// The schema of Parquet for these columns.
fn parquet_schema(columns: &RecordBatch) -> Result<TypePtr, ParquetError> {
    let fields = columns.schema().fields().iter().fold(String::new(), |fields, field| {
        let (name, end) = (field.name(), if field.data_type() == &DataType::Utf8 { " (UTF8)" } else { "" });
        let kind = match field.data_type() {
            DataType::Utf8 => "binary",
            DataType::Int32 => "int32",
            _ => "int64",
        };
        format!("{fields}required {kind} {name}{end};")
    });
    Ok(Arc::new(parse_message_type(&format!("message ios {{ {fields} }}"))?))
}

fn parquet<'a>(
    recording: &ViewedRecording,
    batches: impl Iterator<Item = ExportedBatch<'a>>,
) -> Result<Vec<u8>, ViewError> {
    let failed = |error: ParquetError| ViewError::Export(error.to_string());
    let arrow_failed = |error: ArrowError| ViewError::Export(error.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("flashlab ", env!("CARGO_PKG_VERSION")).to_owned());
    let schema = parquet_schema(&by_column(recording, &[]).map_err(arrow_failed)?).map_err(failed)?;
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build())).map_err(failed)?;
    for batch in batches {
        let columns = by_column(recording, batch?).map_err(arrow_failed)?;
        let group = writer.next_row_group().map_err(failed)?;
        put(group, &columns).map_err(failed)?;
    }
    writer.into_inner().map_err(failed)
}

/// Writes a row group.
fn put(mut group: SerializedRowGroupWriter<'_, Vec<u8>>, columns: &RecordBatch) -> Result<(), ParquetError> {
    for values in columns.columns() {
        let lacks = || ParquetError::General("the schema has another number of columns".to_owned());
        let mut column = group.next_column()?.ok_or_else(lacks)?;
        match values.data_type() {
            DataType::Utf8 => {
                let texts: Vec<ByteArray> =
                    values.as_string::<i32>().iter().flatten().map(ByteArray::from).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, None, None)?
            }
            DataType::Int32 => {
                let values = values.as_primitive::<arrow_array::types::Int32Type>();
                column.typed::<Int32Type>().write_batch(values.values(), None, None)?
            }
            _ => {
                let values = values.as_primitive::<arrow_array::types::Int64Type>();
                column.typed::<Int64Type>().write_batch(values.values(), None, None)?
            }
        };
        column.close()?;
    }
    group.close().map(drop)
}
