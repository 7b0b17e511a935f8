//! A model as a JSON document: the keys that other programs read, and the points that the model can be fitted to once more.

use std::collections::BTreeMap;

use flashlab_analysis::decide::ranks::Interval;
use flashlab_analysis::findings::Regime;
use flashlab_samples::seal;
use serde::Serialize;

use crate::ModelError;
use crate::class_model::{ClassModel, SizeModel};
use crate::device_model::{DeviceModel, MODEL_VERSION, ModelSource, SaturatedModel};
use crate::fill::FillModel;
use crate::mixed_load::MixedFrontier;
use crate::performance_model::PerformanceModel;
use crate::queue_depth::QueueDepthModel;
use crate::run_points::RunPoint;
use crate::seek::SeekLine;
use crate::seek_model::SeekModel;
use flashlab_sim::profile::ThroughputClass;

/// The document of [`DeviceModel`]; intervals are `[low, high]`, times microseconds, and 1 KB is 1024 bytes.
#[derive(Clone, Debug, Serialize)]
pub struct ModelDocument {
    /// Sequential reads.
    pub sr: LineDocument,
    /// Random reads.
    pub rr: LineDocument,
    /// Sequential writes.
    pub sw: LineDocument,
    /// Random writes.
    pub rw: LineDocument,
    /// Writes in bursts, by class, of a device with two regimes; everything else is then of what lasts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub burst: BTreeMap<&'static str, LineDocument>,
    /// Throughput over the queue depth.
    pub queue_depth: Vec<QueueDepthDocument>,
    /// Reads and writes at once.
    pub mixed: Option<MixedDocument>,
    /// Random writes over the data on the device.
    pub filled: Option<FillDocument>,
    /// Random requests over the distance from the one before, of a device that seeks.
    pub seeks: Vec<SeekDocument>,
    /// What it was fitted to.
    #[serde(flatten)]
    pub fitted_to: ModelSource,
}

/// The throughput model of one class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LineDocument {
    /// The regime of its writes: `burst`, `sustained`, or `unknown` where a run does not show it; null for reads, and of a device with one.
    pub regime: Option<Regime>,
    /// A; null where the model does not hold.
    pub a_us: Option<f64>,
    /// B; null where the model does not hold.
    pub b_us_per_kb: Option<f64>,
    /// The share of the variance that the model explains.
    pub r2: Option<f64>,
    /// The probability of a B this far from 0 where the size does not matter.
    pub p_value: Option<f64>,
    /// Whether T = A + n B holds.
    pub holds: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Where A lies with 95 % confidence.
    pub a_us_interval: Option<[f64; 2]>,
    /// Where B lies with 95 % confidence.
    pub b_us_per_kb_interval: Option<[f64; 2]>,
    /// The page size, where the data shows one; A and B are those above it.
    pub breakpoint_bytes: Option<u64>,
    /// Microseconds for each KB below it.
    pub below_us_per_kb: Option<f64>,
    /// The equation that predicts best what was left out.
    pub equation: Option<&'static str>,
    /// Its mean relative error there.
    pub hold_out_error: Option<f64>,
    /// The same of T = A + n B.
    pub line_hold_out_error: Option<f64>,
    /// What it takes for granted.
    pub assumes: Option<&'static str>,
    /// Where it fails.
    pub fails: Option<&'static str>,
    /// Each median beside its prediction.
    pub residuals: Vec<ResidualDocument>,
}

/// A median beside its prediction.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ResidualDocument {
    /// The request size.
    pub size_bytes: u64,
    /// The median response time.
    pub measured_us: f64,
    /// What the model has.
    pub predicted_us: f64,
    /// Measured / predicted - 1.
    pub relative: f64,
}

/// Throughput over the queue depth, of one class.
#[derive(Clone, Debug, Serialize)]
pub struct QueueDepthDocument {
    /// The class, as `rr`.
    pub class: &'static str,
    /// The request size.
    pub size_bytes: u64,
    /// The equation.
    pub equation: &'static str,
    /// L: the response time of a request alone.
    pub latency_us: f64,
    /// X_max: requests a second.
    pub ios_per_s_max: f64,
    /// s of the soft minimum.
    pub sharpness: Option<f64>,
    /// X_max L: the depth from which on the device is saturated.
    pub concurrency: f64,
    /// The mean relative error on depths that were left out.
    pub hold_out_error: Option<f64>,
    /// Bytes a second that it saturates at, if larger requests were measured.
    pub bytes_per_s_max: Option<f64>,
}

/// Reads and writes at once.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MixedDocument {
    /// The request size.
    pub size_bytes: u64,
    /// The depth.
    pub depth: u32,
    /// The equation.
    pub equation: &'static str,
    /// R: reads a second.
    pub reads_per_s_max: f64,
    /// W: writes a second.
    pub writes_per_s_max: f64,
    /// k.
    pub interference: f64,
    /// The mean relative error on mixes that were left out.
    pub hold_out_error: Option<f64>,
}

/// Random writes over the data on the device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FillDocument {
    /// The size of a write.
    pub size_bytes: u64,
    /// The equation.
    pub equation: &'static str,
    /// The mean relative error on fills that were left out.
    pub hold_out_error: Option<f64>,
    /// P, the flash that holds data as far as its times show it; null where the equation has none.
    pub physical_bytes: Option<f64>,
}

/// Random requests over the distance from the one before: T = A + S sqrt(d) + n B, d a share of the capacity.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SeekDocument {
    /// The class, as `rr`.
    pub class: &'static str,
    /// The equation.
    pub equation: &'static str,
    /// A of the means, with its interval.
    pub a_us: f64,
    /// Where A lies with 95 % confidence.
    pub a_us_interval: [f64; 2],
    /// S: the seek over the whole device.
    pub full_seek_us: f64,
    /// Where S lies with 95 % confidence.
    pub full_seek_us_interval: [f64; 2],
    /// B.
    pub b_us_per_kb: f64,
    /// The probability of such an S where the distance does not matter.
    pub seek_p_value: f64,
    /// The mean relative error on what was left out.
    pub hold_out_error: Option<f64>,
    /// The same of T = A + n B.
    pub line_hold_out_error: Option<f64>,
}

/// Nanoseconds for each byte to microseconds for each KB of 1024 bytes.
const US_PER_KB: f64 = 1.024;

fn ends(interval: Interval, unit: f64) -> [f64; 2] {
    [interval.low * unit, interval.high * unit]
}

impl LineDocument {
    fn of(model: &DeviceModel, class: ThroughputClass) -> LineDocument {
        let regime = model.fitted_to.regime(class);
        match &model.classes[&class] {
            Ok(fitted) => {
                LineDocument { regime, ..LineDocument::of_points(fitted, &model.fitted_to.points, class) }
            }
            Err(reason) => LineDocument { regime, reason: Some(reason.clone()), ..LineDocument::default() },
        }
    }

    /// Of a model of these points.
    fn of_points(fitted: &ClassModel, points: &[RunPoint], class: ThroughputClass) -> LineDocument {
        let [assumes, fails] = fitted.medians.limits();
        let document = LineDocument {
            equation: Some(fitted.medians.name()),
            hold_out_error: fitted.hold_out_error,
            line_hold_out_error: fitted.line_hold_out_error,
            assumes: Some(assumes),
            fails: Some(fails),
            residuals: residuals(points, class, &fitted.medians),
            ..LineDocument::default()
        };
        match &fitted.parameters {
            Err(reason) => LineDocument { reason: Some(reason.clone()), ..document },
            Ok(line) => LineDocument {
                a_us: Some(line.a_ns.estimate / 1e3),
                b_us_per_kb: Some(line.b_ns_per_byte.estimate * US_PER_KB),
                r2: Some(line.r2),
                p_value: Some(line.p_value),
                holds: true,
                a_us_interval: Some(ends(line.a_ns, 1e-3)),
                b_us_per_kb_interval: Some(ends(line.b_ns_per_byte, US_PER_KB)),
                breakpoint_bytes: line.breakpoint.map(|(size, _)| size.0),
                below_us_per_kb: line.breakpoint.map(|(_, slope)| slope * US_PER_KB),
                ..document
            },
        }
    }
}

fn residuals(points: &[RunPoint], class: ThroughputClass, equation: &SizeModel) -> Vec<ResidualDocument> {
    let points = points
        .iter()
        .filter(|point| point.workload.class == class && point.workload.is_plain() && !point.is_disturbed);
    let mut rows: Vec<ResidualDocument> = points
        .map(|point| {
            let predicted = equation.predict(point.workload.size).estimate;
            ResidualDocument {
                size_bytes: point.workload.size.0,
                measured_us: point.p50_ns / 1e3,
                predicted_us: predicted / 1e3,
                relative: point.p50_ns / predicted - 1.0,
            }
        })
        .collect();
    rows.sort_by_key(|row| row.size_bytes);
    rows
}

impl ModelDocument {
    /// The document of a model.
    pub fn of(model: &DeviceModel) -> ModelDocument {
        let line = |class| LineDocument::of(model, class);
        let queue_depth = model.depths.iter().map(|(class, depth)| QueueDepthDocument {
            class: class.short_name(),
            size_bytes: depth.size.0,
            equation: depth.curve.name(),
            latency_us: depth.curve.latency_s() * 1e6,
            ios_per_s_max: depth.curve.rate_max(),
            sharpness: match &depth.curve {
                QueueDepthModel::Hard(_) | QueueDepthModel::Between(_) => None,
                QueueDepthModel::Soft(model) => Some(model.sharpness),
            },
            concurrency: depth.curve.concurrency(),
            hold_out_error: depth.hold_out_error,
            bytes_per_s_max: depth.saturated.as_ref().map(SaturatedModel::bytes_per_s_max),
        });
        let mixed = model.mixed.as_ref().map(|mixed| MixedDocument {
            size_bytes: mixed.size.0,
            depth: mixed.depth,
            equation: MixedFrontier::NAME,
            reads_per_s_max: mixed.frontier.read_max,
            writes_per_s_max: mixed.frontier.write_max,
            interference: mixed.frontier.interference,
            hold_out_error: mixed.frontier.hold_out_error,
        });
        let filled = model.filled.as_ref().map(|filled| FillDocument {
            size_bytes: filled.size.0,
            equation: filled.means.name(),
            hold_out_error: filled.hold_out_error,
            physical_bytes: match &filled.means {
                FillModel::Collection(curve) => Some(curve.physical_bytes),
                FillModel::Between(_) => None,
            },
        });
        let seeks = model.seeks.iter().filter_map(|(class, seek)| {
            let SeekModel { means, hold_out_error, line_hold_out_error, .. } = seek.as_ref().ok()?;
            Some(SeekDocument {
                class: class.short_name(),
                equation: SeekLine::NAME,
                a_us: means.a_ns.estimate / 1e3,
                a_us_interval: ends(means.a_ns, 1e-3),
                full_seek_us: means.full_seek_ns.estimate / 1e3,
                full_seek_us_interval: ends(means.full_seek_ns, 1e-3),
                b_us_per_kb: means.b_ns_per_byte.estimate * US_PER_KB,
                seek_p_value: means.seek_p_value,
                hold_out_error: *hold_out_error,
                line_hold_out_error: *line_hold_out_error,
            })
        });
        let bursts = model.bursts.iter().map(|(&class, fitted)| {
            let line = LineDocument::of_points(fitted, &model.fitted_to.bursts, class);
            (class.short_name(), LineDocument { regime: Some(Regime::Burst), ..line })
        });
        ModelDocument {
            sr: line(ThroughputClass::SequentialRead),
            rr: line(ThroughputClass::RandomRead),
            sw: line(ThroughputClass::SequentialWrite),
            rw: line(ThroughputClass::RandomWrite),
            burst: bursts.collect(),
            queue_depth: queue_depth.collect(),
            mixed,
            filled,
            seeks: seeks.collect(),
            fitted_to: model.fitted_to.clone(),
        }
    }

    /// The line of a class.
    pub fn line(&self, class: ThroughputClass) -> &LineDocument {
        match class {
            ThroughputClass::SequentialRead => &self.sr,
            ThroughputClass::RandomRead => &self.rr,
            ThroughputClass::SequentialWrite => &self.sw,
            ThroughputClass::RandomWrite => &self.rw,
        }
    }
}

/// Reads a document and fits its points once more; `file` is for the errors.
///
/// # Errors
/// When it is no model's document, or of a version that this program does not know.
pub fn read_model(text: &str, file: &str) -> Result<DeviceModel, ModelError> {
    let wrong = |message: String| ModelError::Input(format!("{file}: {message}"));
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let not_one = |error: serde_json::Error| {
        wrong(format!(
            "is no model of flashlab model fit ({error}): give its model.json, or the folder that has it"
        ))
    };
    let Version { version } = serde_json::from_str(text).map_err(not_one)?;
    seal::DOCUMENT.verify(text).map_err(|damage| {
        wrong(format!(
            "{damage}; restore it, fit it again, or remove its key crc32 if you changed it yourself"
        ))
    })?;
    if version != MODEL_VERSION {
        return Err(wrong(format!(
            "has version {version}, and this program knows {MODEL_VERSION}: fit it again"
        )));
    }
    let source: ModelSource = serde_json::from_str(text).map_err(not_one)?;
    for point in source.points.iter().chain(&source.bursts) {
        let figures = [point.p50_ns, point.p95_ns, point.p99_ns, point.mean_ns, point.ios_per_s];
        let is_possible = figures.iter().all(|figure| figure.is_finite() && *figure > 0.0)
            && point.workload.depth > 0
            && point.workload.size.0 > 0
            && (0.0..=1.0).contains(&point.workload.write_share);
        if !is_possible {
            return Err(wrong(format!("its point of run {} has a figure that cannot be", point.run)));
        }
    }
    DeviceModel::fit(source)
}
