//! Writes samples that another program recorded as segments, so that they are read as those of flashlab.

use std::mem;
use std::path::{Path, PathBuf};

use flashlab_base::Sample;

use crate::segment_writer::{ROW_GROUP, SegmentFile};
use crate::{Columns, SamplesError};

/// Row groups of a segment: about a million samples, as in those of a run.
const ROW_GROUPS: usize = 8;

/// Segments that are being written into a directory.
pub struct ImportedSamples {
    directory: PathBuf,
    paths: Vec<PathBuf>,
    segment: Option<SegmentFile>,
    row_groups: usize,
    columns: Columns,
}

impl ImportedSamples {
    /// Segments will be written into this directory, which exists.
    pub fn new(directory: &Path) -> ImportedSamples {
        ImportedSamples {
            directory: directory.to_owned(),
            paths: Vec::new(),
            segment: None,
            row_groups: 0,
            columns: Columns::default(),
        }
    }

    /// Adds a sample of a run.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn push(&mut self, run: u32, sample: &Sample) -> Result<(), SamplesError> {
        self.columns.push(run, sample);
        if self.columns.len() == ROW_GROUP { self.write_row_group() } else { Ok(()) }
    }

    /// Ends the last segment, and returns all of them.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, SamplesError> {
        if !self.columns.is_empty() {
            self.write_row_group()?;
        }
        self.close_segment()?;
        Ok(mem::take(&mut self.paths))
    }

    fn write_row_group(&mut self) -> Result<(), SamplesError> {
        let segment = match &mut self.segment {
            Some(segment) => segment,
            None => {
                let path = self.directory.join(format!("imported-{:05}.parquet", self.paths.len()));
                self.paths.push(path.clone());
                self.segment.insert(SegmentFile::create(&path)?)
            }
        };
        segment.row_group(&self.columns)?;
        self.columns.clear();
        self.row_groups += 1;
        if self.row_groups == ROW_GROUPS { self.close_segment() } else { Ok(()) }
    }

    fn close_segment(&mut self) -> Result<(), SamplesError> {
        self.row_groups = 0;
        self.segment.take().map_or(Ok(()), |segment| segment.finish().map(drop))
    }
}
