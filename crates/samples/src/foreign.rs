//! Reads samples from Parquet files of other programs: pandas, polars, DuckDB, pyarrow, Spark.
//!
//! # Model
//! 1. Columns are found by their names (docs/formats.md), in any order, encoding and compression. Others are ignored.
//! 2. A whole number is read from any type that can have one; null is the default of its column.
//! 3. A row without a begin or a response time is no IO, and is left out.
//!
//! # Invariants
//! - Rows are read in batches: memory does not grow with the file.
//! - Nothing is guessed: an absent column has its default and is named in [`ForeignSamples::absent`], any other doubt is an error.

use std::path::{Path, PathBuf};

use flashlab_base::{Bytes, Mode, Nanos, Sample};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::columns::VERSION_KEY;
use crate::segment_reader::{PositionedFile, general, read_guarded};
use crate::{SamplesError, regular_file};

/// Rows that are read at once.
const BATCH: usize = 1 << 16;

/// The largest time of either sign, in nanoseconds: 73 years. Sums of times stay within 64 bits.
const TIME_MOST: i64 = 1 << 61;

/// The columns with numbers, by their names. The begin has two: in a run it counts from the device's clock, in an export of the page from the
/// first IO.
const NUMBERS: [(&str, &[&str]); 9] = [
    ("intended_ns", &["intended_ns", "time_ns"]),
    ("response_ns", &["response_ns"]),
    ("run", &["run"]),
    ("position", &["position"]),
    ("process", &["process"]),
    ("offset_bytes", &["offset_bytes"]),
    ("size_bytes", &["size_bytes"]),
    ("submission_delay_ns", &["submission_delay_ns"]),
    ("errno", &["errno"]),
];
/// The first ones, without which no IO can be shown.
const NEEDED: usize = 2;
const MODE: &str = "mode";

/// A Parquet file that may be from another program.
pub struct ForeignSamples {
    path: PathBuf,
    reader: SerializedFileReader<PositionedFile>,
    /// Where each of [`NUMBERS`] is, and how its numbers become nanoseconds or bytes.
    numbers: [Option<(usize, i64)>; NUMBERS.len()],
    mode: Option<usize>,
}

/// How the reading of a file ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForeignRows {
    /// Rows that are IOs.
    pub ios: u64,
    /// Rows without a begin or a response time.
    pub left_out: u64,
}

impl ForeignSamples {
    /// Opens a file and finds its columns; `None` if flashlab wrote it, whatever its version.
    ///
    /// # Errors
    /// If it is no Parquet file, or lacks a column without which no IO can be shown; or a column has a type that no number has.
    pub fn open(path: &Path) -> Result<Option<ForeignSamples>, SamplesError> {
        let file = PositionedFile::new(regular_file::open(path)?);
        let opened = read_guarded(|| {
            let reader = SerializedFileReader::new(file)?;
            let metadata = reader.metadata().file_metadata();
            let pairs = metadata.key_value_metadata().into_iter().flatten();
            if pairs.into_iter().any(|pair| pair.key == VERSION_KEY) {
                return Ok(None);
            }
            let columns = metadata.schema_descr().columns();
            let find = |names: &[&str]| {
                // Of a list or a structure the first part is the name.
                let found = names.iter().find_map(|name| {
                    columns
                        .iter()
                        .position(|column| column.path().parts().first().is_some_and(|first| first == name))
                });
                found.map(|at| flat(&columns[at]).map(|()| at)).transpose()
            };
            let mut numbers = [None; NUMBERS.len()];
            for (number, (_, names)) in numbers.iter_mut().zip(NUMBERS) {
                *number =
                    find(names)?.map(|at| Ok::<_, ParquetError>((at, factor(&columns[at])?))).transpose()?;
            }
            let mode = find(&[MODE])?;
            if let Some(column) = mode.map(|at| &columns[at])
                && column.physical_type() != Type::BYTE_ARRAY
            {
                return Err(general(
                    "its column mode is no text: it has to be `read` or `write` in each row",
                ));
            }
            Ok(Some((reader, numbers, mode)))
        });
        let Some((reader, numbers, mode)) = opened.map_err(|error| failed(path, &error))? else {
            return Ok(None);
        };
        let missing: Vec<&str> =
            (0..NEEDED).filter(|&at| numbers[at].is_none()).map(|at| NUMBERS[at].0).collect();
        if !missing.is_empty() {
            let message = format!(
                "has no column {}: samples need intended_ns and response_ns, in nanoseconds (docs/formats.md)",
                missing.join(" and no column ")
            );
            return Err(SamplesError::format(path, message));
        }
        Ok(Some(ForeignSamples { path: path.to_owned(), reader, numbers, mode }))
    }

    /// The columns that the file does not have: each IO has the default, which is a read, or 0, or its number in the file.
    pub fn absent(&self) -> Vec<&'static str> {
        let numbers = NUMBERS.iter().zip(&self.numbers).filter(|(_, found)| found.is_none());
        numbers.map(|((name, _), _)| *name).chain(self.mode.is_none().then_some(MODE)).collect()
    }

    /// The number of rows, as the footer says.
    pub fn row_count(&self) -> u64 {
        self.reader.metadata().file_metadata().num_rows().max(0) as u64
    }

    /// Passes each IO with the number of its run to `see`.
    ///
    /// # Errors
    /// If the file is damaged, or a value is none that a sample can have; or what `see` returns.
    pub fn each<E: From<SamplesError>>(
        &self,
        mut see: impl FnMut(u32, &Sample) -> Result<(), E>,
    ) -> Result<ForeignRows, E> {
        let mut rows = ForeignRows::default();
        let mut number = 0;
        for group in 0..self.reader.num_row_groups() {
            let mut batches =
                self.guarded(|| ForeignBatches::new(self, self.reader.get_row_group(group)?.as_ref()))?;
            loop {
                let count = self.guarded(|| batches.next())?;
                if count == 0 {
                    break;
                }
                for at in 0..count {
                    number += 1;
                    let sample = batches
                        .sample(at, number)
                        .map_err(|message| SamplesError::format(&self.path, message))?;
                    match sample {
                        Some((run, sample)) => {
                            rows.ios += 1;
                            see(run, &sample)?;
                        }
                        None => rows.left_out += 1,
                    }
                }
            }
        }
        Ok(rows)
    }

    fn guarded<T>(&self, step: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, SamplesError> {
        read_guarded(step).map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &ParquetError) -> SamplesError {
    SamplesError::format(path, format!("no samples: {error}"))
}

/// Refuses lists and structures.
fn flat(column: &ColumnDescriptor) -> Result<(), ParquetError> {
    match (column.max_rep_level(), column.max_def_level()) {
        (0, 0 | 1) => Ok(()),
        _ => {
            Err(general(&format!("its column {} has lists or structures in place of values", column.name())))
        }
    }
}

/// What a column's numbers are multiplied by.
fn factor(column: &ColumnDescriptor) -> Result<i64, ParquetError> {
    let wrong = |what: &str| {
        Err(general(&format!("its column {} has {what} in place of whole numbers", column.name())))
    };
    match column.physical_type() {
        Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE => {}
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => return wrong("text or decimals"),
        Type::BOOLEAN => return wrong("true and false"),
        Type::INT96 => return wrong("times of 96 bits"),
    }
    let of_unit = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => 1_000_000,
        TimeUnit::MICROS => 1000,
        TimeUnit::NANOS => 1,
    };
    match column.logical_type_ref() {
        Some(LogicalType::Timestamp(of) | LogicalType::Time(of)) => return Ok(of_unit(&of.unit)),
        Some(LogicalType::Decimal(of)) if of.scale != 0 => return wrong("decimals"),
        Some(LogicalType::Date) => return wrong("dates"),
        _ => {}
    }
    Ok(match column.converted_type() {
        ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIME_MILLIS => 1_000_000,
        ConvertedType::TIMESTAMP_MICROS | ConvertedType::TIME_MICROS => 1000,
        _ => 1,
    })
}

/// A column while it is read.
struct ForeignColumn {
    reader: ColumnReader,
    is_optional: bool,
    is_unsigned: bool,
    factor: i64,
    levels: Vec<i16>,
    /// The values of the batch; `None` for null.
    values: Vec<Option<i64>>,
}

struct ForeignBatches {
    left: usize,
    numbers: [Option<ForeignColumn>; NUMBERS.len()],
    mode: Option<ForeignColumn>,
}

impl ForeignBatches {
    fn new(file: &ForeignSamples, group: &dyn RowGroupReader) -> Result<ForeignBatches, ParquetError> {
        let open = |at: usize, factor: i64| {
            let column = group.metadata().column(at).column_descr();
            Ok::<_, ParquetError>(ForeignColumn {
                reader: group.get_column_reader(at)?,
                is_optional: column.max_def_level() > 0,
                is_unsigned: is_unsigned(column),
                factor,
                levels: Vec::new(),
                values: Vec::new(),
            })
        };
        let mut numbers = [const { None }; NUMBERS.len()];
        for (number, found) in numbers.iter_mut().zip(&file.numbers) {
            *number = found.map(|(at, factor)| open(at, factor)).transpose()?;
        }
        let left = usize::try_from(group.metadata().num_rows())
            .map_err(|_| general("it claims a negative number of rows"))?;
        Ok(ForeignBatches { left, numbers, mode: file.mode.map(|at| open(at, 1)).transpose()? })
    }

    /// Reads the next rows; 0 at the end.
    fn next(&mut self) -> Result<usize, ParquetError> {
        let count = self.left.min(BATCH);
        self.left -= count;
        if count > 0 {
            for column in self.numbers.iter_mut().flatten().chain(&mut self.mode) {
                column.next(count)?;
            }
        }
        Ok(count)
    }

    /// The IO of a row of the batch, whose number in the file is `number`; `None` if the row is no IO.
    fn sample(&self, at: usize, number: u64) -> Result<Option<(u32, Sample)>, String> {
        let value = |column: usize| self.numbers[column].as_ref().and_then(|column| column.values[at]);
        let (Some(intended), Some(response)) = (value(0), value(1)) else { return Ok(None) };
        let times = [intended, response, value(7).unwrap_or(0)];
        if let Some(time) = times.into_iter().find(|time| !(-TIME_MOST..=TIME_MOST).contains(time)) {
            return Err(format!("row {number}: a time is {time} ns, and at most 73 years can be shown"));
        }
        let positive = |column: usize, most: i64| match value(column).unwrap_or(0) {
            value if (0..=most).contains(&value) => Ok(value as u64),
            value => {
                Err(format!("row {number}: {} is {value}, and must be from 0 to {most}", NUMBERS[column].0))
            }
        };
        let (run, process) = (positive(2, i64::from(i32::MAX))?, positive(4, i64::from(i32::MAX))?);
        let (offset, size) = (positive(5, i64::MAX)?, positive(6, i64::MAX)?);
        let position = match value(3) {
            None => number - 1,
            Some(_) => positive(3, i64::MAX)?,
        };
        let errno = i32::try_from(value(8).unwrap_or(0))
            .map_err(|_| format!("row {number}: errno is no number of an error"))?;
        let is_write = self.mode.as_ref().and_then(|column| column.values[at]).unwrap_or(0) != 0;
        let since_intended = |delay: i64| Nanos((intended as u64).wrapping_add(delay as u64));
        let sample = Sample {
            position,
            process: process as u32,
            mode: if is_write { Mode::Write } else { Mode::Read },
            offset: Bytes(offset),
            size: Bytes(size),
            intended: Nanos(intended as u64),
            submitted: since_intended(value(7).unwrap_or(0)),
            completed: since_intended(response),
            errno,
        };
        Ok(Some((run as u32, sample)))
    }
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    let is_logically = matches!(column.logical_type_ref(), Some(LogicalType::Integer(of)) if !of.is_signed);
    use ConvertedType::{UINT_8, UINT_16, UINT_32, UINT_64};
    is_logically || matches!(column.converted_type(), UINT_8 | UINT_16 | UINT_32 | UINT_64)
}

impl ForeignColumn {
    fn next(&mut self, count: usize) -> Result<(), ParquetError> {
        let ForeignColumn { reader, is_optional, is_unsigned, factor, levels, values } = self;
        let (is_optional, is_unsigned, factor) = (*is_optional, *is_unsigned, *factor);
        values.clear();
        levels.clear();
        let scaled = |value: i64| {
            value.checked_mul(factor).ok_or_else(|| general("a time is beyond 64 bits of nanoseconds"))
        };
        let whole = |value: f64| match value {
            value if value.is_nan() => Ok(None),
            // Larger whole numbers are no longer exact.
            value if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 => {
                scaled(value as i64).map(Some)
            }
            value => Err(general(&format!("{value} is no whole number"))),
        };
        match reader {
            ColumnReader::Int32ColumnReader(reader) => {
                fill(reader, count, is_optional, levels, values, |&value| {
                    scaled(if is_unsigned { i64::from(value as u32) } else { i64::from(value) }).map(Some)
                })
            }
            ColumnReader::Int64ColumnReader(reader) => {
                fill(reader, count, is_optional, levels, values, |&value| match is_unsigned && value < 0 {
                    true => Err(general("a number is larger than 63 bits")),
                    false => scaled(value).map(Some),
                })
            }
            ColumnReader::FloatColumnReader(reader) => {
                fill(reader, count, is_optional, levels, values, |&value| whole(f64::from(value)))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                fill(reader, count, is_optional, levels, values, |&value| whole(value))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                fill(reader, count, is_optional, levels, values, |mode: &ByteArray| match mode.data() {
                    b"read" | b"Read" | b"READ" | b"r" | b"R" => Ok(Some(0)),
                    b"write" | b"Write" | b"WRITE" | b"w" | b"W" => Ok(Some(1)),
                    other => {
                        let found: String = String::from_utf8_lossy(other).chars().take(20).collect();
                        Err(general(&format!("the mode `{found}` is neither read nor write")))
                    }
                })
            }
            _ => Err(general("a column has another type than its schema says")),
        }
    }
}

/// Reads the next `count` rows of a column into `found`.
fn fill<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    is_optional: bool,
    levels: &mut Vec<i16>,
    found: &mut Vec<Option<i64>>,
    convert: impl Fn(&T::T) -> Result<Option<i64>, ParquetError>,
) -> Result<(), ParquetError> {
    let (mut values, mut rows) = (Vec::new(), 0);
    while rows < count {
        let more = is_optional.then_some(&mut *levels);
        let (records, _, _) = reader.read_records(count - rows, more, None, &mut values)?;
        if records == 0 {
            return Err(general("a column ends before the others"));
        }
        rows += records;
    }
    let mut values = values.iter();
    let lacks = || general("a column has fewer values than its nulls say");
    for row in 0..count {
        let is_null = is_optional && levels.get(row).ok_or_else(lacks)? == &0;
        found.push(if is_null { None } else { convert(values.next().ok_or_else(lacks)?)? });
    }
    Ok(())
}
