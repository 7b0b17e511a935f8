//! The segments of a folder, by the runs whose samples they have.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::{Column, Columns, SamplesError, for_each_batch, for_each_batch_of};
use flashlab_base::Sample;

/// The most runs that share a segment.
pub(crate) const SHARED_RUNS_MOST: u32 = 1 << 16;

/// A closed segment's file.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// The runs whose samples it may contain; one, or many short ones.
    pub runs: RangeInclusive<u32>,
    number: u32,
    pub path: PathBuf,
}

impl Segment {
    /// Parses `run-00012-00000.parquet`, segment 0 of run 12, and `runs-00013-00045.parquet`, runs 13 to 45; `None` for every
    /// other name.
    pub fn named(path: PathBuf) -> Option<Segment> {
        let name = path.file_name()?.to_str()?.strip_suffix(".parquet")?;
        let numbers = name.strip_prefix("runs-").or(name.strip_prefix("run-"))?.split_once('-')?;
        let (first, second): (u32, u32) = (numbers.0.parse().ok()?, numbers.1.parse().ok()?);
        match name.starts_with("runs-") {
            // The most runs bound the index that a damaged name can cause.
            true if second >= first && second - first < SHARED_RUNS_MOST => {
                Some(Segment { runs: first..=second, number: 0, path })
            }
            true => None,
            false => Some(Segment { runs: first..=first, number: second, path }),
        }
    }

    /// The segments among these files, in the order of their runs.
    pub fn among(folder: &Path, files: impl Iterator<Item = String>) -> Vec<Segment> {
        let mut segments: Vec<Segment> = files.filter_map(|file| Segment::named(folder.join(file))).collect();
        segments.sort_by_key(|segment| (*segment.runs.start(), segment.number));
        segments
    }

    /// Passes the samples of one of its runs to `see`, in batches.
    pub fn each_batch_of(
        &self,
        run: u32,
        wanted: &[Column],
        see: &mut impl FnMut(&Columns),
    ) -> Result<(), SamplesError> {
        if self.runs.start() == self.runs.end() {
            return for_each_batch_of(&self.path, wanted, see);
        }
        let mut wanted = wanted.to_vec();
        if !wanted.contains(&Column::Run) {
            wanted.push(Column::Run);
        }
        for_each_batch_of(&self.path, &wanted, |columns| {
            let mut own = columns.clone();
            own.retain_run(run);
            if !own.is_empty() {
                see(&own);
            }
        })
    }
}

/// The closed segments of each run.
#[derive(Clone, Debug, Default)]
pub struct SegmentIndex(BTreeMap<u32, Vec<Segment>>);

impl SegmentIndex {
    pub(crate) fn of(segments: Vec<Segment>) -> SegmentIndex {
        let mut index = SegmentIndex::default();
        for segment in segments {
            for run in segment.runs.clone() {
                index.0.entry(run).or_default().push(segment.clone());
            }
        }
        index
    }

    /// Passes every sample of a run to `see`, as [`RunFolder::each_sample`](crate::RunFolder::each_sample) does. A run without
    /// segments has none.
    ///
    /// # Errors
    /// If a segment cannot be read or is damaged.
    pub fn each_sample(&self, run: u32, mut see: impl FnMut(&Sample)) -> Result<(), SamplesError> {
        let segments = self.0.get(&run).map_or(&[][..], Vec::as_slice);
        let mut see_batch =
            |columns: &Columns| (0..columns.len()).for_each(|index| see(&columns.sample(index)));
        segments.iter().try_for_each(|segment| segment.each_batch_of(run, &Column::ALL, &mut see_batch))
    }

    /// The samples of these runs, which may share segments: each segment is read once.
    ///
    /// # Errors
    /// If a segment cannot be read or is damaged.
    pub fn samples_by_run(&self, runs: &[u32]) -> Result<BTreeMap<u32, Vec<Sample>>, SamplesError> {
        let mut samples: BTreeMap<u32, Vec<Sample>> = runs.iter().map(|&run| (run, Vec::new())).collect();
        let segments = runs.iter().filter_map(|run| self.0.get(run)).flatten();
        let paths: BTreeSet<&PathBuf> = segments.map(|segment| &segment.path).collect();
        for path in paths {
            for_each_batch(path, |columns| {
                for index in 0..columns.len() {
                    if let Some(run) = samples.get_mut(&(columns.run[index] as u32)) {
                        run.push(columns.sample(index));
                    }
                }
            })?;
        }
        Ok(samples)
    }
}
