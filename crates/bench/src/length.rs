//! Decides how long a run is: its IOIgnore, IOCount and time, and the area for its sequential writes.
//!
//! # Model
//! A run ignores its start-up phase. It ends when its mean is precise or its time is used up. Two bounds
//! apply to every device:
//! - A run writes at most a part of the target, because benchmarking must not wear the device out.
//! - The area of a run is at most a part of the target, because sequential writes must not use up the target.
//!
//! If the least number of measured IOs needs more, it wins over both bounds. The start-up phase does not.

use flashlab_analysis::findings::Regime;
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::{Basic, ExperimentValue, Location, Pattern, Plan, Space, Time};

use crate::area::writes_sequentially;
use crate::estimate::DeviceKnowledge;
use crate::regimes::Regimes;
use crate::settings::{IO_SIZE, Lengths, Settings, Thoroughness};
use crate::shares::{bytes_written_each, weighted, widest};
use crate::step::Step;

/// How many IOs of a mix's second pattern a run measures at least.
const SECOND_LEAST: u64 = 8;

/// A run that writes in order writes at most this part of the target (1/N), or twice what it ignores: then the random state is another one.
const TURNED_DIVISOR: u64 = 4;
/// A run that settles has room for this number of windows: with fewer it would never be known to have settled.
const WINDOWS_LEAST: u64 = 2;

/// The time that a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// For the whole run, unless its start-up phase and the least number of IOs need more.
    pub run: Nanos,
    /// For its start-up phase.
    pub startup: Nanos,
}

/// A run before its time is decided.
#[derive(Clone)]
pub(crate) struct Run {
    plan: String,
    experiment: String,
    value: ExperimentValue,
    /// The regime of its writes; `None` if the device has one regime.
    pub regime: Option<Regime>,
    /// The pattern of the run. Its IOIgnore is the device's start-up phase.
    pub pattern: Pattern,
    io_count_min: u64,
    /// The IOs that it measures at least ...
    least: u64,
    /// ... and at most, both of each process, IOIgnore included.
    most: u64,
    /// The IOs of a window over which it has to settle; `None` if it does not have to.
    window_ios: Option<u64>,
    /// Estimated time of one IO of a process, its pause included.
    per_io_ns: f64,
    /// The time and the bytes of the lead-in before it, usually.
    lead_in: (Nanos, Bytes),
    lengths: Lengths,
    space: Space,
}

impl Run {
    pub fn new(
        plan: &Plan,
        experiment: &str,
        value: ExperimentValue,
        mut pattern: Pattern,
        settings: &Settings,
        known: &DeviceKnowledge<'_>,
    ) -> Run {
        let lengths = settings.lengths();
        let counts = |basic: &Basic| {
            let each = known.baselines(basic).map(|baseline| (baseline.io_ignore, baseline.io_count_min));
            each.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))).unwrap_or((0, lengths.run_ios))
        };
        let second = pattern.mix.as_ref().map_or((0, 0), |mix| counts(&mix.second));
        let (io_ignore, mut io_count_min) = pattern.scaled_for_mix(counts(&pattern.first), second);
        if let Time::Burst { burst, .. } = pattern.first.time {
            io_count_min = io_count_min.max(3 * u64::from(burst));
        }
        // The start-up phase belongs to the device, and all processes go through it together.
        pattern.io_ignore = io_ignore.div_ceil(u64::from(pattern.parallel_degree));
        let least = least_ios(&pattern, lengths);
        let most = most_ios(&pattern, lengths, known.space).max(least);
        let per_io_ns = known.per_io_ns(&pattern);
        let (plan, experiment, space) = (plan.name.clone(), experiment.to_owned(), known.space);
        Run {
            plan,
            experiment,
            value,
            regime: None,
            pattern,
            io_count_min,
            least,
            most,
            window_ios: None,
            per_io_ns,
            lead_in: (Nanos::ZERO, Bytes::ZERO),
            lengths,
            space,
        }
    }

    /// The run in the sustained regime: it ignores what the lead-in left in the buffer, and measures whole windows. `None` if its IOs
    /// are too small to fill the buffer within the bound of a run.
    pub fn sustained(self, regimes: &Regimes) -> Option<Run> {
        let ignored = regimes.ignored_ios(&self.pattern, self.per_io_ns);
        let run = self.settling(ignored, regimes)?;
        Some(Run { regime: Some(Regime::Sustained), ..run })
    }

    /// The run, which ignores at least this number of IOs and goes on until it has settled in its own pattern. `None` if the bound of a
    /// run leaves too few IOs.
    pub fn settling(mut self, ignored: u64, regimes: &Regimes) -> Option<Run> {
        self.most = settling_ios(&self.pattern, self.lengths, self.space).max(self.most);
        if ignored + self.least > self.most {
            return None;
        }
        let mut stretches = self.lengths.stretches;
        if turns_over(&self.pattern) {
            let share = bounded_ios(&self.pattern, u64::MAX, TURNED_DIVISOR, self.space);
            self.most = self.most.min(share.max(2 * ignored)).max(ignored + self.least);
            stretches = stretches.min(1);
        }
        let measured = regimes.measured_ios(&self.pattern).max(stretches * ignored);
        self.pattern.io_ignore = self.pattern.io_ignore.max(ignored);
        self.least = measured.min(self.most.saturating_sub(ignored)).max(self.least);
        self.io_count_min = self.io_count_min.max(self.least);
        // Of small writes a run may not have many windows.
        let window = regimes.window_ios(&self.pattern).min((self.most - ignored) / WINDOWS_LEAST);
        self.window_ios = Some(window.max(1));
        self.lead_in = regimes.lead_in();
        Some(self)
    }

    /// The run as a burst of at most `ios` IOs of each process, after a pause.
    pub fn burst(mut self, ios: u64) -> Run {
        self.pattern.io_ignore = 0;
        self.most = self.most.min(ios);
        self.least = self.least.min(self.most);
        self.io_count_min = self.io_count_min.min(self.most);
        self.regime = Some(Regime::Burst);
        self
    }

    /// The most bytes of the area that it needs in any regime; `None` for a run without sequential writes.
    pub fn area_bound(&self) -> Option<Bytes> {
        let divisor = self.lengths.written_divisor.min(self.lengths.settling_divisor);
        let share = Bytes(self.space.capacity.0 / divisor);
        let own = area(&self.pattern, self.most, self.least, self.lengths.area_divisor, self.space)?;
        Some(own.max(share).min(self.space.capacity))
    }

    /// What its start-up phase takes.
    pub fn startup(&self) -> Nanos {
        Nanos((self.pattern.io_ignore as f64 * self.per_io_ns).ceil() as u64)
    }

    /// What it writes at most, on any device: once, and once more until it has settled in its own pattern.
    pub fn most_written(&self) -> [Bytes; 2] {
        let settling = settling_ios(&self.pattern, self.lengths, self.space).max(self.most);
        [self.most, settling].map(|ios| {
            let ios = ios.saturating_mul(u64::from(self.pattern.parallel_degree));
            Bytes((bytes_written_each(&self.pattern) * ios as f64).ceil() as u64)
        })
    }

    /// The run, with this much time.
    pub fn step(&self, allowance: Allowance, thoroughness: Thoroughness) -> Step {
        let mut pattern = self.pattern.clone();
        let affordable = (allowance.startup.0 as f64 / self.per_io_ns).ceil() as u64;
        pattern.io_ignore = pattern.io_ignore.min(affordable).min(self.most - self.least);
        let least = pattern.io_ignore + self.least;
        let wanted = match thoroughness {
            Thoroughness::Quick => least as f64 * self.per_io_ns,
            Thoroughness::Full => 1.5 * (pattern.io_ignore + self.io_count_min) as f64 * self.per_io_ns,
        };
        let time_limit = allowance.run.max(Nanos(wanted as u64));
        let ios = ((time_limit.0 as f64 / self.per_io_ns) as u64).clamp(least, self.most);
        let area = match self.window_ios {
            // It never wraps around: what it wrote in order is no longer in the state.
            Some(_) => area(&pattern, self.most, least, self.lengths.settling_divisor, self.space),
            None => area(&pattern, ios, self.least, self.lengths.area_divisor, self.space),
        };
        let covered = area.filter(|_| !stays(&pattern) && self.window_ios.is_none());
        let io_count = match covered.map(|area| ios_of_area(&pattern, area)) {
            Some(covering) if covering >= ios => covering,
            // Ignored IOs may wrap around in the area.
            Some(covering) => pattern.io_ignore + covering.max(self.least),
            None => self.most,
        };
        let io_count = io_count.min(self.most);
        pattern.io_count = Some(io_count);
        let written = bytes_written_each(&pattern) * ios.min(io_count) as f64;
        Step {
            plan: self.plan.clone(),
            experiment: self.experiment.clone(),
            value: self.value.clone(),
            repetition: 1,
            regime: self.regime,
            window_ios: self.window_ios,
            io_count_min: self.io_count_min,
            io_count_least: self.least,
            io_ignore_wanted: self.pattern.io_ignore,
            time_limit: Some(time_limit),
            time: time_limit.saturating_add(self.lead_in.0),
            written: Bytes((written * f64::from(pattern.parallel_degree)) as u64) + self.lead_in.1,
            area,
            pattern,
        }
    }
}

/// What a process measures at least, whatever the budget is.
fn least_ios(pattern: &Pattern, lengths: Lengths) -> u64 {
    let least =
        if pattern.first.time == Time::Consecutive { lengths.run_ios.max(32) } else { lengths.run_ios };
    pattern.scaled_for_mix((0, least), (0, SECOND_LEAST)).1
}

/// How many IOs a process does at most.
fn most_ios(pattern: &Pattern, lengths: Lengths, space: Space) -> u64 {
    bounded_ios(pattern, lengths.run_ios_most, lengths.written_divisor, space)
}

/// How many IOs a process does at most in a run that has to settle. Its bytes are bounded as those of the baselines, too.
fn settling_ios(pattern: &Pattern, lengths: Lengths, space: Space) -> u64 {
    let written = bytes_written_each(pattern) * f64::from(pattern.parallel_degree);
    let in_bytes = (IO_SIZE * lengths.baseline_ios_most).0 as f64 / written;
    bounded_ios(pattern, lengths.settling_ios_most, lengths.settling_divisor, space).min(in_bytes as u64)
}

/// How many IOs a process does at most, if a run writes at most `1 / divisor` of the target.
fn bounded_ios(pattern: &Pattern, most: u64, divisor: u64, space: Space) -> u64 {
    let degree = f64::from(pattern.parallel_degree);
    let capacity = space.capacity.0 as f64;
    let written = bytes_written_each(pattern) * degree;
    let wears = capacity / divisor as f64 / written;
    // A pattern that writes nothing divides by zero, which leaves only the first limit.
    (most as f64).min(wears) as u64
}

/// The share of the pattern's IOs that are sequential writes.
fn writer_share(pattern: &Pattern) -> f64 {
    weighted(pattern, |basic| f64::from(u8::from(writes_sequentially(basic))))
}

/// Whether it writes in order over the target, so that it replaces the random state.
fn turns_over(pattern: &Pattern) -> bool {
    pattern.basics().any(writes_sequentially) && !stays(pattern)
}

/// Whether its sequential writes return to the same offsets on purpose.
fn stays(pattern: &Pattern) -> bool {
    pattern.basics().any(|basic| {
        writes_sequentially(basic)
            && (basic.target_size.is_some() || basic.location == Location::Ordered { incr: 0 })
    })
}

/// The area for `ios` IOs of each process, of which at least `least` are measured: at most `1 / divisor` of the target, unless the least
/// needs more. `None` for a pattern without sequential writes.
fn area(pattern: &Pattern, ios: u64, least: u64, divisor: u64, space: Space) -> Option<Bytes> {
    let writer = pattern.basics().find(|basic| writes_sequentially(basic))?;
    if let Some(own) = writer.target_size {
        return Some((own + writer.io_shift).min(space.capacity));
    }
    let slots_of = |ios: u64| (ios as f64 * writer_share(pattern)).ceil() as u64;
    let lines = match writer.location {
        Location::Partitioned { partitions } => u64::from(partitions),
        _ => 1,
    };
    let slot = widest(pattern) * u64::from(pattern.parallel_degree);
    let most = space.capacity.0 / divisor / slot.0.max(1);
    let slots = match writer.location {
        Location::Ordered { incr: 0 } => 2,
        _ => slots_of(ios).min(most).max(slots_of(least)).max(2 * lines),
    };
    // With an IOShift each process has one slot less.
    let slots = slots + u64::from(writer.io_shift > Bytes::ZERO);
    Some(Bytes(slot.0.saturating_mul(slots)).min(space.capacity))
}

/// How many IOs each process does until its sequential writes have covered the area.
fn ios_of_area(pattern: &Pattern, area: Bytes) -> u64 {
    let part = Bytes(area.0 / u64::from(pattern.parallel_degree));
    let writer = pattern.basics().find(|basic| writes_sequentially(basic));
    let shift = writer.map_or(Bytes::ZERO, |basic| basic.io_shift);
    let slots = part.0.saturating_sub(shift.0) / widest(pattern).0.max(1);
    (slots as f64 / writer_share(pattern)) as u64
}
