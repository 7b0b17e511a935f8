//! Random requests over the distance from the one before: the model of a device that seeks.
//!
//! # Method
//! 1. [`SeekLine`] is fitted to the medians and to the means of requests of several sizes and distances.
//! 2. A line without a seek, T = A + n B, is fitted to the same. The seek stays if it lowers the hold-out error, and if such a seek would be
//!    improbable where the distance does not matter.

use flashlab_base::Bytes;
use flashlab_sim::profile::ThroughputClass;

use crate::ModelError;
use crate::hold_out::{hold_out, hold_out_error, is_worth_it};
use crate::linear::Linear;
use crate::performance_model::{Measured, PerformanceModel, range_of};
use crate::run_points::RunPoint;
use crate::seek::{SeekLine, SeekRequest};

/// A seek that is this probable where the distance does not matter is none.
const SIGNIFICANT_P: f64 = 0.05;

/// Random requests of one class on a device that seeks.
#[derive(Clone, Debug, PartialEq)]
pub struct SeekModel {
    /// The smallest and the largest size that were measured.
    pub sizes: [Bytes; 2],
    /// The medians.
    pub medians: SeekLine,
    /// The means, and so throughput.
    pub means: SeekLine,
    /// The mean relative error of means that were left out.
    pub hold_out_error: Option<f64>,
    /// The same of T = A + n B, which knows no distance.
    pub line_hold_out_error: Option<f64>,
    /// The device that the distances are shares of.
    pub capacity: Bytes,
}

impl SeekModel {
    /// The model of a class, or why it has none.
    pub(crate) fn fit(
        points: &[RunPoint],
        class: ThroughputClass,
        capacity: Bytes,
    ) -> Result<SeekModel, String> {
        let of_class = points.iter().filter(|point| point.workload.class == class && !point.is_disturbed);
        let of = |figure: fn(&RunPoint) -> f64| -> Vec<Measured<SeekRequest>> {
            let measured = of_class.clone().filter_map(|point| {
                let distance = point.workload.distance?.0 as f64 / capacity.0.max(1) as f64;
                let input = SeekRequest { size: point.workload.size, distance };
                Some(Measured { input, figure: figure(point) })
            });
            measured.collect()
        };
        let (medians, means) = (of(|point| point.p50_ns), of(|point| point.mean_ns));
        if means.is_empty() {
            return Err("no distances were measured: flashlab model fit does".to_owned());
        }
        let said = |error: ModelError| error.to_string();
        let (of_medians, of_means) =
            (SeekLine::fit(&medians).map_err(said)?, SeekLine::fit(&means).map_err(said)?);
        let with_seek = hold_out_error::<SeekLine>(&means);
        let without = hold_out(
            &means,
            |others| {
                let sizes: Vec<Measured<Bytes>> = others
                    .iter()
                    .map(|point| Measured { input: point.input.size, figure: point.figure })
                    .collect();
                Linear::fit(&sizes)
            },
            |line, input| line.predict(input.size),
        );
        if of_means.seek_p_value > SIGNIFICANT_P || !is_worth_it(without, with_seek) {
            return Err("its response times do not depend on the distance".to_owned());
        }
        Ok(SeekModel {
            sizes: range_of(means.iter().map(|point| point.input.size)).unwrap_or_default(),
            medians: of_medians,
            means: of_means,
            hold_out_error: with_seek,
            line_hold_out_error: without,
            capacity,
        })
    }
}
