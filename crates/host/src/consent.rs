//! The permission to overwrite one target.
//!
//! # Model
//! A [`Consent`] can be had in four ways only: by typing what the device is called, by naming it in
//! `--destroy-data-on`, by `--overwrite-file` for a regular file, and for a scratch file, which
//! flashlab itself made. It holds for the one device or file that it was given for, recognised by its
//! number and not by its path, and only until that device is taken away.
//!
//! Invariants:
//! - nothing outside this crate makes a [`Consent`], and no open for writing does without one;
//! - no consent is given for a target that [`inspect`](crate::inspect) refused;
//! - a consent alone does not suffice: whoever opens for writing looks for refusals once more.

use std::fmt;
use std::path::Path;

use crate::error::HostError;
use crate::inspection::Inspection;
use crate::node::Node;

/// How a consent was given; for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Manner {
    Typed(String),
    Flag(String),
    OverwriteFile,
    ScratchFile,
}

/// The permission to overwrite one device or file. Displays how it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    node: Node,
    /// Tells two devices apart that had the same number one after the other.
    generation: Option<u64>,
    manner: Manner,
}

impl Consent {
    fn give(inspection: &Inspection, manner: Manner) -> Result<Consent, HostError> {
        if inspection.refusals.is_empty() {
            return Ok(Consent { node: inspection.node, generation: inspection.generation, manner });
        }
        Err(HostError::Refused { path: inspection.path.clone(), refusals: inspection.refusals.clone() })
    }

    pub(crate) fn for_scratch_file(node: Node) -> Consent {
        Consent { node, generation: None, manner: Manner::ScratchFile }
    }

    pub(crate) fn is_for_scratch_file(&self) -> bool {
        self.manner == Manner::ScratchFile
    }

    /// Whether this was given for that node, and for the device that it still is.
    pub(crate) fn covers(&self, node: Node, generation: Option<u64>) -> bool {
        self.node == node && self.generation == generation
    }
}

impl fmt::Display for Consent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.manner {
            Manner::Typed(text) => write!(f, "typed `{text}`"),
            Manner::Flag(path) => write!(f, "--destroy-data-on {path}"),
            Manner::OverwriteFile => f.write_str("--overwrite-file"),
            Manner::ScratchFile => f.write_str("scratch file made by flashlab"),
        }
    }
}

/// Consent to overwriting a block device, by typing exactly its model or its serial number; or, where
/// neither is known, its path. [`Inspection::consent_phrases`] lists what is accepted.
///
/// # Errors
/// When something else was typed, when the target is refused, or when it is a regular file.
pub fn consent_by_typing(inspection: &Inspection, typed: &str) -> Result<Consent, HostError> {
    require_device(inspection)?;
    let typed = typed.trim();
    let expected = inspection.consent_phrases();
    if expected.iter().any(|phrase| phrase == typed) {
        return Consent::give(inspection, Manner::Typed(typed.to_owned()));
    }
    let expected = expected.iter().map(|phrase| format!("`{phrase}`")).collect();
    Err(HostError::ConsentMismatch { path: inspection.path.clone(), given: typed.to_owned(), expected })
}

/// Consent to overwriting a block device, by a path that leads to it: `--destroy-data-on PATH`.
///
/// # Errors
/// When the path leads elsewhere, when the target is refused, or when it is a regular file.
pub fn consent_by_flag(inspection: &Inspection, path_given: &Path) -> Result<Consent, HostError> {
    require_device(inspection)?;
    let given = path_given.display().to_string();
    if Node::at(path_given)? == inspection.node {
        return Consent::give(inspection, Manner::Flag(given));
    }
    let expected = vec![format!("a path to the same device, as `{}`", inspection.path.display())];
    Err(HostError::ConsentMismatch { path: inspection.path.clone(), given, expected })
}

/// Consent to overwriting a regular file: `--overwrite-file`.
///
/// # Errors
/// When the target is refused, or when it is a block device.
pub fn consent_to_overwrite_file(inspection: &Inspection) -> Result<Consent, HostError> {
    match inspection.node {
        Node::File { .. } => Consent::give(inspection, Manner::OverwriteFile),
        Node::Device(_) => Err(HostError::WrongConsent {
            path: inspection.path.clone(),
            needed: "its model or serial number typed, or --destroy-data-on with its path,",
        }),
    }
}

fn require_device(inspection: &Inspection) -> Result<(), HostError> {
    match inspection.node {
        Node::Device(_) => Ok(()),
        Node::File { .. } => {
            Err(HostError::WrongConsent { path: inspection.path.clone(), needed: "--overwrite-file" })
        }
    }
}
