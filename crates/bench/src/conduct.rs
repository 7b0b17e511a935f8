//! Carries out the methodology: state, lingering effect, baselines, schedule, runs.
//!
//! Every run goes through [`Conduct::run`], which pauses, records every IO, and appends the run's record to
//! the folder. A run that already has a record is not repeated. That is all that resuming needs.

mod state;

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_analysis::findings::{Baseline, Regime, RunEnd, WriteStages};
use flashlab_analysis::{KNOWN_WITHIN, Transient};
use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::Device;
use flashlab_engine::{Control, INTERRUPT_CHECK, RunOutcome, StopReason, run};
use flashlab_plan::{Pattern, Plan, Space};

use crate::area::{Areas, baseline_area, writes_sequentially};
use crate::error::BenchError;
use crate::estimate::DeviceKnowledge;
use crate::examine::{baselines, lingering_effect, write_stages};
use crate::manifest::BenchManifest;
use crate::media::MediaCounters;
use crate::observe::{EndingObserver, UntilLong, UntilPrecise, UntilSustained};
use crate::plain::{longest_writes, plain_schedule};
use crate::progress::Progress;
use crate::record::{Purpose, RunRecord};
use crate::regimes::{RESTORES_MOST, Regimes, WriteRegimes, lead_in_bound};
use crate::schedule::schedule;
use crate::settings::{BASELINES, IO_SIZE, Settings, State};
use crate::shown::LOOKED_FOR;
use crate::step::{Schedule, Step};
use crate::store::{Record, Store};
use crate::until_shown::UntilShown;

/// Times of each kind in which a device worked on its own account that are noted of a run, at most.
const ACTIVITY_MOST: usize = 64;
/// The most reads before and after the random writes of the lingering experiment. On a simulated device whose
/// reads take no time, a time limit alone would never end them.
const MOST_READS: u64 = 1 << 24;

/// How many IOs of a run may fail before it is aborted.
const FAILURES_ALLOWED: u64 = 10;
/// If IOs take longer than estimated, a run continues until it has its least number of IOs, but for at most
/// this many times its time.
const OVERTIME_FACTOR: u64 = 8;
/// ... and for at most this many times its time until it has settled, if all runs share a budget: half of it is for what lasts.
const SETTLING_OVERTIME: u64 = 2;

/// In virtual time writes may take this many times as long until they are settled: 40 min in a full run, in which the slowest cache of the
/// zoo (nvme-consumer, 2 ms for 32 KiB while it folds) takes the most IOs of a baseline.
const VIRTUAL_TIMES: u64 = 8;

/// The most recent activity on the device. It decides about the pause before the next run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PreviousActivity {
    /// Nothing, or nothing that affects the next run.
    Nothing,
    Reads,
    Writes,
    State,
}

/// Whether the state is still to be enforced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Enforcing {
    /// What happened to the device since its last run is not known.
    BeforeTheFirstRun,
    /// Nobody used the device since.
    Done,
}

/// A bench run in progress.
pub(crate) struct Conduct<'a> {
    pub device: &'a mut dyn Device,
    pub store: &'a mut Store,
    manifest: &'a BenchManifest,
    pub settings: &'a Settings,
    pub interrupt: &'a AtomicBool,
    pub progress: &'a dyn Progress,
    pub space: Space,
    areas: Areas,
    /// The regimes of writes; one as long as the baselines have not shown more.
    regimes: WriteRegimes,
    /// The pause after a run that wrote.
    pause: Nanos,
    /// The response time of a read that follows writes without a pause, divided by that of a normal read.
    slowdown: f64,
    before: PreviousActivity,
    /// How often the state was enforced again because the regime had changed.
    restores: u32,
    /// Whether the most recent control showed the regime.
    restorable: bool,
    /// Whether the state has to be enforced before the next run. If a resumed run has nothing left to do, it
    /// writes nothing.
    state_due: bool,
}

impl<'a> Conduct<'a> {
    pub fn new(
        device: &'a mut dyn Device,
        store: &'a mut Store,
        manifest: &'a BenchManifest,
        interrupt: &'a AtomicBool,
        progress: &'a dyn Progress,
        enforcing: Enforcing,
    ) -> Conduct<'a> {
        let (settings, before, slowdown) = (&manifest.settings, PreviousActivity::Nothing, 1.0);
        let block = device.geometry().block;
        let space = Space { capacity: settings.target_size.round_down(block), block };
        let pause = settings.lengths().settle;
        let areas = Areas::of(space);
        Conduct {
            device,
            store,
            manifest,
            settings,
            interrupt,
            progress,
            space,
            areas,
            regimes: WriteRegimes::One,
            pause,
            slowdown,
            before,
            restores: 0,
            restorable: true,
            state_due: enforcing == Enforcing::BeforeTheFirstRun,
        }
    }

    /// Runs uFLIP's methodology, as far as the folder does not contain it yet.
    pub fn uflip(&mut self, plans: &[Plan]) -> Result<(), BenchError> {
        self.lingering()?;
        for name in BASELINES {
            self.baseline(name)?;
        }
        let found = self.write_stages()?;
        let stages = (!self.settings.one_regime).then_some(&found);
        let (baselines, _) = baselines(&*self.store, self.store.records(), self.settings, stages)?;
        if let WriteRegimes::Two(regimes) = WriteRegimes::of(&found, &baselines, self.settings) {
            self.recovery(&regimes)?;
        }
        // With what idle times bring back.
        self.regimes = WriteRegimes::of(&self.write_stages()?, &baselines, self.settings);
        let schedule = self.schedule(plans, &baselines);
        self.pause = schedule.pause;
        self.store.note_left_out(self.manifest, &schedule.left_out)?;
        self.progress.schedule(&schedule);
        self.steps(&schedule, &baselines)
    }

    /// Runs plans as they are written, without the methodology.
    pub fn plain(&mut self, plans: &[Plan]) -> Result<(), BenchError> {
        self.pause = self.settings.pause(None);
        let schedule = plain_schedule(plans, self.settings, self.space, self.pause);
        self.store.note_left_out(self.manifest, &schedule.left_out)?;
        self.progress.schedule(&schedule);
        self.steps(&schedule, &[])
    }

    /// The stages of writes, as far as the runs have shown them.
    fn write_stages(&self) -> Result<WriteStages, BenchError> {
        Ok(write_stages(&*self.store, self.store.records())?.unwrap_or_default())
    }

    fn schedule(&self, plans: &[Plan], baselines: &[Baseline]) -> Schedule {
        let known = DeviceKnowledge {
            space: self.space,
            baselines,
            regimes: self.regimes.clone(),
            pause: self.pause,
            slowdown: self.slowdown,
            state_time: self.state_time(),
            unknown_ns: 1e6,
            areas: self.areas.clone(),
        };
        schedule(plans, self.settings, &known)
    }

    /// The time that enforcing the state took the first time, so that a resumed run has its original
    /// schedule.
    fn state_time(&self) -> Nanos {
        let first = self
            .store
            .records()
            .iter()
            .find(|record| record.ended.is_some() && matches!(record.purpose, Purpose::State { .. }));
        first.map_or(Nanos::ZERO, |record| Nanos(record.end_ns - record.begin_ns))
    }

    /// Sequential reads, random writes, and sequential reads once more (uFLIP section 4.3).
    fn lingering(&mut self) -> Result<(), BenchError> {
        let lengths = self.settings.lengths();
        let [before, writes, after] = lengths.lingering;
        self.progress.step("looking for a lingering effect of random writes");
        let parts = [
            (Purpose::LingeringBefore, "SR", before),
            (Purpose::LingeringWrites, "RW", writes),
            (Purpose::LingeringAfter, "SR", after),
        ];
        if !parts.iter().all(|(purpose, _, _)| self.store.has(purpose)) {
            for (purpose, name, time) in parts {
                let follows = purpose != Purpose::LingeringBefore;
                let mut pattern = Pattern::baseline(name).expect("a baseline's name");
                let most = if pattern.writes() { lengths.baseline_ios_most } else { MOST_READS };
                pattern.io_count = Some(most);
                if follows {
                    self.before = PreviousActivity::Nothing;
                }
                self.run(purpose, pattern, Goal::of(|| UntilLong::new(64, time)).within(Some(time * 8)))?;
            }
        }
        let found = lingering_effect(&*self.store, self.store.records())?.map(|(found, _)| found);
        self.pause = self.settings.pause(found.as_ref());
        if let Some(found) = found.filter(|found| found.affected_reads > 0) {
            // The last reads of the experiment may have ended before the effect did.
            self.before = PreviousActivity::Writes;
            let affected = found.affected_ns_mean.unwrap_or(found.before_ns_mean);
            self.slowdown = (affected / found.before_ns_mean).max(1.0);
        }
        Ok(())
    }

    /// A baseline with a large IOCount (uFLIP section 4.2).
    fn baseline(&mut self, name: &str) -> Result<(), BenchError> {
        let purpose = Purpose::Baseline { pattern: name.to_owned() };
        let done = self.store.has(&purpose);
        let lengths = self.settings.lengths();
        let mut pattern = Pattern::baseline(name).expect("a baseline's name");
        pattern.io_count = Some(lengths.baseline_ios_most);
        let looks_for_stages = pattern.writes() && !self.settings.one_regime;
        if writes_sequentially(&pattern.first) {
            let size = baseline_area(self.space, lengths);
            let offset = self.area(size, done)?;
            pattern = pattern.on_target(offset, size);
            // Once: what was written in order before is no longer in the random state.
            pattern.io_count = Some(lengths.baseline_ios_most.min(size.0 / IO_SIZE.0));
        }
        if done {
            return Ok(());
        }
        self.progress.step(&format!("baseline {name}: start-up phase and period"));
        let until = || {
            let long = UntilLong::new(lengths.baseline_ios, lengths.baseline);
            if looks_for_stages { long.and_settled(lengths.baseline_longest) } else { long }
        };
        let pause = self.pause;
        if writes_sequentially(&pattern.first) && self.random_writes_have_stages()? {
            // Whether sequential writes have stages decides what those of random writes are. A buffer needs time to drain.
            self.pause = pause.max(lengths.recovery.last().copied().unwrap_or_default());
        }
        let longest = if looks_for_stages { self.longest_writes() } else { lengths.baseline_longest };
        self.run(purpose, pattern, Goal::of(until).within(Some(longest)))?;
        self.pause = pause;
        Ok(())
    }

    fn random_writes_have_stages(&self) -> Result<bool, BenchError> {
        if self.settings.one_regime {
            return Ok(false);
        }
        let found = self.write_stages()?;
        Ok(found.of("RW").is_some_and(|stages| !stages.stages.is_empty()))
    }

    /// How many bytes of the stages come back after idle times: a lead-in, the idle time, and random writes until they are
    /// sustained once more.
    fn recovery(&mut self, regimes: &Regimes) -> Result<(), BenchError> {
        let lengths = self.settings.lengths();
        for idle in recovery_times(lengths.recovery, self.pause) {
            self.recovery_after(idle, regimes)?;
        }
        for &idle in lengths.recovery_longer {
            let found = self.write_stages()?;
            if !Regimes::new(&found, self.settings).is_some_and(|regimes| regimes.still_returns_more()) {
                break;
            }
            self.recovery_after(idle, regimes)?;
        }
        Ok(())
    }

    fn recovery_after(&mut self, idle: Nanos, regimes: &Regimes) -> Result<(), BenchError> {
        let purpose = Purpose::Recovery { idle_ns: idle.0 };
        for _ in self.store.finished(&purpose).count()..self.settings.lengths().recovery_tries {
            self.progress.step(&format!("stages of writes: what comes back after {idle}"));
            self.before = PreviousActivity::Nothing;
            // What comes back after a long load is less than after a short one, because deferred collection comes first.
            self.until_sustained(Purpose::LeadIn, regimes, self.space.capacity)?;
            self.before = PreviousActivity::Nothing;
            self.wait(idle)?;
            self.until_sustained(purpose.clone(), regimes, Bytes::ZERO)?;
        }
        Ok(())
    }

    /// The longest time of writes whose stages are looked for. Virtual time costs little.
    fn longest_writes(&mut self) -> Nanos {
        let longest = self.settings.lengths().baseline_longest;
        if self.device.virtual_time().is_some() { longest * VIRTUAL_TIMES } else { longest }
    }

    /// Random writes until they are as slow as what lasts, and then `further` bytes, as far as the bound of a lead-in allows.
    fn until_sustained(
        &mut self,
        purpose: Purpose,
        regimes: &Regimes,
        further: Bytes,
    ) -> Result<RunRecord, BenchError> {
        let mut pattern = Pattern::baseline("RW").expect("a baseline's name");
        let bound = lead_in_bound(self.space.capacity, self.settings.lengths()).0 / IO_SIZE.0;
        pattern.io_count = Some(bound);
        // A control ends in a stall. So the run goes on for some IOs, at random, and what follows begins anywhere in a cycle.
        let window = regimes.stages.window_bytes / IO_SIZE.0;
        let somewhere = Prng::new(self.seed_for(&purpose).derive("further", 0)).below(window.max(1));
        let further = somewhere + further.0 / IO_SIZE.0;
        let until = || UntilSustained::new(regimes.control_ios(), regimes.control_bounds_ns(), further);
        let longest = self.longest_writes();
        self.run(purpose, pattern, Goal::of(until).within(Some(longest)))
    }

    /// Random writes until a control shows the regime of what lasts; whether it did. A regime that has changed is restored with the state,
    /// once.
    fn lead_in(&mut self, is_regime: bool) -> Result<Option<bool>, BenchError> {
        let Some(regimes) = self.regimes.lasting().cloned() else { return Ok(None) };
        if is_regime {
            // In one regime there is a pause between runs, as in the paper.
            self.before = PreviousActivity::Nothing;
        }
        // Half of the bound is for the control.
        let bound = lead_in_bound(self.space.capacity, self.settings.lengths());
        let stages = Bytes(regimes.stages.volatile_bytes).min(Bytes(bound.0 / 2));
        let is_shown = |record: RunRecord| record.ended == Some(RunEnd::PrecisionReached);
        let mut shown = is_shown(self.until_sustained(Purpose::LeadIn, &regimes, stages)?);
        if !shown && self.restorable && self.restores < RESTORES_MOST && self.settings.state != State::None {
            self.restores += 1;
            self.enforce_state()?;
            self.areas.reset();
            shown = is_shown(self.until_sustained(Purpose::LeadIn, &regimes, stages)?);
        }
        // What one restoration did not bring back, the next one does not either.
        self.restorable = shown;
        self.before = PreviousActivity::Nothing;
        Ok(Some(shown))
    }

    fn steps(&mut self, schedule: &Schedule, baselines: &[Baseline]) -> Result<(), BenchError> {
        for (index, step) in schedule.steps.iter().enumerate() {
            let purpose = step.purpose();
            let done = self.store.has(&purpose);
            let mut area = step.area.map(|size| self.area(size, done)).transpose()?;
            if done {
                continue;
            }
            self.progress.step_of(&step.to_string(), index, schedule.steps.len());
            let restores = self.restores;
            let regime_shown =
                if step.window_ios.is_some() { self.lead_in(step.regime.is_some())? } else { None };
            if self.restores > restores {
                area = step.area.map(|size| self.area(size, done)).transpose()?;
            }
            let pattern = step.placed_at(area);
            if step.regime == Some(Regime::Unknown) {
                self.until_shown(purpose, pattern)?;
                continue;
            }
            let (io_ignore, goal) = (pattern.io_ignore, self.settings.precision_goal);
            let period = period_of(step, baselines);
            let until = UntilPrecise::new(io_ignore, step.io_count_min, period, goal)
                .within(step.time_limit, step.io_count_least)
                .settling(step.window_ios);
            let settles_quickly = step.window_ios.is_some() && self.settings.budget.is_some();
            let goes_on = step.window_ios.is_some() && self.settings.budget.is_none();
            let until = if goes_on { until.known_within(KNOWN_WITHIN) } else { until };
            let overtime = if settles_quickly { SETTLING_OVERTIME } else { OVERTIME_FACTOR };
            let goal = Goal {
                io_ignore_wanted: step.io_ignore_wanted,
                period_ios: period,
                regime_shown,
                is_regime: step.regime.is_some(),
                ..Goal::of(|| until.clone()).within(step.time_limit.map(|time| time * overtime))
            };
            self.run(purpose, pattern, goal)?;
        }
        Ok(())
    }

    /// A run of a plan without an end: until its writes show their regimes.
    fn until_shown(&mut self, purpose: Purpose, pattern: Pattern) -> Result<RunRecord, BenchError> {
        // In virtual time all SLC caches of the zoo are looked for: they have up to an eighth of the capacity.
        let is_virtual = self.device.virtual_time().is_some();
        let (times, all) = match is_virtual {
            true => (VIRTUAL_TIMES, LOOKED_FOR.max(Bytes(self.space.capacity.0 / 8))),
            false => (1, LOOKED_FOR),
        };
        let least = Bytes(all.0 / u64::from(pattern.parallel_degree));
        let longest = longest_writes(self.settings) * times;
        let precision = self.settings.precision_goal;
        let goal = Goal {
            io_ignore_wanted: pattern.io_ignore,
            ..Goal::of(|| UntilShown::new(least, longest, precision))
        };
        self.run(purpose, pattern, goal.within(Some(longest)))
    }

    /// An area for the next run. If the run is `done`, it used this area before the interruption. So the
    /// areas of a resumed run are the original ones.
    fn area(&mut self, size: Bytes, done: bool) -> Result<Bytes, BenchError> {
        if let Some(offset) = self.areas.take(size) {
            return Ok(offset);
        }
        if !done {
            self.enforce_state()?;
        }
        self.areas.reset();
        // An area is rounded up to whole MiB. Only a target whose size is no multiple of that is too small.
        Ok(self.areas.take(size).unwrap_or(Bytes::ZERO))
    }

    /// The pause before the next run.
    fn pause_before(&self) -> Nanos {
        match self.before {
            PreviousActivity::Nothing => Nanos::ZERO,
            PreviousActivity::Reads => self.settings.pause(None),
            PreviousActivity::Writes => self.pause,
            PreviousActivity::State => self.pause.max(self.settings.lengths().settle),
        }
    }

    /// One run, from its pause to its record in the folder.
    fn run<O: EndingObserver>(
        &mut self,
        purpose: Purpose,
        pattern: Pattern,
        goal: Goal<impl Fn() -> O>,
    ) -> Result<RunRecord, BenchError> {
        if self.state_due {
            self.enforce_state()?;
        }
        if self.settings.state_for_each_run
            && !purpose.is_state()
            && let Some(conditioning) = self.device.conditioning()
        {
            conditioning.recall();
        }
        let pause = self.pause_before();
        self.wait(pause)?;
        self.before = if pattern.writes() { PreviousActivity::Writes } else { PreviousActivity::Reads };
        let seed = self.seed_for(&purpose);
        let placed = pattern.place(self.space, seed)?;
        let (number, lanes) = self.store.start_run(placed.processes())?;
        let mut observers: Vec<_> = lanes.into_iter().map(|lane| (Record(lane), (goal.observer)())).collect();
        let control = Control {
            interrupt: self.interrupt,
            time_limit: goal.time_limit,
            failures_allowed: FAILURES_ALLOWED,
        };
        let media_before = MediaCounters::of(self.device);
        if let Some(telemetry) = self.device.telemetry() {
            telemetry.note_activity();
        }
        let outcome = run(self.device, &placed, &mut observers, &control)?;
        let media = MediaCounters::of(self.device).since(media_before);
        if let Some(telemetry) = self.device.telemetry() {
            self.store.add_activity(&telemetry.take_activity(ACTIVITY_MOST))?;
        }
        let loss = outcome.loss.clone().or_else(|| self.loss());
        // If one process ended the run because its mean was precise, the others did not end it.
        let ends = observers.iter().map(|(_, until)| until.end());
        let satisfied = ends.reduce(|a, b| if a == RunEnd::PrecisionReached { a } else { b });
        let transients: Vec<Transient> =
            observers.iter().filter_map(|(_, until)| until.transient()).collect();
        let transient_ios = transients.iter().map(|found| found.ios as u64).max().unwrap_or(0);
        let settled = (!transients.is_empty()).then(|| transients.iter().all(|found| found.is_settled));
        let lanes = observers.into_iter().map(|(record, _)| record.0).collect();
        let stalls = self.store.finish_run(lanes)?;
        let record = RunRecord {
            run: number,
            purpose: completed(purpose, &outcome),
            seed,
            pattern: crate::manifest::pattern_text(&pattern),
            io_ignore: pattern.io_ignore + transient_ios,
            io_ignore_wanted: goal.io_ignore_wanted,
            period_ios: goal.period_ios,
            ended: ended(outcome.ended, satisfied).filter(|_| loss.is_none()),
            regime_shown: goal.regime_shown.filter(|_| goal.is_regime),
            settled: settled.map(|settled| settled && (goal.is_regime || goal.regime_shown != Some(false))),
            pause_ns: pause.0,
            begin_ns: outcome.begin.0,
            end_ns: outcome.end.0,
            read_bytes: outcome.read.0,
            written_bytes: outcome.written.0,
            media_written_bytes: media.programmed,
            media_erased_bytes: media.erased,
            other_traffic_bytes: outcome
                .disturbance
                .device_traffic
                .map(|all| all.0.saturating_sub(outcome.read.0 + outcome.written.0)),
            processor_wait_ns: outcome.disturbance.cpu_wait.map(|wait| wait.0),
            thermal_throttles: outcome.disturbance.thermal_throttles,
            failed_ios: outcome.failed,
            first_failure: outcome.first_failure.map(|failure| failure.to_string()),
            recording_stalls: outcome.disturbance.cpu_wait.map_or(0, |_| stalls),
        };
        self.store.add(record.clone())?;
        let target = || self.device.identity().target;
        if let Some(loss) = loss {
            return Err(BenchError::Lost { target: target(), run: number, loss });
        }
        match (outcome.ended, outcome.first_failure) {
            (StopReason::Interrupted, _) => Err(BenchError::Interrupted),
            (StopReason::DeviceFailed, Some(failure)) => {
                Err(BenchError::Device { target: target(), run: number, failure })
            }
            _ => Ok(record),
        }
    }

    /// The seed of a run: the same when the run is resumed, and different for each repetition.
    fn seed_for(&self, purpose: &Purpose) -> Seed {
        let earlier = self.store.finished(purpose).count();
        self.settings.seed.derive(&purpose.seed_label(), earlier as u64)
    }

    /// Why measurements of the device are meaningless from now on.
    fn loss(&mut self) -> Option<String> {
        let health = self.device.health()?;
        health.loss().or_else(|| health.refusal())
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
            self.device.wait(now.saturating_add(INTERRUPT_CHECK).min(until));
        }
    }
}

/// The reason for which a run ends before its pattern does.
struct Goal<F> {
    observer: F,
    time_limit: Option<Nanos>,
    period_ios: u64,
    io_ignore_wanted: u64,
    /// Whether the control before the run showed what lasts.
    regime_shown: Option<bool>,
    /// Whether that is one of two regimes.
    is_regime: bool,
}

impl<F> Goal<F> {
    fn of(observer: F) -> Goal<F> {
        Goal {
            observer,
            time_limit: None,
            period_ios: 1,
            io_ignore_wanted: 0,
            regime_shown: None,
            is_regime: false,
        }
    }

    fn within(self, time_limit: Option<Nanos>) -> Goal<F> {
        Goal { time_limit, ..self }
    }
}

/// The idle times after which the stages are looked for: those of the thoroughness, and the pause between runs.
fn recovery_times(times: &[Nanos], pause: Nanos) -> Vec<Nanos> {
    let mut all: Vec<Nanos> = times.iter().copied().chain([pause]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// `None` for a run that did not complete.
fn ended(ended: StopReason, satisfied: Option<RunEnd>) -> Option<RunEnd> {
    match ended {
        StopReason::PatternDone => Some(RunEnd::CountReached),
        StopReason::ObserverSatisfied => satisfied,
        StopReason::TimeUsed => Some(RunEnd::BudgetUsed),
        StopReason::Interrupted | StopReason::DeviceFailed => None,
    }
}

/// If a state ran out of time, it covers the target only in part.
fn completed(purpose: Purpose, outcome: &RunOutcome) -> Purpose {
    match purpose {
        Purpose::State { state, .. } => {
            Purpose::State { state, complete: outcome.ended == StopReason::ObserverSatisfied }
        }
        other => other,
    }
}

/// The period with which the step's batches are aligned: the longest of its baselines', for a mix in IOs of
/// the mix.
fn period_of(step: &Step, baselines: &[Baseline]) -> u64 {
    let writes = step.pattern.writes();
    let names: &[&str] = if writes { &["SW", "RW"] } else { &["SR", "RR"] };
    let periods = baselines.iter().filter(|baseline| names.contains(&baseline.pattern.as_str()));
    let longest = periods.filter_map(|baseline| baseline.phases.period_ios).max().unwrap_or(1);
    step.pattern.mix.as_ref().map_or(longest, |mix| longest.saturating_mul(u64::from(mix.ratio) + 1))
}
