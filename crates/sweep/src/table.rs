//! A table of columns, as other programs exchange it.

use crate::SweepError;

/// A column. A missing value is `None`.
#[derive(Clone, Debug, PartialEq)]
pub enum TableColumn {
    /// Texts.
    Text(Vec<Option<String>>),
    /// Numbers.
    Float(Vec<Option<f64>>),
    /// Whole numbers.
    Int(Vec<Option<i64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

impl TableColumn {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            TableColumn::Text(values) => values.len(),
            TableColumn::Float(values) => values.len(),
            TableColumn::Int(values) => values.len(),
            TableColumn::Flag(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the values of a column of the same kind; a column without any value has any kind.
    ///
    /// # Errors
    /// When the kinds differ.
    pub fn append(&mut self, other: TableColumn) -> Result<(), SweepError> {
        match (&mut *self, other) {
            (TableColumn::Text(values), TableColumn::Text(more)) => values.extend(more),
            (TableColumn::Float(values), TableColumn::Float(more)) => values.extend(more),
            (TableColumn::Int(values), TableColumn::Int(more)) => values.extend(more),
            (TableColumn::Flag(values), TableColumn::Flag(more)) => values.extend(more),
            (own, more) if more.has_no_value() => own.append(own.missing(more.len()))?,
            (own, more) if own.has_no_value() => {
                *own = more.missing(own.len());
                own.append(more)?;
            }
            _ => return Err(SweepError::Input("one has texts where the other has numbers".to_owned())),
        }
        Ok(())
    }

    /// So many missing values, in a column of this kind.
    fn missing(&self, count: usize) -> TableColumn {
        match self {
            TableColumn::Text(_) => TableColumn::Text(vec![None; count]),
            TableColumn::Float(_) => TableColumn::Float(vec![None; count]),
            TableColumn::Int(_) => TableColumn::Int(vec![None; count]),
            TableColumn::Flag(_) => TableColumn::Flag(vec![None; count]),
        }
    }

    fn has_no_value(&self) -> bool {
        match self {
            TableColumn::Text(values) => values.iter().all(Option::is_none),
            TableColumn::Float(values) => values.iter().all(Option::is_none),
            TableColumn::Int(values) => values.iter().all(Option::is_none),
            TableColumn::Flag(values) => values.iter().all(Option::is_none),
        }
    }

    /// The values of these rows. Panics past the end.
    pub fn rows(&self, rows: &[usize]) -> TableColumn {
        fn picked<T: Clone>(values: &[Option<T>], rows: &[usize]) -> Vec<Option<T>> {
            rows.iter().map(|row| values[*row].clone()).collect()
        }
        match self {
            TableColumn::Text(values) => TableColumn::Text(picked(values, rows)),
            TableColumn::Float(values) => TableColumn::Float(picked(values, rows)),
            TableColumn::Int(values) => TableColumn::Int(picked(values, rows)),
            TableColumn::Flag(values) => TableColumn::Flag(picked(values, rows)),
        }
    }

    /// A value as text: as it would be written in a profile, without quotation marks.
    pub fn text(&self, row: usize) -> Option<String> {
        match self {
            TableColumn::Text(values) => values[row].clone(),
            TableColumn::Float(values) => values[row].map(|value| value.to_string()),
            TableColumn::Int(values) => values[row].map(|value| value.to_string()),
            TableColumn::Flag(values) => values[row].map(|value| value.to_string()),
        }
    }
}

/// Named columns of the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<(String, TableColumn)>,
}

impl Table {
    /// Adds a column.
    ///
    /// # Panics
    /// When it has another length than the others.
    pub fn push(&mut self, name: &str, column: TableColumn) {
        assert!(self.columns.is_empty() || self.len() == column.len(), "{name} has another length");
        self.columns.push((name.to_owned(), column));
    }

    /// The columns with their names.
    pub fn columns(&self) -> &[(String, TableColumn)] {
        &self.columns
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|(own, _)| own == name).map(|(_, column)| column)
    }

    /// Adds the rows of a table with the same columns.
    ///
    /// # Errors
    /// When the columns or their kinds differ.
    pub fn append(&mut self, other: Table) -> Result<(), SweepError> {
        let names = |table: &Table| table.columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if names(self) != names(&other) {
            return Err(SweepError::Input("the tables have other columns than each other".to_owned()));
        }
        for ((name, column), (_, more)) in self.columns.iter_mut().zip(other.columns) {
            column
                .append(more)
                .map_err(|error| SweepError::Input(format!("the column `{name}`: {error}")))?;
        }
        Ok(())
    }

    /// A table of these rows, in their order. Panics past the end.
    pub fn rows(&self, rows: &[usize]) -> Table {
        Table {
            columns: self.columns.iter().map(|(name, column)| (name.clone(), column.rows(rows))).collect(),
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_without_values_takes_the_kind_of_the_other() {
        let column = |values: &[Option<i64>]| TableColumn::Int(values.to_vec());
        let none = || TableColumn::Text(vec![None, None]);
        let appended = |mut to: TableColumn, more: TableColumn| to.append(more).map(|()| to);
        assert_eq!(appended(none(), column(&[Some(1)])).unwrap(), column(&[None, None, Some(1)]));
        assert_eq!(appended(column(&[Some(1)]), none()).unwrap(), column(&[Some(1), None, None]));
        assert_eq!(appended(column(&[Some(1)]), column(&[Some(2)])).unwrap(), column(&[Some(1), Some(2)]));
        let text = TableColumn::Text(vec![Some("x".to_owned())]);
        assert!(appended(text, column(&[Some(1)])).is_err());
    }
}
