//! Observers that decide when a run ends.
//!
//! uFLIP leaves the choice of IOCount as future work. Here a run ends when the confidence interval of its
//! mean is narrow enough and it has covered the device's periods. Otherwise it ends when its time is used up
//! and it has its least number of IOs.

use std::ops::ControlFlow;

use flashlab_analysis::Precision;
use flashlab_analysis::findings::RunEnd;
use flashlab_base::Nanos;
use flashlab_engine::Observer;
use flashlab_samples::Sample;

/// An observer that may end its run.
pub(crate) trait EndingObserver: Observer {
    /// Why the run ended, if this observer ended it.
    fn end(&self) -> RunEnd;
}

/// Ends a run when the mean of one of its processes is precise enough, or its time is used up.
#[derive(Clone)]
pub(crate) struct UntilPrecise {
    io_ignore: u64,
    io_count_min: u64,
    goal: f64,
    precision: Precision,
    /// The time limit, and the least number of IOs after IOIgnore.
    limit: Option<(Nanos, u64)>,
    begin: Option<Nanos>,
}

impl UntilPrecise {
    /// `period_ios` is the period of the device, if one is known; `goal` is relative to the mean.
    pub fn new(io_ignore: u64, io_count_min: u64, period_ios: u64, goal: f64) -> UntilPrecise {
        let precision = Precision::with_period(period_ios);
        UntilPrecise { io_ignore, io_count_min, goal, precision, limit: None, begin: None }
    }

    /// Also ends the run after this time, if it has this number of IOs after IOIgnore.
    pub fn within(self, time: Option<Nanos>, io_count_least: u64) -> UntilPrecise {
        UntilPrecise { limit: time.map(|time| (time, io_count_least)), ..self }
    }

    fn is_precise(&self) -> bool {
        self.precision.count() >= self.io_count_min
            && self.precision.relative_half_width().is_some_and(|width| width <= self.goal)
    }
}

impl Observer for UntilPrecise {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        let begin = *self.begin.get_or_insert(sample.submitted);
        if sample.position < self.io_ignore || sample.errno != 0 {
            return ControlFlow::Continue(());
        }
        self.precision.add(sample.response().0);
        let is_over = self.limit.is_some_and(|(time, least)| {
            self.precision.count() >= least && sample.completed.since(begin) >= time
        });
        if is_over || self.is_precise() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl EndingObserver for UntilPrecise {
    fn end(&self) -> RunEnd {
        if self.is_precise() { RunEnd::PrecisionReached } else { RunEnd::BudgetUsed }
    }
}

/// Ends a run that has lasted long enough and has enough IOs.
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

impl EndingObserver for UntilLong {
    fn end(&self) -> RunEnd {
        RunEnd::BudgetUsed
    }
}

/// Ends a run after this number of bytes written, and reports its progress.
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

impl EndingObserver for UntilWritten<'_> {
    fn end(&self) -> RunEnd {
        RunEnd::CountReached
    }
}
