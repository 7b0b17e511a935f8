//! A device while it is probed.
//!
//! # Model
//! What probes do on the device passes here: the lab runs their patterns, the budget counts what they write and how long they
//! take, and the journal keeps each step. What they find is in the document, which later probes read as [`Knowledge`].

mod allowance;
mod filling;

use std::fmt;
use std::mem;

use flashlab_analysis::inference::{Fill, Finding, Inference, Parameter, Verdict};
use flashlab_base::{Bytes, Mode, Nanos, Operation, Seed};
use flashlab_device::IoError;
use flashlab_engine::{Control, Failure, StopReason};
use flashlab_plan::{Experiment, Location, ModeRule, Pattern, Plan, Space};
use flashlab_samples::{ProbeStep, Sample};

use crate::group::Group;
use crate::groups::figures::median;
use crate::groups::patterns;
use crate::halt::Halt;
use crate::journal::{Journal, record_run};
use crate::knowledge::Knowledge;
use crate::lab::{Lab, LabRun, PlacedProbe};
use crate::virtual_disk::without_its_host;
use crate::{InferenceProgress, InferenceSettings};
use allowance::Allowance;

/// A group that may write less than this part of the device has too little for any probe.
const BUDGET_PART: u64 = 100;
/// If so many reads anywhere fail, nobody answers.
const LAST_READS: u64 = 8;

/// The usual time for reading where small reads take so long; in proportion more where they take longer, to so many times
/// as much.
const READING_TIME: Nanos = Nanos::from_secs(60);
const USUAL_READ: Nanos = Nanos::from_micros(60);
const SLOWEST: f64 = 10.0;
/// So many tell how long.
const SMALL_READS: u64 = 33;

/// A device while it is probed.
pub struct Session<'d, 's> {
    lab: &'d mut dyn Lab,
    settings: &'s InferenceSettings<'s>,
    inference: &'d mut Inference,
    progress: &'d mut dyn InferenceProgress,
    allowance: Allowance,
    journal: Journal,
    /// Why nothing is submitted any more: the device is gone, or an IO is in flight for ever, and nobody would know whose answer comes.
    over: Option<Halt>,
    /// How long they may take together.
    reading_time: Nanos,
    concluded: Vec<Parameter>,
}

impl<'d, 's> Session<'d, 's> {
    pub(crate) fn new(
        lab: &'d mut dyn Lab,
        settings: &'s InferenceSettings<'s>,
        inference: &'d mut Inference,
        progress: &'d mut dyn InferenceProgress,
    ) -> Session<'d, 's> {
        Session {
            lab,
            settings,
            inference,
            progress,
            allowance: Allowance::default(),
            journal: Journal::default(),
            over: None,
            reading_time: settings.reading_time.unwrap_or(READING_TIME),
            concluded: Vec::new(),
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
        self.inference.fill.whole_at.is_some()
    }

    /// What is known by now.
    pub fn known(&self) -> Knowledge<'_> {
        Knowledge(self.inference)
    }

    /// What the group may still write.
    pub fn writes_left(&self) -> Bytes {
        self.allowance.writes
    }

    /// How long the group may still take.
    pub fn time_left(&mut self) -> Nanos {
        self.allowance.deadline.since(self.lab.now())
    }

    /// How long the groups that only read may take together.
    pub(crate) fn reading_time(&self) -> Nanos {
        self.reading_time
    }

    /// A seed for what a probe chooses at random, another one for each label and index.
    pub fn seed(&self, label: &str, index: u64) -> Seed {
        self.settings.seed.derive(self.allowance.group, 0).derive(label, index)
    }

    /// Runs a pattern and gives its samples, in the order in which the IOs were done. It is kept as the experiment
    /// `name` of the group's plan. Each run has random numbers of its own: running a pattern again is a repetition.
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

    /// From now on each write of the group is flushed, if there may be a buffer and a flush was seen to wait for what it holds: so that
    /// a write takes what a buffer would hide.
    pub(crate) fn look_through(&mut self) {
        let may_be_buffered = self.known().bytes(Parameter::WriteBufferSize) != Some(Bytes::ZERO);
        self.allowance.through = may_be_buffered && self.inference.fill.flushed_nanos.is_some();
    }

    /// Whether each write of the group is flushed.
    pub(crate) fn looks_through(&self) -> bool {
        self.allowance.through
    }

    /// The same as [`Session::run`], with the pattern's own flushes, whether or not the group flushes its writes.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub(crate) fn run_as_it_is(&mut self, name: &str, pattern: &Pattern) -> Result<Vec<Sample>, Halt> {
        let ios = pattern.io_count.expect("a probe has an IOCount") * u64::from(pattern.parallel_degree);
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
        let probe = PlacedProbe { experiment: &experiment, pattern, placed: &placed, seed };
        let control = Control {
            interrupt: self.settings.interrupt,
            time_limit: Some(time_limit),
            failures_allowed: self.allowance.failures(ios),
        };
        let run = self.lab.run(&probe, &control);
        if let Err(Halt::Misfit(reason)) = &run {
            let (experiment, reason) = (experiment.clone(), reason.clone());
            self.progress.step(ProbeStep::Misfit { experiment, reason }, &[]);
        }
        let run = self.or_over(run)?;
        self.journal.keep(&experiment, pattern);
        record_run(self.progress, (experiment, seed), &run, self.lab.now());
        self.allowance.count(&run.outcome);
        // The journal of a file system is no other's.
        let own_journal = pattern.write_through && self.inference.identity.file_system.is_some();
        self.allowance.note_others(&run.outcome, own_journal);
        self.inference.written += run.outcome.written;
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
    fn or_over<T>(&mut self, result: Result<T, Halt>) -> Result<T, Halt> {
        if let Err(halt @ (Halt::Gone(_) | Halt::Interrupted | Halt::Diverges(_))) = &result {
            self.over = Some(halt.clone());
        }
        result
    }

    /// Whether anything may be submitted.
    fn check_over(&self) -> Result<(), Halt> {
        self.over.clone().map_or(Ok(()), Err)
    }

    /// Notes what the group could not do.
    fn short(&mut self, halt: Halt) -> Halt {
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

    /// Lets the device rest.
    ///
    /// # Errors
    /// [`Halt::Interrupted`] and [`Halt::Rest`].
    pub fn rest(&mut self, time: Nanos) -> Result<(), Halt> {
        let left = self.time_left();
        if time > left {
            return Err(self.short(Halt::Rest { needed: time, left }));
        }
        self.allowance.rests += 1;
        self.allowance.rested = self.allowance.rested.saturating_add(time);
        let until = self.lab.now().saturating_add(time);
        let Session { lab, settings, progress, .. } = self;
        let idle = lab.idle(until, settings.interrupt, &mut |left| progress.idle(left));
        self.or_over(idle)?;
        self.progress.step(ProbeStep::Idle { time_ns: time.0, now_ns: self.lab.now().0 }, &[]);
        Ok(())
    }

    /// Gives a parameter its answer. What was written since the group's last answer was for this one.
    ///
    /// # Panics
    /// If it has one already.
    pub fn conclude(&mut self, finding: Finding) {
        assert!(!self.is_concluded(finding.parameter), "{} is concluded twice", finding.parameter);
        let bytes_written = self.take_written(finding.parameter);
        self.concluded.push(finding.parameter);
        // What was supposed was doubted when it was.
        let was_supposed = self
            .known()
            .supposed(finding.parameter)
            .is_some_and(|before| before.evidence == finding.evidence);
        let finding = self.without_figures(Finding { bytes_written, ..finding });
        let finding = if was_supposed { finding } else { self.allowance.doubt(finding) };
        self.inference.findings.push(without_its_host(finding, &self.inference.identity));
    }

    /// Takes this for the answer of a parameter until a later group, whose it is, has looked at it again.
    pub fn suppose(&mut self, finding: Finding) {
        let bytes_written = self.take_written(finding.parameter);
        let finding = Finding { bytes_written, ..finding };
        self.inference.provisional.retain(|supposed| supposed.parameter != finding.parameter);
        let finding = self.allowance.doubt(finding);
        self.inference.provisional.push(finding);
    }

    /// What was written for a parameter: since the last answer, and for what is supposed of it.
    fn take_written(&mut self, parameter: Parameter) -> Bytes {
        let before = self.known().supposed(parameter).map_or(Bytes::ZERO, |supposed| supposed.bytes_written);
        before + mem::take(&mut self.allowance.written)
    }

    /// Where no pattern could be run there is nothing to tell but why: figures of none are none.
    fn without_figures(&self, finding: Finding) -> Finding {
        match &self.allowance.short {
            Some(halt) if !self.allowance.has_run && finding.verdict == Verdict::Undetermined => {
                Finding { evidence: halt.to_string(), picture: None, ..finding }
            }
            _ => finding,
        }
    }

    /// Whether what a group supposes is of use: nothing of it is concluded or supposed.
    pub(crate) fn has_to_suppose(&self, group: &Group) -> bool {
        !group.supposes.is_empty()
            && group.supposes.iter().all(|&parameter| self.known().finding(parameter).is_none())
    }

    /// A group has ended: its answers stand, and nothing has to be supposed of them.
    fn settle(&mut self, group: &Group) {
        self.inference.provisional.retain(|supposed| !group.parameters.contains(&supposed.parameter));
    }

    /// What is supposed of a parameter.
    pub fn supposed(&self, parameter: Parameter) -> Option<Finding> {
        self.known().supposed(parameter).cloned()
    }

    pub(crate) fn is_concluded(&self, parameter: Parameter) -> bool {
        self.inference.get(parameter).is_some()
    }

    pub(crate) fn inference(&self) -> &Inference {
        self.inference
    }

    /// Runs a group's probes; returns why it could not go on, if so. It and the groups before it may write this share of the
    /// budget.
    pub(crate) fn run_group(&mut self, group: &'static Group, share: f64) -> Option<Halt> {
        let begun = self.lab.begin(group.name);
        if let Err(halt) = self.or_over(begun) {
            return Some(halt);
        }
        let begin = self.lab.now();
        self.progress.step(ProbeStep::Begin { probe: group.name.to_owned(), now_ns: begin.0 }, &[]);
        let time = if group.writes() { self.settings.writing_time } else { self.reading_time };
        self.allowance = Allowance {
            group: group.seed_label(),
            writes: if group.writes() { self.rest_of(share) } else { Bytes::ZERO },
            deadline: begin.saturating_add(time),
            // What a group wrote that had no answer to give counts for the next one.
            written: mem::take(&mut self.allowance.written),
            on_data: self.holds_data(),
            ..Allowance::default()
        };
        if group.writes() && self.settings.write_budget.is_none() {
            return Some(Halt::Lacks("it needs writes, and flashlab has no consent to write".to_owned()));
        }
        if group.writes() && self.allowance.writes < self.block() {
            self.short(Halt::Budget { needed: self.block(), left: self.allowance.writes });
        }
        if group.writes() && !self.progress.may_write(group, self.allowance.writes) {
            return Some(Halt::Interrupted);
        }
        if !group.writes() {
            if self.settings.reading_time.is_none() {
                self.reading_time = Nanos((READING_TIME.0 as f64 * self.slowness()) as u64);
            }
            self.allowance.deadline =
                begin.saturating_add(self.reading_time.since(self.inference.reading_used));
        }
        let halt = match (group.probe)(self).err() {
            Some(Halt::Failed(reason)) if self.allowance.failed > 0 && self.is_silent() => {
                Some(Halt::Gone(reason))
            }
            halt => halt,
        };
        if !group.writes() {
            self.inference.reading_used += self.lab.now().since(begin);
        }
        self.report_concluded();
        halt
    }

    /// How many times as long as usual small reads take. Each group that reads asks again, so that one that is resumed
    /// takes the same course.
    fn slowness(&mut self) -> f64 {
        let anywhere = patterns::ios(Mode::Read, Location::Random, self.block(), SMALL_READS);
        // Whoever fails here fails again at once.
        let reads = self.run("small-reads", &anywhere).unwrap_or_default();
        (median(&patterns::responses(&reads)) / USUAL_READ.0 as f64).clamp(1.0, SLOWEST)
    }

    /// Whether no read is answered, wherever it goes: of a device whose server is gone the kernel says that IOs fail.
    fn is_silent(&mut self) -> bool {
        let anywhere = patterns::ios(Mode::Read, Location::Random, self.block(), 1);
        let failed = self.allowance.failed;
        let is_silent = (0..LAST_READS).all(|_| {
            self.allowance.failed = 0;
            match self.run("last-read", &anywhere) {
                Ok(samples) => samples.iter().all(|sample| sample.errno != 0),
                Err(halt) => matches!(halt, Halt::Gone(_) | Halt::Failed(_)),
            }
        });
        self.allowance.failed = failed;
        is_silent
    }

    /// What is left of this share of the budget.
    fn rest_of(&self, share: f64) -> Bytes {
        let whole = self.settings.write_budget.unwrap_or_default();
        Bytes(((whole.0 as f64 * share.min(1.0)) as u64).saturating_sub(self.inference.written.0))
    }

    /// Concludes what the group left.
    pub(crate) fn conclude_rest(&mut self, group: &Group, halt: Option<Halt>) {
        let reason = halt.map_or("The probes came to no decision.".to_owned(), |halt| halt.to_string());
        for &parameter in group.supposes {
            if self.known().finding(parameter).is_none() {
                self.suppose(Finding::undetermined(parameter, reason.clone()));
            }
        }
        for &parameter in group.parameters {
            if !self.is_concluded(parameter) {
                let supposed = self.supposed(parameter);
                self.conclude(supposed.unwrap_or_else(|| Finding::undetermined(parameter, reason.clone())));
            }
        }
        self.settle(group);
        self.report_concluded();
    }

    /// Takes a group's answers back.
    pub(crate) fn forget(&mut self, group: &Group) {
        self.inference.findings.retain(|finding| !group.parameters.contains(&finding.parameter));
    }

    /// Takes back all that a group told, `before` which this was known: what it did to the device stays.
    pub(crate) fn abandon(&mut self, before: Inference) {
        let Inference { written, fill, .. } = *self.inference;
        let Fill { unit, full_after, moving_logs, .. } = before.fill;
        *self.inference =
            Inference { written, fill: Fill { unit, full_after, moving_logs, ..fill }, ..before };
    }

    /// The probes that were run since the last time, as a plan.
    pub(crate) fn take_probes(&mut self, group: &Group) -> Plan {
        let probes = self.journal.take_experiments();
        Plan::new(group.name, group.about, &self.how_to_repeat(&probes), probes)
    }

    /// What the plan of a group does not say: the device's state, and what happened between its patterns.
    fn how_to_repeat(&self, probes: &[Experiment]) -> String {
        let Allowance { runs, rests, rested, on_data, .. } = self.allowance;
        let (state, option) = match on_data {
            true => ("which it had filled from end to end", " --state sequential"),
            false if self.fill().until > Bytes::ZERO => ("which it was filling", " --state sequential"),
            false => ("as it was", ""),
        };
        let repeated = match runs.saturating_sub(probes.len() as u64) {
            0 => String::new(),
            more => format!(" {more} more runs repeated patterns of this plan."),
        };
        let rests = match rests {
            0 => String::new(),
            rests => format!(" Between its runs the device was idle {rests} times, {rested} in all."),
        };
        format!(
            "Run by flashlab infer on a device {state}.{repeated}{rests} To run it alone: flashlab run PLAN TARGET{option} --repetitions 1"
        )
    }

    fn report_concluded(&mut self) {
        for parameter in mem::take(&mut self.concluded) {
            if let Some(finding) = self.inference.get(parameter) {
                self.progress.concluded(finding);
            }
        }
    }

    /// The end of a group in the recording.
    pub(crate) fn record_end(&mut self, group: &Group, is_complete: bool) {
        self.progress.step(ProbeStep::End { probe: group.name.to_owned(), is_complete }, &[]);
    }

    pub(crate) fn progress(&mut self) -> &mut dyn InferenceProgress {
        self.progress
    }

    /// Reports a group's end with all that is known.
    pub(crate) fn report_end(&mut self, group: &'static Group) {
        let probes = self.take_probes(group);
        self.progress.ended(group, self.inference, &probes);
    }

    /// Reports a group that ended in its middle.
    pub(crate) fn report_abandoned(&mut self, group: &'static Group) {
        let probes = self.take_probes(group);
        self.progress.abandoned(group, self.inference, &probes);
    }
}

/// Why IOs failed: what the device says of itself, or the first of them.
fn reason(failure: &Failure, refusal: Option<String>) -> String {
    let refusal = refusal.filter(|_| failure.error == IoError::READ_ONLY);
    refusal.map_or_else(|| failure.to_string(), |refusal| format!("the device {refusal}"))
}

/// The most that so many IOs of a pattern can write.
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
