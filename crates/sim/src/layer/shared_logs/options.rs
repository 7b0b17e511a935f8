//! What a layer with shared logs can be told.

use serde::{Deserialize, Serialize};

use crate::flash::{FlashGeometry, Reliability};
use crate::layer::OptionsError;
use crate::layer::data_blocks::Space;

/// What a layer with shared logs can be told: the section `[translation.shared_logs]` of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharedLogsOptions {
    /// How many logical pages there are. A profile's capacity gives it.
    #[serde(skip)]
    pub logical_pages: u32,
    /// How many pages go to a die before the next die gets as many. Default: 4.
    pub stripe_pages: u32,
    /// How many random log blocks a die has, at least 1. Default: 4.
    pub logs: u32,
    /// How many random logs make room at once when the last one is full, 1 to `logs`. Default: 1.
    pub reclaimed_at_once: u32,
    /// How the flash ages, as the flash was told. Blocks that failed are not used again. Default: it does not.
    #[serde(skip)]
    pub reliability: Option<Reliability>,
}

impl Default for SharedLogsOptions {
    fn default() -> SharedLogsOptions {
        SharedLogsOptions {
            logical_pages: 0,
            stripe_pages: 4,
            logs: 4,
            reclaimed_at_once: 1,
            reliability: None,
        }
    }
}

/// The blocks that a die needs beside data and random logs: the sequential log, and one to merge into.
const RESERVE: u32 = 2;

impl SharedLogsOptions {
    /// How many blocks each die needs beside those for data.
    pub fn spare_blocks(&self) -> u32 {
        self.logs.saturating_add(RESERVE)
    }

    /// Whether a layer can be built over an array.
    ///
    /// # Errors
    /// Names an option that leaves too few blocks for logs and merges.
    pub fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        if !(1..=self.logs.max(1)).contains(&self.reclaimed_at_once) {
            let legal = format!("1 to `logs` ({})", self.logs);
            return Err(OptionsError {
                key: "reclaimed_at_once",
                value: u64::from(self.reclaimed_at_once),
                legal,
            });
        }
        self.space().check(geometry)
    }

    pub(super) fn space(&self) -> Space {
        Space {
            logical_pages: self.logical_pages,
            stripe_pages: self.stripe_pages,
            logs: self.logs,
            reserve: RESERVE,
            reliability: self.reliability,
        }
    }
}
