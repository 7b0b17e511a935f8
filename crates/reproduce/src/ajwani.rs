//! Reproduces Ajwani et al., "Characterizing the performance of flash memory storage devices and its impact
//! on algorithm design": Table 3.1, and the figures about the effect of random writes.
//!
//! # Model
//! The experiments of the paper's appendix A. Before those with each buffer size, the whole device is written
//! sequentially with requests of 1 MB. A pattern runs three times for 30 s. Sequential patterns start at a
//! random multiple of the buffer size; random ones are a permutation. A MB is 10^6 bytes.

mod algorithms;
mod alignment;
mod history;
mod random_writes;
mod recovery;

use flashlab_base::{Bytes, Mode, Nanos, Prng, Sample, Seed};
use flashlab_device::{Device, Operation};
use flashlab_plan::{Basic, Location, ModeRule, Pattern};

use crate::lab::{Result, condition, device, elapsed, numbered, on_all_processors, run};
use crate::papers::Measurement;
use crate::reproduction::{Measured, Reproduction};

pub(crate) use algorithms::ALGORITHMS;
pub(crate) use alignment::FIGURE_3_4;
pub(crate) use history::{FIGURE_3_3, FIGURE_C_1, FIGURE_C_2, FIGURE_C_3};
pub(crate) use random_writes::FIGURE_3_2;
pub(crate) use recovery::FIGURE_C_4;

/// Table 3.1.
pub(crate) const TABLE_3_1: Reproduction = Reproduction {
    name: "ajwani-table3.1",
    title: "Bandwidth of 17 devices at buffers of 512 B and 2 MB",
    source: "Ajwani et al., Characterizing the performance of flash memory storage devices, Table 3.1",
    measure: table_3_1,
};

/// The table's rows.
const DEVICES: [&str; 17] = [
    "dt-secure",
    "mini-traveldrive",
    "transmemory-512m",
    "cruzer-micro",
    "mdrive",
    "mdrive-100",
    "transmemory-1g",
    "smi",
    "kingston-cf",
    "dt-elite-2g",
    "dt-elite-4g",
    "td-classic",
    "cf-120x",
    "supertalent",
    "hama",
    "deskstar",
    "barracuda",
];

/// The table's buffer sizes and patterns, with the names of its columns.
const SIZES: [(&str, Bytes); 2] = [("512", Bytes(512)), ("2m", Bytes(2 << 20))];
const PATTERNS: [(&str, Mode, bool); 4] = [
    ("sr", Mode::Read, true),
    ("rr", Mode::Read, false),
    ("sw", Mode::Write, true),
    ("rw", Mode::Write, false),
];

fn table_3_1(seed: Seed) -> Result<Measured> {
    Ok(Measured {
        values: on_all_processors(&DEVICES, |name| row(name, seed))?.concat(),
        pictures: Vec::new(),
    })
}

/// A row of the table.
fn row(name: &'static str, seed: Seed) -> Result<Vec<Measurement>> {
    let mut row = Vec::new();
    for (label, size) in SIZES {
        let mut device = rewritten(name)?;
        for (quantity, mode, sequential) in PATTERNS {
            let of_it = numbered(seed, size.0).derive(if sequential { "sequential" } else { "random" }, 0);
            let rate = bandwidth(&mut device, &pattern(mode, sequential, size), of_it)?;
            row.push(Measurement::new(name, format!("{quantity}_{label}"), "MB/s", rate));
        }
    }
    Ok(row)
}

/// A device of the zoo, written completely and sequentially.
fn rewritten(name: &str) -> Result<flashlab_sim::SimulatedDevice> {
    let mut device = device(name)?;
    rewrite(&mut device)?;
    Ok(device)
}

/// Writes the whole device in order.
fn rewrite(device: &mut dyn Device) -> Result<()> {
    let (capacity, buffer) = (device.geometry().capacity, Bytes(1_000_000).round_down(Bytes(512)));
    let mut ios = (0..capacity.0)
        .step_by(buffer.0 as usize)
        .map(|offset| (Operation::Write, Bytes(offset), buffer.min(capacity - Bytes(offset))));
    condition(device, &mut ios)
}

/// Requests of one size over the whole device, for 30 s.
fn pattern(mode: Mode, sequential: bool, size: Bytes) -> Pattern {
    let basic = Basic::consecutive(
        ModeRule::Always(mode),
        if sequential { Location::Sequential } else { Location::Permutation },
        size,
    );
    Pattern { duration: Some(Nanos::from_secs(30)), ..Pattern::basic(basic) }
}

/// The bandwidth of three runs of a pattern, in MB/s.
fn bandwidth(device: &mut dyn Device, pattern: &Pattern, seed: Seed) -> Result<f64> {
    let (mut bytes, mut seconds) = (0, 0.0);
    for phase in 0..3 {
        let samples = run_at_random_start(device, pattern, seed.derive("phase", phase))?;
        bytes += samples.iter().map(|sample| sample.size.0).sum::<u64>();
        seconds += elapsed(&samples).as_secs_f64();
    }
    Ok(bytes as f64 / 1e6 / seconds)
}

/// Runs a pattern. A sequential one starts at a random multiple of its size, with at least half of the device
/// or 8 GB after it.
fn run_at_random_start(device: &mut dyn Device, pattern: &Pattern, seed: Seed) -> Result<Vec<Sample>> {
    let mut pattern = pattern.clone();
    if pattern.first.location == Location::Sequential {
        let size = pattern.first.io_size.largest();
        let capacity = device.geometry().capacity.0;
        let starts = (capacity - (capacity / 2).min(8 << 30)) / size.0;
        pattern.first.target_offset = size * Prng::new(seed).below(starts.max(1));
    }
    run(device, &pattern, seed)
}
