//! What all models have in common.

use flashlab_analysis::decide::ranks::Interval;

use crate::ModelError;

/// The confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// A figure that was measured, such as a median response time in nanoseconds, and what it was measured of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured<I> {
    /// What was done, such as the size of the request.
    pub input: I,
    /// The figure, in the unit that the model predicts.
    pub figure: f64,
}

/// The smallest and the largest of what was measured; `None` of nothing.
pub(crate) fn range_of<T: Ord + Copy>(values: impl Iterator<Item = T> + Clone) -> Option<[T; 2]> {
    Some([values.clone().min()?, values.max()?])
}

/// An equation with fitted parameters.
pub trait PerformanceModel: Sized {
    /// What the figure depends on.
    type Input: Copy + PartialEq;

    /// Its name in messages and documents.
    const NAME: &'static str;
    /// What it takes for granted, in a sentence.
    const ASSUMES: &'static str;
    /// Where its predictions are wrong, in a sentence.
    const FAILS: &'static str;

    /// Fits the parameters to what was measured.
    ///
    /// # Errors
    /// [`ModelError::TooFew`] and [`ModelError::DoesNotHold`].
    fn fit(measured: &[Measured<Self::Input>]) -> Result<Self, ModelError>;

    /// What another measurement will show, with the interval that holds it with [`CONFIDENCE`].
    fn predict(&self, input: Self::Input) -> Interval;
}
