//! What an experiment prints: predicted and measured, as a table or as JSON.

use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_em::IoCounts;
use flashlab_em::experiment::{CostPrediction, ExperimentOutcome};
use serde_json::{Map, Value, json};

/// The document of an experiment.
pub fn document(outcome: &ExperimentOutcome) -> Value {
    json!({
        "algorithm": outcome.algorithm,
        "elements": outcome.elements,
        "verified": true,
        "ios": { "planned": outcome.planned.total(), "issued": outcome.issued.total() },
        "bytes": outcome.issued.bytes().0,
        "time_ns": outcome.time.0,
        "host_ns": outcome.host.iter().copied().sum::<Nanos>().0,
        "predicted": predicted(&outcome.predictions(), Some(outcome.time)),
        "bandwidth_bound_ratio": outcome.bandwidth_bound_ratio(),
    })
}

/// The predictions by model; without a measured time there is no error.
pub fn predicted(predictions: &[CostPrediction], measured: Option<Nanos>) -> Value {
    let entry = |prediction: &CostPrediction| {
        let error = measured.map(|measured| prediction.error(measured));
        (prediction.model.name().to_owned(), json!({ "time_ns": prediction.time.0, "error": error }))
    };
    Value::Object(predictions.iter().map(entry).collect::<Map<_, _>>())
}

/// The experiment for people.
pub fn text(outcome: &ExperimentOutcome, target: &str, folder: &str) -> String {
    let ExperimentOutcome { algorithm, elements, time, bounds, .. } = outcome;
    let bound = outcome.bound();
    let host: Nanos = outcome.host.iter().copied().sum();
    let mut text = format!("{algorithm} of {elements} elements on {target}: the result is verified\n\n");
    text += &choices(&outcome.choices);
    text += &format!("\n{:<10} {:>12} {:>12} {:>12}\n", "IOs", "planned", "issued", "bytes");
    for (name, mode) in [("reads", Mode::Read), ("writes", Mode::Write)] {
        let (planned, issued) = (outcome.planned.of(mode), outcome.issued.of(mode));
        text += &format!("{name:<10} {planned:>12} {issued:>12} {:>12}\n", outcome.issued.bytes_of(mode));
    }
    let lengths = |counts: &IoCounts| counts.iter().count();
    let is_short = lengths(&outcome.planned).max(lengths(&outcome.issued)) <= SIZES_SHOWN;
    if outcome.planned != outcome.issued && is_short {
        text += &format!(
            "by size, planned: {}\nby size, issued:  {}\n",
            sizes(&outcome.planned),
            sizes(&outcome.issued)
        );
    }
    let ratio = outcome.bandwidth_bound_ratio();
    text += &format!(
        "\ntime {time}, of which the host computed {host}; reading and writing the same bytes in order: {bound} \
         ({ratio:.3} of the time)\n"
    );
    if let (Some(least), Some(most), 2..) = (bounds.iter().min(), bounds.iter().max(), bounds.len()) {
        text += &format!("that was measured {} times, as {least} to {most}\n", bounds.len());
    }
    text += "\n";
    text += &prediction_table(&outcome.predictions(), Some(*time));
    text + &format!("\nEvery IO is in {folder}: flashlab report {folder}\n")
}

/// Names and values.
pub fn choices(choices: &[(&'static str, String)]) -> String {
    choices.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

/// A line for each model.
pub fn prediction_table(predictions: &[CostPrediction], measured: Option<Nanos>) -> String {
    let mut text = format!("{:<28} {:>12} {:>10}\n", "model", "predicted", "error");
    for prediction in predictions {
        let error =
            measured.map_or("-".to_owned(), |time| format!("{:+.1} %", prediction.error(time) * 100.0));
        let (model, time) = (prediction.model.to_string(), prediction.time.to_string());
        text += &format!("{model:<28} {time:>12} {error:>10}\n");
    }
    text
}

/// The most different IOs that are listed one by one.
const SIZES_SHOWN: usize = 12;

/// Counts by direction and size.
fn sizes(counts: &IoCounts) -> String {
    let one = |(mode, size, count): (Mode, Bytes, u64)| format!("{count} {mode}s of {size}");
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}
