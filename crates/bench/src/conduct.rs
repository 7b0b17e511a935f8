//! The methodology, carried out: state, lingering effect, baselines, schedule, runs.
//!
//! Every run goes through [`Conduct::run`]: it keeps the pause, records every IO, and notes in the
//! manifest what the run was. A run that the manifest has is not done again, which is all that
//! resuming takes.

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_analysis::findings::{Baseline, RunEnd};
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_device::Device;
use flashlab_engine::{Control, Ended, Observer, Outcome, run};
use flashlab_plan::{IoSize, Pattern, Plan, Space};

use crate::BenchError;
use crate::area::Areas;
use crate::examine::{baselines, lingering_effect};
use crate::observe::{UntilLong, UntilPrecise, UntilWritten};
use crate::progress::Progress;
use crate::record::{Purpose, RunRecord};
use crate::schedule::{
    Known, Schedule, Step, areas, baseline_area, plain_schedule, schedule, writes_sequentially,
};
use crate::settings::{IO_SIZE, Settings};
use crate::store::{Record, Store};

/// How many IOs of a run may fail before it is given up.
const FAILURES_ALLOWED: u64 = 10;
/// Waiting is done in pieces of this, so that an interrupt is heard.
const WAIT_PIECE: Nanos = Nanos::from_millis(50);

/// A bench run on its way.
pub(crate) struct Conduct<'a> {
    pub device: &'a mut dyn Device,
    pub store: &'a mut Store,
    pub settings: &'a Settings,
    pub interrupt: &'a AtomicBool,
    pub progress: &'a dyn Progress,
    pub space: Space,
    areas: Areas,
    /// The pause after a run that wrote.
    pause: Nanos,
    /// What enforcing the state took.
    state_time: Nanos,
    /// The pause before the next run.
    next_pause: Nanos,
}

impl<'a> Conduct<'a> {
    pub fn new(
        device: &'a mut dyn Device,
        store: &'a mut Store,
        settings: &'a Settings,
        interrupt: &'a AtomicBool,
        progress: &'a dyn Progress,
    ) -> Conduct<'a> {
        let block = device.geometry().block;
        let space = Space { capacity: settings.target_size.round_down(block), block };
        let pause = settings.lengths().settle;
        let areas = areas(space);
        let state_time = Nanos::ZERO;
        Conduct {
            device,
            store,
            settings,
            interrupt,
            progress,
            space,
            areas,
            pause,
            state_time,
            next_pause: Nanos::ZERO,
        }
    }

    /// Everything that uFLIP's methodology asks for, as far as the manifest has it not yet.
    pub fn uflip(&mut self, plans: &[Plan]) -> Result<(), BenchError> {
        self.enforce_state()?;
        self.lingering()?;
        for name in ["SR", "RR", "RW", "SW"] {
            self.baseline(name)?;
        }
        let (baselines, _) = baselines(&*self.store, self.store.records(), self.settings)?;
        let schedule = self.schedule(plans, &baselines);
        self.pause = schedule.pause;
        self.next_pause = self.next_pause.min(self.pause);
        self.progress.schedule(&schedule);
        self.steps(&schedule, &baselines)
    }

    /// The runs of plans as they are written, without the methodology around them.
    pub fn plain(&mut self, plans: &[Plan]) -> Result<(), BenchError> {
        self.enforce_state()?;
        self.pause = self.settings.pause(None);
        self.next_pause = self.next_pause.min(self.pause);
        let schedule = plain_schedule(plans, self.settings, self.space, self.pause);
        self.progress.schedule(&schedule);
        self.steps(&schedule, &[])
    }

    fn schedule(&self, plans: &[Plan], baselines: &[Baseline]) -> Schedule {
        let known = Known {
            space: self.space,
            baselines,
            pause: self.pause,
            state_time: self.state_time,
            unknown_ns: 1e6,
        };
        schedule(plans, self.settings, &known)
    }

    /// Brings the whole target into the wanted state (uFLIP section 4.1). A resumed run does so
    /// again: what happened to the device meanwhile is not known.
    fn enforce_state(&mut self) -> Result<(), BenchError> {
        let state = self.settings.state;
        let Some(plan) = state.plan() else { return Ok(()) };
        self.progress.step(&format!("enforcing the {state} state"));
        let mut pattern = crate::builtin(plan).experiments.swap_remove(0).pattern;
        for basic in pattern.basics_mut() {
            basic.io_size = fitting(basic.io_size, self.space.block);
        }
        let progress = self.progress;
        let tell = move |share| progress.share(share);
        let all = self.space.capacity.0;
        let observer = || UntilWritten::new(all, &tell);
        let purpose = Purpose::State { state: state.to_string(), complete: true };
        let record = self.run(purpose, pattern, Goal::of(observer).within(self.settings.lengths().state))?;
        self.state_time = Nanos(record.end_ns - record.begin_ns);
        self.areas.reset();
        Ok(())
    }

    /// Sequential reads, random writes, sequential reads again (uFLIP section 4.3).
    fn lingering(&mut self) -> Result<(), BenchError> {
        let [before, writes, after] = self.settings.lengths().lingering;
        self.progress.step("looking for a lingering effect of random writes");
        let parts = [
            (Purpose::LingeringBefore, "SR", before),
            (Purpose::LingeringWrites, "RW", writes),
            (Purpose::LingeringAfter, "SR", after),
        ];
        if !parts.iter().all(|(purpose, _, _)| self.store.has(purpose)) {
            for (purpose, name, time) in parts {
                let follows = purpose != Purpose::LingeringBefore;
                let pattern = Pattern::baseline(name).expect("a baseline's name");
                if follows {
                    self.next_pause = Nanos::ZERO;
                }
                self.run(purpose, pattern, Goal::of(|| UntilLong::new(64, time)).within(Some(time * 8)))?;
            }
        }
        let found = lingering_effect(&*self.store, self.store.records())?;
        self.pause = self.settings.pause(found.as_ref().map(|(found, _)| found));
        Ok(())
    }

    /// A baseline with a large IOCount (uFLIP section 4.2).
    fn baseline(&mut self, name: &str) -> Result<(), BenchError> {
        let purpose = Purpose::Baseline { pattern: name.to_owned() };
        if self.store.has(&purpose) {
            return Ok(());
        }
        self.progress.step(&format!("baseline {name}: start-up phase and period"));
        let lengths = self.settings.lengths();
        let mut pattern = Pattern::baseline(name).expect("a baseline's name");
        if writes_sequentially(&pattern.first) {
            let size = baseline_area(self.space, lengths);
            let offset = self.take_area(size)?;
            pattern = pattern.on_target(offset, size);
            pattern.io_count = Some(size.0 / IO_SIZE.0);
        }
        let until = || UntilLong::new(lengths.baseline_ios, lengths.baseline);
        self.run(purpose, pattern, Goal::of(until).within(Some(lengths.baseline_longest)))?;
        Ok(())
    }

    fn steps(&mut self, schedule: &Schedule, baselines: &[Baseline]) -> Result<(), BenchError> {
        for (index, step) in schedule.steps.iter().enumerate() {
            let purpose = step.purpose();
            let done = self.store.has(&purpose);
            let area = match step.area {
                // What is done already took its area before the run was interrupted.
                Some(size) if done => self.areas.take(size).or_else(|| {
                    self.areas.reset();
                    self.areas.take(size)
                }),
                Some(size) => Some(self.take_area(size)?),
                None => None,
            };
            if done {
                continue;
            }
            self.progress.step_of(&step.to_string(), index, schedule.steps.len());
            let pattern = step.placed_at(area);
            let (io_ignore, goal) = (pattern.io_ignore, self.settings.precision_goal);
            let period = period_of(step, baselines);
            let until = || UntilPrecise::new(io_ignore, step.io_count_min, period, goal);
            self.run(purpose, pattern, Goal::of(until).within(step.time_limit).precise(period))?;
        }
        Ok(())
    }

    fn take_area(&mut self, size: Bytes) -> Result<Bytes, BenchError> {
        if let Some(offset) = self.areas.take(size) {
            return Ok(offset);
        }
        self.enforce_state()?;
        self.areas.reset();
        Ok(self.areas.take(size).unwrap_or(Bytes::ZERO))
    }

    /// One run, from its pause to its entry in the manifest.
    fn run<O: Observer>(
        &mut self,
        purpose: Purpose,
        pattern: Pattern,
        goal: Goal<impl Fn() -> O>,
    ) -> Result<RunRecord, BenchError> {
        let pause = self.next_pause;
        self.wait(pause)?;
        self.next_pause = if pattern.writes() { self.pause } else { self.settings.pause(None) };
        let seed = self.seed_for(&purpose);
        let placed = pattern.place(self.space, seed)?;
        let (number, lanes) = self.store.start_run(placed.processes())?;
        let mut observers: Vec<_> = lanes.into_iter().map(|lane| (Record(lane), (goal.observer)())).collect();
        let control = Control {
            interrupt: self.interrupt,
            time_limit: goal.time_limit,
            failures_allowed: FAILURES_ALLOWED,
        };
        let outcome = run(self.device, &placed, &mut observers, &control)?;
        let lanes = observers.into_iter().map(|(record, _)| record.0).collect();
        let stalls = self.store.finish_run(lanes)?;
        let record = RunRecord {
            run: number,
            purpose: completed(purpose, &outcome),
            seed,
            pattern: crate::pattern_text(&pattern),
            io_ignore: pattern.io_ignore,
            period_ios: goal.period_ios,
            ended: goal.end(outcome.ended),
            pause_ns: pause.0,
            begin_ns: outcome.begin.0,
            end_ns: outcome.end.0,
            read_bytes: outcome.read.0,
            written_bytes: outcome.written.0,
            other_traffic_bytes: outcome
                .disturbance
                .device_traffic
                .map(|all| all.0.saturating_sub(outcome.read.0 + outcome.written.0)),
            processor_wait_ns: outcome.disturbance.processor_wait.map(|wait| wait.0),
            thermal_throttles: outcome.disturbance.thermal_throttles,
            failed_ios: outcome.failed,
            first_failure: outcome.first_failure.map(|failure| failure.to_string()),
            recording_stalls: stalls,
        };
        self.store.add(record.clone())?;
        match (outcome.ended, outcome.first_failure) {
            (Ended::Interrupted, _) => Err(BenchError::Interrupted),
            (Ended::DeviceFailed, Some(failure)) => {
                Err(BenchError::Device { target: self.device.identity().target, run: number, failure })
            }
            _ => Ok(record),
        }
    }

    /// The same for a run and for its resumption, and another for each repetition.
    fn seed_for(&self, purpose: &Purpose) -> Seed {
        let label = serde_json::to_string(purpose).expect("a purpose is made of texts and numbers");
        let earlier = self.store.records().iter().filter(|record| record.purpose == *purpose).count();
        self.settings.seed.derive(&label, earlier as u64)
    }

    fn wait(&mut self, pause: Nanos) -> Result<(), BenchError> {
        let until = self.device.now().saturating_add(pause);
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            let now = self.device.now();
            if now >= until {
                return Ok(());
            }
            self.device.wait(now.saturating_add(WAIT_PIECE).min(until));
        }
    }
}

/// When a run ends, other than by its pattern.
struct Goal<F> {
    observer: F,
    time_limit: Option<Nanos>,
    period_ios: u64,
    satisfied: RunEnd,
}

impl<F> Goal<F> {
    fn of(observer: F) -> Goal<F> {
        Goal { observer, time_limit: None, period_ios: 1, satisfied: RunEnd::BudgetUsed }
    }

    fn within(self, time_limit: Option<Nanos>) -> Goal<F> {
        Goal { time_limit, ..self }
    }

    /// The observer is satisfied when the mean is precise.
    fn precise(self, period_ios: u64) -> Goal<F> {
        Goal { period_ios, satisfied: RunEnd::PrecisionReached, ..self }
    }

    /// `None` for a run that did not come to its end.
    fn end(&self, ended: Ended) -> Option<RunEnd> {
        match ended {
            Ended::PatternDone => Some(RunEnd::CountReached),
            Ended::ObserverSatisfied => Some(self.satisfied),
            Ended::TimeUsed => Some(RunEnd::BudgetUsed),
            Ended::Interrupted | Ended::DeviceFailed => None,
        }
    }
}

/// A state that ran out of time covers the target only in part.
fn completed(purpose: Purpose, outcome: &Outcome) -> Purpose {
    match purpose {
        Purpose::State { state, .. } => {
            Purpose::State { state, complete: outcome.ended == Ended::ObserverSatisfied }
        }
        other => other,
    }
}

/// The sizes of the state's IOs, on a device with larger blocks than the paper's 512 bytes.
fn fitting(size: IoSize, block: Bytes) -> IoSize {
    match size {
        IoSize::Uniform { min, max } => {
            IoSize::Uniform { min: min.round_up(block), max: max.round_up(block) }
        }
        IoSize::Fixed(size) => IoSize::Fixed(size.round_up(block)),
    }
}

/// The period that the step's batches are aligned with: the longest of its baselines'.
fn period_of(step: &Step, baselines: &[Baseline]) -> u64 {
    let writes = step.pattern.writes();
    let names: &[&str] = if writes { &["SW", "RW"] } else { &["SR", "RR"] };
    let periods = baselines.iter().filter(|baseline| names.contains(&baseline.pattern.as_str()));
    periods.filter_map(|baseline| baseline.phases.period_ios).max().unwrap_or(1)
}
