//! When a run has seen enough.
//!
//! uFLIP leaves the choice of IOCount as future work. Here a run goes on until the confidence
//! interval of its mean is narrow enough, and it has done what the device's phases ask for; a time
//! limit ends it otherwise (the engine's).

use std::ops::ControlFlow;

use flashlab_analysis::Precision;
use flashlab_base::Nanos;
use flashlab_engine::Observer;
use flashlab_samples::Sample;

/// Ends a run when the mean of one of its processes is known well enough.
pub(crate) struct UntilPrecise {
    io_ignore: u64,
    io_count_min: u64,
    goal: f64,
    precision: Precision,
}

impl UntilPrecise {
    /// `period_ios` is the device's, where one is known; `goal` is relative to the mean.
    pub fn new(io_ignore: u64, io_count_min: u64, period_ios: u64, goal: f64) -> UntilPrecise {
        UntilPrecise { io_ignore, io_count_min, goal, precision: Precision::with_period(period_ios) }
    }
}

impl Observer for UntilPrecise {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        if sample.position < self.io_ignore || sample.errno != 0 {
            return ControlFlow::Continue(());
        }
        self.precision.add(sample.response().0);
        match self.precision.relative_half_width() {
            Some(width) if width <= self.goal && self.precision.count() >= self.io_count_min => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Ends a run that has gone on for long enough and has IOs enough.
pub(crate) struct UntilLong {
    pub ios: u64,
    pub time: Nanos,
    pub begin: Option<Nanos>,
}

impl UntilLong {
    pub fn new(ios: u64, time: Nanos) -> UntilLong {
        UntilLong { ios, time, begin: None }
    }
}

impl Observer for UntilLong {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        let begin = *self.begin.get_or_insert(sample.submitted);
        let enough = sample.position + 1 >= self.ios && sample.completed.since(begin) >= self.time;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Ends a run that has written so many bytes, and tells how far it is.
pub(crate) struct UntilWritten<'a> {
    goal: u64,
    written: u64,
    told: u64,
    progress: &'a (dyn Fn(f64) + Sync),
}

impl<'a> UntilWritten<'a> {
    pub fn new(goal: u64, progress: &'a (dyn Fn(f64) + Sync)) -> UntilWritten<'a> {
        UntilWritten { goal, written: 0, told: 0, progress }
    }
}

impl Observer for UntilWritten<'_> {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        self.written += sample.size.0;
        if self.written - self.told > self.goal / 200 {
            self.told = self.written;
            (self.progress)(self.written as f64 / self.goal as f64);
        }
        if self.written >= self.goal { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
