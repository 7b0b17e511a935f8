//! Classifies the IOs of a run by operation, locality and size, and records them as samples.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use flashlab_analysis::{Classes, Done, Locality};
use flashlab_base::{Bytes, Nanos, Operation, Sample};
use flashlab_engine::Observer;
use flashlab_plan::PlannedIo;
use flashlab_samples::Lane;
use flashlab_trace::TraceIo;

/// Where the samples of one process go.
pub trait SampleLane: Send {
    /// Records one sample. `Break` means that samples cannot be recorded any more.
    fn record(&mut self, sample: &Sample) -> ControlFlow<()>;
}

impl SampleLane for Lane {
    #[inline]
    fn record(&mut self, sample: &Sample) -> ControlFlow<()> {
        Lane::record(self, sample)
    }
}

impl SampleLane for Vec<Sample> {
    #[inline]
    fn record(&mut self, sample: &Sample) -> ControlFlow<()> {
        self.push(*sample);
        ControlFlow::Continue(())
    }
}

/// An IO in the trace or the plan.
pub(crate) struct Upcoming {
    operation: Operation,
    source: u32,
    offset: Bytes,
    size: Bytes,
}

impl From<&TraceIo> for Upcoming {
    fn from(io: &TraceIo) -> Upcoming {
        let &TraceIo { operation, source, offset, size, .. } = io;
        Upcoming { operation, source, offset, size }
    }
}

impl From<PlannedIo> for Upcoming {
    fn from(io: PlannedIo) -> Upcoming {
        Upcoming { operation: io.mode.into(), source: 0, offset: io.offset, size: io.size }
    }
}

/// Classifies the IOs of one process. IOs complete in any order; `upcoming` yields them in the planned order,
/// which decides what is sequential.
pub(crate) struct ClassObserver<I, L> {
    upcoming: I,
    /// The operation and locality of the IOs from `first` on; none for one that was observed. It is as long as the IOs in flight are
    /// apart, and allocates no more once it is.
    known: VecDeque<Option<(Operation, Locality)>>,
    /// The position of the first IO in `known`.
    first: u64,
    /// The end of the last IO of each operation, by source.
    ends: Vec<[Option<Bytes>; 4]>,
    classes: Classes,
    /// IOs at the start that no class counts: IOIgnore.
    io_ignore: u64,
    /// The intended start of the first counted IO, by the device's clock.
    counted_from: Option<Nanos>,
    lane: Option<L>,
}

/// The result of an observer.
pub(crate) struct ClassifiedProcess<L> {
    pub classes: Classes,
    /// The intended start of the first counted IO, by the device's clock; `None` if none was counted.
    pub counted_from: Option<Nanos>,
    pub lane: Option<L>,
}

impl<I: Iterator<Item = Upcoming>, L: SampleLane> ClassObserver<I, L> {
    /// `io_ignore` IOs at the start are recorded and not counted.
    pub fn new(upcoming: I, io_ignore: u64, lane: Option<L>) -> ClassObserver<I, L> {
        ClassObserver {
            upcoming,
            known: VecDeque::new(),
            first: 0,
            ends: Vec::new(),
            classes: Classes::default(),
            io_ignore,
            counted_from: None,
            lane,
        }
    }

    /// What it has seen.
    pub fn finish(self) -> ClassifiedProcess<L> {
        ClassifiedProcess { classes: self.classes, counted_from: self.counted_from, lane: self.lane }
    }

    fn know_next(&mut self) -> Option<()> {
        let io = self.upcoming.next()?;
        let source = io.source as usize;
        if self.ends.len() <= source {
            self.ends.resize(source + 1, [None; 4]);
        }
        let end = &mut self.ends[source][io.operation as usize];
        let follows = end.replace(Bytes(io.offset.0.saturating_add(io.size.0))) == Some(io.offset);
        let locality = if follows { Locality::Sequential } else { Locality::Random };
        self.known.push_back(Some((io.operation, locality)));
        Some(())
    }

    /// The operation and locality of the IO at a position, which completes once.
    fn take(&mut self, position: u64) -> Option<(Operation, Locality)> {
        while self.first + self.known.len() as u64 <= position && self.know_next().is_some() {}
        let taken = self.known.get_mut(position.checked_sub(self.first)? as usize)?.take();
        while let Some(None) = self.known.front() {
            self.known.pop_front();
            self.first += 1;
        }
        taken
    }
}

impl<I: Iterator<Item = Upcoming> + Send, L: SampleLane> Observer for ClassObserver<I, L> {
    fn observe(&mut self, sample: &Sample) -> ControlFlow<()> {
        let Some((operation, locality)) = self.take(sample.position) else {
            return ControlFlow::Continue(());
        };
        if sample.errno == 0 && sample.position >= self.io_ignore {
            self.counted_from = self.counted_from.or(Some(Nanos::MAX)).map(|from| from.min(sample.intended));
            let (size, waited) = (sample.size, sample.submitted.since(sample.intended));
            self.classes.add(&Done { operation, locality, size, waited, response: sample.response() });
        } else if sample.errno != 0 {
            self.classes.add_failed();
        }
        match &mut self.lane {
            Some(lane) if operation.mode().is_some() => lane.record(sample),
            _ => ControlFlow::Continue(()),
        }
    }
}
