//! How long random writes linger in the reads after them.
//!
//! # Model
//! uFLIP section 4.3: a device that puts work off does it while the host reads, and reads wait for it. It can put off
//! only so much: from some number of writes on, more of them do not make it last longer. Reads before, writes, reads
//! after until they are as before; then four times as many writes, until that makes no difference.
//!
//! A few reads wait for what the last writes set going on any device: that is no effect.
//!
//! # Invariants
//! - the device rests before each experiment, so that the reads before are not slow themselves, and reads before the first
//!   one, as what earlier probes left may be done by reads only (entries of a map that have to be written);
//! - the time is told only if the experiments agree.

use flashlab_analysis::findings::Lingering;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::lingering;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::patterns::ios;
use super::startup::{IO_SIZE, random_writes};
use crate::group::Group;
use crate::halt::Halt;
use crate::session::Session;

pub(crate) const GROUP: Group = Group {
    name: "lingering",
    about: "random reads before and after random writes: how long the writes slow them down",
    parameters: &[Parameter::LingeringTime],
    supposes: None,
    write_share: 0.01,
    probe,
};

/// Writes of the first experiment.
const WRITES_LEAST: u64 = 64;
/// Reads before the writes, and the fewest after them.
const READS: u64 = 1024;
/// Reads before the first experiment.
const READS_FIRST: u64 = 8192;
/// The most reads after the writes.
const READS_MOST: u64 = 1 << 17;
/// Fewer slow reads are no effect.
const FEW: u64 = 20;
/// How long the device rests before.
const REST: Nanos = Nanos::from_secs(60);
/// Experiments that have to agree.
const REPETITIONS: usize = 3;

/// One experiment.
struct Experiment {
    writes: u64,
    found: Lingering,
    /// How long it lasted, in nanoseconds; 0: not longer than anywhere.
    lasted: f64,
    after: Vec<(f64, f64)>,
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let mut writes = WRITES_LEAST;
    session.run("reads-first", &ios(Mode::Read, Location::Random, size, READS_FIRST))?;
    let mut last = experiment(session, size, writes)?;
    // Repetitions have to be left for.
    while session.writes_left() >= size * (4 * writes * (1 + REPETITIONS as u64)) {
        writes *= 4;
        let more = experiment(session, size, writes)?;
        let longer = more.lasted > 1.1 * last.lasted || more.found.still_affected_at_end;
        last = more;
        if !longer && writes >= 16 * WRITES_LEAST {
            break;
        }
    }
    let mut experiments = vec![last];
    while experiments.len() < REPETITIONS {
        experiments.push(experiment(session, size, writes)?);
    }
    conclude(session, &experiments);
    Ok(())
}

fn experiment(session: &mut Session<'_, '_>, size: Bytes, writes: u64) -> Result<Experiment, Halt> {
    let read = |count: u64| ios(Mode::Read, Location::Random, size, count);
    session.rest(REST)?;
    let before = session.run("reads-before", &read(READS))?;
    let pattern = random_writes(session, writes);
    let written = session.run("random-writes", &pattern)?;
    let before: Vec<u64> = before.iter().map(|sample| sample.response().0).collect();
    let mut times: Vec<(Nanos, u64)> = Vec::new();
    let mut end = Nanos::ZERO;
    let found = loop {
        let after = session.run("reads-after", &read(READS.max(times.len() as u64)))?;
        // Each run counts from its own beginning, and begins when the one before is done.
        let begin = after.iter().map(|sample| sample.submitted).min().unwrap_or_default();
        let at = |time: Nanos| end.saturating_add(time.since(begin));
        times.extend(after.iter().map(|sample| (at(sample.submitted), sample.response().0)));
        end = after.iter().map(|sample| at(sample.completed)).max().unwrap_or(end);
        let found = lingering(&before, Nanos::ZERO, &times);
        if !found.still_affected_at_end || times.len() as u64 >= READS_MOST {
            break found;
        }
    };
    let lasted = if found.affected_reads < FEW { 0.0 } else { found.affected.0 as f64 };
    let points = times.iter().map(|&(at, cost)| (at.0 as f64, cost as f64)).collect();
    Ok(Experiment { writes: written.len() as u64, found, lasted, after: points })
}

fn conclude(session: &mut Session<'_, '_>, experiments: &[Experiment]) {
    let mut times: Vec<f64> = experiments.iter().map(|experiment| experiment.lasted).collect();
    times.sort_by(f64::total_cmp);
    let middle = times[times.len() / 2];
    let last = &experiments[experiments.len() - 1];
    let picture = Picture::new(
        "Random reads after random writes: slow until what the writes put off is done.",
        Axis::linear("time since the writes", "ns"),
        Axis::linear("response time", "ns"),
    )
    .draw("reads", Style::Dots, last.after.clone());
    let evidence =
        format!("after {} random writes, {} times: {}", last.writes, experiments.len(), last.found.evidence);
    let spread = (times[times.len() - 1] - times[0]) / 2.0;
    let ended = experiments.iter().all(|experiment| !experiment.found.still_affected_at_end);
    let finding = if times[times.len() - 1] == 0.0 {
        Finding::found(Parameter::LingeringTime, Nanos::ZERO, 0.8, evidence)
    } else if middle == 0.0 {
        Finding::found(Parameter::LingeringTime, Nanos::ZERO, 0.6, evidence)
    } else if ended && spread <= 0.05 * middle {
        Finding::found(Parameter::LingeringTime, Nanos(middle as u64), 0.9, evidence)
    } else {
        let apart = format!(
            "{evidence}; it lasted from {} to {}",
            Nanos(times[0] as u64),
            Nanos(times[times.len() - 1] as u64)
        );
        Finding::undetermined(Parameter::LingeringTime, apart)
    };
    session.conclude(finding.with(picture.mark(middle, "ends")));
}
