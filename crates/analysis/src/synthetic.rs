//! Response times with known truth, for the tests of the estimators.

use flashlab_base::{Prng, Seed};

use crate::findings::{Baseline, Distribution, ExperimentFindings, MicroBenchmark, RunEnd, RunSummary};
use crate::phases::phases;
use crate::point::point;

/// A generator of response times.
pub(crate) struct Source {
    prng: Prng,
    state: f64,
}

impl Source {
    pub(crate) fn new(seed: u64) -> Source {
        Source { prng: Prng::new(Seed(seed)), state: f64::NAN }
    }

    pub(crate) fn unit(&mut self) -> f64 {
        self.prng.unit()
    }

    /// Standard normal (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        (2.0 * self.prng.exponential()).sqrt() * (std::f64::consts::TAU * self.prng.unit()).cos()
    }

    /// Log-normal with median 1.
    pub(crate) fn log_normal(&mut self, sigma: f64) -> f64 {
        (sigma * self.normal()).exp()
    }

    /// Pareto with least value 1.
    pub(crate) fn pareto(&mut self, alpha: f64) -> f64 {
        (self.prng.exponential() / alpha).exp()
    }

    /// The next of a stationary AR(1) process with mean 0, deviation 1 and correlation `rho`.
    pub(crate) fn autoregressive(&mut self, rho: f64) -> f64 {
        let innovation = self.normal();
        self.state = if self.state.is_nan() {
            innovation
        } else {
            rho * self.state + (1.0 - rho * rho).sqrt() * innovation
        };
        self.state
    }
}

/// `n` response times in nanoseconds from `response_us(position)`.
pub(crate) fn responses(n: usize, mut response_us: impl FnMut(usize) -> f64) -> Vec<u64> {
    (0..n).map(|i| (response_us(i) * 1000.0).round().max(0.0) as u64).collect()
}

/// A precise run with this mean response time.
pub(crate) fn run(mean_ns: f64) -> RunSummary {
    RunSummary {
        run: 1,
        repetition: 1,
        io_ignore: 0,
        io_end: None,
        response: Distribution { count: 1000, mean_ns, ..Distribution::default() },
        throughput_bytes_per_s: 32768.0 * 1e9 / mean_ns,
        ios_per_s: 1e9 / mean_ns,
        modes: Vec::new(),
        write_amplification: None,
        failed_ios: 0,
        precision: Some(0.001),
        ended: RunEnd::PrecisionReached,
        flags: Vec::new(),
    }
}

/// A micro-benchmark of one experiment: (value, mean response time in nanoseconds).
pub(crate) fn micro(parameter: &str, pattern: &str, points: &[(f64, f64)]) -> MicroBenchmark {
    let points = points.iter().map(|&(value, ns)| point(value, value.to_string(), vec![run(ns)])).collect();
    MicroBenchmark {
        name: parameter.to_lowercase(),
        parameter: parameter.to_owned(),
        unit: String::new(),
        experiments: vec![ExperimentFindings {
            pattern: pattern.to_owned(),
            regime: None,
            regime_evidence: String::new(),
            points,
        }],
    }
}

/// A baseline without phases.
pub(crate) fn baseline(pattern: &str, mean_ns: f64) -> Baseline {
    Baseline {
        pattern: pattern.to_owned(),
        phases: phases(&[]),
        io_ignore: 0,
        io_count_min: 1024,
        run: run(mean_ns),
    }
}

/// A row of `uflip_table3.csv` (uFLIP Table 3); `None` is an empty field.
pub(crate) struct Row {
    pub device: &'static str,
    pub ms: [f64; 4],
    pub pause_ms: Option<f64>,
    pub locality: (f64, Option<f64>),
    pub partitions: (u32, f64),
    pub reverse: f64,
    pub in_place: f64,
    pub large_incr: f64,
}

/// uFLIP Table 3, as in `uflip_table3.csv`.
pub(crate) fn table3() -> Vec<Row> {
    let row = |device, ms, pause_ms, locality, partitions, [reverse, in_place, large_incr]: [f64; 3]| Row {
        device,
        ms,
        pause_ms,
        locality,
        partitions,
        reverse,
        in_place,
        large_incr,
    };
    vec![
        row(
            "Memoright MR25.2-032S",
            [0.3, 0.4, 0.3, 5.0],
            Some(5.0),
            (8.0, Some(1.0)),
            (8, 1.0),
            [1.0, 1.0, 4.0],
        ),
        row(
            "Mtron SATA7035-016",
            [0.4, 0.5, 0.4, 9.0],
            Some(9.0),
            (8.0, Some(2.0)),
            (4, 1.5),
            [1.0, 1.0, 2.0],
        ),
        row(
            "Samsung MCBQE32G5MPP",
            [0.5, 0.5, 0.6, 18.0],
            None,
            (16.0, Some(1.5)),
            (4, 2.0),
            [1.5, 0.6, 2.0],
        ),
        row(
            "Transcend TS4GDOM40V-S",
            [1.2, 1.3, 1.7, 18.0],
            None,
            (4.0, Some(2.0)),
            (4, 2.0),
            [3.0, 2.0, 2.0],
        ),
        row(
            "Transcend TS32GSSD25S-M",
            [1.4, 3.0, 2.6, 233.0],
            None,
            (4.0, Some(1.0)),
            (4, 2.0),
            [2.0, 2.0, 1.0],
        ),
        row(
            "Kingston DT hyper X",
            [1.3, 1.5, 1.8, 270.0],
            None,
            (16.0, Some(20.0)),
            (8, 20.0),
            [7.0, 6.0, 1.0],
        ),
        row("Kingston DTI 4GB", [1.9, 2.2, 2.9, 256.0], None, (0.0, None), (4, 5.0), [8.0, 40.0, 1.0]),
    ]
}

/// Baselines and micro-benchmarks of a device that the row describes, each point off by `noise`.
pub(crate) fn measure(row: &Row, source: &mut Source, noise: f64) -> (Vec<Baseline>, Vec<MicroBenchmark>) {
    const IO: f64 = 32768.0;
    let [_, _, sw, rw] = row.ms.map(|ms| ms * 1e6);
    let baselines =
        ["SR", "RR", "SW", "RW"].iter().zip(row.ms).map(|(p, ms)| baseline(p, ms * 1e6)).collect();
    let mut off = |value: f64, ns: f64| (value, ns * source.log_normal(noise));
    let powers = |n: u32| (0..=n).map(|i| f64::from(1u32 << i));
    let (area_mb, locality_ratio) = row.locality;
    let locality: Vec<_> = powers(16)
        .map(|n| match (n * IO / (1 << 20) as f64, locality_ratio) {
            // A target of one IO is written in place.
            _ if n == 1.0 => off(n * IO, sw * row.in_place),
            (mb, Some(ratio)) if mb <= area_mb => off(n * IO, sw * ratio.powf(0.85 + 0.15 * mb / area_mb)),
            (mb, Some(_)) if mb <= 2.0 * area_mb => off(n * IO, rw * 0.6),
            _ => off(n * IO, rw),
        })
        .collect();
    let (partitions, partition_ratio) = row.partitions;
    let partitioning: Vec<_> = powers(8)
        .map(|n| match n {
            1.0 => off(n, sw),
            n if n <= f64::from(partitions) => off(n, sw * partition_ratio),
            n if n <= 2.0 * f64::from(partitions) => off(n, rw * 0.6),
            n => off(n, rw),
        })
        .collect();
    let order: Vec<_> = [-1.0, 0.0]
        .into_iter()
        .chain(powers(8))
        .map(|incr| match incr {
            -1.0 => off(incr, sw * row.reverse),
            0.0 => off(incr, sw * row.in_place),
            1.0 => off(incr, sw),
            incr if incr * IO >= (1 << 20) as f64 => off(incr, rw * row.large_incr),
            incr => off(incr, rw),
        })
        .collect();
    // A pause saves its own length of garbage collection.
    let pauses: Vec<_> = (0..=8)
        .map(|i| 0.1e6 * f64::from(1u32 << i))
        .chain(row.pause_ms.map(|ms| ms * 1e6))
        .map(|pause| off(pause, if row.pause_ms.is_some() { (rw - pause).max(sw) } else { rw }))
        .collect();
    let micros = vec![
        micro("TargetSize", "RW", &locality),
        micro("Partitions", "SW", &partitioning),
        micro("Incr", "SW", &order),
        micro("Pause", "RW", &pauses),
    ];
    (baselines, micros)
}
