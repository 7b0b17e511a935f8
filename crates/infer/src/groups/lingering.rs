//! How long random writes linger in the reads after them.
//!
//! # Model
//! uFLIP section 4.3: a device that puts work off does it while the host reads, and reads wait for it. It can put off
//! only so much: from some number of writes on, more of them do not make it last longer. Reads before, writes, reads
//! after; where the reads after are slow until the end, more of them are read next time; then four times as many
//! writes, until that makes no difference.
//!
//! # Invariants
//! - the device rests before each experiment, so that the reads before are not slow themselves;
//! - the time is told only if the experiments agree.

use flashlab_analysis::findings::Lingering;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::lingering;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;
use flashlab_samples::Sample;

use super::patterns::ios;
use super::startup::{IO_SIZE, random_writes};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "lingering",
    about: "random reads before and after random writes: how long the writes slow them down",
    parameters: &[Parameter::LingeringTime],
    write_share: 0.01,
    probe,
};

/// Writes of the first experiment.
const WRITES_LEAST: u64 = 64;
/// Reads before the writes, and the fewest after them.
const READS: u64 = 512;
/// The most reads after the writes.
const READS_MOST: u64 = 1 << 15;
/// How long the device rests before.
const REST: Nanos = Nanos::from_secs(60);
/// Experiments that have to agree.
const REPETITIONS: usize = 3;

/// One experiment.
struct Experiment {
    writes: u64,
    found: Lingering,
    after: Vec<(f64, f64)>,
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = IO_SIZE.max(session.block());
    let (mut writes, mut reads) = (WRITES_LEAST, READS);
    let mut last = experiment(session, size, writes, reads)?;
    // Repetitions have to be left for.
    while session.writes_left() >= size * (4 * writes * (1 + REPETITIONS as u64)) {
        if last.found.still_affected_at_end && reads < READS_MOST {
            reads *= 4;
            last = experiment(session, size, writes, reads)?;
            continue;
        }
        writes *= 4;
        let more = experiment(session, size, writes, reads)?;
        let before = last.found.affected.0 as f64;
        let longer = more.found.affected.0 as f64 > 1.1 * before || more.found.still_affected_at_end;
        last = more;
        if !longer && writes >= 16 * WRITES_LEAST {
            break;
        }
    }
    let mut experiments = vec![last];
    while experiments.len() < REPETITIONS {
        experiments.push(experiment(session, size, writes, reads)?);
    }
    conclude(session, &experiments);
    Ok(())
}

fn experiment(
    session: &mut Session<'_, '_>,
    size: Bytes,
    writes: u64,
    reads: u64,
) -> Result<Experiment, Halt> {
    let read = |count: u64| ios(Mode::Read, Location::Random, size, count);
    session.rest(REST)?;
    let before = session.run("reads-before", &read(READS))?;
    let pattern = random_writes(session, writes);
    let written = session.run("random-writes", &pattern)?;
    let after = session.run("reads-after", &read(reads))?;
    let nanos = |sample: &Sample| sample.response().0;
    let before: Vec<u64> = before.iter().map(nanos).collect();
    // Each run counts from its own beginning, and the reads begin when the writes are done.
    let begin = after.iter().map(|sample| sample.submitted).min().unwrap_or_default();
    let times: Vec<(Nanos, u64)> =
        after.iter().map(|sample| (sample.submitted.since(begin), nanos(sample))).collect();
    let points = times.iter().map(|&(at, cost)| (at.0 as f64, cost as f64)).collect();
    let found = lingering(&before, Nanos::ZERO, &times);
    Ok(Experiment { writes: written.len() as u64, found, after: points })
}

fn conclude(session: &mut Session<'_, '_>, experiments: &[Experiment]) {
    let mut times: Vec<f64> =
        experiments.iter().map(|experiment| experiment.found.affected.0 as f64).collect();
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
    } else if ended && spread <= 0.03 * middle {
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
