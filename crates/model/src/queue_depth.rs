//! Throughput over the queue depth.
//!
//! With N requests in flight a device that serves each in the time L, one beside the other, does N / L of them in a second,
//! until something is saturated at X_max: the hard minimum X = min(N / L, X_max), which is the PDAM of Bender et al. (SPAA
//! 2019) with P = X_max L. Requests that meet on the same die wait before that: the soft minimum
//! X = ((N / L)^-s + X_max^-s)^(-1/s) has the hard one as its limit for large s. Papon and Athanassoulis (DaMoN 2021)
//! call P the concurrency k of the device.
//!
//! Method: the least squares of the logarithms, by pattern search over the logarithms of the parameters. Where neither predicts depths
//! that were left out, as where neighbours of a sequence meet on one page, rates are interpolated between the depths ([`DepthTable`]).

use flashlab_analysis::decide::ranks::Interval;

use crate::ModelError;
use crate::hold_out::{hold_out, is_worth_it};
use crate::performance_model::{Measured, PerformanceModel};
use crate::scatter::Scatter;
use crate::search::minimum;

/// X = min(N / L, X_max).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HardMinimum {
    /// L in seconds.
    pub latency_s: f64,
    /// X_max in requests a second.
    pub rate_max: f64,
    scatter: Scatter,
}

/// X = ((N / L)^-s + X_max^-s)^(-1/s).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftMinimum {
    /// L in seconds.
    pub latency_s: f64,
    /// X_max in requests a second.
    pub rate_max: f64,
    /// s: large for a sharp knee.
    pub sharpness: f64,
    scatter: Scatter,
}

/// The rates themselves, with straight lines between their logarithms over that of the depth; the last one goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthTable {
    /// The logarithms of depth and rate, ascending.
    knots: Vec<(f64, f64)>,
    /// L and X_max.
    ends: HardMinimum,
    /// Of depths that were left out, because the table goes through all points.
    scatter: Scatter,
}

/// One of the three, selected by hold-out error.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueDepthModel {
    /// See [`HardMinimum`].
    Hard(HardMinimum),
    /// See [`SoftMinimum`].
    Soft(SoftMinimum),
    /// See [`DepthTable`].
    Between(DepthTable),
}

/// Of the soft minimum: 0.3 is a knee over three decades of depth, 30 is none to be seen.
const SHARPNESS: [f64; 2] = [0.3, 30.0];

/// L may differ from the response time at the smallest depth by this factor.
const LATENCY_FACTOR: f64 = 2.0;

fn soft(latency_s: f64, rate_max: f64, s: f64, depth: f64) -> f64 {
    // Relative to the smaller of the two, so that no power overflows.
    let (free, full) = (depth / latency_s, rate_max);
    let (small, large) = (free.min(full), free.max(full));
    small * (1.0 + (small / large).powf(s)).powf(-1.0 / s)
}

fn hard(latency_s: f64, rate_max: f64, depth: f64) -> f64 {
    (depth / latency_s).min(rate_max)
}

/// The usable points and where the search begins: the latency of the smallest depth and the largest rate.
fn prepared(
    measured: &[Measured<u32>],
    model: &'static str,
    needed: usize,
) -> Result<(Vec<Measured<u32>>, [f64; 2]), ModelError> {
    let mut usable: Vec<Measured<u32>> = measured
        .iter()
        .copied()
        .filter(|point| point.input > 0 && point.figure > 0.0 && point.figure.is_finite())
        .collect();
    usable.sort_by_key(|point| point.input);
    let mut depths: Vec<u32> = usable.iter().map(|point| point.input).collect();
    depths.dedup();
    if depths.len() < needed {
        let of = "with different queue depths".to_owned();
        return Err(ModelError::TooFew { model, found: depths.len(), of, needed, remedy: String::new() });
    }
    let latency = f64::from(usable[0].input) / usable[0].figure;
    let largest = usable.iter().map(|point| point.figure).fold(0.0, f64::max);
    Ok((usable, [latency.ln(), largest.ln()]))
}

fn squares(points: &[Measured<u32>], rate: impl Fn(f64) -> f64) -> f64 {
    points.iter().map(|point| (point.figure / rate(f64::from(point.input))).ln().powi(2)).sum()
}

impl PerformanceModel for HardMinimum {
    type Input = u32;

    const NAME: &'static str = "X = min(N / L, X_max)";
    const ASSUMES: &'static str = "requests that do not wait for each other until the device is saturated";
    const FAILS: &'static str =
        "around the knee, where requests meet on the same die; where more depth costs throughput";

    fn fit(measured: &[Measured<u32>]) -> Result<HardMinimum, ModelError> {
        let (points, start) = prepared(measured, HardMinimum::NAME, 3)?;
        let [latency, rate] = minimum(start, |&[latency, rate]| {
            squares(&points, |depth| hard(latency.exp(), rate.exp(), depth))
        });
        let (latency_s, rate_max) = (latency.exp(), rate.exp());
        let pairs =
            points.iter().map(|point| (point.figure, hard(latency_s, rate_max, f64::from(point.input))));
        let scatter = Scatter::of(pairs, 2).ok_or_else(|| no_scatter(HardMinimum::NAME))?;
        Ok(HardMinimum { latency_s, rate_max, scatter })
    }

    fn predict(&self, depth: u32) -> Interval {
        self.scatter.around(hard(self.latency_s, self.rate_max, f64::from(depth)))
    }
}

impl PerformanceModel for SoftMinimum {
    type Input = u32;

    const NAME: &'static str = "X = ((N / L)^-s + X_max^-s)^(-1/s)";
    const ASSUMES: &'static str = "requests that meet at random before the device is saturated";
    const FAILS: &'static str =
        "where more depth costs throughput, or where a rate limit cuts the curve off sharply";

    fn fit(measured: &[Measured<u32>]) -> Result<SoftMinimum, ModelError> {
        let (points, [latency, rate]) = prepared(measured, SoftMinimum::NAME, 4)?;
        let bounded = |s: f64| s.exp().clamp(SHARPNESS[0], SHARPNESS[1]);
        // A curve that is flat from the start says nothing of L but that it is no longer than at the smallest depth.
        let near = latency;
        let bounded_latency =
            |ln: f64| ln.clamp(near - LATENCY_FACTOR.ln(), near + LATENCY_FACTOR.ln()).exp();
        let [latency, rate, s] = minimum([latency, rate, 2.0_f64.ln()], |&[latency, rate, s]| {
            squares(&points, |depth| soft(bounded_latency(latency), rate.exp(), bounded(s), depth))
        });
        let (latency_s, rate_max, sharpness) = (bounded_latency(latency), rate.exp(), bounded(s));
        let pairs = points
            .iter()
            .map(|point| (point.figure, soft(latency_s, rate_max, sharpness, f64::from(point.input))));
        let scatter = Scatter::of(pairs, 3).ok_or_else(|| no_scatter(SoftMinimum::NAME))?;
        Ok(SoftMinimum { latency_s, rate_max, sharpness, scatter })
    }

    fn predict(&self, depth: u32) -> Interval {
        self.scatter.around(soft(self.latency_s, self.rate_max, self.sharpness, f64::from(depth)))
    }
}

/// The logarithm of the rate at this logarithm of the depth.
fn between(knots: &[(f64, f64)], x: f64) -> f64 {
    let above = knots.partition_point(|(knot, _)| *knot <= x);
    match (above.checked_sub(1).map(|below| knots[below]), knots.get(above)) {
        (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, last)), None) => last,
        // Below the smallest depth each request is served alone, too.
        (None, Some(&(x1, y1))) => y1 + x - x1,
        (None, None) => f64::NAN,
    }
}

impl PerformanceModel for DepthTable {
    type Input = u32;

    const NAME: &'static str = "interpolation between the depths";
    const ASSUMES: &'static str =
        "nothing but that the rate changes little between two depths that were measured";
    const FAILS: &'static str = "between depths that differ much";

    fn fit(measured: &[Measured<u32>]) -> Result<DepthTable, ModelError> {
        let ends = HardMinimum::fit(measured)?;
        let (mut points, _) = prepared(measured, DepthTable::NAME, 3)?;
        points.sort_by_key(|point| point.input);
        let knot = |chunk: &[Measured<u32>]| {
            let sum: f64 = chunk.iter().map(|point| point.figure.ln()).sum();
            (f64::from(chunk[0].input).ln(), sum / chunk.len() as f64)
        };
        let knots: Vec<(f64, f64)> = points.chunk_by(|a, b| a.input == b.input).map(knot).collect();
        let left_out = (1..knots.len()).map(|index| {
            let others: Vec<(f64, f64)> = knots[..index].iter().chain(&knots[index + 1..]).copied().collect();
            (knots[index].1.exp(), between(&others, knots[index].0).exp())
        });
        let scatter = Scatter::of(left_out, 0).ok_or_else(|| no_scatter(DepthTable::NAME))?;
        Ok(DepthTable { knots, ends, scatter })
    }

    fn predict(&self, depth: u32) -> Interval {
        self.scatter.around(between(&self.knots, f64::from(depth).ln()).exp())
    }
}

fn no_scatter(model: &'static str) -> ModelError {
    ModelError::DoesNotHold { model, reason: "its deviation from the measurements is not finite".to_owned() }
}

impl QueueDepthModel {
    /// The model with the smaller hold-out error, the hard minimum where they do not differ; and that error.
    ///
    /// # Errors
    /// Those of the hard minimum.
    pub fn select(measured: &[Measured<u32>]) -> Result<(QueueDepthModel, Option<f64>), ModelError> {
        let hard = HardMinimum::fit(measured)?;
        // The smallest depth is never left out: L is its response time, and follows from no other.
        let least = measured.iter().map(|point| point.input).min();
        let kept: Vec<Measured<u32>> =
            measured.iter().copied().filter(|point| Some(point.input) == least).collect();
        let others: Vec<Measured<u32>> =
            measured.iter().copied().filter(|point| Some(point.input) != least).collect();
        fn fit_with<M: PerformanceModel<Input = u32>>(
            kept: &[Measured<u32>],
            others: &[Measured<u32>],
        ) -> Option<f64> {
            hold_out(others, |some| M::fit(&[kept, some].concat()), M::predict)
        }
        let errors = (fit_with::<HardMinimum>(&kept, &others), fit_with::<SoftMinimum>(&kept, &others));
        let best = match SoftMinimum::fit(measured) {
            Ok(soft) if is_worth_it(errors.0, errors.1) => (QueueDepthModel::Soft(soft), errors.1),
            _ => (QueueDepthModel::Hard(hard), errors.0),
        };
        let error = fit_with::<DepthTable>(&kept, &others);
        Ok(match DepthTable::fit(measured) {
            Ok(table) if is_worth_it(best.1, error) => (QueueDepthModel::Between(table), error),
            _ => best,
        })
    }

    /// Requests a second at this depth.
    pub fn predict(&self, depth: u32) -> Interval {
        match self {
            QueueDepthModel::Hard(model) => model.predict(depth),
            QueueDepthModel::Soft(model) => model.predict(depth),
            QueueDepthModel::Between(model) => model.predict(depth),
        }
    }

    /// Requests a second at a depth, which need not be whole.
    pub(crate) fn rate_at(&self, depth: f64) -> f64 {
        match self {
            QueueDepthModel::Hard(model) => hard(model.latency_s, model.rate_max, depth),
            QueueDepthModel::Soft(model) => soft(model.latency_s, model.rate_max, model.sharpness, depth),
            QueueDepthModel::Between(table) => between(&table.knots, depth.ln()).exp(),
        }
    }

    /// Requests a second that it saturates at.
    pub fn rate_max(&self) -> f64 {
        match self {
            QueueDepthModel::Hard(model) => model.rate_max,
            QueueDepthModel::Soft(model) => model.rate_max,
            QueueDepthModel::Between(table) => table.ends.rate_max,
        }
    }

    /// The response time of a request alone, in seconds.
    pub fn latency_s(&self) -> f64 {
        match self {
            QueueDepthModel::Hard(model) => model.latency_s,
            QueueDepthModel::Soft(model) => model.latency_s,
            QueueDepthModel::Between(table) => table.ends.latency_s,
        }
    }

    /// The depth from which on the device is saturated: P of the PDAM.
    pub fn concurrency(&self) -> f64 {
        self.rate_max() * self.latency_s()
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            QueueDepthModel::Hard(_) => HardMinimum::NAME,
            QueueDepthModel::Soft(_) => SoftMinimum::NAME,
            QueueDepthModel::Between(_) => DepthTable::NAME,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(rate: impl Fn(f64) -> f64) -> Vec<Measured<u32>> {
        [1, 2, 4, 8, 16, 32, 64].map(|input| Measured { input, figure: rate(f64::from(input)) }).into()
    }

    #[test]
    fn both_minima_come_back_and_the_simpler_one_is_selected() {
        let sharp = points(|depth| hard(80e-6, 90e3, depth));
        let (model, error) = QueueDepthModel::select(&sharp).unwrap();
        assert!(matches!(model, QueueDepthModel::Hard(_)) && error.unwrap() < 0.01, "{model:?} {error:?}");
        assert!((model.concurrency() - 7.2).abs() < 0.01, "{model:?}");
        let blunt = points(|depth| soft(80e-6, 90e3, 1.6, depth));
        let (model, _) = QueueDepthModel::select(&blunt).unwrap();
        let QueueDepthModel::Soft(found) = model else { panic!("{model:?}") };
        assert!((found.sharpness / 1.6 - 1.0).abs() < 0.01, "{found:?}");
        assert!((found.rate_max / 90e3 - 1.0).abs() < 0.01, "{found:?}");
        assert!(HardMinimum::fit(&sharp[..2]).is_err());
        // Pairs of neighbours share a page: twice the rate from depth 8 on, which no minimum has.
        let steps =
            points(|depth| if depth < 8.0 { 8e3 * depth.powf(0.5) } else { 4e3 * depth.min(16.0).powf(1.3) });
        let (model, error) = QueueDepthModel::select(&steps).unwrap();
        assert!(matches!(model, QueueDepthModel::Between(_)) && error.unwrap() < 0.2, "{model:?} {error:?}");
        let at = model.predict(32);
        assert!((at.estimate / steps[5].figure - 1.0).abs() < 1e-9 && at.low < at.estimate, "{at:?}");
        assert!((model.rate_at(8.0) / steps[3].figure - 1.0).abs() < 1e-9, "{model:?}");
    }
}
