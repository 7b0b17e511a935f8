//! The options of a translation layer, by which a profile describes it.
//!
//! # Model
//! A section `[translation.NAME]` of a profile is read into a type that implements [`LayerOptions`]. From there the
//! simulator learns everything else about the layer: how many blocks it needs, whether it can be built over an array,
//! how much memory it takes, and how a saved state is checked. `layer.rs` registers the type in one line.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::contract::Layer;
use crate::flash::{Flash, FlashGeometry, Reliability, Timing};
use crate::illegal::Illegal;

/// Memory that an entry of a map takes, in bytes.
pub(crate) const MAP_ENTRY: f64 = 4.0;
/// Memory that a bit takes, in bytes.
pub(crate) const BIT: f64 = 0.125;

/// The options of a translation layer.
pub(crate) trait LayerOptions: Clone + Default + PartialEq + Serialize + DeserializeOwned {
    /// The layer.
    type Layer: Layer + Clone + PartialEq + Serialize + DeserializeOwned;

    /// What people call the layer, in a word or two.
    const KIND: &'static str;

    /// The same options for an array that holds `logical_pages` pages of the host and ages by `reliability`.
    fn for_array(&self, logical_pages: u32, reliability: Option<Reliability>) -> Self;

    /// The number of blocks that each die needs in addition to those that hold the capacity.
    fn extra_blocks(&self) -> u32 {
        0
    }

    /// Whether the other sections of the profile allow this layer; [`LayerOptions::check`] checks the array.
    ///
    /// # Errors
    /// The key that does not fit, and what it may be.
    fn check_profile(&self, _surroundings: &Surroundings) -> Result<(), Illegal> {
        Ok(())
    }

    /// Whether the layer can be built over an array.
    ///
    /// # Errors
    /// The option that does not fit, and what it may be.
    fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError>;

    /// The layer over erased flash.
    ///
    /// # Errors
    /// Those of [`LayerOptions::check`].
    fn build(&self, geometry: &FlashGeometry) -> Result<Self::Layer, OptionsError>;

    /// What the layer decides about the device as a host sees it.
    fn structure(&self) -> LayerStructure;

    /// About how many bytes of memory the layer's tables take.
    fn memory(&self, geometry: &FlashGeometry) -> f64;

    /// Checks a layer that was read from outside bytes against these options and `flash`, and restores what a saved
    /// state does not have.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn complete<T: Timing>(&self, layer: &mut Self::Layer, flash: &Flash<T>) -> Result<(), String>;
}

/// What a layer decides about the device as a host sees it: what inference looks for, and what its judge has as the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerStructure {
    /// Which logical pages share blocks, and what writes cost because of it.
    pub mapping: Mapping,
    /// The number of consecutive logical pages on a die; `None` for a multi-plane page.
    pub stripe_pages: Option<u32>,
    /// The map entries that memory holds; `None` for all.
    pub cached_map_entries: Option<u32>,
}

/// Which logical pages share blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Each page may lie in any block.
    Pages {
        /// Whether a page's offset decides on which die it lies.
        die_follows_offset: bool,
    },
    /// The pages of a block stay together, and each log block belongs to one data block.
    OwnLogBlocks {
        /// Log blocks of a die.
        logs: u32,
        /// Whether a log block takes pages in any order.
        any_order: bool,
    },
    /// The pages of a block stay together, and all data blocks share the log blocks.
    SharedLogBlocks {
        /// Log blocks of a die.
        logs: u32,
    },
    /// The host writes zones in order.
    Zones,
}

/// The parts of a profile outside the translation layer's section that a layer may depend on.
pub(crate) struct Surroundings {
    /// The profile's smallest IO.
    pub block: flashlab_base::Bytes,
    /// The size of a page.
    pub page: flashlab_base::Bytes,
    /// Whether an SLC cache stands in front of the layer.
    pub has_slc_cache: bool,
    /// Whether the write buffer keeps whole pages until it is full.
    pub flushes_when_full: bool,
}

/// An option of a translation layer has a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}; it may be {legal}")]
pub struct OptionsError {
    /// The option, as the profile's key.
    pub key: &'static str,
    /// Its value.
    pub value: u64,
    /// What it may be, and why.
    pub legal: String,
}

/// An error when something does not hold.
pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
