//! The laboratory: what runs the patterns of probes, waits, and flushes.
//!
//! # Model
//! [`Lab`] is the seam between probes and what answers them. [`DeviceLab`] runs patterns on a [`Device`];
//! [`RecordedDevice`](crate::RecordedDevice) answers from the samples of an earlier inference.
//!
//! # Invariants
//! - The clock moves only with a step. What a probe computes between two steps takes no time, so that a recording
//!   gives the same answers.
//! - A lab knows no probe and no budget.

use std::sync::atomic::{AtomicBool, Ordering};

use flashlab_base::{Bytes, Nanos, Operation, Sample, Seed};
use flashlab_device::{Buffer, Device, Request};
use flashlab_engine::{Control, EngineError, FLUSH_TIMEOUT, INTERRUPT_CHECK, RunOutcome, flush_timeout_loss};
use flashlab_plan::{Pattern, Placed};

use crate::checkpoint::WritesBefore;
use crate::halt::Halt;

/// What a device accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Its size.
    pub capacity: Bytes,
    /// The smallest IO.
    pub block: Bytes,
    /// The most IOs in flight.
    pub depth: u32,
}

/// A pattern that is about to run.
pub(crate) struct PlacedPattern<'a> {
    /// The experiment's name in the probe's plan.
    pub experiment: &'a str,
    /// The pattern.
    pub pattern: &'a Pattern,
    /// The same, with its offsets.
    pub placed: &'a Placed,
    /// From which they follow.
    pub seed: Seed,
}

/// What a run gave.
pub(crate) struct LabRun {
    /// Process by process, each in the order of completions.
    pub samples: Vec<Vec<Sample>>,
    /// The totals; `loss` says why the device is gone, if it is.
    pub outcome: RunOutcome,
    /// Why the device refuses writes, if it does.
    pub refusal: Option<String>,
}

/// What answers the probes.
pub(crate) trait Lab {
    /// What the device accepts.
    fn limits(&self) -> Limits;

    /// The device's clock, as of the last step.
    fn now(&self) -> Nanos;

    /// A probe begins. Returns what had been written before it when it was recorded, if that is known.
    ///
    /// # Errors
    /// [`Halt::Diverges`].
    fn begin(&mut self, probe: &str) -> Result<Option<WritesBefore>, Halt>;

    /// Runs a pattern.
    ///
    /// # Errors
    /// [`Halt::Misfit`] if the device does not take it; [`Halt::Diverges`].
    fn run(&mut self, pattern: &PlacedPattern<'_>, control: &Control<'_>) -> Result<LabRun, Halt>;

    /// Leaves the device idle until its clock shows `until`, and reports the time left.
    ///
    /// # Errors
    /// [`Halt::Interrupted`]; [`Halt::Diverges`].
    fn idle(&mut self, until: Nanos, interrupt: &AtomicBool, left: &mut dyn FnMut(Nanos))
    -> Result<(), Halt>;

    /// Has the device write its buffer to flash while nothing is in flight, and returns how long that takes; `None` if it
    /// refuses.
    ///
    /// # Errors
    /// [`Halt::Interrupted`]; [`Halt::Gone`] if it takes too long: the flush is then in flight for ever, and nothing else may
    /// be submitted; [`Halt::Diverges`].
    fn flush(&mut self, interrupt: &AtomicBool) -> Result<Option<Nanos>, Halt>;

    /// What the device programmed to its flash since it was made, if it counts that.
    ///
    /// # Errors
    /// [`Halt::Diverges`].
    fn media_written(&mut self) -> Result<Option<Bytes>, Halt>;
}

/// A lab with a device.
pub(crate) struct DeviceLab<'d> {
    device: &'d mut dyn Device,
    now: Nanos,
}

impl<'d> DeviceLab<'d> {
    pub(crate) fn new(device: &'d mut dyn Device) -> DeviceLab<'d> {
        let now = device.now();
        DeviceLab { device, now }
    }
}

impl Lab for DeviceLab<'_> {
    fn limits(&self) -> Limits {
        let geometry = self.device.geometry();
        Limits { capacity: geometry.capacity, block: geometry.block, depth: geometry.depth }
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn begin(&mut self, _: &str) -> Result<Option<WritesBefore>, Halt> {
        self.now = self.device.now();
        Ok(None)
    }

    fn run(&mut self, pattern: &PlacedPattern<'_>, control: &Control<'_>) -> Result<LabRun, Halt> {
        let misfit = |error: EngineError| Halt::Misfit(error.to_string());
        flashlab_engine::check(self.device, pattern.pattern).map_err(misfit)?;
        let ios = pattern.pattern.io_count.unwrap_or_default() * u64::from(pattern.pattern.parallel_degree);
        let mut samples: Vec<Vec<Sample>> =
            (0..pattern.placed.processes()).map(|_| Vec::with_capacity(ios as usize)).collect();
        let mut outcome =
            flashlab_engine::run(self.device, pattern.placed, &mut samples, control).map_err(misfit)?;
        outcome.loss = outcome.loss.or_else(|| self.device.health()?.loss());
        let refusal = match outcome.failed {
            0 => None,
            _ => self.device.health().and_then(|health| health.refusal()),
        };
        self.now = self.device.now();
        Ok(LabRun { samples, outcome, refusal })
    }

    fn idle(
        &mut self,
        until: Nanos,
        interrupt: &AtomicBool,
        left: &mut dyn FnMut(Nanos),
    ) -> Result<(), Halt> {
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Halt::Interrupted);
            }
            self.now = self.device.now();
            if self.now >= until {
                return Ok(());
            }
            left(until.since(self.now));
            self.device.wait(until.min(self.now.saturating_add(INTERRUPT_CHECK)));
        }
    }

    fn flush(&mut self, interrupt: &AtomicBool) -> Result<Option<Nanos>, Halt> {
        let operation = Operation::Flush;
        let (offset, size) = (Bytes::ZERO, Bytes::ZERO);
        self.device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
        let until = self.device.now().saturating_add(FLUSH_TIMEOUT);
        loop {
            let now = self.device.now();
            if let Some(done) = self.device.wait(until.min(now.saturating_add(INTERRUPT_CHECK))) {
                self.now = self.device.now();
                return Ok(done.result.ok().map(|()| done.completed.since(done.submitted)));
            }
            if interrupt.load(Ordering::Relaxed) {
                return Err(Halt::Interrupted);
            }
            if now >= until {
                return Err(Halt::Gone(flush_timeout_loss()));
            }
        }
    }

    fn media_written(&mut self) -> Result<Option<Bytes>, Halt> {
        Ok(self.device.telemetry().and_then(|telemetry| telemetry.media_written()))
    }
}
