//! How far a twin is from its device: for each point of each micro-benchmark the mean, the median and the 99th percentile.
//!
//! # Model
//! A point's response times are those of all its repetitions together. The error of a figure is |twin / device - 1|. A
//! micro-benchmark's error is the mean over its points, and a device's the mean over its micro-benchmarks, so that one with
//! many points counts no more than one with few.
//!
//! The device's own scatter is the error of one repetition against the others together: no twin can be expected to be nearer.

use serde::Serialize;

use crate::findings::Regime;

/// From this mean error of a micro-benchmark on, the twin lacks something that the device has.
const MISSED: f64 = 0.25;
/// A point is an outlier where the twin is off by this factor, and by this many times what the device is off itself.
const OUTLIER_FACTOR: f64 = 2.0;
const OUTLIER_OWN: f64 = 3.0;

/// What a twin is made of: it decides what a large error is due to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TwinKind {
    /// Mechanisms of a device, or equations.
    Mechanism,
    /// Measured response times, drawn one by one.
    ResponseTree,
}

/// Figures of a point's response times, in nanoseconds; or errors of them, relative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TwinFigures {
    /// Of the mean.
    pub mean: f64,
    /// Of the median.
    pub p50: f64,
    /// Of the 99th percentile.
    pub p99: f64,
}

impl TwinFigures {
    /// Of these response times, which it sorts; zeros for none.
    pub fn of(responses: &mut [u64]) -> TwinFigures {
        responses.sort_unstable();
        let Some(last) = responses.len().checked_sub(1) else { return TwinFigures::default() };
        let quantile = |q: f64| responses[(q * last as f64).round() as usize] as f64;
        let mean = responses.iter().map(|&ns| ns as f64).sum::<f64>() / responses.len() as f64;
        TwinFigures { mean, p50: quantile(0.5), p99: quantile(0.99) }
    }

    /// The mean of the absolute logarithms of the ratios of another one's figures to these.
    fn log_ratio(self, other: TwinFigures) -> f64 {
        let log = |one: f64, other: f64| (other.max(1.0) / one.max(1.0)).ln().abs();
        (log(self.mean, other.mean) + log(self.p50, other.p50) + log(self.p99, other.p99)) / 3.0
    }

    fn error_of(self, twin: TwinFigures) -> TwinFigures {
        let error = |device: f64, twin: f64| (twin / device.max(1.0) - 1.0).abs();
        TwinFigures {
            mean: error(self.mean, twin.mean),
            p50: error(self.p50, twin.p50),
            p99: error(self.p99, twin.p99),
        }
    }

    /// The mean of each figure; zeros for none.
    pub fn mean_of(all: impl Iterator<Item = TwinFigures>) -> TwinFigures {
        let (mut sum, mut count) = (TwinFigures::default(), 0.0_f64);
        for one in all {
            (sum.mean, sum.p50, sum.p99) = (sum.mean + one.mean, sum.p50 + one.p50, sum.p99 + one.p99);
            count += 1.0;
        }
        let each = |value: f64| value / count.max(1.0);
        TwinFigures { mean: each(sum.mean), p50: each(sum.p50), p99: each(sum.p99) }
    }
}

/// All response times of a point, of one of the two.
#[derive(Clone, Debug, PartialEq)]
pub struct PooledPoint {
    /// The micro-benchmark, as `granularity`.
    pub micro_benchmark: String,
    /// The experiment, as `SR` or `SR/RW`.
    pub experiment: String,
    /// The regime of its writes; `None` if the device has one, or nothing is written.
    pub regime: Option<Regime>,
    /// The parameter's value.
    pub value: f64,
    /// As a person writes it.
    pub label: String,
    /// In nanoseconds, of each repetition.
    pub repetitions: Vec<Vec<u64>>,
}

impl PooledPoint {
    fn is_same(&self, other: &PooledPoint) -> bool {
        let name = |point: &PooledPoint| {
            (point.micro_benchmark.clone(), point.experiment.clone(), point.regime, point.label.clone())
        };
        name(self) == name(other)
    }

    /// Puts the repetitions of each point together.
    pub fn pool(runs: impl IntoIterator<Item = PooledPoint>) -> Vec<PooledPoint> {
        let mut points: Vec<PooledPoint> = Vec::new();
        for run in runs {
            match points.iter_mut().find(|point| point.is_same(&run)) {
                Some(point) => point.repetitions.extend(run.repetitions),
                None => points.push(run),
            }
        }
        points
    }

    /// Of all repetitions together; none without an IO.
    fn figures(&self) -> Option<TwinFigures> {
        let mut all = self.repetitions.concat();
        (!all.is_empty()).then(|| TwinFigures::of(&mut all))
    }

    /// The mean error of a repetition against the others; none of one repetition.
    fn own_scatter(&self) -> Option<TwinFigures> {
        let errors = self.repetitions.iter().enumerate().map(|(index, one)| {
            let mut others = [&self.repetitions[..index], &self.repetitions[index + 1..]].concat().concat();
            TwinFigures::of(&mut others).error_of(TwinFigures::of(&mut one.clone()))
        });
        (self.repetitions.len() > 1).then(|| TwinFigures::mean_of(errors))
    }
}

/// A point of a micro-benchmark, on both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TwinPoint {
    /// The experiment, as `SR` or `SR/RW`.
    pub experiment: String,
    /// The regime of its writes; null if the device has one, or nothing is written.
    pub regime: Option<Regime>,
    /// The parameter's value.
    pub value: f64,
    /// As a person writes it.
    pub label: String,
    /// The device's figures, in nanoseconds.
    pub device: TwinFigures,
    /// The twin's.
    pub twin: TwinFigures,
    /// How far they are apart, relative.
    pub error: TwinFigures,
    /// How far the device is from itself, relative; null where it was measured once.
    pub own: Option<TwinFigures>,
}

/// A micro-benchmark, on both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TwinMicroBenchmark {
    /// Its name, as `granularity`.
    pub name: String,
    /// The mean error over its points, relative.
    pub error: TwinFigures,
    /// How far the device is from itself, the mean over its points; null where no point was measured twice.
    pub own: Option<TwinFigures>,
    /// The mechanism that the twin lacks, where its mean error is large; null elsewhere.
    pub missing: Option<&'static str>,
    /// Its points, in the order of experiments and values.
    pub points: Vec<TwinPoint>,
}

/// All points in a regime of writes, on both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TwinRegime {
    /// The regime.
    pub regime: Regime,
    /// The mean error over its points, relative.
    pub error: TwinFigures,
    /// How far the device is from itself; null where no point was measured twice.
    pub own: Option<TwinFigures>,
    /// Whether the twin reproduces it: its means and its medians, as of a micro-benchmark.
    pub is_reproduced: bool,
}

/// A device and its twin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TwinDifference {
    /// The mean over the micro-benchmarks, relative.
    pub error: TwinFigures,
    /// How far the device is from itself, the mean over the micro-benchmarks; null where nothing was measured twice.
    pub own: Option<TwinFigures>,
    /// Those that both have.
    pub micro_benchmarks: Vec<TwinMicroBenchmark>,
    /// Bursts and what lasts, of a device with two regimes; empty of others.
    pub regimes: Vec<TwinRegime>,
}

impl TwinDifference {
    /// Compares the points that both have.
    pub fn of(device: Vec<PooledPoint>, twin: &[PooledPoint], kind: TwinKind) -> TwinDifference {
        let mut micro_benchmarks: Vec<TwinMicroBenchmark> = Vec::new();
        for point in device {
            let other = twin.iter().find(|other| other.is_same(&point)).and_then(PooledPoint::figures);
            let Some((device, twin)) = point.figures().zip(other) else { continue };
            let (error, own) = (device.error_of(twin), point.own_scatter());
            let PooledPoint { micro_benchmark, experiment, regime, value, label, .. } = point;
            let compared = TwinPoint { experiment, regime, value, label, device, twin, error, own };
            match micro_benchmarks.iter_mut().find(|micro| micro.name == micro_benchmark) {
                Some(micro) => micro.points.push(compared),
                None => micro_benchmarks.push(TwinMicroBenchmark {
                    name: micro_benchmark,
                    error: TwinFigures::default(),
                    own: None,
                    missing: None,
                    points: vec![compared],
                }),
            }
        }
        for micro in &mut micro_benchmarks {
            micro.error = TwinFigures::mean_of(micro.points.iter().map(|point| point.error));
            micro.own = mean_of_known(micro.points.iter().map(|point| point.own));
            micro.missing = is_missed(micro.error, micro.own).then(|| match kind {
                TwinKind::Mechanism => missing(micro),
                TwinKind::ResponseTree => missing_in_tree(micro),
            });
        }
        let error = TwinFigures::mean_of(micro_benchmarks.iter().map(|micro| micro.error));
        let own = mean_of_known(micro_benchmarks.iter().map(|micro| micro.own));
        let regimes = [Regime::Burst, Regime::Sustained].map(|regime| in_regime(&micro_benchmarks, regime));
        TwinDifference { error, own, regimes: regimes.into_iter().flatten().collect(), micro_benchmarks }
    }

    /// The factor by which the twin is off, in both directions alike: over the figures of a point, the points of a micro-benchmark and the
    /// micro-benchmarks the geometric mean. An error cannot be more than 100 % where the twin is too fast, and can be any number where it is
    /// too slow; so errors alone are smallest for a twin without stalls.
    pub fn factor(&self) -> f64 {
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let of_micro = |micro: &TwinMicroBenchmark| {
            mean(micro.points.iter().map(|point| point.device.log_ratio(point.twin)).collect())
        };
        mean(self.micro_benchmarks.iter().map(of_micro).collect()).exp()
    }

    /// The points whose mean is off by a factor of 2 or more, and far more than the device is itself, with their micro-benchmarks, the worst
    /// first.
    pub fn outliers(&self) -> Vec<(&TwinMicroBenchmark, &TwinPoint)> {
        let all = self.micro_benchmarks.iter();
        let points = all.flat_map(|micro| micro.points.iter().map(move |point| (micro, point)));
        let mut outliers: Vec<_> = points.filter(|(_, point)| point.is_outlier()).collect();
        outliers.sort_by(|(_, a), (_, b)| b.factor().total_cmp(&a.factor()));
        outliers
    }
}

impl TwinPoint {
    /// `RW`, or `RW.burst`.
    pub fn name(&self) -> String {
        Regime::experiment_name(self.regime, &self.experiment)
    }

    /// By how much the means differ, in the direction in which it is more than 1.
    fn factor(&self) -> f64 {
        let ratio = self.twin.mean.max(1.0) / self.device.mean.max(1.0);
        ratio.max(1.0 / ratio)
    }

    fn is_outlier(&self) -> bool {
        self.factor() >= OUTLIER_FACTOR
            && self.own.is_none_or(|own| self.factor() - 1.0 >= OUTLIER_OWN * own.mean)
    }
}

/// The points of a regime together; none without a point.
fn in_regime(micro_benchmarks: &[TwinMicroBenchmark], regime: Regime) -> Option<TwinRegime> {
    let all = micro_benchmarks.iter().flat_map(|micro| &micro.points);
    let points: Vec<&TwinPoint> = all.filter(|point| point.regime == Some(regime)).collect();
    let error = TwinFigures::mean_of(points.iter().map(|point| point.error));
    let own = mean_of_known(points.iter().map(|point| point.own));
    (!points.is_empty()).then_some(TwinRegime { regime, error, own, is_reproduced: !is_missed(error, own) })
}

/// The mean of those that are known; none of none.
fn mean_of_known(all: impl Iterator<Item = Option<TwinFigures>>) -> Option<TwinFigures> {
    let known: Vec<TwinFigures> = all.flatten().collect();
    (!known.is_empty()).then(|| TwinFigures::mean_of(known.into_iter()))
}

/// Whether an error is large, and larger than the device differs from itself: what does not repeat cannot be reproduced.
fn is_missed(error: TwinFigures, own: Option<TwinFigures>) -> bool {
    let beyond = |error: f64, own: f64| error > MISSED && error > own;
    let own = own.unwrap_or_default();
    beyond(error.mean, own.mean) || beyond(error.p50, own.p50)
}

fn is_large(error: TwinFigures) -> bool {
    error.mean > MISSED || error.p50 > MISSED
}

/// What a response tree does not have that decides a micro-benchmark whose errors are large. It has no mechanism of flash, so that
/// none of them is missing more than another.
fn missing_in_tree(micro: &TwinMicroBenchmark) -> &'static str {
    if micro.name == "parallelism" {
        "requests in flight that wait for one stall together: the tree draws the time of each alone"
    } else if micro.error.p50 > MISSED {
        "a state of the device that no feature of the tree shows, such as which blocks are open or what a cache holds"
    } else {
        "when a stall is due: the tree draws each alone, and has no backlog that fills up"
    }
}

/// What the simulator, or the fit, does not have that decides a micro-benchmark whose errors are large.
fn missing(micro: &TwinMicroBenchmark) -> &'static str {
    let reads = |point: &&TwinPoint| !point.experiment.contains('W');
    let of_reads = TwinFigures::mean_of(micro.points.iter().filter(reads).map(|point| point.error));
    let in_reads = micro.points.iter().any(|point| reads(&point)) && is_large(of_reads);
    match (micro.name.as_str(), in_reads) {
        ("granularity", true) => "the layout of pages over dies and channels, or read-ahead",
        ("granularity", false) => "how the device handles writes smaller than a page",
        ("alignment", true) => "what a read costs that crosses pages",
        ("alignment", false) => "what a write costs that covers parts of pages",
        ("locality", true) => "a cache of data, or of the map",
        ("locality", false) => "where writes in a small area are buffered: its size and its merges",
        ("partitioning", _) => "how many blocks are open, and which one the device closes first",
        ("order", true) => "read-ahead, or a map that is read in part",
        ("order", false) => "the orders in which a log block takes pages",
        ("parallelism", _) => "which requests the device serves side by side",
        ("mix", _) => "how reads wait for the writes before them",
        ("pause" | "bursts", _) => "work that the device defers to idle time",
        _ => "a mechanism that the simulator does not have",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(micro: &str, experiment: &str, responses: &[u64]) -> PooledPoint {
        PooledPoint {
            micro_benchmark: micro.to_owned(),
            experiment: experiment.to_owned(),
            regime: None,
            value: 1.0,
            label: "1".to_owned(),
            repetitions: vec![responses.to_vec()],
        }
    }

    #[test]
    fn errors_are_means_over_points_and_then_over_micro_benchmarks() {
        let device =
            vec![point("order", "SR", &[100]), point("order", "SW", &[100]), point("mix", "SR/RW", &[200])];
        let twin =
            vec![point("order", "SR", &[110]), point("order", "SW", &[160]), point("mix", "SR/RW", &[100])];
        let found = TwinDifference::of(device.clone(), &twin, TwinKind::Mechanism);
        let [order, mix] = &found.micro_benchmarks[..] else { panic!("{found:?}") };
        assert!((order.error.mean - 0.35).abs() < 1e-9 && (mix.error.p99 - 0.5).abs() < 1e-9);
        assert!((found.error.mean - 0.425).abs() < 1e-9);
        assert_eq!(order.missing, Some("the orders in which a log block takes pages"));
        let of_tree = TwinDifference::of(device, &twin, TwinKind::ResponseTree);
        let missing: Vec<&str> = of_tree.micro_benchmarks.iter().filter_map(|micro| micro.missing).collect();
        assert!(
            matches!(missing[..], [order, mix] if order.starts_with("a state of") && mix == order),
            "{missing:?}"
        );
    }

    #[test]
    fn each_regime_is_reproduced_or_missed_on_its_own() {
        let in_regime = |regime, experiment: &str, ns: u64| PooledPoint {
            regime: Some(regime),
            ..point("order", experiment, &[ns])
        };
        let device = vec![in_regime(Regime::Sustained, "RW", 400), in_regime(Regime::Burst, "RW", 10)];
        let twin = vec![in_regime(Regime::Burst, "RW", 11), in_regime(Regime::Sustained, "RW", 100)];
        let found = TwinDifference::of(device, &twin, TwinKind::Mechanism);
        let [burst, sustained] = &found.regimes[..] else { panic!("{found:?}") };
        assert!(burst.is_reproduced && (burst.error.mean - 0.1).abs() < 1e-9, "{burst:?}");
        assert!(!sustained.is_reproduced && (sustained.error.mean - 0.75).abs() < 1e-9, "{sustained:?}");
        let one = TwinDifference::of(
            vec![point("order", "RW", &[1])],
            &[point("order", "RW", &[1])],
            TwinKind::Mechanism,
        );
        assert!(one.regimes.is_empty());
    }

    #[test]
    fn a_factor_counts_too_fast_and_too_slow_alike() {
        let factor = |twin: u64| {
            let points = |responses| vec![point("order", "SR", &[100]), point("order", "SW", responses)];
            TwinDifference::of(points(&[100]), &points(&[twin]), TwinKind::Mechanism).factor()
        };
        assert!((factor(400) - 2.0).abs() < 1e-9 && (factor(25) - 2.0).abs() < 1e-9 && factor(100) == 1.0);
    }

    #[test]
    fn outliers_are_points_that_are_off_by_far_more_than_the_device_itself() {
        let twice = |experiment: &str, repetitions: [u64; 2]| PooledPoint {
            repetitions: repetitions.iter().map(|&ns| vec![ns]).collect(),
            ..point("mix", experiment, &[])
        };
        let device = vec![twice("SR/SW", [90, 110]), twice("SR/RW", [20, 180]), twice("RR/RW", [99, 101])];
        let twin =
            vec![point("mix", "SR/SW", &[600]), point("mix", "SR/RW", &[300]), point("mix", "RR/RW", &[110])];
        let found = TwinDifference::of(device, &twin, TwinKind::Mechanism);
        let named: Vec<&str> = found.outliers().iter().map(|(_, point)| point.experiment.as_str()).collect();
        assert_eq!(named, ["SR/SW"], "the device itself is off by a factor of 9 in SR/RW");
        let of_one = TwinDifference::of(
            vec![twice("SR/RW", [20, 180])],
            &[point("mix", "SR/RW", &[300])],
            TwinKind::Mechanism,
        );
        assert_eq!(of_one.micro_benchmarks[0].missing, None, "nobody reproduces what does not repeat");
        let own = found.micro_benchmarks[0].points[0].own.unwrap();
        assert!((own.mean - (20.0 / 90.0 + 20.0 / 110.0) / 2.0).abs() < 1e-9, "{own:?}");
        assert!(found.own.is_some());
    }

    #[test]
    fn repetitions_are_put_together_and_points_of_one_alone_are_left_out() {
        let runs = [point("order", "SR", &[3, 1]), point("order", "SR", &[2]), point("order", "RR", &[9])];
        let pooled = PooledPoint::pool(runs);
        assert_eq!(pooled.len(), 2);
        let found = TwinDifference::of(pooled, &[point("order", "SR", &[4])], TwinKind::Mechanism);
        assert_eq!(found.micro_benchmarks[0].points.len(), 1);
        assert_eq!(found.micro_benchmarks[0].points[0].device, TwinFigures { mean: 2.0, p50: 2.0, p99: 3.0 });
    }
}
