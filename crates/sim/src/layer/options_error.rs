//! What is wrong with a layer's options.

/// An option of a translation layer has a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}; it may be {legal}")]
pub struct OptionsError {
    /// The option, as the profile's key.
    pub key: &'static str,
    /// Its value.
    pub value: u64,
    /// What it may be, and why.
    pub legal: String,
}
