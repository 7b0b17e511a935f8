//! The kernel's io.cost model (Documentation/admin-guide/cgroup-v2.rst, `io.cost.model` and `io.cost.qos`).
//!
//! The linear model of blk-iocost has bytes a second and, for 4 KiB requests, sequential and random requests a second, of reads
//! and of writes. The kernel computes T = A + n B of them: B = 1 / bps, A = 1 / iops - 4 KiB / bps, and takes an A below 0 for
//! 0. Here it is refused: the rate is then only the bandwidth, divided by the size.

use std::fmt;
use std::str::FromStr;

use flashlab_sim::profile::ThroughputClass;

use crate::ModelError;

/// The request of the rates.
const PAGE_BYTES: f64 = 4096.0;
/// The keys of a line, in the kernel's order.
const KEYS: [&str; 6] = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];

/// The parameters of the kernel's linear model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCostModel {
    /// Bytes read a second.
    pub rbps: u64,
    /// Sequential reads of 4 KiB a second.
    pub rseqiops: u64,
    /// Random reads of 4 KiB a second.
    pub rrandiops: u64,
    /// Bytes written a second.
    pub wbps: u64,
    /// Sequential writes of 4 KiB a second.
    pub wseqiops: u64,
    /// Random writes of 4 KiB a second.
    pub wrandiops: u64,
}

/// T = A + n B of one class, as the kernel computes it, but for an A below 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoCostLine {
    /// A in nanoseconds.
    pub a_ns: f64,
    /// B in nanoseconds for each byte.
    pub b_ns_per_byte: f64,
}

impl IoCostModel {
    /// A and B of a class.
    ///
    /// # Errors
    /// [`ModelError::DoesNotHold`] where A would be negative.
    pub fn line(&self, class: ThroughputClass) -> Result<IoCostLine, ModelError> {
        let (rate, bandwidth) = match class {
            ThroughputClass::SequentialRead => (self.rseqiops, self.rbps),
            ThroughputClass::RandomRead => (self.rrandiops, self.rbps),
            ThroughputClass::SequentialWrite => (self.wseqiops, self.wbps),
            ThroughputClass::RandomWrite => (self.wrandiops, self.wbps),
        };
        let b_ns_per_byte = 1e9 / bandwidth as f64;
        let a_ns = 1e9 / rate as f64 - PAGE_BYTES * b_ns_per_byte;
        // Also refuses rates of 0.
        if a_ns >= 0.0 && a_ns.is_finite() && b_ns_per_byte.is_finite() {
            return Ok(IoCostLine { a_ns, b_ns_per_byte });
        }
        Err(ModelError::DoesNotHold {
            model: "T = A + n B",
            reason: format!(
                "{rate} {}s of 4 KiB a second are more than the bandwidth of {bandwidth} bytes/s has room for: A would be {:.2} us",
                class.words(),
                a_ns / 1e3
            ),
        })
    }

    /// The model of four lines: sequential and random reads, sequential and random writes. The two of a direction share
    /// their B, as in the kernel.
    pub fn of_lines(lines: [IoCostLine; 4]) -> IoCostModel {
        let rate = |line: IoCostLine| (1e9 / (line.a_ns + PAGE_BYTES * line.b_ns_per_byte)).round() as u64;
        let bandwidth = |line: IoCostLine| (1e9 / line.b_ns_per_byte).round() as u64;
        let [sr, rr, sw, rw] = lines;
        IoCostModel {
            rbps: bandwidth(sr),
            rseqiops: rate(sr),
            rrandiops: rate(rr),
            wbps: bandwidth(sw),
            wseqiops: rate(sw),
            wrandiops: rate(rw),
        }
    }

    fn values(&self) -> [u64; 6] {
        [self.rbps, self.rseqiops, self.rrandiops, self.wbps, self.wseqiops, self.wrandiops]
    }

    /// The line for `/sys/fs/cgroup/io.cost.model`; `device` is its `MAJOR:MINOR`.
    pub fn kernel_line(&self, device: &str) -> String {
        format!("{device} ctrl=user model=linear {self}")
    }
}

/// `rbps=... rseqiops=...` and so on, as in the kernel's line and in systemd's hwdb.
impl fmt::Display for IoCostModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> =
            KEYS.iter().zip(self.values()).map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&pairs.join(" "))
    }
}

impl FromStr for IoCostModel {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<IoCostModel, ModelError> {
        let value = |key: &str| {
            let found = text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            let number = found.and_then(|value| value.parse::<u64>().ok());
            number.ok_or_else(|| ModelError::Input(format!("`{text}` has no whole number for {key}")))
        };
        let [rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops] = KEYS.map(value);
        Ok(IoCostModel {
            rbps: rbps?,
            rseqiops: rseqiops?,
            rrandiops: rrandiops?,
            wbps: wbps?,
            wseqiops: wseqiops?,
            wrandiops: wrandiops?,
        })
    }
}

/// The quality of service that blk-iocost keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoCostQos {
    /// The percentile of reads and of writes that is looked at, from 0 to 100.
    pub percentile: f64,
    /// The read latency in microseconds above which the device counts as saturated.
    pub read_latency_us: u64,
    /// The same of writes.
    pub write_latency_us: u64,
    /// The least and the most that the rate is scaled to, in per cent of the model's.
    pub scale: [f64; 2],
}

impl IoCostQos {
    /// The line for `/sys/fs/cgroup/io.cost.qos`.
    pub fn kernel_line(&self, device: &str) -> String {
        format!("{device} enable=1 ctrl=user {self}")
    }
}

impl fmt::Display for IoCostQos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IoCostQos { percentile, read_latency_us, write_latency_us, scale: [min, max] } = self;
        write!(
            f,
            "rpct={percentile:.2} rlat={read_latency_us} wpct={percentile:.2} wlat={write_latency_us} min={min:.2} max={max:.2}"
        )
    }
}
