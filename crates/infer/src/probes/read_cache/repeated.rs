//! What repeated reads showed.

use flashlab_base::Bytes;

use crate::rule::Rule;

/// What reading again showed.
pub(crate) struct Repeated {
    /// The fastest reads known to come from the flash.
    pub(crate) flash: Vec<f64>,
    pub(crate) kept: Option<Kept>,
}

/// What is answered without the flash.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    /// What is kept at once.
    pub(crate) granule: Option<Bytes>,
    /// What a read of it takes, in nanoseconds.
    pub(crate) time: f64,
    /// The rule that it is kept.
    pub(crate) rule: Rule,
}
