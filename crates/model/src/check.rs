//! Predictions beside what was measured afterwards: `flashlab model check`.
//!
//! # Method
//! 1. Runs of the same requests, in several zones and repetitions, are one row: the median of their medians is what was
//!    measured, and all their requests over all of their time.
//! 2. The error of a row is |predicted / measured - 1|; that of a class is the mean of its rows, as in the paper's Table 2.
//! 3. A class whose line does not hold is predicted by interpolation, and counted apart: it is in no mean of the others.
//! 4. The repeatability of a device is the error of a measurement as a prediction of the others of the same requests in the same
//!    place. What was fitted and is measured again says how far the device changed since: its drift. No model can be asked
//!    for less than the larger of the two, and where that is large an error says little of the model: there is no verdict.

use std::collections::BTreeMap;

use flashlab_base::{Bytes, median};
use flashlab_sim::profile::ThroughputClass;
use serde::Serialize;

use crate::device_model::{DeviceModel, WorkloadRequest};
use crate::run_points::RunPoint;

/// The error of the paper's simulator against its device (Table 2), of requests of 4 KB to 8 MB.
const PAPER_ERRORS: [(ThroughputClass, f64); 4] = [
    (ThroughputClass::SequentialRead, 0.0531),
    (ThroughputClass::RandomRead, 0.046),
    (ThroughputClass::SequentialWrite, 0.0657),
    (ThroughputClass::RandomWrite, 0.041),
];
/// What a prediction may be off on a simulated device ...
const THROUGHPUT_GOAL: f64 = 0.05;
const P50_GOAL: f64 = 0.1;
/// ... and on a real one, relative to the larger of its repeatability and its drift ...
const REPEATABILITY_GOAL: f64 = 1.5;
/// ... which counts up to here: a model that may be off by more than 1.5 times a quarter says little of a device. The disk that this was
/// written on repeats within 8 to 13 % when nothing else runs, and within 60 % under load.
const UNSTEADINESS_MOST: f64 = 0.25;

/// What was varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckedParameter {
    /// Other sizes, in other zones.
    Size,
    /// Other queue depths.
    Depth,
    /// Other mixes of reads and writes.
    Mix,
    /// Other fills.
    Fill,
    /// Other sizes, over the distance from the request before.
    Distance,
}

/// One kind of requests, predicted and measured.
#[derive(Clone, Debug, Serialize)]
pub struct CheckRow {
    /// What was varied.
    pub varied: CheckedParameter,
    /// The class, as `rr`; of a mix `rr`.
    pub class: &'static str,
    /// The request size.
    pub size_bytes: u64,
    /// The queue depth.
    pub depth: u32,
    /// The share of writes that was done; null where there is no mix.
    pub write_share: Option<f64>,
    /// The data on the device; null where the fill was not varied.
    pub filled_bytes: Option<u64>,
    /// The mean distance from the request before; null where it was not varied.
    pub distance_bytes: Option<u64>,
    /// Whether the model of the class holds, where the size was varied; always where something else was.
    pub holds: bool,
    /// How many runs it was measured in.
    pub runs: usize,
    /// The equation.
    pub equation: &'static str,
    /// Bytes a second: predicted, with the ends of its interval.
    pub predicted_bytes_per_s: [f64; 3],
    /// Bytes a second: measured.
    pub measured_bytes_per_s: f64,
    /// The error of throughput.
    pub throughput_error: f64,
    /// The median response time: predicted, with the ends of its interval; null of a mix.
    pub predicted_p50_us: Option<[f64; 3]>,
    /// The median response time: measured; null of a mix.
    pub measured_p50_us: Option<f64>,
    /// The error of the median.
    pub p50_error: Option<f64>,
    /// Whether the measured throughput lies in the predicted interval.
    pub in_interval: bool,
    /// What one measurement of throughput misses others by; null where none was repeated.
    pub throughput_repeatability: Option<f64>,
    /// The same of the median.
    pub p50_repeatability: Option<f64>,
    /// How far throughput of the requests of this class that were fitted changed; null where none was measured again.
    pub throughput_drift: Option<f64>,
    /// The same of medians.
    pub p50_drift: Option<f64>,
}

/// The mean errors of some rows.
#[derive(Clone, Debug, Serialize)]
pub struct CheckSummary {
    /// `sr` and so on, `depth`, `mix`, `fill`, `distance`; `apart` for the classes whose model does not hold, `all` for everything else.
    pub name: &'static str,
    /// Whether the model of the class holds. Those that do not are in `apart` and not in `all`.
    pub holds: bool,
    /// How many rows there are.
    pub rows: usize,
    /// The mean error of throughput.
    pub throughput_error: f64,
    /// The mean error of medians.
    pub p50_error: Option<f64>,
    /// The error of the paper's model of this class.
    pub paper_error: Option<f64>,
    /// The mean repeatability of throughput.
    pub throughput_repeatability: Option<f64>,
    /// The mean repeatability of medians.
    pub p50_repeatability: Option<f64>,
    /// How far throughput changed since the fit; null where nothing was measured again.
    pub throughput_drift: Option<f64>,
    /// The same of medians.
    pub p50_drift: Option<f64>,
    /// The share of the rows whose throughput lies in the predicted interval.
    pub in_interval: f64,
    /// The verdict, of `all` the worst one of the others: the goal is 5 % of throughput and 10 % of medians on a simulated device; on another one 1.5 times its
    /// repeatability, or its drift if that is larger. It is undecided where nothing was repeated, and where an error is within the goal
    /// only because the device differs from itself by more than 25 %.
    pub goal: GoalVerdict,
}

/// Whether a goal is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoalVerdict {
    /// It is.
    Met,
    /// The device repeats so badly that it cannot be decided.
    Undecided,
    /// It is not.
    Missed,
}

/// Everything that a check found.
#[derive(Clone, Debug, Serialize)]
pub struct ModelCheck {
    /// The device that was checked.
    pub device: String,
    /// Whether it is simulated.
    pub is_simulated: bool,
    /// The means, `all` last.
    pub summaries: Vec<CheckSummary>,
    /// Each kind of requests.
    pub rows: Vec<CheckRow>,
    /// What has no verdict, and why.
    pub undecided: Vec<String>,
    /// The classes whose model does not hold, and why.
    pub apart: Vec<String>,
    /// What could not be predicted, and why.
    pub left_out: Vec<String>,
}

/// What has to be the same for runs to be one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    varied: CheckedParameter,
    class: ThroughputClass,
    size: Bytes,
    depth: u32,
    /// In thousandths, because it was computed.
    write_share: u64,
    filled: Option<Bytes>,
    distance: Option<Bytes>,
}

/// A run: where, how many requests, how many of them writes, requests a second, median.
struct Run {
    place: Bytes,
    ios: f64,
    writes: f64,
    ios_per_s: f64,
    p50_ns: f64,
}

impl ModelCheck {
    /// Compares predictions with points that were measured afterwards. Requests that were fitted are no rows: they tell the
    /// device's drift, if it is the device that the model was fitted to.
    pub fn new(
        model: &DeviceModel,
        device: &str,
        is_simulated: bool,
        is_fitted_device: bool,
        points: &[RunPoint],
    ) -> ModelCheck {
        let (mut rows, mut left_out) = (Vec::new(), Vec::new());
        let mut fitted = kinds(&model.fitted_to.points);
        fitted.retain(|kind, _| kind.varied == CheckedParameter::Size);
        let (again, checked): (BTreeMap<_, _>, BTreeMap<_, _>) =
            kinds(points).into_iter().partition(|(kind, _)| fitted.contains_key(kind));
        for (kind, runs) in checked {
            let write_share = (kind.varied == CheckedParameter::Mix).then(|| write_share(&runs));
            let request = WorkloadRequest {
                class: kind.class,
                size: kind.size,
                depth: kind.depth,
                write_share,
                filled: kind.filled,
                distance: kind.distance,
                regime: None,
            };
            // A device without seeks has no model of them, and nothing is missing.
            if kind.distance.is_some() && model.seeks.get(&kind.class).is_none_or(Result::is_err) {
                continue;
            }
            match model.predict(request) {
                Ok(predicted) => {
                    let holds = kind.varied != CheckedParameter::Size
                        || model.class(kind.class).is_ok_and(|class| class.parameters.is_ok());
                    let drift = |figure: fn(&[Run]) -> Option<f64>| {
                        drift_of(kind.class, &fitted, &again, figure).filter(|_| is_fitted_device)
                    };
                    rows.push(CheckRow {
                        holds,
                        throughput_drift: drift(|runs| Some(rate(runs))),
                        p50_drift: drift(median_p50).filter(|_| write_share.is_none()),
                        ..row(kind, write_share, &runs, predicted)
                    });
                }
                Err(error) => {
                    let (class, size, depth) = (kind.class.words(), kind.size, kind.depth);
                    left_out.push(format!("{class}s of {size} at depth {depth}: {error}"));
                }
            }
        }
        let apart = model.classes.iter().filter_map(|(class, found)| {
            let reason = found.as_ref().ok()?.parameters.as_ref().err()?;
            Some(format!("{}s: {reason}", class.words()))
        });
        let mut report = ModelCheck {
            device: device.to_owned(),
            is_simulated,
            summaries: Vec::new(),
            rows,
            undecided: Vec::new(),
            apart: apart.collect(),
            left_out,
        };
        report.summarise();
        report
    }

    /// What misses the goal: the summaries of models that hold, without `all`.
    pub fn missed(&self) -> impl Iterator<Item = &CheckSummary> {
        let misses = |summary: &&CheckSummary| summary.holds && summary.goal == GoalVerdict::Missed;
        self.summaries.iter().filter(|summary| summary.name != "all").filter(misses)
    }

    /// Whether the goal is met by all classes, and all other kinds of requests, whose models hold.
    pub fn goal(&self) -> GoalVerdict {
        self.summaries
            .iter()
            .find(|summary| summary.name == "all")
            .map_or(GoalVerdict::Undecided, |all| all.goal)
    }

    fn summarise(&mut self) {
        let mut summaries = Vec::new();
        for (class, paper) in PAPER_ERRORS {
            let name = class.short_name();
            let of_class =
                self.rows.iter().filter(|row| row.varied == CheckedParameter::Size && row.class == name);
            summaries.extend(summary(name, of_class.collect(), Some(paper), self.is_simulated));
        }
        for (name, varied) in [
            ("depth", CheckedParameter::Depth),
            ("mix", CheckedParameter::Mix),
            ("fill", CheckedParameter::Fill),
            ("distance", CheckedParameter::Distance),
        ] {
            let of_kind = self.rows.iter().filter(|row| row.varied == varied);
            summaries.extend(summary(name, of_kind.collect(), None, self.is_simulated));
        }
        for (name, holds) in [("apart", false), ("all", true)] {
            let rows = self.rows.iter().filter(|row| row.holds == holds);
            summaries.extend(summary(name, rows.collect(), None, self.is_simulated));
        }
        let undecided =
            summaries.iter().filter(|summary| summary.holds && summary.goal == GoalVerdict::Undecided);
        self.undecided = undecided.map(CheckSummary::no_verdict).collect();
        // A mean over everything hides a class that misses: the verdict on all is the worst one.
        let worst = summaries.iter().filter(|summary| summary.holds).map(|summary| summary.goal).max();
        if let (Some(all), Some(worst)) = (summaries.iter_mut().find(|summary| summary.name == "all"), worst)
        {
            all.goal = worst;
        }
        self.summaries = summaries;
    }
}

fn kinds(points: &[RunPoint]) -> BTreeMap<Kind, Vec<Run>> {
    let mut kinds: BTreeMap<Kind, Vec<Run>> = BTreeMap::new();
    let mut mixes: BTreeMap<u32, (Kind, Run)> = BTreeMap::new();
    for point in points {
        let workload = &point.workload;
        let is_mix = workload.write_share > 0.0 && workload.write_share < 1.0;
        let varied = match () {
            () if is_mix => CheckedParameter::Mix,
            () if workload.filled.is_some() => CheckedParameter::Fill,
            () if workload.distance.is_some() => CheckedParameter::Distance,
            () if workload.depth > 1 => CheckedParameter::Depth,
            () => CheckedParameter::Size,
        };
        let class = if is_mix { ThroughputClass::RandomRead } else { workload.class };
        let write_share = (workload.write_share * 1e3).round() as u64;
        let kind = Kind {
            varied,
            class,
            size: workload.size,
            depth: workload.depth,
            write_share,
            filled: workload.filled,
            distance: workload.distance,
        };
        let run = Run {
            place: workload.target_offset,
            ios: point.ios as f64,
            writes: if workload.class.writes() { point.ios as f64 } else { 0.0 },
            ios_per_s: point.ios_per_s,
            p50_ns: point.p50_ns,
        };
        if !is_mix {
            kinds.entry(kind).or_default().push(run);
        } else if let Some((_, other)) = mixes.get_mut(&point.run) {
            other.ios_per_s += run.ios_per_s;
            other.ios += run.ios;
            other.writes += run.writes;
        } else {
            mixes.insert(point.run, (kind, run));
        }
    }
    for (kind, run) in mixes.into_values() {
        kinds.entry(kind).or_default().push(run);
    }
    kinds
}

/// How far the requests of a class that were measured again are off what was fitted.
fn drift_of(
    class: ThroughputClass,
    fitted: &BTreeMap<Kind, Vec<Run>>,
    again: &BTreeMap<Kind, Vec<Run>>,
    figure: fn(&[Run]) -> Option<f64>,
) -> Option<f64> {
    let of_class = again.iter().filter(|(kind, _)| kind.class == class);
    mean(of_class.filter_map(|(kind, runs)| Some((figure(fitted.get(kind)?)? / figure(runs)? - 1.0).abs())))
}

fn median_p50(runs: &[Run]) -> Option<f64> {
    median(runs.iter().map(|run| run.p50_ns))
}

/// The share of writes that was done: the draws of a random mix are a per cent or two off the one that was asked for, and where a write
/// takes as long as fifty reads that much changes the rate.
fn write_share(runs: &[Run]) -> f64 {
    runs.iter().map(|run| run.writes).sum::<f64>() / runs.iter().map(|run| run.ios).sum::<f64>()
}

/// Requests a second. All requests over all of the time: a stall counts with the time that it took.
fn rate(runs: &[Run]) -> f64 {
    let seconds: f64 = runs.iter().map(|run| run.ios / run.ios_per_s).sum();
    runs.iter().map(|run| run.ios).sum::<f64>() / seconds
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// What one run misses the others of the same place by.
fn repeatability(runs: &[Run], figure: fn(&Run) -> f64) -> Option<f64> {
    let errors = runs.iter().enumerate().filter_map(|(index, run)| {
        let others =
            runs.iter().enumerate().filter(|(other, same)| *other != index && same.place == run.place);
        let others = median(others.map(|(_, other)| figure(other)))?;
        Some((figure(run) / others - 1.0).abs())
    });
    mean(errors)
}

fn row(
    kind: Kind,
    write_share: Option<f64>,
    runs: &[Run],
    predicted: crate::device_model::Prediction,
) -> CheckRow {
    let size = kind.size.0 as f64;
    let rate = rate(runs) * size;
    let p50 = median_p50(runs).filter(|_| write_share.is_none());
    let bytes = predicted.bytes_per_s;
    let times = predicted.p50_ns.map(|p50| [p50.estimate / 1e3, p50.low / 1e3, p50.high / 1e3]);
    CheckRow {
        varied: kind.varied,
        class: kind.class.short_name(),
        size_bytes: kind.size.0,
        depth: kind.depth,
        write_share,
        filled_bytes: kind.filled.map(|filled| filled.0),
        distance_bytes: kind.distance.map(|distance| distance.0),
        holds: true,
        runs: runs.len(),
        equation: predicted.equation,
        predicted_bytes_per_s: [bytes.estimate, bytes.low, bytes.high],
        measured_bytes_per_s: rate,
        throughput_error: (bytes.estimate / rate - 1.0).abs(),
        predicted_p50_us: times,
        measured_p50_us: p50.map(|ns| ns / 1e3),
        in_interval: is_inside(rate, [bytes.low, bytes.high]),
        p50_error: times.zip(p50).map(|(times, ns)| (times[0] * 1e3 / ns - 1.0).abs()),
        throughput_repeatability: repeatability(runs, |run| run.ios_per_s),
        p50_repeatability: repeatability(runs, |run| run.p50_ns).filter(|_| write_share.is_none()),
        throughput_drift: None,
        p50_drift: None,
    }
}

/// Whether a rate lies in an interval. A device without noise repeats itself, and its interval has no width: the last digit of a sum is no
/// miss.
fn is_inside(rate: f64, [low, high]: [f64; 2]) -> bool {
    let rounding = rate * 1e-9;
    (low - rounding..=high + rounding).contains(&rate)
}

fn summary(
    name: &'static str,
    rows: Vec<&CheckRow>,
    paper_error: Option<f64>,
    is_simulated: bool,
) -> Option<CheckSummary> {
    let of = |figure: fn(&CheckRow) -> Option<f64>| mean(rows.iter().filter_map(|row| figure(row)));
    let throughput_error = of(|row| Some(row.throughput_error))?;
    let in_interval = rows.iter().filter(|row| row.in_interval).count() as f64 / rows.len() as f64;
    let mut summary = CheckSummary {
        name,
        holds: rows.iter().all(|row| row.holds),
        rows: rows.len(),
        throughput_error,
        p50_error: of(|row| row.p50_error),
        paper_error,
        throughput_repeatability: of(|row| row.throughput_repeatability),
        p50_repeatability: of(|row| row.p50_repeatability),
        throughput_drift: of(|row| row.throughput_drift),
        p50_drift: of(|row| row.p50_drift),
        in_interval,
        goal: GoalVerdict::Undecided,
    };
    summary.goal = summary.verdict(is_simulated);
    Some(summary)
}

impl CheckSummary {
    /// How far the device differs from itself: the larger of repeatability and drift, of throughput and of medians.
    fn unsteadiness(&self) -> [Option<f64>; 2] {
        [[self.throughput_repeatability, self.throughput_drift], [self.p50_repeatability, self.p50_drift]]
            .map(|known| known.into_iter().flatten().reduce(f64::max))
    }

    fn verdict(&self, is_simulated: bool) -> GoalVerdict {
        if is_simulated {
            let goals = [(Some(self.throughput_error), THROUGHPUT_GOAL), (self.p50_error, P50_GOAL)];
            let is_met = goals.iter().all(|(error, goal)| error.is_none_or(|error| error <= *goal));
            return if is_met { GoalVerdict::Met } else { GoalVerdict::Missed };
        }
        let [throughput, p50] = self.verdicts();
        throughput.max(p50)
    }

    /// The verdicts on throughput and on medians of a real device.
    fn verdicts(&self) -> [GoalVerdict; 2] {
        let [throughput, p50] = self.unsteadiness();
        [verdict(Some(self.throughput_error), throughput), verdict(self.p50_error, p50)]
    }

    /// Why there is no verdict.
    fn no_verdict(&self) -> String {
        let name = self.name;
        let figures = ["throughput", "p50"].into_iter().zip(self.verdicts()).zip(self.unsteadiness());
        let undecided = figures.filter(|((_, verdict), _)| *verdict == GoalVerdict::Undecided);
        let (mut changed, mut alone) = (Vec::new(), Vec::new());
        for ((figure, _), by) in undecided {
            match by {
                Some(by) => changed.push(format!("{figure} changed by {:.0} %", by * 100.0)),
                None => alone.push(figure),
            }
        }
        if changed.is_empty() {
            return format!("{name}: no measurement of {} was repeated", alone.join(" and "));
        }
        format!(
            "{name}: {} between measurements of the same requests; beyond {:.0} % an error says little of the model",
            changed.join(" and "),
            UNSTEADINESS_MOST * 100.0
        )
    }
}

/// The verdict on an error of a real device that differs from itself this far.
fn verdict(error: Option<f64>, unsteadiness: Option<f64>) -> GoalVerdict {
    match (error, unsteadiness) {
        (None, _) => GoalVerdict::Met,
        (Some(_), None) => GoalVerdict::Undecided,
        (Some(error), Some(own)) if error > REPEATABILITY_GOAL * own => GoalVerdict::Missed,
        (Some(error), Some(_)) if error > REPEATABILITY_GOAL * UNSTEADINESS_MOST => GoalVerdict::Undecided,
        (Some(_), Some(_)) => GoalVerdict::Met,
    }
}
