//! The trait [`Observer`], which sees every IO of a run.

use std::ops::ControlFlow;

use flashlab_base::Sample;

/// Sees every IO of one process, in the measuring thread and before the next submission. It has to be fast, because it
/// delays the pattern.
pub trait Observer: Send {
    /// Sees one completed IO. `Break` ends the run, in all processes.
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()>;
}

impl Observer for Vec<Sample> {
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        self.push(*sample);
        ControlFlow::Continue(())
    }
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        // Both see it, even if the first one ends the run.
        let first = self.0.observe(sample);
        let second = self.1.observe(sample);
        if first.is_break() { first } else { second }
    }
}
