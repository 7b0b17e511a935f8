//! How reads and writes share a device: the frontier of what it does at once.
//!
//! A device that does at most R reads a second, or W writes a second (or bytes), and both independently, does r and w of them with
//! r / R + w / W <= 1. Where reads and writes disturb each other the rest of the time is lost:
//! r / R + w / W + k (r / R) (w / W) <= 1. The product is the probability that a read follows a write or a write a read, if
//! they come in random order: of a hard disk k is the seek between the two, of flash the reads that wait
//! behind a program operation, and the switch of the bus.
//!
//! Method: the least squares of radial errors: how much further from the origin a point of the frontier lies than the model has it.

use flashlab_analysis::decide::ranks::Interval;

use crate::ModelError;
use crate::hold_out::{error_of, is_worth_it, left_out};
use crate::performance_model::{Measured, PerformanceModel};
use crate::scatter::Scatter;
use crate::search::minimum;

/// The frontier of reads and writes at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixedFrontier {
    /// R: reads a second without a write.
    pub read_max: f64,
    /// W: writes without a read, in the unit that they are counted in.
    pub write_max: f64,
    /// k: 0 where they share the device independently.
    pub interference: f64,
    /// The mean relative error on what it was not fitted to.
    pub hold_out_error: Option<f64>,
    scatter: Scatter,
    /// How far mixes are from it that were left out, but for the loads of reads alone and of writes alone: without one of them that end is not
    /// known.
    left_out: Option<Scatter>,
}

/// A mix: reads and writes in a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadMix {
    /// The angle between no writes (0) and no reads (pi / 2), as the arctangent of writes / reads.
    reads: f64,
    writes: f64,
}

impl LoadMix {
    /// A mix of reads and writes, both in the units of the frontier.
    pub fn new(reads: f64, writes: f64) -> LoadMix {
        LoadMix { reads, writes }
    }
}

/// How many times the mix fits the device: the positive root of x (r + w) + k x^2 r w = 1, of the shares r and w.
fn radius(reads: f64, writes: f64, interference: f64) -> f64 {
    let (sum, product) = (reads + writes, interference * reads * writes);
    // In the form that holds for a product of 0.
    2.0 / (sum + (sum * sum + 4.0 * product).sqrt())
}

impl MixedFrontier {
    /// The most of a mix: its reads and writes a second.
    pub fn most(&self, mix: LoadMix) -> (Interval, Interval) {
        let factor = self.predict(mix);
        (factor.map(|factor| factor * mix.reads), factor.map(|factor| factor * mix.writes))
    }

    /// The mean of the radial errors, relative.
    pub fn error(&self, measured: &[Measured<LoadMix>]) -> f64 {
        let errors =
            measured.iter().map(|point| (self.predict(point.input).estimate / point.figure - 1.0).abs());
        errors.sum::<f64>() / measured.len() as f64
    }

    /// A measured point of the frontier: the reads a second at this number of writes a second.
    pub fn measured(reads: f64, writes: f64) -> Measured<LoadMix> {
        Measured { input: LoadMix::new(reads, writes), figure: 1.0 }
    }

    fn with(measured: &[Measured<LoadMix>], interferes: bool) -> Result<MixedFrontier, ModelError> {
        let most = |of: fn(&LoadMix) -> f64| {
            measured.iter().map(|point| of(&point.input) * point.figure).fold(0.0, f64::max)
        };
        let (reads, writes) = (most(|mix| mix.reads), most(|mix| mix.writes));
        let parameters = if interferes { 3 } else { 2 };
        if measured.len() <= parameters || reads <= 0.0 || writes <= 0.0 {
            return Err(ModelError::TooFew {
                model: MixedFrontier::NAME,
                found: measured.len(),
                of: "of different mixes of reads and writes".to_owned(),
                needed: parameters + 1,
                remedy: String::new(),
            });
        }
        let k = |x: f64| if interferes { x.max(0.0) } else { 0.0 };
        let factor = |point: &Measured<LoadMix>, reads: f64, writes: f64, k: f64| {
            radius(point.input.reads / reads, point.input.writes / writes, k) / point.figure
        };
        let [ln_reads, ln_writes, x] = minimum([reads.ln(), writes.ln(), 0.1], |&[reads, writes, x]| {
            let errors =
                measured.iter().map(|point| factor(point, reads.exp(), writes.exp(), k(x)).ln().powi(2));
            errors.sum()
        });
        let (read_max, write_max, interference) = (ln_reads.exp(), ln_writes.exp(), k(x));
        let pairs = measured.iter().map(|point| (1.0, factor(point, read_max, write_max, interference)));
        let scatter = Scatter::of(pairs, parameters).ok_or_else(|| ModelError::DoesNotHold {
            model: MixedFrontier::NAME,
            reason: "its deviation from the measurements is not finite".to_owned(),
        })?;
        Ok(MixedFrontier { read_max, write_max, interference, hold_out_error: None, scatter, left_out: None })
    }
}

impl PerformanceModel for MixedFrontier {
    type Input = LoadMix;

    const NAME: &'static str = "r / R + w / W + k (r / R) (w / W) = 1";
    const ASSUMES: &'static str = "reads and writes in random order on a saturated device";
    const FAILS: &'static str = "where writes are buffered and written later, and where garbage collection makes writes slower the more of them there are";

    fn fit(measured: &[Measured<LoadMix>]) -> Result<MixedFrontier, ModelError> {
        let simple = MixedFrontier::with(measured, false)?;
        let of = |interferes| {
            left_out(measured, |others| MixedFrontier::with(others, interferes), MixedFrontier::predict)
        };
        let (simple_left_out, complex_left_out) = (of(false), of(true));
        let errors = (error_of(&simple_left_out), error_of(&complex_left_out));
        let (model, hold_out_error, mut left_out) = match MixedFrontier::with(measured, true) {
            Ok(complex) if is_worth_it(errors.0, errors.1) => (complex, errors.1, complex_left_out),
            _ => (simple, errors.0, simple_left_out),
        };
        left_out.retain(|point| point.input.reads > 0.0 && point.input.writes > 0.0);
        Ok(MixedFrontier { hold_out_error, left_out: Scatter::of_left_out(&left_out), ..model })
    }

    /// How many times the mix fits the device.
    fn predict(&self, mix: LoadMix) -> Interval {
        let own = self.scatter.around(radius(
            mix.reads / self.read_max,
            mix.writes / self.write_max,
            self.interference,
        ));
        self.left_out.map_or(own, |scatter| scatter.widen(own))
    }
}
