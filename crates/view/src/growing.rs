//! A recording that grew: what is known of it stays, and only its new segments are read.
//!
//! # Method
//! 1. The known segments must be as they were. Otherwise a run was repeated, and the recording is opened anew.
//! 2. The new segments are verified, and their row groups are read once: for what their IOs have in common, or into the pyramid.
//! 3. A run's record follows its last segment. With it the end of the run's start-up phase is known, and is looked up in the segments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use flashlab_samples::{Column, Columns};

use crate::error::ViewError;
use crate::opening::{ios_of, open_segments};
use crate::overview::RunLabel;
use crate::pyramid_file;
use crate::recording::{COUNTED_IOS_MOST, ReadProgress, Source, ViewedRecording, row_groups_of};
use crate::stamp::{Stamp, stamps};
use crate::summing;

/// Nobody waits with a progress bar while a page is open.
const UNSEEN: ReadProgress<'static> = &|_, _, _| {};

impl ViewedRecording {
    /// The recording as it is now.
    ///
    /// # Errors
    /// If a file is damaged or cannot be read: the next look may find it whole, or gone from the list.
    pub(crate) fn grown(&self, source: Source) -> Result<ViewedRecording, ViewError> {
        match self.with_more(&source)? {
            Some(mut grown) => {
                grown.find_start_ups(&self.source.runs)?;
                if !grown.source.is_growing {
                    pyramid_file::keep(&mut grown);
                }
                Ok(grown)
            }
            None => ViewedRecording::open(source, UNSEEN),
        }
    }

    /// The recording with the new segments. `None` if it has to be opened anew.
    fn with_more(&self, source: &Source) -> Result<Option<ViewedRecording>, ViewError> {
        let now: BTreeMap<PathBuf, Stamp> =
            source.segments.iter().cloned().zip(stamps(&source.segments)).collect();
        let mut stamped = self.source.segments.iter().zip(&self.stamps);
        if stamped.any(|(path, stamp)| now.get(path) != Some(stamp)) {
            return Ok(None);
        }
        let known: BTreeSet<&PathBuf> = self.source.segments.iter().collect();
        let more: Vec<PathBuf> =
            source.segments.iter().filter(|path| !known.contains(path)).cloned().collect();
        let readers = open_segments(&more)?;
        let found = row_groups_of(&readers, self.segments.len(), UNSEEN)?;
        let is_counted = self.pyramid.is_none();
        let becomes_large = is_counted && ios_of(&self.segments) + ios_of(&readers) > COUNTED_IOS_MOST;
        let begins_earlier = found.iter().any(|(_, (first, _))| *first < self.origin_ns);
        if self.row_groups.is_empty() || becomes_large || begins_earlier {
            return Ok(None);
        }
        // The order of the segments is that in which they came: row groups name them by their number.
        let segments = self.source.segments.iter().chain(&more).cloned().collect();
        let mut grown = ViewedRecording {
            stamps: self.stamps.iter().chain(more.iter().filter_map(|path| now.get(path))).cloned().collect(),
            source: Source { segments, ..source.clone() },
            overview: self.overview.clone(),
            pyramid: None,
            segments: self.segments.iter().chain(&readers).map(Arc::clone).collect(),
            row_groups: self.row_groups.clone(),
            origin_ns: self.origin_ns,
            kept: Arc::clone(&self.kept),
        };
        grown.add_row_groups(found);
        let is_new = |group: &usize| grown.row_groups[*group].segment >= self.segments.len();
        let groups: Vec<usize> = (0..grown.row_groups.len()).filter(is_new).collect();
        match &self.pyramid {
            Some(pyramid) => {
                grown.pyramid = summing::append(&mut grown, pyramid, &groups, UNSEEN)?;
                Ok(grown.pyramid.is_some().then_some(grown))
            }
            None => grown.survey_groups(&groups).map(|()| Some(grown)),
        }
    }

    /// The recording as it was at the latest look, and why it is not followed any more.
    pub(crate) fn stopped(&self, why: &str) -> ViewedRecording {
        let mut source = Source { is_growing: false, ..self.source.clone() };
        source.notes.push(format!("the recording is not followed any more: {why}"));
        ViewedRecording { source, ..self.clone() }
    }

    /// Notes when the start-up phase ended of runs whose length was not known before.
    fn find_start_ups(&mut self, known: &[RunLabel]) -> Result<(), ViewError> {
        let is_new = |label: &&RunLabel| label.io_ignore > 0 && !known.iter().any(|old| old.run == label.run);
        let labels: Vec<(u32, u64)> =
            self.source.runs.iter().filter(is_new).map(|label| (label.run, label.io_ignore)).collect();
        let mut columns = Columns::default();
        for (run, io_ignore) in labels {
            let Some(at) = self.overview.runs.iter().position(|overview| overview.run == run) else {
                continue;
            };
            let (begin, end) = self.overview.runs[at].time_ns;
            let mut found = self.overview.runs[at].start_up_end_ns;
            for group in &self.row_groups {
                if group.time_ns.0 > end || group.time_ns.1 < begin {
                    continue;
                }
                let wanted = [Column::Run, Column::Position, Column::Intended];
                self.segments[group.segment].read(group.index, &wanted, &mut columns)?;
                let ios = columns.run.iter().zip(&columns.position).zip(&columns.intended_ns);
                let own = ios.filter(|((own, _), _)| **own as u32 == run);
                let (mut is_past, mut last) = (false, None);
                for ((_, &position), &time) in own {
                    if (position.max(0) as u64) < io_ignore {
                        last = last.max(Some(time.wrapping_sub(self.origin_ns) as u64));
                    } else {
                        is_past = true;
                    }
                }
                found = found.max(last);
                if is_past && last.is_none() {
                    break;
                }
            }
            self.overview.runs[at].start_up_end_ns = found;
        }
        Ok(())
    }
}
