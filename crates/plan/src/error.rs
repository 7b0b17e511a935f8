//! What can be wrong with a plan: with its text, or with its place on a device.

use std::fmt;

/// Why a plan cannot be read, or a pattern cannot be placed on a device.
///
/// Every message says what is wrong, where, and what would be legal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The text is no TOML.
    Syntax {
        /// The file's name, as given to [`Plan::parse`](crate::Plan::parse).
        file: String,
        /// The line, from 1.
        line: usize,
        /// What the TOML parser says.
        message: String,
    },
    /// A key that the language does not have, or not there.
    UnknownKey {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// The legal key nearest to it, if one is near.
        nearest: Option<String>,
        /// The legal keys.
        legal: Vec<String>,
    },
    /// A key without which the plan says too little.
    MissingKey {
        /// The file's name.
        file: String,
        /// The line, from 1, at which the table starts that lacks it.
        line: usize,
        /// The key.
        key: String,
        /// What it may be.
        legal: String,
    },
    /// A value outside its legal range.
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
    Placement {
        /// The parameter's uFLIP name, as `IOSize`.
        parameter: String,
        /// Its value.
        value: String,
        /// What it may be.
        legal: String,
        /// What stands against it.
        misfit: Misfit,
    },
}

/// What stands against the placement of a pattern on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misfit {
    /// The device's block is too coarse for a size or an offset. Another device may take the
    /// pattern: a methodology leaves this run out, with a note.
    Block,
    /// The target or the device is too small. As above.
    Space,
    /// The value is legal on no device.
    Value,
}

impl PlanError {
    /// What stands against the placement; `None` for the errors of a text.
    pub fn misfit(&self) -> Option<Misfit> {
        match self {
            PlanError::Placement { misfit, .. } => Some(*misfit),
            _ => None,
        }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Syntax { file, line, message } => {
                write!(f, "{file}:{line}: this is not TOML: {message}")
            }
            PlanError::UnknownKey { file, line, key, nearest: Some(nearest), .. } => {
                write!(f, "{file}:{line}: unknown key `{key}`: did you mean `{nearest}`?")
            }
            PlanError::UnknownKey { file, line, key, nearest: None, legal } => {
                write!(f, "{file}:{line}: unknown key `{key}`: legal here are {}", legal.join(", "))
            }
            PlanError::MissingKey { file, line, key, legal } => {
                write!(f, "{file}:{line}: `{key}` is missing: add {legal}")
            }
            PlanError::Value { file, line, key, value, legal } => {
                write!(f, "{file}:{line}: {key} = {value}: must be {legal}")
            }
            PlanError::Placement { parameter, value, legal, .. } => {
                write!(f, "{parameter} = {value}: must be {legal}")
            }
        }
    }
}

impl std::error::Error for PlanError {}
