//! A pattern as a value: uFLIP section 3.1.
//!
//! # Model
//! A basic pattern is one function for each of an IO's four attributes (time, IOSize, location,
//! mode) and their parameters. A mixed pattern interleaves two basic patterns; a parallel pattern
//! runs copies of a pattern as concurrent processes, each on its own part of the target.
//!
//! # Invariants
//! - A pattern knows no device. [`Pattern::place`] puts it on one and checks what depends on it.
//! - Everything random in it comes from the seed that it is placed with.

use flashlab_base::{Bytes, Mode, Nanos};

/// A sequence of IOs: basic, mixed or parallel (uFLIP section 3.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// The basic pattern, or the first of a mix.
    pub first: Basic,
    /// The second basic pattern of a mix.
    pub mix: Option<Mix>,
    /// ParallelDegree: how many concurrent processes run the pattern, each on its own part of the
    /// target. At least 1.
    pub parallel_degree: u32,
    /// How many IOs each process keeps in flight; 1 is uFLIP's synchronous IO. At least 1.
    pub queue_depth: u32,
    /// WriteThrough: whether a flush follows each write, which is done when the flush is.
    pub write_through: bool,
    /// IOCount: how many IOs each process does, those of IOIgnore included; `None` for no end.
    pub io_count: Option<u64>,
    /// When the run ends, whether or not IOCount is reached; `None` for no limit.
    pub duration: Option<Nanos>,
    /// IOIgnore: how many IOs at each process's start are left out of the statistics, because they
    /// belong to the start-up phase (uFLIP section 4.2).
    pub io_ignore: u64,
}

/// The second part of a mixed pattern (uFLIP Table 1, Mix).
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Pattern #2.
    pub second: Basic,
    /// Ratio (#1/#2): how many IOs of pattern #1 come before each one of pattern #2. At least 1.
    pub ratio: u32,
}

/// A basic pattern: one function for each attribute of its IOs.
#[derive(Clone, Debug, PartialEq)]
pub struct Basic {
    /// Whether an IO reads or writes.
    pub mode: ModeRule,
    /// Which part of the target comes next.
    pub location: Location,
    /// When the next IO starts.
    pub time: Time,
    /// IOSize.
    pub io_size: IoSize,
    /// SlotSize: how far slots are apart, at least the largest IOSize; `None`: IOs lie side by side.
    pub slot_size: Option<Bytes>,
    /// IOShift: how far all IOs are moved from their alignment.
    pub io_shift: Bytes,
    /// TargetOffset: where the target starts on the device.
    pub target_offset: Bytes,
    /// TargetSize; `None` for everything up to the end of the device.
    pub target_size: Option<Bytes>,
    /// What is written.
    pub content: Content,
}

/// Mode(IO): uFLIP's constant function, or a coin tossed for each IO.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModeRule {
    /// All IOs have this mode.
    Always(Mode),
    /// An IO writes with this probability, from 0 to 1, and reads otherwise.
    WriteProbability(f64),
}

/// LBA(IO): the location function. Formulas are relative to TargetOffset + IOShift; a slot is one
/// IOSize of the target, or one SlotSize where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Location {
    /// (i x IOSize) mod TargetSize.
    Sequential,
    /// random(TargetSize / IOSize) x IOSize.
    Random,
    /// Random without repetition: every slot once, in a new random order on each pass.
    Permutation,
    /// Incr x i x IOSize, within the target: where a pass leaves it, the next pass starts one slot
    /// further, so that `incr` passes fill the target by columns. A negative `incr` is the mirror
    /// image (modulo the target), 0 stays in place.
    Ordered {
        /// Incr.
        incr: i64,
    },
    /// P_i x PS + O_i: the partitions in turn, sequential within each.
    Partitioned {
        /// Partitions. At least 1.
        partitions: u32,
    },
    /// The slot of rank k is hit with probability proportional to 1 / k^theta; the ranks are
    /// scattered over the target, so that hot slots are no neighbours.
    Zipf {
        /// The skew: 0 is uniform, 0.99 is usual for databases.
        theta: f64,
    },
    /// A part `ios` of the IOs goes to the first part `space` of the target, the others to the rest;
    /// uniform within both.
    HotCold {
        /// Part of the IOs, within (0, 1).
        ios: f64,
        /// Part of the target, within (0, 1).
        space: f64,
    },
}

/// t(IO): the time function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Time {
    /// The next IO starts when the previous one is done.
    Consecutive,
    /// As above, after a pause.
    Pause {
        /// Pause.
        pause: Nanos,
    },
    /// A pause after each group of IOs (uFLIP section 3.1: "between groups of Burst IOs").
    Burst {
        /// Burst: the group's length. At least 1.
        burst: u32,
        /// Pause.
        pause: Nanos,
    },
    /// Open loop: IOs start when their time has come, whether or not earlier ones are done.
    Rate {
        /// IOs a second of each process, above 0.
        per_second: f64,
        /// Their spacing.
        arrival: Arrival,
    },
}

/// How the IOs of an open loop are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// Evenly.
    Fixed,
    /// As a Poisson process: exponentially distributed gaps.
    Poisson,
}

/// IOSize(IO): uFLIP's constant function, or a random size for each IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoSize {
    /// All IOs have this size.
    Fixed(Bytes),
    /// Uniform over the multiples of the device's block from `min` to `max`.
    Uniform {
        /// The smallest size.
        min: Bytes,
        /// The largest size.
        max: Bytes,
    },
}

impl IoSize {
    /// The largest size, which is the width of a slot.
    pub fn largest(self) -> Bytes {
        match self {
            IoSize::Fixed(size) => size,
            IoSize::Uniform { max, .. } => max,
        }
    }
}

/// What a write puts on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// All bits 0.
    Zeros,
    /// All bits 1: an erased flash cell.
    Ones,
    /// Half of it random and half of it zeros: compresses to about one half.
    Half,
    /// Random.
    Incompressible,
    /// Random, and each block carries its address and the IO's position, for later verification.
    Stamped,
}

/// IOIgnore and IOCount: how many IOs belong to the start-up phase, and how many there are with
/// those.
pub type IgnoreAndCount = (u64, u64);

impl Basic {
    /// How wide a slot of the target is: SlotSize, or else the largest IOSize.
    pub fn slot(&self) -> Bytes {
        self.slot_size.unwrap_or(self.io_size.largest())
    }
}

impl Pattern {
    /// A pattern of one basic pattern: one process, one IO in flight, without an end.
    pub fn basic(first: Basic) -> Pattern {
        Pattern {
            first,
            mix: None,
            parallel_degree: 1,
            queue_depth: 1,
            write_through: false,
            io_count: None,
            duration: None,
            io_ignore: 0,
        }
    }

    /// The names of the four baseline patterns.
    pub const BASELINES: [&'static str; 4] = ["SR", "RR", "SW", "RW"];

    /// The baseline pattern of this name: sequential or random reads or writes, consecutive, of
    /// 32 KiB (uFLIP section 3.1 and Table 1), over the whole device.
    pub fn baseline(name: &str) -> Option<Pattern> {
        let (location, mode) = match name {
            "SR" => (Location::Sequential, Mode::Read),
            "RR" => (Location::Random, Mode::Read),
            "SW" => (Location::Sequential, Mode::Write),
            "RW" => (Location::Random, Mode::Write),
            _ => return None,
        };
        Some(Pattern::basic(Basic {
            mode: ModeRule::Always(mode),
            location,
            time: Time::Consecutive,
            io_size: IoSize::Fixed(Bytes::kib(32)),
            slot_size: None,
            io_shift: Bytes::ZERO,
            target_offset: Bytes::ZERO,
            target_size: None,
            content: Content::Incompressible,
        }))
    }

    /// The basic patterns it is made of: one, or two of a mix.
    pub fn basics(&self) -> impl Iterator<Item = &Basic> {
        std::iter::once(&self.first).chain(self.mix.as_ref().map(|mix| &mix.second))
    }

    /// As [`Pattern::basics`], to change them.
    pub fn basics_mut(&mut self) -> impl Iterator<Item = &mut Basic> {
        std::iter::once(&mut self.first).chain(self.mix.as_mut().map(|mix| &mut mix.second))
    }

    /// This pattern with all its IOs on a target from `offset` on, of `size` unless the pattern has a
    /// TargetSize of its own, as in the Locality micro-benchmark. That may be larger: placed in a
    /// space whose capacity is the target's end, such a pattern is refused.
    pub fn on_target(mut self, offset: Bytes, size: Bytes) -> Pattern {
        for basic in self.basics_mut() {
            basic.target_offset = offset;
            basic.target_size = basic.target_size.or(Some(size));
        }
        self
    }

    /// Whether any of its IOs may write.
    pub fn writes(&self) -> bool {
        self.basics().any(|basic| basic.mode != ModeRule::Always(Mode::Read))
    }

    /// IOIgnore and IOCount of a mix from those of its two basic patterns: long enough that each of
    /// the two does as many IOs, and gets as far through its start-up phase, as it does alone
    /// (uFLIP sections 4.2 and 5.1). Without a mix, `first` as it is.
    ///
    /// The paper's example: random writes with a start-up of 128 IOs, mixed 4 to 1 with random
    /// reads, are through it after 640 IOs of the mix, so that IOCount = 512 measures nothing.
    pub fn scaled_for_mix(&self, first: IgnoreAndCount, second: IgnoreAndCount) -> IgnoreAndCount {
        let Some(mix) = &self.mix else { return first };
        let ratio = u64::from(mix.ratio.max(1));
        // The length of the mix's shortest start that has so many IOs of each.
        let length = |of_first: u64, of_second: u64| {
            let cycles = of_first.saturating_sub(1) / ratio;
            let until_first = of_first.saturating_add(cycles);
            until_first.max(of_second.saturating_mul(ratio.saturating_add(1)))
        };
        (length(first.0, second.0), length(first.1, second.1))
    }
}
