//! What a session keeps of filling the device: how far it is, what it took, and what was written since.

use flashlab_analysis::inference::Fill;
use flashlab_base::{Bytes, Nanos, Operation};
use flashlab_device::{Buffer, Request};

use super::Session;
use crate::groups::replay::Run;
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
        let capacity = self.capacity();
        let fill = &mut self.inference.fill;
        fill.until += length;
        if fill.until >= capacity.round_down(self.device.geometry().block) {
            // What was written over before is beyond the capacity, too.
            fill.whole_at = Some(self.inference.written.min(fill.begun_at + capacity));
        }
    }

    /// Has the device write to its flash what it only holds, while nothing else is in flight; what that took, none where it
    /// refuses.
    pub(crate) fn flush(&mut self) -> Option<Nanos> {
        let operation = Operation::Flush;
        let (offset, size) = (Bytes::ZERO, Bytes::ZERO);
        self.device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
        let done = self.device.wait(Nanos::MAX)?;
        done.result.ok().map(|()| done.completed.since(done.submitted))
    }

    /// Writes of single pages and more that were a part of filling it. They are not known after an interruption.
    pub(crate) fn row_writes(&self) -> &[Run] {
        &self.row_writes
    }

    pub(crate) fn keep_row_writes(&mut self, runs: Vec<Run>) {
        self.row_writes = runs;
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
    /// [`Halt::Failed`] if it was not.
    pub fn written_since_fill(&self) -> Result<Bytes, Halt> {
        let whole_at = self.inference.fill.whole_at;
        let filled = whole_at.ok_or_else(|| Halt::Failed("the device was not filled before".to_owned()))?;
        Ok(Bytes(self.inference.written.0.saturating_sub(filled.0)))
    }
}
