//! The findings of a run: what was found, with which confidence, and what to doubt.
//!
//! This is the document `summary.json`, which `--json` prints. Field names carry their units. `null` means
//! "not measured" or "not known", never zero. Everything here can be computed again from the samples and the
//! manifest of the run.

use std::ops::Range;

use flashlab_base::{Bytes, Identity, Mode, Nanos, SavedState, Seed};
use serde::{Deserialize, Serialize};

/// The version of this document's format.
pub const FINDINGS_VERSION: u32 = 1;

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// [`FINDINGS_VERSION`].
    pub version: u32,
    /// The program's version.
    pub flashlab: String,
    /// When the run started, RFC 3339, UTC.
    pub started: String,
    /// What was measured.
    pub identity: Identity,
    /// The device's row of uFLIP's Table 3.
    pub characteristics: Characteristics,
    /// How it was measured.
    pub method: Method,
    /// Start-up and running phase of the baselines (uFLIP section 4.2).
    pub baselines: Vec<Baseline>,
    /// The lingering effect of random writes (uFLIP section 4.3).
    pub lingering: Option<Lingering>,
    /// What writes after an idle time see before what lasts; null if the run measured no baselines of writes.
    #[serde(default)]
    pub stages: Option<WriteStages>,
    /// The micro-benchmarks that were run (uFLIP section 3.2), in their order.
    pub micro_benchmarks: Vec<MicroBenchmark>,
    /// How far the measurement was disturbed.
    pub disturbance: Disturbance,
    /// uFLIP's seven design hints, decided for this device.
    pub hints: Vec<Hint>,
    /// What to doubt.
    pub warnings: Vec<Warning>,
}

/// The columns of uFLIP's Table 3, with the names of `uflip_table3.csv`. Times are those of 32 KiB IOs if the
/// baseline IOSize of the run is 32 KiB. A ratio of 1 stands for the paper's "=", and a locality of 0 MB for
/// its "No". If pauses were measured and `pause_rw_ms` is null, pauses have no effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Characteristics {
    /// Model, or the target's name.
    pub device: String,
    /// `block device`, `regular file`, `simulated`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Capacity of the target in units of 10^9 bytes.
    pub capacity_gb: Option<f64>,
    /// Mean response time of sequential reads.
    pub sr_ms: Option<f64>,
    /// Mean response time of random reads.
    pub rr_ms: Option<f64>,
    /// Mean response time of sequential writes.
    pub sw_ms: Option<f64>,
    /// Mean response time of random writes.
    pub rw_ms: Option<f64>,
    /// The pause from which random writes behave like sequential writes.
    pub pause_rw_ms: Option<f64>,
    /// The area within which random writes stay fast.
    pub locality_mb: Option<f64>,
    /// Their longest response time there, relative to sequential writes.
    pub locality_ratio: Option<f64>,
    /// The number of concurrent sequential-write partitions without a significant slowdown.
    pub partitions: Option<u32>,
    /// Their cost relative to one partition.
    pub partition_ratio: Option<f64>,
    /// The response time of writing in reverse (Incr = -1), relative to sequential writes.
    pub reverse_ratio: Option<f64>,
    /// The response time of writing in place (Incr = 0), relative to sequential writes.
    pub in_place_ratio: Option<f64>,
    /// The response time of writing with gaps of 1 to 8 MB, relative to random writes.
    pub large_incr_vs_rw: Option<f64>,
}

/// How the device was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// `quick` or `full`.
    pub thoroughness: String,
    /// The state at the start of the run: `random`, `sequential`, `none`, `steady`, `steady for this part only`,
    /// `random writes, not known to be steady`. ` (in part)` follows if there was too little time for it.
    pub state: String,
    /// Whether only a part of the device was used: of a part, of a file and of a partition no measurement can say
    /// what the whole device does when it is full, because the rest may be over-provisioning.
    #[serde(default)]
    pub is_part: bool,
    /// How the device was made steady, and whether it is steady; null for every other state.
    #[serde(default)]
    pub steady: Option<SteadyState>,
    /// The saved state in which a simulated device began; null unless the runs began in it.
    #[serde(default)]
    pub saved: Option<SavedState>,
    /// The seed of everything random.
    pub seed: Seed,
    /// The baseline IOSize.
    pub io_size: Bytes,
    /// The part of the device that was measured.
    pub target_size: Bytes,
    /// The pause between runs.
    pub pause: Nanos,
    /// How often each run was repeated.
    pub repetitions: u32,
    /// The precision goal of the runs: the half width of the confidence interval, relative to the mean.
    pub precision_goal: f64,
    /// The time that measuring and recording add to each IO, without the IO and two readings of the clock:
    /// the median of a calibration before the run.
    pub overhead_ns_per_io: Option<f64>,
    /// One reading of the clock, from the same calibration.
    pub clock_ns_per_reading: Option<f64>,
    /// The time of the whole measurement, by the device's clock.
    pub elapsed: Nanos,
    /// The bytes written in all, including state and scratch file.
    pub bytes_written: Bytes,
    /// These bytes as a share of the device's rated endurance, if the rating is known.
    pub endurance_share: Option<f64>,
}

/// One baseline pattern, run long (uFLIP section 4.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// `SR`, `RR`, `SW` or `RW`.
    pub pattern: String,
    /// Its start-up phase and period.
    pub phases: Phases,
    /// IOIgnore for runs with this pattern.
    pub io_ignore: u64,
    /// The least IOCount, after IOIgnore, for runs with this pattern.
    pub io_count_min: u64,
    /// The running phase.
    pub run: RunSummary,
}

/// The stages of long writes after an idle time, and how much of them an idle time brings back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WriteStages {
    /// Random and sequential writes of the baseline IOSize.
    pub patterns: Vec<PatternStages>,
    /// How much random writes get back after idle times, the shortest first. Empty if there are no stages.
    pub recovery: Vec<BufferRecovery>,
}

/// The stages of one baseline pattern of writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PatternStages {
    /// `RW` or `SW`.
    pub pattern: String,
    /// What comes before the sustained stage, in order; empty if a burst is as fast as what lasts.
    pub stages: Vec<WriteStage>,
    /// The bytes of these stages together.
    pub volatile_bytes: u64,
    /// Mean response time of the sustained stage; null if it is not known ([`PatternStages::is_withheld`]).
    pub sustained_ns_mean: Option<f64>,
    /// Throughput of the sustained stage; null if it is not known.
    pub sustained_bytes_per_s: Option<f64>,
    /// The sustained rate alternates with this cycle, by design (collection, folding); null if no cycle was found.
    #[serde(default)]
    pub cycle_bytes: Option<u64>,
    /// The bytes that show the regime: whole cycles, if there are cycles.
    pub window_bytes: u64,
    /// The standard deviation of the means of windows, relative to the mean; null if no window is long enough.
    pub window_scatter: Option<f64>,
    /// Whether the run was long enough to know the sustained stage.
    pub is_settled: bool,
    /// The probability that the answer (these stages, or none) is right.
    pub confidence: f64,
    /// One clause with the figures that decided.
    pub evidence: String,
    /// Bytes written, and the mean response time up to there from the point before.
    pub curve: Vec<(u64, f64)>,
}

/// A stage of writes: a write buffer or an SLC cache that takes them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteStage {
    /// The bytes written in it.
    pub bytes: u64,
    /// Its throughput.
    pub bytes_per_s: f64,
    /// Its mean response time.
    pub response_ns_mean: f64,
}

/// What an idle time brings back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BufferRecovery {
    /// The run after the idle time.
    pub run: u32,
    /// The idle time, after the stages were used up.
    pub idle: Nanos,
    /// The bytes that were then faster than the sustained stage; 0 if none were.
    pub bytes: u64,
    /// Their mean response time; null if there were none.
    pub response_ns_mean: Option<f64>,
    /// The bytes at their begin that have one rate, so that a burst within them has it, too: a write buffer in front of a cache is faster.
    #[serde(default)]
    pub burst_bytes: u64,
    /// The mean response time of most of these; null if there were none.
    #[serde(default)]
    pub burst_ns_mean: Option<f64>,
}

impl WriteStages {
    /// Of the pattern with this name.
    pub fn of(&self, pattern: &str) -> Option<&PatternStages> {
        self.patterns.iter().find(|found| found.pattern == pattern)
    }

    /// Whether the figures of this pattern are withheld.
    pub fn withholds(&self, pattern: &str) -> bool {
        self.of(pattern).is_some_and(PatternStages::is_withheld)
    }
}

impl PatternStages {
    /// Whether the rate of the writes changes, and what lasts is not known. Then no figure of this pattern is given: it would mix
    /// stages.
    pub fn is_withheld(&self) -> bool {
        self.sustained_ns_mean.is_none()
    }
}

/// Whether random writes made the device steady, and in how many rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// Whether the last rounds are equal, by the rule of SNIA's Performance Test Specification, with the
    /// confidence that the rule of `steady.rs` requires. False: it is not known to be steady.
    pub is_steady: bool,
    /// The probability that the drift over the last rounds is within the rule's limit; null if it is not
    /// known.
    pub confidence: Option<f64>,
    /// Bytes written randomly.
    pub written_bytes: u64,
    /// The same in capacities of the target.
    pub capacities: f64,
    /// One clause with the figures that decided.
    pub evidence: String,
    /// Each round, in order.
    pub rounds: Vec<SteadyRound>,
}

impl SteadyState {
    /// What it was saved as or measured in: `steady`, or `random writes, not known to be steady`.
    pub fn name(&self) -> &'static str {
        if self.is_steady { "steady" } else { "random writes, not known to be steady" }
    }
}

/// A round of random writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyRound {
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes written per second; null if the device was conditioned without times.
    pub throughput_bytes_per_s: Option<f64>,
    /// Mean response time; null as above.
    pub response_ns_mean: Option<f64>,
    /// Bytes that the flash programmed for each byte written; null if the device does not count them.
    pub write_amplification: Option<f64>,
    /// Bytes that the flash programmed; null as above.
    #[serde(default)]
    pub programmed_bytes: Option<u64>,
    /// The size of the flash blocks that were erased; null if the device does not count them.
    #[serde(default)]
    pub erased_bytes: Option<u64>,
}

/// The two-phase model of uFLIP section 4.2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Length of the start-up phase in IOs; 0 if there is none.
    pub startup_ios: u64,
    /// Mean response time in the start-up phase; null if there is none.
    pub startup_ns_mean: Option<f64>,
    /// Mean response time in the running phase.
    pub running_ns_mean: f64,
    /// Length of one oscillation of the running phase in IOs; null if none was found.
    pub period_ios: Option<u64>,
    /// The confidence of the start-up phase, from 0 to 1.
    pub startup_confidence: f64,
    /// As above, for the period.
    pub period_confidence: f64,
    /// One sentence with the figures that decided.
    pub evidence: String,
}

/// How long random writes linger (uFLIP section 4.3, Figure 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lingering {
    /// Sequential reads after the random writes that were slower than those before.
    pub affected_reads: u64,
    /// How long those took.
    pub affected: Nanos,
    /// Mean response time of the reads before.
    pub before_ns_mean: f64,
    /// Mean response time of the affected reads; null if none was affected.
    pub affected_ns_mean: Option<f64>,
    /// Whether reads were still affected when the experiment ended.
    pub still_affected_at_end: bool,
    /// The pause between runs, which over-estimates the effect.
    pub pause: Nanos,
    /// One sentence with the figures that decided.
    pub evidence: String,
}

/// One micro-benchmark: experiments that vary one parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MicroBenchmark {
    /// As `granularity`.
    pub name: String,
    /// The uFLIP name of the parameter that varies, for example `IOSize`.
    pub parameter: String,
    /// The unit of its values: `bytes`, `ns`, or `` for a count.
    pub unit: String,
    /// One for each pattern.
    pub experiments: Vec<ExperimentFindings>,
}

/// One pattern over the values of the parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentFindings {
    /// `SR`, `RR`, `SW`, `RW`, or for mixes `SR/RW`.
    pub pattern: String,
    /// The regime of its writes; null if the device has one regime, or nothing is written.
    #[serde(default)]
    pub regime: Option<Regime>,
    /// What a run of a plan as it is written shows of the regimes, in one clause; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub regime_evidence: String,
    /// In ascending order of the parameter.
    pub points: Vec<Point>,
}

/// In which regime writes were measured, on a device that buffers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Regime {
    /// A burst after an idle time, which fits into what the idle time brings back.
    Burst,
    /// What lasts.
    Sustained,
    /// The run does not show which of the two: it was too short, or its rate was still changing when it ended.
    Unknown,
}

impl Regime {
    /// What the name of an experiment ends with if it was measured in bursts.
    pub(crate) const BURST_ENDING: &str = ".burst";

    /// As in tables.
    pub fn name(self) -> &'static str {
        match self {
            Regime::Burst => "burst",
            Regime::Sustained => "sustained",
            Regime::Unknown => "unknown",
        }
    }

    /// The name of an experiment as expectations write it: `RW` is what lasts, `RW.burst` its bursts.
    pub fn experiment_name(regime: Option<Regime>, pattern: &str) -> String {
        let ending = if regime == Some(Regime::Burst) { Regime::BURST_ENDING } else { "" };
        format!("{pattern}{ending}")
    }
}

impl ExperimentFindings {
    /// `RW`, or `RW.burst`.
    pub fn name(&self) -> String {
        Regime::experiment_name(self.regime, &self.pattern)
    }
}

/// All repetitions of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The parameter, in the micro-benchmark's unit.
    pub value: f64,
    /// The value as a text, for example `32KiB`.
    pub label: String,
    /// Mean of the repetitions' mean response times.
    pub response_ns_mean: f64,
    /// (largest - smallest) / mean over the repetitions' means; null for one repetition.
    pub spread: Option<f64>,
    /// The half width of the 95 % interval of the mean, relative to it; null if neither the repetitions nor their runs have one.
    #[serde(default)]
    pub precision: Option<f64>,
    /// Each repetition.
    pub runs: Vec<RunSummary>,
}

/// One run, without its start-up phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run's number, as in the names of the samples' files.
    pub run: u32,
    /// From 1.
    pub repetition: u32,
    /// IOs left out at the start.
    pub io_ignore: u64,
    /// The position in each process from which on no IO counts, as after a burst; null if all count up to the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_end: Option<u64>,
    /// Response times of the others.
    pub response: Distribution,
    /// Bytes read and written per second, from the start of the first counted IO to the end of the last one.
    pub throughput_bytes_per_s: f64,
    /// IOs per second, over the same time.
    pub ios_per_s: f64,
    /// Reads and writes apart, as far as the run has them; reads first.
    #[serde(default)]
    pub modes: Vec<ModeFigures>,
    /// The bytes that the flash programmed for each byte that the host wrote; null if that is not known or
    /// nothing was written.
    #[serde(default)]
    pub write_amplification: Option<f64>,
    /// IOs that failed; they are in no other figure.
    pub failed_ios: u64,
    /// The half width of the 95 % confidence interval relative to the mean, valid for autocorrelated samples;
    /// null if there are too few IOs.
    pub precision: Option<f64>,
    /// Why the run ended.
    pub ended: RunEnd,
    /// The kinds of warnings about this run, for example `interference`; its figures are then in doubt.
    pub flags: Vec<String>,
}

/// The figures of a run's reads, or of its writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModeFigures {
    /// Of reads, or of writes.
    pub mode: Mode,
    /// Response times of the counted IOs.
    pub response: Distribution,
    /// Bytes per second, over the run's time.
    pub throughput_bytes_per_s: f64,
    /// IOs per second, over the run's time.
    pub ios_per_s: f64,
    /// Completed IOs in equal parts of the run, its start-up phase included.
    pub over_time: OverTime,
}

/// The IOs completed in each interval of a run, from its begin to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// How long an interval is.
    pub interval_ns: u64,
    /// IOs a second, of each interval.
    pub ios_per_s: Vec<f64>,
    /// Bytes a second, of each interval.
    pub bytes_per_s: Vec<f64>,
}

/// How far other programs or the machine disturbed the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// All runs, repetitions included.
    pub runs: u64,
    /// The disturbed runs, by their flags: other IO on the device, no CPU, heat, samples that were not
    /// written in time.
    pub disturbed_runs: u64,
    /// The spread of the median point; null if nothing was repeated.
    pub spread_median: Option<f64>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// The confidence interval became narrow enough.
    PrecisionReached,
    /// The time or the IOs of the run were used up.
    BudgetUsed,
    /// All IOs of a fixed IOCount were done.
    CountReached,
}

/// Statistics of response times in nanoseconds. Quantiles are within 0.1 % of the exact value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// The smallest.
    pub min_ns: u64,
    /// The largest.
    pub max_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The sample standard deviation.
    pub standard_deviation_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
}

/// One of uFLIP's seven design hints (section 5.3), decided for this device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// From 1 to 7.
    pub number: u32,
    /// The paper's hint.
    pub paper: String,
    /// Whether it holds here.
    pub verdict: HintVerdict,
    /// What to do with this device, in one sentence.
    pub advice: String,
    /// The figures that decided, in one sentence.
    pub evidence: String,
}

/// Whether a hint holds for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HintVerdict {
    /// It does.
    Holds,
    /// It does not.
    DoesNotHold,
    /// The run did not measure what decides the hint.
    NotSupportedByThisMeasurement,
}

/// Something that makes a figure doubtful.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// For programs, for example `spread`, `interference`, `processor_starved`, `thermal`, `buffered_io`.
    pub kind: String,
    /// The run that it concerns; null if it concerns all.
    pub run: Option<u32>,
    /// For users: what, where and what to do about it.
    pub message: String,
}

/// How much a warning weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The figures behind the verdict are in doubt.
    ChangesVerdict,
    /// Single points are in doubt or missing; the hints account for their uncertainty.
    SinglePoints,
}

impl RunSummary {
    /// The positions in each process of the IOs that its figures count.
    pub fn counted_positions(&self) -> Range<u64> {
        self.io_ignore..self.io_end.unwrap_or(u64::MAX)
    }
}

impl Findings {
    /// The regime of the pattern's baseline, which leaves its stages out; `None` if it has none.
    pub fn lasting_regime(&self, pattern: &str) -> Option<Regime> {
        let found = self.stages.as_ref()?.of(pattern)?;
        (!found.stages.is_empty()).then_some(Regime::Sustained)
    }

    /// The bytes up to which a quick run saw no faster stage of writes: a larger buffer would not show. `None` if it saw one, or is no quick run.
    pub fn stages_looked_for(&self) -> Option<Bytes> {
        let found = self.stages.as_ref().filter(|_| self.method.thoroughness == "quick")?;
        let has_one = |stages: &PatternStages| !stages.stages.is_empty() || stages.is_withheld();
        let written = |baseline: &Baseline| {
            self.method.io_size * (baseline.run.io_ignore + baseline.run.response.count)
        };
        let of_writes = self.baselines.iter().filter(|baseline| found.of(&baseline.pattern).is_some());
        let written = of_writes.map(written).max()?;
        (!found.patterns.iter().any(has_one)).then_some(written)
    }

    /// The warnings that may change a verdict.
    pub fn severe_warnings(&self) -> impl Iterator<Item = &Warning> {
        self.warnings.iter().filter(|warning| warning.severity() == Severity::ChangesVerdict)
    }
}

impl Warning {
    /// The severity of the warning. An unknown kind may change the verdict.
    pub fn severity(&self) -> Severity {
        match self.kind.as_str() {
            "spread" | "left_out" | "burst_left_out" | "torn_samples" => Severity::SinglePoints,
            _ => Severity::ChangesVerdict,
        }
    }
}

/// The points of the report's plots of single IOs; `traces.json` in the run's folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traces {
    /// One for each baseline and one for the lingering experiment.
    pub traces: Vec<ResponseTrace>,
}

/// Response times in the order of the IOs, thinned out for a plot: of each bucket of IOs, the fastest and the
/// slowest remain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseTrace {
    /// `SR`, `RR`, `SW`, `RW` or `lingering`.
    pub name: String,
    /// The IO's position in the pattern, ascending.
    pub position: Vec<u64>,
    /// Its response time.
    pub response_ns: Vec<u64>,
    /// Mean of all response times up to this one (the dashed line of Figure 3).
    pub running_mean_ns: Vec<f64>,
    /// The same without the start-up phase (the solid line); null within it.
    pub running_mean_without_startup_ns: Vec<Option<f64>>,
    /// Positions at which a phase begins, with its name, for example `(125, "running phase")`.
    pub marks: Vec<(u64, String)>,
}
