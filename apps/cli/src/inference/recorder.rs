//! Writes each step of an inference into its folder: the lines of `runs.jsonl`, and the samples.
//!
//! # Invariants
//! - A line gets into the folder after its samples.
//! - Nothing is written while a pattern runs. Steps are collected in memory and written when a probe ends, or when there are
//!   [`SAMPLES_MOST`] samples.

use std::mem;

use flashlab_base::Sample;
use flashlab_samples::{ProbeStep, RunFolder, SamplesError};

/// Samples that are collected at most: 36 MiB. Fewer would write more often between two patterns of a probe, and writing takes
/// time in which the device is idle.
const SAMPLES_MOST: usize = 1 << 19;

/// Collects the steps of an inference and writes them.
pub struct Recorder<'a> {
    folder: &'a RunFolder,
    next_run: Option<u32>,
    lines: Vec<ProbeStep>,
    samples: Vec<(u32, Vec<Sample>)>,
    sample_count: usize,
}

impl<'a> Recorder<'a> {
    /// Goes on in a folder, which may have runs already.
    pub fn new(folder: &'a RunFolder) -> Recorder<'a> {
        Recorder { folder, next_run: None, lines: Vec::new(), samples: Vec::new(), sample_count: 0 }
    }

    /// Records a step.
    pub fn add(&mut self, mut step: ProbeStep, samples: &[Vec<Sample>]) -> Result<(), SamplesError> {
        if let ProbeStep::Run(run) = &mut step {
            run.run = self.run_number()?;
            let samples = samples.concat();
            self.sample_count += samples.len();
            self.samples.push((run.run, samples));
        }
        let is_end = matches!(step, ProbeStep::End { .. });
        self.lines.push(step);
        if is_end || self.sample_count >= SAMPLES_MOST { self.write() } else { Ok(()) }
    }

    fn run_number(&mut self) -> Result<u32, SamplesError> {
        let number = match self.next_run {
            Some(number) => number,
            None => self.folder.last_run().map_or(1, |last| last + 1),
        };
        self.next_run = Some(number + 1);
        Ok(number)
    }

    fn write(&mut self) -> Result<(), SamplesError> {
        self.sample_count = 0;
        self.folder.write_short_runs(&mem::take(&mut self.samples))?;
        self.folder.add_runs(&mem::take(&mut self.lines))
    }
}
