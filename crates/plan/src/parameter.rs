//! The parameters of a pattern: their names, units, and how to set them.
//!
//! # Model
//! A micro-benchmark differs from a baseline pattern only as far as its parameter requires (uFLIP section
//! 3.2). So setting a parameter may change the function that it belongs to, by the paper's identities:
//! sequential = ordered(1) = partitioned(1), consecutive = pause(0), and pause(p) = burst(1, p).

use std::fmt;

use flashlab_base::{Bytes, Nanos};

use crate::{Arrival, Basic, IoSize, Location, ModeRule, Pattern, Time};

/// A parameter whose value is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatternParameter {
    /// IOSize, in bytes.
    IoSize,
    /// SlotSize, in bytes.
    SlotSize,
    /// IOShift, in bytes.
    IoShift,
    /// TargetOffset, in bytes.
    TargetOffset,
    /// TargetSize, in bytes.
    TargetSize,
    /// Incr: the stride of an ordered pattern, in IOSizes.
    Incr,
    /// Partitions.
    Partitions,
    /// Theta: the skew of a zipf pattern.
    Theta,
    /// HotIOs: the share of the IOs that goes to the hot part of the target.
    HotIos,
    /// HotSpace: the hot part of the target.
    HotSpace,
    /// Pause, in nanoseconds.
    Pause,
    /// Burst: IOs between two pauses.
    Burst,
    /// Rate: IOs per second of an open loop.
    Rate,
    /// WriteProbability.
    WriteProbability,
    /// Ratio of a mix (#1/#2).
    Ratio,
    /// ParallelDegree.
    ParallelDegree,
    /// QueueDepth.
    QueueDepth,
    /// IOCount.
    IoCount,
    /// IOIgnore.
    IoIgnore,
    /// Duration, in nanoseconds.
    Duration,
}

/// What a parameter's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    Bytes,
    Nanos,
    /// At most what 32 bits hold.
    Count,
    /// At most [`EXACT_MAX`].
    LongCount,
    Integer,
    Real,
}

/// The largest number in a pattern. Values of parameters are doubles, which represent every integer up to
/// this one exactly. It is 8 PiB, or 104 days in nanoseconds.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// A parameter's name in the papers, key in the language, and quantity.
const TABLE: [(PatternParameter, &str, &str, Quantity); 20] = [
    (PatternParameter::IoSize, "IOSize", "io_size", Quantity::Bytes),
    (PatternParameter::SlotSize, "SlotSize", "slot_size", Quantity::Bytes),
    (PatternParameter::IoShift, "IOShift", "io_shift", Quantity::Bytes),
    (PatternParameter::TargetOffset, "TargetOffset", "target_offset", Quantity::Bytes),
    (PatternParameter::TargetSize, "TargetSize", "target_size", Quantity::Bytes),
    (PatternParameter::Incr, "Incr", "incr", Quantity::Integer),
    (PatternParameter::Partitions, "Partitions", "partitions", Quantity::Count),
    (PatternParameter::Theta, "Theta", "theta", Quantity::Real),
    (PatternParameter::HotIos, "HotIOs", "hot_ios", Quantity::Real),
    (PatternParameter::HotSpace, "HotSpace", "hot_space", Quantity::Real),
    (PatternParameter::Pause, "Pause", "pause", Quantity::Nanos),
    (PatternParameter::Burst, "Burst", "burst", Quantity::Count),
    (PatternParameter::Rate, "Rate", "per_second", Quantity::Real),
    (PatternParameter::WriteProbability, "WriteProbability", "write_probability", Quantity::Real),
    (PatternParameter::Ratio, "Ratio", "ratio", Quantity::Count),
    (PatternParameter::ParallelDegree, "ParallelDegree", "parallel_degree", Quantity::Count),
    (PatternParameter::QueueDepth, "QueueDepth", "queue_depth", Quantity::Count),
    (PatternParameter::IoCount, "IOCount", "io_count", Quantity::LongCount),
    (PatternParameter::IoIgnore, "IOIgnore", "io_ignore", Quantity::LongCount),
    (PatternParameter::Duration, "Duration", "duration", Quantity::Nanos),
];

impl PatternParameter {
    /// Every parameter.
    pub fn all() -> impl Iterator<Item = PatternParameter> {
        TABLE.iter().map(|row| row.0)
    }

    /// The parameter with this uFLIP name, for example `IOSize`.
    pub fn from_name(name: &str) -> Option<PatternParameter> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Its name in uFLIP. Parameters that uFLIP does not have are named in the same style.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its key in a plan's file.
    pub fn key(self) -> &'static str {
        self.row().2
    }

    /// The unit of its values: `bytes`, `ns`, or nothing for a number.
    pub fn unit(self) -> &'static str {
        match self.quantity() {
            Quantity::Bytes => "bytes",
            Quantity::Nanos => "ns",
            Quantity::Count | Quantity::LongCount | Quantity::Integer | Quantity::Real => "",
        }
    }

    pub(crate) fn quantity(self) -> Quantity {
        self.row().3
    }

    fn row(self) -> &'static (PatternParameter, &'static str, &'static str, Quantity) {
        TABLE.iter().find(|row| row.0 == self).expect("the table has every parameter")
    }

    /// Sets this parameter in a pattern. In a mix it is set in both parts, or in the part that can have it.
    ///
    /// # Errors
    /// What the pattern needs in order to have this parameter, for example "with a `mix`".
    pub(crate) fn set(self, pattern: &mut Pattern, number: f64) -> Result<(), &'static str> {
        match self {
            PatternParameter::Ratio => {
                pattern.mix.as_mut().ok_or("with a `mix`")?.ratio = number as u32;
            }
            PatternParameter::ParallelDegree => pattern.parallel_degree = number as u32,
            PatternParameter::QueueDepth => pattern.queue_depth = number as u32,
            PatternParameter::IoCount => pattern.io_count = Some(number as u64),
            PatternParameter::IoIgnore => pattern.io_ignore = number as u64,
            PatternParameter::Duration => pattern.duration = Some(Nanos(number as u64)),
            _ => {
                let first = self.set_basic(&mut pattern.first, number);
                let second = pattern.mix.as_mut().map(|mix| self.set_basic(&mut mix.second, number));
                return second.map_or(first, |second| first.or(second));
            }
        }
        Ok(())
    }

    /// Whether it belongs to a basic pattern, and not to a whole pattern.
    pub(crate) fn is_of_basic(self) -> bool {
        !matches!(
            self,
            PatternParameter::Ratio
                | PatternParameter::ParallelDegree
                | PatternParameter::QueueDepth
                | PatternParameter::IoCount
                | PatternParameter::IoIgnore
                | PatternParameter::Duration
        )
    }

    /// Sets a parameter of a basic pattern, as [`PatternParameter::set`].
    pub(crate) fn set_basic(self, basic: &mut Basic, number: f64) -> Result<(), &'static str> {
        match self {
            PatternParameter::IoSize => basic.io_size = IoSize::Fixed(Bytes(number as u64)),
            PatternParameter::SlotSize => basic.slot_size = Some(Bytes(number as u64)),
            PatternParameter::IoShift => basic.io_shift = Bytes(number as u64),
            PatternParameter::TargetOffset => basic.target_offset = Bytes(number as u64),
            PatternParameter::TargetSize => basic.target_size = Some(Bytes(number as u64)),
            PatternParameter::WriteProbability => basic.mode = ModeRule::WriteProbability(number),
            PatternParameter::Pause | PatternParameter::Burst | PatternParameter::Rate => {
                return self.set_time(basic, number);
            }
            _ => return self.set_location(basic, number),
        }
        Ok(())
    }

    fn set_time(self, basic: &mut Basic, number: f64) -> Result<(), &'static str> {
        let nanos = Nanos(number as u64);
        basic.time = match (self, basic.time) {
            (PatternParameter::Pause, Time::Consecutive | Time::Pause { .. }) => Time::Pause { pause: nanos },
            (PatternParameter::Pause, Time::Burst { burst, .. }) => Time::Burst { burst, pause: nanos },
            (PatternParameter::Pause, Time::Rate { .. }) => return Err("without `per_second`"),
            (PatternParameter::Burst, Time::Pause { pause } | Time::Burst { pause, .. }) => {
                Time::Burst { burst: number as u32, pause }
            }
            (PatternParameter::Burst, _) => return Err("with a `pause`"),
            (_, Time::Rate { arrival, .. }) => Time::Rate { per_second: number, arrival },
            (_, Time::Consecutive) => Time::Rate { per_second: number, arrival: Arrival::Fixed },
            _ => return Err("without `pause`"),
        };
        Ok(())
    }

    fn set_location(self, basic: &mut Basic, number: f64) -> Result<(), &'static str> {
        basic.location = match (self, basic.location) {
            (PatternParameter::Incr, Location::Sequential | Location::Ordered { .. }) => {
                Location::Ordered { incr: number as i64 }
            }
            (PatternParameter::Incr, _) => return Err("with a sequential or ordered location"),
            (PatternParameter::Partitions, Location::Sequential | Location::Partitioned { .. }) => {
                Location::Partitioned { partitions: number as u32 }
            }
            (PatternParameter::Partitions, _) => return Err("with a sequential or partitioned location"),
            (PatternParameter::Theta, Location::Zipf { .. }) => Location::Zipf { theta: number },
            (PatternParameter::Theta, _) => return Err("with location = \"zipf\""),
            (PatternParameter::HotIos, Location::HotCold { space, .. }) => {
                Location::HotCold { ios: number, space }
            }
            (PatternParameter::HotSpace, Location::HotCold { ios, .. }) => {
                Location::HotCold { ios, space: number }
            }
            _ => return Err("with location = \"hot_cold\""),
        };
        Ok(())
    }
}

impl fmt::Display for PatternParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for IoSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoSize::Fixed(size) => f.pad(&size.exact()),
            IoSize::Uniform { min, max } => write!(f, "{} to {}", min.exact(), max.exact()),
        }
    }
}
