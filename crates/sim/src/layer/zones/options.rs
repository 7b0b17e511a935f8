//! The options of a zoned device.

use serde::{Deserialize, Serialize};

use super::Zones;
use crate::flash::{Flash, FlashGeometry, Reliability, Timing};
use crate::illegal::Illegal;
use crate::layer::free_blocks::FreeBlocks;
use crate::layer::options::{LayerOptions, LayerStructure, Mapping, OptionsError, Surroundings};

/// The options of a zoned device: the section `[translation.zones]` of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ZonesOptions {
    /// The number of logical pages. A profile's capacity gives it.
    #[serde(skip)]
    pub logical_pages: u32,
    /// The number of blocks of a zone. Default: one on each die.
    pub zone_blocks: Option<u32>,
    /// The most active zones: written, and not full. Default: 14.
    pub active_zones: u32,
    /// How the flash ages, from `[flash.reliability]`. Default: it does not.
    #[serde(skip)]
    pub reliability: Option<Reliability>,
}

impl Default for ZonesOptions {
    fn default() -> ZonesOptions {
        ZonesOptions { logical_pages: 0, zone_blocks: None, active_zones: 14, reliability: None }
    }
}

impl ZonesOptions {
    /// Whether the array can be divided into these zones.
    ///
    /// # Errors
    /// Names the option that does not fit.
    pub fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        let wrong = |key, value: u32, legal| Err(OptionsError { key, value: value.into(), legal });
        let dies = geometry.dies();
        let blocks = self.zone_blocks.unwrap_or(dies);
        if blocks == 0 || !(blocks.is_multiple_of(dies) || dies.is_multiple_of(blocks)) {
            return wrong("zone_blocks", blocks, format!("a multiple or a divisor of the {dies} dies"));
        }
        if self.active_zones == 0 {
            return wrong("active_zones", 0, "at least 1".to_owned());
        }
        let pages = u64::from(blocks) * u64::from(geometry.pages_per_block());
        if !u64::from(self.logical_pages).is_multiple_of(pages) {
            let (all, page) = (self.logical_pages, geometry.page());
            let legal = format!(
                "such that the capacity, {all} pages of {page}, is a multiple of a zone, {pages} pages"
            );
            return wrong("zone_blocks", blocks, legal);
        }
        let zones = self.logical_pages / pages as u32;
        let per_die = (zones * blocks).div_ceil(dies);
        let least =
            FreeBlocks::by_die(geometry, self.reliability).iter().map(FreeBlocks::len).min().unwrap_or(0)
                as u32;
        if per_die > least {
            let most = u64::from(least) * u64::from(dies) * u64::from(geometry.pages_per_block());
            return wrong(
                "logical_pages",
                self.logical_pages,
                format!("up to {most}, the pages of the flash"),
            );
        }
        Ok(())
    }
}

impl LayerOptions for ZonesOptions {
    type Layer = Zones;

    const KIND: &'static str = "zones";

    fn for_array(&self, logical_pages: u32, reliability: Option<Reliability>) -> ZonesOptions {
        ZonesOptions { logical_pages, reliability, ..self.clone() }
    }

    fn check_profile(&self, surroundings: &Surroundings) -> Result<(), Illegal> {
        let legal = "absent with zones, which take pages only in the order of their writes";
        let Surroundings { block, page, has_slc_cache, flushes_when_full } = *surroundings;
        if has_slc_cache {
            return Err(Illegal::new("flash.slc_cache", "there", legal));
        }
        if block != page {
            return Err(Illegal::new("block", block, format!("`flash.page` ({page}) with zones")));
        }
        if flushes_when_full {
            return Err(Illegal::new("controller.write_buffer.flush", "when-full", legal));
        }
        Ok(())
    }

    fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        ZonesOptions::check(self, geometry)
    }

    fn build(&self, geometry: &FlashGeometry) -> Result<Zones, OptionsError> {
        Zones::new(geometry, self)
    }

    fn structure(&self) -> LayerStructure {
        LayerStructure { mapping: Mapping::Zones, stripe_pages: None, cached_map_entries: None }
    }

    fn memory(&self, _: &FlashGeometry) -> f64 {
        0.0
    }

    fn complete<T: Timing>(&self, layer: &mut Zones, flash: &Flash<T>) -> Result<(), String> {
        layer.check(self, flash)
    }
}
