//! The larger of a cost per IO and a cost per byte: what a device costs that is kept busy.
//!
//! T(n) = max(c_IO, n c_byte): with enough requests in flight either the rate of requests or the bandwidth is the limit, as
//! io_properties.yaml of Seastar and the rate limits of cloud volumes have it. Method: the knee lies between two of
//! the sizes; on either side the parameter is the geometric mean, and the knee with the least scatter is taken.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;

use crate::ModelError;
use crate::performance_model::{Measured, PerformanceModel};
use crate::scatter::Scatter;

/// The larger of a cost per IO and a cost per byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearMax {
    /// Nanoseconds of one IO.
    pub io_ns: f64,
    /// Nanoseconds of one byte; 0 where all sizes cost the same.
    pub byte_ns: f64,
    scatter: Scatter,
}

impl LinearMax {
    fn time_ns(io_ns: f64, byte_ns: f64, size: Bytes) -> f64 {
        io_ns.max(byte_ns * size.0 as f64)
    }

    /// The size from which on the cost per byte decides.
    pub fn knee(&self) -> Option<Bytes> {
        (self.byte_ns > 0.0 && self.io_ns > 0.0).then(|| Bytes((self.io_ns / self.byte_ns) as u64))
    }
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value.ln(), count + 1));
    if count == 0 { 0.0 } else { (sum / f64::from(count)).exp() }
}

impl PerformanceModel for LinearMax {
    type Input = Bytes;

    const NAME: &'static str = "T = max(c_IO, n c_byte)";
    const ASSUMES: &'static str =
        "enough requests in flight that either their rate or the bandwidth is the limit";
    const FAILS: &'static str = "near the knee, where both limits count; with few requests in flight";

    fn fit(measured: &[Measured<Bytes>]) -> Result<LinearMax, ModelError> {
        let mut usable: Vec<Measured<Bytes>> = measured
            .iter()
            .copied()
            .filter(|point| point.figure > 0.0 && point.figure.is_finite() && point.input > Bytes::ZERO)
            .collect();
        usable.sort_by_key(|point| point.input);
        let candidates = (0..=usable.len()).filter_map(|knee| {
            let (small, large) = usable.split_at(knee);
            let io_ns = geometric_mean(small.iter().map(|point| point.figure));
            let byte_ns = geometric_mean(large.iter().map(|point| point.figure / point.input.0 as f64));
            let pairs =
                usable.iter().map(|point| (point.figure, LinearMax::time_ns(io_ns, byte_ns, point.input)));
            let squares: f64 = pairs.clone().map(|(a, b)| (a / b).ln().powi(2)).sum();
            let scatter = Scatter::of(pairs, 2)?;
            Some((squares, LinearMax { io_ns, byte_ns, scatter }))
        });
        let best = candidates.min_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, model)| model).ok_or_else(|| ModelError::TooFew {
            model: LinearMax::NAME,
            found: usable.len(),
            of: "of different sizes".to_owned(),
            needed: 3,
            remedy: String::new(),
        })
    }

    fn predict(&self, size: Bytes) -> Interval {
        self.scatter.around(LinearMax::time_ns(self.io_ns, self.byte_ns, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_costs_come_back() {
        let points: Vec<_> = (2..11)
            .map(|power| {
                let input = Bytes::kib(1 << power);
                Measured { input, figure: 10e3_f64.max(0.5 * input.0 as f64) }
            })
            .collect();
        let model = LinearMax::fit(&points).unwrap();
        assert!((model.io_ns - 10e3).abs() < 1e-6 && (model.byte_ns - 0.5).abs() < 1e-9, "{model:?}");
        assert_eq!(model.knee(), Some(Bytes(20_000)));
        assert!(LinearMax::fit(&points[..2]).is_err());
    }
}
