//! The options of a layer with log blocks.

use serde::{Deserialize, Serialize};

use super::LogBlocks;
use crate::flash::{Flash, FlashGeometry, Reliability, Timing};
use crate::layer::data_blocks::Space;
use crate::layer::options::{BIT, LayerOptions, LayerStructure, MAP_ENTRY, Mapping, OptionsError};

/// Which pages a log block takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogOrder {
    /// Any page of its logical block; the log has a map.
    #[default]
    Any,
    /// The page before its first or after its last page. A write that covers all its pages replaces its block. Any other
    /// write merges it first.
    Adjoining,
    /// Any page behind its last one; the pages between them are copied first.
    Forward,
    /// Only the page after its last one; any other write merges it first.
    Next,
}

impl LogOrder {
    /// Whether a log's pages may lie in another order than their offsets have.
    pub(super) fn is_mapped(self) -> bool {
        matches!(self, LogOrder::Any | LogOrder::Adjoining)
    }
}

/// Which log block is merged when another one is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one that was allocated first.
    #[default]
    RoundRobin,
    /// The one that was not written to for the longest time.
    LeastRecentlyUsed,
}

/// The options of a layer with log blocks: the section `[translation.log_blocks]` of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogBlocksOptions {
    /// How many logical pages there are. A profile's capacity gives it.
    #[serde(skip)]
    pub logical_pages: u32,
    /// The number of consecutive pages on a die before the next die's. Default: 4.
    pub stripe_pages: u32,
    /// The number of log blocks of a die. With 0 a log is merged at the end of the request. Default: 4.
    pub logs: u32,
    /// Which pages a log takes. Default: any.
    pub order: LogOrder,
    /// The log that is merged when another one is needed. Default: round-robin.
    pub replacement: Replacement,
    /// Whether a log can become the data block. Otherwise all merges are full ones. Default: it can.
    pub switch_merges: bool,
    /// The number of consecutive stray writes (writes of one page that do not continue the write before them) that
    /// disorder all blocks. The log of a disordered block is merged at the end of each request, until the block has been
    /// rewritten from its first page to its last.
    /// Default: 0, never.
    pub disordered_after: u32,
    /// How the flash ages, from `[flash.reliability]`. Blocks that failed are not used any more. Default: it does not.
    #[serde(skip)]
    pub reliability: Option<Reliability>,
}

impl Default for LogBlocksOptions {
    fn default() -> LogBlocksOptions {
        LogBlocksOptions {
            logical_pages: 0,
            stripe_pages: 4,
            logs: 4,
            order: LogOrder::Any,
            replacement: Replacement::RoundRobin,
            switch_merges: true,
            disordered_after: 0,
            reliability: None,
        }
    }
}

/// The blocks that a die needs in addition to data and logs: one to merge into.
const RESERVE: u32 = 1;

impl LogBlocksOptions {
    /// How many blocks each die needs in addition to those for data.
    pub fn extra_blocks(&self) -> u32 {
        self.logs.max(1).saturating_add(RESERVE)
    }

    /// Whether a layer can be built over an array.
    ///
    /// # Errors
    /// Names an option that leaves too few blocks for logs and merges.
    pub fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        self.space().check(geometry)
    }

    pub(super) fn space(&self) -> Space {
        Space {
            logical_pages: self.logical_pages,
            stripe_pages: self.stripe_pages,
            logs: self.logs.max(1),
            reserve: RESERVE,
            reliability: self.reliability,
        }
    }
}

impl LayerOptions for LogBlocksOptions {
    type Layer = LogBlocks;

    const KIND: &'static str = "log blocks";

    fn for_array(&self, logical_pages: u32, reliability: Option<Reliability>) -> LogBlocksOptions {
        LogBlocksOptions { logical_pages, reliability, ..self.clone() }
    }

    fn extra_blocks(&self) -> u32 {
        LogBlocksOptions::extra_blocks(self)
    }

    fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        LogBlocksOptions::check(self, geometry)
    }

    fn build(&self, geometry: &FlashGeometry) -> Result<LogBlocks, OptionsError> {
        LogBlocks::new(geometry, self)
    }

    fn structure(&self) -> LayerStructure {
        LayerStructure {
            mapping: Mapping::OwnLogBlocks { logs: self.logs, any_order: self.order == LogOrder::Any },
            stripe_pages: Some(self.stripe_pages),
            cached_map_entries: None,
        }
    }

    fn memory(&self, geometry: &FlashGeometry) -> f64 {
        // A log has an entry for each of its pages.
        let log = f64::from(geometry.dies()) * f64::from(geometry.pages_per_block()) * MAP_ENTRY;
        f64::from(geometry.pages()) * BIT + f64::from(self.logs) * log
    }

    fn complete<T: Timing>(&self, layer: &mut LogBlocks, flash: &Flash<T>) -> Result<(), String> {
        layer.check(self, flash)
    }
}
