//! Random writes over the fill: how the share of the device that holds data changes what a write costs.
//!
//! # Model
//! The write amplification of uniform random writes follows from the fill ([`write_amplification`]), and the mean time from the write
//! amplification ([`GarbageCollection`]): T = T0 (1 + c (WA(n / P) - 1)), where n bytes of data are on flash of P bytes.
//!
//! # Method
//! 1. For each P of a grid T0 and c follow by least squares; the P with the smallest residuals stays.
//! 2. Against it stands interpolation between the fills, which assumes no mechanism. The hold-out error decides.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;

use crate::ModelError;
use crate::garbage_collection::{GarbageCollection, write_amplification};
use crate::hold_out::{hold_out_error, is_worth_it};
use crate::interpolation::Interpolation;
use crate::performance_model::{Measured, PerformanceModel};

/// The grid of P relative to the largest fill: from less over-provisioning than any drive has to three times the capacity, in steps
/// of 2 %, which change the write amplification of a full drive by less than a tenth.
const PHYSICAL_LEAST: f64 = 1.01;
const PHYSICAL_MOST: f64 = 3.0;
const PHYSICAL_STEP: f64 = 1.02;

/// T = T0 (1 + c (WA(n / P) - 1)).
#[derive(Clone, Debug, PartialEq)]
pub struct FillCurve {
    /// P in bytes: the flash that holds data, as far as its times show it.
    pub physical_bytes: f64,
    /// T0 and c.
    pub costs: GarbageCollection,
}

impl PerformanceModel for FillCurve {
    /// The data on the device.
    type Input = Bytes;

    const NAME: &'static str = "T = T0 (1 + c (WA(n / P) - 1))";
    const ASSUMES: &'static str =
        "uniform random writes to a page map that collects the oldest blocks first, in the steady state";
    const FAILS: &'static str = "with log blocks, whose merges do not depend on the fill, and while a write buffer or an SLC cache takes the writes";

    fn fit(measured: &[Measured<Bytes>]) -> Result<FillCurve, ModelError> {
        let largest = measured.iter().map(|point| point.input.0).max().unwrap_or(0) as f64;
        let with = |physical_bytes: f64| {
            let amplified: Vec<Measured<f64>> = measured
                .iter()
                .map(|point| Measured {
                    input: write_amplification(point.input.0 as f64 / physical_bytes),
                    figure: point.figure,
                })
                .collect();
            Ok(FillCurve { physical_bytes, costs: GarbageCollection::fit(&amplified)? })
        };
        let ratios = std::iter::successors(Some(PHYSICAL_LEAST), |ratio| Some(ratio * PHYSICAL_STEP));
        let curves = ratios.take_while(|ratio| *ratio <= PHYSICAL_MOST).map(|ratio| with(largest * ratio));
        let better =
            |best: Result<FillCurve, ModelError>, curve: Result<FillCurve, ModelError>| match (&best, &curve)
            {
                (Ok(known), Ok(found)) if known.costs.variance() <= found.costs.variance() => best,
                (_, Ok(_)) => curve,
                (_, Err(_)) => best,
            };
        curves.reduce(better).expect("the grid is not empty")
    }

    fn predict(&self, filled: Bytes) -> Interval {
        self.costs.predict(write_amplification(filled.0 as f64 / self.physical_bytes))
    }
}

/// The time of a random write over the data on the device, by the equation with the smaller hold-out error.
#[derive(Clone, Debug, PartialEq)]
pub enum FillModel {
    /// By the write amplification.
    Collection(FillCurve),
    /// Between the fills that were measured.
    Between(Interpolation),
}

impl FillModel {
    /// The model with the smaller hold-out error, and that error.
    ///
    /// # Errors
    /// Those of the curve, where fills cannot be interpolated either.
    pub fn select(measured: &[Measured<Bytes>]) -> Result<(FillModel, Option<f64>), ModelError> {
        let curve = FillCurve::fit(measured).map(FillModel::Collection);
        let errors = [hold_out_error::<FillCurve>(measured), hold_out_error::<Interpolation>(measured)];
        match (curve, Interpolation::fit(measured)) {
            (Ok(curve), Ok(_)) if !is_worth_it(errors[0], errors[1]) => Ok((curve, errors[0])),
            (_, Ok(between)) => Ok((FillModel::Between(between), errors[1])),
            (curve, Err(_)) => Ok((curve?, errors[0])),
        }
    }

    /// The time of a random write, in nanoseconds.
    pub fn predict(&self, filled: Bytes) -> Interval {
        match self {
            FillModel::Collection(model) => model.predict(filled),
            FillModel::Between(model) => model.predict(filled),
        }
    }

    /// Its equation.
    pub fn name(&self) -> &'static str {
        match self {
            FillModel::Collection(_) => FillCurve::NAME,
            FillModel::Between(_) => "interpolation between the fills",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(time: impl Fn(f64) -> f64) -> Vec<Measured<Bytes>> {
        let fills = [400, 550, 700, 800, 900, 1000];
        fills.map(|mib| Measured { input: Bytes::mib(mib), figure: time(mib as f64 / 1100.0) }).into()
    }

    #[test]
    fn the_flash_behind_a_fill_is_found_and_a_fill_between_is_predicted() {
        let time = |alpha: f64| 100e3 * (1.0 + 0.8 * (write_amplification(alpha) - 1.0));
        let (model, error) = FillModel::select(&points(time)).unwrap();
        let FillModel::Collection(curve) = &model else { panic!("{model:?}") };
        assert!((curve.physical_bytes / Bytes::mib(1100).0 as f64 - 1.0).abs() < 0.02, "{curve:?}");
        assert!(error.unwrap() < 0.05, "{error:?}");
        let found = model.predict(Bytes::mib(950)).estimate / time(950.0 / 1100.0);
        assert!((found - 1.0).abs() < 0.02, "{found}");
    }

    #[test]
    fn a_cost_that_falls_with_the_fill_has_no_collection() {
        // Interpolation needs the scatter of repeated measurements.
        let repeated = [points(|alpha| 1e5 / alpha), points(|alpha| 1.01e5 / alpha)].concat();
        let (model, _) = FillModel::select(&repeated).unwrap();
        assert!(matches!(model, FillModel::Between(_)), "{model:?}");
        assert!(FillModel::select(&points(|_| 1e5)[..2]).is_err());
    }
}
