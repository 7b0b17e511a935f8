//! The names in a directory beneath, and in one whose names are on both sides.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use flashlab_repair::FileId;
use rustix::io::Errno;

use super::attributes::kind_of;
use super::open_beneath::Listing;
use super::{Merged, MergedFiles};
use crate::file_attributes::type_of;

impl MergedFiles {
    pub(super) fn list_beneath(&self, number: u64) -> Result<Listing, Errno> {
        let entries = self.beneath.entries(number)?.into_iter();
        Ok(entries.map(|(number, kind, name)| (number, kind_of(kind), name)).collect())
    }

    /// The names of both sides, each on its own.
    pub(super) fn list_merged(&self, merged: &Merged) -> Result<Listing, Errno> {
        let mut listing = self.list_beneath(merged.beneath)?;
        listing.retain(|(_, _, name)| !merged.matches(OsStr::from_bytes(name)));
        let on_volume = self.files.with(|files, _| files.entries(FileId(merged.volume().0)));
        let on_volume = on_volume.map_err(|error| Errno::from_raw_os_error(error.io_error().errno))?;
        let matching = on_volume.into_iter().filter(|(name, _)| merged.matches(OsStr::from_bytes(name)));
        listing.extend(matching.map(|(name, status)| (status.id.0, type_of(status.kind), name)));
        Ok(listing)
    }
}
