//! Opens the file or block device that a volume lies on.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Error, Result};
use flashlab_device::{Device, Wrapper};
use flashlab_host::{Consent, HostError, OpenOptions};
use flashlab_repair::superblock;

use crate::exit::Refused;

/// What to do about a volume that is in use.
const WHERE_SERVED: &str =
    "if it is being served, end the server, or ask it with `flashlab repair status SOCKET`";

/// A device that is read and that nobody else may write meanwhile.
pub struct Claimed {
    device: Box<dyn Device + Send>,
    /// The kernel's exclusive claim on a block device; an open file is locked.
    _claim: Option<File>,
}

impl Wrapper for Claimed {
    type Inner = Box<dyn Device + Send>;

    fn inner(&self) -> &Self::Inner {
        &self.device
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut self.device
    }
}

/// Opens it for reading. While a server writes to it, what is read would look damaged.
pub fn for_reading(path: &Path) -> Result<Claimed> {
    let inspection = flashlab_host::inspect(path)?;
    let claim = inspection.is_block_device().then(|| flashlab_host::claim_block_device(path)).transpose();
    let claim = claim
        .map_err(|error| Refused(format!("cannot claim {}: {error}; {WHERE_SERVED}", path.display())))?;
    let device = flashlab_host::open(path, &OpenOptions::default()).map_err(|error| match error {
        HostError::Locked { .. } => {
            Refused(format!("{} is open in another program; {WHERE_SERVED}", path.display())).into()
        }
        error => Error::from(error),
    })?;
    Ok(Claimed { device, _claim: claim })
}

/// Opens it for writing if it carries a volume: then nothing is lost that is not the volume's.
pub fn with_volume(path: &Path) -> Result<Box<dyn Device + Send>> {
    superblock(for_reading(path)?).with_context(|| format!("{} cannot be opened", path.display()))?;
    of_volume(path)
}

/// As [`with_volume`], also if all of its superblocks are damaged.
pub fn of_volume(path: &Path) -> Result<Box<dyn Device + Send>> {
    let inspection = flashlab_host::inspect(path)?;
    for_writing(path, flashlab_host::consent_to_write_volume(&inspection)?)
}

/// Opens it for writing.
pub fn for_writing(path: &Path, consent: Consent) -> Result<Box<dyn Device + Send>> {
    Ok(flashlab_host::open(path, &OpenOptions::for_volume(consent))?)
}
