//! Decides uFLIP's seven design hints (section 5.3) for this device.
//!
//! One figure decides a hint: a ratio of measured response times, compared with the limit from which on a
//! designer should care. If the uncertainty of the figure includes the limit, the measurement does not
//! support a verdict. The same holds if nothing was measured, or if the runs were too disturbed.

mod concurrency;
mod decision;
mod io_shape;

use flashlab_base::Bytes;

use crate::characteristics::{locality, partitioning};
use crate::curve::{baseline, curve, largest};
use crate::findings::{Baseline, Disturbance, Hint, HintVerdict, MicroBenchmark};
pub use concurrency::DOUBLING_GAIN;
use decision::{Decision, baseline_noise, choose, exceeds, not_measured};

/// Random writes are slow if they take this many times as long as sequential writes.
const RANDOM_EXPENSIVE: f64 = 2.0;

const PAPER: [&str; 7] = [
    "Flash devices do incur latency: larger IOs are generally beneficial, even for reads.",
    "Block size should (currently) be 32 KB.",
    "Blocks should be aligned to flash pages.",
    "Random writes should be limited to a focused area.",
    "Sequential writes should be limited to a few partitions.",
    "Combining a limited number of patterns is acceptable.",
    "Neither concurrent nor delayed IOs improve the performance.",
];

/// The parameters of the micro-benchmarks that decide each hint.
const DECIDED_BY: [&[&str]; 7] = [
    &["IOSize"],
    &["IOSize"],
    &["IOShift"],
    &["TargetSize"],
    &["Partitions"],
    &["Ratio"],
    &["ParallelDegree", "Pause"],
];

/// Decides the seven hints, in their order.
pub fn hints(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Vec<Hint> {
    let decisions = [
        io_shape::larger_ios(micro_benchmarks),
        io_shape::block_size(micro_benchmarks),
        io_shape::alignment(micro_benchmarks),
        focused_area(baselines, micro_benchmarks),
        few_partitions(micro_benchmarks),
        concurrency::mixing(baselines, micro_benchmarks),
        concurrency::scheduling(baselines, micro_benchmarks),
    ];
    (1..)
        .zip(PAPER)
        .zip(DECIDED_BY)
        .zip(decisions)
        .map(|(((number, paper), parameters), decision)| {
            let (verdict, advice, evidence) = unless_disturbed(decision, parameters, micro_benchmarks);
            Hint { number, paper: paper.to_owned(), verdict, advice, evidence }
        })
        .collect()
}

/// The decision, if its micro-benchmarks are not too disturbed to support one.
fn unless_disturbed(
    (verdict, advice, evidence): Decision,
    parameters: &[&str],
    micro_benchmarks: &[MicroBenchmark],
) -> Decision {
    let deciding = micro_benchmarks.iter().filter(|micro| parameters.contains(&micro.parameter.as_str()));
    match Disturbance::of(&[], deciding).forbids() {
        Some(why) if verdict != HintVerdict::NotSupportedByThisMeasurement => {
            let advice = "Nothing can be advised: measure again on an idle machine.".to_owned();
            (HintVerdict::NotSupportedByThisMeasurement, advice, format!("{why}. {evidence}"))
        }
        _ => (verdict, advice, evidence),
    }
}

/// Hint 4, from the locality area (uFLIP section 5.2) and the response time of random writes outside it.
fn focused_area(baselines: &[Baseline], micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let Some(locality) = locality(baselines, micro_benchmarks) else {
        return not_measured("locality micro-benchmark");
    };
    let (Some(random), Some(sequential)) = (baseline(baselines, "RW"), baseline(baselines, "SW")) else {
        return not_measured("baseline of random and sequential writes");
    };
    let penalty = random.run.response.mean_ns / sequential.run.response.mean_ns;
    let noise = baseline_noise(random).hypot(baseline_noise(sequential));
    let area = Bytes(locality.area_bytes as u64);
    let evidence = if locality.area_bytes > 0.0 {
        format!(
            "Random writes cost {penalty:.1} times sequential writes, within {area} at most {:.1} times{}.",
            locality.ratio,
            if locality.degrades { "" } else { " (no limit was seen up to there)" }
        )
    } else {
        format!("Random writes cost {penalty:.1} times sequential writes, and no less in any area measured.")
    };
    let focus = if locality.area_bytes > 0.0 {
        (HintVerdict::Holds, format!("Keep random writes within {area} at a time."))
    } else {
        (HintVerdict::DoesNotHold, "Avoid random writes: a focused area makes them no faster.".to_owned())
    };
    choose(
        exceeds(penalty, noise, RANDOM_EXPENSIVE),
        evidence,
        focus,
        (HintVerdict::DoesNotHold, "Random writes need no focused area.".to_owned()),
    )
}

/// Hint 5, from the knee over Partitions (uFLIP section 5.2).
fn few_partitions(micro_benchmarks: &[MicroBenchmark]) -> Decision {
    let points = curve(micro_benchmarks, "Partitions", "SW");
    let Some(found) = partitioning(micro_benchmarks).filter(|_| points.len() > 1) else {
        return not_measured("partitioning micro-benchmark with a single partition and more");
    };
    let single = points[0].response_ns_mean;
    let beyond: Vec<f64> = points
        .iter()
        .filter(|point| point.value > f64::from(found.partitions))
        .map(|point| point.response_ns_mean / single)
        .collect();
    let n = found.partitions;
    if !found.degrades {
        let evidence =
            format!("Up to {n} partitions, the most measured, cost at most {:.1} times one.", found.ratio);
        return (HintVerdict::DoesNotHold, format!("Write {n} partitions at once if that helps."), evidence);
    }
    let evidence = format!(
        "Up to {n} partitions cost at most {:.1} times one, more up to {:.1} times.",
        found.ratio,
        largest(&beyond)
    );
    (HintVerdict::Holds, format!("Write at most {n} sequential partitions at once."), evidence)
}

#[cfg(test)]
mod tests;
