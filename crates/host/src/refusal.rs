//! Why flashlab does not write to a target.

use std::fmt;

use serde::Serialize;

/// What kind of danger was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// A file system on it is mounted.
    Mounted,
    /// It is swap space.
    Swap,
    /// Another device is built upon it: md, LVM, device mapper.
    Holder,
    /// A loop device serves from it.
    Loop,
    /// Some program or the kernel holds it exclusively.
    Held,
    /// It carries a partition table.
    PartitionTable,
    /// It carries a file system, or is a member of a RAID, LVM or encrypted volume.
    Signature,
    /// It takes no writes.
    ReadOnly,
    /// It could not be found out whether it is safe.
    Unknown,
}

/// One reason not to write to a target: what and where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// What kind of danger it is.
    pub reason: Reason,
    /// What was found, and where.
    pub finding: String,
    /// What to do, if its data is really not needed.
    pub remedy: String,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, finding: impl Into<String>, remedy: impl Into<String>) -> Refusal {
        Refusal { reason, finding: finding.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.finding, self.remedy)
    }
}
