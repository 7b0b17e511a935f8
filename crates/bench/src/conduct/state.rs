//! Brings the device into a state before it is measured.
//!
//! A simulated device that supports conditioning reaches the same state without computing the times of its
//! IOs.

use std::sync::atomic::Ordering;

use flashlab_analysis::findings::{RunEnd, SteadyRound};
use flashlab_analysis::steady_state;
use flashlab_base::{Bytes, Nanos};
use flashlab_engine::Failure;
use flashlab_plan::{IoSize, Pattern, PlannedIo};

use super::{Conduct, Goal, PreviousActivity};
use crate::BenchError;
use crate::examine::steady_round;
use crate::media::MediaCounters;
use crate::observe::UntilWritten;
use crate::record::{Purpose, RunRecord};
use crate::settings::{CAPACITIES_MOST, ROUNDS_PER_CAPACITY, State};

/// The timed part of a round at most, on a device that supports conditioning: about 4,000 IOs of the state. With
/// less, single stalls would decide the throughput of a round, and its scatter the confidence of "steady".
const TIMED_MOST: Bytes = Bytes::mib(256);

impl Conduct<'_> {
    /// Brings the whole target into the wanted state (uFLIP section 4.1). A resumed run does so again,
    /// because other programs may have written to the device since then.
    pub(super) fn enforce_state(&mut self) -> Result<(), BenchError> {
        let state = self.settings.state;
        let is_first = std::mem::replace(&mut self.state_due, false);
        let limit = self.settings.lengths().state;
        if state == State::Steady && is_first {
            // Conditioning takes no virtual time, so that a limit would only end it on a slow simulated device.
            let limit = self.settings.lengths().steady.filter(|_| self.device.conditioning().is_none());
            self.enforce_steady(limit)?;
        } else if let Some(plan) = state.plan() {
            self.progress.step(&format!("enforcing the {state} state"));
            let purpose = Purpose::State { state: state.to_string(), complete: true };
            self.write_state(purpose, plan, self.space.capacity, limit)?;
        }
        if self.settings.state_for_each_run
            && let Some(conditioning) = self.device.conditioning()
        {
            conditioning.remember();
        }
        Ok(())
    }

    /// Writes the target from end to end, then randomly in rounds, until it is steady, [`CAPACITIES_MOST`]
    /// are written, or the time is used up.
    fn enforce_steady(&mut self, limit: Option<Nanos>) -> Result<(), BenchError> {
        let begin = self.device.now();
        let left = |now: Nanos| limit.map(|limit| Nanos(limit.0.saturating_sub(now.since(begin).0)));
        let bound = limit.map_or(String::new(), |limit| format!(", in at most {limit}"));
        self.progress
            .step(&format!("enforcing the steady state{bound}: sequential writes of the whole target"));
        let filled = Purpose::State { state: State::Sequential.to_string(), complete: true };
        self.write_state(filled, "sequential-state", self.space.capacity, limit)?;
        let size = Bytes(self.space.capacity.0 / ROUNDS_PER_CAPACITY).max(self.space.block);
        let mut rounds = Vec::new();
        for round in 1..=CAPACITIES_MOST * ROUNDS_PER_CAPACITY as u32 {
            let time = left(self.device.now());
            if time == Some(Nanos::ZERO) {
                break;
            }
            self.progress.round(&format!("enforcing the steady state: round {round} of random writes"));
            rounds.push(self.steady_round(round, size, time)?);
            if steady_state(rounds.clone(), self.space.capacity.0).is_steady {
                break;
            }
        }
        Ok(())
    }

    /// A round of random writes, and its figures. A device that supports conditioning computes only the times of
    /// the last part.
    fn steady_round(
        &mut self,
        round: u32,
        size: Bytes,
        limit: Option<Nanos>,
    ) -> Result<SteadyRound, BenchError> {
        let timed = size.min(TIMED_MOST);
        let pattern = self.state_pattern("random-state");
        let before = Purpose::State { state: State::Random.to_string(), complete: true };
        let conditioned = self.condition(&before, &pattern, size - timed)?;
        let conditioned_bytes = conditioned.as_ref().map_or(0, |record| record.written_bytes);
        let purpose = Purpose::SteadyRound { round, conditioned_bytes };
        let rest = if conditioned.is_some() { timed } else { size };
        let progress = self.progress;
        let tell = move |share| progress.share(share);
        let observer = || UntilWritten::new(rest.0, &tell);
        self.before = PreviousActivity::Nothing;
        let record = self.run(purpose, pattern, Goal::of(observer).within(limit))?;
        self.before = PreviousActivity::State;
        self.areas.reset();
        steady_round(&*self.store, &record, conditioned.as_ref())
    }

    /// The pattern of a shipped plan for a state, with sizes that the device supports.
    fn state_pattern(&self, plan: &str) -> Pattern {
        let mut pattern = crate::manifest::builtin(plan).experiments.swap_remove(0).pattern;
        for basic in pattern.basics_mut() {
            basic.io_size = fitting(basic.io_size, self.space.block);
        }
        pattern
    }

    /// Writes `size` with the pattern of a shipped plan. On a device that supports conditioning, this takes
    /// no virtual time.
    fn write_state(
        &mut self,
        purpose: Purpose,
        plan: &str,
        size: Bytes,
        limit: Option<Nanos>,
    ) -> Result<RunRecord, BenchError> {
        let pattern = self.state_pattern(plan);
        let progress = self.progress;
        let tell = move |share| progress.share(share);
        let observer = || UntilWritten::new(size.0, &tell);
        let record = match self.condition(&purpose, &pattern, size)? {
            Some(record) => {
                self.areas.reset();
                record
            }
            None => self.run(purpose, pattern, Goal::of(observer).within(limit))?,
        };
        self.before = PreviousActivity::State;
        Ok(record)
    }

    /// Reaches the state by conditioning, without times. `None` if the device does not support it.
    fn condition(
        &mut self,
        purpose: &Purpose,
        pattern: &Pattern,
        size: Bytes,
    ) -> Result<Option<RunRecord>, BenchError> {
        let seed = self.seed_for(purpose);
        let placed = pattern.place(self.space, seed)?;
        let (all, progress, interrupt) = (size.0, self.progress, self.interrupt);
        let media_before = MediaCounters::of(self.device);
        let (mut written, mut told, mut last) = (0, 0, None);
        let mut ios = placed.ios(0).map_while(|io| {
            if written >= all || interrupt.load(Ordering::Relaxed) {
                return None;
            }
            written += io.size.0;
            if written - told > all / 200 {
                told = written;
                progress.share(written as f64 / all as f64);
            }
            last = Some(io);
            Some((io.mode.into(), io.offset, io.size))
        });
        let begin = self.device.now();
        let Some(conditioning) = self.device.conditioning() else { return Ok(None) };
        let conditioned = conditioning.condition(&mut ios);
        let (run, lanes) = self.store.start_run(1)?;
        self.store.finish_run(lanes)?;
        if interrupt.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        if let (Err(error), Some(PlannedIo { mode, offset, size, .. })) = (conditioned, last) {
            let target = self.device.identity().target;
            if let Some(loss) = self.loss() {
                return Err(BenchError::Lost { target, run, loss });
            }
            let failure = Failure { operation: mode.into(), offset, size, error };
            return Err(BenchError::Device { target, run, failure });
        }
        let end = self.device.now();
        let media = MediaCounters::of(self.device).since(media_before);
        let record = RunRecord {
            run,
            purpose: purpose.clone(),
            seed,
            pattern: crate::manifest::pattern_text(pattern),
            io_ignore: 0,
            io_ignore_wanted: 0,
            period_ios: 1,
            ended: Some(RunEnd::CountReached),
            regime_shown: None,
            settled: None,
            pause_ns: 0,
            begin_ns: begin.0,
            end_ns: end.0,
            read_bytes: 0,
            written_bytes: written,
            media_written_bytes: media.programmed,
            media_erased_bytes: media.erased,
            other_traffic_bytes: None,
            processor_wait_ns: None,
            thermal_throttles: None,
            failed_ios: 0,
            first_failure: None,
            recording_stalls: 0,
        };
        self.store.add(record.clone())?;
        Ok(Some(record))
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
