//! All that is known of a device as equations: what `flashlab model fit` writes, and what predictions are made with.
//!
//! # Model
//! A [`DeviceModel`] is a function of the points that it was fitted to. Its document has the parameters for people and other
//! programs, and the points: who reads it fits them once more, so that a document cannot contradict itself.

use std::collections::BTreeMap;

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::{Bytes, Identity};
use flashlab_sim::profile::ThroughputClass;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::class_model::ClassModel;
use crate::fill::FillModel;
use crate::linear_max::LinearMax;
use crate::mixed_load::{LoadMix, MixedFrontier};
use crate::performance_model::{Measured, PerformanceModel};
use crate::queue_depth::QueueDepthModel;
use crate::run_points::RunPoint;
use crate::seek::{SeekLine, SeekRequest};
use crate::seek_model::SeekModel;

/// The version of the document.
pub const MODEL_VERSION: u32 = 1;
/// A point that was disturbed counts only where this share of the points of its class was: then the disturbance is the rule.
const DISTURBED_MOST: f64 = 0.5;

/// What a model is fitted to; the part of the document that is read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSource {
    /// [`MODEL_VERSION`].
    pub version: u32,
    /// The version of flashlab.
    pub flashlab: String,
    /// The device.
    pub identity: Identity,
    /// The folder or the file that was fitted.
    pub source: String,
    /// What was measured.
    pub points: Vec<RunPoint>,
}

/// The equations of a device.
#[derive(Clone, Debug)]
pub struct DeviceModel {
    /// What it was fitted to.
    pub fitted_to: ModelSource,
    /// Each class of IOs, or why it has no model.
    pub classes: BTreeMap<ThroughputClass, Result<ClassModel, String>>,
    /// Throughput over the queue depth, of the classes of which it was measured.
    pub depths: BTreeMap<ThroughputClass, DepthModel>,
    /// Reads and writes at once, if they were measured.
    pub mixed: Option<MixedModel>,
    /// Random writes over the fill, if fills were measured.
    pub filled: Option<FilledModel>,
    /// Random requests over their distance, or why the class has no such model.
    pub seeks: BTreeMap<ThroughputClass, Result<SeekModel, String>>,
}

/// Throughput over the queue depth, of requests of one size; and over the size at the largest depth.
#[derive(Clone, Debug)]
pub struct DepthModel {
    /// The size that the curve was measured with.
    pub size: Bytes,
    /// The largest depth that was measured.
    pub depth_max: u32,
    /// The curve.
    pub curve: QueueDepthModel,
    /// Its mean relative error on depths that were left out.
    pub hold_out_error: Option<f64>,
    /// The time of a request at the largest depth, in nanoseconds, over the size.
    pub saturated: Option<LinearMax>,
    /// For each depth, the median response time relative to the mean.
    median_shares: Vec<(u32, f64)>,
}

/// Reads and writes at once, of one size and at one depth.
#[derive(Clone, Debug)]
pub struct MixedModel {
    /// The size of both.
    pub size: Bytes,
    /// The depth.
    pub depth: u32,
    /// The frontier, in requests a second.
    pub frontier: MixedFrontier,
}

/// Random writes of one size, one after the other, over the data on the device.
#[derive(Clone, Debug)]
pub struct FilledModel {
    /// The size of a write.
    pub size: Bytes,
    /// The mean time of a write, and so throughput.
    pub means: FillModel,
    /// Its mean relative error on fills that were left out.
    pub hold_out_error: Option<f64>,
    /// The median.
    pub medians: FillModel,
}

/// What a prediction is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadRequest {
    /// The class of the IOs; of a mix that of its reads.
    pub class: ThroughputClass,
    /// Their size.
    pub size: Bytes,
    /// How many are in flight.
    pub depth: u32,
    /// The share that writes; `None` for the class alone.
    pub write_share: Option<f64>,
    /// The data on the device; `None` for the state that everything else was measured in.
    pub filled: Option<Bytes>,
    /// The distance from the request before, of random requests on a device that seeks; `None` for any.
    pub distance: Option<Bytes>,
}

/// A prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The median response time in nanoseconds; not of a mix.
    pub p50_ns: Option<Interval>,
    /// Requests a second, of a mix reads and writes together.
    pub ios_per_s: Interval,
    /// Bytes a second.
    pub bytes_per_s: Interval,
    /// The equation.
    pub equation: &'static str,
}

impl DeviceModel {
    /// Fits everything that the points allow.
    ///
    /// # Errors
    /// Where no class has a model: the reason of the first one.
    pub fn fit(source: ModelSource) -> Result<DeviceModel, ModelError> {
        let points = &source.points;
        let classes: BTreeMap<_, _> =
            ThroughputClass::ALL.into_iter().map(|class| (class, class_model(points, class))).collect();
        let depths = ThroughputClass::ALL
            .into_iter()
            .filter_map(|class| Some((class, depth_model(points, class)?)))
            .collect();
        let mixed = mixed_model(points);
        let filled = filled_model(points);
        let seeks = [ThroughputClass::RandomRead, ThroughputClass::RandomWrite]
            .into_iter()
            .map(|class| (class, SeekModel::fit(points, class, source.identity.capacity)))
            .collect();
        if classes.values().all(Result::is_err) {
            // The reason of a class that was measured says more than that another one was not.
            let was_measured =
                |class: ThroughputClass| points.iter().any(|point| point.workload.class == class);
            let reason = classes.iter().max_by_key(|(class, _)| was_measured(**class));
            let reason = reason.and_then(|(_, class)| class.as_ref().err()).cloned().unwrap_or_default();
            return Err(ModelError::Input(format!(
                "{}: no class of IOs has a model: {reason}",
                source.source
            )));
        }
        Ok(DeviceModel { fitted_to: source, classes, depths, mixed, filled, seeks })
    }

    /// The model of a class.
    ///
    /// # Errors
    /// Why there is none.
    pub fn class(&self, class: ThroughputClass) -> Result<&ClassModel, ModelError> {
        self.classes[&class].as_ref().map_err(|reason| ModelError::Input(reason.clone()))
    }

    /// What a run of these requests will show.
    ///
    /// # Errors
    /// Where nothing like it was measured.
    pub fn predict(&self, request: WorkloadRequest) -> Result<Prediction, ModelError> {
        if let Some(distance) = request.distance {
            return self.predict_distance(request, distance);
        }
        if let Some(filled) = request.filled {
            return self.predict_filled(request, filled);
        }
        match request.write_share {
            Some(share) if share > 0.0 && share < 1.0 => self.predict_mix(request, share),
            _ if request.depth > 1 => self.predict_depth(request),
            _ => {
                let model = self.class(request.class)?;
                let is_measured = |point: &RunPoint| {
                    let workload = &point.workload;
                    workload.is_plain() && (workload.class, workload.size) == (request.class, request.size)
                };
                let is_part = |page: &Bytes| {
                    !request.size.0.is_multiple_of(page.0) && !self.fitted_to.points.iter().any(is_measured)
                };
                if let Some(page) = model.whole_page.filter(is_part) {
                    let (class, size) = (request.class.words(), request.size);
                    return Err(ModelError::Input(format!(
                        "{size} is no multiple of {page}: a {class} of a part of {page} costs many times a whole one, and what each such size costs was not measured"
                    )));
                }
                let (p50, mean) = (model.medians.predict(request.size), model.means.predict(request.size));
                Ok(prediction(Some(p50), inverse(mean), request.size, model.medians.name()))
            }
        }
    }

    fn predict_depth(&self, request: WorkloadRequest) -> Result<Prediction, ModelError> {
        let model = self.depths.get(&request.class).ok_or_else(|| {
            let class = request.class.words();
            ModelError::Input(format!(
                "{class}s were measured one after the other only: fit a run with queue depths"
            ))
        })?;
        let curve = model.curve.predict(request.depth);
        // Another size has its own latency and its own saturation, and the same knee.
        let factor = match model.saturated {
            _ if request.size == model.size => 1.0,
            None => {
                let size = model.size;
                let message =
                    format!("depths were measured with requests of {size} only: fit a run with more sizes");
                return Err(ModelError::Input(message));
            }
            Some(saturated) => {
                let alone = self.class(request.class)?.means.predict(request.size).estimate / 1e9;
                let rate = 1e9 / saturated.predict(request.size).estimate;
                model.curve.scaled(alone, rate, f64::from(request.depth)) / curve.estimate
            }
        };
        let rate = curve.map(|rate| rate * factor);
        let share = model.median_share(request.depth);
        let time = inverse(rate).map(|ns| ns * f64::from(request.depth) * share);
        Ok(prediction(Some(time), rate, request.size, model.curve.name()))
    }

    fn predict_filled(&self, request: WorkloadRequest, filled: Bytes) -> Result<Prediction, ModelError> {
        let model = self.filled.as_ref().ok_or_else(|| {
            ModelError::Input(
                "no fills were measured: flashlab model fit does on a simulated flash device of which it may use all".to_owned(),
            )
        })?;
        let is_known = request.class == ThroughputClass::RandomWrite
            && (request.size, request.depth, request.write_share) == (model.size, 1, None);
        if !is_known {
            let size = model.size;
            let message =
                format!("fills were measured with random writes of {size} only, one after the other");
            return Err(ModelError::Input(message));
        }
        let (median, mean) = (model.medians.predict(filled), model.means.predict(filled));
        Ok(prediction(Some(median), inverse(mean), request.size, model.means.name()))
    }

    /// A random request at a distance from the one before.
    fn predict_distance(&self, request: WorkloadRequest, distance: Bytes) -> Result<Prediction, ModelError> {
        let class = request.class.words();
        let model = match self.seeks.get(&request.class) {
            Some(Ok(model)) => model,
            Some(Err(reason)) => {
                let message = format!("{class}s have no model of seeks: {reason}; leave --distance away");
                return Err(ModelError::Input(message));
            }
            None => {
                return Err(ModelError::Input(format!(
                    "{class}s have no distance: it is that between two random requests"
                )));
            }
        };
        if request.depth > 1 || request.write_share.is_some() || request.filled.is_some() {
            return Err(ModelError::Input(
                "seeks were measured with one random request after the other, of one class".to_owned(),
            ));
        }
        if distance > model.capacity {
            let capacity = model.capacity;
            return Err(ModelError::Input(format!(
                "a distance of {distance} is more than the device has, {capacity}"
            )));
        }
        let share = distance.0 as f64 / model.capacity.0.max(1) as f64;
        let input = SeekRequest { size: request.size, distance: share };
        let (median, mean) = (model.medians.predict(input), model.means.predict(input));
        Ok(prediction(Some(median), inverse(mean), request.size, SeekLine::NAME))
    }

    fn predict_mix(&self, request: WorkloadRequest, share: f64) -> Result<Prediction, ModelError> {
        let mixed = self.mixed.as_ref().ok_or_else(|| {
            ModelError::Input("no mix of reads and writes was measured: fit a run with mixes".to_owned())
        })?;
        if (request.size, request.depth) != (mixed.size, mixed.depth) {
            let (size, depth) = (mixed.size, mixed.depth);
            return Err(ModelError::Input(format!("mixes were measured with {size} at depth {depth} only")));
        }
        let (reads, writes) = mixed.frontier.most(LoadMix::new(1.0 - share, share));
        let rate = Interval {
            estimate: reads.estimate + writes.estimate,
            low: reads.low + writes.low,
            high: reads.high + writes.high,
        };
        Ok(prediction(None, rate, request.size, MixedFrontier::NAME))
    }
}

/// The seconds or nanoseconds of one, from how many there are in a second; or the other direction.
fn inverse(interval: Interval) -> Interval {
    let of = |value: f64| if value > 0.0 { 1e9 / value } else { f64::INFINITY };
    Interval { estimate: of(interval.estimate), low: of(interval.high), high: of(interval.low) }
}

fn prediction(
    p50_ns: Option<Interval>,
    ios_per_s: Interval,
    size: Bytes,
    equation: &'static str,
) -> Prediction {
    Prediction { p50_ns, ios_per_s, bytes_per_s: ios_per_s.map(|rate| rate * size.0 as f64), equation }
}

/// The points that count: all but the disturbed ones.
fn undisturbed<'a>(points: impl Iterator<Item = &'a RunPoint>) -> Result<Vec<&'a RunPoint>, String> {
    let all: Vec<&RunPoint> = points.collect();
    let disturbed = all.iter().filter(|point| point.is_disturbed).count();
    if !all.is_empty() && disturbed as f64 > DISTURBED_MOST * all.len() as f64 {
        return Err(format!(
            "{disturbed} of {} runs were disturbed by other IO or by heat: measure when nothing else runs",
            all.len()
        ));
    }
    Ok(all.into_iter().filter(|point| !point.is_disturbed).collect())
}

fn class_model(points: &[RunPoint], class: ThroughputClass) -> Result<ClassModel, String> {
    let of_class = points.iter().filter(|point| point.workload.class == class);
    let plain = undisturbed(of_class.filter(|point| point.workload.is_plain()))?;
    if plain.is_empty() {
        let class = class.words();
        return Err(format!("no {class}s were measured one after the other: fit a run that has them"));
    }
    let of = |figure: fn(&RunPoint) -> f64| -> Vec<Measured<Bytes>> {
        plain.iter().map(|point| Measured { input: point.workload.size, figure: figure(point) }).collect()
    };
    let rate = |point: &RunPoint| 1e9 / point.ios_per_s;
    ClassModel::fit(&of(|point| point.p50_ns), &of(rate)).map_err(|error| match error {
        ModelError::TooFew { found, needed, .. } => format!(
            "{}s were measured with {found} sizes, and at least {needed} are needed: vary IOSize",
            class.words()
        ),
        other => other.to_string(),
    })
}

/// The points of a class alone, whatever their depth.
fn alone(points: &[RunPoint], class: ThroughputClass) -> Vec<&RunPoint> {
    let of_class = points.iter().filter(|point| point.workload.class == class && !point.is_disturbed);
    of_class.filter(|point| point.workload.is_alone()).collect()
}

fn depth_model(points: &[RunPoint], class: ThroughputClass) -> Option<DepthModel> {
    let alone = alone(points, class);
    // The size with the most depths, the smallest of several.
    let depths_of = |size: Bytes| {
        let mut depths: Vec<u32> = alone
            .iter()
            .filter(|point| point.workload.size == size)
            .map(|point| point.workload.depth)
            .collect();
        depths.sort_unstable();
        depths.dedup();
        depths
    };
    let sizes: Vec<Bytes> = alone.iter().map(|point| point.workload.size).collect();
    let size = sizes.into_iter().max_by_key(|&size| (depths_of(size).len(), std::cmp::Reverse(size)))?;
    let depth_max = *depths_of(size).last()?;
    let of_size: Vec<&&RunPoint> = alone.iter().filter(|point| point.workload.size == size).collect();
    let rates: Vec<Measured<u32>> = of_size
        .iter()
        .map(|point| Measured { input: point.workload.depth, figure: point.ios_per_s })
        .collect();
    let (curve, hold_out_error) = QueueDepthModel::select(&rates).ok()?;
    let saturated: Vec<Measured<Bytes>> = alone
        .iter()
        .filter(|point| point.workload.depth == depth_max)
        .map(|point| Measured { input: point.workload.size, figure: 1e9 / point.ios_per_s })
        .collect();
    let mut median_shares: Vec<(u32, f64)> = of_size
        .iter()
        .map(|point| {
            (point.workload.depth, point.p50_ns * point.ios_per_s / 1e9 / f64::from(point.workload.depth))
        })
        .collect();
    median_shares.sort_by_key(|(depth, _)| *depth);
    Some(DepthModel {
        size,
        depth_max,
        curve,
        hold_out_error,
        saturated: LinearMax::fit(&saturated).ok(),
        median_shares,
    })
}

impl DepthModel {
    /// The median relative to the mean at this depth: between the two depths beside it, on a scale of ratios.
    fn median_share(&self, depth: u32) -> f64 {
        let below = self.median_shares.iter().rfind(|(known, _)| *known <= depth);
        let above = self.median_shares.iter().find(|(known, _)| *known >= depth);
        match (below, above) {
            (Some(&(low, a)), Some(&(high, b))) if low < high => {
                let ln = |depth: u32| f64::from(depth).ln();
                let part = (ln(depth) - ln(low)) / (ln(high) - ln(low));
                a + (b - a) * part
            }
            (Some(&(_, share)), _) | (None, Some(&(_, share))) => share,
            (None, None) => 1.0,
        }
    }
}

fn filled_model(points: &[RunPoint]) -> Option<FilledModel> {
    let of_fills: Vec<(Bytes, &RunPoint)> = points
        .iter()
        .filter(|point| !point.is_disturbed)
        .filter_map(|point| Some((point.workload.filled?, point)))
        .collect();
    let size = of_fills.first()?.1.workload.size;
    let of = |figure: fn(&RunPoint) -> f64| -> Vec<Measured<Bytes>> {
        of_fills.iter().map(|(input, point)| Measured { input: *input, figure: figure(point) }).collect()
    };
    let (means, hold_out_error) = FillModel::select(&of(|point| 1e9 / point.ios_per_s)).ok()?;
    let (medians, _) = FillModel::select(&of(|point| point.p50_ns)).ok()?;
    Some(FilledModel { size, means, hold_out_error, medians })
}

fn mixed_model(points: &[RunPoint]) -> Option<MixedModel> {
    let random = |point: &&RunPoint| {
        matches!(point.workload.class, ThroughputClass::RandomRead | ThroughputClass::RandomWrite)
            && !point.is_disturbed
            && point.workload.filled.is_none()
            && point.workload.distance.is_none()
    };
    let first = points.iter().filter(random).find(|point| {
        let share = point.workload.write_share;
        share > 0.0 && share < 1.0
    })?;
    let (size, depth) = (first.workload.size, first.workload.depth);
    let mut runs: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
    for point in points.iter().filter(random) {
        if (point.workload.size, point.workload.depth) == (size, depth) {
            let writes = usize::from(point.workload.class.writes());
            runs.entry(point.run).or_default()[writes] += point.ios_per_s;
        }
    }
    // Of a mix with sequential IOs only one half is known here.
    let is_whole = |run: &u32, rates: &[f64; 2]| {
        let share =
            points.iter().find(|point| point.run == *run).map_or(0.0, |point| point.workload.write_share);
        (rates[0] > 0.0 || share == 1.0) && (rates[1] > 0.0 || share == 0.0)
    };
    runs.retain(|run, rates| is_whole(run, rates));
    let measured: Vec<Measured<LoadMix>> =
        runs.values().map(|[reads, writes]| MixedFrontier::measured(*reads, *writes)).collect();
    Some(MixedModel { size, depth, frontier: MixedFrontier::fit(&measured).ok()? })
}
