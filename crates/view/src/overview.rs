//! What all IOs of a recording have in common.

use flashlab_base::{Span, Spans};
use serde::{Deserialize, Serialize};

use crate::ios::{IoColumns, KIND_COUNT};

/// The most times of failures that are told apart.
const FAILURES_MOST: usize = 200;

/// A run and what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLabel {
    /// Its number.
    pub run: u32,
    /// What it was, for people.
    pub name: String,
    /// IOs of each process that are its start-up phase.
    pub io_ignore: u64,
}

/// What all IOs of a recording have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Overview {
    /// How many there are, by kind.
    pub ios_by_kind: Vec<u64>,
    /// The end of the times at which they began, nanoseconds.
    pub time_end_ns: u64,
    /// The smallest offset, bytes.
    pub offset_first: u64,
    /// The largest offset, bytes.
    pub offset_last: u64,
    /// Where the IO ends that reaches furthest, bytes.
    pub offset_end: u64,
    /// The shortest and the longest response time, nanoseconds, both inclusive.
    pub response_ns: (u64, u64),
    /// The number of processes.
    pub process_count: u32,
    /// From the first to the last begin of each run, nanoseconds, and its IOs.
    pub runs: Vec<RunOverview>,
    /// IOs that completed before they began, by their clock.
    pub backward: u64,
    /// When IOs began that failed, and how many: those close together are one span.
    pub failures: Vec<Span<u64>>,
}

/// When a run was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOverview {
    /// Its number.
    pub run: u32,
    /// Its first begin and its last, nanoseconds.
    pub time_ns: (u64, u64),
    /// How many IOs it has.
    pub ios: u64,
    /// When the last IO of its start-up phase began, nanoseconds; `None` without one.
    pub start_up_end_ns: Option<u64>,
}

impl Default for Overview {
    fn default() -> Overview {
        Overview {
            ios_by_kind: vec![0; KIND_COUNT],
            time_end_ns: 0,
            offset_first: u64::MAX,
            offset_last: 0,
            offset_end: 0,
            response_ns: (u64::MAX, 0),
            process_count: 0,
            runs: Vec::new(),
            backward: 0,
            failures: Vec::new(),
        }
    }
}

impl Overview {
    /// How many IOs there are.
    pub fn ios(&self) -> u64 {
        self.ios_by_kind.iter().sum()
    }

    /// What these IOs have in common. `runs` says which of them are a start-up phase.
    pub(crate) fn of(ios: &IoColumns, runs: &[RunLabel]) -> Overview {
        let mut overview = Overview { backward: ios.backward, ..Overview::default() };
        // Of each run, how many IOs of a process are its start-up phase.
        let mut ignored: Vec<u64> = Vec::new();
        let mut failures = Spans::new(FAILURES_MOST, 0);
        let mut last: Option<usize> = None;
        for index in 0..ios.len() {
            overview.ios_by_kind[usize::from(ios.kind[index].0)] += 1;
            let time = ios.time_ns[index];
            if ios.kind[index].is_failed() {
                failures.add(Span { start_ns: time, end_ns: time.saturating_add(1), amount: 1 });
            }
            overview.time_end_ns = overview.time_end_ns.max(time.saturating_add(1));
            let offset = ios.offset_bytes[index];
            overview.offset_first = overview.offset_first.min(offset);
            overview.offset_end =
                overview.offset_end.max(offset.saturating_add(ios.size_bytes[index].max(1)));
            overview.offset_last = overview.offset_last.max(offset);
            let response = ios.response_ns[index];
            overview.response_ns =
                (overview.response_ns.0.min(response), overview.response_ns.1.max(response));
            overview.process_count = overview.process_count.max(ios.process[index].saturating_add(1));
            let run = ios.run[index];
            // Nearly always the run of the IO before.
            let known = last.filter(|&at| overview.runs[at].run == run);
            let at = known.or_else(|| overview.runs.iter().position(|known| known.run == run));
            let at = at.unwrap_or_else(|| {
                overview.runs.push(RunOverview { run, time_ns: (time, time), ios: 0, start_up_end_ns: None });
                ignored.push(runs.iter().find(|label| label.run == run).map_or(0, |label| label.io_ignore));
                overview.runs.len() - 1
            });
            let known = &mut overview.runs[at];
            known.time_ns = (known.time_ns.0.min(time), known.time_ns.1.max(time));
            known.ios += 1;
            if ios.position[index] < ignored[at] {
                known.start_up_end_ns = known.start_up_end_ns.max(Some(time));
            }
            last = Some(at);
        }
        overview.failures = failures.into_vec();
        overview
    }

    pub(crate) fn add(&mut self, other: &Overview) {
        for (own, more) in self.ios_by_kind.iter_mut().zip(&other.ios_by_kind) {
            *own += more;
        }
        self.time_end_ns = self.time_end_ns.max(other.time_end_ns);
        self.offset_first = self.offset_first.min(other.offset_first);
        self.offset_end = self.offset_end.max(other.offset_end);
        self.offset_last = self.offset_last.max(other.offset_last);
        self.response_ns.0 = self.response_ns.0.min(other.response_ns.0);
        self.response_ns.1 = self.response_ns.1.max(other.response_ns.1);
        self.process_count = self.process_count.max(other.process_count);
        self.runs.extend(&other.runs);
        self.backward += other.backward;
        self.failures.extend(&other.failures);
    }

    /// Makes one of the parts of each run, and orders them by their begin; and so for the times of failures.
    pub(crate) fn join_parts(&mut self) {
        let mut failures = Spans::new(FAILURES_MOST, self.time_end_ns / 10_000);
        self.failures.sort_by_key(|span| (span.start_ns, span.end_ns));
        self.failures.iter().for_each(|&span| failures.add(span));
        self.failures = failures.into_vec();
        self.runs.sort_by_key(|run| run.run);
        self.runs.dedup_by(|next, own| {
            let is_same = next.run == own.run;
            if is_same {
                own.time_ns = (own.time_ns.0.min(next.time_ns.0), own.time_ns.1.max(next.time_ns.1));
                own.ios += next.ios;
                own.start_up_end_ns = own.start_up_end_ns.max(next.start_up_end_ns);
            }
            is_same
        });
        self.runs.sort_by_key(|run| run.time_ns);
    }
}
