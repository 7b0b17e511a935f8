//! Who looks at every IO while a run goes on.

use std::ops::ControlFlow;

use flashlab_samples::Sample;

/// Sees every IO of one process, on the measuring thread, between that IO and the next one. What it
/// does has to be short: it delays the pattern.
pub trait Observer: Send {
    /// Sees one completed IO. `Break` ends the whole run: the other processes stop as well.
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
        // Both see it, whatever the first one says.
        let first = self.0.observe(sample);
        let second = self.1.observe(sample);
        if first.is_break() { first } else { second }
    }
}
