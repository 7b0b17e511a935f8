//! How far a twin agrees with its device where the device agrees with itself.
//!
//! # Model
//! A figure of a point may be no property of the device: the median of two kinds of writes that are equally many lies in the gap
//! between them, and one seldom stall more or less decides a mean. A further measurement of the device shows such points: the device is
//! as far from itself there. So each point and figure is judged by the device's own measurements, in addition to the errors over all points.
//!
//! # Method
//! 1. [`beyond`]: the device is measured several times with different seeds. A figure between the smallest and the largest of them has no
//!    error; another one has its distance from the nearer of the two. The device's own run, from which the twin was made, is judged in the
//!    same way: with k measurements it lies outside with a probability of 2 / (k + 1), but not far.
//! 2. [`agreement`]: the shares of points, by a single further measurement.

use std::collections::BTreeMap;

use flashlab_analysis::{TwinDifference, TwinFigures, TwinPoint};

/// The goal of twins, and what a device has to repeat itself within for a point to be repeatable.
const GOAL: f64 = 0.1;
/// A twin may be this many times as far from the device as the device is from itself: the measure of `model check` on real devices.
const OF_ITSELF: f64 = 1.5;

/// By figure: shares of points, and an error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Agreement {
    /// The share of points at which the twin is off by at most 10 %, or 1.5 times what the device is from itself.
    pub within: TwinFigures,
    /// The share of points that the device repeats within 10 %.
    pub repeatable: TwinFigures,
    /// The mean error of the twin at those.
    pub error_where_repeatable: TwinFigures,
}

/// A point among those of a device: micro-benchmark, experiment and value.
type PointKey<'a> = (&'a str, &'a str, &'a str);

/// The agreement over all points of these devices, each as the twin's difference and the device's from itself.
pub fn agreement<'a>(devices: impl Iterator<Item = [&'a TwinDifference; 2]>) -> Agreement {
    let pairs: Vec<[TwinFigures; 2]> = devices.flat_map(pairs).collect();
    let of = |figure: fn(&TwinFigures) -> f64| {
        let each = pairs.iter().map(|[twin, itself]| [figure(twin), figure(itself)]);
        let within = each.clone().filter(|[twin, itself]| *twin <= GOAL.max(OF_ITSELF * itself)).count();
        let repeated: Vec<f64> = each.filter(|[_, itself]| *itself <= GOAL).map(|[twin, _]| twin).collect();
        let share = |count: usize| count as f64 / pairs.len().max(1) as f64;
        let error = repeated.iter().sum::<f64>() / repeated.len().max(1) as f64;
        [share(within), share(repeated.len()), error]
    };
    let [mean, p50, p99] = [of(|of| of.mean), of(|of| of.p50), of(|of| of.p99)];
    let [within, repeatable, error_where_repeatable] =
        [0, 1, 2].map(|which| TwinFigures { mean: mean[which], p50: p50[which], p99: p99[which] });
    Agreement { within, repeatable, error_where_repeatable }
}

/// What is judged against several measurements of the device: by how much it lies beyond all of them. `differences` are from one
/// measurement each; points that one of them lacks are left out.
pub fn beyond(differences: &[TwinDifference]) -> TwinDifference {
    let Some((first, others)) = differences.split_first() else {
        return TwinDifference {
            error: TwinFigures::default(),
            own: None,
            micro_benchmarks: Vec::new(),
            regimes: Vec::new(),
        };
    };
    let others: Vec<BTreeMap<PointKey<'_>, &TwinPoint>> = others.iter().map(by_key).collect();
    let mut found = first.clone();
    for micro in &mut found.micro_benchmarks {
        micro.points.retain_mut(|point| {
            let key = key(&micro.name, point);
            let more: Option<Vec<&TwinPoint>> = others.iter().map(|other| other.get(&key).copied()).collect();
            let Some(more) = more else { return false };
            let device = |figure: fn(&TwinFigures) -> f64| {
                let each = more.iter().map(|other| figure(&other.device)).chain([figure(&point.device)]);
                let ends = each.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
                    (least.min(value), most.max(value))
                });
                distance(figure(&point.twin), ends)
            };
            point.error = TwinFigures {
                mean: device(|of| of.mean),
                p50: device(|of| of.p50),
                p99: device(|of| of.p99),
            };
            true
        });
        micro.error = TwinFigures::mean_of(micro.points.iter().map(|point| point.error));
    }
    found.micro_benchmarks.retain(|micro| !micro.points.is_empty());
    found.error = TwinFigures::mean_of(found.micro_benchmarks.iter().map(|micro| micro.error));
    found
}

/// How far a value is from a range, relative to its nearer end.
fn distance(value: f64, (least, most): (f64, f64)) -> f64 {
    (value / value.clamp(least, most).max(1.0) - 1.0).abs()
}

fn key<'a>(micro: &'a str, point: &'a TwinPoint) -> PointKey<'a> {
    (micro, &point.experiment, &point.label)
}

fn by_key(of: &TwinDifference) -> BTreeMap<PointKey<'_>, &TwinPoint> {
    let points = of
        .micro_benchmarks
        .iter()
        .flat_map(|micro| micro.points.iter().map(|point| (key(&micro.name, point), point)));
    points.collect()
}

/// The errors of the points that both have.
fn pairs([twin, itself]: [&TwinDifference; 2]) -> Vec<[TwinFigures; 2]> {
    let known = by_key(itself);
    let both = by_key(twin).into_iter();
    both.filter_map(|(key, point)| Some([point.error, known.get(&key)?.error])).collect()
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::{PooledPoint, TwinKind};

    use super::*;

    fn point(label: &str, responses: &[u64]) -> PooledPoint {
        PooledPoint {
            micro_benchmark: "order".to_owned(),
            experiment: "SW".to_owned(),
            regime: None,
            value: 1.0,
            label: label.to_owned(),
            repetitions: vec![responses.to_vec()],
        }
    }

    #[test]
    fn a_point_that_the_device_does_not_repeat_is_judged_by_what_it_does() {
        let measured = || vec![point("1", &[100]), point("2", &[100])];
        let of = |other: Vec<PooledPoint>| TwinDifference::of(measured(), &other, TwinKind::Mechanism);
        let itself = of(vec![point("1", &[101]), point("2", &[900])]);
        let twin = of(vec![point("1", &[105]), point("2", &[1200])]);
        let found = agreement([[&twin, &itself]].into_iter());
        assert_eq!((found.within.p50, found.repeatable.p50), (1.0, 0.5));
        assert!((found.error_where_repeatable.p50 - 0.05).abs() < 1e-9);
        let far = of(vec![point("1", &[150]), point("2", &[1400])]);
        assert_eq!(agreement([[&far, &itself]].into_iter()).within.mean, 0.0);
    }

    #[test]
    fn a_figure_between_the_devices_own_has_no_error_and_another_one_its_distance() {
        let twin = || vec![point("1", &[300]), point("2", &[100]), point("3", &[100])];
        let of = |device: [u64; 2]| {
            let device = vec![point("1", &[device[0]]), point("2", &[device[1]])];
            TwinDifference::of(device, &twin(), TwinKind::Mechanism)
        };
        let found = beyond(&[of([100, 50]), of([900, 80]), of([200, 60])]);
        let errors: Vec<f64> = found.micro_benchmarks[0].points.iter().map(|point| point.error.p50).collect();
        assert_eq!(errors, [0.0, 0.25]);
        assert!((found.error.mean - 0.125).abs() < 1e-9);
    }

    #[test]
    fn points_that_a_measurement_lacks_are_left_out() {
        let of =
            |device| TwinDifference::of(device, &[point("1", &[9]), point("2", &[9])], TwinKind::Mechanism);
        let found = beyond(&[of(vec![point("1", &[9]), point("2", &[9])]), of(vec![point("2", &[9])])]);
        assert_eq!(found.micro_benchmarks[0].points.len(), 1);
        assert!(
            beyond(&[of(vec![point("1", &[9])]), of(vec![point("2", &[9])])]).micro_benchmarks.is_empty()
        );
    }
}
