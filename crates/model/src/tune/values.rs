//! The figures that several settings are made of, each refused where the data does not carry it.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;

use crate::class_model::SizeEquation;
use crate::device_model::{DepthModel, DeviceModel, SaturatedModel};
use crate::performance_model::PerformanceModel as _;

/// A curve that misses depths which were left out by more than this is none.
const DEPTH_ERROR_MOST: f64 = 0.25;
/// A rate whose requests take this share of the bandwidth is the bandwidth, divided by the size.
const BANDWIDTH_SHARE: f64 = 0.95;
/// The largest request has to reach this share of the bandwidth that the line predicts, or the bandwidth was not measured.
const SATURATION_LEAST: f64 = 0.7;
/// More depth has to win this much for the depth to be a setting.
const DEPTH_GAIN_LEAST: f64 = 1.2;

/// Bytes a second of large requests of a class.
pub(super) fn bandwidth(model: &DeviceModel, class: ThroughputClass) -> Result<Interval, String> {
    let fitted = model.class(class).map_err(|error| error.to_string())?;
    let per_byte = match &fitted.means.equation {
        SizeEquation::Line(line) => line.b_ns_per_byte,
        SizeEquation::Broken(line) => line.b_ns_per_byte,
        SizeEquation::Max(model) if model.byte_ns > 0.0 => {
            Interval { estimate: model.byte_ns, low: model.byte_ns, high: model.byte_ns }
        }
        SizeEquation::Max(_) => return Err(format!("{}s of all sizes take the same time", class.words())),
        SizeEquation::Between(between) => {
            // What the largest size that was measured costs for each byte.
            let points = model.fitted_to.points.iter();
            let plain = points.filter(|point| point.workload.class == class && point.workload.is_plain());
            let largest = plain.map(|point| point.workload.size).max().unwrap_or(Bytes::kib(4));
            between.predict(largest).map(|ns| ns / largest.0 as f64)
        }
    };
    let rate = |ns: f64| if ns > 0.0 { 1e9 / ns } else { f64::INFINITY };
    let alone =
        Interval { estimate: rate(per_byte.estimate), low: rate(per_byte.high), high: rate(per_byte.low) };
    let points = model.fitted_to.points.iter();
    let of_class = points.filter(|point| point.workload.class == class && point.workload.is_plain());
    let reached = of_class.map(|point| point.bytes_per_s()).fold(0.0, f64::max);
    if reached < SATURATION_LEAST * alone.estimate {
        return Err(format!(
            "the largest {}s reach {:.0} % of the bandwidth that their line leads to: measure larger ones",
            class.words(),
            reached / alone.estimate * 100.0
        ));
    }
    // With a queue a device may do more.
    let saturated = model.depths.get(&class).and_then(|depth| depth.saturated.as_ref());
    let queued = saturated.map_or(0.0, SaturatedModel::bytes_per_s_max);
    let factor = (queued / alone.estimate).max(1.0);
    usable(alone.map(|rate| rate * factor), "bandwidth")
}

/// A figure that a setting may have: a hostile or empty model leads to 0, infinity or no number, which no program takes.
pub(super) fn usable(figure: Interval, what: &str) -> Result<Interval, String> {
    match figure.estimate.is_finite() && figure.estimate > 0.0 {
        true => Ok(figure),
        false => Err(format!("the {what} comes out as {}: measure again", figure.estimate)),
    }
}

/// The curve over the depth, if throughput is a function of the depth.
pub(super) fn depth_curve(model: &DeviceModel, class: ThroughputClass) -> Result<&DepthModel, String> {
    let depth = model.depths.get(&class).ok_or_else(|| {
        format!("{}s were not measured at several queue depths: fit a run that has them", class.words())
    })?;
    match depth.hold_out_error {
        Some(error) if error > DEPTH_ERROR_MOST => Err(format!(
            "throughput of {}s is no function of the queue depth: the curve misses depths that were left out by {:.0} %, as on a \
             disk with a rate limit or a cache",
            class.words(),
            error * 100.0
        )),
        _ => Ok(depth),
    }
}

/// Requests of 4 KiB a second that a class saturates at, if that is more than the bandwidth in small pieces.
pub(super) fn saturated_rate(
    model: &DeviceModel,
    class: ThroughputClass,
    bandwidth: Interval,
) -> Result<Interval, String> {
    let depth = depth_curve(model, class)?;
    if depth.size != Bytes::kib(4) {
        return Err(format!("depths were measured with requests of {} and not of 4 KiB", depth.size));
    }
    let rate = usable(depth.curve.predict(depth.depths[1]), "rate of requests")?;
    let share = rate.estimate * depth.size.0 as f64 / bandwidth.estimate;
    if share > BANDWIDTH_SHARE {
        return Err(format!(
            "{:.0} {}s of 4 KiB a second take {:.0} % of the bandwidth: the rate is only the bandwidth divided by the size, and \
             says nothing of the cost of a request",
            rate.estimate,
            class.words(),
            share * 100.0
        ));
    }
    Ok(rate)
}

/// How many requests in flight saturate a class, if more than one win anything.
pub(super) fn concurrency(model: &DeviceModel, class: ThroughputClass) -> Result<Interval, String> {
    let depth = depth_curve(model, class)?;
    let [_, deepest] = depth.depths;
    let gain = depth.curve.predict(deepest).estimate / depth.curve.predict(1).estimate;
    if gain < DEPTH_GAIN_LEAST {
        return Err(format!(
            "{} {}s in flight win {:.0} % over one: the disk is no function of the depth",
            deepest,
            class.words(),
            (gain - 1.0) * 100.0
        ));
    }
    let estimate = depth.curve.concurrency();
    let around = depth.curve.predict(deepest);
    let interval = Interval {
        estimate,
        low: estimate * around.low / around.estimate,
        high: estimate * around.high / around.estimate,
    };
    usable(interval, "number of requests in flight")
}

pub(super) fn ends(interval: Interval) -> Option<[f64; 2]> {
    let ends = [interval.low, interval.high];
    ends.iter().all(|end| end.is_finite()).then_some(ends)
}
