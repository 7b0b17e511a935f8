//! A recording that is looked at: its segments, their row groups, and what is known of all its IOs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flashlab_samples::{Column, Columns, RunFolder, SegmentReader};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::ViewError;
use crate::ios::IoColumns;
use crate::overview::{Overview, RunLabel};
use crate::pyramid::Pyramid;
use crate::stamp::Stamp;
use crate::windows::Windows;

/// The most IOs that are counted one by one for each picture; recordings with more have a pyramid.
pub const COUNTED_IOS_MOST: u64 = 1 << 20;
/// The most IOs that stay in memory; each takes about 49 bytes.
const KEPT_IOS_MOST: u64 = 3 << 20;

/// Where a recording comes from, and what its program says about it.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// What it is called.
    pub name: String,
    /// What was measured.
    pub target: String,
    /// The verb that made it.
    pub verb: String,
    /// The files with its IOs, as docs/formats.md describes them.
    pub segments: Vec<PathBuf>,
    /// Its runs.
    pub runs: Vec<RunLabel>,
    /// The folder whose list has the segments, and whether it is finished: they are compared with it before they are summed up.
    pub folder: Option<(RunFolder, bool)>,
    /// The page that its verb made of it.
    pub report: Option<PathBuf>,
    /// What the page marks.
    pub marks: Vec<Mark>,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// Where the pyramid is kept: in the first file that can be written.
    pub pyramid_files: Vec<PathBuf>,
    /// Whether a program is writing into it now.
    pub is_growing: bool,
}

/// A time that the page marks.
#[derive(Clone, Debug)]
pub struct Mark {
    /// When it was.
    pub when: MarkedTime,
    /// What it is.
    pub kind: MarkKind,
    /// What it says.
    pub text: String,
}

/// When something was.
#[derive(Clone, Copy, Debug)]
pub enum MarkedTime {
    /// From a moment to another, by the device's clock, nanoseconds.
    Clock(u64, u64),
    /// From the begin of one run to the end of another.
    Runs(u32, u32),
}

/// What a mark is.
#[derive(Clone, Copy, Debug)]
pub enum MarkKind {
    /// The device worked on its own account.
    Collection,
    /// What was found from these IOs, or what is doubtful in them.
    Finding,
}

/// A row group of a segment. Times count from the recording's first IO.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowGroup {
    /// The index of its segment.
    pub segment: usize,
    /// Its index in the segment.
    pub index: usize,
    /// How many IOs it has.
    pub ios: u64,
    /// From the first begin to the last, nanoseconds, both inclusive.
    pub time_ns: (u64, u64),
    /// The last completion, nanoseconds.
    pub completed_ns: u64,
    /// The longest response time, nanoseconds.
    pub response_ns_max: u64,
}

/// A recording that is looked at.
#[derive(Clone)]
pub struct ViewedRecording {
    /// Where it comes from.
    pub source: Source,
    /// What its IOs have in common.
    pub overview: Overview,
    /// What a large recording was summed up to.
    pub(crate) pyramid: Option<Pyramid>,
    pub(crate) segments: Vec<Arc<SegmentReader>>,
    /// The files of the segments as they were when they were opened.
    pub(crate) stamps: Vec<Stamp>,
    /// In the order of their first begin.
    pub(crate) row_groups: Vec<RowGroup>,
    /// The device's clock at the first IO, nanoseconds.
    pub(crate) origin_ns: i64,
    /// Row groups in memory, which a recording that grew shares with what it was.
    pub(crate) kept: Arc<Mutex<KeptRowGroups>>,
}

/// Row groups by segment and index, the most recently used last.
pub(crate) type KeptRowGroups = Vec<((usize, usize), Arc<IoColumns>)>;

/// A row group, with its first begin and its last on the device's clock.
pub(crate) type FoundRowGroup = (RowGroup, (i64, i64));

/// What a recording is being read for, and how far that is: IOs done of all.
pub type ReadProgress<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

impl ViewedRecording {
    /// A recording of which nothing but its segments is known.
    /// The stamps are older than the segments that were opened, so that what replaced one of these does not bear its stamp.
    pub(crate) fn new(
        source: Source,
        stamps: Vec<Stamp>,
        segments: Vec<Arc<SegmentReader>>,
    ) -> ViewedRecording {
        ViewedRecording {
            stamps,
            source,
            overview: Overview::default(),
            pyramid: None,
            segments,
            row_groups: Vec::new(),
            origin_ns: 0,
            kept: Arc::default(),
        }
    }

    /// Notes what the IOs of each of these row groups have in common. Those of all row groups replace what was known.
    pub(crate) fn take_extents(&mut self, groups: &[usize], extents: Vec<(u64, Overview)>) {
        if groups.len() == self.row_groups.len() {
            self.overview = Overview::default();
        }
        for (&group, (completed_ns, overview)) in groups.iter().zip(extents) {
            let group = &mut self.row_groups[group];
            group.completed_ns = completed_ns;
            group.response_ns_max = overview.response_ns.1;
            self.overview.add(&overview);
        }
        self.overview.join_parts();
    }

    /// The bytes of its segments.
    pub(crate) fn samples_bytes(&self) -> u64 {
        let bytes = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
        self.source.segments.iter().map(bytes).sum()
    }

    /// Verifies the segments and reads when the IOs of each row group began: the recording's origin follows.
    pub(crate) fn find_row_groups(&mut self, progress: ReadProgress) -> Result<(), ViewError> {
        if let Some((folder, is_finished)) = &self.source.folder {
            folder.verify_files(*is_finished)?;
        }
        let found = row_groups_of(&self.segments, 0, progress)?;
        self.origin_ns = found.iter().map(|(_, (first, _))| *first).min().unwrap_or(0);
        self.row_groups.clear();
        self.add_row_groups(found);
        Ok(())
    }

    /// Adds row groups, none of which begins before the recording's origin.
    pub(crate) fn add_row_groups(&mut self, found: Vec<FoundRowGroup>) {
        let since = |time: i64| time.wrapping_sub(self.origin_ns) as u64;
        let found = found
            .into_iter()
            .map(|(group, (first, last))| RowGroup { time_ns: (since(first), since(last)), ..group });
        self.row_groups.extend(found);
        self.row_groups.sort_by_key(|group| (group.time_ns, group.segment, group.index));
    }

    /// The IOs of a row group, from its file. If it `is_kept`, they stay in memory, and may be there already. `columns` is a buffer.
    pub(crate) fn ios(
        &self,
        group: usize,
        is_kept: bool,
        columns: &mut Columns,
    ) -> Result<Arc<IoColumns>, ViewError> {
        if !is_kept {
            return Ok(Arc::new(self.read(group, columns)?));
        }
        let key = (self.row_groups[group].segment, self.row_groups[group].index);
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = kept.iter().position(|(known, _)| *known == key) {
                let found = kept.remove(at);
                let ios = Arc::clone(&found.1);
                kept.push(found);
                return Ok(ios);
            }
        }
        let ios = Arc::new(self.read(group, columns)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((key, Arc::clone(&ios)));
        let mut count: u64 = kept.iter().map(|(_, ios)| ios.len() as u64).sum();
        while count > KEPT_IOS_MOST && kept.len() > 1 {
            count -= kept.remove(0).1.len() as u64;
        }
        Ok(ios)
    }

    /// When something was, from the first IO on; `None` if the recording has nothing there.
    pub(crate) fn marked_ns(&self, when: MarkedTime) -> Option<(u64, u64)> {
        let overview = &self.overview;
        match when {
            MarkedTime::Clock(start, end) => {
                // It may have begun before the first IO.
                let since = |time: u64| (time as i64).saturating_sub(self.origin_ns).max(0) as u64;
                (since(end) > 0 && since(start) < overview.time_end_ns).then(|| (since(start), since(end)))
            }
            MarkedTime::Runs(first, last) => {
                let runs = || overview.runs.iter().filter(|run| (first..=last).contains(&run.run));
                let start = runs().map(|run| run.time_ns.0).min()?;
                Some((start, runs().map(|run| run.time_ns.1.saturating_add(1)).max()?))
            }
        }
    }

    /// The longest response time in a row group of the IOs that began in the window of time.
    pub(crate) fn longest_response(
        &self,
        group: usize,
        columns: &mut Columns,
        windows: &Windows,
    ) -> Result<u64, ViewError> {
        let RowGroup { segment, index, .. } = self.row_groups[group];
        let wanted = [Column::Intended, Column::Response];
        self.segments[segment].read(index, &wanted, columns)?;
        let ios = columns.intended_ns.iter().zip(&columns.response_ns);
        let shown = ios
            .filter(|(time, _)| windows.time_ns.contains(&(time.wrapping_sub(self.origin_ns) as u64)))
            .filter_map(|(_, &response)| u64::try_from(response).ok())
            .filter(|response| windows.response_ns.contains(response));
        Ok(shown.max().unwrap_or(0))
    }

    /// All columns of a row group, from its file.
    pub(crate) fn read_whole(&self, group: usize, columns: &mut Columns) -> Result<(), ViewError> {
        let RowGroup { segment, index, .. } = self.row_groups[group];
        Ok(self.segments[segment].read(index, &Column::ALL, columns)?)
    }

    /// The IOs of a row group, from its file.
    pub(crate) fn read(&self, group: usize, columns: &mut Columns) -> Result<IoColumns, ViewError> {
        let RowGroup { segment, index, .. } = self.row_groups[group];
        Ok(IoColumns::read(&self.segments[segment], index, self.origin_ns, columns)?)
    }
}

/// Verifies segments, the first of which has the number `first`, and reads when the IOs of each row group began.
pub(crate) fn row_groups_of(
    segments: &[Arc<SegmentReader>],
    first: usize,
    progress: ReadProgress,
) -> Result<Vec<FoundRowGroup>, ViewError> {
    let files = segments.len() as u64;
    let done = AtomicU64::new(0);
    let found: Vec<Vec<FoundRowGroup>> = segments
        .par_iter()
        .enumerate()
        .map(|(at, reader)| {
            reader.verify()?;
            let mut groups = Vec::new();
            let mut columns = Columns::default();
            for index in 0..reader.row_group_count() {
                reader.read(index, &[Column::Intended], &mut columns)?;
                let times = columns.intended_ns.iter().copied();
                let (Some(begin), Some(end)) = (times.clone().min(), times.max()) else { continue };
                let group = RowGroup {
                    segment: first + at,
                    index,
                    ios: columns.len() as u64,
                    time_ns: (0, 0),
                    completed_ns: 0,
                    response_ns_max: 0,
                };
                groups.push((group, (begin, end)));
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress("verifying files", done, files);
            Ok(groups)
        })
        .collect::<Result<_, ViewError>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// When the last of these IOs completed.
pub(crate) fn last_completion(ios: &IoColumns) -> u64 {
    let completions = ios.time_ns.iter().zip(&ios.response_ns);
    completions.map(|(time, response)| time.saturating_add(*response)).max().unwrap_or(0)
}
