//! The medians themselves, with straight lines between them: where no equation describes a device.
//!
//! Between two sizes that were measured, the logarithm of the response time is linear in that of the size; beyond the last ones the
//! nearest two go on. It has as many parameters as there are sizes, and so it is selected only where it predicts sizes that were left out
//! better than every equation.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;

use crate::ModelError;
use crate::performance_model::{Measured, PerformanceModel};
use crate::scatter::Scatter;

/// Response times between those that were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Interpolation {
    /// The logarithms of size and response time, ascending.
    knots: Vec<(f64, f64)>,
    scatter: Scatter,
}

impl Interpolation {
    fn at(knots: &[(f64, f64)], x: f64) -> f64 {
        let above = knots.partition_point(|(knot, _)| *knot <= x).clamp(1, knots.len() - 1);
        let ((x0, y0), (x1, y1)) = (knots[above - 1], knots[above]);
        y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    }
}

impl PerformanceModel for Interpolation {
    type Input = Bytes;

    const NAME: &'static str = "interpolation between the sizes";
    const ASSUMES: &'static str =
        "nothing but that response times change little between two sizes that were measured";
    const FAILS: &'static str = "beyond the largest and the smallest size, and between two sizes of which only one is a multiple of a page";

    fn fit(measured: &[Measured<Bytes>]) -> Result<Interpolation, ModelError> {
        let mut usable: Vec<(Bytes, f64)> = measured
            .iter()
            .filter(|point| point.figure > 0.0 && point.figure.is_finite() && point.input > Bytes::ZERO)
            .map(|point| (point.input, point.figure.ln()))
            .collect();
        usable.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let of_size: Vec<&[(Bytes, f64)]> = usable.chunk_by(|a, b| a.0 == b.0).collect();
        let knot = |chunk: &&[(Bytes, f64)]| {
            let count = chunk.len();
            ((chunk[0].0.0 as f64).ln(), (chunk[(count - 1) / 2].1 + chunk[count / 2].1) / 2.0)
        };
        let knots: Vec<(f64, f64)> = of_size.iter().map(knot).collect();
        let found = knots.len();
        // What a size is missed by where only its neighbours are known: by the repetitions of one size alone a line between two sizes
        // would look exact. The two ends have no neighbours on both sides.
        let left_out = |index: usize| {
            let others = [&knots[..index], &knots[index + 1..]].concat();
            let predicted = Interpolation::at(&others, knots[index].0).exp();
            of_size[index].iter().map(move |(_, y)| (y.exp(), predicted))
        };
        let scatter = Scatter::of((1..found.max(2) - 1).flat_map(left_out), 0);
        let scatter = scatter.ok_or_else(|| ModelError::TooFew {
            model: Interpolation::NAME,
            found,
            of: "of different sizes".to_owned(),
            needed: 3,
            remedy: String::new(),
        })?;
        Ok(Interpolation { knots, scatter })
    }

    fn predict(&self, size: Bytes) -> Interval {
        self.scatter.around(Interpolation::at(&self.knots, (size.0.max(1) as f64).ln()).exp())
    }
}
