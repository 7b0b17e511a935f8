//! A [`RecordedDevice`] answers probes from the samples of an earlier inference.
//!
//! # Model
//! A recording has the steps of each probe in their order: patterns with their samples, idle times, flushes,
//! counters. The same probes ask for the same steps and get the same answers, so that an unchanged estimator gives
//! the same findings, byte for byte.
//!
//! # Method
//! 1. When a probe begins, its steps are loaded, those of its last complete attempt.
//! 2. Each step that the probe asks for is looked for from the last one on. Steps that a changed probe no longer asks
//!    for are skipped.
//! 3. A pattern matches a recorded run if it is the same and the recorded IOs are its IOs: same order, mode, offset
//!    and size. A pattern with fewer IOs than recorded gets the first of them.
//!
//! # Invariants
//! - No answer is made up. A step that was never done is [`Halt::Diverges`], which names the probe and the pattern.

use std::sync::atomic::AtomicBool;

use flashlab_base::{Bytes, Nanos, Sample};
use flashlab_engine::{Control, StopReason};
use flashlab_plan::{Pattern, Placed};
use flashlab_samples::{ProbeRun, ProbeStep};

use crate::checkpoint::WritesBefore;
use crate::halt::Halt;
use crate::journal::outcome_of;
use crate::lab::{Lab, LabRun, Limits, PlacedPattern};

/// A step of a recorded probe.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all steps are runs")]
pub enum RecordedStep {
    /// A pattern with its samples.
    Run(RecordedProbeRun),
    /// Any other step.
    Other(ProbeStep),
}

/// A pattern with its samples.
#[derive(Clone, Debug)]
pub struct RecordedProbeRun {
    /// What the samples do not have.
    pub run: ProbeRun,
    /// The pattern, from the probe's plan.
    pub pattern: Pattern,
    /// Every IO, in any order.
    pub samples: Vec<Sample>,
}

/// Where the steps of a probe come from.
pub trait RecordedSteps {
    /// The steps of a probe's last complete attempt; `None` if it was not run.
    ///
    /// # Errors
    /// Why they cannot be read, as a sentence without its full stop.
    fn steps(&mut self, probe: &str) -> Result<Option<Vec<RecordedStep>>, String>;
}

/// A device that answers from a recording.
pub struct RecordedDevice<'a> {
    limits: Limits,
    source: &'a mut dyn RecordedSteps,
    probe: String,
    steps: std::collections::VecDeque<RecordedStep>,
    now: Nanos,
}

impl<'a> RecordedDevice<'a> {
    /// A device with these limits and steps.
    pub fn new(limits: Limits, source: &'a mut dyn RecordedSteps) -> RecordedDevice<'a> {
        RecordedDevice { limits, source, probe: String::new(), steps: Default::default(), now: Nanos::ZERO }
    }

    /// The next recorded step that `select` accepts; those before it are skipped.
    fn next<T>(&mut self, asked: &str, select: impl FnMut(&RecordedStep) -> Option<T>) -> Result<T, Halt> {
        self.next_of_first(self.steps.len(), asked, select)
    }

    /// The same, before the next pattern: what is not done with it would be done in another state of the device.
    fn next_between<T>(
        &mut self,
        asked: &str,
        select: impl FnMut(&RecordedStep) -> Option<T>,
    ) -> Result<T, Halt> {
        let is_run = |step: &RecordedStep| matches!(step, RecordedStep::Run(_));
        let count = self.steps.iter().position(is_run).unwrap_or(self.steps.len());
        self.next_of_first(count, asked, select)
    }

    fn next_of_first<T>(
        &mut self,
        count: usize,
        asked: &str,
        mut select: impl FnMut(&RecordedStep) -> Option<T>,
    ) -> Result<T, Halt> {
        let mut steps = self.steps.iter().take(count).enumerate();
        let Some((index, value)) = steps.find_map(|(index, step)| Some((index, select(step)?))) else {
            return Err(self.diverges(asked));
        };
        self.steps.drain(..=index);
        Ok(value)
    }

    fn diverges(&self, asked: &str) -> Halt {
        let recorded = match self.steps.front() {
            None => "has no more steps of it".to_owned(),
            Some(RecordedStep::Run(run)) => format!("goes on with the pattern {}", run.run.experiment),
            Some(RecordedStep::Other(ProbeStep::Idle { .. })) => "goes on with idle time".to_owned(),
            Some(RecordedStep::Other(ProbeStep::Flush { .. })) => "goes on with a flush".to_owned(),
            Some(RecordedStep::Other(_)) => "goes on with something else".to_owned(),
        };
        Halt::Diverges(format!("probe {} asks for {asked}, and the recording {recorded}", self.probe))
    }
}

/// The process's samples in the order of their positions, if they are IOs of the placed pattern, as many of them as the
/// pattern has.
fn answers(recorded: &RecordedProbeRun, placed: &Placed) -> Option<Vec<Vec<Sample>>> {
    let mut processes: Vec<Vec<Sample>> = vec![Vec::new(); placed.processes() as usize];
    for sample in &recorded.samples {
        processes.get_mut(sample.process as usize)?.push(*sample);
    }
    for (process, samples) in processes.iter_mut().enumerate() {
        samples.sort_by_key(|sample| sample.position);
        let mut planned = placed.ios(process as u32);
        let mut count = 0;
        for sample in samples.iter() {
            let Some(io) = planned.next() else { break };
            let is_same = (io.position, io.mode, io.offset, io.size)
                == (sample.position, sample.mode, sample.offset, sample.size);
            if !is_same {
                return None;
            }
            count += 1;
        }
        samples.truncate(count);
    }
    Some(processes)
}

/// Whether a run of one pattern answers the other, which may have fewer IOs.
fn is_same_pattern(recorded: &Pattern, asked: &Pattern) -> bool {
    let asked_count = asked.io_count.unwrap_or_default();
    recorded.io_count.is_some_and(|count| count >= asked_count)
        && *recorded == Pattern { io_count: recorded.io_count, ..asked.clone() }
}

impl Lab for RecordedDevice<'_> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn begin(&mut self, probe: &str) -> Result<Option<WritesBefore>, Halt> {
        probe.clone_into(&mut self.probe);
        let steps = self.source.steps(probe).map_err(Halt::Diverges)?;
        let Some(steps) = steps else {
            return Err(Halt::Diverges(format!("probe {probe} is not in the recording")));
        };
        self.steps = steps.into();
        let Some(RecordedStep::Other(ProbeStep::Begin { now_ns, writes_before, .. })) = self.steps.front()
        else {
            return Ok(None);
        };
        self.now = Nanos(*now_ns);
        let writes = writes_before.as_ref().map(|writes| WritesBefore::of(writes, self.limits.capacity));
        let writes = writes.transpose().map_err(Halt::Diverges)?;
        self.steps.pop_front();
        Ok(writes)
    }

    fn run(&mut self, pattern: &PlacedPattern<'_>, _: &Control<'_>) -> Result<LabRun, Halt> {
        enum Answer {
            Run(LabRun, Nanos),
            Misfit(String),
        }
        let asked = format!("the pattern {} with seed {}", pattern.experiment, pattern.seed);
        let answer = self.next(&asked, |step| match step {
            RecordedStep::Run(recorded) if is_same_pattern(&recorded.pattern, pattern.pattern) => {
                let samples = answers(recorded, pattern.placed)?;
                let mut outcome = outcome_of(&recorded.run, &samples);
                let is_shorter = (outcome.ios as usize) < recorded.samples.len();
                let mut now = Nanos(recorded.run.now_ns);
                if is_shorter {
                    outcome.ended = StopReason::PatternDone;
                    outcome.end = samples.iter().flatten().map(|sample| sample.completed).max()?;
                    now = outcome.end;
                }
                let refusal = recorded.run.refusal.clone();
                Some(Answer::Run(LabRun { samples, outcome, refusal }, now))
            }
            RecordedStep::Other(ProbeStep::Misfit { experiment, reason })
                if experiment == pattern.experiment =>
            {
                Some(Answer::Misfit(reason.clone()))
            }
            _ => None,
        })?;
        match answer {
            Answer::Misfit(reason) => Err(Halt::Misfit(reason)),
            Answer::Run(run, now) => {
                self.now = now;
                Ok(run)
            }
        }
    }

    fn idle(&mut self, until: Nanos, _: &AtomicBool, _: &mut dyn FnMut(Nanos)) -> Result<(), Halt> {
        let time = until.since(self.now);
        self.now = self.next_between(&format!("{time} of idle time"), |step| match step {
            RecordedStep::Other(ProbeStep::Idle { time_ns, now_ns }) if *time_ns == time.0 => {
                Some(Nanos(*now_ns))
            }
            _ => None,
        })?;
        Ok(())
    }

    fn flush(&mut self, _: &AtomicBool) -> Result<Option<Nanos>, Halt> {
        let (took, now) = self.next_between("a flush", |step| match step {
            RecordedStep::Other(ProbeStep::Flush { took_ns, now_ns }) => {
                Some((took_ns.map(Nanos), Nanos(*now_ns)))
            }
            _ => None,
        })?;
        self.now = now;
        Ok(took)
    }

    fn media_written(&mut self) -> Result<Option<Bytes>, Halt> {
        self.next_between("the counter of programmed bytes", |step| match step {
            RecordedStep::Other(ProbeStep::MediaWritten { bytes }) => Some(bytes.map(Bytes)),
            _ => None,
        })
    }
}
