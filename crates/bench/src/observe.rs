//! Observers that decide when a run ends.
//!
//! uFLIP leaves the choice of IOCount as future work. Here a run ends when the confidence interval of its
//! mean is narrow enough and it has covered the device's periods. Otherwise it ends when its time is used up
//! and it has its least number of IOs.

use std::ops::ControlFlow;

use flashlab_analysis::findings::RunEnd;
use flashlab_analysis::{Precision, Transient, pattern_stages, transient};
use flashlab_base::{Nanos, Sample};
use flashlab_engine::Observer;

/// An observer that may end its run.
pub(crate) trait EndingObserver: Observer {
    /// Why the run ended, if this observer ended it.
    fn end(&self) -> RunEnd;

    /// The transient of the run after its IOIgnore, if one was looked for.
    fn transient(&self) -> Option<Transient> {
        None
    }
}

/// Ends a run when the mean of one of its processes is precise enough, or its time is used up.
#[derive(Clone)]
pub(crate) struct UntilPrecise {
    io_ignore: u64,
    io_count_min: u64,
    goal: f64,
    /// The period of the device, with which batches are aligned.
    period: u64,
    precision: Precision,
    /// The time limit, and the least number of IOs after IOIgnore.
    limit: Option<(Nanos, u64)>,
    /// At the time limit, the half width of the interval is at most this.
    known_within: f64,
    begin: Option<Nanos>,
    settling: Option<SettlingRun>,
}

/// The response times of a run that has to settle in its own pattern.
#[derive(Clone)]
struct SettlingRun {
    window: usize,
    responses: Vec<u64>,
    /// The number of IOs at which the transient is looked for next.
    next: usize,
    /// What the last look found, and the IOs that it saw.
    seen: Option<(Transient, usize)>,
}

impl SettlingRun {
    /// The IOs after the transient, if the run has settled. Looks are at counts that grow by a quarter; `None` between them.
    fn add(&mut self, response_ns: u64) -> Option<&[u64]> {
        self.responses.push(response_ns);
        let ios = self.responses.len();
        if ios < self.next {
            return None;
        }
        self.next = ios + ios / 4;
        let found = transient(&self.responses, self.window);
        self.seen = Some((found, ios));
        found.is_settled.then_some(&self.responses[found.ios..])
    }

    /// The transient of all IOs: what the last look found, unless others came after it.
    fn transient(&self) -> Transient {
        let seen = self.seen.filter(|&(_, ios)| ios == self.responses.len());
        seen.map_or_else(|| transient(&self.responses, self.window), |(found, _)| found)
    }
}

impl UntilPrecise {
    /// `period_ios` is the period of the device, if one is known; `goal` is relative to the mean.
    pub fn new(io_ignore: u64, io_count_min: u64, period_ios: u64, goal: f64) -> UntilPrecise {
        let precision = Precision::with_period(period_ios);
        UntilPrecise {
            io_ignore,
            io_count_min,
            goal,
            period: period_ios,
            precision,
            limit: None,
            known_within: f64::INFINITY,
            begin: None,
            settling: None,
        }
    }

    /// Goes on after its time until the mean is known to this part: a figure that is withheld would be worth nothing.
    pub fn known_within(self, known_within: f64) -> UntilPrecise {
        UntilPrecise { known_within, ..self }
    }

    /// Goes on until the run has settled in its own pattern, over windows of this number of IOs.
    pub fn settling(self, window: Option<u64>) -> UntilPrecise {
        let settling = window.map(|window| SettlingRun {
            window: window as usize,
            responses: Vec::new(),
            next: 2 * window as usize,
            seen: None,
        });
        UntilPrecise { settling, ..self }
    }

    /// Also ends the run after this time, if it has this number of IOs after IOIgnore.
    pub fn within(self, time: Option<Nanos>, io_count_least: u64) -> UntilPrecise {
        UntilPrecise { limit: time.map(|time| (time, io_count_least)), ..self }
    }

    fn is_precise(&self) -> bool {
        self.precision.count() >= self.io_count_min && self.is_within(self.goal)
    }

    fn is_within(&self, part: f64) -> bool {
        part == f64::INFINITY || self.precision.relative_half_width().is_some_and(|width| width <= part)
    }
}

impl Observer for UntilPrecise {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        let begin = *self.begin.get_or_insert(sample.submitted);
        if sample.position < self.io_ignore || sample.errno != 0 {
            return ControlFlow::Continue(());
        }
        let response_ns = sample.response().0;
        match &mut self.settling {
            None => self.precision.add(response_ns),
            Some(run) => match run.add(response_ns) {
                Some(settled) => {
                    self.precision = Precision::with_period(self.period);
                    settled.iter().for_each(|&ns| self.precision.add(ns));
                }
                None => return ControlFlow::Continue(()),
            },
        }
        let is_over = self.limit.is_some_and(|(time, least)| {
            self.precision.count() >= least
                && sample.completed.since(begin) >= time
                && self.is_within(self.known_within)
        });
        if is_over || self.is_precise() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl EndingObserver for UntilPrecise {
    fn end(&self) -> RunEnd {
        if self.is_precise() { RunEnd::PrecisionReached } else { RunEnd::BudgetUsed }
    }

    fn transient(&self) -> Option<Transient> {
        self.settling.as_ref().map(SettlingRun::transient)
    }
}

/// Ends a run that has lasted long enough and has enough IOs. Writes go on until what lasts is known.
pub(crate) struct UntilLong {
    ios: u64,
    time: Nanos,
    begin: Option<Nanos>,
    stages: Option<Settling>,
}

/// Whether the sustained stage is known. It is looked for at counts that grow by a quarter each time.
struct Settling {
    responses: Vec<u64>,
    /// The number of IOs at which it is looked for next.
    next: u64,
    /// After this time the run ends as well, unless no window of it shows the regime.
    longest: Nanos,
    is_over: bool,
}

impl UntilLong {
    pub fn new(ios: u64, time: Nanos) -> UntilLong {
        UntilLong { ios, time, begin: None, stages: None }
    }

    /// Goes on until the sustained stage is settled.
    pub fn and_settled(self, longest: Nanos) -> UntilLong {
        let stages = Settling { responses: Vec::new(), next: self.ios, longest, is_over: false };
        UntilLong { stages: Some(stages), ..self }
    }
}

impl Settling {
    fn is_settled(&mut self, ios: u64, elapsed: Nanos) -> bool {
        let was_over = std::mem::replace(&mut self.is_over, elapsed >= self.longest);
        if ios < self.next && was_over == self.is_over {
            return false;
        }
        self.next = ios + ios / 4;
        let found = pattern_stages("", &self.responses, 1);
        let has_window = found.window_scatter.is_some();
        found.is_settled || (has_window && self.is_over)
    }
}

impl Observer for UntilLong {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        let begin = *self.begin.get_or_insert(sample.submitted);
        let (ios, elapsed) = (sample.position + 1, sample.completed.since(begin));
        let is_long = ios >= self.ios && elapsed >= self.time;
        let is_enough = match &mut self.stages {
            None => is_long,
            Some(stages) => {
                if sample.errno == 0 {
                    stages.responses.push(sample.response().0);
                }
                (is_long || elapsed >= stages.longest) && stages.is_settled(ios, elapsed)
            }
        };
        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Ends a run of writes when a window of them takes as long as the sustained stage: the regime is the sustained one. Such a window
/// ends in a stall. So the run goes on for some IOs, at random, and what follows begins anywhere in a cycle.
pub(crate) struct UntilSustained {
    /// The response times of the window, by position modulo its length.
    window: Vec<u64>,
    sum: u64,
    seen: u64,
    /// The least and the longest time of a sustained window.
    bounds_ns: [u64; 2],
    /// The IOs to go on for, from the sustained window on.
    further: u64,
    is_sustained: bool,
}

impl UntilSustained {
    /// `bounds_ns` are the least and the largest mean of a sustained window.
    pub fn new(window_ios: u64, bounds_ns: [f64; 2], further: u64) -> UntilSustained {
        let ios = window_ios.max(1);
        let bounds_ns = bounds_ns.map(|mean| (mean * ios as f64) as u64);
        UntilSustained {
            window: vec![0; ios as usize],
            sum: 0,
            seen: 0,
            bounds_ns,
            further,
            is_sustained: false,
        }
    }
}

impl Observer for UntilSustained {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        if self.is_sustained {
            self.further = self.further.saturating_sub(1);
        } else {
            let place = (self.seen % self.window.len() as u64) as usize;
            let response = sample.response().0;
            self.sum = self.sum - self.window[place] + response;
            self.window[place] = response;
            self.seen += 1;
            let is_full = self.seen >= self.window.len() as u64;
            let [least, most] = self.bounds_ns;
            self.is_sustained = is_full && (least..=most).contains(&self.sum);
        }
        if self.is_sustained && self.further == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl EndingObserver for UntilSustained {
    fn end(&self) -> RunEnd {
        if self.is_sustained { RunEnd::PrecisionReached } else { RunEnd::CountReached }
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
