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
    /// Another device is built from it: md, LVM, device mapper.
    Holder,
    /// A loop device uses it.
    Loop,
    /// A program or the kernel has it open exclusively.
    Held,
    /// A program has it open for writing, though not exclusively.
    OpenForWriting,
    /// It carries a partition table.
    PartitionTable,
    /// It contains a file system, or is a member of a RAID, LVM or encrypted volume.
    Signature,
    /// It carries a flashlab volume.
    Volume,
    /// It takes no writes.
    ReadOnly,
    /// It is unknown whether writing is safe.
    Unknown,
}

/// A reason not to write to a target: what and where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The kind of danger.
    pub reason: Reason,
    /// What was found, and where.
    pub finding: String,
    /// What the user can do, if the data is not needed.
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
