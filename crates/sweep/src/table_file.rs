//! A table as a Parquet file, which any reader of such files takes.
//!
//! A file gets its name when it is whole and on the disk. What its reader does not know it refuses: a sweep reads its files
//! after a kill, when they may have been damaged.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use flashlab_samples::{read_guarded, write_durably};
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::SweepError;
use crate::table::{Table, TableColumn};

/// Writes the table. An earlier file of this name is replaced when the new one is whole.
///
/// # Errors
/// When the file cannot be written.
pub fn write_table(table: &Table, path: &Path) -> Result<(), SweepError> {
    write_durably(path, |file| encode(table, file).map_err(io::Error::other))
        .map_err(|error| SweepError::Failed(format!("cannot write {}: {error}", path.display())))
}

/// Reads a table that [`write_table`] wrote.
///
/// # Errors
/// When the file cannot be read, is damaged, or has columns of other kinds or of another compression.
pub fn read_table(path: &Path) -> Result<Table, SweepError> {
    let failed = |error: String| {
        SweepError::Input(format!(
            "cannot read {}: {error}; it is damaged, or no table of flashlab",
            path.display()
        ))
    };
    let file = flashlab_input::open(path).map_err(|error| failed(error.to_string()))?;
    read_guarded(|| decode(file)).map_err(|error| match error {
        ParquetError::NYI(what) => SweepError::Input(format!(
            "cannot read {}: {what}; write it with zstd, or read it with another library and give its table",
            path.display()
        )),
        error => failed(error.to_string()),
    })
}

/// The table as the content of a Parquet file, to be sent.
///
/// # Errors
/// When it cannot be encoded.
pub fn table_to_bytes(table: &Table) -> Result<Vec<u8>, SweepError> {
    encode(table, Vec::new()).map_err(|error| SweepError::Failed(format!("cannot encode the table: {error}")))
}

/// The table that [`table_to_bytes`] encoded.
///
/// # Errors
/// When it is damaged.
pub fn table_from_bytes(bytes: Vec<u8>) -> Result<Table, SweepError> {
    let bytes = Bytes::from(bytes);
    read_guarded(|| decode(bytes)).map_err(|error| SweepError::Input(format!("a table is damaged: {error}")))
}

fn encode<W: io::Write + Send>(table: &Table, file: W) -> Result<W, ParquetError> {
    let fields = table.columns().iter().map(|(name, column)| {
        let (physical, text) = match column {
            TableColumn::Text(_) => (PhysicalType::BYTE_ARRAY, true),
            TableColumn::Float(_) => (PhysicalType::DOUBLE, false),
            TableColumn::Int(_) => (PhysicalType::INT64, false),
            TableColumn::Flag(_) => (PhysicalType::BOOLEAN, false),
        };
        let mut field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        if text {
            field =
                field.with_converted_type(ConvertedType::UTF8).with_logical_type(Some(LogicalType::String));
        }
        field.build().map(Arc::new)
    });
    let schema = Type::group_type_builder("table").with_fields(fields.collect::<Result<_, _>>()?).build()?;
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?)).build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, column) in table.columns() {
        match column {
            TableColumn::Text(values) => {
                let bytes = values.iter().map(|value| value.as_deref().map(ByteArray::from));
                write_column::<ByteArrayType, W>(&mut group, bytes)
            }
            TableColumn::Float(values) => write_column::<DoubleType, W>(&mut group, values.iter().copied()),
            TableColumn::Int(values) => write_column::<Int64Type, W>(&mut group, values.iter().copied()),
            TableColumn::Flag(values) => write_column::<BoolType, W>(&mut group, values.iter().copied()),
        }?;
    }
    group.close()?;
    writer.into_inner()
}

fn write_column<T: DataType, W: io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut present, mut defined) = (Vec::new(), Vec::new());
    for value in values {
        defined.push(i16::from(value.is_some()));
        present.extend(value);
    }
    let missing = || ParquetError::General("the schema has fewer columns than the table".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(&present, Some(&defined), None)?;
    column.close()
}

fn decode(file: impl ChunkReader + 'static) -> Result<Table, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut columns: Vec<TableColumn> = Vec::new();
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index)?;
        for column in group.metadata().columns() {
            if !matches!(
                column.compression(),
                Compression::UNCOMPRESSED | Compression::ZSTD(_) | Compression::BROTLI(_)
            ) {
                let (name, method) = (column.column_path(), column.compression());
                return Err(ParquetError::NYI(format!(
                    "its column {name} is compressed with {method}, which this flashlab does not read"
                )));
            }
        }
        for at in 0..schema.num_columns() {
            let column = read_column(group.as_ref(), at)?;
            match columns.get_mut(at) {
                None => columns.push(column),
                Some(before) => {
                    before.append(column).map_err(|error| ParquetError::External(Box::new(error)))?
                }
            }
        }
    }
    let mut table = Table::default();
    for (column, values) in schema.columns().iter().zip(columns) {
        if !table.columns().is_empty() && table.len() != values.len() {
            return Err(ParquetError::General("its columns differ in length".to_owned()));
        }
        table.push(column.name(), values);
    }
    Ok(table)
}

fn read_column(group: &dyn RowGroupReader, at: usize) -> Result<TableColumn, ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows())
        .map_err(|_| ParquetError::General("it claims a negative number of rows".to_owned()))?;
    Ok(match group.get_column_reader(at)? {
        ColumnReader::BoolColumnReader(reader) => TableColumn::Flag(read_values(reader, rows)?),
        ColumnReader::Int64ColumnReader(reader) => TableColumn::Int(read_values(reader, rows)?),
        ColumnReader::DoubleColumnReader(reader) => TableColumn::Float(read_values(reader, rows)?),
        ColumnReader::ByteArrayColumnReader(reader) => {
            let text = |bytes: ByteArray| Ok(bytes.as_utf8()?.to_owned());
            let values = read_values(reader, rows)?.into_iter().map(|value| value.map(text).transpose());
            TableColumn::Text(values.collect::<Result<_, ParquetError>>()?)
        }
        _ => return Err(ParquetError::General("a column is neither text nor number".to_owned())),
    })
}

/// The values of a column, of which those that are not defined are missing. A damaged file may claim any number of rows, so memory is
/// taken for what it has.
fn read_values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    const BATCH: usize = 1 << 16;
    let mut values = Vec::new();
    while values.len() < rows {
        let (mut present, mut defined) = (Vec::new(), Vec::new());
        let (records, _, _) =
            reader.read_records(BATCH.min(rows - values.len()), Some(&mut defined), None, &mut present)?;
        if records == 0 || defined.len() != records {
            return Err(ParquetError::General("a column ends before the others".to_owned()));
        }
        let mut present = present.into_iter();
        for defined in defined {
            values.push(if defined == 0 { None } else { present.next() });
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flashlab_base::{Prng, Seed};

    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        table
            .push("profile", TableColumn::Text(vec![Some("tlc-sata".to_owned()), None, Some(String::new())]));
        table
            .push("flash.over_provisioning", TableColumn::Float(vec![Some(0.07), None, Some(f64::INFINITY)]));
        table.push("seed", TableColumn::Int(vec![Some(i64::MIN), Some(7), None]));
        table.push("paced", TableColumn::Flag(vec![None, Some(true), Some(false)]));
        table
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        for table in [table(), Table::default()] {
            write_table(&table, &path).unwrap();
            assert_eq!(read_table(&path).unwrap(), table);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
        assert_eq!(table_from_bytes(table_to_bytes(&table()).unwrap()).unwrap(), table());
        assert!(table_from_bytes(b"PAR1".to_vec()).is_err());
        assert!(write_table(&table(), &folder.path().join("no/rows.parquet")).is_err());
        assert!(write_table(&table(), folder.path()).is_err(), "a folder is not replaced");
        let beside = folder.path().with_extension("part");
        assert!(!beside.exists() && fs::read_dir(folder.path()).unwrap().count() == 1);
    }

    #[test]
    fn a_damaged_file_is_refused_or_read_and_never_ends_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        write_table(&table(), &path).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut prng = Prng::new(Seed(1));
        let mut refused = 0;
        for round in 0..300 {
            let mut bytes = whole.clone();
            let at = prng.below(bytes.len() as u64) as usize;
            match round % 2 {
                0 => bytes[at] ^= 1 << prng.below(8),
                _ => bytes.truncate(at),
            }
            fs::write(&path, bytes).unwrap();
            refused += usize::from(read_table(&path).is_err());
        }
        assert!(refused > 150, "{refused}: what is cut is refused");
    }
}
