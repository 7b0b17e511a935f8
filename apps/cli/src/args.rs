//! The command line's grammar.

// The comments here are help texts, in which [ ] is what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use flashlab_base::{Bytes, Nanos, ProfileName, Seed};

/// A laboratory for flash storage: measure a device, with a methodology that makes the figures mean
/// something.
#[derive(Parser)]
#[command(name = "flashlab", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    /// Characterise a device with uFLIP; without TARGET, the disk under the current directory
    Bench(Bench),
    /// Run a plan of your own
    Run(Run),
    /// Show the plans that come with flashlab, or check one of yours
    Plan(PlanVerb),
    /// Find out the hidden parameters of a device, each with evidence and confidence
    Infer(Infer),
    /// List the block devices, and what flashlab would refuse to write to, and why
    Devices(Devices),
    /// The simulated devices
    Sim(SimVerb),
    /// A simulated device as a live disk
    Serve(Serve),
    /// A table or figure of a paper beside what flashlab gets on the zoo's devices
    Reproduce(Reproduce),
    /// Rebuild the report of a run, or compare runs
    Report(Report),
    /// Clear up behind a server: started by `serve` itself
    #[command(hide = true)]
    Caretaker,
    /// Measure the transport latency of a live disk: started by `serve` itself
    #[command(hide = true)]
    MeasureTransportLatency { path: PathBuf },
}

/// What is measured, and by what right.
#[derive(Args)]
pub struct Target {
    /// A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]
    #[arg(group = "existing")]
    pub target: Option<String>,
    /// Where the scratch file goes when there is no TARGET; the current directory if not given
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    pub directory: Option<PathBuf>,
    /// Size of the scratch file (1GiB if not given), or the part of TARGET that is used (all of it)
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub size: Option<Bytes>,
    /// Keep the scratch file
    #[arg(long, conflicts_with = "target")]
    pub keep_file: bool,
    /// Consent to destroying all data on this block device, which must be TARGET
    #[arg(long, value_name = "PATH", requires = "existing")]
    pub destroy_data_on: Option<PathBuf>,
    /// Consent to overwriting TARGET, a regular file
    #[arg(long, requires = "existing")]
    pub overwrite_file: bool,
    /// How IOs are issued; io_uring where a plan has a queue depth, one at a time otherwise
    #[arg(long, value_enum)]
    pub engine: Option<Engine>,
    /// Go through the page cache: measures memory, and says so
    #[arg(long)]
    pub buffered: bool,
}

/// A size that something can have.
fn size(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(Bytes::ZERO) => Err("must be more than 0".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

fn seed(text: &str) -> Result<Seed, String> {
    text.parse().map_err(|_| format!("a seed is a whole number, 0 to {}", u64::MAX))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// One pread or pwrite at a time, a thread for each process of a parallel pattern
    Sync,
    /// io_uring
    IoUring,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Random IOs of random size over the whole target
    Random,
    /// The whole target, written from end to end
    Sequential,
    /// As it is
    None,
}

/// What all measuring verbs take.
#[derive(Args)]
pub struct Common {
    /// How often each run is repeated
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repetitions: u32,
    /// The seed of everything random
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = seed)]
    pub seed: Seed,
    /// The run's folder; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print the findings as one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Bench {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub common: Common,
    /// Some minutes: thinned values, short runs (the default without TARGET)
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// An hour or more: all values of uFLIP's Table 1, runs as long as the device's phases need
    #[arg(long)]
    pub full: bool,
    /// Only these micro-benchmarks
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The state that the device is brought to first
    #[arg(long, value_enum, default_value_t = State::Random)]
    pub state: State,
    /// Go on with an interrupted run, whatever verb began it, as it was begun
    #[arg(long, value_name = "RUN", group = "existing", conflicts_with_all = BEGUN_WITH)]
    pub resume: Option<PathBuf>,
}

/// What a run that is resumed was begun with, and keeps.
const BEGUN_WITH: [&str; 12] = [
    "target",
    "output",
    "quick",
    "full",
    "only",
    "size",
    "state",
    "seed",
    "repetitions",
    "engine",
    "buffered",
    "directory",
];

#[derive(Args)]
pub struct Run {
    /// A plan's file, or the name of one that comes with flashlab (see flashlab plan list)
    pub plan: String,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub common: Common,
    /// Take the plan's quick_values instead of all its values
    #[arg(long)]
    pub quick: bool,
    /// The state that the device is brought to first
    #[arg(long, value_enum, default_value_t = State::None)]
    pub state: State,
}

#[derive(Args)]
pub struct Infer {
    /// A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]; a scratch file if not given; or
    /// the folder of a run, which is shown again
    #[arg(group = "existing")]
    pub target: Option<String>,
    /// Where the scratch file goes; the current directory if not given
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    pub directory: Option<PathBuf>,
    /// Size of the scratch file (1GiB if not given), or of a simulated device
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub size: Option<Bytes>,
    /// Keep the scratch file
    #[arg(long, conflicts_with = "target")]
    pub keep_file: bool,
    /// Write to the target, too; simulated devices are written to without it
    #[arg(long, conflicts_with = "read_only")]
    pub write: bool,
    /// Only read, a simulated device too
    #[arg(long)]
    pub read_only: bool,
    /// Write so much at most; twice the capacity if not given, and never more than that
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true, conflicts_with = "read_only")]
    pub write_budget: Option<Bytes>,
    /// Wear the device out: infer it, then so many rounds of --full-writes and of inferring it again
    #[arg(long, value_name = "ROUNDS", requires_all = ["target", "output"], conflicts_with_all = ["read_only", "advise"], value_parser = clap::value_parser!(u32).range(1..))]
    pub wear_out: Option<u32>,
    /// How often a round of --wear-out writes the whole device from end to end
    #[arg(long, value_name = "N", requires = "wear_out", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub full_writes: u32,
    /// Consent to destroying all data on this block device, which must be TARGET
    #[arg(long, value_name = "PATH")]
    pub destroy_data_on: Option<PathBuf>,
    /// Consent to overwriting TARGET, a regular file
    #[arg(long)]
    pub overwrite_file: bool,
    /// Only these parameters, and those that have to be known for them
    #[arg(long, value_name = "PARAMETER,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The longest that the reading probes may take together, and each group of writing ones, as 90s or 2h; 60s (to 600s if
    /// it is slow) and 24h if not given
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time_limit: Option<Nanos>,
    /// The seed of everything random
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = seed)]
    pub seed: Seed,
    /// The run's folder; flashlab-runs/TIME-TARGET if not given
    #[arg(long, short, alias = "out", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Go on with an interrupted run as it was begun
    #[arg(long, value_name = "RUN", group = "existing", conflicts_with_all = INFERRED_WITH)]
    pub resume: Option<PathBuf>,
    /// Print what to do with the device, with the reason and the command: partitions, file systems, sizes
    #[arg(long)]
    pub advise: bool,
    /// Print an object from parameter name to its finding; with --advise, the advice instead
    #[arg(long)]
    pub json: bool,
}

/// What an inference that is resumed was begun with, and keeps.
const INFERRED_WITH: [&str; 11] = [
    "wear_out",
    "target",
    "output",
    "only",
    "size",
    "seed",
    "directory",
    "write",
    "read_only",
    "write_budget",
    "time_limit",
];

/// A time that something may take.
fn time(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(Nanos::ZERO) => Err("must be more than 0".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

#[derive(Args)]
pub struct PlanVerb {
    #[command(subcommand)]
    pub verb: PlanAction,
}

#[derive(Subcommand)]
pub enum PlanAction {
    /// The plans that come with flashlab
    List(Json),
    /// A plan's file
    Show {
        /// Its name
        name: String,
        #[command(flatten)]
        json: Json,
    },
    /// Whether a file is a plan, and what it would do
    Check {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        json: Json,
    },
}

#[derive(Args)]
pub struct Devices {
    #[command(flatten)]
    pub json: Json,
}

#[derive(Args)]
pub struct SimVerb {
    #[command(subcommand)]
    pub verb: SimAction,
}

#[derive(Subcommand)]
pub enum SimAction {
    /// The zoo
    List(Json),
    /// A device's profile, with its source and its fit
    Show {
        /// Its name, or a profile's file
        name: ProfileName,
        #[command(flatten)]
        json: Json,
    },
    /// Bring a device into a state at speed and save it, to be used as sim:NAME@STATE
    Precondition {
        /// Its name, or a profile's file
        name: ProfileName,
        /// The state: random writes of random size, or sequential ones
        #[arg(long, default_value = "random")]
        state: FilledState,
        /// How many times the capacity is written
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        times: u32,
        /// Where the state goes
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// The seed of everything random
        #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = seed)]
        seed: Seed,
        #[command(flatten)]
        json: Json,
    },
    /// Replay a trace, or run a plan, in virtual time; a trace also on a real device
    Run(SimRun),
}

/// What `flashlab sim run` does, and on what.
#[derive(Args)]
pub struct SimRun {
    /// NAME[@STATE] or ./profile.toml[@STATE], with or without sim:; with --live a block device or a file
    pub target: String,
    /// The trace: of fio, blkparse, MSR Cambridge or MQSim, gzip or not; or the samples of a run, a
    /// folder or a file
    #[arg(long, value_name = "FILE", required_unless_present = "plan", conflicts_with = "plan")]
    pub trace: Option<PathBuf>,
    /// A plan's file, or the name of one that comes with flashlab
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["format", "source", "speed", "as_fast_as_possible", "fit", "live"])]
    pub plan: Option<String>,
    /// The trace's format; recognised by its first line if not given
    #[arg(long, value_enum)]
    pub format: Option<TraceFormat>,
    /// Only the IOs of this source: a device, file or process, as the trace names it
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// How many times as fast the IOs arrive as they did
    #[arg(long, value_name = "FACTOR", value_parser = speed, default_value = "1x", conflicts_with = "as_fast_as_possible")]
    pub speed: f64,
    /// Replay without regard to when IOs arrived: always --depth of them in flight
    #[arg(long)]
    pub as_fast_as_possible: bool,
    /// How many IOs are in flight as fast as possible, or at most in real time; 32, or what the device takes, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: Option<u32>,
    /// What becomes of IOs behind the device's end, which are an error otherwise
    #[arg(long, value_enum)]
    pub fit: Option<TraceFit>,
    /// The capacity of the simulated device, instead of its profile's; or the part of a real one that is used
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub size: Option<Bytes>,
    /// Write each IO as a sample into this new folder
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// TARGET is a real device, or a served one, and the replay takes its time
    #[arg(long)]
    pub live: bool,
    /// Consent to destroying all data on this block device, which must be TARGET
    #[arg(long, value_name = "PATH", requires = "live")]
    pub destroy_data_on: Option<PathBuf>,
    /// Consent to overwriting TARGET, a regular file
    #[arg(long, requires = "live")]
    pub overwrite_file: bool,
    /// The seed of everything random in a plan
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = seed)]
    pub seed: Seed,
    #[command(flatten)]
    pub json: Json,
}

/// How many times as fast: `2x`, `0.5x` or `2`.
fn speed(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(speed) if (1e-3..=1e6).contains(&speed) => Ok(speed),
        _ => Err("must be a factor from 0.001x to 1000000x, as 2x or 0.5x".to_owned()),
    }
}

/// A format of traces.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// fio's write_iolog, versions 2 and 3
    Fio,
    /// blkparse's text
    Blkparse,
    /// CSV of Microsoft Research Cambridge
    Msr,
    /// MQSim's text
    Mqsim,
    /// flashlab's samples
    Samples,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceFit {
    /// Offsets modulo the capacity
    Wrap,
    /// All offsets scaled by one factor
    Scale,
}

/// A state that a device can be brought into.
#[derive(Clone, Copy, ValueEnum)]
pub enum FilledState {
    Random,
    Sequential,
}

#[derive(Args)]
pub struct Report {
    /// The folder of a run; several to compare them with the first
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Where the page goes; report.html in the run's folder, or comparison.html, if not given
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Args)]
pub struct Json {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// `flashlab reproduce`.
#[derive(Args)]
pub struct Reproduce {
    /// Which ones; without a name they are listed
    #[arg(value_name = "NAME", conflicts_with = "all")]
    pub names: Vec<String>,
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// Draw what was measured, with what the paper says of it, as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    pub pictures: Option<PathBuf>,
    /// The seed of the IOs; what is random inside the devices follows from their profiles
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = seed)]
    pub seed: Seed,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Args)]
#[command(
    override_usage = "flashlab serve sim:NAME --loop [OPTIONS]\n       flashlab serve --control SOCKET --status [--watch]"
)]
pub struct Serve {
    /// sim:NAME[@STATE] or sim:./profile.toml[@STATE]; without it a running server is asked or told, over --control
    #[arg(value_name = "TARGET", required_unless_present = "control")]
    pub target: Option<String>,
    /// Size of the disk; the profile's if not given
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true, requires = "target")]
    pub size: Option<Bytes>,
    /// As a loop block device with direct IO
    #[arg(long = "loop", requires = "target")]
    pub loop_device: bool,
    /// As the file DIR/disk, through FUSE
    #[arg(long, value_name = "DIR", requires = "target")]
    pub fuse: Option<PathBuf>,
    /// As a block device of the kernel's driver ublk
    #[arg(long, requires = "target", conflicts_with_all = ["fuse", "loop_device", "nbd"])]
    pub ublk: bool,
    /// Take over the block device /dev/ublkbN, whose server was killed; give the same --backing again
    #[arg(long, value_name = "N", requires = "ublk")]
    pub recover: Option<u32>,
    /// To NBD clients at this Unix socket, through nbdkit
    #[arg(long, value_name = "SOCKET", requires = "target", conflicts_with_all = ["fuse", "loop_device"])]
    pub nbd: Option<PathBuf>,
    /// Keep the data in this file, which is made if it is not there, and the device's state beside it; in memory if
    /// not given
    #[arg(long, value_name = "FILE", requires = "target")]
    pub backing: Option<PathBuf>,
    /// Consent to writing to a backing file that flashlab did not make
    #[arg(long, requires = "backing")]
    pub overwrite_file: bool,
    /// Keep no data: reads give zeroes, and only the times are real
    #[arg(long, conflicts_with = "backing", requires = "target")]
    pub no_data: bool,
    /// How much a power loss takes back at most, of what was written and not flushed
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64MiB", allow_negative_numbers = true)]
    pub volatile_cache: Bytes,
    /// Record every read and write into this folder, as a run of flashlab bench
    #[arg(long, value_name = "DIR", requires = "target")]
    pub record: Option<PathBuf>,
    /// Serve metrics for Prometheus on this port of this machine; 0 takes a free one
    #[arg(long, value_name = "PORT", requires = "target")]
    pub metrics: Option<u16>,
    /// The control socket: made there with TARGET, asked there without
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// What goes wrong: KIND[,KEY=VALUE]..., as error,on=write,share=0.01 (see docs/serve.md); may be repeated, and told
    /// a running server
    #[arg(long, value_name = "FAULT")]
    pub fault: Vec<String>,
    /// The seed of faults that bring none of their own
    #[arg(long, default_value_t = Seed(1), allow_negative_numbers = true, value_parser = seed)]
    pub seed: Seed,
    /// Tell a running server: disarm all faults
    #[arg(long, conflicts_with = "target")]
    pub clear_faults: bool,
    /// Tell a running server: the power fails
    #[arg(long, conflicts_with = "target")]
    pub power_loss: bool,
    /// Tell a running server: the power is back
    #[arg(long, conflicts_with = "target")]
    pub power_on: bool,
    /// Ask a running server what it did
    #[arg(long, conflicts_with = "target")]
    pub status: bool,
    /// With --status: again each second, until it ends
    #[arg(long, requires = "status")]
    pub watch: bool,
    /// One line of JSON when the disk is ready; with --status, the status as JSON
    #[arg(long)]
    pub json: bool,
}
