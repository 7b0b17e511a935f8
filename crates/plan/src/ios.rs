//! The expansion of a pattern to its IOs, one at a time.
//!
//! # Invariants
//! - Nothing is allocated for an IO, and nothing grows with their number.
//! - The same pattern, space, seed and process give the same IOs.

use flashlab_base::{Bytes, Mode, Nanos, Prng};

use crate::location::Walk;
use crate::{Arrival, Content, IoSize, ModeRule, Time};

/// One IO of a pattern: uFLIP's four attributes, its position, and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedIo {
    /// Its position in its process's sequence, from 0.
    pub position: u64,
    /// Read or write.
    pub mode: Mode,
    /// Where it starts on the device.
    pub offset: Bytes,
    /// How long it is.
    pub size: Bytes,
    /// When it starts.
    pub start: Start,
    /// What it writes, if it writes.
    pub content: Content,
}

/// When an IO starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Closed loop: this time after the previous IO's completion; zero for consecutive IOs.
    AfterPrevious(Nanos),
    /// Open loop: at this time after the start of the run, even if earlier IOs are not done.
    At(Nanos),
}

/// The IOs of one process of a placed pattern, in their order. There are IOCount of them, or infinitely many
/// without IOCount.
#[derive(Clone, Debug)]
pub struct Ios {
    first: Stream,
    second: Option<(Stream, u32)>,
    /// How many IOs of pattern #1 still come before the next one of pattern #2.
    until_second: u32,
    position: u64,
    end: u64,
    arrivals: Arrivals,
}

/// The clock of an open loop: when the next IO is due. It keeps fractions of a nanosecond, so that rounding
/// errors do not add up in a long run.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    nanos: u64,
    fraction: f64,
}

impl Arrivals {
    fn advance(&mut self, gap: f64) {
        let exact = self.fraction + gap;
        self.nanos = self.nanos.saturating_add(exact as u64);
        self.fraction = exact.fract();
    }
}

/// One basic pattern's own sequence.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) mode: ModeRule,
    pub(crate) time: Time,
    /// Multiples of `block` already.
    pub(crate) io_size: IoSize,
    pub(crate) block: Bytes,
    /// TargetOffset + IOShift, of this process.
    pub(crate) base: Bytes,
    pub(crate) walk: Walk,
    pub(crate) content: Content,
    pub(crate) prng: Prng,
    /// The number of IOs since the last pause.
    pub(crate) in_burst: u32,
}

impl Ios {
    /// `second` comes with its Ratio.
    pub(crate) fn new(first: Stream, second: Option<(Stream, u32)>, io_count: Option<u64>) -> Ios {
        let until_second = second.as_ref().map_or(0, |(_, ratio)| *ratio);
        Ios {
            first,
            second,
            until_second,
            position: 0,
            end: io_count.unwrap_or(u64::MAX),
            arrivals: Arrivals::default(),
        }
    }
}

impl Iterator for Ios {
    type Item = PlannedIo;

    #[inline]
    fn next(&mut self) -> Option<PlannedIo> {
        if self.position == self.end {
            return None;
        }
        let stream = match &mut self.second {
            None => &mut self.first,
            Some((second, ratio)) if self.until_second == 0 => {
                self.until_second = *ratio;
                second
            }
            Some(_) => {
                self.until_second -= 1;
                &mut self.first
            }
        };
        let io = stream.next(self.position, &mut self.arrivals);
        self.position += 1;
        Some(io)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        (left, if self.end == u64::MAX { None } else { Some(left) })
    }
}

impl Stream {
    #[inline(always)]
    fn next(&mut self, position: u64, arrivals: &mut Arrivals) -> PlannedIo {
        let size = match self.io_size {
            IoSize::Fixed(size) => size,
            IoSize::Uniform { min, max } => {
                min + self.block * self.prng.below((max - min).0 / self.block.0 + 1)
            }
        };
        let offset = self.base + self.walk.next(size, &mut self.prng);
        let mode = match self.mode {
            ModeRule::Always(mode) => mode,
            ModeRule::WriteProbability(p) if self.prng.unit() < p => Mode::Write,
            ModeRule::WriteProbability(_) => Mode::Read,
        };
        let start = self.start(position, arrivals);
        PlannedIo { position, mode, offset, size, start, content: self.content }
    }

    /// Both parts of a mix share the open loop's clock.
    #[inline]
    fn start(&mut self, position: u64, arrivals: &mut Arrivals) -> Start {
        match self.time {
            Time::Consecutive => Start::AfterPrevious(Nanos::ZERO),
            Time::Pause { .. } if position == 0 => Start::AfterPrevious(Nanos::ZERO),
            Time::Pause { pause } => Start::AfterPrevious(pause),
            Time::Burst { burst, pause } if self.in_burst == burst => {
                self.in_burst = 1;
                Start::AfterPrevious(pause)
            }
            Time::Burst { .. } => {
                self.in_burst += 1;
                Start::AfterPrevious(Nanos::ZERO)
            }
            Time::Rate { per_second, arrival } => {
                let intended = Nanos(arrivals.nanos);
                let gap = 1e9 / per_second;
                arrivals.advance(match arrival {
                    Arrival::Fixed => gap,
                    Arrival::Poisson => gap * self.prng.exponential(),
                });
                Start::At(intended)
            }
        }
    }
}
