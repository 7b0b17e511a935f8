//! The throughput model with a breakpoint at the page size.
//!
//! A device reads and writes whole pages, so that a request of less costs about as much as one of a page: a straight line from
//! 4 KB on misses random reads of real drives by 17 to 28 %, one from 16 KB on by 1 to 4 %. Above the breakpoint P the model is
//! T = A + n B; below it T = A + n B + D (n - P), which meets the line at P.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;

use crate::ModelError;
use crate::least_squares::{LeastSquares, Row};
use crate::performance_model::{Measured, PerformanceModel};

/// Two lines that meet at the page size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BrokenLine {
    /// P.
    pub breakpoint: Bytes,
    /// A above the breakpoint, in nanoseconds.
    pub a_ns: Interval,
    /// B above the breakpoint, in nanoseconds for each byte.
    pub b_ns_per_byte: Interval,
    /// Nanoseconds for each byte below the breakpoint.
    pub below_ns_per_byte: f64,
    /// The share of the variance of the response times that the lines explain.
    pub r2: f64,
    fit: LeastSquares<3>,
    residuals: f64,
}

impl BrokenLine {
    fn regressors(breakpoint: Bytes, size: Bytes) -> [f64; 3] {
        let below = size.0 as f64 - breakpoint.0 as f64;
        [1.0, size.0 as f64, below.min(0.0)]
    }

    fn at(breakpoint: Bytes, measured: &[Measured<Bytes>]) -> Option<BrokenLine> {
        let row = |point: &Measured<Bytes>| Row {
            regressors: BrokenLine::regressors(breakpoint, point.input),
            figure: point.figure,
            weight: point.figure.powi(-2),
        };
        let rows: Vec<Row<3>> = measured.iter().map(row).collect();
        let fit = LeastSquares::fit(&rows)?;
        let (a_ns, b_ns_per_byte) = (fit.coefficient(0), fit.coefficient(1));
        let below_ns_per_byte = b_ns_per_byte.estimate + fit.coefficients[2];
        let is_possible = a_ns.estimate >= 0.0 && b_ns_per_byte.estimate > 0.0;
        // What is less than a page costs no more for each byte than a page, and no less than nothing at all.
        let least = a_ns.estimate + b_ns_per_byte.estimate * breakpoint.0 as f64
            - below_ns_per_byte * breakpoint.0 as f64;
        let residuals = fit.variance * fit.degrees;
        let r2 = fit.r2(&rows);
        let line = BrokenLine { breakpoint, a_ns, b_ns_per_byte, below_ns_per_byte, r2, fit, residuals };
        (is_possible && least >= 0.0).then_some(line)
    }
}

impl BrokenLine {
    /// The probability of a B this far from 0 where response times do not depend on the size.
    pub fn p_value(&self) -> f64 {
        self.fit.p_value(1)
    }
}

impl PerformanceModel for BrokenLine {
    type Input = Bytes;

    const NAME: &'static str = "T = A + n B from the page size on";
    const ASSUMES: &'static str =
        "as T = A + n B, but that requests below the page size have a line of their own";
    const FAILS: &'static str = "as T = A + n B, but for requests below the page size";

    fn fit(measured: &[Measured<Bytes>]) -> Result<BrokenLine, ModelError> {
        let usable: Vec<Measured<Bytes>> =
            measured.iter().copied().filter(|point| point.figure > 0.0 && point.figure.is_finite()).collect();
        let mut sizes: Vec<Bytes> = usable.iter().map(|point| point.input).collect();
        sizes.sort_unstable();
        sizes.dedup();
        const SIZES_LEAST: usize = 5;
        if sizes.len() < SIZES_LEAST {
            return Err(ModelError::TooFew {
                model: BrokenLine::NAME,
                found: sizes.len(),
                of: "of different sizes".to_owned(),
                needed: SIZES_LEAST,
                remedy: String::new(),
            });
        }
        // The line above has three sizes or more: two fit any line.
        let candidates = sizes[1..sizes.len() - 2].iter().filter_map(|&size| BrokenLine::at(size, &usable));
        candidates.min_by(|a, b| a.residuals.total_cmp(&b.residuals)).ok_or_else(|| ModelError::DoesNotHold {
            model: BrokenLine::NAME,
            reason: "no breakpoint leaves lines with an A of 0 or more".to_owned(),
        })
    }

    fn predict(&self, size: Bytes) -> Interval {
        let regressors = BrokenLine::regressors(self.breakpoint, size);
        let expected: f64 = self.fit.coefficients.iter().zip(regressors).map(|(c, x)| c * x).sum();
        self.fit.predict(&regressors, expected.powi(-2))
    }
}
