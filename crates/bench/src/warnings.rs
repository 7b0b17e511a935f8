//! Warnings about a run: other IO on the device, a measuring thread without a CPU, heat.

use flashlab_analysis::disturbance;
use flashlab_analysis::findings::{Lingering, PatternStages, Warning, WriteStages};
use flashlab_base::{Bytes, Nanos};

use crate::manifest::BenchManifest;
use crate::record::{Purpose, RunRecord};
use crate::settings::Thoroughness;

/// Warnings from before the first run, and about missing parts.
pub(crate) fn of_preparation(
    manifest: &BenchManifest,
    records: &[RunRecord],
    torn: &[String],
    unfinished: Option<&str>,
) -> Vec<Warning> {
    let general = |kind: &str, message: String| Warning { kind: kind.to_owned(), run: None, message };
    let mut warnings: Vec<Warning> =
        unfinished.iter().map(|left| general("unfinished", format!("unfinished: {left}"))).collect();
    warnings.extend(manifest.warnings.iter().map(|(kind, message)| general(kind, message.clone())));
    for torn in torn {
        let message =
            format!("incomplete files of samples from an earlier end of the program were renamed: {torn}");
        warnings.push(general("torn_samples", message));
    }
    let in_part = |record: &&RunRecord| {
        record.ended.is_some() && matches!(record.purpose, Purpose::State { complete: false, .. })
    };
    if let Some(record) = records.iter().find(in_part) {
        warnings.push(general(
            "state_in_part",
            format!(
                "the state was enforced on {} of {} only, because time was short; --full has no limit",
                Bytes(record.written_bytes),
                manifest.settings.target_size
            ),
        ));
    }
    warnings
}

/// Warns of baselines of writes that ended before what lasts was known: their figures are withheld.
pub(crate) fn of_stages(stages: Option<&WriteStages>, thoroughness: Thoroughness) -> Option<Warning> {
    let withheld: Vec<&PatternStages> = stages?.patterns.iter().filter(|found| found.is_withheld()).collect();
    let longer = match thoroughness {
        Thoroughness::Quick => "measure with --full",
        Thoroughness::Full => "`flashlab run` with an IOCount of several times its stages settles it",
    };
    let names: Vec<&str> = withheld.iter().map(|stages| stages.pattern.as_str()).collect();
    Some(Warning {
        kind: "stages_unsettled".to_owned(),
        run: None,
        message: format!(
            "{}: what lasts did not settle, so these figures, and ratios and hints with them, are withheld ({}): {longer}",
            names.join(" and "),
            withheld.first()?.evidence
        ),
    })
}

/// Warns of a pause that is shorter than the device needs.
pub(crate) fn of_pause(
    lingering: Option<&Lingering>,
    kept: Option<Nanos>,
    thoroughness: Thoroughness,
) -> Option<Warning> {
    let asked = lingering.filter(|found| found.affected_reads > 0)?.pause;
    let kept = kept.filter(|&kept| kept < asked)?;
    let (kept, advice) = match thoroughness {
        Thoroughness::Quick => (format!("but a quick run has time for {kept} only"), "; measure with --full"),
        Thoroughness::Full => (format!("and the longest before a run was {kept}"), ""),
    };
    Some(Warning {
        kind: "pause_shortened".to_owned(),
        run: None,
        message: format!(
            "the device needs a pause of {asked} after random writes, {kept}: runs may disturb each other{advice}"
        ),
    })
}

/// A check of runs: the kind of the warning, whether a run has it and how severe it is, and what it means.
struct Check {
    kind: &'static str,
    /// The severity, if the run is affected: larger is worse. The text has the figures.
    find: fn(&RunRecord) -> Option<(f64, String)>,
    advice: &'static str,
}

const CHECKS: [Check; 8] = [
    Check {
        kind: "interference",
        find: interference,
        advice: "another program used the device: stop it and measure again",
    },
    Check {
        kind: "processor_starved",
        find: starvation,
        advice: "leave a CPU free for the measuring threads",
    },
    Check {
        kind: "startup_shortened",
        find: startup,
        advice: "the start-up phase of the device is longer than the run allows, so the figures contain a part of \
                 it: measure with --full, or a larger target",
    },
    Check {
        kind: "regime_undecided",
        find: undecided_regime,
        advice: "the writes before the run did not become as slow as what lasts, so it is in no figure: measure with --full, or \
                 a larger target",
    },
    Check {
        kind: "run_unsettled",
        find: unsettled,
        advice: "its pattern was still changing the state of the device, so it is in no figure: `flashlab run` with an IOCount of several \
                 times this settles it",
    },
    Check { kind: "thermal", find: heat, advice: "heat slowed a CPU down: cool the machine" },
    Check {
        kind: "recording_stalled",
        find: stalls,
        advice: "put the results on another disk with --output",
    },
    Check {
        kind: "failed_io",
        find: failures,
        advice: "look at the kernel's log and at the device's health",
    },
];

/// The warnings about all finished runs, one for each kind: which runs, the worst of them, and what to do.
pub(crate) fn of_runs(records: &[RunRecord]) -> Vec<Warning> {
    CHECKS.iter().filter_map(|check| summed_up(check, records)).collect()
}

/// The kinds of warnings that apply to a run.
pub(crate) fn flags(record: &RunRecord) -> Vec<String> {
    let concern = |check: &&Check| (check.find)(record).is_some();
    CHECKS.iter().filter(concern).map(|check| check.kind.to_owned()).collect()
}

/// What is doubtful in a run, a sentence for each.
pub fn doubts(record: &RunRecord) -> Vec<String> {
    let doubt = |check: &Check| {
        let (_, figures) = (check.find)(record)?;
        Some(format!("{figures}; {}", check.advice))
    };
    CHECKS.iter().filter_map(doubt).collect()
}

fn summed_up(check: &Check, records: &[RunRecord]) -> Option<Warning> {
    let found: Vec<(u32, f64, String)> = records
        .iter()
        .filter_map(|record| (check.find)(record).map(|(badness, figures)| (record.run, badness, figures)))
        .collect();
    let (worst, _, figures) = found.iter().max_by(|(_, a, _), (_, b, _)| a.total_cmp(b))?;
    let runs = match found.len() {
        1 => format!("run {worst}"),
        count => format!("{count} of {} runs, the worst of them run {worst}", records.len()),
    };
    let message = format!("{runs}: {figures}; {}", check.advice);
    Some(Warning { kind: check.kind.to_owned(), run: None, message })
}

fn interference(record: &RunRecord) -> Option<(f64, String)> {
    let own = Bytes(record.read_bytes + record.written_bytes);
    let others = Bytes(record.other_traffic_bytes?);
    let share = disturbance::interference(others, own)?;
    Some((share, format!("{others} of other IO, next to the run's own {own}")))
}

fn starvation(record: &RunRecord) -> Option<(f64, String)> {
    let elapsed = Nanos(record.end_ns - record.begin_ns);
    let wait = Nanos(record.processor_wait_ns?);
    let share = disturbance::starvation(wait, elapsed)?;
    Some((share, format!("waited {wait} of {elapsed} for a CPU")))
}

fn startup(record: &RunRecord) -> Option<(f64, String)> {
    let RunRecord { io_ignore, io_ignore_wanted, .. } = record;
    let figures = format!("left {io_ignore} IOs out at the start instead of {io_ignore_wanted}");
    let missing = io_ignore_wanted.saturating_sub(*io_ignore);
    (missing > 0).then_some((missing as f64, figures))
}

fn undecided_regime(record: &RunRecord) -> Option<(f64, String)> {
    let figures = "the regime of its writes is not known".to_owned();
    (record.regime_shown == Some(false)).then_some((1.0, figures))
}

fn unsettled(record: &RunRecord) -> Option<(f64, String)> {
    let written = Bytes(record.written_bytes);
    (record.settled == Some(false))
        .then(|| (written.0 as f64, format!("did not settle within {written} of writes")))
}

fn heat(record: &RunRecord) -> Option<(f64, String)> {
    let times = record.thermal_throttles.filter(|&times| times > 0)?;
    Some((times as f64, format!("throttled {times} times")))
}

fn stalls(record: &RunRecord) -> Option<(f64, String)> {
    // Only threads that measure a real device can wait for a CPU; in virtual time waiting has no effect.
    record.processor_wait_ns?;
    let times = record.recording_stalls;
    (times > 0)
        .then(|| (times as f64, format!("measuring waited {times} times for the samples to be written")))
}

fn failures(record: &RunRecord) -> Option<(f64, String)> {
    let (failed, first) = (record.failed_ios, record.first_failure.as_deref().unwrap_or("reason not known"));
    let figures = format!("{failed} IOs failed and are in no figure ({first})");
    (failed > 0).then_some((failed as f64, figures))
}
