//! What a session keeps of filling the device: how far it is, what it took, and what was written since.

use std::mem;
use std::sync::atomic::Ordering;

use flashlab_analysis::inference::Fill;
use flashlab_base::{Bytes, Nanos};
use flashlab_samples::ProbeStep;

use super::Session;
use crate::groups::structure::replay::Run;
use crate::halt::Halt;

impl Session<'_, '_> {
    /// What is known of filling the device.
    pub(crate) fn fill(&self) -> &Fill {
        &self.inference.fill
    }

    pub(crate) fn fill_mut(&mut self) -> &mut Fill {
        &mut self.inference.fill
    }

    /// So much was written behind what was filled.
    pub(crate) fn filled(&mut self, length: Bytes) {
        let (capacity, block) = (self.capacity(), self.block());
        let fill = &mut self.inference.fill;
        fill.until += length;
        if fill.until >= capacity.round_down(block) {
            // What was written over before is beyond the capacity, too.
            fill.whole_at = Some(self.inference.written.min(fill.begun_at + capacity));
        }
    }

    /// Has the device write to its flash what it only holds, while nothing else is in flight; what that took, none where it
    /// refuses. A pattern has flushes behind its writes only, and so this is in no plan.
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

    /// Keeps writes of single pages and more that were a part of filling it, for the group that asks them.
    pub(crate) fn keep_row_writes(&mut self, runs: Vec<Run>) {
        self.inference.row_writes = runs;
    }

    pub(crate) fn take_row_writes(&mut self) -> Vec<Run> {
        mem::take(&mut self.inference.row_writes)
    }

    /// So much was written again and again to a few addresses since the device was filled: space that is had back by erasing
    /// alone, and so does not count as used.
    pub(crate) fn wrote_in_place(&mut self, length: Bytes) {
        let whole_at = &mut self.inference.fill.whole_at;
        *whole_at = whole_at.map(|at| at + length);
        self.inference.fill.in_place += length;
    }

    /// What was written since the whole device was, but for what was written in place.
    ///
    /// # Errors
    /// [`Halt::Lacks`] if it was not.
    pub fn written_since_fill(&self) -> Result<Bytes, Halt> {
        let whole_at = self.inference.fill.whole_at;
        let filled = whole_at.ok_or_else(|| Halt::Lacks("the device was not filled".to_owned()))?;
        Ok(Bytes(self.inference.written.0.saturating_sub(filled.0)))
    }
}
