//! Measures how long random writes slow down the reads after them.
//!
//! # Model
//! uFLIP section 4.3: a device does deferred work while the host reads, and the reads wait for it. The amount that it
//! can defer is limited: from some number of writes on, more of them prolong nothing. On any device a few reads wait
//! for the last writes, which is no effect.
//!
//! A map of which only a part is in memory is written back when entries are evicted. Then the slow reads may come
//! late, and there are more reads.
//!
//! # Method
//! 1. The device is idle. Random reads show the level.
//! 2. As many random writes as the budget allows, then random reads until they are as fast as before.
//! 3. Three such experiments have to agree.
//!
//! # Invariants
//! - Reads come before the first experiment: some backlogs are completed by reads only.

use crate::priors;
use flashlab_analysis::findings::Lingering;
use flashlab_analysis::inference::{Axis, Family, Finding, Parameter, Picture, Style};
use flashlab_analysis::lingering;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::ios;
use crate::patterns::random_writes::random_writes;
use crate::priors::SMALL_IO;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;

pub(crate) const PROBE: Probe = Probe {
    name: "lingering",
    about: "random reads before and after random writes: how long do the writes slow them down?",
    parameters: &[Parameter::LingeringTime],
    hands_in: &[],
    write_share: 0.015,
};

/// The fewest and the most writes of an experiment. Unit: writes. Source: choice. Too many: the budget is
/// used up; too few: devices that defer a lot show nothing.
const WRITES: (u64, u64) = (64, 2048);
/// The reads before the writes, and the fewest after them. Unit: reads. Source: choice. Too many: the probe
/// takes longer; too few: the level before is not known.
const READS: u64 = 1024;
/// The fewest reads after the writes where the map is kept on the flash: it is written back late. Unit:
/// reads. Source: tuned. Too many: the probe takes longer; too few: the slow reads come later.
const READS_MAP: u64 = 16_384;
/// The reads before the first experiment: they complete what earlier probes left. Unit: reads. Source: tuned.
/// Too many: the probe takes longer; too few: the level before is too high.
const READS_FIRST: u64 = 8192;
/// The most reads after the writes. Unit: reads. Source: choice. Too many: the probe takes longer; too few:
/// long effects have no end.
const READS_MOST: u64 = 1 << 17;
/// Fewer slow reads are no effect: on any device, some reads wait for the last writes. Unit: reads. Source:
/// tuned. Too many: short effects are denied; too few: waiting for the last write is an effect.
const SLOW_READS_LEAST: u64 = 20;
/// The experiments, which have to agree. Unit: experiments. Source: derivation: the median of three bears an
/// outlier. Too many: the budget is used up; too few: nothing confirms the first one.
const REPETITIONS: u64 = 3;
/// The experiments agree if half the range of their times is at most this share of the median. Unit: share.
/// Source: tuned. Too large: chance is a time; too small: jitter leaves none.
const SPREAD_MOST: f64 = 0.1;

/// One experiment.
struct Experiment {
    writes: u64,
    found: Lingering,
    /// How long it lasted, in nanoseconds; 0: no longer than on any device.
    lasted: f64,
    after: Vec<(f64, f64)>,
}

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = SMALL_IO.max(session.block());
    let writes = (session.writes_left().0 / size.0 / REPETITIONS).clamp(WRITES.0, WRITES.1);
    session.run("reads-first", &ios(Mode::Read, Location::Random, size, READS_FIRST))?;
    let mut experiments = Vec::new();
    for _ in 0..REPETITIONS {
        experiments.push(experiment(session, size, writes)?);
    }
    conclude(session, &experiments);
    Ok(())
}

fn experiment(session: &mut Session<'_, '_>, size: Bytes, writes: u64) -> Result<Experiment, Halt> {
    let read = |count: u64| ios(Mode::Read, Location::Random, size, count);
    session.idle(priors::BACKLOG_DONE)?;
    let before = session.run("reads-before", &read(READS))?;
    let pattern = random_writes(session, writes);
    let written = session.run("random-writes", &pattern)?;
    let before: Vec<u64> = before.iter().map(|sample| sample.response().0).collect();
    let least = if has_map_on_flash(session) { READS_MAP } else { READS };
    let mut times: Vec<(Nanos, u64)> = Vec::new();
    let mut end = Nanos::ZERO;
    let found = loop {
        let after = session.run("reads-after", &read(least.max(times.len() as u64)))?;
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
    let lasted = if found.affected_reads < SLOW_READS_LEAST { 0.0 } else { found.affected.0 as f64 };
    let points = times.iter().map(|&(at, cost)| (at.0 as f64, cost as f64)).collect();
    Ok(Experiment { writes: written.len() as u64, found, lasted, after: points })
}

fn has_map_on_flash(session: &Session<'_, '_>) -> bool {
    session.known().family() == Some(Family::DemandCachedPage)
}

fn conclude(session: &mut Session<'_, '_>, experiments: &[Experiment]) {
    let mut times: Vec<f64> = experiments.iter().map(|experiment| experiment.lasted).collect();
    times.sort_by(f64::total_cmp);
    let middle = times[times.len() / 2];
    let last = &experiments[experiments.len() - 1];
    let picture = Picture::new(
        "Random reads after random writes: slow until the work that the writes deferred is done.",
        Axis::linear("time since the writes", "ns"),
        Axis::logarithmic("response time", "ns"),
    )
    .draw("reads", Style::Dots, last.after.clone());
    let few = if last.lasted == 0.0 && last.found.affected_reads > 0 {
        " So few slow reads count as none."
    } else {
        ""
    };
    let evidence = format!(
        "After {} random writes, {}.{few} The experiment was done {} times, and this is the last.",
        last.writes,
        last.found.evidence,
        experiments.len()
    );
    let spread = (times[times.len() - 1] - times[0]) / 2.0;
    let ended = experiments.iter().all(|experiment| !experiment.found.still_affected_at_end);
    let finding = if times[times.len() - 1] == 0.0 {
        let rule = if has_map_on_flash(session) {
            Rule::weak("never slow, map on flash")
        } else {
            Rule::likely("never slow")
        };
        Rule::found(Parameter::LingeringTime, Nanos::ZERO, rule, evidence)
    } else if middle == 0.0 {
        Rule::found(Parameter::LingeringTime, Nanos::ZERO, Rule::weak("slow sometimes"), evidence)
    } else if ended && spread <= SPREAD_MOST * middle {
        Rule::found(Parameter::LingeringTime, Nanos(middle as u64), Rule::strong("repeated"), evidence)
    } else {
        let apart = format!(
            "{evidence} The slowdown lasted between {} and {}, which is too uncertain.",
            duration(times[0]),
            duration(times[times.len() - 1])
        );
        Finding::undetermined(Parameter::LingeringTime, apart)
    };
    session.conclude(finding.with(picture.mark(middle, "ends")));
}
