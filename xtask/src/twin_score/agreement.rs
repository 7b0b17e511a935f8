//! How far a twin agrees with its device where the device agrees with itself.
//!
//! # Model
//! A figure of a point may be no property of the device: the median of two kinds of writes that are equally many lies in the gap
//! between them, and one seldom stall more or less decides a mean. A second measurement of the device shows such points: the device is as far from itself there. So each
//! point and figure is judged by what the device itself is off by, in addition to the errors over all points.

use flashlab_analysis::{TwinDifference, TwinFigures};

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

/// The errors of the points that both have.
fn pairs([twin, itself]: [&TwinDifference; 2]) -> Vec<[TwinFigures; 2]> {
    let points = |of: &TwinDifference| -> Vec<((String, String, String), TwinFigures)> {
        let micros = of.micro_benchmarks.iter();
        let each = micros.flat_map(|micro| {
            micro.points.iter().map(|point| {
                ((micro.name.clone(), point.experiment.clone(), point.label.clone()), point.error)
            })
        });
        each.collect()
    };
    let known = points(itself);
    let same = |name| known.iter().find(|(known, _)| *known == name).map(|(_, error)| *error);
    points(twin).into_iter().filter_map(|(name, error)| Some([error, same(name)?])).collect()
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::{PooledPoint, TwinKind};

    use super::*;

    fn point(label: &str, responses: &[u64]) -> PooledPoint {
        PooledPoint {
            micro_benchmark: "order".to_owned(),
            experiment: "SW".to_owned(),
            value: 1.0,
            label: label.to_owned(),
            responses: responses.to_vec(),
        }
    }

    #[test]
    fn a_point_that_the_device_does_not_repeat_is_judged_by_what_it_does() {
        let measured = || vec![point("1", &[100]), point("2", &[100])];
        let of = |other| TwinDifference::of(measured(), other, TwinKind::Mechanism);
        let itself = of(vec![point("1", &[101]), point("2", &[900])]);
        let twin = of(vec![point("1", &[105]), point("2", &[1200])]);
        let found = agreement([[&twin, &itself]].into_iter());
        assert_eq!((found.within.p50, found.repeatable.p50), (1.0, 0.5));
        assert!((found.error_where_repeatable.p50 - 0.05).abs() < 1e-9);
        let far = of(vec![point("1", &[150]), point("2", &[1400])]);
        assert_eq!(agreement([[&far, &itself]].into_iter()).within.mean, 0.0);
    }
}
