//! All that is known of a device as equations: what `flashlab model fit` writes, and what predictions are made with.
//!
//! # Model
//! A [`DeviceModel`] is a function of the points that it was fitted to. Its document has the parameters for people and other
//! programs, and the points: who reads it fits them once more, so that a document cannot contradict itself.

use std::collections::BTreeMap;

use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::findings::Regime;
use flashlab_base::{Bytes, Identity};
use flashlab_sim::profile::ThroughputClass;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::class_model::{ClassModel, SizeModel};
use crate::fill::FillModel;
use crate::mixed_load::{LoadMix, MixedFrontier};
use crate::performance_model::{Measured, PerformanceModel, range_of};
use crate::queue_depth::QueueDepthModel;
use crate::run_points::RunPoint;
use crate::seek::{SeekLine, SeekRequest};
use crate::seek_model::SeekModel;

/// The version of the document.
pub const MODEL_VERSION: u32 = 1;
/// A point that was disturbed counts only where this share of the points of its class was: then the disturbance is the rule.
const DISTURBED_MOST: f64 = 0.5;

/// With a queue another size has a median only where the share of it in the mean differs by at most this factor: where half of the requests meet
/// a collection, and of another size a few, a median is 40 times as much or as little, and no depth between says when.
const MEDIAN_SHARE_FACTOR: f64 = 2.0;

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
    /// The CRC-32 of the list of files of the folder that was fitted; none of a file.
    #[serde(default)]
    pub files_crc32: Option<String>,
    /// What was measured.
    pub points: Vec<RunPoint>,
    /// The same in bursts, of a device with two regimes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bursts: Vec<RunPoint>,
}

impl ModelSource {
    /// Takes the bursts out of the points: no equation is fitted to two regimes.
    fn with_bursts_apart(self) -> ModelSource {
        let is_burst = |point: &RunPoint| point.regime == Some(Regime::Burst);
        let (found, points): (Vec<RunPoint>, Vec<RunPoint>) = self.points.into_iter().partition(is_burst);
        ModelSource { points, bursts: self.bursts.into_iter().chain(found).collect(), ..self }
    }

    /// The regime that figures of this class are of; `None` for reads, of a device with one regime, and where nobody looked for it. A single
    /// run that does not show its regime makes it unknown.
    pub fn regime(&self, class: ThroughputClass) -> Option<Regime> {
        let of_class = |point: &&RunPoint| point.workload.class == class && class.writes();
        let regimes = || self.points.iter().filter(of_class).filter_map(|point| point.regime);
        regimes().find(|&regime| regime == Regime::Unknown).or_else(|| regimes().next())
    }
}

/// The equations of a device.
#[derive(Clone, Debug)]
pub struct DeviceModel {
    /// What it was fitted to.
    pub fitted_to: ModelSource,
    /// Each class of IOs, or why it has no model.
    pub classes: BTreeMap<ThroughputClass, Result<ClassModel, String>>,
    /// Each class of writes in bursts, of a device with two regimes. Everything else is of what lasts.
    pub bursts: BTreeMap<ThroughputClass, ClassModel>,
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
    /// The smallest and the largest depth that were measured.
    pub depths: [u32; 2],
    /// The curve.
    pub curve: QueueDepthModel,
    /// Its mean relative error on depths that were left out.
    pub hold_out_error: Option<f64>,
    /// The time of a request at the largest depth, where several sizes were measured there.
    pub saturated: Option<SaturatedModel>,
    /// For each depth, the median response time relative to the mean.
    median_shares: Vec<(f64, f64)>,
}

/// Nanoseconds of a request at the largest depth over its size, and so the throughput of a busy device.
#[derive(Clone, Debug)]
pub struct SaturatedModel {
    /// The smallest and the largest size that were measured.
    pub sizes: [Bytes; 2],
    /// The equation that predicts best the sizes that were left out.
    pub means: SizeModel,
    /// For each size, the median response time relative to the mean.
    median_shares: Vec<(f64, f64)>,
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
    /// The smallest and the largest fill that were measured.
    pub fills: [Bytes; 2],
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
    /// The regime of writes; `None` for the one that the model has, which is what lasts where it has two.
    pub regime: Option<Regime>,
}

impl WorkloadRequest {
    /// IOs of a class alone, in the state that everything was measured in, at any distance.
    pub fn of_class(class: ThroughputClass, size: Bytes, depth: u32) -> WorkloadRequest {
        WorkloadRequest { class, size, depth, write_share: None, filled: None, distance: None, regime: None }
    }
}

/// A prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The median response time in nanoseconds; not of a mix, nor where another size has another distribution with a queue.
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
        let source = source.with_bursts_apart();
        let in_bursts = ThroughputClass::ALL.into_iter().filter(|class| class.writes());
        let bursts =
            in_bursts.filter_map(|class| Some((class, class_model(&source.bursts, class).ok()?))).collect();
        let points = &source.points;
        let classes: BTreeMap<_, _> =
            ThroughputClass::ALL.into_iter().map(|class| (class, class_model(points, class))).collect();
        let depths = ThroughputClass::ALL
            .into_iter()
            .filter_map(|class| {
                let whole_page = classes[&class].as_ref().ok().and_then(|model| model.whole_page);
                Some((class, depth_model(points, class, whole_page)?))
            })
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
        Ok(DeviceModel { fitted_to: source, classes, bursts, depths, mixed, filled, seeks })
    }

    /// The model of a class.
    ///
    /// # Errors
    /// Why there is none.
    pub fn class(&self, class: ThroughputClass) -> Result<&ClassModel, ModelError> {
        self.classes[&class].as_ref().map_err(|reason| ModelError::Input(reason.clone()))
    }

    /// The model of a class, for a size that it predicts: between those that were measured, and no part of a page that costs more than
    /// a whole one.
    pub(crate) fn class_of_size(
        &self,
        class: ThroughputClass,
        size: Bytes,
    ) -> Result<&ClassModel, ModelError> {
        let model = self.class(class)?;
        let remedy = "fit a run that has such requests, as of an own plan for flashlab run";
        within(&format!("{}s of {size}", class.words()), size, model.sizes, remedy)?;
        let is_measured = |point: &RunPoint| {
            point.workload.is_plain() && (point.workload.class, point.workload.size) == (class, size)
        };
        let is_part =
            |page: &Bytes| !size.0.is_multiple_of(page.0) && !self.fitted_to.points.iter().any(is_measured);
        if let Some(page) = model.whole_page.filter(is_part) {
            let class = class.words();
            return Err(ModelError::Input(format!(
                "{size} is no multiple of {page}: a {class} of a part of {page} costs many times a whole one, and what each such size costs was not measured"
            )));
        }
        Ok(model)
    }

    /// What a run of these requests will show.
    ///
    /// # Errors
    /// Where nothing like it was measured, and where it lies beyond what was: no equation is known to hold there.
    pub fn predict(&self, request: WorkloadRequest) -> Result<Prediction, ModelError> {
        match request.regime {
            Some(Regime::Burst) => return self.predict_burst(request),
            Some(_) if self.fitted_to.regime(request.class) == Some(Regime::Unknown) => {
                return Err(ModelError::Input(format!(
                    "{}s were measured in runs that do not show whether they are bursts or what lasts: fit a run of flashlab bench",
                    request.class.words()
                )));
            }
            _ => {}
        }
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
                let model = self.class_of_size(request.class, request.size)?;
                let (p50, mean) = (model.medians.predict(request.size), model.means.predict(request.size));
                Ok(prediction(Some(p50), inverse(mean), request.size, model.medians.name()))
            }
        }
    }

    /// Bursts are measured one after the other, in the state of the run.
    fn predict_burst(&self, request: WorkloadRequest) -> Result<Prediction, ModelError> {
        let alone = WorkloadRequest {
            regime: request.regime,
            ..WorkloadRequest::of_class(request.class, request.size, 1)
        };
        if request != alone {
            return Err(ModelError::Input(
                "bursts are predicted of one class alone at depth 1: leave out depths, mixes, fills and distances".to_owned(),
            ));
        }
        let class = request.class.words();
        let model = self.bursts.get(&request.class).ok_or_else(|| {
            ModelError::Input(format!(
                "no bursts of {class}s were measured: fit a run of flashlab bench --only granularity on a device that buffers writes"
            ))
        })?;
        let remedy = "fit a run that has such requests, as of an own plan for flashlab run";
        within(&format!("bursts of {class}s of {}", request.size), request.size, model.sizes, remedy)?;
        let (p50, mean) = (model.medians.predict(request.size), model.means.predict(request.size));
        Ok(prediction(Some(p50), inverse(mean), request.size, model.medians.name()))
    }

    /// What the figures of writes are of, for people; `None` where the device has one regime.
    pub fn regime_sentence(&self) -> Option<String> {
        let regimes = [ThroughputClass::SequentialWrite, ThroughputClass::RandomWrite]
            .map(|class| self.fitted_to.regime(class));
        let bursts = match self.bursts.is_empty() {
            true => "",
            false => " Bursts, which the device buffers, have a model of their own.",
        };
        if regimes.contains(&Some(Regime::Unknown)) {
            return Some(format!(
                "Writes were measured in runs that do not show whether they are bursts or what lasts.{bursts}"
            ));
        }
        regimes.contains(&Some(Regime::Sustained)).then(|| {
            format!(
                "All figures of writes are sustained: what lasts once the device's buffers are full.{bursts}"
            )
        })
    }

    /// The size and the depth nearest to these that were measured with a queue; none where no queue was.
    pub fn nearest_with_queue(
        &self,
        class: ThroughputClass,
        size: Bytes,
        depth: u32,
    ) -> Option<(Bytes, u32)> {
        let model = self.depths.get(&class)?;
        let [least, most] = model.saturated.as_ref().map_or([model.size; 2], |saturated| saturated.sizes);
        let [shallowest, deepest] = model.depths;
        Some((size.clamp(least, most), depth.clamp(shallowest, deepest)))
    }

    fn predict_depth(&self, request: WorkloadRequest) -> Result<Prediction, ModelError> {
        let model = self.depths.get(&request.class).ok_or_else(|| {
            let class = request.class.words();
            ModelError::Input(format!(
                "{class}s were measured one after the other only: fit a run with queue depths"
            ))
        })?;
        let what = format!("{}s at depth {}", request.class.words(), request.depth);
        let remedy = format!(
            "flashlab model fit TARGET --depth-max {} measures them, if the device takes as many",
            request.depth
        );
        within(&what, request.depth, model.depths, &remedy)?;
        let rate = match &model.saturated {
            _ if request.size == model.size => model.curve.predict(request.depth),
            None => {
                let size = model.size;
                let message =
                    format!("depths were measured with requests of {size} only: fit a run with more sizes");
                return Err(ModelError::Input(message));
            }
            Some(saturated) => self.rate_of_size(request, model, saturated)?,
        };
        let share = between(&model.median_shares, f64::from(request.depth));
        let time = inverse(rate).map(|ns| ns * f64::from(request.depth) * share);
        let time = match &model.saturated {
            Some(saturated) if request.size != model.size => {
                // The share differs by the size as well. By how much is known at the largest depth alone: it is in the interval.
                let own = between(&model.median_shares, f64::from(model.depths[1]));
                let of_size = between(&saturated.median_shares, request.size.0 as f64) / own;
                let (low, high) = (time.low * of_size.min(1.0), time.high * of_size.max(1.0));
                let is_known = of_size.max(1.0 / of_size) <= MEDIAN_SHARE_FACTOR;
                is_known.then_some(Interval { estimate: time.estimate, low, high })
            }
            _ => Some(time),
        };
        Ok(prediction(time, rate, request.size, model.curve.name()))
    }

    /// Requests a second at a depth, of another size than that of the curve. At depth 1 a request takes `alone` times as long, and on the
    /// busy device `busy` times. So its curve has the same shape, X(N) = X_own(N busy / alone) / busy, with the latency and the rate of its own.
    fn rate_of_size(
        &self,
        request: WorkloadRequest,
        model: &DepthModel,
        saturated: &SaturatedModel,
    ) -> Result<Interval, ModelError> {
        let (class, size) = (request.class, request.size);
        let what = format!("{}s of {size} at depth {}", class.words(), request.depth);
        let remedy = "predict them at depth 1, or fit a run that has such sizes with a queue";
        within(&what, size, saturated.sizes, remedy)?;
        let alone = &self.class_of_size(class, size)?.means;
        let [_, deepest] = model.depths;
        let ratio = |equation: &SizeModel, depth: f64| {
            let own = 1e9 / model.curve.rate_at(depth);
            equation.predict(size).map(|ns| (ns / own).max(f64::MIN_POSITIVE))
        };
        let (slower_alone, slower_busy) = (ratio(alone, 1.0), ratio(&saturated.means, f64::from(deepest)));
        // Beyond the largest depth that was measured the curve is not known: the device is taken to be busy there.
        let rate = |alone: f64, busy: f64| {
            model.curve.rate_at((f64::from(request.depth) * busy / alone).min(f64::from(deepest))) / busy
        };
        let of_size = Interval {
            estimate: rate(slower_alone.estimate, slower_busy.estimate),
            low: rate(slower_alone.high, slower_busy.high),
            high: rate(slower_alone.low, slower_busy.low),
        };
        Ok(together(of_size, model.curve.predict(request.depth)))
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
        within(
            &format!("writes with {filled} of data"),
            filled,
            model.fills,
            "fit a run that has such fills",
        )?;
        let (median, mean) = (model.medians.predict(filled), model.means.predict(filled));
        Ok(prediction(Some(median), inverse(mean), request.size, model.means.name()))
    }

    /// A random request at a distance from the one before.
    fn predict_distance(&self, request: WorkloadRequest, distance: Bytes) -> Result<Prediction, ModelError> {
        let class = request.class.words();
        let model = match self.seeks.get(&request.class) {
            Some(Ok(model)) => model,
            Some(Err(reason)) => {
                let message = format!("{class}s have no model of seeks: {reason}; omit --distance");
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
        let what = format!("{class}s of {} at a distance", request.size);
        within(&what, request.size, model.sizes, "omit --distance")?;
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

/// Refuses what lies beyond what was measured.
fn within<T: PartialOrd + std::fmt::Display>(
    what: &str,
    asked: T,
    [least, most]: [T; 2],
    remedy: &str,
) -> Result<(), ModelError> {
    if asked >= least && asked <= most {
        return Ok(());
    }
    Err(ModelError::Input(format!(
        "{what} are beyond what was measured, {least} to {most}, and no equation is known to hold there: {remedy}"
    )))
}

/// An interval that is also uncertain as another one is: the logarithms of two independent factors add as squares.
fn together(interval: Interval, other: Interval) -> Interval {
    let end = |own: f64, others: f64| (own / interval.estimate).ln().hypot((others / other.estimate).ln());
    Interval {
        estimate: interval.estimate,
        low: interval.estimate * (-end(interval.low, other.low)).exp(),
        high: interval.estimate * end(interval.high, other.high).exp(),
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

/// The model over the depth; and over the size at the largest depth, of sizes that are no part of a page.
fn depth_model(points: &[RunPoint], class: ThroughputClass, whole_page: Option<Bytes>) -> Option<DepthModel> {
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
    let depths = depths_of(size);
    let (&depth_min, &depth_max) = depths.first().zip(depths.last())?;
    let of_size: Vec<&&RunPoint> = alone.iter().filter(|point| point.workload.size == size).collect();
    let rates: Vec<Measured<u32>> = of_size
        .iter()
        .map(|point| Measured { input: point.workload.depth, figure: point.ios_per_s })
        .collect();
    let (curve, hold_out_error) = QueueDepthModel::select(&rates).ok()?;
    let is_whole = |size: Bytes| whole_page.is_none_or(|page| size.0.is_multiple_of(page.0));
    let deepest = alone.iter().copied().filter(|point| point.workload.depth == depth_max);
    let at_most: Vec<&RunPoint> = deepest.filter(|point| is_whole(point.workload.size)).collect();
    let median_shares = of_size.iter().map(|point| (f64::from(point.workload.depth), median_share(point)));
    Some(DepthModel {
        size,
        depths: [depth_min, depth_max],
        curve,
        hold_out_error,
        saturated: saturated_model(&at_most),
        median_shares: knots(median_shares),
    })
}

/// The model of points at one depth.
fn saturated_model(points: &[&RunPoint]) -> Option<SaturatedModel> {
    let time = |point: &&RunPoint| Measured { input: point.workload.size, figure: 1e9 / point.ios_per_s };
    let means = SizeModel::select(&points.iter().map(time).collect::<Vec<_>>()).ok()?;
    let sizes = range_of(points.iter().map(|point| point.workload.size))?;
    let median_shares = points.iter().map(|point| (point.workload.size.0 as f64, median_share(point)));
    Some(SaturatedModel { sizes, means, median_shares: knots(median_shares) })
}

/// The median response time relative to the mean, which follows from the rate.
fn median_share(point: &RunPoint) -> f64 {
    point.p50_ns * point.ios_per_s / 1e9 / f64::from(point.workload.depth)
}

fn knots(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut knots: Vec<(f64, f64)> = points.collect();
    knots.sort_by(|a, b| a.0.total_cmp(&b.0));
    knots
}

/// Between the two points next to it, on a scale of ratios.
fn between(knots: &[(f64, f64)], at: f64) -> f64 {
    let below = knots.iter().rfind(|(known, _)| *known <= at);
    let above = knots.iter().find(|(known, _)| *known >= at);
    match (below, above) {
        (Some(&(low, a)), Some(&(high, b))) if low < high => {
            a + (b - a) * (at.ln() - low.ln()) / (high.ln() - low.ln())
        }
        (Some(&(_, share)), _) | (None, Some(&(_, share))) => share,
        (None, None) => 1.0,
    }
}

impl SaturatedModel {
    /// Bytes a second of the largest requests.
    pub fn bytes_per_s_max(&self) -> f64 {
        let [_, largest] = self.sizes;
        largest.0 as f64 * 1e9 / self.means.predict(largest).estimate
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
    let fills = range_of(of_fills.iter().map(|(filled, _)| *filled))?;
    Some(FilledModel { size, fills, means, hold_out_error, medians })
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
