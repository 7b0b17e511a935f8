//! A synthetic flash device, only for tests of the presentation.
//!
//! # Model
//! An IO takes a latency plus a time for its bytes. Sequential writes cause a merge every 128 IOs. Random
//! writes are fast for the first 125 IOs, while the device has free log blocks. Then every third write causes
//! a merge (the shapes of uFLIP's Figures 3 and 4). They stay fast within 8 MiB, and after a long enough
//! pause.

use std::collections::BTreeMap;

use flashlab_analysis::findings::{
    Baseline, Characteristics, Distribution, Disturbance, ExperimentFindings, FINDINGS_VERSION, Findings,
    Hint, HintVerdict, Lingering, Method, MicroBenchmark, ModeFigures, OverTime, Phases, Point,
    ResponseTrace, RunEnd, RunSummary, Traces, Warning,
};
use flashlab_base::{Bytes, Identity, Mode, Nanos, Prng, Seed};

const STARTUP: u64 = 125;
const PERIOD: u64 = 128;
const IO_SIZE: u64 = 32 * 1024;
const MERGE_NS: f64 = 26.6e6;
const BASELINES: [&str; 4] = ["SR", "RR", "SW", "RW"];
const REPETITIONS: u32 = 3;

/// The device, and its run.
pub struct Synthetic {
    prng: Prng,
    run: u32,
    /// 1 for the device itself, 2 for one that is twice as slow.
    slowness: f64,
    /// The response times of each run, by the number of the run.
    pub responses: BTreeMap<u32, Vec<u64>>,
}

impl Synthetic {
    pub fn new(seed: Seed, slowness: f64) -> Synthetic {
        Synthetic { prng: Prng::new(seed), run: 0, slowness, responses: BTreeMap::new() }
    }

    /// Multiplicative noise with a median of one and `sigma` on the logarithmic scale.
    fn noise(&mut self, sigma: f64) -> f64 {
        // A sum of twelve uniform variables is close enough to a normal one for a picture.
        let normal: f64 = (0..12).map(|_| self.prng.unit()).sum::<f64>() - 6.0;
        (sigma * normal).exp()
    }

    /// The time of one IO without merges, in ns.
    fn plain(&self, pattern: &str, size: f64) -> f64 {
        let (latency, bytes_per_ns) = match pattern {
            "SR" => (70e3, 0.110),
            "RR" => (115e3, 0.108),
            "SW" => (75e3, 0.092),
            _ => (90e3, 0.092),
        };
        self.slowness * (latency + size / bytes_per_ns)
    }

    /// The response times of a run of a baseline pattern on an idle device.
    fn responses(&mut self, pattern: &str, count: u64) -> Vec<u64> {
        (0..count)
            .map(|position| {
                let merge = match pattern {
                    "SW" if position % PERIOD == PERIOD - 1 => 4.0e6,
                    "RW" if position >= STARTUP && position % 3 == 0 => MERGE_NS,
                    _ => 0.0,
                };
                let cost = self.plain(pattern, IO_SIZE as f64) + self.slowness * merge;
                (cost * self.noise(0.06)) as u64
            })
            .collect()
    }

    /// A run whose response times scatter around `mean` because of merges.
    fn run_around(&mut self, mean: f64, size: f64, repetition: u32) -> RunSummary {
        let level = mean * self.noise(0.015);
        let responses: Vec<u64> = (0..120)
            .map(|position| {
                let shape = if position % 4 == 3 { 1.9 } else { 0.7 };
                (level * shape * self.noise(0.1)) as u64
            })
            .collect();
        self.summary(&responses, 0, size, repetition)
    }

    fn summary(&mut self, responses: &[u64], io_ignore: u64, size: f64, repetition: u32) -> RunSummary {
        self.run += 1;
        let counted = &responses[io_ignore as usize..];
        self.responses.insert(self.run, counted.to_vec());
        let response = distribution(counted);
        RunSummary {
            run: self.run,
            repetition,
            io_ignore,
            io_end: None,
            throughput_bytes_per_s: size * 1e9 / response.mean_ns,
            ios_per_s: 1e9 / response.mean_ns,
            modes: vec![ModeFigures {
                mode: Mode::Write,
                response: response.clone(),
                throughput_bytes_per_s: size * 1e9 / response.mean_ns,
                ios_per_s: 1e9 / response.mean_ns,
                over_time: OverTime {
                    interval_ns: 1_000_000,
                    ios_per_s: vec![1e9 / response.mean_ns; 20],
                    bytes_per_s: vec![size * 1e9 / response.mean_ns; 20],
                },
            }],
            write_amplification: Some(1.5),
            failed_ios: 0,
            precision: Some(
                1.96 * response.standard_deviation_ns / response.mean_ns / (response.count as f64).sqrt(),
            ),
            ended: if self.run.is_multiple_of(5) { RunEnd::BudgetUsed } else { RunEnd::PrecisionReached },
            flags: if repetition == 2 { vec!["interference".to_owned()] } else { Vec::new() },
            response,
        }
    }

    fn point(&mut self, value: f64, label: String, mean: f64, size: f64) -> Point {
        let runs: Vec<RunSummary> = (1..=REPETITIONS).map(|rep| self.run_around(mean, size, rep)).collect();
        let means = || runs.iter().map(|run| run.response.mean_ns);
        let average = means().sum::<f64>() / runs.len() as f64;
        let spread = (means().fold(0.0, f64::max) - means().fold(f64::MAX, f64::min)) / average;
        Point { value, label, response_ns_mean: average, spread: Some(spread), precision: None, runs }
    }

    /// The average time of an IO of a pattern in the long run.
    fn sustained(&self, pattern: &str, size: f64) -> f64 {
        let merges = match pattern {
            "SW" => 4.0e6 / PERIOD as f64,
            "RW" => MERGE_NS / 3.0 * (size / IO_SIZE as f64).max(0.25),
            _ => 0.0,
        };
        self.plain(pattern, size) + self.slowness * merges
    }

    /// One micro-benchmark; `cost` gives the mean response time of a pattern at a value.
    fn micro(
        &mut self,
        (name, parameter, unit): (&str, &str, &str),
        patterns: &[&str],
        values: &[f64],
        cost: impl Fn(&Synthetic, &str, f64) -> f64,
    ) -> MicroBenchmark {
        let experiments = patterns
            .iter()
            .map(|&pattern| {
                let points = values
                    .iter()
                    .map(|&value| {
                        let size = if parameter == "IOSize" { value } else { IO_SIZE as f64 };
                        self.point(value, label(value, unit), cost(self, pattern, value), size)
                    })
                    .collect();
                ExperimentFindings {
                    pattern: pattern.to_owned(),
                    regime: None,
                    regime_evidence: String::new(),
                    points,
                }
            })
            .collect();
        MicroBenchmark {
            name: name.to_owned(),
            parameter: parameter.to_owned(),
            unit: unit.to_owned(),
            experiments,
        }
    }

    /// The nine micro-benchmarks over Table 1's ranges.
    fn micro_benchmarks(&mut self) -> Vec<MicroBenchmark> {
        let base = |pattern: &'static str| move |d: &Synthetic| d.sustained(pattern, IO_SIZE as f64);
        let (sr, rr, sw, rw) = (base("SR"), base("RR"), base("SW"), base("RW"));
        let of = move |d: &Synthetic, pattern: &str| match pattern {
            "SR" => sr(d),
            "RR" => rr(d),
            "SW" => sw(d),
            _ => rw(d),
        };
        let mib = (1u64 << 20) as f64;
        let io = IO_SIZE as f64;
        let shifts: Vec<f64> = std::iter::once(0.0).chain(doublings(7, 512.0)).collect();
        let increments: Vec<f64> = [-1.0, 0.0].into_iter().chain(doublings(9, 1.0)).collect();
        let mut sizes: Vec<f64> = doublings(10, 512.0);
        sizes.extend([24.0 * 1024.0, 48.0 * 1024.0]);
        sizes.sort_by(f64::total_cmp);
        vec![
            self.micro(("granularity", "IOSize", "bytes"), &BASELINES, &sizes, |d, p, v| d.sustained(p, v)),
            self.micro(("alignment", "IOShift", "bytes"), &BASELINES, &shifts, move |d, p, v| {
                let beside = v % 16384.0 != 0.0;
                of(d, p) * if beside && p.ends_with('W') { 1.8 } else { 1.0 }
            }),
            self.micro(
                ("locality", "TargetSize", "bytes"),
                &["RR", "RW"],
                &doublings(17, io),
                move |d, p, v| {
                    let escape = 1.0 / (1.0 + (12.0 * mib / v).powi(2));
                    if p == "RW" { sw(d) * 1.3 + (rw(d) - sw(d)) * escape } else { of(d, p) }
                },
            ),
            self.micro(
                ("partitioning", "Partitions", ""),
                &["SR", "SW"],
                &doublings(9, 1.0),
                move |d, p, v| {
                    let beyond = if p == "SW" { (v / 6.0).powi(3) / (1.0 + (v / 6.0).powi(3)) } else { 0.0 };
                    of(d, p) + (rw(d) - sw(d)) * beyond
                },
            ),
            self.micro(("order", "Incr", ""), &["SR", "SW"], &increments, move |d, p, v| {
                let jump = if p == "SW" && v > 1.0 { rw(d) * (v / 32.0).min(2.0) } else { 0.0 };
                of(d, p) * if v == 0.0 { 0.8 } else { 1.0 } + jump
            }),
            self.micro(
                ("parallelism", "ParallelDegree", ""),
                &BASELINES,
                &doublings(5, 1.0),
                move |d, p, v| of(d, p) * v,
            ),
            self.micro(
                ("mix", "Ratio", ""),
                &["SR/RR", "SR/RW", "SR/SW", "RR/SW", "RR/RW", "SW/RW"],
                &doublings(7, 1.0),
                move |d, p, v| (v * of(d, &p[..2]) + of(d, &p[3..])) / (v + 1.0),
            ),
            self.micro(("pause", "Pause", "ns"), &BASELINES, &doublings(9, 1e5), move |d, p, v| {
                if p == "RW" { (rw(d) - v).max(sw(d)) } else { of(d, p) }
            }),
            self.micro(("bursts", "Burst", ""), &BASELINES, &doublings(7, 10.0), move |d, p, v| {
                if p == "RW" { sw(d) + (rw(d) - sw(d)) * (1.0 - 30.0 / v).max(0.0) } else { of(d, p) }
            }),
        ]
    }

    fn baseline(&mut self, pattern: &str) -> (Baseline, ResponseTrace) {
        let responses = self.responses(pattern, 4000);
        let startup = if pattern == "RW" { STARTUP } else { 0 };
        let period = match pattern {
            "SW" => Some(PERIOD),
            "RW" => Some(3),
            _ => None,
        };
        let run = self.summary(&responses, startup, IO_SIZE as f64, 1);
        let phases = Phases {
            startup_ios: startup,
            startup_ns_mean: (startup > 0).then(|| distribution(&responses[..startup as usize]).mean_ns),
            running_ns_mean: run.response.mean_ns,
            period_ios: period,
            startup_confidence: 0.99,
            period_confidence: 0.98,
            evidence: match startup {
                0 => "No start-up phase: the first IOs cost what the later ones do.".to_owned(),
                _ => format!("The level changes after {startup} IOs, by a factor of 20."),
            },
        };
        let trace = trace(pattern, &responses, startup as usize);
        let baseline =
            Baseline { pattern: pattern.to_owned(), phases, io_ignore: startup, io_count_min: 1024, run };
        (baseline, trace)
    }

    /// Reads, random writes, and reads of which the first 3000 are slow (uFLIP Figure 5).
    fn lingering(&mut self) -> (Lingering, ResponseTrace) {
        let mut responses = self.responses("SR", 600);
        responses.extend(self.responses("RW", 800));
        let after: Vec<u64> = (0..2600)
            .map(|position| {
                let slow = if position < 1500 && position % 4 == 0 { 4.0 } else { 1.0 };
                (self.plain("SR", IO_SIZE as f64) * slow * self.noise(0.06)) as u64
            })
            .collect();
        let affected = distribution(&after[..1500]).mean_ns;
        let before = distribution(&responses[..600]).mean_ns;
        responses.extend(after);
        let mut trace = trace("lingering", &responses, 0);
        trace.marks = [
            (0, "sequential reads"),
            (600, "random writes"),
            (1400, "sequential reads"),
            (2900, "no longer affected"),
        ]
        .map(|(position, name)| (position, name.to_owned()))
        .to_vec();
        let found = Lingering {
            affected_reads: 1500,
            affected: Nanos((1500.0 * affected) as u64),
            before_ns_mean: before,
            affected_ns_mean: Some(affected),
            still_affected_at_end: false,
            pause: Nanos::from_secs(2),
            evidence: "1500 reads after the random writes were slower, for 0.98 s; runs keep a pause of 2 s."
                .to_owned(),
        };
        (found, trace)
    }

    /// The whole run.
    pub fn findings(&mut self, seed: Seed) -> (Findings, Traces) {
        let (baselines, mut traces): (Vec<Baseline>, Vec<ResponseTrace>) =
            BASELINES.iter().map(|pattern| self.baseline(pattern)).unzip();
        let (lingering, lingering_trace) = self.lingering();
        traces.push(lingering_trace);
        let micro_benchmarks = self.micro_benchmarks();
        let mean_ms = |index: usize| Some(baselines[index].run.response.mean_ns / 1e6);
        let findings = Findings {
            version: FINDINGS_VERSION,
            flashlab: "0.1.0".to_owned(),
            started: "2025-11-21T04:08:30Z".to_owned(),
            identity: identity(),
            characteristics: Characteristics {
                device: "Synthetic SSD 64".to_owned(),
                kind: Some("block device".to_owned()),
                capacity_gb: Some(64.0),
                sr_ms: mean_ms(0),
                rr_ms: mean_ms(1),
                sw_ms: mean_ms(2),
                rw_ms: mean_ms(3),
                pause_rw_ms: Some(12.8),
                locality_mb: Some(8.0),
                locality_ratio: Some(2.1),
                partitions: Some(4),
                partition_ratio: Some(1.5),
                reverse_ratio: Some(1.02),
                in_place_ratio: Some(0.8),
                large_incr_vs_rw: Some(2.0),
            },
            method: method(seed),
            lingering: Some(lingering),
            stages: None,
            disturbance: Disturbance::of(&baselines, &micro_benchmarks),
            baselines,
            micro_benchmarks,
            hints: hints(),
            warnings: vec![
                Warning {
                    kind: "spread".to_owned(),
                    run: Some(17),
                    message: "granularity RW at 24KiB: the three repetitions differ by 7.1 %; repeat it on an idle machine.".to_owned(),
                },
                Warning {
                    kind: "processor_starved".to_owned(),
                    run: None,
                    message: "The measuring thread waited 41 ms for a CPU; small response times are doubtful.".to_owned(),
                },
            ],
        };
        (findings, Traces { traces })
    }
}

/// A run on the device, and its traces.
pub fn findings(seed: Seed) -> (Findings, Traces) {
    Synthetic::new(seed, 1.0).findings(seed)
}

fn doublings(count: u32, first: f64) -> Vec<f64> {
    (0..count).map(|step| first * f64::from(1u32 << step)).collect()
}

fn label(value: f64, unit: &str) -> String {
    match unit {
        "bytes" => Bytes(value as u64).exact(),
        "ns" => Nanos(value as u64).exact(),
        _ => value.to_string(),
    }
}

fn distribution(responses: &[u64]) -> Distribution {
    let mut sorted = responses.to_vec();
    sorted.sort_unstable();
    let count = sorted.len();
    let mean = sorted.iter().sum::<u64>() as f64 / count as f64;
    let squares: f64 = sorted.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum();
    let quantile = |part: f64| sorted[((count - 1) as f64 * part).round() as usize];
    Distribution {
        count: count as u64,
        min_ns: sorted[0],
        max_ns: sorted[count - 1],
        mean_ns: mean,
        standard_deviation_ns: (squares / (count as f64 - 1.0)).sqrt(),
        p50_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        p999_ns: quantile(0.999),
    }
}

fn trace(name: &str, responses: &[u64], startup: usize) -> ResponseTrace {
    let mut running = 0.0;
    let mut without = 0.0;
    let (mut means, mut means_without) = (Vec::new(), Vec::new());
    for (index, &ns) in responses.iter().enumerate() {
        running += ns as f64;
        means.push(running / (index + 1) as f64);
        means_without.push((index >= startup).then(|| {
            without += ns as f64;
            without / (index + 1 - startup) as f64
        }));
    }
    let marks = match startup {
        0 => vec![(0, "running phase".to_owned())],
        _ => vec![(0, "start-up phase".to_owned()), (startup as u64, "running phase".to_owned())],
    };
    ResponseTrace {
        name: name.to_owned(),
        position: (0..responses.len() as u64).collect(),
        response_ns: responses.to_vec(),
        running_mean_ns: means,
        running_mean_without_startup_ns: means_without,
        marks,
    }
}

fn identity() -> Identity {
    Identity {
        target: "/dev/synthetic".to_owned(),
        kind: "block device".to_owned(),
        model: Some("Synthetic SSD 64".to_owned()),
        transport: Some("sata".to_owned()),
        capacity: Bytes(64_000_000_000),
        logical_block: Some(Bytes(512)),
        physical_block: Some(Bytes::kib(4)),
        rotational: Some(false),
        engine: Some("synchronous O_DIRECT".to_owned()),
        health: Some(BTreeMap::from([("percentage used".to_owned(), "3 %".to_owned())])),
        ..Identity::default()
    }
}

fn method(seed: Seed) -> Method {
    Method {
        is_part: false,
        thoroughness: "full".to_owned(),
        state: "random".to_owned(),
        steady: None,
        saved: None,
        seed,
        io_size: Bytes(IO_SIZE),
        target_size: Bytes::gib(32),
        pause: Nanos::from_secs(2),
        repetitions: REPETITIONS,
        precision_goal: 0.05,
        overhead_ns_per_io: Some(38.0),
        clock_ns_per_reading: Some(54.0),
        elapsed: Nanos::from_secs(5400),
        bytes_written: Bytes::gib(96),
        endurance_share: Some(0.0004),
    }
}

fn hints() -> Vec<Hint> {
    use HintVerdict::{DoesNotHold, Holds, NotSupportedByThisMeasurement};
    let rows = [
        (
            "Flash devices do incur latency.",
            Holds,
            "Use IOs of at least 64 KiB wherever you can: the latency is a quarter of a 32 KiB read.",
            "A read costs 75 us and 9.1 ns for each KiB.",
        ),
        (
            "Block size should (currently) be 32KB.",
            DoesNotHold,
            "Use blocks of 64 KiB on this device.",
            "64 KiB reach 90 % of the largest throughput, 32 KiB 79 %.",
        ),
        (
            "Blocks should be aligned to flash pages.",
            Holds,
            "Align blocks to 16 KiB.",
            "Writes beside a 16 KiB boundary cost 1.8 times as much.",
        ),
        (
            "Random writes should be limited to a focused area.",
            Holds,
            "Keep random writes within 8 MB.",
            "Within 8 MB a random write costs at most 2.1 times a sequential one, beyond it up to 21 times.",
        ),
        (
            "Sequential writes should be limited to a few partitions.",
            Holds,
            "Write to at most 4 partitions at once.",
            "4 partitions cost 1.5 times one, 8 cost 14 times.",
        ),
        (
            "Combining a limited number of patterns is acceptable.",
            Holds,
            "Mix patterns freely: a mix costs the weighted mean of its parts.",
            "The six mixes are within 4 % of that mean.",
        ),
        (
            "Neither concurrent nor delayed IOs improve the performance.",
            NotSupportedByThisMeasurement,
            "Measure parallelism to decide this.",
            "The repetitions differ by more than the effect.",
        ),
    ];
    rows.into_iter()
        .zip(1..)
        .map(|((paper, verdict, advice, evidence), number)| Hint {
            number,
            paper: paper.to_owned(),
            verdict,
            advice: advice.to_owned(),
            evidence: evidence.to_owned(),
        })
        .collect()
}
