//! A pattern as a value (uFLIP section 3.1).
//!
//! # Model
//! A basic pattern is one function for each of an IO's four attributes (time, IOSize, location,
//! mode) and their parameters. A mixed pattern interleaves two basic patterns; a parallel pattern
//! runs copies of a pattern as concurrent processes, each on its own part of the target.
//!
//! # Invariants
//! - A pattern knows no device. [`Pattern::place`] places it on a device and checks what depends on the
//!   device.
//! - Everything random in it follows from the seed with which it is placed.

use flashlab_base::{Bytes, Mode, Nanos};

/// A sequence of IOs: basic, mixed or parallel (uFLIP section 3.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// The basic pattern, or the first of a mix.
    pub first: Basic,
    /// The second basic pattern of a mix.
    pub mix: Option<Mix>,
    /// ParallelDegree: the number of concurrent processes that run the pattern, each on its own part of the
    /// target. At least 1.
    pub parallel_degree: u32,
    /// The number of IOs that each process keeps in flight; 1 is uFLIP's synchronous IO. At least 1.
    pub queue_depth: u32,
    /// WriteThrough: whether each write is followed by a flush, and is done when its flush is done.
    pub write_through: bool,
    /// IOCount: the number of IOs of each process, ignored ones included; `None` for infinitely many.
    pub io_count: Option<u64>,
    /// When the run ends, even if IOCount is not reached; `None` for no limit.
    pub duration: Option<Nanos>,
    /// IOIgnore: the number of IOs at the start of each process that the statistics ignore, because they
    /// belong to the start-up phase (uFLIP section 4.2).
    pub io_ignore: u64,
}

/// The second part of a mixed pattern (uFLIP Table 1, Mix).
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Pattern #2.
    pub second: Basic,
    /// Ratio (#1/#2): the number of IOs of pattern #1 before each one of pattern #2. At least 1.
    pub ratio: u32,
}

/// A basic pattern: one function for each attribute of its IOs.
#[derive(Clone, Debug, PartialEq)]
pub struct Basic {
    /// Whether an IO reads or writes.
    pub mode: ModeRule,
    /// The location function.
    pub location: Location,
    /// When the next IO starts.
    pub time: Time,
    /// IOSize.
    pub io_size: IoSize,
    /// SlotSize: the distance of slots, at least the largest IOSize; `None`: there are no gaps between IOs.
    pub slot_size: Option<Bytes>,
    /// IOShift: the distance by which all IOs are shifted from their alignment.
    pub io_shift: Bytes,
    /// TargetOffset: where the target starts on the device.
    pub target_offset: Bytes,
    /// TargetSize; `None` for everything up to the end of the device.
    pub target_size: Option<Bytes>,
    /// What is written.
    pub content: Content,
}

/// Mode(IO): uFLIP's constant function, or a random mode for each IO.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModeRule {
    /// All IOs have this mode.
    Always(Mode),
    /// An IO is a write with this probability, from 0 to 1, and otherwise a read.
    WriteProbability(f64),
}

/// LBA(IO): the location function. Formulas are relative to TargetOffset + IOShift. A slot is one IOSize of
/// the target, or one SlotSize if the pattern has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Location {
    /// (i x IOSize) mod TargetSize.
    Sequential,
    /// random(TargetSize / IOSize) x IOSize.
    Random,
    /// Random without repetition: every slot once, in a new random order on each pass.
    Permutation,
    /// Incr x i x IOSize, within the target. When a pass leaves the target, the next pass starts one slot
    /// later, so that `incr` passes cover the target. A negative `incr` is the mirror image (modulo the
    /// target); with 0 all IOs go to the same place.
    Ordered {
        /// Incr.
        incr: i64,
    },
    /// P_i x PS + O_i: the IOs go round-robin to the partitions, and are sequential in each.
    Partitioned {
        /// Partitions. At least 1.
        partitions: u32,
    },
    /// The slot of rank k is used with a probability proportional to 1 / k^theta. The ranks are scattered
    /// over the target, so that hot slots are not next to each other.
    Zipf {
        /// The skew: 0 is uniform; 0.99 is typical of databases.
        theta: f64,
    },
    /// The share `ios` of the IOs goes to the first part `space` of the target, the others to the remaining
    /// part. Both are uniformly random.
    HotCold {
        /// Share of the IOs, within (0, 1).
        ios: f64,
        /// Share of the target, within (0, 1).
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
    /// Open loop: each IO starts at its own time, even if earlier ones are not done.
    Rate {
        /// IOs per second of each process, above 0.
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

/// The data of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// All bits 0.
    Zeros,
    /// All bits 1: an erased flash cell.
    Ones,
    /// Half of it is random and half is zeros: it compresses to about one half.
    Half,
    /// Random.
    Incompressible,
    /// Random; each block contains its address and the IO's position, so that it can be verified later.
    Stamped,
}

/// IOIgnore and IOCount: the number of IOs in the start-up phase, and the number of IOs including them.
pub type IgnoreAndCount = (u64, u64);

impl Basic {
    /// Incompressible IOs of one size over the whole device, one after the other.
    pub fn consecutive(mode: ModeRule, location: Location, size: Bytes) -> Basic {
        Basic {
            mode,
            location,
            time: Time::Consecutive,
            io_size: IoSize::Fixed(size),
            slot_size: None,
            io_shift: Bytes::ZERO,
            target_offset: Bytes::ZERO,
            target_size: None,
            content: Content::Incompressible,
        }
    }

    /// The width of a slot of the target: SlotSize, or else the largest IOSize.
    pub fn slot(&self) -> Bytes {
        self.slot_size.unwrap_or(self.io_size.largest())
    }
}

impl Pattern {
    /// A pattern with one basic pattern: one process, one IO in flight, infinitely many IOs.
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
        Some(Pattern::basic(Basic::consecutive(ModeRule::Always(mode), location, Bytes::kib(32))))
    }

    /// The basic patterns in it: one, or the two of a mix.
    pub fn basics(&self) -> impl Iterator<Item = &Basic> {
        std::iter::once(&self.first).chain(self.mix.as_ref().map(|mix| &mix.second))
    }

    /// As [`Pattern::basics`], to change them.
    pub fn basics_mut(&mut self) -> impl Iterator<Item = &mut Basic> {
        std::iter::once(&mut self.first).chain(self.mix.as_mut().map(|mix| &mut mix.second))
    }

    /// This pattern with all its IOs in a target that starts at `offset`. Its size is `size`, unless the
    /// pattern has a TargetSize, as in the micro-benchmark Locality. That may be larger than `size`. If such
    /// a pattern is placed in a space that ends with the target, it is refused.
    pub fn on_target(mut self, offset: Bytes, size: Bytes) -> Pattern {
        for basic in self.basics_mut() {
            basic.target_offset = offset;
            basic.target_size = basic.target_size.or(Some(size));
        }
        self
    }

    /// Whether any of its IOs may read.
    pub fn reads(&self) -> bool {
        self.basics().any(|basic| basic.mode != ModeRule::Always(Mode::Write))
    }

    /// Whether any of its IOs may write.
    pub fn writes(&self) -> bool {
        self.basics().any(|basic| basic.mode != ModeRule::Always(Mode::Read))
    }

    /// IOIgnore and IOCount of a mix, from those of its two basic patterns. They are so long that each of the
    /// two has as many IOs, and passes its start-up phase as far, as it does alone (uFLIP sections 4.2 and
    /// 5.1). Without a mix, `first` is returned.
    ///
    /// The paper's example: random writes have a start-up phase of 128 IOs. Mixed 4 to 1 with random reads,
    /// they have passed it after 640 IOs of the mix. So IOCount = 512 would measure nothing.
    pub fn scaled_for_mix(&self, first: IgnoreAndCount, second: IgnoreAndCount) -> IgnoreAndCount {
        let Some(mix) = &self.mix else { return first };
        let ratio = u64::from(mix.ratio.max(1));
        // The smallest number of IOs of the mix that contains this number of each.
        let length = |of_first: u64, of_second: u64| {
            let cycles = of_first.saturating_sub(1) / ratio;
            let until_first = of_first.saturating_add(cycles);
            until_first.max(of_second.saturating_mul(ratio.saturating_add(1)))
        };
        (length(first.0, second.0), length(first.1, second.1))
    }
}
