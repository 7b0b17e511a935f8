//! What is wrong with a layer's options.

use std::fmt;

/// An option of a translation layer that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError {
    /// The option, as the profile's key.
    pub key: &'static str,
    /// Its value.
    pub value: u64,
    /// What it may be, and why.
    pub legal: String,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}; it may be {}", self.key, self.value, self.legal)
    }
}

impl std::error::Error for OptionsError {}
