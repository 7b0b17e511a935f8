//! Ends a run of a plan without an end when its writes have shown their regimes ([`shown`](crate::shown)).

use std::ops::ControlFlow;

use flashlab_analysis::findings::RunEnd;
use flashlab_analysis::{Precision, pattern_stages};
use flashlab_base::{Bytes, Mode, Nanos, Sample};
use flashlab_engine::Observer;

use crate::observe::EndingObserver;

/// A run has at most this number of writes: 512 MiB in IOs of 512 B.
const WRITES_MOST: usize = 1 << 20;

/// Goes on until the rate of the writes has settled, and its mean is precise. It is looked for at counts that grow by a quarter.
pub(crate) struct UntilShown {
    /// The bytes that are written at least.
    least: Bytes,
    longest: Nanos,
    goal: f64,
    begin: Option<Nanos>,
    written: Bytes,
    responses: Vec<u64>,
    next: usize,
    is_precise: bool,
}

impl UntilShown {
    /// Of a process that writes at least `least` bytes, for at most the `longest` time; `goal` is relative to the mean.
    pub fn new(least: Bytes, longest: Nanos, goal: f64) -> UntilShown {
        UntilShown {
            least,
            longest,
            goal,
            begin: None,
            written: Bytes::ZERO,
            responses: Vec::new(),
            next: 0,
            is_precise: false,
        }
    }

    fn is_settled(&self) -> bool {
        let found = pattern_stages("", &self.responses, 1);
        if !found.is_settled {
            return false;
        }
        let mut precision = Precision::with_period(found.cycle_bytes.unwrap_or(1));
        self.responses[found.volatile_bytes as usize..].iter().for_each(|&ns| precision.add(ns));
        precision.relative_half_width().is_some_and(|width| width <= self.goal)
    }
}

impl Observer for UntilShown {
    #[inline]
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        let begin = *self.begin.get_or_insert(sample.submitted);
        if sample.errno == 0 && sample.mode == Mode::Write {
            self.responses.push(sample.response().0);
            self.written += sample.size;
        }
        let count = self.responses.len();
        if sample.completed.since(begin) >= self.longest || count >= WRITES_MOST {
            return ControlFlow::Break(());
        }
        if self.written < self.least || count < self.next {
            return ControlFlow::Continue(());
        }
        self.next = count + count / 4;
        self.is_precise = self.is_settled();
        if self.is_precise { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl EndingObserver for UntilShown {
    fn end(&self) -> RunEnd {
        if self.is_precise { RunEnd::PrecisionReached } else { RunEnd::BudgetUsed }
    }
}
