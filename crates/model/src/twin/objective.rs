//! How well a candidate reproduces what was measured: the logarithms of ratios of figures, point by point.
//!
//! # Model
//! The response times of all repetitions of a point are put together. Their mean and four quantiles are compared, each with a
//! weight; a ratio's logarithm is what both directions of an error count alike in.

use flashlab_bench::Purpose;

use super::measured::MeasuredRun;

/// The quantiles that are compared, and their weights; the mean's weight is [`MEAN_WEIGHT`].
const QUANTILES: [(f64, f64); 4] = [(0.1, 0.4), (0.5, 1.0), (0.9, 0.6), (0.99, 0.5)];
const MEAN_WEIGHT: f64 = 1.0;
/// Figures of a point.
const FIGURES: usize = QUANTILES.len() + 1;
/// From here on a deviation counts by its square root less: a point that a candidate cannot reproduce decides nothing
/// about the others.
const LARGE: f64 = 0.4;

/// Points, each with the runs that measured it and its figures.
pub(super) struct Objective {
    /// By run: the number of its point.
    point_of: Vec<Option<usize>>,
    /// By point: the logarithms of its figures.
    figures: Vec<[f64; FIGURES]>,
}

impl Objective {
    /// Compares these runs where `counts`; the others are only done, for the state that they leave.
    pub fn new(runs: &[&MeasuredRun], counts: impl Fn(&MeasuredRun) -> bool) -> Objective {
        let mut names: Vec<String> = Vec::new();
        let mut responses: Vec<Vec<u64>> = Vec::new();
        let mut point_of = Vec::new();
        for run in runs {
            let name = name_of(run).filter(|_| {
                counts(run)
                    && !run.is_undecided
                    && run.responses.iter().any(|responses| !responses.is_empty())
            });
            let Some(name) = name else {
                point_of.push(None);
                continue;
            };
            let point = names.iter().position(|other| *other == name).unwrap_or_else(|| {
                names.push(name);
                responses.push(Vec::new());
                names.len() - 1
            });
            responses[point].extend(run.responses.iter().flatten());
            point_of.push(Some(point));
        }
        let figures = responses.iter_mut().map(|responses| figures(responses)).collect();
        Objective { point_of, figures }
    }

    /// Whether anything is compared.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// The weighted logarithms of ratios, of a candidate's response times by run.
    pub fn residuals(&self, responses: &[Vec<Vec<u64>>]) -> Vec<f64> {
        let mut pooled: Vec<Vec<u64>> = vec![Vec::new(); self.figures.len()];
        for (point, responses) in self.point_of.iter().zip(responses) {
            if let Some(point) = point {
                pooled[*point].extend(responses.iter().flatten());
            }
        }
        let weights = QUANTILES.iter().map(|&(_, weight)| weight).chain([MEAN_WEIGHT]);
        let weights: Vec<f64> = weights.collect();
        pooled
            .iter_mut()
            .zip(&self.figures)
            .flat_map(|(responses, device)| {
                let twin = figures(responses);
                let each = twin.iter().zip(device).zip(&weights);
                each.map(|((twin, device), weight)| weight * (twin - device)).collect::<Vec<f64>>()
            })
            .collect()
    }
}

/// The mean deviation: what a search makes small.
pub(super) fn score(residuals: &[f64]) -> f64 {
    residuals.iter().map(|&residual| bounded(residual)).sum::<f64>() / residuals.len().max(1) as f64
}

/// A deviation as it counts.
fn bounded(residual: f64) -> f64 {
    let size = residual.abs();
    if size <= LARGE { size } else { LARGE * (2.0 * (size / LARGE).sqrt() - 1.0) }
}

/// The weight of a deviation in a fit by least squares that makes [`score`] small (iteratively reweighted least squares).
pub(super) fn weight(residual: f64) -> f64 {
    // A smaller deviation than this is the noise of the measurement.
    const SMALL: f64 = 0.02;
    let size = residual.abs().max(SMALL);
    bounded(size) / (size * size)
}

fn name_of(run: &MeasuredRun) -> Option<String> {
    match &run.purpose {
        Purpose::Point { .. } => Some(run.point_name()),
        Purpose::Baseline { pattern } => Some(format!("baseline {pattern}")),
        _ => None,
    }
}

fn figures(responses: &mut [u64]) -> [f64; FIGURES] {
    let mut figures = [0.0; FIGURES];
    let Some(last) = responses.len().checked_sub(1) else { return figures };
    let sum: f64 = responses.iter().map(|&ns| ns as f64).sum();
    figures[FIGURES - 1] = (sum / responses.len() as f64).max(1.0).ln();
    responses.sort_unstable();
    for (figure, (quantile, _)) in figures.iter_mut().zip(QUANTILES) {
        *figure = (responses[(quantile * last as f64).round() as usize].max(1) as f64).ln();
    }
    figures
}
