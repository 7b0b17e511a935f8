//! Rows that others measured, as CSV files.
//!
//! # Model
//! The heading of a file says which of three kinds its rows are: steady write rates, media writes by a counter, or latencies under a
//! write load. Columns may come in any order, and columns that are not needed may be absent. Rows without a `use` are held out.
//!
//! # Invariants
//! - A value that is not what its column takes is an error with file, line and column. No row is left out.

use std::fmt;

use thiserror::Error;

use super::drives::{REAL_DRIVES, RealDrive};
use super::workload::Workload;

/// What is wrong with a file of rows, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}{}: {what}", place(*.line, .column.as_deref()))]
#[non_exhaustive]
pub struct RowError {
    file: String,
    line: Option<u64>,
    column: Option<String>,
    what: String,
}

fn place(line: Option<u64>, column: Option<&str>) -> String {
    let line = line.map_or(String::new(), |line| format!(", line {line}"));
    column.map_or(line.clone(), |column| format!("{line}, column `{column}`"))
}

/// Whether a profile may be fitted to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// It may.
    Fit,
    /// It has to be predicted.
    Test,
}

impl fmt::Display for RowUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowUse::Fit => "fitted",
            RowUse::Test => "held out",
        })
    }
}

/// The steady rate of a write workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SteadyRow {
    pub drive: &'static RealDrive,
    pub workload: Workload,
    /// The part of the drive in use, in GiB.
    pub gib: f64,
    /// How often that part is written.
    pub overwrites: f64,
    pub mib_s: f64,
    /// The rate of the first writes, if the row says so.
    pub first_mib_s: Option<f64>,
    pub row_use: RowUse,
}

/// What the drive wrote to its flash for each byte of the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MediaRow {
    pub drive: &'static RealDrive,
    pub workload: Workload,
    pub gib: f64,
    pub media_per_host: f64,
    pub row_use: RowUse,
}

/// Latencies of 5,000 random reads and 5,000 random writes a second next to other writes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LatencyRow {
    pub drive: &'static RealDrive,
    /// All operations a second that were offered.
    pub offered: f64,
    pub writes_per_s: f64,
    pub read_p50_us: f64,
    pub read_p99_us: f64,
    pub write_p50_us: f64,
    pub write_p99_us: f64,
    pub row_use: RowUse,
}

/// Rows of all kinds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriveRows {
    pub(crate) steady: Vec<SteadyRow>,
    pub(crate) media: Vec<MediaRow>,
    pub(crate) latency: Vec<LatencyRow>,
}

/// A row of a file, with its heading.
struct Record<'a> {
    file: &'a str,
    heading: &'a csv::StringRecord,
    cells: &'a csv::StringRecord,
}

impl Record<'_> {
    fn error(&self, column: &str, what: impl fmt::Display) -> RowError {
        RowError {
            file: self.file.to_owned(),
            line: self.cells.position().map(csv::Position::line),
            column: Some(column.to_owned()),
            what: what.to_string(),
        }
    }

    fn optional(&self, column: &str) -> Option<&str> {
        let index = self.heading.iter().position(|name| name == column)?;
        self.cells.get(index)
    }

    fn text(&self, column: &str) -> Result<&str, RowError> {
        self.optional(column).ok_or_else(|| self.error(column, "the heading has no such column"))
    }

    /// A number from `least` to `most`.
    fn number(&self, column: &str, least: f64, most: f64) -> Result<f64, RowError> {
        let text = self.text(column)?;
        match text.trim().parse::<f64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.error(column, format!("`{text}` is not a number from {least} to {most}"))),
        }
    }

    fn drive(&self) -> Result<&'static RealDrive, RowError> {
        let name = self.text("drive")?;
        REAL_DRIVES.iter().find(|drive| drive.name == name).ok_or_else(|| {
            let names: Vec<&str> = REAL_DRIVES.iter().map(|drive| drive.name).collect();
            self.error("drive", format!("the zoo has no model of `{name}`; it has {}", names.join(", ")))
        })
    }

    fn workload(&self) -> Result<Workload, RowError> {
        let parameters = self.optional("parameters").unwrap_or_default();
        Workload::parse(self.text("workload")?, parameters).map_err(|(column, what)| self.error(column, what))
    }

    fn row_use(&self) -> Result<RowUse, RowError> {
        match self.optional("use") {
            Some("fit") => Ok(RowUse::Fit),
            Some("test") | None => Ok(RowUse::Test),
            Some(other) => Err(self.error("use", format!("`{other}` is neither `fit` nor `test`"))),
        }
    }
}

/// The largest number in a row: more than any drive has GiB, MiB/s or microseconds.
const MOST: f64 = 1e9;

impl DriveRows {
    /// Adds the rows of a file; `file` is its name in errors.
    ///
    /// # Errors
    /// The first value that is wrong, with its line and column.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), RowError> {
        let broken = |error: csv::Error| RowError {
            file: file.to_owned(),
            line: error.position().map(csv::Position::line),
            column: None,
            what: match error.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    format!("the row has {len} columns, and the heading {expected_len}")
                }
                _ => error.to_string(),
            },
        };
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let heading = reader.headers().map_err(broken)?.clone();
        let has = |column: &str| heading.iter().any(|name| name == column);
        let add = if has("steady_mib_s") {
            DriveRows::add_steady
        } else if has("media_per_host") {
            DriveRows::add_media
        } else if has("read_p50_us") {
            DriveRows::add_latency
        } else {
            let what = "no heading of rows: it has none of the columns `steady_mib_s`, `media_per_host` and `read_p50_us`";
            return Err(RowError { file: file.to_owned(), line: None, column: None, what: what.to_owned() });
        };
        let before = self.len();
        for cells in reader.records() {
            let cells = cells.map_err(broken)?;
            add(self, &Record { file, heading: &heading, cells: &cells })?;
        }
        if self.len() == before {
            let what = "a heading without rows".to_owned();
            return Err(RowError { file: file.to_owned(), line: None, column: None, what });
        }
        Ok(())
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.steady.len() + self.media.len() + self.latency.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that a fit of a profile may see: those of one drive, by its name in the zoo, that are marked so.
    pub fn to_fit(&self, zoo: &str) -> DriveRows {
        let mut rows = self.of_drives(|drive| drive.zoo == zoo);
        rows.steady.retain(|row| row.row_use == RowUse::Fit);
        rows.media.retain(|row| row.row_use == RowUse::Fit);
        rows.latency.retain(|row| row.row_use == RowUse::Fit);
        rows
    }

    /// The rows of some drives.
    pub fn of_drives(&self, wanted: impl Fn(&RealDrive) -> bool) -> DriveRows {
        let mut rows = self.clone();
        rows.steady.retain(|row| wanted(row.drive));
        rows.media.retain(|row| wanted(row.drive));
        rows.latency.retain(|row| wanted(row.drive));
        rows
    }

    /// The rows without latencies, which take most of the time.
    pub fn without_latencies(mut self) -> DriveRows {
        self.latency.clear();
        self
    }

    /// The latencies alone.
    pub fn only_latencies(&self) -> DriveRows {
        DriveRows { latency: self.latency.clone(), ..DriveRows::default() }
    }

    /// The steady rates of a workload, by its name in comparisons, on at least `gib` of a drive.
    pub fn of_workload(&self, workload: &str, gib: f64) -> DriveRows {
        let mut rows = DriveRows { steady: self.steady.clone(), ..DriveRows::default() };
        rows.steady.retain(|row| row.workload.to_string() == workload && row.gib >= gib);
        rows
    }

    /// A row of a rate that is known from elsewhere.
    fn one(drive: &'static RealDrive, workload: Workload, overwrites: f64, mib_s: f64) -> DriveRows {
        let gib = drive.gib as f64;
        let row =
            SteadyRow { drive, workload, gib, overwrites, mib_s, first_mib_s: None, row_use: RowUse::Fit };
        DriveRows { steady: vec![row], ..DriveRows::default() }
    }

    /// A sequential run on a discarded drive with this rate, as from a data sheet.
    pub fn sequential(drive: &'static RealDrive, mib_s: f64) -> DriveRows {
        DriveRows::one(drive, Workload::Sequential, 1.0, mib_s)
    }

    /// One large write at a time, as long as nothing has to be copied: a single zone as large as the drive.
    pub fn first_whole_zones(drive: &'static RealDrive, mib_s: f64) -> DriveRows {
        DriveRows::one(drive, Workload::WholeZones { open: 1, large_pages: drive.gib << 11 }, 1.0, mib_s)
    }

    /// What one large write at a time reaches before garbage collection is the limit, in MiB/s: the mean over rows of whole zones.
    pub fn one_large_write(&self) -> Option<f64> {
        let rows =
            self.steady.iter().filter(|row| matches!(row.workload, Workload::WholeZones { open: 1, .. }));
        let rates: Vec<f64> = rows.map(|row| row.mib_s.max(row.first_mib_s.unwrap_or(0.0))).collect();
        (!rates.is_empty()).then(|| crate::lab::mean(&rates))
    }

    fn add_steady(&mut self, row: &Record<'_>) -> Result<(), RowError> {
        let drive = row.drive()?;
        let gib = row.number("file_gib", 1.0, MOST)?;
        self.steady.push(SteadyRow {
            drive,
            workload: row.workload()?,
            gib,
            overwrites: row.number("written_gib", 0.0, MOST)? / gib,
            mib_s: row.number("steady_mib_s", 1e-3, MOST)?,
            first_mib_s: match row.optional("first_5pct_mib_s") {
                None | Some("") => None,
                Some(_) => Some(row.number("first_5pct_mib_s", 0.0, MOST)?),
            },
            row_use: row.row_use()?,
        });
        Ok(())
    }

    fn add_media(&mut self, row: &Record<'_>) -> Result<(), RowError> {
        self.media.push(MediaRow {
            drive: row.drive()?,
            workload: row.workload()?,
            gib: row.number("file_gib", 1.0, MOST)?,
            media_per_host: row.number("media_per_host", 1e-9, MOST)?,
            row_use: row.row_use()?,
        });
        Ok(())
    }

    fn add_latency(&mut self, row: &Record<'_>) -> Result<(), RowError> {
        self.latency.push(LatencyRow {
            drive: row.drive()?,
            offered: row.number("offered_per_s", 1e3, 1e7)?,
            writes_per_s: row.number("writes_per_s", 1.0, 1e7)?,
            read_p50_us: row.number("read_p50_us", 1e-3, MOST)?,
            read_p99_us: row.number("read_p99_us", 1e-3, MOST)?,
            write_p50_us: row.number("write_p50_us", 1e-3, MOST)?,
            write_p99_us: row.number("write_p99_us", 1e-3, MOST)?,
            row_use: row.row_use()?,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "drive,workload,parameters,file_gib,written_gib,steady_mib_s,use";

    fn error(rows: &str) -> String {
        DriveRows::default().add("own.csv", rows).unwrap_err().to_string()
    }

    #[test]
    fn the_rows_of_the_project_are_read() {
        let rows = crate::ssd_iq::known_rows();
        assert_eq!((rows.steady.len(), rows.media.len(), rows.latency.len()), (288, 50, 111));
        for drive in &REAL_DRIVES {
            let fit = rows.to_fit(drive.zoo);
            assert!(fit.steady.len() >= 3 && fit.steady.len() < rows.steady.len() / 2, "{drive:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_column() {
        let row = |cells: &str| error(&format!("# comment\n{HEADING}\n{cells}\n"));
        assert_eq!(
            row("WD DC 960 GB (PCIe 3),uniform,,894,4471,fast,fit"),
            "own.csv, line 3, column `steady_mib_s`: `fast` is not a number from 0.001 to 1000000000"
        );
        assert_eq!(
            row("WD DC 960 GB (PCIe 3),uniform,,894,4471,NaN,fit"),
            "own.csv, line 3, column `steady_mib_s`: `NaN` is not a number from 0.001 to 1000000000"
        );
        assert!(row("Fusion ioDrive,uniform,,894,4471,1,fit").starts_with(
            "own.csv, line 3, column `drive`: the zoo has no model of `Fusion ioDrive`; it has SK Hynix PE8110 960 GB, "
        ));
        assert_eq!(
            row("WD DC 960 GB (PCIe 3),uniform,,894,4471,1,maybe"),
            "own.csv, line 3, column `use`: `maybe` is neither `fit` nor `test`"
        );
        assert_eq!(
            row("WD DC 960 GB (PCIe 3),uniform,,894"),
            "own.csv, line 3: the row has 4 columns, and the heading 7"
        );
        assert_eq!(error(HEADING), "own.csv: a heading without rows");
        assert!(error("a,b\n1,2\n").starts_with("own.csv: no heading of rows"));
        assert!(error("").starts_with("own.csv: no heading of rows"));
        assert_eq!(
            error("drive,steady_mib_s\nWD DC 960 GB (PCIe 3),1\n"),
            "own.csv, line 2, column `file_gib`: the heading has no such column"
        );
    }
}
