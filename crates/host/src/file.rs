//! Opens a regular file for reading and writing through the page cache, as the store of a disk that is served.
//!
//! # Invariants
//! - It is checked as a target that is measured: before it is opened, and once more when it is open.
//! - It is locked until it is closed.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::consent::Consent;
use crate::error::HostError;
use crate::identity;
use crate::inspection;
use crate::node::Node;
use crate::surroundings::Surroundings;
use crate::target::{check_before_opening, check_when_open, lock};

/// Opens an existing regular file for writing.
///
/// # Errors
/// If it is a block device, the consent is for another file, writing is refused ([`HostError::Refused`]), or another
/// program has it locked.
pub fn open_file(path: &Path, consent: &Consent) -> Result<File, HostError> {
    let node = Node::at(path)?;
    if let Node::Device(_) = node {
        return Err(HostError::NoTarget { path: path.to_owned(), kind: "block device" });
    }
    check_before_opening(path, node, consent, &Surroundings::look())?;
    let failed = |error| HostError::system("open", path, error);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    let opened = file.metadata().map_err(failed)?;
    if Node::of(&opened) != Ok(node) {
        return Err(HostError::TargetChanged { path: path.to_owned() });
    }
    lock(&file, path, true)?;
    let capacity = inspection::size_of(&file, node, path)?;
    check_when_open(path, node, consent, &file, capacity)?;
    Ok(file)
}

/// Which regular file this is, as in [`Identity::file`](flashlab_base::Identity).
pub fn file_identity(file: &File) -> Option<String> {
    identity::file(&file.metadata().ok()?)
}

/// Makes an empty file for writing. A file or link of that name is never opened.
///
/// # Errors
/// If the name exists, or the file cannot be made.
pub fn create_file(path: &Path) -> Result<File, HostError> {
    let made = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = made.map_err(|error| HostError::system("make", path, error))?;
    lock(&file, path, true)?;
    Ok(file)
}
