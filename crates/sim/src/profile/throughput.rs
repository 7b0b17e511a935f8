//! The sections of a profile that is a throughput model alone.

use flashlab_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::illegal::{Illegal, check_duration, check_idle_time};

/// The throughput model of El Maghraoui et al. section 4: T(n) = A + n B for each of four classes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Reads that start where the read before them ended.
    pub sequential_read: ThroughputLine,
    /// Other reads.
    pub random_read: ThroughputLine,
    /// Writes that start where the write before them ended.
    pub sequential_write: ThroughputLine,
    /// Other writes.
    pub random_write: ThroughputLine,
}

impl Throughput {
    /// The line of a class.
    pub fn line(&self, class: ThroughputClass) -> &ThroughputLine {
        match class {
            ThroughputClass::SequentialRead => &self.sequential_read,
            ThroughputClass::RandomRead => &self.random_read,
            ThroughputClass::SequentialWrite => &self.sequential_write,
            ThroughputClass::RandomWrite => &self.random_write,
        }
    }

    /// How many times as long a response time is as that of a sequential write of this size.
    pub fn slowness(&self, size: Bytes, response: Nanos) -> f64 {
        response.0 as f64 / self.sequential_write.time_ns(size).max(1.0)
    }
}

/// One class's line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThroughputLine {
    /// A: the fixed time of an IO.
    pub a: Nanos,
    /// B: microseconds for each KiB.
    pub b_us_per_kb: f64,
}

impl ThroughputLine {
    /// T(n), in nanoseconds.
    pub fn time_ns(&self, size: Bytes) -> f64 {
        self.a.0 as f64 + self.b_us_per_kb * 1e3 * (size.0 as f64 / 1024.0)
    }
}

/// One of the four classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThroughputClass {
    /// See [`Throughput::sequential_read`].
    SequentialRead,
    /// See [`Throughput::random_read`].
    RandomRead,
    /// See [`Throughput::sequential_write`].
    SequentialWrite,
    /// See [`Throughput::random_write`].
    RandomWrite,
}

impl ThroughputClass {
    /// The class of an IO.
    pub fn of(is_write: bool, is_sequential: bool) -> ThroughputClass {
        match (is_write, is_sequential) {
            (true, true) => ThroughputClass::SequentialWrite,
            (true, false) => ThroughputClass::RandomWrite,
            (false, true) => ThroughputClass::SequentialRead,
            (false, false) => ThroughputClass::RandomRead,
        }
    }

    /// All four, in the order of the paper's Table 1.
    pub const ALL: [ThroughputClass; 4] = [
        ThroughputClass::SequentialRead,
        ThroughputClass::RandomRead,
        ThroughputClass::SequentialWrite,
        ThroughputClass::RandomWrite,
    ];

    /// In words, as `sequential read`.
    pub fn words(self) -> &'static str {
        match self {
            ThroughputClass::SequentialRead => "sequential read",
            ThroughputClass::RandomRead => "random read",
            ThroughputClass::SequentialWrite => "sequential write",
            ThroughputClass::RandomWrite => "random write",
        }
    }

    /// As `sr`, the key of documents.
    pub fn short_name(self) -> &'static str {
        match self {
            ThroughputClass::SequentialRead => "sr",
            ThroughputClass::RandomRead => "rr",
            ThroughputClass::SequentialWrite => "sw",
            ThroughputClass::RandomWrite => "rw",
        }
    }

    /// The class of this short name.
    pub fn named(short_name: &str) -> Option<ThroughputClass> {
        ThroughputClass::ALL.into_iter().find(|class| class.short_name() == short_name)
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(self, ThroughputClass::SequentialWrite | ThroughputClass::RandomWrite)
    }
}

/// The start-up phase: after idle time, some random writes take less time (uFLIP section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Startup {
    /// The number of random writes in the start-up phase after an idle time of `idle`.
    pub ios: u64,
    /// The time of a random write in the start-up phase, relative to the model's.
    pub factor: f64,
    /// The time without random writes that restores the whole start-up phase.
    pub idle: Nanos,
}

/// Every `period`-th IO of a class takes a large share of the period's time. The mean is the model's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oscillation {
    /// The class that oscillates.
    pub class: ThroughputClass,
    /// The length of one oscillation in IOs of that class, at least 2.
    pub period: u64,
    /// The share of a period's time that its last IO takes, between 1/period and 1.
    pub peak_share: f64,
}

/// Random writes defer work that slows down later reads (uFLIP section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LingeringReads {
    /// The time that each random write adds to the time for which reads are slow.
    pub per_write: Nanos,
    /// The longest time for which reads are slow after the last random write.
    pub longest: Nanos,
    /// The time of a slow read, relative to the model's.
    pub read_factor: f64,
}

impl Throughput {
    pub(super) fn check(&self) -> Result<(), Illegal> {
        for (class, line) in [
            ("sequential_read", self.sequential_read),
            ("random_read", self.random_read),
            ("sequential_write", self.sequential_write),
            ("random_write", self.random_write),
        ] {
            if !(0.0..=1e6).contains(&line.b_us_per_kb) {
                return Err(Illegal::number(
                    format!("throughput.{class}.b_us_per_kb"),
                    line.b_us_per_kb,
                    "0 to 1000000",
                ));
            }
            if line.a > Nanos::from_secs(1000) {
                return Err(Illegal::new(format!("throughput.{class}.a"), line.a, "0 to 1000s"));
            }
        }
        Ok(())
    }
}

impl Startup {
    pub(super) fn check(&self) -> Result<(), Illegal> {
        if !(0.0..=1000.0).contains(&self.factor) {
            return Err(Illegal::number("startup.factor", self.factor, "0 to 1000"));
        }
        if self.ios > 1 << 32 {
            return Err(Illegal::new("startup.ios", self.ios, "0 to 4294967296"));
        }
        check_idle_time("startup.idle", self.idle)
    }
}

impl Oscillation {
    pub(super) fn check(&self) -> Result<(), Illegal> {
        if !(2..=1 << 32).contains(&self.period) {
            return Err(Illegal::new("oscillation.period", self.period, "2 to 4294967296"));
        }
        if !(1.0 / self.period as f64..=1.0).contains(&self.peak_share) {
            return Err(Illegal::number("oscillation.peak_share", self.peak_share, "1/period to 1"));
        }
        Ok(())
    }
}

impl LingeringReads {
    pub(super) fn check(&self) -> Result<(), Illegal> {
        if !(0.0..=1000.0).contains(&self.read_factor) {
            return Err(Illegal::number("lingering.read_factor", self.read_factor, "0 to 1000"));
        }
        check_duration("lingering.per_write", self.per_write)?;
        check_idle_time("lingering.longest", self.longest)
    }
}
