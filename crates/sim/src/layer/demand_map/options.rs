//! The options of a page map that lies on the flash.

use serde::{Deserialize, Serialize};

use super::DemandMap;
use crate::flash::{Flash, FlashGeometry, Reliability, Timing};
use crate::illegal::Illegal;
use crate::layer::options::{BIT, LayerOptions, LayerStructure, MAP_ENTRY, OptionsError, Surroundings};
use crate::layer::page_map::{PageMapOptions, Striping, VictimPolicy};

/// The options of a demand-cached page map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DemandMapOptions {
    /// The page map whose entries are cached. With `shares`, the last share is the map's.
    pub page_map: PageMapOptions,
    /// How many entries are in memory; default 8192.
    pub cached_entries: u32,
    /// The size of an entry in bytes; default 4.
    pub entry_bytes: u32,
}

impl Default for DemandMapOptions {
    fn default() -> DemandMapOptions {
        DemandMapOptions { page_map: PageMapOptions::default(), cached_entries: 8192, entry_bytes: 4 }
    }
}

impl DemandMapOptions {
    /// How many pages the map takes.
    ///
    /// # Errors
    /// When an option is not possible.
    pub fn map_pages(&self, geometry: &FlashGeometry) -> Result<u32, OptionsError> {
        Ok(self.page_map.logical_pages.div_ceil(self.entries_per_page(geometry)?))
    }

    pub(super) fn entries_per_page(&self, geometry: &FlashGeometry) -> Result<u32, OptionsError> {
        let page = geometry.page().0 as u32;
        let wrong = |key, value: u32, legal| Err(OptionsError { key, value: value.into(), legal });
        if self.cached_entries == 0 {
            return wrong("cached_entries", 0, "at least 1".to_owned());
        }
        if !(1..=page).contains(&self.entry_bytes) {
            return wrong("entry_bytes", self.entry_bytes, format!("1 to a page, {page}"));
        }
        Ok(page / self.entry_bytes)
    }

    /// Whether a demand-cached page map can be built over the array.
    ///
    /// # Errors
    /// As [`PageMapOptions::check`], and when an option is not possible.
    pub fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        let whole = self.page_map.with_map_pages(self.map_pages(geometry)?);
        let (spare, blocks) = whole.blocks_to_spare(geometry)?;
        let taken = self.imbalance(geometry) / f64::from(geometry.pages_per_block());
        self.check_gain(geometry, (f64::from(spare) - taken).max(0.0) / f64::from(blocks))
    }

    /// The pages that a die may hold beyond its share. In write order the dies take pages round-robin, but a rewrite invalidates a
    /// page of any die. Random rewrites of N pages on D dies make the pages of a die an Ornstein-Uhlenbeck process: each round
    /// adds a variance of 1 - 1/D, and pulls back by D/N of the distance. So the variance is (1 - 1/D) N / 2D.
    fn imbalance(&self, geometry: &FlashGeometry) -> f64 {
        /// In standard deviations. A device forgets its imbalance in N writes: 64 dies exceed this once in 500 N writes.
        const LARGEST: f64 = 4.0;
        let dies = f64::from(geometry.dies());
        match self.page_map.striping {
            Striping::Static => 0.0,
            Striping::WriteOrder => {
                let pages = f64::from(self.page_map.logical_pages) / dies;
                LARGEST * ((1.0 - 1.0 / dies) * pages / 2.0).sqrt()
            }
        }
    }

    /// Blocks of the map hold nothing valid soon. A random choice that misses them, or one by age, moves data, whose entries
    /// make map pages stale: if it misses so often that more pages are written for the map than are gained, that goes on for ever.
    /// The chance is taken in the worst state: the space to spare of the fullest die, this share of its blocks, is in blocks of
    /// the map.
    fn check_gain(&self, geometry: &FlashGeometry, spare: f64) -> Result<(), OptionsError> {
        let (choices, policy) = match self.page_map.policy {
            VictimPolicy::Choices(choices) => (choices, "random choices"),
            // The oldest block is as likely to be of the map as one random choice is.
            VictimPolicy::Fifo => (1, "first in, first out"),
            VictimPolicy::Greedy | VictimPolicy::CostBenefit => return Ok(()),
        };
        let map_pages = f64::from(self.map_pages(geometry)?);
        let host_pages = f64::from(self.page_map.logical_pages);
        let block = f64::from(geometry.pages_per_block());
        let found = 1.0 - (1.0 - spare).powf(f64::from(choices));
        let moved = (1.0 - found) * block * (1.0 - f64::from(self.cached_entries) / host_pages).max(0.0);
        // The expected number of different map pages, if the entry of each moved page is on a random one.
        let stale = map_pages * (1.0 - (-moved / map_pages).exp());
        if found * block < stale {
            let legal = format!(
                "more: with {:.1} % of the blocks to spare on the fullest die, {policy} finds too few blocks of the map, and moves data for ever",
                spare * 100.0
            );
            return Err(OptionsError { key: "cached_entries", value: self.cached_entries.into(), legal });
        }
        Ok(())
    }
}

impl LayerOptions for DemandMapOptions {
    type Layer = DemandMap;

    const KIND: &'static str = "demand map";

    fn for_array(&self, logical_pages: u32, reliability: Option<Reliability>) -> DemandMapOptions {
        DemandMapOptions { page_map: self.page_map.for_array(logical_pages, reliability), ..self.clone() }
    }

    fn check_profile(&self, _: &Surroundings) -> Result<(), Illegal> {
        self.page_map.check_policy("translation.demand_map.page_map")
    }

    fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        DemandMapOptions::check(self, geometry)
    }

    fn build(&self, geometry: &FlashGeometry) -> Result<DemandMap, OptionsError> {
        DemandMap::new(geometry, self)
    }

    fn structure(&self) -> LayerStructure {
        LayerStructure { cached_map_entries: Some(self.cached_entries), ..self.page_map.structure() }
    }

    fn memory(&self, geometry: &FlashGeometry) -> f64 {
        self.page_map.memory(geometry) + f64::from(self.page_map.logical_pages) * (MAP_ENTRY + BIT)
    }

    fn complete<T: Timing>(&self, layer: &mut DemandMap, flash: &Flash<T>) -> Result<(), String> {
        layer.complete(self, flash)
    }
}
