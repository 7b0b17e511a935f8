//! Opens a recording: its files are verified, and what its IOs have in common is found or loaded.

use std::path::PathBuf;
use std::sync::Arc;

use flashlab_samples::{Columns, SegmentReader};
use rayon::prelude::*;

use crate::error::ViewError;
use crate::overview::Overview;
use crate::pyramid_file;
use crate::recording::{COUNTED_IOS_MOST, ReadProgress, Source, ViewedRecording, last_completion};
use crate::stamp::stamps;

impl ViewedRecording {
    /// Opens a recording. One with many IOs is summed up to a pyramid, or that is loaded from its file.
    ///
    /// # Errors
    /// If a file is damaged or cannot be read.
    pub fn open(source: Source, progress: ReadProgress) -> Result<ViewedRecording, ViewError> {
        let stamps = stamps(&source.segments);
        let segments = open_segments(&source.segments)?;
        let ios = ios_of(&segments);
        let mut recording = ViewedRecording::new(source, stamps, segments);
        if ios > COUNTED_IOS_MOST {
            pyramid_file::load_or_build(&mut recording, progress)?;
        } else {
            recording.survey(progress)?;
        }
        Ok(recording)
    }

    /// Reads all IOs once, for what they have in common.
    fn survey(&mut self, progress: ReadProgress) -> Result<(), ViewError> {
        self.find_row_groups(progress)?;
        let groups: Vec<usize> = (0..self.row_groups.len()).collect();
        self.survey_groups(&groups)
    }

    /// Reads the IOs of these row groups once, for what they have in common.
    pub(crate) fn survey_groups(&mut self, groups: &[usize]) -> Result<(), ViewError> {
        let extents: Vec<(u64, Overview)> = groups
            .par_iter()
            .map_init(Columns::default, |columns, &group| {
                let ios = self.ios(group, true, columns)?;
                Ok((last_completion(&ios), Overview::of(&ios, &self.source.runs)))
            })
            .collect::<Result<_, ViewError>>()?;
        self.take_extents(groups, extents);
        Ok(())
    }
}

/// Opens the segments of a recording.
pub(crate) fn open_segments(paths: &[PathBuf]) -> Result<Vec<Arc<SegmentReader>>, ViewError> {
    paths.iter().map(|path| Ok(Arc::new(SegmentReader::open(path)?))).collect()
}

/// The IOs of segments, as their footers say.
pub(crate) fn ios_of(segments: &[Arc<SegmentReader>]) -> u64 {
    let of_segment = |segment: &Arc<SegmentReader>| {
        (0..segment.row_group_count()).map(|group| segment.row_count(group)).sum::<u64>()
    };
    segments.iter().map(of_segment).sum()
}
