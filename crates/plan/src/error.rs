//! Errors of a plan: in its text, or in its placement on a device.

use thiserror::Error;

/// Why a plan cannot be read, or a pattern cannot be placed on a device.
///
/// Every message says what is wrong, where, and what would be legal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The text is not TOML.
    #[error("{file}:{line}: this is not TOML: {message}")]
    Syntax {
        /// The file's name, as given to [`Plan::parse`](crate::Plan::parse).
        file: String,
        /// The line, from 1.
        line: usize,
        /// What the TOML parser says.
        message: String,
    },
    /// A key that the language does not have, or does not have in this table.
    #[error("{file}:{line}: unknown key `{key}`: {}", instead(nearest.as_deref(), legal))]
    UnknownKey {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The legal key with the most similar spelling, if there is one.
        nearest: Option<String>,
        /// The legal keys.
        legal: Vec<String>,
    },
    /// A required key is missing.
    #[error("{file}:{line}: `{key}` is missing: add {legal}")]
    MissingKey {
        /// The file's name.
        file: String,
        /// The line, from 1, at which the table starts.
        line: usize,
        /// The key.
        key: String,
        /// What it may be.
        legal: String,
    },
    /// A value outside its legal range.
    #[error("{file}:{line}: {key} = {value}: must be {legal}")]
    Value {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The value, as it is written.
        value: String,
        /// What it may be.
        legal: String,
    },
    /// The pattern cannot run on this device, or on any.
    #[error("{parameter} = {value}: must be {legal}")]
    Placement {
        /// The parameter's uFLIP name, as `IOSize`.
        parameter: String,
        /// Its value.
        value: String,
        /// What it may be.
        legal: String,
        /// Why it cannot be placed.
        misfit: Misfit,
    },
}

/// Why a pattern cannot be placed on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misfit {
    /// A size or an offset is not a multiple of the device's block. Another device with smaller blocks could
    /// run the pattern. So a benchmark leaves this run out, with a note.
    Block,
    /// The target or the device is too small. A larger device could run the pattern. So a benchmark leaves
    /// this run out, with a note.
    Space,
    /// The value is legal on no device.
    Value,
}

impl PlanError {
    /// Why the pattern cannot be placed; `None` for the errors of a text.
    pub fn misfit(&self) -> Option<Misfit> {
        match self {
            PlanError::Placement { misfit, .. } => Some(*misfit),
            _ => None,
        }
    }
}

/// What to do about an unknown key: use the most similar legal key. Without one, all legal keys are listed.
fn instead(nearest: Option<&str>, legal: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("legal here are {}", legal.join(", ")),
    }
}
