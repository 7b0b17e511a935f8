//! The state that a device is brought to before it is measured.
//!
//! A simulated device that can be conditioned gets there without the time that its IOs would take; it is the same
//! state.

use std::sync::atomic::Ordering;

use flashlab_analysis::findings::RunEnd;
use flashlab_base::Bytes;
use flashlab_engine::Failure;
use flashlab_plan::{IoSize, Pattern, PlannedIo};

use super::{Before, Conduct, Goal};
use crate::BenchError;
use crate::observe::UntilWritten;
use crate::record::{Purpose, RunRecord};

impl Conduct<'_> {
    /// Brings the whole target into the wanted state (uFLIP section 4.1). A resumed run does so
    /// again: what happened to the device meanwhile is not known.
    pub(super) fn enforce_state(&mut self) -> Result<(), BenchError> {
        let state = self.settings.state;
        self.state_due = false;
        let Some(plan) = state.plan() else { return Ok(()) };
        self.progress.step(&format!("enforcing the {state} state"));
        let mut pattern = crate::manifest::builtin(plan).experiments.swap_remove(0).pattern;
        for basic in pattern.basics_mut() {
            basic.io_size = fitting(basic.io_size, self.space.block);
        }
        let progress = self.progress;
        let tell = move |share| progress.share(share);
        let all = self.space.capacity.0;
        let observer = || UntilWritten::new(all, &tell);
        let purpose = Purpose::State { state: state.to_string(), complete: true };
        if self.condition(&purpose, &pattern)? {
            self.before = Before::State;
            self.areas.reset();
            return Ok(());
        }
        self.run(purpose, pattern, Goal::of(observer).within(self.settings.lengths().state))?;
        self.before = Before::State;
        Ok(())
    }

    /// The state without its time, on a device that can be brought there so. `false` on any other.
    fn condition(&mut self, purpose: &Purpose, pattern: &Pattern) -> Result<bool, BenchError> {
        let seed = self.seed_for(purpose);
        let placed = pattern.place(self.space, seed)?;
        let (all, progress, interrupt) = (self.space.capacity.0, self.progress, self.interrupt);
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
        let Some(conditioning) = self.device.conditioning() else { return Ok(false) };
        let conditioned = conditioning.condition(&mut ios);
        let (run, lanes) = self.store.start_run(1)?;
        let recording_stalls = self.store.finish_run(lanes)?;
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
        self.store.add(RunRecord {
            run,
            purpose: purpose.clone(),
            seed,
            pattern: crate::manifest::pattern_text(pattern),
            io_ignore: 0,
            io_ignore_wanted: 0,
            period_ios: 1,
            ended: Some(RunEnd::CountReached),
            pause_ns: 0,
            begin_ns: begin.0,
            end_ns: end.0,
            read_bytes: 0,
            written_bytes: written,
            other_traffic_bytes: None,
            processor_wait_ns: None,
            thermal_throttles: None,
            failed_ios: 0,
            first_failure: None,
            recording_stalls,
        })?;
        Ok(true)
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
