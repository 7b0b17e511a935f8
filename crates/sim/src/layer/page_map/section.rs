//! The page map as a section of a profile.

use super::{PageMap, PageMapOptions, Striping};
use crate::flash::{Flash, FlashGeometry, Reliability, Timing};
use crate::illegal::Illegal;
use crate::layer::options::{
    BIT, LayerOptions, LayerStructure, MAP_ENTRY, Mapping, OptionsError, Surroundings,
};

impl LayerOptions for PageMapOptions {
    type Layer = PageMap;

    const KIND: &'static str = "page map";

    fn for_array(&self, logical_pages: u32, reliability: Option<Reliability>) -> PageMapOptions {
        PageMapOptions { logical_pages, reliability, ..self.clone() }
    }

    fn check_profile(&self, _: &Surroundings) -> Result<(), Illegal> {
        self.check_policy("translation.page_map")
    }

    fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        PageMapOptions::check(self, geometry)
    }

    fn build(&self, geometry: &FlashGeometry) -> Result<PageMap, OptionsError> {
        PageMap::new(geometry, self)
    }

    fn structure(&self) -> LayerStructure {
        let die_follows_offset = self.striping == Striping::Static;
        LayerStructure {
            mapping: Mapping::Pages { die_follows_offset },
            stripe_pages: None,
            cached_map_entries: None,
        }
    }

    fn memory(&self, geometry: &FlashGeometry) -> f64 {
        let heat = if self.hot_within.is_some() { MAP_ENTRY } else { 0.0 };
        f64::from(self.logical_pages) * (MAP_ENTRY + heat) + f64::from(geometry.pages()) * (MAP_ENTRY + BIT)
    }

    fn complete<T: Timing>(&self, layer: &mut PageMap, flash: &Flash<T>) -> Result<(), String> {
        layer.complete(self, None, flash)
    }
}
