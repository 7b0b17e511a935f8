//! Parquet files of other programs with the columns of samples.

use std::path::PathBuf;

use flashlab_samples::{ForeignSamples, ImportedSamples};

use super::conversion::Imported;
use crate::error::ViewError;
use crate::recording::ReadProgress;

/// Rows between two reports of progress.
const PROGRESS_ROWS: u64 = 1 << 16;

pub(super) fn convert(
    paths: &[PathBuf],
    samples: &mut ImportedSamples,
    progress: ReadProgress,
) -> Result<Imported, ViewError> {
    let mut notes = Vec::new();
    for path in paths {
        let Some(foreign) = ForeignSamples::open(path)? else { continue };
        let (all, mut done) = (foreign.row_count(), 0);
        let rows = foreign.each(|run, sample| {
            done += 1;
            if done % PROGRESS_ROWS == 0 {
                progress("converting rows", done, all.max(done));
            }
            samples.push(run, sample).map_err(ViewError::from)
        })?;
        for name in foreign.absent() {
            notes.push(match name {
                "mode" => "the file has no column mode: each IO is shown as a read".to_owned(),
                "position" => "the file has no column position: the number of the row is shown".to_owned(),
                name => format!("the file has no column {name}: 0 is shown"),
            });
        }
        if rows.left_out > 0 {
            notes.push(format!("{} rows without a begin or a response time are left out", rows.left_out));
        }
        if rows.ios == 0 {
            notes.push("no row is an IO".to_owned());
        }
    }
    Ok(Imported { verb: "file of samples".to_owned(), notes, ..Imported::default() })
}
