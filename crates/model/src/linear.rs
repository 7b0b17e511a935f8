//! The throughput model: T(n) = A + n B (El Maghraoui et al., section 4.2, equations 4 and 5).
//!
//! Method: least squares of relative errors, because response times scatter in proportion to themselves: the medians of
//! small requests would count for nothing beside those of large ones. Weights are 1 / T^2, first of the measured T and then
//! of the fitted one, so that a figure that happens to be low does not get more weight for it.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;

use crate::ModelError;
use crate::least_squares::{LeastSquares, Row};
use crate::performance_model::{Measured, PerformanceModel};

/// Rounds in which weights are computed from the fitted line; the second one changes parameters by less than 0.01 %.
const REWEIGHTINGS: usize = 3;

/// T(n) = A + n B, of one class of IOs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// A in nanoseconds.
    pub a_ns: Interval,
    /// B in nanoseconds for each byte.
    pub b_ns_per_byte: Interval,
    /// The share of the variance of the response times that the line explains.
    pub r2: f64,
    /// The probability of a B this far from 0, or further, where response times do not depend on the size.
    pub p_value: f64,
    fit: LeastSquares<2>,
}

impl Linear {
    /// The line itself in nanoseconds, without an interval.
    pub fn time_ns(&self, size: Bytes) -> f64 {
        self.a_ns.estimate + self.b_ns_per_byte.estimate * size.0 as f64
    }

    /// Bytes a second of one request after the other (equation 5).
    pub fn throughput(&self, size: Bytes) -> Interval {
        let time = self.predict(size);
        let rate = |ns: f64| if ns > 0.0 { size.0 as f64 * 1e9 / ns } else { f64::INFINITY };
        Interval { estimate: rate(time.estimate), low: rate(time.high), high: rate(time.low) }
    }

    /// The smallest request whose throughput is at least this share of 1 / B.
    pub fn saturation_size(&self, share: f64) -> Bytes {
        let ratio = self.a_ns.estimate / self.b_ns_per_byte.estimate;
        Bytes((ratio * share / (1.0 - share)).max(0.0) as u64)
    }
}

impl PerformanceModel for Linear {
    type Input = Bytes;

    const NAME: &'static str = "T = A + n B";
    const ASSUMES: &'static str = "one request after the other, each costing a fixed time and a time for each byte, whatever came before";
    const FAILS: &'static str = "below the page size, where a request costs as much as a page; in start-up phases, under garbage \
         collection and beneath caches, where the cost depends on what came before; with several requests in flight";

    fn fit(measured: &[Measured<Bytes>]) -> Result<Linear, ModelError> {
        let usable: Vec<&Measured<Bytes>> =
            measured.iter().filter(|point| point.figure > 0.0 && point.figure.is_finite()).collect();
        let too_few = |found, of: &str| ModelError::TooFew {
            model: Linear::NAME,
            found,
            of: of.to_owned(),
            needed: 3,
            remedy: String::new(),
        };
        let mut sizes: Vec<Bytes> = usable.iter().map(|point| point.input).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() < 3 {
            return Err(too_few(sizes.len(), "of different sizes"));
        }
        let mut rows: Vec<Row<2>> = usable
            .iter()
            .map(|point| Row {
                regressors: [1.0, point.input.0 as f64],
                figure: point.figure,
                weight: point.figure.powi(-2),
            })
            .collect();
        let unusable = || ModelError::DoesNotHold {
            model: Linear::NAME,
            reason: "the response times have no line".to_owned(),
        };
        let mut fit = LeastSquares::fit(&rows).ok_or_else(unusable)?;
        for _ in 0..REWEIGHTINGS {
            let weights: Vec<f64> = rows.iter().map(|row| fitted(&fit, row).powi(-2)).collect();
            if !weights.iter().all(|weight| weight.is_finite()) {
                break;
            }
            rows.iter_mut().zip(weights).for_each(|(row, weight)| row.weight = weight);
            fit = LeastSquares::fit(&rows).ok_or_else(unusable)?;
        }
        let (a_ns, b_ns_per_byte) = (fit.coefficient(0), fit.coefficient(1));
        let refused = |reason: String| ModelError::DoesNotHold { model: Linear::NAME, reason };
        if a_ns.estimate < 0.0 {
            return Err(refused(format!("its A would be negative ({:.1} us)", a_ns.estimate / 1e3)));
        }
        if b_ns_per_byte.estimate <= 0.0 {
            return Err(refused("larger requests do not take longer".to_owned()));
        }
        Ok(Linear { a_ns, b_ns_per_byte, r2: fit.r2(&rows), p_value: fit.p_value(1), fit })
    }

    fn predict(&self, size: Bytes) -> Interval {
        let expected = self.time_ns(size);
        self.fit.predict(&[1.0, size.0 as f64], expected.powi(-2))
    }
}

fn fitted(fit: &LeastSquares<2>, row: &Row<2>) -> f64 {
    fit.coefficients[0] + fit.coefficients[1] * row.regressors[1]
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    fn sizes() -> impl Iterator<Item = Bytes> {
        (2..13).map(|power| Bytes::kib(1 << power))
    }

    #[test]
    fn a_line_comes_back_with_five_per_cent_of_noise() {
        let mut prng = Prng::new(Seed(7));
        let (a, b) = (230e3, 3.987e3 / 1024.0);
        let mut held = [0; 2];
        for _ in 0..200 {
            let points: Vec<Measured<Bytes>> = sizes()
                .flat_map(|size| [size; 3])
                .map(|input| {
                    // The sum of twelve uniform numbers is about normal.
                    let normal = (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0;
                    Measured { input, figure: (a + b * input.0 as f64) * (1.0 + 0.05 * normal) }
                })
                .collect();
            let line = Linear::fit(&points).unwrap();
            held[0] += usize::from(line.a_ns.holds(a));
            held[1] += usize::from(line.b_ns_per_byte.holds(b));
        }
        assert!(held.iter().all(|held| (178..=199).contains(held)), "{held:?} of 200");
    }

    #[test]
    fn a_negative_fixed_time_is_refused() {
        let points: Vec<_> =
            sizes().map(|input| Measured { input, figure: input.0 as f64 * 4.0 - 9e3 }).collect();
        let error = Linear::fit(&points).unwrap_err().to_string();
        assert!(error.contains("does not hold here: its A would be negative (-9.0 us)"), "{error}");
        let two =
            [Measured { input: Bytes::kib(4), figure: 1.0 }, Measured { input: Bytes::kib(8), figure: 2.0 }];
        let error = Linear::fit(&two).unwrap_err().to_string();
        assert_eq!(error, "T = A + n B: 2 measurements of different sizes, and at least 3 are needed");
    }
}
