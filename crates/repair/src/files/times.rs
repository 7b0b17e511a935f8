//! The times of files, as ext4 has them: of the last change of the data, of the last change of anything, of the last read.
//!
//! # Method
//! An operation notes the new times in memory, and the next sync records those of all files together. A change of other attributes
//! records the file's times as well. The time of the last read is kept as with `relatime`: once a day, and after each change.
//!
//! # Invariants
//! - What is recovered are times that were recorded: a new log of the catalogue has no others.

use flashlab_device::Device;

use super::Files;
use super::change::Change;
use super::file::{FileAttributes, FileId};
use crate::error::RepairError;

/// Attributes that are recorded together: they lie in one page of the log, which has at least 4 KiB.
pub(crate) const RECORDED_AT_ONCE: usize = 64;
/// The time after which a read counts again, as with `relatime`: a day.
const RELATIME_NS: i64 = 24 * 3600 * 1_000_000_000;

impl<D: Device> Files<D> {
    /// The attributes with the newest times.
    pub(super) fn attributes(&self, id: FileId) -> Option<FileAttributes> {
        let recorded = || self.catalogue.node(id).map(|node| node.attributes);
        self.changed.get(&id).copied().or_else(recorded)
    }

    /// Notes the time of a change of the data, or of the names in a directory.
    pub(super) fn modified(&mut self, id: FileId, now_ns: i64) {
        self.note_times(id, |times| (times.modified_ns, times.changed_ns) = (now_ns, now_ns));
    }

    /// Notes the time of a change of something else: a name, an attribute.
    pub(super) fn touched(&mut self, id: FileId, now_ns: i64) {
        self.note_times(id, |times| times.changed_ns = now_ns);
    }

    /// Whether a read would change the time of the last one.
    pub fn access_is_due(&self, id: FileId, now_ns: i64) -> bool {
        self.attributes(id).is_some_and(|FileAttributes { modified_ns, changed_ns, accessed_ns, .. }| {
            accessed_ns <= modified_ns.max(changed_ns) || now_ns.saturating_sub(accessed_ns) >= RELATIME_NS
        })
    }

    /// Notes that a program reads the file. Returns whether that changes the time of its last read.
    pub fn accessed(&mut self, id: FileId, now_ns: i64) -> bool {
        let is_due = self.access_is_due(id, now_ns);
        if is_due {
            self.note_times(id, |times| times.accessed_ns = now_ns);
        }
        is_due
    }

    fn note_times(&mut self, id: FileId, note: impl FnOnce(&mut FileAttributes)) {
        let Some(old) = self.attributes(id) else { return };
        let mut new = old;
        note(&mut new);
        if new != old {
            self.changed.insert(id, new);
        }
    }

    /// Records the attributes that the log does not have.
    pub(crate) fn record_attributes(&mut self) -> Result<(), RepairError> {
        while !self.changed.is_empty() {
            let some: Vec<_> =
                self.changed.iter().take(RECORDED_AT_ONCE).map(|(&id, &new)| (id, new)).collect();
            let node = |&(id, attributes)| {
                let kind = self.catalogue.node(id)?.kind;
                Some(Change::Node { id, kind, attributes })
            };
            let changes: Vec<Change> = some.iter().filter_map(node).collect();
            self.change(&changes)?;
            for (id, _) in some {
                self.changed.remove(&id);
            }
        }
        Ok(())
    }
}
