//! Reads a segment, or some of its columns: batch by batch in bounded memory, or one row group by its number.
//!
//! A segment comes from outside and may be damaged. Reading it ends with its samples or with a
//! [`SamplesError`], whatever its bytes are.

use std::any::Any;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use bytes::Bytes;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length, RowGroupReader, SerializedFileReader};

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
    let segment = SegmentReader::open(path)?;
    segment.verify()?;
    let mut columns = Columns::default();
    for index in 0..segment.row_group_count() {
        let mut batches = segment.batches(index, wanted)?;
        while guarded(path, || batches.next(&mut columns))? {
            see(&columns);
        }
    }
    Ok(())
}

/// A segment whose row groups are read one by one, by several threads if need be.
pub struct SegmentReader {
    path: PathBuf,
    file: PositionedFile,
    reader: SerializedFileReader<PositionedFile>,
}

impl SegmentReader {
    /// Opens a segment and reads its footer. Its content is not compared with its checksum: [`SegmentReader::verify`] does.
    ///
    /// # Errors
    /// If it is not a Parquet file, or has other columns.
    pub fn open(path: &Path) -> Result<SegmentReader, SamplesError> {
        let file = PositionedFile::new(regular_file::open(path)?);
        let reader = guarded(path, || open(file.clone()))?;
        Ok(SegmentReader { path: path.to_owned(), file, reader })
    }

    /// Reads the whole file and compares it with its checksum.
    ///
    /// # Errors
    /// If it is damaged or cannot be read.
    pub fn verify(&self) -> Result<(), SamplesError> {
        guarded(&self.path, || {
            let metadata = self.reader.metadata();
            let pairs = metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
            let file = PositionedRead { file: self.file.clone(), position: 0 };
            checksum::verify(file, pairs, metadata.row_groups())
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of row groups.
    pub fn row_group_count(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// The number of samples in a row group, as the footer says; panics if there is no such row group.
    pub fn row_count(&self, row_group: usize) -> u64 {
        self.reader.metadata().row_group(row_group).num_rows().max(0) as u64
    }

    /// Replaces `columns` by the wanted columns of a row group.
    ///
    /// # Errors
    /// If it is damaged or cannot be read.
    pub fn read(
        &self,
        row_group: usize,
        wanted: &[Column],
        columns: &mut Columns,
    ) -> Result<(), SamplesError> {
        let mut batches = self.batches(row_group, wanted)?;
        let count = batches.left;
        guarded(&self.path, || batches.take(count, columns)).map(drop)
    }

    fn batches(&self, row_group: usize, wanted: &[Column]) -> Result<Batches, SamplesError> {
        guarded(&self.path, || Batches::new(self.reader.get_row_group(row_group)?.as_ref(), wanted))
    }
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

/// A file that is read at positions, so that threads do not move each other's.
#[derive(Clone)]
pub(crate) struct PositionedFile(Arc<File>);

impl PositionedFile {
    pub fn new(file: File) -> PositionedFile {
        PositionedFile(Arc::new(file))
    }
}

/// Reads a [`PositionedFile`] from a position on.
pub(crate) struct PositionedRead {
    file: PositionedFile,
    position: u64,
}

impl Read for PositionedRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.0.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Length for PositionedFile {
    fn len(&self) -> u64 {
        self.0.metadata().map_or(0, |metadata| metadata.len())
    }
}

impl ChunkReader for PositionedFile {
    type T = BufReader<PositionedRead>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(PositionedRead { file: self.clone(), position: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut bytes = Vec::new();
        let read = PositionedRead { file: self.clone(), position: start };
        // A length that the file does not have makes no large buffer.
        read.take(length as u64).read_to_end(&mut bytes)?;
        match bytes.len() == length {
            true => Ok(bytes.into()),
            false => Err(general("it ends within a column")),
        }
    }
}

fn open(file: PositionedFile) -> Result<SerializedFileReader<PositionedFile>, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata().file_metadata();
    if metadata.schema().get_fields() != COLUMNS.get_fields() {
        return Err(general("it does not have the columns of samples"));
    }
    let version = metadata.key_value_metadata().into_iter().flatten().find(|pair| pair.key == VERSION_KEY);
    match version.and_then(|pair| pair.value.as_deref()) {
        Some(SAMPLES_VERSION) => Ok(reader),
        Some(other) => Err(general(&format!(
            "its samples have version {other}; this program reads version {SAMPLES_VERSION}"
        ))),
        None => Err(general("flashlab did not write it")),
    }
}

pub(crate) fn general(message: &str) -> ParquetError {
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
        self.take(self.left.min(BATCH), columns)
    }

    /// Replaces the content of `columns` by the next `count` samples; `false` if there are none.
    fn take(&mut self, count: u64, columns: &mut Columns) -> Result<bool, ParquetError> {
        columns.clear();
        let count = count as usize;
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
