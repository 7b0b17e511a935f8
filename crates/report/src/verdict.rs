//! Describes the device in a few sentences, from its row of Table 3.
//!
//! Invariant: a sentence appears only if every figure in it was measured, and if the measurement supports it.

use flashlab_analysis::findings::{Findings, HintVerdict};

use crate::stages::stages_sentences;
use crate::table3::short;
use crate::units;

/// If the ratio of two response times is below this, they are called equal.
const ALIKE: f64 = 1.1;
/// From this ratio on, random writes are called slow, and the verdict says where they are not. In uFLIP's
/// Table 3, figures that the paper calls equal or nearly equal differ by up to this factor.
const EXPENSIVE: f64 = 1.5;

/// The most important facts about the device, in order of importance.
pub fn sentences(findings: &Findings) -> Vec<String> {
    if let Some(why) = findings.disturbance.forbids() {
        let advice =
            "The figures may show the disturbance and not the device: measure again on an idle machine.";
        return vec![format!("{why}."), advice.to_owned()];
    }
    let facts =
        [random_writes(findings), locality(findings), reads(findings), partitions(findings), hints(findings)];
    stages_sentences(findings).into_iter().chain(facts.into_iter().flatten()).collect()
}

fn random_writes(findings: &Findings) -> Option<String> {
    let row = &findings.characteristics;
    let (random, sequential) = (row.rw_ms?, row.sw_ms?);
    let (shown_random, shown_sequential) = (units::time(random * 1e6), units::time(sequential * 1e6));
    let times = random / sequential;
    if !times.is_finite() {
        return None;
    }
    Some(if times >= ALIKE {
        format!(
            "A random write takes {shown_random}, {} as long as a sequential one ({shown_sequential}).",
            times_in_words(times)
        )
    } else if times * ALIKE >= 1.0 {
        format!("Random and sequential writes cost about the same: {shown_random} and {shown_sequential}.")
    } else {
        format!("Random writes ({shown_random}) are faster than sequential ones ({shown_sequential}).")
    })
}

fn locality(findings: &Findings) -> Option<String> {
    let row = &findings.characteristics;
    if row.rw_ms? < EXPENSIVE * row.sw_ms? || is_open(findings, 4) {
        return None;
    }
    let area = row.locality_mb?;
    Some(if area == 0.0 {
        "Keeping random writes within a small area does not make them fast.".to_owned()
    } else {
        let ratio = row.locality_ratio?;
        format!(
            "Within an area of {} MB they cost at most {} a sequential write.",
            short(area),
            units::ratio(ratio)
        )
    })
}

fn reads(findings: &Findings) -> Option<String> {
    let row = &findings.characteristics;
    let (random, sequential) = (row.rr_ms?, row.sr_ms?);
    let times = random / sequential;
    let (shown, shown_sequential) = (units::time(random * 1e6), units::time(sequential * 1e6));
    if !times.is_finite() {
        return None;
    }
    Some(if times >= ALIKE {
        format!("A random read takes {shown}, {} as long as a sequential one.", times_in_words(times))
    } else if times * ALIKE >= 1.0 {
        format!("A random read takes {shown}, about as long as a sequential one.")
    } else {
        format!("A random read takes {shown}, less than a sequential one ({shown_sequential}).")
    })
}

fn partitions(findings: &Findings) -> Option<String> {
    let row = &findings.characteristics;
    let count = row.partitions.filter(|_| !is_open(findings, 5))?;
    Some(if count <= 1 {
        "Sequential writes stay fast in one stream only.".to_owned()
    } else {
        format!(
            "Writing sequentially to {count} partitions at once costs {} as much as to one.",
            units::ratio(row.partition_ratio?)
        )
    })
}

fn hints(findings: &Findings) -> Option<String> {
    let count = |verdict| findings.hints.iter().filter(|hint| hint.verdict == verdict).count();
    let (holds, not) = (count(HintVerdict::Holds), count(HintVerdict::DoesNotHold));
    if holds + not == 0 {
        return None;
    }
    let open = count(HintVerdict::NotSupportedByThisMeasurement);
    let tail = if open > 0 { format!("; {open} could not be decided") } else { String::new() };
    let (hold, do_not) = (if holds == 1 { "holds" } else { "hold" }, if not == 1 { "does" } else { "do" });
    Some(format!("Of uFLIP's seven design hints {holds} {hold} here and {not} {do_not} not{tail}."))
}

/// Whether the measurement leaves the hint with this number undecided.
fn is_open(findings: &Findings, number: u32) -> bool {
    let hint = findings.hints.iter().find(|hint| hint.number == number);
    hint.is_some_and(|hint| hint.verdict == HintVerdict::NotSupportedByThisMeasurement)
}

/// `23 times`, `1.8 times`.
fn times_in_words(times: f64) -> String {
    if times >= 9.95 { format!("{times:.0} times") } else { format!("{times:.1} times") }
}
