//! What a person chooses for a bench run.

use flashlab_analysis::findings::Lingering;
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_plan::Choice;
use serde::{Deserialize, Serialize};

/// The most that `--repetitions` takes.
pub(crate) const MOST_REPETITIONS: u32 = 100;

/// The baseline IOSize (uFLIP section 5.2: "The remaining experiments were run with IO sizes of
/// 32KB").
pub(crate) const IO_SIZE: Bytes = Bytes::kib(32);

/// The baselines, in the order in which they are run: what disturbs the state most comes last.
pub(crate) const BASELINES: [&str; 4] = ["SR", "RR", "RW", "SW"];

/// How much time a bench run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thoroughness {
    /// Thinned values, short runs: minutes.
    Quick,
    /// Table 1's values, runs as long as the device's phases need: an hour or more.
    Full,
}

impl std::fmt::Display for Thoroughness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Thoroughness::Quick => "quick",
            Thoroughness::Full => "full",
        })
    }
}

/// Random writes for the steady state at the most, in capacities; twice as many as SNIA's test allows before it gives up
/// (25 rounds of a minute) would write on a fast drive. Told before the run starts.
pub const CAPACITIES_MOST: u32 = 10;
/// Rounds of random writes in a capacity: five of them, the window of the rule, span more than a capacity.
pub const ROUNDS_PER_CAPACITY: u64 = 4;

/// The state that the device is brought to before it is measured (uFLIP section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Random IOs of random size, from 0.5 KB to 128 KB, over the whole target.
    Random,
    /// The whole target, written once from end to end.
    Sequential,
    /// Written from end to end, then randomly until it is steady ([`flashlab_analysis::steady_state`]).
    Steady,
    /// As it is.
    None,
}

impl State {
    /// The shipped plan that enforces it.
    pub(crate) fn plan(self) -> Option<&'static str> {
        match self {
            State::Random => Some("random-state"),
            // What brings a steady device back to its state.
            State::Steady => Some("random-state"),
            State::Sequential => Some("sequential-state"),
            State::None => None,
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Random => "random",
            State::Sequential => "sequential",
            State::Steady => "steady",
            State::None => "none",
        })
    }
}

/// What a person chooses. Recorded in the manifest, so that a run can be resumed as it was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is measured, as it was named: a path, `sim:NAME`, or [`Settings::SCRATCH`].
    pub target: String,
    /// Quick or full.
    pub thoroughness: Thoroughness,
    /// Whether the runs have the methodology around them: lingering effect, baselines, areas, the
    /// choice of IOCount. Without it, plans are run as they are written.
    pub methodology: bool,
    /// The state to start from.
    pub state: State,
    /// Where everything random comes from.
    pub seed: Seed,
    /// The part of the device that is used, from its start.
    pub target_size: Bytes,
    /// How often each run is repeated.
    pub repetitions: u32,
    /// Runs may end when the 95 % confidence interval's half width falls below this part of the mean.
    pub precision_goal: f64,
    /// How long the micro-benchmarks may take in all; `None` for as long as they need.
    pub budget: Option<Nanos>,
}

impl Settings {
    /// The target that is a scratch file of flashlab's own.
    pub const SCRATCH: &'static str = "scratch";

    /// All nine micro-benchmarks in three repetitions, as the paper has it.
    /// The target is still to be named.
    pub fn new(thoroughness: Thoroughness) -> Settings {
        Settings {
            target: String::new(),
            thoroughness,
            methodology: true,
            state: State::Random,
            seed: Seed(1),
            target_size: Bytes::ZERO,
            repetitions: 3,
            precision_goal: 0.05,
            budget: match thoroughness {
                Thoroughness::Quick => Some(Nanos::from_secs(105)),
                Thoroughness::Full => None,
            },
        }
    }

    /// The pause between runs: what the lingering experiment asks for, within the bounds of the
    /// thoroughness. The paper's second without any lingering effect would be most of a quick run.
    pub(crate) fn pause(&self, lingering: Option<&Lingering>) -> Nanos {
        let [least, most] = self.lengths().pause;
        match lingering {
            Some(found) if found.affected_reads > 0 => found.pause.clamp(least, most),
            _ => least,
        }
    }

    /// Which of the experiments' values are run.
    pub(crate) fn choice(&self) -> Choice {
        match self.thoroughness {
            Thoroughness::Quick => Choice::Quick,
            Thoroughness::Full => Choice::Full,
        }
    }

    pub(crate) fn lengths(&self) -> Lengths {
        match self.thoroughness {
            Thoroughness::Quick => Lengths::QUICK,
            Thoroughness::Full => Lengths::FULL,
        }
    }
}

/// How long the parts of a bench run are. IOs first, because phases are counted in IOs; times bound
/// them on slow devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// The pause after the state at the least. It comes before the lingering experiment, which must not
    /// take reads that the state slows down for the device's usual ones: uFLIP's devices need 2.5 s.
    pub settle: Nanos,
    /// The longest that enforcing the state may take.
    pub state: Option<Nanos>,
    /// The longest that the steady state may take; its bytes are bounded by [`CAPACITIES_MOST`].
    pub steady: Option<Nanos>,
    /// A baseline has at least so many IOs ...
    pub baseline_ios: u64,
    /// ... and goes on for so long ...
    pub baseline: Nanos,
    /// ... but ends after so long all the same, ...
    pub baseline_longest: Nanos,
    /// ... or after so many IOs, as do the lingering experiment's writes.
    pub baseline_ios_most: u64,
    /// The sequential reads before, the random writes, and the sequential reads after, of the
    /// lingering experiment.
    pub lingering: [Nanos; 3],
    /// The shortest and the longest of a micro-benchmark's runs where the budget decides.
    pub run: [Nanos; 2],
    /// The smallest IOCount with which a run may end early.
    pub io_count_min: u64,
    /// What a run measures at the least, beyond its IOIgnore, whatever the budget says.
    pub run_ios: u64,
    /// What each process of a run does at the most, IOIgnore included.
    pub run_ios_most: u64,
    /// The pause between runs is at least and at most this.
    pub pause: [Nanos; 2],
    /// A run writes at most this part of the target, or the least that it measures.
    pub written_divisor: u64,
    /// A run with sequential writes has at most this part of the target for them, or what the least that
    /// it measures needs.
    pub area_divisor: u64,
}

impl Lengths {
    const QUICK: Lengths = Lengths {
        settle: Nanos::from_secs(3),
        state: Some(Nanos::from_secs(20)),
        steady: Some(Nanos::from_secs(600)),
        baseline_ios: 2048,
        baseline: Nanos::from_millis(1200),
        baseline_longest: Nanos::from_secs(10),
        baseline_ios_most: 32_768,
        lingering: [Nanos::from_millis(400), Nanos::from_millis(800), Nanos::from_millis(2000)],
        run: [Nanos::from_millis(10), Nanos::from_millis(500)],
        io_count_min: 256,
        run_ios: 24,
        run_ios_most: 16_384,
        pause: [Nanos::from_millis(20), Nanos::from_secs(5)],
        written_divisor: 16,
        area_divisor: 64,
    };
    const FULL: Lengths = Lengths {
        settle: Nanos::from_secs(10),
        state: None,
        steady: None,
        baseline_ios: 16_384,
        baseline: Nanos::from_secs(20),
        baseline_longest: Nanos::from_secs(300),
        baseline_ios_most: 524_288,
        lingering: [Nanos::from_secs(2), Nanos::from_secs(5), Nanos::from_secs(10)],
        run: [Nanos::from_secs(2), Nanos::from_secs(2)],
        io_count_min: 1024,
        run_ios: 512,
        run_ios_most: 131_072,
        pause: [Nanos::from_secs(1), Nanos::from_secs(60)],
        written_divisor: 8,
        area_divisor: 64,
    };
}
