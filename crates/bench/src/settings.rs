//! The settings of a bench run, which the user chooses.

use flashlab_analysis::findings::Lingering;
use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_plan::Choice;
use serde::{Deserialize, Serialize};

/// The most that `--repetitions` takes.
pub(crate) const MOST_REPETITIONS: u32 = 100;

/// The baseline IOSize (uFLIP section 5.2: "The remaining experiments were run with IO sizes of
/// 32KB").
pub(crate) const IO_SIZE: Bytes = Bytes::kib(32);

/// The baselines in the order of their runs: the one that disturbs the state most comes last.
pub(crate) const BASELINES: [&str; 4] = ["SR", "RR", "RW", "SW"];

/// How much time a bench run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thoroughness {
    /// Thinned values, short runs: minutes.
    Quick,
    /// Table 1's values, and runs as long as the device's phases require: an hour or more.
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

/// The most random writes for the steady state, in capacities. SNIA's test gives up after 25 rounds of a
/// minute, which on a fast drive is about half of that. It is announced before the run starts.
pub const CAPACITIES_MOST: u32 = 10;
/// Rounds of random writes per capacity. Five of them, the window of the rule, span more than one capacity.
pub const ROUNDS_PER_CAPACITY: u64 = 4;

/// The state of the device before it is measured (uFLIP section 4.1).
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
            // Brings a steady device back to its state.
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

/// The user's choices. They are in the manifest, so that a run can be resumed with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The target, as the user named it: a path, `sim:NAME`, or [`Settings::SCRATCH`].
    pub target: String,
    /// Quick or full.
    pub thoroughness: Thoroughness,
    /// Whether the runs follow the methodology: lingering effect, baselines, areas, the choice of IOCount.
    /// Otherwise plans are run as they are written.
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
    /// The time of all micro-benchmarks together; `None` for no limit.
    pub budget: Option<Nanos>,
    /// Whether each run begins in the state, and not with what the runs before it left. Only a device that can return to a
    /// state does so ([`flashlab_device::Conditioning::recall`]); on others nothing happens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub state_for_each_run: bool,
    /// Whether runs leave out the start-up phase and nothing else, as in uFLIP: writes then have one regime, whatever the device buffers.
    /// Reproductions of the paper measure so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_regime: bool,
}

impl Settings {
    /// The target that is a scratch file of flashlab.
    pub const SCRATCH: &'static str = "scratch";

    /// All nine micro-benchmarks with three repetitions, as in the paper. The caller still has to set the
    /// target.
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
            state_for_each_run: false,
            one_regime: false,
        }
    }

    /// The pause between runs: the result of the lingering experiment, within the bounds of the thoroughness.
    /// The paper's pause of one second without a lingering effect would take most of a quick run.
    pub(crate) fn pause(&self, lingering: Option<&Lingering>) -> Nanos {
        let [least, most] = self.lengths().pause;
        match lingering {
            Some(found) if found.affected_reads > 0 => found.pause.clamp(least, most),
            _ => least,
        }
    }

    /// Which values of the experiments are run.
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

/// The lengths of the parts of a bench run. IOs come first, because phases are counted in IOs. Times bound
/// them on slow devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// The shortest pause after the state. It comes before the lingering experiment, which must not take
    /// reads that the state slows down for normal ones. uFLIP's devices need 2.5 s.
    pub settle: Nanos,
    /// The longest time for enforcing the state.
    pub state: Option<Nanos>,
    /// The longest time for the steady state; [`CAPACITIES_MOST`] bounds its bytes.
    pub steady: Option<Nanos>,
    /// A baseline has at least this number of IOs ...
    pub baseline_ios: u64,
    /// ... and lasts at least this time ...
    pub baseline: Nanos,
    /// ... but it ends after this time ...
    pub baseline_longest: Nanos,
    /// ... or after this number of IOs, as do the writes of the lingering experiment.
    pub baseline_ios_most: u64,
    /// The times of the lingering experiment: sequential reads, random writes, sequential reads.
    pub lingering: [Nanos; 3],
    /// The idle times after which the stages of writes are looked for, next to the pause between runs.
    pub recovery: &'static [Nanos],
    /// Longer ones, each tried if the one before brought back more than the shorter ones did.
    pub recovery_longer: &'static [Nanos],
    /// How often each of them is tried. What comes back depends on where in its cycle collection was: on a random drive with an SLC cache, 95 MiB came back
    /// after 10 s and the next time 22 MiB. If a third of the tries brings back less, four of them show it with 80 % confidence.
    pub recovery_tries: usize,
    /// The shortest and the longest run of a micro-benchmark, if the budget decides.
    pub run: [Nanos; 2],
    /// The smallest IOCount with which a run may end early.
    pub io_count_min: u64,
    /// The IOs that a run measures at least, after its IOIgnore, whatever the budget is.
    pub run_ios: u64,
    /// The IOs that each process of a run does at most, IOIgnore included ...
    pub run_ios_most: u64,
    /// ... and if it has to settle in its own pattern: small writes fill a buffer late.
    pub settling_ios_most: u64,
    /// The shortest and the longest pause between runs.
    pub pause: [Nanos; 2],
    /// A run writes at most this fraction of the target (1/N), unless its least number of IOs needs more.
    pub written_divisor: u64,
    /// ... and a run that has to settle in its own pattern at most this fraction.
    pub settling_divisor: u64,
    /// A sustained run measures at least this many times what it ignores, as far as its bound allows. A pattern that changes the state goes on with
    /// the old rate while caches turn over. As for a stage, four stretches of its length have to follow.
    pub stretches: u64,
    /// The area of a run with sequential writes is at most this fraction of the target (1/N), unless its
    /// least number of IOs needs more.
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
        recovery: &[Nanos::from_millis(100), Nanos::from_secs(1)],
        recovery_longer: &[],
        recovery_tries: 1,
        run: [Nanos::from_millis(10), Nanos::from_millis(500)],
        io_count_min: 256,
        run_ios: 24,
        run_ios_most: 16_384,
        settling_ios_most: 16_384,
        pause: [Nanos::from_millis(20), Nanos::from_secs(5)],
        written_divisor: 16,
        settling_divisor: 16,
        stretches: 0,
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
        recovery: &[Nanos::from_millis(100), Nanos::from_secs(1), Nanos::from_secs(10)],
        recovery_longer: &[Nanos::from_secs(20), Nanos::from_secs(40), Nanos::from_secs(60)],
        recovery_tries: 4,
        run: [Nanos::from_secs(2), Nanos::from_secs(2)],
        io_count_min: 1024,
        run_ios: 512,
        run_ios_most: 131_072,
        settling_ios_most: 524_288,
        pause: [Nanos::from_secs(1), Nanos::from_secs(60)],
        written_divisor: 8,
        settling_divisor: 2,
        stretches: 4,
        area_divisor: 64,
    };
}
