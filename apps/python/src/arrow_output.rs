//! Tables and samples as Arrow streams, which polars, pyarrow, pandas and duckdb take without a copy.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchIterator,
    RecordBatchReader, StringArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use flashlab_base::Sample;
use flashlab_samples::for_each_batch;
use flashlab_sweep::TableColumn;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyCapsule, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::arrow_input;
use crate::errors::{input, of_sweep};

const STREAM: &CStr = c"arrow_array_stream";
/// How many samples form a batch.
const BATCH: usize = 1 << 16;

fn capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// A table of results. It has no methods to compute with: give it to polars, pyarrow, pandas or duckdb.
///
/// Table(columns) makes one from a dictionary of lists, or from an Arrow table of another library.
#[pyclass(module = "flashlab", frozen)]
pub struct Table {
    table: flashlab_sweep::Table,
}

impl Table {
    pub fn new(table: flashlab_sweep::Table) -> Table {
        Table { table }
    }

    pub fn table(&self) -> &flashlab_sweep::Table {
        &self.table
    }

    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let columns = self.table.columns().iter().map(|(name, column)| {
            let array: ArrayRef = match column {
                TableColumn::Text(values) => Arc::new(StringArray::from_iter(values)),
                TableColumn::Float(values) => Arc::new(Float64Array::from(values.clone())),
                TableColumn::Int(values) => Arc::new(Int64Array::from(values.clone())),
                TableColumn::Flag(values) => Arc::new(BooleanArray::from(values.clone())),
            };
            (Field::new(name, array.data_type().clone(), true), array)
        });
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }

    fn values<'py>(&self, py: Python<'py>, column: &TableColumn) -> PyResult<Bound<'py, PyList>> {
        match column {
            TableColumn::Text(values) => PyList::new(py, values),
            TableColumn::Float(values) => PyList::new(py, values),
            TableColumn::Int(values) => PyList::new(py, values),
            TableColumn::Flag(values) => PyList::new(py, values),
        }
    }
}

#[pymethods]
impl Table {
    #[new]
    fn from_python(columns: &Bound<'_, PyAny>) -> PyResult<Table> {
        Ok(Table::new(arrow_input::table(columns)?))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer casts what it gets, as the interface allows.
        drop(requested_schema);
        let batch = self.batch().map_err(|error| input(error.to_string()))?;
        let schema = batch.schema();
        capsule(py, Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    fn __len__(&self) -> usize {
        self.table.len()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.table.columns().iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The values of a column, as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        match self.table.column(name) {
            Some(column) => self.values(py, column),
            None => Err(pyo3::exceptions::PyKeyError::new_err(name.to_owned())),
        }
    }

    /// The columns as a dictionary of lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (name, column) in self.table.columns() {
            columns.set_item(name, self.values(py, column)?)?;
        }
        Ok(columns)
    }

    /// Writes the table as a Parquet file, which gets its name when it is whole.
    ///
    /// Raises FailedError if it cannot be written.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| flashlab_sweep::write_table(&self.table, &path)).map_err(of_sweep)
    }

    /// Reads a table that write_parquet wrote.
    ///
    /// Raises InputError if the file is damaged, or has columns that are neither texts nor numbers nor booleans.
    #[staticmethod]
    fn read_parquet(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
        Ok(Table::new(py.detach(|| flashlab_sweep::read_table(&path)).map_err(of_sweep)?))
    }

    /// The rows of all tables, which have the same columns.
    ///
    /// Raises InputError if the columns differ.
    #[staticmethod]
    fn concat(py: Python<'_>, tables: Vec<Bound<'_, Table>>) -> PyResult<Table> {
        let tables: Vec<Py<Table>> = tables.into_iter().map(Bound::unbind).collect();
        py.detach(|| {
            let mut tables = tables.iter().map(|table| table.get().table.clone());
            let mut all = tables.next().unwrap_or_default();
            tables.try_for_each(|table| all.append(table))?;
            Ok(Table::new(all))
        })
        .map_err(of_sweep)
    }

    /// The table as the content of a Parquet file.
    fn _parquet<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| flashlab_sweep::table_to_bytes(&self.table)).map_err(of_sweep)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The table that _parquet encoded.
    #[staticmethod]
    fn _of_parquet(py: Python<'_>, content: Vec<u8>) -> PyResult<Table> {
        Ok(Table::new(py.detach(|| flashlab_sweep::table_from_bytes(content)).map_err(of_sweep)?))
    }

    /// A table of the rows with these numbers, which count from 0, in their order.
    ///
    /// Raises IndexError past the end.
    fn rows(&self, numbers: Vec<usize>) -> PyResult<Table> {
        match numbers.iter().find(|number| **number >= self.table.len()) {
            Some(past) => Err(pyo3::exceptions::PyIndexError::new_err(format!(
                "there is no row {past}: the table has {}",
                self.table.len()
            ))),
            None => Ok(Table::new(self.table.rows(&numbers))),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((slf.get_type().getattr("_of_parquet")?, (slf.get()._parquet(slf.py())?,)))
    }

    fn __repr__(&self) -> String {
        format!("<flashlab.Table of {} rows: {}>", self.table.len(), self.columns().join(", "))
    }
}

/// A table of rows that have the same fields, which are texts, numbers or missing.
pub fn of_rows(rows: &[impl serde::Serialize]) -> PyResult<flashlab_sweep::Table> {
    use serde_json::Value;
    let failed = |error: serde_json::Error| input(error.to_string());
    let rows = rows.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>().map_err(failed)?;
    let mut table = flashlab_sweep::Table::default();
    let Some(Value::Object(first)) = rows.first() else { return Ok(table) };
    for name in first.keys() {
        let values = || rows.iter().map(|row| &row[name]);
        let all = |is: fn(&Value) -> bool| values().all(|value| value.is_null() || is(value));
        let column = if all(Value::is_i64) && values().any(Value::is_i64) {
            TableColumn::Int(values().map(Value::as_i64).collect())
        } else if all(Value::is_number) {
            TableColumn::Float(values().map(Value::as_f64).collect())
        } else {
            TableColumn::Text(values().map(|value| value.as_str().map(str::to_owned)).collect())
        };
        table.push(name, column);
    }
    Ok(table)
}

/// A number of numpy as one of Python.
fn plain(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let is_python =
        value.is_none() || value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyString>();
    match !is_python && value.hasattr("item")? {
        true => value.call_method0("item"),
        false => Ok(value),
    }
}

/// A table from a dictionary of lists.
pub fn of_lists(columns: &Bound<'_, PyDict>) -> PyResult<flashlab_sweep::Table> {
    let mut table = flashlab_sweep::Table::default();
    for (name, values) in columns {
        let name: String = name.extract()?;
        let no_list = || input(format!("the column `{name}` is no list: give a dictionary of lists"));
        if values.is_instance_of::<PyString>() || values.is_instance_of::<PyBytes>() {
            return Err(no_list());
        }
        let values = values.try_iter().map_err(|_| no_list())?.map(|value| plain(value?));
        let values: Vec<Bound<'_, PyAny>> = values.collect::<PyResult<_>>()?;
        let is =
            |is: &dyn Fn(&Bound<'_, PyAny>) -> bool| values.iter().all(|value| value.is_none() || is(value));
        let column =
            if is(&|value| value.is_instance_of::<PyBool>()) && values.iter().any(|value| !value.is_none()) {
                TableColumn::Flag(values.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>()?)
            } else if is(&|value| value.is_instance_of::<PyString>()) {
                TableColumn::Text(values.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>()?)
            } else if is(&|value| value.is_instance_of::<PyInt>()) {
                let too_large = |_| {
                    input(format!(
                        "the column `{name}` has a whole number that is not between -2^63 and 2^63 - 1"
                    ))
                };
                let numbers = values.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>();
                TableColumn::Int(numbers.map_err(too_large)?)
            } else if is(&|value| value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>()) {
                TableColumn::Float(values.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>()?)
            } else {
                return Err(input(format!(
                    "the column `{name}` mixes kinds of values: give texts, numbers or booleans"
                )));
            };
        if !table.columns().is_empty() && table.len() != column.len() {
            return Err(input(format!(
                "the column `{name}` has {} values, and the others have {}",
                column.len(),
                table.len()
            )));
        }
        table.push(&name, column);
    }
    Ok(table)
}

/// The columns of samples, as docs/formats.md has them.
static SAMPLES: LazyLock<SchemaRef> = LazyLock::new(|| {
    let (small, large) = (DataType::Int32, DataType::Int64);
    let fields = [
        ("run", &small),
        ("position", &large),
        ("process", &small),
        ("mode", &DataType::Utf8),
        ("offset_bytes", &large),
        ("size_bytes", &large),
        ("intended_ns", &large),
        ("submission_delay_ns", &large),
        ("response_ns", &large),
        ("errno", &small),
    ];
    let fields = fields.map(|(name, kind)| Field::new(name, kind.clone(), false));
    Arc::new(Schema::new(fields.to_vec()))
});

/// The samples of one run in memory.
pub type RunSamples = (u32, Vec<Sample>);

/// The IOs of a run, one row each. Every use begins a new Arrow stream; it needs memory for some batches and not for all rows.
///
/// Columns: run, position, process, mode ("read" or "write"), offset_bytes, size_bytes, intended_ns, submission_delay_ns,
/// response_ns, errno.
#[pyclass(module = "flashlab", frozen)]
pub struct Samples {
    source: Source,
}

#[derive(Clone)]
enum Source {
    Memory(Arc<Vec<RunSamples>>),
    Segments(Vec<PathBuf>),
}

impl Samples {
    pub fn in_memory(runs: Arc<Vec<RunSamples>>) -> Samples {
        Samples { source: Source::Memory(runs) }
    }

    pub fn in_segments(segments: Vec<PathBuf>) -> Samples {
        Samples { source: Source::Segments(segments) }
    }
}

#[pymethods]
impl Samples {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let reader: Box<dyn RecordBatchReader + Send> = match &self.source {
            Source::Memory(runs) => Box::new(MemoryReader { runs: Arc::clone(runs), run: 0, begin: 0 }),
            Source::Segments(paths) => {
                Box::new(SegmentReader { left: paths.clone().into(), read: VecDeque::new() })
            }
        };
        capsule(py, reader)
    }

    fn __repr__(&self) -> String {
        match &self.source {
            Source::Memory(runs) => {
                let count: usize = runs.iter().map(|(_, samples)| samples.len()).sum();
                format!("<flashlab.Samples of {count} IOs>")
            }
            Source::Segments(paths) => format!("<flashlab.Samples in {} files>", paths.len()),
        }
    }
}

/// Reads samples in memory, batch by batch.
struct MemoryReader {
    runs: Arc<Vec<RunSamples>>,
    run: usize,
    begin: usize,
}

impl Iterator for MemoryReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (number, samples) = loop {
            let (number, samples) = self.runs.get(self.run)?;
            if self.begin < samples.len() {
                break (*number, &samples[self.begin..]);
            }
            (self.run, self.begin) = (self.run + 1, 0);
        };
        let samples = &samples[..samples.len().min(BATCH)];
        self.begin += samples.len();
        let large =
            |get: fn(&Sample) -> u64| samples.iter().map(|sample| get(sample) as i64).collect::<Vec<_>>();
        Some(batch(SampleColumns {
            run: vec![number as i32; samples.len()],
            position: large(|sample| sample.position),
            process: samples.iter().map(|sample| sample.process as i32).collect(),
            write: &samples.iter().map(|sample| sample.mode.is_write()).collect::<Vec<_>>(),
            offset_bytes: large(|sample| sample.offset.0),
            size_bytes: large(|sample| sample.size.0),
            intended_ns: large(|sample| sample.intended.0),
            submission_delay_ns: large(|sample| sample.submitted.0.wrapping_sub(sample.intended.0)),
            response_ns: large(|sample| sample.completed.0.wrapping_sub(sample.intended.0)),
            errno: samples.iter().map(|sample| sample.errno).collect(),
        }))
    }
}

impl RecordBatchReader for MemoryReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&SAMPLES)
    }
}

/// Reads segments, one on each CPU at a time, and returns their batches in order.
struct SegmentReader {
    left: VecDeque<PathBuf>,
    read: VecDeque<Result<RecordBatch, ArrowError>>,
}

impl SegmentReader {
    fn read_more(&mut self) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(self.left.len());
        let paths: Vec<PathBuf> = self.left.drain(..threads).collect();
        let read = std::thread::scope(|scope| {
            let threads: Vec<_> = paths.iter().map(|path| scope.spawn(|| segment(path))).collect();
            threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        for batches in read {
            match batches {
                Ok(Ok(batches)) => self.read.extend(batches.into_iter().map(Ok)),
                Ok(Err(error)) => self.fail(error),
                Err(_) => self.fail(ArrowError::ExternalError("reading a segment ended in a panic".into())),
            }
        }
    }

    /// The stream ends with this error.
    fn fail(&mut self, error: ArrowError) {
        self.left.clear();
        self.read.push_back(Err(error));
    }
}

impl Iterator for SegmentReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.read.is_empty() && !self.left.is_empty() {
            self.read_more();
        }
        self.read.pop_front()
    }
}

impl RecordBatchReader for SegmentReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&SAMPLES)
    }
}

/// The batches of a segment.
fn segment(path: &Path) -> Result<Vec<RecordBatch>, ArrowError> {
    let mut batches = Vec::new();
    for_each_batch(path, |columns| {
        batches.push(batch(SampleColumns {
            run: columns.run.clone(),
            position: columns.position.clone(),
            process: columns.process.clone(),
            write: &columns.write,
            offset_bytes: columns.offset_bytes.clone(),
            size_bytes: columns.size_bytes.clone(),
            intended_ns: columns.intended_ns.clone(),
            submission_delay_ns: columns.submission_delay_ns.clone(),
            response_ns: columns.response_ns.clone(),
            errno: columns.errno.clone(),
        }));
    })
    .map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    batches.into_iter().collect()
}

/// Columns that become a batch.
struct SampleColumns<'a> {
    run: Vec<i32>,
    position: Vec<i64>,
    process: Vec<i32>,
    write: &'a [bool],
    offset_bytes: Vec<i64>,
    size_bytes: Vec<i64>,
    intended_ns: Vec<i64>,
    submission_delay_ns: Vec<i64>,
    response_ns: Vec<i64>,
    errno: Vec<i32>,
}

fn batch(columns: SampleColumns<'_>) -> Result<RecordBatch, ArrowError> {
    let small = |values: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
    let large = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let arrays = vec![
        small(columns.run),
        large(columns.position),
        small(columns.process),
        modes(columns.write)?,
        large(columns.offset_bytes),
        large(columns.size_bytes),
        large(columns.intended_ns),
        large(columns.submission_delay_ns),
        large(columns.response_ns),
        small(columns.errno),
    ];
    RecordBatch::try_new(Arc::clone(&SAMPLES), arrays)
}

fn modes(write: &[bool]) -> Result<ArrayRef, ArrowError> {
    let (mut text, mut offsets) = (Vec::with_capacity(write.len() * 5), Vec::with_capacity(write.len() + 1));
    offsets.push(0);
    for &write in write {
        text.extend_from_slice(if write { b"write" } else { b"read" });
        offsets.push(text.len() as i32);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(text), None)?))
}
