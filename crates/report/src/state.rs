//! The state in which the device was measured: how flashlab knows that it is steady, and otherwise what the
//! figures cannot say.

use flashlab_analysis::STEADY_CONFIDENCE_LEAST;
use flashlab_analysis::findings::{Findings, Method, SteadyRound};
use flashlab_base::SavedState;

use crate::charts::{Chart, ChartAxis, ChartSeries, Drawing, Figures};
use crate::units;

/// What the reader has to know about the state before the figures.
pub fn state_sentence(method: &Method) -> String {
    let unknown = "It is not known whether the device was steady: random writes of a device that maps pages may become several \
                   times slower after more of them. `--state steady` measures the steady state.";
    let collects_nothing =
        "No garbage collection was due. Random writes may become several times slower than these figures.";
    let partly = method.state.ends_with("(in part)");
    let what = if method.is_part { "The measured part of the device" } else { "The device" };
    let name = method.state.split(' ').next().unwrap_or_default();
    let sentence = match (&method.steady, &method.saved, name) {
        (Some(steady), ..) => {
            let is = match (steady.is_steady, method.is_part) {
                (true, true) => "this part of the device was steady",
                (true, false) => "the device was steady",
                (false, _) => "the device was not known to be steady",
            };
            let confidence = confidence_words(steady.is_steady, steady.confidence);
            format!("When the runs began, {is}{confidence}: {}.", steady.evidence)
        }
        (None, Some(SavedState { state, confidence, evidence }), name) => {
            let is_steady = name == "steady";
            let confidence = confidence_words(is_steady, *confidence);
            let saved = format!("The device began in a saved state, {state}{confidence}: {evidence}.");
            match name {
                "steady" => saved,
                "sequential" => format!("{saved} {collects_nothing}"),
                _ => format!("{saved} {unknown}"),
            }
        }
        (None, None, "random") if partly => {
            format!("{what} was written randomly for a limited time, less than its capacity once. {unknown}")
        }
        (None, None, "random") => format!("{what} was written randomly, its capacity once. {unknown}"),
        (None, None, "sequential") => format!("{what} was written from end to end. {collects_nothing}"),
        _ => format!("{what} was measured as it was found. {unknown}"),
    };
    if method.is_part { format!("{sentence} {}", part_sentence(method)) } else { sentence }
}

/// What restricts the meaning of the figures, each a sentence: the state, and the warnings that may change a verdict.
pub fn doubts(findings: &Findings) -> Vec<String> {
    std::iter::once(state_sentence(&findings.method))
        .chain(findings.severe_warnings().map(|warning| warning.message.clone()))
        .collect()
}

/// What a measurement of a part of a device cannot say.
fn part_sentence(method: &Method) -> String {
    format!(
        "This holds for the measured part of {} only: the rest of the device may serve it as over-provisioning, and a full \
         device can be several times slower.",
        method.target_size
    )
}

/// ` with a confidence of 97.3 %`; empty if there is none.
fn confidence_words(is_steady: bool, confidence: Option<f64>) -> String {
    match confidence.map(units::percent) {
        Some(confidence) if is_steady => format!(" with a confidence of {confidence}"),
        Some(confidence) => {
            let least = units::percent(STEADY_CONFIDENCE_LEAST);
            format!(" (confidence {confidence}, and at least {least} is needed)")
        }
        None => String::new(),
    }
}

/// The rounds of random writes: throughput, or write amplification if the device was conditioned without
/// times.
pub fn steady_chart(findings: &Findings) -> Option<Chart> {
    let steady = findings.method.steady.as_ref()?;
    let capacity = findings.method.target_size.0.max(1) as f64;
    let written = steady.rounds.iter().scan(0, |sum, round| {
        *sum += round.written_bytes;
        Some(Some(*sum as f64 / capacity))
    });
    let of = |value: fn(&SteadyRound) -> Option<f64>| -> Option<Figures> {
        let values: Vec<Option<f64>> = steady.rounds.iter().map(value).collect();
        values.iter().any(Option::is_some).then_some(Figures(values))
    };
    let (label, unit, values) = match of(|round| round.throughput_bytes_per_s) {
        Some(values) => ("throughput", "bytes/s", values),
        None => ("write amplification", "ratio", of(|round| round.write_amplification)?),
    };
    let axis = |label: &str, unit: &str| ChartAxis {
        label: label.to_owned(),
        scale: "linear",
        unit: unit.to_owned(),
        labels: Vec::new(),
    };
    Some(Chart {
        id: "steady".to_owned(),
        title: "Random writes until the device is steady".to_owned(),
        caption: units::sentence(&steady.evidence),
        wide: true,
        drawing: Drawing {
            x: axis("capacities written randomly", ""),
            y: axis(label, unit),
            values: Figures(written.collect()),
            series: vec![ChartSeries {
                name: label.to_owned(),
                colour: "rw".to_owned(),
                points: "rw".to_owned(),
                style: "line",
                values,
                band: None,
            }],
            marks: Vec::new(),
            level: None,
        },
    })
}
