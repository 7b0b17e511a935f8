//! Reads the folder of a recorded inference: the lines of `runs.jsonl`, the plans of the probes, and the samples.

use std::collections::BTreeMap;

use flashlab_base::Bytes;
use flashlab_plan::{Pattern, Plan, PlanError};
use flashlab_samples::{PROBE_STEPS_VERSION, ProbeRun, ProbeRunEnd, ProbeStep, RunFolder, SamplesError};
use thiserror::Error;

use crate::lab::Limits;
use crate::recorded::{RecordedProbeRun, RecordedStep, RecordedSteps};

/// The folder of the probes' plans, as `probes/07-queue-depth.toml`.
pub const PROBES_FOLDER: &str = "probes";
/// The largest time and size in a line of a recording. Unit: ns or bytes. Source: derivation: sums of them
/// stay within 64 bits. Too high: damaged recordings overflow; too low: large devices cannot be replayed.
const FIELD_MOST: u64 = 1 << 52;

/// Why a recorded inference cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// A file of the folder cannot be read.
    #[error(transparent)]
    Folder(#[from] SamplesError),
    /// A plan of a probe is damaged.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The folder has no recorded inference.
    #[error("{0}: there is no recorded inference in it: record one with flashlab infer TARGET --output DIR")]
    Missing(String),
    /// The recording has a version that this program does not know.
    #[error("{0}: its steps have version {1}, and this program reads version {PROBE_STEPS_VERSION}")]
    Version(String, u32),
    /// A figure is impossible.
    #[error("{0}: a figure is too large: the file is damaged")]
    Damaged(String),
    /// A line names an experiment that no plan has.
    #[error("{path}: the plan of probe {probe} has no experiment {experiment}: the folder is incomplete")]
    Experiment {
        /// The folder.
        path: String,
        /// The probe.
        probe: String,
        /// The missing experiment.
        experiment: String,
    },
    /// A run has more or fewer samples than its pattern has IOs, and its line says that all were done.
    #[error(
        "{path}: run {run} has {found} samples, and its pattern has another number of IOs: restore the folder"
    )]
    Samples {
        /// The folder.
        path: String,
        /// The run.
        run: u32,
        /// Its samples.
        found: usize,
    },
}

/// A recorded inference.
pub struct Recording {
    folder: RunFolder,
    limits: Limits,
    lines: Vec<ProbeStep>,
}

impl Recording {
    /// Opens the recording in a folder.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn open(folder: &RunFolder) -> Result<Recording, RecordingError> {
        let name = || folder.path().display().to_string();
        let lines: Vec<ProbeStep> = folder.runs()?;
        let device = lines.iter().find_map(|line| match *line {
            ProbeStep::Device { version, capacity_bytes, block_bytes, depth } => {
                Some((version, Limits { capacity: Bytes(capacity_bytes), block: Bytes(block_bytes), depth }))
            }
            _ => None,
        });
        let (version, limits) = device.ok_or_else(|| RecordingError::Missing(name()))?;
        if version != PROBE_STEPS_VERSION {
            return Err(RecordingError::Version(name(), version));
        }
        let is_sane = limits.block.0 >= 1 && limits.capacity.0 <= FIELD_MOST && limits.depth >= 1;
        if !is_sane || !lines.iter().all(has_sane_figures) {
            return Err(RecordingError::Damaged(name()));
        }
        Ok(Recording { folder: folder.clone(), limits, lines })
    }

    /// What the recorded device accepts.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The probes that came to their end, in the order of their first attempts.
    pub fn probes(&self) -> Vec<&str> {
        let mut probes: Vec<&str> = Vec::new();
        for line in &self.lines {
            match line {
                ProbeStep::End { probe, is_complete: true } if !probes.contains(&probe.as_str()) => {
                    probes.push(probe);
                }
                _ => {}
            }
        }
        probes
    }

    /// The steps of a probe's last complete attempt; `None` if there is none.
    ///
    /// # Errors
    /// If its plan or its samples cannot be read.
    pub fn steps_of(&self, probe: &str) -> Result<Option<Vec<RecordedStep>>, RecordingError> {
        let Some(lines) = self.attempt(probe) else { return Ok(None) };
        let patterns = self.patterns(probe)?;
        let runs: Vec<u32> = lines.iter().filter_map(run_of).map(|run| run.run).collect();
        let mut samples = self.folder.segment_index().samples_by_run(&runs)?;
        let step = |line: &ProbeStep| match line {
            ProbeStep::Run(run) => {
                let pattern = patterns.get(&run.experiment).ok_or_else(|| RecordingError::Experiment {
                    path: self.folder.path().display().to_string(),
                    probe: probe.to_owned(),
                    experiment: run.experiment.clone(),
                })?;
                let samples = samples.remove(&run.run).unwrap_or_default();
                if run.ended == ProbeRunEnd::PatternDone
                    && let Some(count) = pattern.io_count
                    && samples.len() as u64 != count.saturating_mul(u64::from(pattern.parallel_degree))
                {
                    return Err(RecordingError::Samples {
                        path: self.folder.path().display().to_string(),
                        run: run.run,
                        found: samples.len(),
                    });
                }
                Ok(RecordedStep::Run(RecordedProbeRun {
                    run: run.clone(),
                    pattern: pattern.clone(),
                    samples,
                }))
            }
            other => Ok(RecordedStep::Other(other.clone())),
        };
        lines.iter().map(step).collect::<Result<Vec<_>, RecordingError>>().map(Some)
    }

    /// The lines of the probe's last complete attempt, without its end.
    fn attempt(&self, wanted: &str) -> Option<&[ProbeStep]> {
        let is_end =
            |step: &ProbeStep| matches!(step, ProbeStep::End { probe, is_complete: true } if probe == wanted);
        let end = self.lines.iter().rposition(is_end)?;
        let is_begin = |step: &ProbeStep| matches!(step, ProbeStep::Begin { probe, .. } if probe == wanted);
        let begin = self.lines[..end].iter().rposition(is_begin)?;
        Some(&self.lines[begin..end])
    }

    /// The patterns of a probe's plan, by their names.
    fn patterns(&self, probe: &str) -> Result<BTreeMap<String, Pattern>, RecordingError> {
        let suffix = format!("-{probe}.toml");
        for name in self.folder.listed_in(PROBES_FOLDER) {
            let is_plan = name.strip_suffix(&suffix).is_some_and(|number| number.parse::<u32>().is_ok());
            if is_plan {
                let path = format!("{PROBES_FOLDER}/{name}");
                let plan = Plan::parse(&self.folder.read_plan(&path)?, &path)?;
                return Ok(plan.experiments.into_iter().map(|kept| (kept.name, kept.pattern)).collect());
            }
        }
        Ok(BTreeMap::new())
    }
}

impl RecordedSteps for Recording {
    fn steps(&mut self, probe: &str) -> Result<Option<Vec<RecordedStep>>, String> {
        self.steps_of(probe).map_err(|error| error.to_string())
    }
}

fn run_of(step: &ProbeStep) -> Option<&ProbeRun> {
    match step {
        ProbeStep::Run(run) => Some(run),
        _ => None,
    }
}

fn has_sane_figures(step: &ProbeStep) -> bool {
    let is_sane = |figures: &[u64]| figures.iter().all(|&figure| figure <= FIELD_MOST);
    match step {
        ProbeStep::Begin { now_ns, .. } => is_sane(&[*now_ns]),
        ProbeStep::Run(run) => is_sane(&[
            run.begin_ns,
            run.end_ns,
            run.now_ns,
            run.device_traffic_bytes.unwrap_or_default(),
            run.cpu_wait_ns.unwrap_or_default(),
        ]),
        ProbeStep::Idle { time_ns, now_ns } => is_sane(&[*time_ns, *now_ns]),
        ProbeStep::Flush { took_ns, now_ns } => is_sane(&[took_ns.unwrap_or_default(), *now_ns]),
        ProbeStep::MediaWritten { bytes } => is_sane(&[bytes.unwrap_or_default()]),
        _ => true,
    }
}
