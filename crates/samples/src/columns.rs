//! Samples by column: the only definition of a segment's columns.
//!
//! Columns are plain numbers with their unit in the name, so that DuckDB, pandas and polars can read them
//! (docs/formats.md). Only one time is absolute and the others count from it, because three absolute times
//! would be three incompressible numbers:
//! - submission = `intended_ns + submission_delay_ns`
//! - completion = `intended_ns + response_ns`

use std::sync::{Arc, LazyLock};

use flashlab_base::{Bytes, Mode, Nanos, Sample};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

/// The version of the columns, kept in the file's metadata.
pub(crate) const SAMPLES_VERSION: &str = "1";
/// The metadata's key for it.
pub(crate) const VERSION_KEY: &str = "flashlab.samples";

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

pub(crate) static COLUMNS: LazyLock<TypePtr> =
    LazyLock::new(|| Arc::new(parse_message_type(SCHEMA).expect("a test parses the schema")));

/// A column of [`Columns`], for readers that need only some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// `run`
    Run,
    /// `position`
    Position,
    /// `process`
    Process,
    /// `mode`
    Mode,
    /// `offset_bytes`
    Offset,
    /// `size_bytes`
    Size,
    /// `intended_ns`
    Intended,
    /// `submission_delay_ns`
    SubmissionDelay,
    /// `response_ns`
    Response,
    /// `errno`
    Errno,
}

impl Column {
    /// Every column, in the order of the file.
    pub const ALL: [Column; 10] = [
        Column::Run,
        Column::Position,
        Column::Process,
        Column::Mode,
        Column::Offset,
        Column::Size,
        Column::Intended,
        Column::SubmissionDelay,
        Column::Response,
        Column::Errno,
    ];

    /// Its index in the file.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// Samples by column. A column that was not requested is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    pub(crate) length: usize,
    /// The run's number.
    pub run: Vec<i32>,
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

/// The values of one column, by their type.
pub(crate) enum Values<'a> {
    Int32(&'a mut Vec<i32>),
    Int64(&'a mut Vec<i64>),
    Modes(&'a mut Vec<bool>),
}

impl Columns {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Removes the samples and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
        for column in Column::ALL {
            match self.values(column) {
                Values::Int32(values) => values.clear(),
                Values::Int64(values) => values.clear(),
                Values::Modes(values) => values.clear(),
            }
        }
    }

    /// Adds a sample of a run.
    pub(crate) fn push(&mut self, run: u32, sample: &Sample) {
        self.length += 1;
        self.run.push(run as i32);
        self.position.push(sample.position as i64);
        self.process.push(sample.process as i32);
        self.write.push(sample.mode.is_write());
        self.offset_bytes.push(sample.offset.0 as i64);
        self.size_bytes.push(sample.size.0 as i64);
        self.intended_ns.push(sample.intended.0 as i64);
        // Wraps around instead of saturating, so that the measured value is kept even if a clock went
        // backwards.
        self.submission_delay_ns.push(sample.submitted.0.wrapping_sub(sample.intended.0) as i64);
        self.response_ns.push(sample.completed.0.wrapping_sub(sample.intended.0) as i64);
        self.errno.push(sample.errno);
    }

    /// Keeps the samples of one run. Needs [`Column::Run`].
    pub(crate) fn retain_run(&mut self, run: u32) {
        let kept: Vec<bool> = self.run.iter().map(|&number| number == run as i32).collect();
        for column in Column::ALL {
            match self.values(column) {
                Values::Int32(values) => retain(values, &kept),
                Values::Int64(values) => retain(values, &kept),
                Values::Modes(values) => retain(values, &kept),
            }
        }
        self.length = self.run.len();
    }

    /// Sample `index`. Panics past the end, or if not all columns were requested.
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

    pub(crate) fn values(&mut self, column: Column) -> Values<'_> {
        match column {
            Column::Run => Values::Int32(&mut self.run),
            Column::Position => Values::Int64(&mut self.position),
            Column::Process => Values::Int32(&mut self.process),
            Column::Mode => Values::Modes(&mut self.write),
            Column::Offset => Values::Int64(&mut self.offset_bytes),
            Column::Size => Values::Int64(&mut self.size_bytes),
            Column::Intended => Values::Int64(&mut self.intended_ns),
            Column::SubmissionDelay => Values::Int64(&mut self.submission_delay_ns),
            Column::Response => Values::Int64(&mut self.response_ns),
            Column::Errno => Values::Int32(&mut self.errno),
        }
    }
}

/// Keeps the values that are marked; a column that was not read has none.
fn retain<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut marks = kept.iter();
    values.retain(|_| marks.next() == Some(&true));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_its_place_in_the_schema() {
        let names: Vec<&str> = COLUMNS.get_fields().iter().map(|field| field.name()).collect();
        for (column, name) in [
            (Column::Run, "run"),
            (Column::Position, "position"),
            (Column::Process, "process"),
            (Column::Mode, "mode"),
            (Column::Offset, "offset_bytes"),
            (Column::Size, "size_bytes"),
            (Column::Intended, "intended_ns"),
            (Column::SubmissionDelay, "submission_delay_ns"),
            (Column::Response, "response_ns"),
            (Column::Errno, "errno"),
        ] {
            assert_eq!(names[column.index()], name);
        }
        assert_eq!(names.len(), Column::ALL.len());
    }
}
