//! What a device does on its own account.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Work of a flash device that the host did not ask for, but may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivityKind {
    /// Garbage collection, or a merge of log blocks.
    Collection,
    /// Data moves from the SLC cache to the other blocks.
    Folding,
    /// Cold data moves, so that its block takes erases, too.
    WearLevelling,
    /// Data is rewritten because it was read too often or is too old.
    Refresh,
}

impl ActivityKind {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            ActivityKind::Collection => "garbage collection",
            ActivityKind::Folding => "folding of the SLC cache",
            ActivityKind::WearLevelling => "wear levelling",
            ActivityKind::Refresh => "refresh",
        }
    }
}

/// How much a device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityAmount {
    /// Pages that it copied.
    pub pages: u64,
    /// Blocks that it erased.
    pub erases: u64,
}

impl AddAssign for ActivityAmount {
    fn add_assign(&mut self, more: ActivityAmount) {
        self.pages += more.pages;
        self.erases += more.erases;
    }
}

/// A time in which a device did such work. What lies close together is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// What it did.
    pub kind: ActivityKind,
    /// When the first request that it did so for arrived, by its clock.
    pub start_ns: u64,
    /// When the last such request was done.
    pub end_ns: u64,
    /// How much.
    #[serde(flatten)]
    pub amount: ActivityAmount,
}
