//! The IOs of a view as a file: comma-separated values, Arrow IPC or Parquet, all with the columns of the table.
//!
//! # Invariants
//! - A file has at most about a million IOs, because it is made in memory; more are refused with advice.
//! - Numbers are numbers: 64 bits, signed, where the name ends in a unit. Every reader knows these types and encodings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
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

/// IOs by column.
#[derive(Default)]
struct ExportedColumns {
    run: Vec<i32>,
    process: Vec<i32>,
    position: Vec<i64>,
    mode: Vec<&'static str>,
    time_ns: Vec<i64>,
    offset_bytes: Vec<i64>,
    size_bytes: Vec<i64>,
    submission_delay_ns: Vec<i64>,
    response_ns: Vec<i64>,
    errno: Vec<i32>,
}

impl ExportedColumns {
    fn of(recording: &ViewedRecording, ios: &[(u32, Sample)]) -> ExportedColumns {
        let mut columns = ExportedColumns::default();
        for (run, sample) in ios {
            let since_intended = |time: u64| time.wrapping_sub(sample.intended.0) as i64;
            columns.run.push(*run as i32);
            columns.process.push(sample.process as i32);
            columns.position.push(sample.position as i64);
            columns.mode.push(table::mode(sample));
            columns.time_ns.push(table::time_ns(recording, sample));
            columns.offset_bytes.push(sample.offset.0 as i64);
            columns.size_bytes.push(sample.size.0 as i64);
            columns.submission_delay_ns.push(since_intended(sample.submitted.0));
            columns.response_ns.push(since_intended(sample.completed.0));
            columns.errno.push(sample.errno);
        }
        columns
    }
}

/// The type of a column by its name.
fn data_type(name: &str) -> DataType {
    match name {
        "mode" => DataType::Utf8,
        "run" | "process" | "errno" => DataType::Int32,
        _ => DataType::Int64,
    }
}

fn arrow<'a>(
    recording: &ViewedRecording,
    batches: impl Iterator<Item = ExportedBatch<'a>>,
) -> Result<Vec<u8>, ViewError> {
    let failed = |error: ArrowError| ViewError::Export(error.to_string());
    let fields: Vec<Field> = COLUMNS.iter().map(|&name| Field::new(name, data_type(name), false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut writer = FileWriter::try_new(Vec::new(), &schema).map_err(failed)?;
    for batch in batches {
        let own = ExportedColumns::of(recording, batch?);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(own.run)),
            Arc::new(Int32Array::from(own.process)),
            Arc::new(Int64Array::from(own.position)),
            Arc::new(StringArray::from(own.mode)),
            Arc::new(Int64Array::from(own.time_ns)),
            Arc::new(Int64Array::from(own.offset_bytes)),
            Arc::new(Int64Array::from(own.size_bytes)),
            Arc::new(Int64Array::from(own.submission_delay_ns)),
            Arc::new(Int64Array::from(own.response_ns)),
            Arc::new(Int32Array::from(own.errno)),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
    }
    writer.into_inner().map_err(failed)
}

static PARQUET_SCHEMA: LazyLock<TypePtr> = LazyLock::new(|| {
    let fields = COLUMNS.iter().map(|name| match data_type(name) {
        DataType::Utf8 => format!("required binary {name} (UTF8);"),
        DataType::Int32 => format!("required int32 {name};"),
        _ => format!("required int64 {name};"),
    });
    let message = format!("message ios {{ {} }}", fields.collect::<String>());
    Arc::new(parse_message_type(&message).expect("a test parses the schema"))
});

fn parquet<'a>(
    recording: &ViewedRecording,
    batches: impl Iterator<Item = ExportedBatch<'a>>,
) -> Result<Vec<u8>, ViewError> {
    let failed = |error: ParquetError| ViewError::Export(error.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("flashlab ", env!("CARGO_PKG_VERSION")).to_owned());
    let mut writer =
        SerializedFileWriter::new(Vec::new(), Arc::clone(&PARQUET_SCHEMA), Arc::new(properties.build()))
            .map_err(failed)?;
    for batch in batches {
        let columns = ExportedColumns::of(recording, batch?);
        let group = writer.next_row_group().map_err(failed)?;
        put(group, columns).map_err(failed)?;
    }
    writer.into_inner().map_err(failed)
}

/// Writes a row group.
fn put(
    mut group: SerializedRowGroupWriter<'_, Vec<u8>>,
    columns: ExportedColumns,
) -> Result<(), ParquetError> {
    let ExportedColumns { run, process, position, mode, time_ns, errno, .. } = columns;
    let texts: Vec<ByteArray> = mode.into_iter().map(ByteArray::from).collect();
    let mut narrow = [run, process, errno].into_iter();
    let mut wide = [
        position,
        time_ns,
        columns.offset_bytes,
        columns.size_bytes,
        columns.submission_delay_ns,
        columns.response_ns,
    ]
    .into_iter();
    for name in COLUMNS {
        let lacks = || ParquetError::General("the schema has another number of columns".to_owned());
        let mut column = group.next_column()?.ok_or_else(lacks)?;
        match data_type(name) {
            DataType::Utf8 => column.typed::<ByteArrayType>().write_batch(&texts, None, None)?,
            DataType::Int32 => {
                let values = narrow.next().ok_or_else(lacks)?;
                column.typed::<Int32Type>().write_batch(&values, None, None)?
            }
            _ => {
                let values = wide.next().ok_or_else(lacks)?;
                column.typed::<Int64Type>().write_batch(&values, None, None)?
            }
        };
        column.close()?;
    }
    group.close().map(drop)
}
