//! Reads a segment, or some of its columns, in bounded memory.
//!
//! A segment comes from outside and may be damaged. Reading it ends with its samples or with a
//! [`SamplesError`], whatever its bytes are.

use std::any::Any;
use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use crate::columns::{COLUMNS, Column, Columns, SAMPLES_VERSION, VERSION_KEY, Values};
use crate::{SamplesError, checksum, regular_file};

/// How many samples form a batch.
const BATCH: u64 = 1 << 16;

/// Passes the samples of a segment to `see`, in batches, in bounded memory.
///
/// # Errors
/// If it is not a Parquet file, or has other columns. No content causes a panic.
pub fn for_each_batch(path: &Path, see: impl FnMut(&Columns)) -> Result<(), SamplesError> {
    for_each_batch_of(path, &Column::ALL, see)
}

/// As [`for_each_batch`], but reads only these columns; the others are empty. This is faster: the offset
/// alone is half of a segment's bytes.
///
/// # Errors
/// As [`for_each_batch`].
pub fn for_each_batch_of(
    path: &Path,
    wanted: &[Column],
    mut see: impl FnMut(&Columns),
) -> Result<(), SamplesError> {
    let file = regular_file::open(path)?;
    let reader = guarded(path, || open(file))?;
    let mut columns = Columns::default();
    for index in 0..reader.num_row_groups() {
        let mut batches = guarded(path, || Batches::new(reader.get_row_group(index)?.as_ref(), wanted))?;
        while guarded(path, || batches.next(&mut columns))? {
            see(&columns);
        }
    }
    Ok(())
}

/// Does one step of reading a file of samples.
fn guarded<T>(path: &Path, step: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, SamplesError> {
    read_guarded(step).map_err(|error| SamplesError::format(path, format!("no samples: {error}")))
}

/// Does one step of reading a Parquet file. The library returns most errors, but panics on some damaged files
/// (parquet 60.1: a negative length of a column, a split stream that is too short, a missing dictionary).
/// Here such a panic becomes the error of a damaged file.
///
/// # Errors
/// What the step returns, and that the file is damaged.
pub fn read_guarded<T>(step: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    // The reader is dropped with the error, so the state that a panic leaves behind does not matter.
    silently(|| catch_unwind(AssertUnwindSafe(step))).unwrap_or_else(|panic| {
        Err(ParquetError::General(format!("damaged: {}", panic_message(panic.as_ref()))))
    })
}

thread_local! {
    /// Whether a panic of this thread is expected and prints nothing.
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `step`, and prints no message and no backtrace if it panics.
fn silently<T>(step: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_SILENT.get() {
                told(panic);
            }
        }));
    });
    let before = IS_SILENT.replace(true);
    let result = step();
    IS_SILENT.set(before);
    result
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (_, Some(message)) => message,
        _ => "it cannot be decoded",
    }
}

fn open(mut file: File) -> Result<SerializedFileReader<File>, ParquetError> {
    let reader = SerializedFileReader::new(file.try_clone()?)?;
    let metadata = reader.metadata().file_metadata();
    if metadata.schema().get_fields() != COLUMNS.get_fields() {
        return Err(general("it does not have the columns of samples"));
    }
    let version = metadata.key_value_metadata().into_iter().flatten().find(|pair| pair.key == VERSION_KEY);
    match version.and_then(|pair| pair.value.as_deref()) {
        Some(SAMPLES_VERSION) => {
            let pairs = metadata.key_value_metadata().map_or(&[][..], Vec::as_slice);
            checksum::verify(&mut file, pairs, reader.metadata().row_groups())?;
            Ok(reader)
        }
        Some(other) => Err(general(&format!(
            "its samples have version {other}; this program reads version {SAMPLES_VERSION}"
        ))),
        None => Err(general("flashlab did not write it")),
    }
}

fn general(message: &str) -> ParquetError {
    ParquetError::General(message.to_owned())
}

struct Batches {
    readers: Vec<(Column, ColumnReader)>,
    /// The number of samples not yet passed on.
    left: u64,
    modes: Vec<ByteArray>,
}

impl Batches {
    fn new(group: &dyn RowGroupReader, wanted: &[Column]) -> Result<Batches, ParquetError> {
        let left = u64::try_from(group.metadata().num_rows())
            .map_err(|_| general("it claims a negative number of samples"))?;
        let readers = wanted
            .iter()
            .map(|&column| Ok((column, group.get_column_reader(column.index())?)))
            .collect::<Result<Vec<_>, ParquetError>>()?;
        Ok(Batches { readers, left, modes: Vec::new() })
    }

    /// Replaces the content of `columns`; `false` at the end.
    fn next(&mut self, columns: &mut Columns) -> Result<bool, ParquetError> {
        columns.clear();
        let count = self.left.min(BATCH) as usize;
        for (column, reader) in &mut self.readers {
            match (columns.values(*column), reader) {
                (Values::Int32(values), ColumnReader::Int32ColumnReader(reader)) => {
                    fill(reader, count, values)?;
                }
                (Values::Int64(values), ColumnReader::Int64ColumnReader(reader)) => {
                    fill(reader, count, values)?;
                }
                (Values::Modes(values), ColumnReader::ByteArrayColumnReader(reader)) => {
                    self.modes.clear();
                    fill(reader, count, &mut self.modes)?;
                    for mode in &self.modes {
                        values.push(is_write(mode.data())?);
                    }
                }
                _ => return Err(general("a column has another type than its schema says")),
            }
        }
        columns.length = count;
        self.left -= count as u64;
        Ok(count > 0)
    }
}

fn is_write(mode: &[u8]) -> Result<bool, ParquetError> {
    match mode {
        b"read" => Ok(false),
        b"write" => Ok(true),
        _ => Err(general("a mode is neither read nor write")),
    }
}

/// Reads the next `count` values of a column.
fn fill<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    values: &mut Vec<T::T>,
) -> Result<(), ParquetError> {
    while values.len() < count {
        let (records, _, _) = reader.read_records(count - values.len(), None, None, values)?;
        if records == 0 {
            return Err(general("a column ends before the others"));
        }
    }
    Ok(())
}
