//! A table of columns, as other programs exchange it.

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

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
