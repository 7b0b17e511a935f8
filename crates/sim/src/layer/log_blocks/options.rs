//! What a layer with log blocks can be told.

use serde::{Deserialize, Serialize};

use super::LogBlocks;
use crate::flash::{Flash, FlashGeometry, Reliability, Timing};
use crate::layer::data_blocks::Space;
use crate::layer::options::{BIT, LayerOptions, MAP_ENTRY, OptionsError};

/// Which pages a log block takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogOrder {
    /// Any page of its logical block, one behind the other; the log has a map.
    #[default]
    Any,
    /// Pages that adjoin those it holds, before or behind them. Written again from their first to their last, these
    /// go to another log; a write elsewhere merges it first.
    Adjoining,
    /// A page behind its last one; the pages between them are copied first.
    Forward,
    /// Only the one after its last page; otherwise it is merged first.
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
    /// The one that was opened first.
    #[default]
    RoundRobin,
    /// The one that was not written to for the longest time.
    LeastRecentlyUsed,
}

/// What a layer with log blocks can be told: the section `[translation.log_blocks]` of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogBlocksOptions {
    /// How many logical pages there are. A profile's capacity gives it.
    #[serde(skip)]
    pub logical_pages: u32,
    /// How many pages go to a die before the next die gets as many. Default: 4.
    pub stripe_pages: u32,
    /// How many log blocks a die has. Without any, a log lasts as long as a request. Default: 4.
    pub logs: u32,
    /// Which pages a log takes. Default: any.
    pub order: LogOrder,
    /// The log that is merged when another one is needed. Default: round-robin.
    pub replacement: Replacement,
    /// Whether a log can become the data block. Otherwise all merges are full ones. Default: it can.
    pub switch_merges: bool,
    /// After how many writes of one page in a row, each of them elsewhere, the layer loses the order of its blocks:
    /// until a block has been rewritten from its first page to its last, its log lasts as long as a request.
    /// Default: 0, never.
    pub disordered_after: u32,
    /// How the flash ages, as the flash was told. Blocks that failed are not used again. Default: it does not.
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

/// The blocks that a die needs beside data and logs: one to merge into.
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

    fn memory(&self, geometry: &FlashGeometry) -> f64 {
        // A log has an entry for each of its pages.
        let log = f64::from(geometry.dies()) * f64::from(geometry.pages_per_block()) * MAP_ENTRY;
        f64::from(geometry.pages()) * BIT + f64::from(self.logs) * log
    }

    fn complete<T: Timing>(&self, layer: &mut LogBlocks, flash: &Flash<T>) -> Result<(), String> {
        layer.check(self, flash)
    }
}
