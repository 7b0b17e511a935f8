//! The options of a layer with shared logs.

use serde::{Deserialize, Serialize};

use super::SharedLogs;
use crate::flash::{Flash, FlashGeometry, Reliability, Timing};
use crate::layer::data_blocks::Space;
use crate::layer::options::{BIT, LayerOptions, LayerStructure, MAP_ENTRY, Mapping, OptionsError};

/// The options of a layer with shared logs: the section `[translation.shared_logs]` of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharedLogsOptions {
    /// How many logical pages there are. A profile's capacity gives it.
    #[serde(skip)]
    pub logical_pages: u32,
    /// The number of consecutive pages on a die before the next die's. Default: 4.
    pub stripe_pages: u32,
    /// The number of random log blocks of a die, at least 1. Default: 4.
    pub logs: u32,
    /// The number of random logs that are reclaimed in a batch when the last one is full, 1 to `logs`. Default: 1.
    pub reclaim_batch: u32,
    /// How the flash ages, from `[flash.reliability]`. Blocks that failed are not used any more. Default: it does not.
    #[serde(skip)]
    pub reliability: Option<Reliability>,
}

impl Default for SharedLogsOptions {
    fn default() -> SharedLogsOptions {
        SharedLogsOptions { logical_pages: 0, stripe_pages: 4, logs: 4, reclaim_batch: 1, reliability: None }
    }
}

/// The blocks that a die needs in addition to data and random logs: the sequential log, and one to merge into.
const RESERVE: u32 = 2;

impl SharedLogsOptions {
    /// How many blocks each die needs in addition to those for data.
    pub fn extra_blocks(&self) -> u32 {
        self.logs.saturating_add(RESERVE)
    }

    /// Whether a layer can be built over an array.
    ///
    /// # Errors
    /// Names an option that leaves too few blocks for logs and merges.
    pub fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        if !(1..=self.logs.max(1)).contains(&self.reclaim_batch) {
            let legal = format!("1 to `logs` ({})", self.logs);
            return Err(OptionsError { key: "reclaim_batch", value: u64::from(self.reclaim_batch), legal });
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

impl LayerOptions for SharedLogsOptions {
    type Layer = SharedLogs;

    const KIND: &'static str = "shared logs";

    fn for_array(&self, logical_pages: u32, reliability: Option<Reliability>) -> SharedLogsOptions {
        SharedLogsOptions { logical_pages, reliability, ..self.clone() }
    }

    fn extra_blocks(&self) -> u32 {
        SharedLogsOptions::extra_blocks(self)
    }

    fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        SharedLogsOptions::check(self, geometry)
    }

    fn build(&self, geometry: &FlashGeometry) -> Result<SharedLogs, OptionsError> {
        SharedLogs::new(geometry, self)
    }

    fn structure(&self) -> LayerStructure {
        LayerStructure {
            mapping: Mapping::SharedLogBlocks { logs: self.logs },
            stripe_pages: Some(self.stripe_pages),
            cached_map_entries: None,
        }
    }

    fn memory(&self, geometry: &FlashGeometry) -> f64 {
        // A log has an entry for each of its pages.
        let log = f64::from(geometry.dies()) * f64::from(geometry.pages_per_block()) * MAP_ENTRY;
        f64::from(geometry.pages()) * (MAP_ENTRY + BIT) + f64::from(self.logs) * log
    }

    fn complete<T: Timing>(&self, layer: &mut SharedLogs, flash: &Flash<T>) -> Result<(), String> {
        layer.check(self, flash)
    }
}
