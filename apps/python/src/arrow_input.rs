//! Tables of other libraries, through Arrow's PyCapsule interface.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, RecordBatchReader};
use arrow_schema::{DataType, SchemaRef};
use flashlab_sweep::{Table, TableColumn};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow_output;
use crate::errors::input;

const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// A table: an Arrow table of any library, or a dictionary of lists.
pub fn table(object: &Bound<'_, PyAny>) -> PyResult<Table> {
    if let Ok(own) = object.cast::<arrow_output::Table>() {
        return Ok(own.get().table().clone());
    }
    if let Ok(columns) = object.cast::<PyDict>() {
        return arrow_output::of_lists(columns);
    }
    let py = object.py();
    if !object.hasattr("__arrow_c_stream__")? {
        let kind = object.get_type().name()?;
        return Err(input(format!(
            "a {kind} is no table: give an Arrow table (of polars, pyarrow, pandas 2.2 or duckdb), or a dictionary of lists"
        )));
    }
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name has a valid stream (Arrow PyCapsule interface). It is moved out, and released by its new owner.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) };
    let reader = reader.map_err(|error| input(format!("the table cannot be read: {error}")))?;
    let schema = reader.schema();
    let arrays = py.detach(|| {
        let mut arrays: Vec<Vec<Arc<dyn Array>>> = vec![Vec::new(); schema.fields().len()];
        for batch in reader {
            let batch = batch.map_err(|error| input(format!("the table cannot be read: {error}")))?;
            for (column, array) in arrays.iter_mut().zip(batch.columns()) {
                column.push(Arc::clone(array));
            }
        }
        Ok::<_, PyErr>(arrays)
    })?;
    columns(&schema, &arrays)
}

fn columns(schema: &SchemaRef, arrays: &[Vec<Arc<dyn Array>>]) -> PyResult<Table> {
    let mut table = Table::default();
    for (field, parts) in schema.fields().iter().zip(arrays) {
        let name = field.name();
        let wrong = || {
            input(format!("the column `{name}` holds {}: give texts, numbers or booleans", field.data_type()))
        };
        let mut column = empty(field.data_type()).ok_or_else(wrong)?;
        for part in parts {
            append(&mut column, part.as_ref()).ok_or_else(wrong)?;
        }
        table.push(name, column);
    }
    Ok(table)
}

/// The column for an Arrow type; `None` for one that has no use here.
fn empty(kind: &DataType) -> Option<TableColumn> {
    Some(match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
            TableColumn::Text(Vec::new())
        }
        DataType::Dictionary(_, values) => return empty(values),
        DataType::Boolean => TableColumn::Flag(Vec::new()),
        DataType::Float32 | DataType::Float64 => TableColumn::Float(Vec::new()),
        kind if kind.is_integer() => TableColumn::Int(Vec::new()),
        _ => return None,
    })
}

fn append(column: &mut TableColumn, array: &dyn Array) -> Option<()> {
    /// The values of an array of numbers.
    macro_rules! numbers {
        ($values:expr, $kind:ty) => {
            $values.extend(array.as_primitive::<$kind>().iter().map(|value| value.map(|value| value as _)))
        };
    }
    let text = |text: Option<&str>| text.map(str::to_owned);
    if let DataType::Dictionary(..) = array.data_type() {
        let dictionary = array.as_any_dictionary();
        let mut values = empty(dictionary.values().data_type())?;
        append(&mut values, dictionary.values().as_ref())?;
        let keys =
            if dictionary.values().is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
        let key = |row: usize| dictionary.keys().is_valid(row).then(|| keys[row]);
        fn pick<T: Clone>(
            to: &mut Vec<Option<T>>,
            from: &[Option<T>],
            keys: impl Iterator<Item = Option<usize>>,
        ) {
            to.extend(keys.map(|key| key.and_then(|key| from[key].clone())));
        }
        let keys = (0..array.len()).map(key);
        match (column, &values) {
            (TableColumn::Text(to), TableColumn::Text(from)) => pick(to, from, keys),
            (TableColumn::Float(to), TableColumn::Float(from)) => pick(to, from, keys),
            (TableColumn::Int(to), TableColumn::Int(from)) => pick(to, from, keys),
            (TableColumn::Flag(to), TableColumn::Flag(from)) => pick(to, from, keys),
            _ => return None,
        }
        return Some(());
    }
    match (column, array.data_type()) {
        (TableColumn::Text(values), DataType::Utf8) => {
            values.extend(array.as_string::<i32>().iter().map(text))
        }
        (TableColumn::Text(values), DataType::LargeUtf8) => {
            values.extend(array.as_string::<i64>().iter().map(text));
        }
        (TableColumn::Text(values), DataType::Utf8View) => {
            values.extend(array.as_string_view().iter().map(text));
        }
        (TableColumn::Text(values), DataType::Null) => values.extend((0..array.len()).map(|_| None)),
        (TableColumn::Flag(values), DataType::Boolean) => values.extend(array.as_boolean().iter()),
        (TableColumn::Float(values), DataType::Float32) => numbers!(values, Float32Type),
        (TableColumn::Float(values), DataType::Float64) => numbers!(values, Float64Type),
        (TableColumn::Int(values), DataType::Int8) => numbers!(values, Int8Type),
        (TableColumn::Int(values), DataType::Int16) => numbers!(values, Int16Type),
        (TableColumn::Int(values), DataType::Int32) => numbers!(values, Int32Type),
        (TableColumn::Int(values), DataType::Int64) => numbers!(values, Int64Type),
        (TableColumn::Int(values), DataType::UInt8) => numbers!(values, UInt8Type),
        (TableColumn::Int(values), DataType::UInt16) => numbers!(values, UInt16Type),
        (TableColumn::Int(values), DataType::UInt32) => numbers!(values, UInt32Type),
        // A value that is too large becomes negative, and is refused where it is used.
        (TableColumn::Int(values), DataType::UInt64) => numbers!(values, UInt64Type),
        _ => return None,
    }
    Some(())
}
