//! What to doubt about a run: other IO on the device, a measuring thread without a processor, heat.

use flashlab_analysis::findings::Warning;
use flashlab_base::{Bytes, Nanos};

use crate::Manifest;
use crate::record::{Purpose, RunRecord};

/// Other traffic is worth a warning from this part of the run's own ...
const TRAFFIC_SHARE: f64 = 0.05;
/// ... and this many bytes: every machine writes a log line now and then.
const TRAFFIC_LEAST: u64 = 1 << 20;
/// Waiting for a processor is worth a warning from this part of the run's time.
const WAIT_SHARE: f64 = 0.02;

/// What was noticed before the first run, and what is missing.
pub(crate) fn of_preparation(manifest: &Manifest, records: &[RunRecord], torn: &[String]) -> Vec<Warning> {
    let general = |kind: &str, message: String| Warning { kind: kind.to_owned(), run: None, message };
    let mut warnings: Vec<Warning> =
        manifest.warnings.iter().map(|(kind, message)| general(kind, message.clone())).collect();
    for torn in torn {
        let message = format!("samples that were being written when the program ended are set aside: {torn}");
        warnings.push(general("torn_samples", message));
    }
    let in_part = |record: &&RunRecord| matches!(record.purpose, Purpose::State { complete: false, .. });
    if let Some(record) = records.iter().find(in_part) {
        warnings.push(general(
            "state_in_part",
            format!(
                "the state was enforced on {} of {} only, for want of time; --full has no limit",
                Bytes(record.written_bytes),
                manifest.settings.target_size
            ),
        ));
    }
    warnings
}

/// The warnings of all finished runs.
pub(crate) fn of_runs(records: &[RunRecord]) -> Vec<Warning> {
    let checks = [interference, starvation, heat, stalls, failures];
    records.iter().flat_map(|record| checks.iter().filter_map(move |check| check(record))).collect()
}

fn warning(kind: &str, record: &RunRecord, message: String) -> Option<Warning> {
    Some(Warning { kind: kind.to_owned(), run: Some(record.run), message })
}

fn interference(record: &RunRecord) -> Option<Warning> {
    let own = record.read_bytes + record.written_bytes;
    let other = record.other_traffic_bytes?;
    if other < TRAFFIC_LEAST || (other as f64) < TRAFFIC_SHARE * own as f64 {
        return None;
    }
    let message = format!(
        "run {}: something else moved {} on the device while the run moved {}; stop it and measure again",
        record.run,
        Bytes(other),
        Bytes(own),
    );
    warning("interference", record, message)
}

fn starvation(record: &RunRecord) -> Option<Warning> {
    let elapsed = record.end_ns - record.begin_ns;
    let wait = record.processor_wait_ns?;
    if (wait as f64) < WAIT_SHARE * elapsed as f64 {
        return None;
    }
    let message = format!(
        "run {}: the measuring threads waited {} of {} for a processor; leave them one",
        record.run,
        Nanos(wait),
        Nanos(elapsed),
    );
    warning("processor_starved", record, message)
}

fn heat(record: &RunRecord) -> Option<Warning> {
    let times = record.thermal_throttles.filter(|&times| times > 0)?;
    let message = format!("run {}: heat slowed a processor down {times} times; cool the machine", record.run);
    warning("thermal", record, message)
}

fn stalls(record: &RunRecord) -> Option<Warning> {
    let times = record.recording_stalls;
    let message = || {
        format!(
            "run {}: measuring waited {times} times for the samples to be written; put the results on another disk",
            record.run
        )
    };
    (times > 0).then(message).and_then(|message| warning("recording_stalled", record, message))
}

fn failures(record: &RunRecord) -> Option<Warning> {
    let failed = record.failed_ios;
    let message = || {
        format!(
            "run {}: {failed} IOs failed and are in no figure: {}",
            record.run,
            record.first_failure.as_deref().unwrap_or("the error is not known"),
        )
    };
    (failed > 0).then(message).and_then(|message| warning("failed_io", record, message))
}
