//! The affine model with a seek term, for hard disks: T = A + S sqrt(d) + n B.
//!
//! Bender et al. (SPAA 2019) have T = s + n t with an average seek s. Over the share d of the disk between the end of one
//! request and the start of the next a head accelerates and brakes, so that the seek grows with the root of d (Ruemmler and Wilkes,
//! IEEE Computer 27(3), 1994). Method: least squares with single requests as points, all with the same weight: where the platter happens
//! to be scatters every request by up to a rotation.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;

use crate::ModelError;
use crate::least_squares::{LeastSquares, Row};
use crate::performance_model::{Measured, PerformanceModel};

/// A request and how far it lies from the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekRequest {
    /// n.
    pub size: Bytes,
    /// d: the distance as a share of the device, from 0 to 1.
    pub distance: f64,
}

/// T = A + S sqrt(d) + n B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekLine {
    /// A in nanoseconds: half a rotation and the command.
    pub a_ns: Interval,
    /// S in nanoseconds: the seek over the whole disk.
    pub full_seek_ns: Interval,
    /// B in nanoseconds for each byte.
    pub b_ns_per_byte: Interval,
    /// The probability of an S this far from 0 on a device without seeks.
    pub seek_p_value: f64,
    fit: LeastSquares<3>,
}

/// The relative error of a parameter that is computed from exact figures.
const ROUNDING: f64 = 1e-6;

impl SeekLine {
    fn regressors(request: SeekRequest) -> [f64; 3] {
        [1.0, request.distance.clamp(0.0, 1.0).sqrt(), request.size.0 as f64]
    }
}

impl PerformanceModel for SeekLine {
    type Input = SeekRequest;

    const NAME: &'static str = "T = A + S sqrt(d) + n B";
    const ASSUMES: &'static str =
        "one request after the other, each of which begins where the head has to move to";
    const FAILS: &'static str =
        "with a queue that the disk reorders, and where a read-ahead or write cache answers";

    fn fit(measured: &[Measured<SeekRequest>]) -> Result<SeekLine, ModelError> {
        let row = |point: &Measured<SeekRequest>| Row {
            regressors: SeekLine::regressors(point.input),
            figure: point.figure,
            weight: 1.0,
        };
        let rows: Vec<Row<3>> = measured.iter().filter(|point| point.figure > 0.0).map(row).collect();
        let fit = LeastSquares::fit(&rows).ok_or_else(|| ModelError::TooFew {
            model: SeekLine::NAME,
            found: rows.len(),
            of: "of different sizes and distances".to_owned(),
            needed: 4,
            remedy: String::new(),
        })?;
        let (a_ns, full_seek_ns, b_ns_per_byte) =
            (fit.coefficient(0), fit.coefficient(1), fit.coefficient(2));
        for (name, value) in [("A", a_ns), ("S", full_seek_ns), ("B", b_ns_per_byte)] {
            // What is negative by the rounding of its computation is 0.
            if value.high < -ROUNDING * a_ns.estimate.abs() {
                let reason = format!("its {name} would be negative");
                return Err(ModelError::DoesNotHold { model: SeekLine::NAME, reason });
            }
        }
        Ok(SeekLine { a_ns, full_seek_ns, b_ns_per_byte, seek_p_value: fit.p_value(1), fit })
    }

    fn predict(&self, request: SeekRequest) -> Interval {
        self.fit.predict(&SeekLine::regressors(request), 1.0)
    }
}
