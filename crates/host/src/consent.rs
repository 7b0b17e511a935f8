//! The permission to overwrite one target.
//!
//! # Model
//! There are four ways to get a [`Consent`]: to type the name of the device, to name it in
//! `--destroy-data-on`, to give `--overwrite-file` for a regular file, or to use a scratch file, which
//! flashlab itself made. It is valid for that device or file only, which is recognised by its number and not
//! by its path. It ends when the device is removed. A fifth one is for the volume that a device or file
//! carries: with it the volume's own code may write there, and nothing else of flashlab may. A sixth one is for a
//! regular file that flashlab made for a disk that it serves, and for an empty file, which has nothing to lose.
//!
//! Invariants:
//! - Only this crate can make a [`Consent`], and nothing is opened for writing without one.
//! - A target that [`inspect`](crate::inspect) refused gets no consent.
//! - Consent alone is not enough: before a target is opened for writing, it is checked for refusals once
//!   more.

use std::fmt;
use std::path::Path;

use flashlab_base::Bytes;

use crate::error::HostError;
use crate::inspection::Inspection;
use crate::node::Node;
use crate::refusal::{Reason, Refusal};

/// How the user consented, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Manner {
    Typed(String),
    Flag(String),
    OverwriteFile,
    ScratchFile,
    OwnFile,
    Volume,
}

/// The permission to overwrite one device or file. Its display text says how it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    node: Node,
    /// Distinguishes two devices that had the same number at different times.
    generation: Option<u64>,
    manner: Manner,
}

impl Consent {
    fn give(inspection: &Inspection, manner: Manner) -> Result<Consent, HostError> {
        let consent = Consent { node: inspection.node, generation: inspection.generation, manner };
        let refused = inspection.refusals.iter().filter(|refusal| !consent.permits(refusal));
        let refusals: Vec<Refusal> = refused.cloned().collect();
        match refusals.is_empty() {
            true => Ok(consent),
            false => Err(HostError::Refused { path: inspection.path.clone(), refusals }),
        }
    }

    /// Whether the consent is for what this refusal protects.
    pub(crate) fn permits(&self, refusal: &Refusal) -> bool {
        // The disk of a server may carry a volume.
        matches!(self.manner, Manner::Volume | Manner::OwnFile) && refusal.reason == Reason::Volume
    }

    pub(crate) fn for_scratch_file(node: Node) -> Consent {
        Consent { node, generation: None, manner: Manner::ScratchFile }
    }

    pub(crate) fn is_for_scratch_file(&self) -> bool {
        self.manner == Manner::ScratchFile
    }

    /// Whether the consent is for this node, and for the device that it is now.
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
            Manner::OwnFile => f.write_str("file made by flashlab"),
            Manner::Volume => f.write_str("flashlab volume"),
        }
    }
}

/// Consent to overwrite a block device, given by typing exactly its model or its serial number. If neither is
/// known, its path counts. [`Inspection::consent_phrases`] lists what is accepted.
///
/// # Errors
/// If something else was typed, the target is refused, or it is a regular file.
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

/// Consent to overwrite a block device, given by a path that leads to it: `--destroy-data-on PATH`.
///
/// # Errors
/// If the path leads to another device, the target is refused, or it is a regular file.
pub fn consent_by_flag(inspection: &Inspection, path_given: &Path) -> Result<Consent, HostError> {
    require_device(inspection)?;
    let given = path_given.display().to_string();
    if Node::at(path_given)? == inspection.node {
        return Consent::give(inspection, Manner::Flag(given));
    }
    let expected = vec![format!("a path to the same device, as `{}`", inspection.path.display())];
    Err(HostError::ConsentMismatch { path: inspection.path.clone(), given, expected })
}

/// Consent to overwrite a regular file: `--overwrite-file`.
///
/// # Errors
/// If the target is refused, or it is a block device.
pub fn consent_to_overwrite_file(inspection: &Inspection) -> Result<Consent, HostError> {
    match inspection.node {
        Node::File { .. } => Consent::give(inspection, Manner::OverwriteFile),
        Node::Device(_) => Err(HostError::WrongConsent {
            path: inspection.path.clone(),
            needed: "its model or serial number typed, or --destroy-data-on with its path,",
        }),
    }
}

/// Permission to write to a regular file that flashlab made, or that is empty. `made` is the
/// [`Identity::file`](flashlab_base::Identity) of the file that flashlab made under this name.
///
/// # Errors
/// If it is another file with content, the target is refused, or it is a block device.
pub fn consent_to_use_own_file(inspection: &Inspection, made: Option<&str>) -> Result<Consent, HostError> {
    let is_file = matches!(inspection.node, Node::File { .. });
    let is_own = made.is_some() && made == inspection.identity.file.as_deref();
    if is_file && (is_own || inspection.identity.capacity == Bytes::ZERO) {
        return Consent::give(inspection, Manner::OwnFile);
    }
    Err(HostError::WrongConsent { path: inspection.path.clone(), needed: "--overwrite-file" })
}

/// Permission to write to the flashlab volume that a target carries, for the code of volumes.
///
/// # Errors
/// If the target carries no volume, or is refused for another reason.
pub fn consent_to_write_volume(inspection: &Inspection) -> Result<Consent, HostError> {
    if inspection.refusals.iter().any(|refusal| refusal.reason == Reason::Volume) {
        return Consent::give(inspection, Manner::Volume);
    }
    let needed = "`flashlab repair create`, because it carries no flashlab volume,";
    Err(HostError::WrongConsent { path: inspection.path.clone(), needed })
}

fn require_device(inspection: &Inspection) -> Result<(), HostError> {
    match inspection.node {
        Node::Device(_) => Ok(()),
        Node::File { .. } => {
            Err(HostError::WrongConsent { path: inspection.path.clone(), needed: "--overwrite-file" })
        }
    }
}
