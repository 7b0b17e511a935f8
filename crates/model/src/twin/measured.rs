//! What a run of `flashlab bench` did and measured: each of its runs with the pattern, the seed and the response times.
//!
//! The IOs of a run follow from its pattern and its seed, so that a candidate for a twin serves the same requests, in the
//! same order and after the same pauses, as the device did.

use std::path::Path;

use flashlab_analysis::TwinKind;
use flashlab_analysis::findings::Regime;
use flashlab_base::{Bytes, Nanos, Sample, Seed};
use flashlab_bench::{Purpose, RunRecord, open_run};
use flashlab_plan::{Pattern, Plan, Space};
use flashlab_samples::SegmentIndex;
use flashlab_sim::profile::RESPONSE_TREE;

use crate::ModelError;

/// One run of a pattern.
#[derive(Clone, Debug)]
pub struct MeasuredRun {
    /// Its number in the folder.
    pub(super) number: u32,
    /// What it was for.
    pub purpose: Purpose,
    /// Whether its writes did not settle, or not in the regime that it was meant for: it is served for the state that it leaves, and compared
    /// in nothing.
    pub is_undecided: bool,
    /// The pattern, placed on the device.
    pub pattern: Pattern,
    /// The seed of its IOs.
    pub seed: Seed,
    /// The pause before it.
    pub pause: Nanos,
    /// IOs of each process that no figure counts.
    pub io_ignore: u64,
    /// IOs of each process.
    pub ios: Vec<u64>,
    /// Bytes written.
    pub written: Bytes,
    /// The response times in nanoseconds that figures count: of each process, in the order of its IOs.
    pub responses: Vec<Vec<u64>>,
}

impl MeasuredRun {
    /// Its number among the repetitions of a point, from 1; 1 for what is no point.
    pub(super) fn repetition(&self) -> u32 {
        match &self.purpose {
            Purpose::Point { repetition, .. } => *repetition,
            _ => 1,
        }
    }

    /// The response times of all processes.
    pub fn all_responses(&self) -> Vec<u64> {
        self.responses.concat()
    }

    /// What it measures, the same for all repetitions.
    pub(super) fn point_name(&self) -> String {
        match &self.purpose {
            Purpose::Point { plan, experiment, regime, label, .. } => {
                format!("{plan} {} {label}", Regime::experiment_name(*regime, experiment))
            }
            Purpose::SteadyRound { .. } => "steady round".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// Only the first IOs, at most `most` that figures count in all processes together.
    pub(super) fn shortened(&self, most: usize) -> MeasuredRun {
        let each = (most / self.responses.len().max(1)).max(1);
        let mut short = self.clone();
        for (ios, responses) in short.ios.iter_mut().zip(&mut short.responses) {
            responses.truncate(each);
            *ios = (*ios).min(self.io_ignore + each as u64);
        }
        short
    }
}

/// All runs of a folder, in their order.
#[derive(Clone, Debug)]
pub struct MeasuredRuns {
    /// The target, as it was named.
    pub target: String,
    /// The device's size and block.
    pub space: Space,
    /// The size of the whole device, of which the benchmark may have used a part.
    pub capacity: Bytes,
    /// What the target is made of, if it is itself a twin.
    pub kind: TwinKind,
    /// The runs.
    pub runs: Vec<MeasuredRun>,
    segments: SegmentIndex,
}

impl MeasuredRuns {
    /// The last repetition that models are fitted to while they are judged; the last third is held out. All, if there is only one.
    pub(super) fn fitted_repetitions(&self) -> u32 {
        let all = self.runs.iter().map(MeasuredRun::repetition).max().unwrap_or(1);
        (all - (all / 3).max(1)).max(1)
    }

    /// Whether repetitions are held out.
    pub(super) fn has_held_out_repetitions(&self) -> bool {
        self.runs.iter().any(|run| run.repetition() > self.fitted_repetitions())
    }

    /// All IOs of a run that did not fail, in the order of their submission, from its files.
    ///
    /// # Errors
    /// When its files are damaged.
    pub(super) fn served(&self, run: &MeasuredRun) -> Result<Vec<Sample>, ModelError> {
        let mut served = Vec::new();
        self.segments
            .each_sample(run.number, |sample| served.extend((sample.errno == 0).then_some(*sample)))?;
        served.sort_by_key(|sample| (sample.submitted, sample.process, sample.position));
        Ok(served)
    }

    /// Reads a run's folder.
    ///
    /// # Errors
    /// When it holds no run of `bench`, or its files are damaged.
    pub fn read(path: &Path) -> Result<MeasuredRuns, ModelError> {
        let (folder, manifest, _) = open_run(path)?;
        let records: Vec<RunRecord> = flashlab_bench::records(&folder)?;
        let segments = folder.segment_index();
        let mut runs = Vec::new();
        for record in records.into_iter().filter(|record| record.ended.is_some()) {
            let name = format!("{}: run {}", path.display(), record.run);
            let mut plan = Plan::parse(&record.pattern, &name)?;
            let Some(experiment) = plan.experiments.pop() else {
                return Err(ModelError::Input(format!("{name} has no pattern: the file is damaged")));
            };
            let processes = experiment.pattern.parallel_degree;
            let (mut ios, mut counted) = (Vec::new(), Vec::new());
            let mut stranger = None;
            segments.each_sample(record.run, |sample| {
                // A number from a file is a length here: it is one that the pattern has.
                if sample.process >= processes {
                    stranger = Some(sample.process);
                    return;
                }
                let process = sample.process as usize;
                if ios.len() <= process {
                    ios.resize(process + 1, 0);
                }
                ios[process] += 1;
                if sample.errno == 0 && sample.position >= record.io_ignore {
                    counted.push((sample.process, sample.position, sample.response().0));
                }
            })?;
            if let Some(process) = stranger {
                return Err(ModelError::Input(format!(
                    "{name} has samples of process {process}, and its pattern has {processes} processes: its samples are \
                     damaged or those of another run; restore the folder"
                )));
            }
            counted.sort_unstable();
            let mut responses = vec![Vec::new(); ios.len()];
            for (process, _, response) in counted {
                responses[process as usize].push(response);
            }
            runs.push(MeasuredRun {
                number: record.run,
                is_undecided: record.is_undecided(),
                purpose: record.purpose,
                pattern: experiment.pattern,
                seed: record.seed,
                pause: Nanos(record.pause_ns),
                io_ignore: record.io_ignore,
                ios,
                written: Bytes(record.written_bytes),
                responses,
            });
        }
        let settings = &manifest.settings;
        let block = manifest.identity.logical_block.unwrap_or(Bytes(512));
        Ok(MeasuredRuns {
            target: settings.target.clone(),
            space: Space { capacity: settings.target_size.round_down(block), block },
            capacity: manifest.identity.capacity,
            kind: match manifest.identity.mechanism.as_deref() {
                Some(RESPONSE_TREE) => TwinKind::ResponseTree,
                _ => TwinKind::Mechanism,
            },
            runs,
            segments,
        })
    }
}
