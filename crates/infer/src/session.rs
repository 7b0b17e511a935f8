//! A device while it is probed.
//!
//! # Model
//! What probes do on the device passes here: the lab runs their patterns, the budget counts what they write and how
//! long they take, and the journal keeps each step. What they find is in the document, which later probes read as
//! [`Knowledge`].

pub(crate) mod allowance;
mod filling;
mod probe_run;

use std::fmt;

use crate::priors;
use flashlab_analysis::inference::{Finding, Inference, Parameter};
use flashlab_base::{Bytes, Nanos, Operation, Sample, Seed};
use flashlab_device::IoError;
use flashlab_engine::{Control, Failure, StopReason};
use flashlab_plan::{ModeRule, Pattern, Space};
use flashlab_samples::ProbeStep;

use crate::checkpoint::Known;
use crate::findings::Findings;
use crate::halt::Halt;
use crate::journal::{Journal, record_run};
use crate::knowledge::Knowledge;
use crate::lab::{Lab, LabRun, PlacedPattern};
use crate::progress::{InferenceProgress, InferenceSettings};
use allowance::Allowance;

/// A probe that may write less than this part of the device has too little for any pattern. Unit: part.
/// Source: choice. Too small: small budgets have no answer; too large: patterns of a few writes decide.
const BUDGET_PART: u64 = 100;
/// One idle time takes at most this part of a probe's time limit. Unit: part. Source: choice: with the usual
/// limit of 24 h it shortens none. Too small: idle time uses up the limit; too large: the device's backlog is
/// not complete.
const IDLE_PART: u64 = 12;
/// How long the probes that only read take together where small reads take 60 us or less. Source: choice. Too
/// long: the inference takes longer; too short: saturation and layouts stay undetermined.
const READING_TIME: Nanos = Nanos::from_secs(60);

/// A device while it is probed.
pub struct Session<'d, 's> {
    lab: &'d mut dyn Lab,
    pub(crate) settings: &'s InferenceSettings<'s>,
    pub(crate) findings: Findings<'d>,
    pub(crate) progress: &'d mut dyn InferenceProgress,
    allowance: Allowance,
    journal: Journal,
    /// Why nothing is submitted any more: the device is gone, or an IO is in flight for ever, and nobody would know whose answer comes.
    over: Option<Halt>,
    /// How long they may take together.
    reading_time: Nanos,
}

impl<'d, 's> Session<'d, 's> {
    pub(crate) fn new(
        lab: &'d mut dyn Lab,
        settings: &'s InferenceSettings<'s>,
        known: &'d mut Known,
        progress: &'d mut dyn InferenceProgress,
    ) -> Session<'d, 's> {
        Session {
            lab,
            settings,
            findings: Findings::new(known),
            progress,
            allowance: Allowance::default(),
            journal: Journal::default(),
            over: None,
            reading_time: settings.reading_time.unwrap_or(READING_TIME),
        }
    }

    /// The device's size.
    pub fn capacity(&self) -> Bytes {
        self.lab.limits().capacity
    }

    /// The smallest IO.
    pub fn block(&self) -> Bytes {
        self.lab.limits().block
    }

    /// How many IOs the device takes at once.
    pub fn depth(&self) -> u32 {
        self.lab.limits().depth
    }

    /// Whether the device is known to hold data everywhere, and in order. What holds none may be read without the flash.
    pub fn holds_data(&self) -> bool {
        self.findings.checkpoint.fill.whole_at.is_some()
    }

    /// What is known by now.
    pub fn known(&self) -> Knowledge<'_> {
        self.findings.known()
    }

    /// What the probe may still write.
    pub fn writes_left(&self) -> Bytes {
        self.allowance.writes
    }

    /// How long the probe may still take.
    pub fn time_left(&mut self) -> Nanos {
        self.allowance.deadline.since(self.lab.now())
    }

    /// How long the probes that only read may take together.
    pub(crate) fn reading_time(&self) -> Nanos {
        self.reading_time
    }

    /// A seed for what a probe chooses at random, another one for each label and index.
    pub fn seed(&self, label: &str, index: u64) -> Seed {
        self.settings.seed.derive(self.allowance.seed_label, 0).derive(label, index)
    }

    /// Runs a pattern and gives its samples, in the order in which the IOs were done. It is kept as the experiment
    /// `name` of the probe's plan. Each run has random numbers of its own: running a pattern again is a repetition.
    ///
    /// # Errors
    /// [`Halt::Budget`] before anything is written, if more might be than is left; [`Halt::Misfit`] for a pattern that
    /// has no place on the device; [`Halt::Time`] when the time was used up before the pattern was done;
    /// [`Halt::Failed`] and [`Halt::Gone`] with the first IO that failed; [`Halt::Interrupted`].
    ///
    /// # Panics
    /// If the pattern has no IOCount: a probe knows how much it does.
    pub fn run(&mut self, name: &str, pattern: &Pattern) -> Result<Vec<Sample>, Halt> {
        let write_through = pattern.write_through || self.allowance.through && pattern.writes();
        self.run_as_it_is(name, &Pattern { write_through, ..pattern.clone() })
    }

    /// From now on each write of the probe is flushed, so that it takes what a write buffer would hide.
    /// This needs a flush that was seen to wait for the data in a buffer.
    pub(crate) fn look_through(&mut self) {
        let may_be_buffered = self.known().bytes(Parameter::WriteBufferSize) != Some(Bytes::ZERO);
        self.allowance.through = may_be_buffered && self.findings.checkpoint.fill.flushed_nanos.is_some();
    }

    /// Whether each write of the probe is flushed.
    pub(crate) fn looks_through(&self) -> bool {
        self.allowance.through
    }

    /// The same as [`Session::run`], with the pattern's own flushes, whether or not the probe flushes its writes.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub(crate) fn run_as_it_is(&mut self, name: &str, pattern: &Pattern) -> Result<Vec<Sample>, Halt> {
        let ios = pattern.io_count.expect("a pattern has an IOCount") * u64::from(pattern.parallel_degree);
        self.check_over()?;
        let writes = most_written(pattern, ios);
        if writes > self.allowance.writes {
            return Err(self.short(Halt::Budget { needed: writes, left: self.allowance.writes }));
        }
        let one = most_written(pattern, 1);
        if ios == 0 && one > Bytes::ZERO && self.allowance.writes < Bytes(self.capacity().0 / BUDGET_PART) {
            // A part of next to nothing is nothing.
            let left = self.allowance.writes;
            return Err(self.short(Halt::Budget { needed: left + one, left }));
        }
        let time_limit = self.time_left();
        if time_limit == Nanos::ZERO {
            return Err(self.short(Halt::Time));
        }
        self.allowance.runs += 1;
        let seed = self.seed(name, self.allowance.runs);
        let space = Space { capacity: self.capacity(), block: self.block() };
        let misfit = |error: &dyn fmt::Display| Halt::Misfit(error.to_string());
        let placed = pattern.place(space, seed).map_err(|error| misfit(&error))?;
        let experiment = self.journal.experiment(name, pattern);
        let placed_pattern = PlacedPattern { experiment: &experiment, pattern, placed: &placed, seed };
        let control = Control {
            interrupt: self.settings.interrupt,
            time_limit: Some(time_limit),
            failures_allowed: self.allowance.failures(ios),
        };
        let run = self.lab.run(&placed_pattern, &control);
        if let Err(Halt::Misfit(reason)) = &run {
            let (experiment, reason) = (experiment.clone(), reason.clone());
            self.progress.step(ProbeStep::Misfit { experiment, reason }, &[]);
        }
        let run = self.or_over(run)?;
        self.journal.keep(&experiment, pattern);
        record_run(self.progress, (experiment, seed), &run, self.lab.now());
        self.allowance.count(&run.outcome);
        // The journal of a file system is no other's.
        let own_journal = pattern.write_through && self.findings.inference.identity.file_system.is_some();
        self.allowance.note_others(&run.outcome, own_journal);
        self.findings.inference.written += run.outcome.written;
        self.over = run.outcome.loss.clone().map(Halt::Gone);
        self.check_over()?;
        self.samples_of(run)
    }

    /// The samples of a run that came to its end, in the order in which the IOs were done.
    fn samples_of(&mut self, run: LabRun) -> Result<Vec<Sample>, Halt> {
        let LabRun { samples, outcome, refusal } = run;
        match (outcome.ended, outcome.first_failure) {
            (StopReason::Interrupted, _) => Err(Halt::Interrupted),
            (StopReason::DeviceFailed, Some(failure)) if failure.error.device_is_gone() => {
                Err(Halt::Gone(failure.to_string()))
            }
            (StopReason::DeviceFailed, Some(failure)) => Err(Halt::Failed(reason(&failure, refusal))),
            (StopReason::TimeUsed, _) => Err(self.short(Halt::Time)),
            _ => {
                self.allowance.has_run = true;
                let mut samples = samples.concat();
                samples.sort_by_key(|sample| (sample.completed, sample.process, sample.position));
                Ok(samples)
            }
        }
    }

    /// The result of a step. After some errors nothing is submitted any more.
    pub(crate) fn or_over<T>(&mut self, result: Result<T, Halt>) -> Result<T, Halt> {
        if let Err(halt @ (Halt::Gone(_) | Halt::Interrupted | Halt::Diverges(_))) = &result {
            self.over = Some(halt.clone());
        }
        result
    }

    /// Whether anything may be submitted.
    fn check_over(&self) -> Result<(), Halt> {
        self.over.clone().map_or(Ok(()), Err)
    }

    /// Notes what the probe could not do.
    pub(crate) fn short(&mut self, halt: Halt) -> Halt {
        self.allowance.short.get_or_insert_with(|| halt.clone());
        halt
    }

    /// What the device wrote to its flash since it was made, if it counts that.
    pub(crate) fn media_written(&mut self) -> Option<Bytes> {
        let read = self.lab.media_written();
        let bytes = self.or_over(read).ok()?;
        self.progress.step(ProbeStep::MediaWritten { bytes: bytes.map(|bytes| bytes.0) }, &[]);
        bytes
    }

    /// Leaves the device idle.
    ///
    /// # Errors
    /// [`Halt::Interrupted`] and [`Halt::IdleTime`].
    pub fn idle(&mut self, time: Nanos) -> Result<(), Halt> {
        // A short time limit is for the probes, not for idle times. Those of a probe that only reads are short anyway.
        let time = time.min(Nanos(self.settings.writing_time.0 / IDLE_PART).max(priors::BUFFER_DRAINED));
        let left = self.time_left();
        if time > left {
            return Err(self.short(Halt::IdleTime { needed: time, left }));
        }
        self.allowance.idle_times += 1;
        self.allowance.idle = self.allowance.idle.saturating_add(time);
        let until = self.lab.now().saturating_add(time);
        let Session { lab, settings, progress, .. } = self;
        let idle = lab.idle(until, settings.interrupt, &mut |left| progress.idle(left));
        self.or_over(idle)?;
        self.progress.step(ProbeStep::Idle { time_ns: time.0, now_ns: self.lab.now().0 }, &[]);
        Ok(())
    }

    /// Gives a parameter its answer. What was written since the probe's last answer was for this one.
    ///
    /// # Panics
    /// If it has one already.
    pub fn conclude(&mut self, finding: Finding) {
        self.findings.conclude(finding, &mut self.allowance);
    }

    /// Takes this for the answer of a parameter until a later probe, whose it is, has looked at it again.
    pub fn hand_in(&mut self, finding: Finding) {
        self.findings.hand_in(finding, &mut self.allowance);
    }

    /// The provisional finding of a parameter.
    pub fn provisional(&self, parameter: Parameter) -> Option<Finding> {
        self.known().provisional(parameter).cloned()
    }

    pub(crate) fn is_concluded(&self, parameter: Parameter) -> bool {
        self.findings.is_concluded(parameter)
    }

    pub(crate) fn inference(&self) -> &Inference {
        self.findings.inference
    }
}

/// Why IOs failed: what the device says of itself, or the first of them.
fn reason(failure: &Failure, refusal: Option<String>) -> String {
    let refusal = refusal.filter(|_| failure.error == IoError::READ_ONLY);
    refusal.map_or_else(|| failure.to_string(), |refusal| format!("the device {refusal}"))
}

/// The most that `ios` IOs of a pattern can write.
fn most_written(pattern: &Pattern, ios: u64) -> Bytes {
    let writes = |basic: &flashlab_plan::Basic, count: u64| match basic.mode {
        ModeRule::Always(mode) if Operation::from(mode) == Operation::Read => Bytes::ZERO,
        _ => basic.io_size.largest() * count,
    };
    match &pattern.mix {
        None => writes(&pattern.first, ios),
        // Each process begins with the first part.
        Some(mix) => {
            let second = ios / (u64::from(mix.ratio) + 1);
            let first = (ios - second + u64::from(pattern.parallel_degree * mix.ratio)).min(ios);
            writes(&pattern.first, first) + writes(&mix.second, second)
        }
    }
}
