//! The models of one class of IOs, one after the other: of medians and of means, selected by hold-out error.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;

use crate::ModelError;
use crate::broken_line::BrokenLine;
use crate::hold_out::{error_of, is_worth_it, left_out};
use crate::interpolation::Interpolation;
use crate::linear::Linear;
use crate::linear_max::LinearMax;
use crate::performance_model::{Measured, PerformanceModel, range_of};
use crate::scatter::Scatter;

/// The time of a request over its size: an equation, and how far sizes are from it that it was not fitted to.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeModel {
    /// The equation.
    pub equation: SizeEquation,
    /// The mean relative error on sizes that were left out.
    pub hold_out_error: Option<f64>,
    left_out: Option<Scatter>,
}

/// What a [`SizeModel`] predicts with.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeEquation {
    /// T = A + n B.
    Line(Linear),
    /// The same from the page size on.
    Broken(BrokenLine),
    /// max(c_IO, n c_byte).
    Max(LinearMax),
    /// Between the sizes that were measured.
    Between(Interpolation),
}

/// A fitted equation with its hold-out error, and what was left out.
fn candidate<M: PerformanceModel<Input = Bytes>>(
    measured: &[Measured<Bytes>],
    equation: fn(M) -> SizeEquation,
) -> Result<SizeModel, ModelError> {
    let model = M::fit(measured)?;
    let mut left_out = left_out(measured, |others| M::fit(others), |model, size| model.predict(size));
    let hold_out_error = error_of(&left_out);
    // Without the smallest and the largest size a model has to predict beyond what it was fitted to. Nobody asks it for that.
    let ends = range_of(measured.iter().map(|point| point.input));
    left_out.retain(|point| !ends.is_some_and(|ends| ends.contains(&point.input)));
    Ok(SizeModel { equation: equation(model), hold_out_error, left_out: Scatter::of_left_out(&left_out) })
}

impl SizeModel {
    /// The model with the smallest hold-out error, the simplest where they do not differ.
    ///
    /// # Errors
    /// Those of the line, where no other model can be fitted either.
    pub fn select(measured: &[Measured<Bytes>]) -> Result<SizeModel, ModelError> {
        let mut best = candidate(measured, SizeEquation::Line);
        let others = [
            candidate(measured, SizeEquation::Max),
            candidate(measured, SizeEquation::Broken),
            candidate(measured, SizeEquation::Between),
        ];
        for model in others.into_iter().flatten() {
            match &best {
                Ok(known) if !is_worth_it(known.hold_out_error, model.hold_out_error) => {}
                _ => best = Ok(model),
            }
        }
        best
    }

    /// The response time of a request, in nanoseconds.
    pub fn predict(&self, size: Bytes) -> Interval {
        let own = match &self.equation {
            SizeEquation::Line(model) => model.predict(size),
            SizeEquation::Broken(model) => model.predict(size),
            SizeEquation::Max(model) => model.predict(size),
            SizeEquation::Between(model) => model.predict(size),
        };
        self.left_out.map_or(own, |scatter| scatter.widen(own))
    }

    /// Its equation.
    pub fn name(&self) -> &'static str {
        match self.equation {
            SizeEquation::Line(_) => Linear::NAME,
            SizeEquation::Broken(_) => BrokenLine::NAME,
            SizeEquation::Max(_) => LinearMax::NAME,
            SizeEquation::Between(_) => Interpolation::NAME,
        }
    }

    /// What it takes for granted, and where it fails.
    pub fn limits(&self) -> [&'static str; 2] {
        match self.equation {
            SizeEquation::Line(_) => [Linear::ASSUMES, Linear::FAILS],
            SizeEquation::Broken(_) => [BrokenLine::ASSUMES, BrokenLine::FAILS],
            SizeEquation::Max(_) => [LinearMax::ASSUMES, LinearMax::FAILS],
            SizeEquation::Between(_) => [Interpolation::ASSUMES, Interpolation::FAILS],
        }
    }
}

/// The throughput model of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassModel {
    /// The smallest and the largest size that were measured.
    pub sizes: [Bytes; 2],
    /// What predicts medians.
    pub medians: SizeModel,
    /// What predicts means, and so throughput.
    pub means: SizeModel,
    /// The mean relative error of medians that were left out.
    pub hold_out_error: Option<f64>,
    /// The same of the line alone.
    pub line_hold_out_error: Option<f64>,
    /// The page below which a request costs many times one of a page: no size that is no multiple of it can be predicted from those that
    /// are.
    pub whole_page: Option<Bytes>,
    /// A, B and their figures, or why T = A + n B does not hold.
    pub parameters: Result<LineParameters, String>,
}

/// A and B of the throughput model: of the line, or of its part above the page size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineParameters {
    /// A in nanoseconds.
    pub a_ns: Interval,
    /// B in nanoseconds for each byte.
    pub b_ns_per_byte: Interval,
    /// The share of the variance that the model explains.
    pub r2: f64,
    /// The probability of a B this far from 0 where the size does not matter.
    pub p_value: f64,
    /// The page size, and nanoseconds for each byte below it.
    pub breakpoint: Option<(Bytes, f64)>,
}

/// A slope that is this probable where there is none is not one.
const SIGNIFICANT_P: f64 = 0.05;
/// A smaller request that costs this many times a larger one, in all zones, is a part of a page that costs a merge or a read. Noise, and
/// the start-up of single runs, make the means of neighbouring sizes differ by less than 2 in one of the zones at least.
const PART_OF_PAGE: f64 = 4.0;

/// The largest size of which every run costs far less than any of the next smaller one. On a real disk that others use, single runs of
/// each size take ten times as long as others.
fn whole_page(means: &[Measured<Bytes>]) -> Option<Bytes> {
    let mut sizes: Vec<(Bytes, f64)> = means.iter().map(|point| (point.input, point.figure)).collect();
    sizes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let of_size: Vec<&[(Bytes, f64)]> = sizes.chunk_by(|a, b| a.0 == b.0).collect();
    let falls = of_size.windows(2).filter(|pair| {
        let (fastest, slowest) = (pair[0][0].1, pair[1][pair[1].len() - 1].1);
        fastest > PART_OF_PAGE * slowest
    });
    falls.map(|pair| pair[1][0].0).max()
}

impl ClassModel {
    /// Fits medians and means over the size.
    ///
    /// # Errors
    /// Those of [`SizeModel::select`].
    pub fn fit(medians: &[Measured<Bytes>], means: &[Measured<Bytes>]) -> Result<ClassModel, ModelError> {
        let model = SizeModel::select(medians)?;
        let mean_model = SizeModel::select(means)?;
        let parameters = match &model.equation {
            SizeEquation::Broken(broken) => Ok(LineParameters {
                a_ns: broken.a_ns,
                b_ns_per_byte: broken.b_ns_per_byte,
                r2: broken.r2,
                p_value: broken.p_value(),
                breakpoint: Some((broken.breakpoint, broken.below_ns_per_byte)),
            }),
            SizeEquation::Line(_) | SizeEquation::Max(_) | SizeEquation::Between(_) => Linear::fit(medians)
                .map(|line| LineParameters {
                    a_ns: line.a_ns,
                    b_ns_per_byte: line.b_ns_per_byte,
                    r2: line.r2,
                    p_value: line.p_value,
                    breakpoint: None,
                }),
        };
        let parameters = parameters.map_err(|error| error.to_string()).and_then(|parameters| {
            if parameters.p_value > SIGNIFICANT_P {
                let p = parameters.p_value;
                return Err(format!("response times depend on the size no more than on chance (p = {p:.2})"));
            }
            Ok(parameters)
        });
        let line_hold_out_error = crate::hold_out::hold_out_error::<Linear>(medians);
        let whole_page = whole_page(means);
        let sizes = range_of(medians.iter().map(|point| point.input)).unwrap_or_default();
        Ok(ClassModel {
            sizes,
            whole_page,
            hold_out_error: model.hold_out_error,
            medians: model,
            means: mean_model,
            line_hold_out_error,
            parameters,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_where_a_smaller_request_costs_far_more() {
        let measured = |times: &[(u64, f64)]| -> Vec<Measured<Bytes>> {
            times.iter().map(|&(kib, figure)| Measured { input: Bytes::kib(kib), figure }).collect()
        };
        // Sequential writes of the SD card: each one of 4 KiB merges a block.
        let card = measured(&[(4, 140e6), (8, 2.5e6), (16, 2.8e6), (32, 5.4e6)]);
        assert_eq!(whole_page(&card), Some(Bytes::kib(8)));
        let plain = measured(&[(4, 190e3), (8, 180e3), (16, 270e3), (32, 400e3)]);
        assert_eq!(whole_page(&plain), None);
        // A disk that others use: sequential writes of 128 and 256 KiB in three zones.
        let disturbed =
            measured(&[(128, 1859e3), (128, 3407e3), (128, 95e3), (256, 175e3), (256, 352e3), (256, 324e3)]);
        assert_eq!(whole_page(&disturbed), None);
    }
}
