//! What a person looks at to see what was fitted: response times and their residuals over the size, throughput over the depth.

use flashlab_analysis::inference::{Axis, Picture, Style};
use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;

use crate::class_model::ClassModel;
use crate::device_model::DeviceModel;
use crate::performance_model::PerformanceModel as _;
use crate::run_points::RunPoint;

/// The titles and the pictures of a model.
pub fn pictures(model: &DeviceModel) -> Vec<(String, Picture)> {
    let mut pictures = Vec::new();
    for class in ThroughputClass::ALL {
        let Ok(fitted) = &model.classes[&class] else { continue };
        let points: Vec<&RunPoint> = model
            .fitted_to
            .points
            .iter()
            .filter(|point| point.workload.class == class && point.workload.is_plain() && !point.is_disturbed)
            .collect();
        pictures.push((format!("{}: response time", capitalised(class)), times(fitted, &points)));
        pictures.extend(
            residuals(fitted, &points).map(|picture| (format!("{}: residuals", capitalised(class)), picture)),
        );
    }
    pictures.extend(model.depths.iter().map(|(class, depth)| {
        let of_size = model.fitted_to.points.iter().filter(|point| {
            point.workload.class == *class
                && point.workload.size == depth.size
                && matches!(point.workload.write_share, 0.0 | 1.0)
        });
        let measured = of_size.map(|point| (f64::from(point.workload.depth), point.ios_per_s)).collect();
        let curve = (0..=48).map(|step| f64::from(depth.depths[1]).powf(f64::from(step) / 48.0));
        let curve = curve.map(|at| (at, depth.curve.rate_at(at))).collect();
        let caption =
            format!("requests of {} a second over the queue depth, and {}", depth.size, depth.curve.name());
        let picture = Picture::new(
            caption,
            Axis::logarithmic("queue depth", ""),
            Axis::logarithmic("requests a second", ""),
        )
        .draw("measured", Style::Dots, measured)
        .draw("fitted", Style::Fitted, curve);
        (format!("{}: queue depth", capitalised(*class)), picture)
    }));
    pictures.extend(model.mixed.as_ref().map(|mixed| {
        let frontier = (0..=40).map(|step| f64::from(step) / 40.0).map(|share| {
            let mix = crate::mixed_load::LoadMix::new(1.0 - share, share);
            let factor = mixed.frontier.predict(mix).estimate;
            (factor * (1.0 - share), factor * share)
        });
        let caption =
            format!("writes and reads a second of {} at depth {}, together", mixed.size, mixed.depth);
        let picture =
            Picture::new(caption, Axis::linear("reads a second", ""), Axis::linear("writes a second", ""))
                .draw("measured", Style::Dots, mixed_points(model))
                .draw("fitted", Style::Fitted, frontier.collect());
        ("Reads and writes at once".to_owned(), picture)
    }));
    pictures
}

fn capitalised(class: ThroughputClass) -> String {
    let words = class.words();
    format!("{}{}s", words[..1].to_uppercase(), &words[1..])
}

fn times(fitted: &ClassModel, points: &[&RunPoint]) -> Picture {
    let measured = points.iter().map(|point| (point.workload.size.0 as f64, point.p50_ns)).collect();
    let sizes = || points.iter().map(|point| point.workload.size.0);
    let (least, most) = (sizes().min().unwrap_or(1) as f64, sizes().max().unwrap_or(1) as f64);
    let sizes = (0..=60).map(|step| least * (most / least).powf(f64::from(step) / 60.0));
    let curve = sizes.map(|size| (size, fitted.medians.predict(Bytes(size as u64)).estimate)).collect();
    let caption = format!("medians of each zone, and {}", fitted.medians.name());
    let picture =
        Picture::new(caption, Axis::logarithmic("IOSize", "bytes"), Axis::logarithmic("response time", "ns"))
            .draw("measured", Style::Dots, measured)
            .draw("fitted", Style::Fitted, curve);
    match &fitted.parameters {
        Ok(line) if line.breakpoint.is_some() => {
            let (page, _) = line.breakpoint.unwrap_or_default();
            picture.mark(page.0 as f64, format!("page size {page}"))
        }
        _ => picture,
    }
}

/// None where every median is the model's to 0.01 %, as on a simulated device without noise: there is nothing to see.
fn residuals(fitted: &ClassModel, points: &[&RunPoint]) -> Option<Picture> {
    const EXACT: f64 = 1e-4;
    let relative = points.iter().map(|point| {
        let size = point.workload.size;
        (size.0 as f64, point.p50_ns / fitted.medians.predict(size).estimate - 1.0)
    });
    let relative: Vec<(f64, f64)> = relative.collect();
    if relative.iter().all(|(_, residual)| residual.abs() < EXACT) {
        return None;
    }
    let zero = relative.iter().map(|(size, _)| (*size, 0.0)).collect();
    let caption = "how far each median lies from the model, as a share of it: no pattern should be left";
    let picture = Picture::new(
        caption,
        Axis::logarithmic("IOSize", "bytes"),
        Axis::linear("measured / fitted - 1", "share"),
    )
    .draw("residual", Style::Dots, relative)
    .draw("model", Style::Fitted, zero);
    Some(picture)
}

fn mixed_points(model: &DeviceModel) -> Vec<(f64, f64)> {
    let Some(mixed) = &model.mixed else { return Vec::new() };
    let mut runs: std::collections::BTreeMap<u32, (f64, f64)> = std::collections::BTreeMap::new();
    for point in &model.fitted_to.points {
        let workload = &point.workload;
        let is_random = matches!(workload.class, ThroughputClass::RandomRead | ThroughputClass::RandomWrite);
        if is_random && (workload.size, workload.depth) == (mixed.size, mixed.depth) {
            let run = runs.entry(point.run).or_default();
            if workload.class.writes() { run.1 += point.ios_per_s } else { run.0 += point.ios_per_s }
        }
    }
    runs.into_values().collect()
}
