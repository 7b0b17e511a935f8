//! The state of filling the device: how far it is filled, how long that took, and what was written since.

use std::mem;
use std::sync::atomic::Ordering;

use crate::flash_layout::TimedRun;
use flashlab_base::{Bytes, Nanos};
use flashlab_samples::ProbeStep;

use super::Session;
use crate::checkpoint::{Fill, ReclaimUnit};
use crate::halt::Halt;

impl Session<'_, '_> {
    /// What is known of filling the device: for the probe that fills it.
    pub(crate) fn fill_mut(&mut self) -> &mut Fill {
        &mut self.findings.checkpoint.fill
    }

    fn fill(&self) -> &Fill {
        &self.findings.checkpoint.fill
    }

    /// The end of what was filled.
    pub(crate) fn filled_until(&self) -> Bytes {
        self.fill().until
    }

    /// What the last writes that filled the device took, in nanoseconds per byte.
    pub(crate) fn fill_nanos_per_byte(&self) -> f64 {
        self.fill().nanos_per_byte
    }

    /// What a small write with a flush takes, in nanoseconds, if the flush waits for a write buffer.
    pub(crate) fn flushed_nanos(&self) -> Option<f64> {
        self.fill().flushed_nanos
    }

    /// The unit in which the device reclaims space, as overwriting showed.
    pub(crate) fn reclaim_unit(&self) -> Option<ReclaimUnit> {
        self.fill().unit
    }

    pub(crate) fn set_reclaim_unit(&mut self, unit: Option<ReclaimUnit>) {
        self.fill_mut().unit = unit;
    }

    /// Counts bytes that were written after what was filled.
    pub(crate) fn filled(&mut self, length: Bytes) {
        let (capacity, block) = (self.capacity(), self.block());
        let (document, fill) = (&mut *self.findings.inference, &mut self.findings.checkpoint.fill);
        fill.until += length;
        document.filled = fill.until.min(capacity);
        if fill.until >= capacity.round_down(block) {
            // Bytes that were overwritten before count beyond the capacity.
            fill.whole_at = Some(document.written.min(fill.begun_at + capacity));
            document.filled = capacity;
        }
    }

    /// Flushes the device while nothing else is in flight, and returns how long that takes; `None` if it refuses. A plan has
    /// flushes only after writes, so this one is in no plan.
    ///
    /// # Errors
    /// [`Halt::Time`] and [`Halt::Interrupted`] before it; [`Halt::Interrupted`], and [`Halt::Gone`] if it takes too long: it is in
    /// flight for ever then, and nothing else is submitted any more.
    pub(crate) fn flush(&mut self) -> Result<Option<Nanos>, Halt> {
        self.check_over()?;
        if self.settings.interrupt.load(Ordering::Relaxed) {
            return Err(Halt::Interrupted);
        }
        if self.time_left() == Nanos::ZERO {
            return Err(Halt::Time);
        }
        let flushed = self.lab.flush(self.settings.interrupt);
        let took = self.or_over(flushed)?;
        let step = ProbeStep::Flush { took_ns: took.map(|took| took.0), now_ns: self.lab.now().0 };
        self.progress.step(step, &[]);
        Ok(took)
    }

    /// Keeps the times of some writes that filled the device, for the probe that looks for pages and dies.
    pub(crate) fn keep_row_writes(&mut self, runs: Vec<TimedRun>) {
        self.findings.checkpoint.row_writes = runs;
    }

    pub(crate) fn take_row_writes(&mut self) -> Vec<TimedRun> {
        mem::take(&mut self.findings.checkpoint.row_writes)
    }

    /// Counts bytes that were written repeatedly to a few offsets since the device was filled. Erasing alone reclaims their space,
    /// so it does not count as used.
    pub(crate) fn wrote_in_place(&mut self, length: Bytes) {
        let whole_at = &mut self.findings.checkpoint.fill.whole_at;
        *whole_at = whole_at.map(|at| at + length);
        self.findings.checkpoint.fill.in_place += length;
    }

    /// The bytes that were written in place since the device was filled.
    pub(crate) fn written_in_place(&self) -> Bytes {
        self.fill().in_place
    }

    /// The bytes written since the device was filled, without those that were written in place.
    ///
    /// # Errors
    /// [`Halt::Lacks`] if it was not.
    pub fn written_since_fill(&self) -> Result<Bytes, Halt> {
        let whole_at = self.findings.checkpoint.fill.whole_at;
        let filled = whole_at.ok_or_else(|| Halt::Lacks("the device was not filled".to_owned()))?;
        Ok(Bytes(self.findings.inference.written.0.saturating_sub(filled.0)))
    }
}
