//! The legal range of each parameter of a pattern, on any device.
//!
//! Parsing a file and placing a pattern both use it, so a pattern made by a program follows the same rules as
//! one from a file.

use flashlab_base::{Bytes, Nanos};

use crate::parameter::EXACT_MAX;
use crate::{Basic, IoSize, Location, ModeRule, Pattern, PatternParameter, Time};

/// More processes than any host runs, and few enough not to exhaust its memory.
const PARALLEL_DEGREE_MAX: u32 = 1024;
/// More IOs in flight, over all processes, than any device serves at the same time. It is also the limit of
/// crate `host`.
const IN_FLIGHT_MAX: u32 = 4096;
/// Beyond this, nearly all IOs hit one slot.
const THETA_MAX: f64 = 10.0;
/// One IO a nanosecond: the clock's resolution.
const PER_SECOND_MAX: f64 = 1e9;
const BYTES_MAX: Bytes = Bytes(EXACT_MAX);
const NANOS_MAX: Nanos = Nanos(EXACT_MAX);
const BELOW_NANOS_MAX: &str = "below 2502h";

/// A parameter outside its legal range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Illegal {
    pub(crate) parameter: PatternParameter,
    /// Whether it belongs to the second part of a mix.
    pub(crate) of_second: bool,
    pub(crate) value: String,
    pub(crate) legal: String,
}

type Checked = Result<(), Illegal>;

fn require(
    holds: bool,
    parameter: PatternParameter,
    value: impl ToString,
    legal: impl Into<String>,
) -> Checked {
    if holds {
        return Ok(());
    }
    Err(Illegal { parameter, of_second: false, value: value.to_string(), legal: legal.into() })
}

/// Checks that each parameter of `pattern` is within its range, on any device.
pub(crate) fn check(pattern: &Pattern) -> Checked {
    check_basic(&pattern.first)?;
    if let Some(mix) = &pattern.mix {
        check_basic(&mix.second).map_err(|illegal| Illegal { of_second: true, ..illegal })?;
        require(mix.ratio >= 1, PatternParameter::Ratio, mix.ratio, "at least 1")?;
        check_open_loop(&pattern.first, &mix.second)?;
    }
    let degree = pattern.parallel_degree;
    let legal = format!("from 1 to {PARALLEL_DEGREE_MAX}");
    require((1..=PARALLEL_DEGREE_MAX).contains(&degree), PatternParameter::ParallelDegree, degree, legal)?;
    let (depth, most) = (pattern.queue_depth, IN_FLIGHT_MAX / degree);
    let legal = match degree {
        1 => format!("from 1 to {most}"),
        _ => format!("from 1 to {most}, as {degree} processes keep {IN_FLIGHT_MAX} IOs in flight at most"),
    };
    require((1..=most).contains(&depth), PatternParameter::QueueDepth, depth, legal)?;
    check_pauses(pattern)?;
    check_length(pattern)
}

/// A pause counts from the end of the previous IO. With several IOs in flight there is no such IO.
fn check_pauses(pattern: &Pattern) -> Checked {
    let pauses = pattern.basics().any(|basic| matches!(basic.time, Time::Pause { .. } | Time::Burst { .. }));
    let legal = "1 where there is a pause, which counts from the end of the previous IO (`per_second` spaces \
                 the IOs of a queue)";
    require(!pauses || pattern.queue_depth == 1, PatternParameter::QueueDepth, pattern.queue_depth, legal)
}

/// IOCount, IOIgnore and the time limit.
fn check_length(pattern: &Pattern) -> Checked {
    let ignore = pattern.io_ignore;
    require(ignore <= EXACT_MAX, PatternParameter::IoIgnore, ignore, "at most 2^53")?;
    if let Some(count) = pattern.io_count {
        let legal = "from 1 to 2^53";
        require((1..=EXACT_MAX).contains(&count), PatternParameter::IoCount, count, legal)?;
        let legal = format!("below io_count ({count}), or no IO is left to measure");
        require(ignore < count, PatternParameter::IoIgnore, ignore, legal)?;
    }
    let duration = pattern.duration.unwrap_or(NANOS_MAX);
    let legal = format!("longer than 0 and {BELOW_NANOS_MAX}");
    require(
        duration > Nanos::ZERO && duration <= NANOS_MAX,
        PatternParameter::Duration,
        duration.exact(),
        legal,
    )
}

fn check_basic(basic: &Basic) -> Checked {
    check_io_size(basic.io_size)?;
    check_location(basic.location)?;
    check_time(basic.time)?;
    if let ModeRule::WriteProbability(p) = basic.mode {
        require((0.0..=1.0).contains(&p), PatternParameter::WriteProbability, p, "from 0 to 1")?;
    }
    let largest = io_size_range(basic.io_size).1;
    if let Some(slot) = basic.slot_size {
        let legal = format!("from {}, the largest IOSize, to {}", largest.exact(), BYTES_MAX.exact());
        require((largest..=BYTES_MAX).contains(&slot), PatternParameter::SlotSize, slot.exact(), legal)?;
    }
    let bytes = [
        (PatternParameter::IoShift, basic.io_shift),
        (PatternParameter::TargetOffset, basic.target_offset),
        (PatternParameter::TargetSize, basic.target_size.unwrap_or_default()),
    ];
    for (parameter, value) in bytes {
        require(value <= BYTES_MAX, parameter, value.exact(), format!("at most {}", BYTES_MAX.exact()))?;
    }
    if let Some(size) = basic.target_size {
        let least = io_size_range(basic.io_size).0 + basic.io_shift;
        let legal = format!("at least {}, which is IOSize + IOShift", least.exact());
        require(size >= least, PatternParameter::TargetSize, size.exact(), legal)?;
    }
    Ok(())
}

/// The smallest and the largest size.
fn io_size_range(io_size: IoSize) -> (Bytes, Bytes) {
    match io_size {
        IoSize::Fixed(size) => (size, size),
        IoSize::Uniform { min, max } => (min, max),
    }
}

fn check_io_size(io_size: IoSize) -> Checked {
    let (min, max) = io_size_range(io_size);
    let in_order = min >= Bytes(1) && min <= max && max <= BYTES_MAX;
    let legal = match io_size {
        IoSize::Fixed(_) => format!("from 1B to {}", BYTES_MAX.exact()),
        IoSize::Uniform { .. } => format!("such that 1B <= min <= max <= {}", BYTES_MAX.exact()),
    };
    require(in_order, PatternParameter::IoSize, io_size, legal)
}

fn check_location(location: Location) -> Checked {
    let part = |value: f64| value > 0.0 && value < 1.0;
    match location {
        Location::Partitioned { partitions } => {
            require(partitions >= 1, PatternParameter::Partitions, partitions, "at least 1")
        }
        Location::Zipf { theta } => {
            let legal = format!("from 0 to {THETA_MAX}");
            require((0.0..=THETA_MAX).contains(&theta), PatternParameter::Theta, theta, legal)
        }
        Location::HotCold { ios, space } => {
            require(part(ios), PatternParameter::HotIos, ios, "above 0 and below 1")?;
            require(part(space), PatternParameter::HotSpace, space, "above 0 and below 1")
        }
        Location::Ordered { incr } => {
            let legal = "from -2^53 to 2^53";
            require(incr.unsigned_abs() <= EXACT_MAX, PatternParameter::Incr, incr, legal)
        }
        Location::Sequential | Location::Random | Location::Permutation => Ok(()),
    }
}

fn check_time(time: Time) -> Checked {
    match time {
        Time::Burst { burst, pause } => {
            require(burst >= 1, PatternParameter::Burst, burst, "at least 1")?;
            check_pause(pause)
        }
        Time::Pause { pause } => check_pause(pause),
        Time::Rate { per_second, .. } => {
            let legal = format!("above 0 and at most {PER_SECOND_MAX} IOs a second");
            require(
                per_second > 0.0 && per_second <= PER_SECOND_MAX,
                PatternParameter::Rate,
                per_second,
                legal,
            )
        }
        Time::Consecutive => Ok(()),
    }
}

fn check_pause(pause: Nanos) -> Checked {
    let legal = BELOW_NANOS_MAX;
    require(pause <= NANOS_MAX, PatternParameter::Pause, pause.exact(), legal)
}

/// In a mix each IO follows the previous one of either part, so one clock has to drive both.
fn check_open_loop(first: &Basic, second: &Basic) -> Checked {
    let rate = |basic: &Basic| match basic.time {
        Time::Rate { per_second, .. } => Some(per_second),
        _ => None,
    };
    let legal = "given for both parts of the mix, or for none";
    match (rate(first), rate(second)) {
        (Some(given), None) => require(false, PatternParameter::Rate, given, legal),
        (None, Some(given)) => require(false, PatternParameter::Rate, given, legal)
            .map_err(|illegal| Illegal { of_second: true, ..illegal }),
        _ => Ok(()),
    }
}
