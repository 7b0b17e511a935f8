//! What garbage collection costs: T = T0 (1 + c (WA - 1)).
//!
//! A write amplification of WA means WA - 1 copied pages for each page that the host writes. T0 is the write without
//! collection, c the cost of a copied page relative to a written one: below 1 where copies stay inside a die, above where
//! they share the channel with the host. Method: least squares in 1 and WA - 1, of relative errors.
//!
//! The write amplification at another fill follows from that of uniform random writes with FIFO cleaning in the limit of a large
//! device (Desnoyers 2012; Xiang and Kurkoski, arXiv 1110.4245): A = x / (x + W0(-x e^-x)), x = 1 / alpha, with alpha the
//! share of the physical pages that hold data.

use flashlab_analysis::decide::ranks::Interval;

use crate::ModelError;
use crate::least_squares::{LeastSquares, Row};
use crate::performance_model::{Measured, PerformanceModel};

/// T = T0 (1 + c (WA - 1)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GarbageCollection {
    /// T0 in nanoseconds.
    pub t0_ns: Interval,
    /// c: the cost of a copied page relative to a written one.
    pub copy_cost: f64,
    fit: LeastSquares<2>,
}

impl GarbageCollection {
    /// The variance of the relative residuals.
    pub(crate) fn variance(&self) -> f64 {
        self.fit.variance
    }
}

impl PerformanceModel for GarbageCollection {
    /// The write amplification.
    type Input = f64;

    const NAME: &'static str = "T = T0 (1 + c (WA - 1))";
    const ASSUMES: &'static str = "writes that wait for the collection that they cause, on average";
    const FAILS: &'static str = "while a write buffer or an SLC cache takes the writes, and where idle time is used for collection; of \
         single response times, which are short but for those that wait for a whole block";

    fn fit(measured: &[Measured<f64>]) -> Result<GarbageCollection, ModelError> {
        let usable = measured.iter().filter(|point| point.input >= 1.0 && point.figure > 0.0);
        let rows: Vec<Row<2>> = usable
            .map(|point| Row {
                regressors: [1.0, point.input - 1.0],
                figure: point.figure,
                weight: point.figure.powi(-2),
            })
            .collect();
        let fit = LeastSquares::fit(&rows).ok_or_else(|| ModelError::TooFew {
            model: GarbageCollection::NAME,
            found: rows.len(),
            of: "at different write amplifications".to_owned(),
            needed: 3,
            remedy: "; measure at several fills".to_owned(),
        })?;
        let t0_ns = fit.coefficient(0);
        let copy_cost = fit.coefficients[1] / t0_ns.estimate;
        if t0_ns.estimate <= 0.0 || copy_cost < 0.0 {
            let reason = format!(
                "a write without collection would take {:.1} us, and a copied page {copy_cost:.2} of that",
                t0_ns.estimate / 1e3
            );
            return Err(ModelError::DoesNotHold { model: GarbageCollection::NAME, reason });
        }
        Ok(GarbageCollection { t0_ns, copy_cost, fit })
    }

    fn predict(&self, write_amplification: f64) -> Interval {
        let extra = write_amplification - 1.0;
        let expected = self.t0_ns.estimate * (1.0 + self.copy_cost * extra);
        self.fit.predict(&[1.0, extra], expected.powi(-2))
    }
}

/// The write amplification of uniform random writes where data fills this share of the physical pages, from 0 to 1
/// (exclusive).
pub fn write_amplification(alpha: f64) -> f64 {
    let x = 1.0 / alpha.clamp(1e-6, 1.0 - 1e-9);
    // y = W0(-x e^-x) lies above -1 and solves y e^y = -x e^-x: bisection, because Newton fails near the branch point.
    let right = -x * (-x).exp();
    let (mut low, mut high) = (-1.0_f64, 0.0_f64);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if middle * middle.exp() < right { low = middle } else { high = middle }
    }
    x / (x + (low + high) / 2.0)
}

/// The share of the physical pages that has to hold data for this write amplification: the inverse of
/// [`write_amplification`].
pub fn fill_of(amplification: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1.0 - 1e-9);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if write_amplification(middle) < amplification { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}
