//! Which translation layer a device has.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::IoError;
use serde::{Deserialize, Serialize};

use crate::flash::{Flash, Geometry, LogicalPage, Timing};
use crate::flash_device::FlushPolicy;
use crate::layer::{
    DemandMap, DemandMapOptions, Exhausted, FastRegion, FastRegionOptions, Layer, LogBlocks,
    LogBlocksOptions, OptionsError, PageMap, PageMapOptions, Pages, SharedLogs, SharedLogsOptions, Zones,
    ZonesOptions,
};
use crate::profile::{FlashSection, Illegal, Profile};

/// `[translation]`: one of the layers, as a table of its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Translation {
    /// Every page may lie anywhere.
    PageMap(PageMapOptions),
    /// The same, with its map on the flash and a part of it in memory: DFTL.
    DemandMap(DemandMapOptions),
    /// Log blocks that belong to one data block each: BAST, the block map, the chunk map.
    LogBlocks(LogBlocksOptions),
    /// Log blocks that all data blocks share: FAST.
    SharedLogs(SharedLogsOptions),
    /// Zones that the host writes in order: ZNS.
    Zones(ZonesOptions),
}

impl Default for Translation {
    fn default() -> Translation {
        Translation::PageMap(PageMapOptions::default())
    }
}

impl Translation {
    /// The blocks that each die needs beside those that hold the capacity.
    pub(crate) fn spare_blocks(&self) -> u32 {
        match self {
            Translation::PageMap(_) | Translation::DemandMap(_) | Translation::Zones(_) => 0,
            Translation::LogBlocks(options) => options.spare_blocks(),
            Translation::SharedLogs(options) => options.spare_blocks(),
        }
    }

    /// The same layer, made for its sizes only.
    pub(crate) fn only_sizes(mut self) -> Translation {
        match &mut self {
            Translation::PageMap(options) => options.only_sizes = true,
            Translation::DemandMap(options) => options.page_map.only_sizes = true,
            Translation::LogBlocks(_) | Translation::SharedLogs(_) | Translation::Zones(_) => {}
        }
        self
    }

    /// The same options for the array that a profile describes.
    fn with_array(&self, flash: &FlashSection, logical_pages: u32) -> Translation {
        let page_map = |options: &PageMapOptions| PageMapOptions {
            logical_pages,
            reliability: flash.reliability,
            ..options.clone()
        };
        match self {
            Translation::PageMap(options) => Translation::PageMap(page_map(options)),
            Translation::DemandMap(options) => Translation::DemandMap(DemandMapOptions {
                page_map: page_map(&options.page_map),
                ..options.clone()
            }),
            Translation::LogBlocks(options) => Translation::LogBlocks(LogBlocksOptions {
                logical_pages,
                reliability: flash.reliability,
                ..options.clone()
            }),
            Translation::SharedLogs(options) => Translation::SharedLogs(SharedLogsOptions {
                logical_pages,
                reliability: flash.reliability,
                ..options.clone()
            }),
            Translation::Zones(options) => {
                Translation::Zones(ZonesOptions { logical_pages, ..options.clone() })
            }
        }
    }

    /// Whether the layer can be built over the array, and nothing that is built.
    pub(crate) fn check(
        &self,
        profile: &Profile,
        flash: &FlashSection,
        geometry: &Geometry,
    ) -> Result<(), Illegal> {
        if matches!(self, Translation::Zones(_)) {
            let late =
                profile.controller.write_buffer.is_some_and(|buffer| buffer.flush == FlushPolicy::WhenFull);
            let legal = "absent with zones, which take pages only in the order of their writes";
            if flash.fast.is_some() {
                return Err(Illegal::new("flash.fast", "there", legal));
            }
            if profile.block != flash.page {
                return Err(Illegal::new(
                    "block",
                    profile.block,
                    format!("`flash.page` ({}) with zones", flash.page),
                ));
            }
            if late {
                return Err(Illegal::new("controller.write_buffer.flush", "when-full", legal));
            }
        }
        match self.with_array(flash, flash.logical_pages(profile.capacity)?) {
            Translation::PageMap(options) => options.check(geometry).map_err(in_section("page_map")),
            Translation::DemandMap(options) => options.check(geometry).map_err(in_section("demand_map")),
            Translation::LogBlocks(options) => options.check(geometry).map_err(in_section("log_blocks")),
            Translation::SharedLogs(options) => options.check(geometry).map_err(in_section("shared_logs")),
            Translation::Zones(options) => options.check(geometry).map_err(in_section("zones")),
        }
    }
}

/// Says what is wrong in a section of the profile.
fn in_section(section: &'static str) -> impl Fn(OptionsError) -> Illegal {
    move |error| match error.key {
        // A profile does not have this key: its capacity is what is too much for its flash.
        "logical_pages" => {
            let legal =
                format!("more: the capacity has {} pages, and there may be {}", error.value, error.legal);
            Illegal::new("flash.over_provisioning", "too small", legal)
        }
        key => Illegal::new(format!("translation.{section}.{key}"), error.value, error.legal),
    }
}

/// One of the translation layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum AnyLayer {
    PageMap(PageMap),
    DemandMap(DemandMap),
    LogBlocks(LogBlocks),
    SharedLogs(SharedLogs),
    Zones(Zones),
}

impl AnyLayer {
    /// The profile's layer over erased flash.
    pub(crate) fn new(
        profile: &Profile,
        flash: &FlashSection,
        geometry: &Geometry,
    ) -> Result<AnyLayer, Illegal> {
        match profile.translation.with_array(flash, flash.logical_pages(profile.capacity)?) {
            Translation::PageMap(options) => {
                PageMap::new(geometry, &options).map(AnyLayer::PageMap).map_err(in_section("page_map"))
            }
            Translation::DemandMap(options) => {
                DemandMap::new(geometry, &options).map(AnyLayer::DemandMap).map_err(in_section("demand_map"))
            }
            Translation::LogBlocks(options) => {
                LogBlocks::new(geometry, &options).map(AnyLayer::LogBlocks).map_err(in_section("log_blocks"))
            }
            Translation::SharedLogs(options) => SharedLogs::new(geometry, &options)
                .map(AnyLayer::SharedLogs)
                .map_err(in_section("shared_logs")),
            Translation::Zones(options) => {
                Zones::new(geometry, &options).map(AnyLayer::Zones).map_err(in_section("zones"))
            }
        }
    }

    /// Makes again what a saved layer does not hold.
    ///
    /// # Errors
    /// Why it is not a state of the layer `fresh` over `flash`.
    pub(crate) fn complete(&mut self, fresh: &AnyLayer, flash: &Flash<impl Timing>) -> Result<(), String> {
        match (self, fresh) {
            (AnyLayer::PageMap(layer), AnyLayer::PageMap(fresh)) => layer.complete(fresh, flash),
            (AnyLayer::DemandMap(layer), AnyLayer::DemandMap(fresh)) => layer.complete(fresh, flash),
            (AnyLayer::LogBlocks(layer), AnyLayer::LogBlocks(fresh)) => layer.check(fresh, flash),
            (AnyLayer::SharedLogs(layer), AnyLayer::SharedLogs(fresh)) => layer.check(fresh, flash),
            (AnyLayer::Zones(layer), AnyLayer::Zones(fresh)) => layer.check(fresh, flash),
            _ => Err("the translation layer is another one".to_owned()),
        }
    }
}

/// A translation layer, with a fast region in front of it or without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum FrontLayer {
    Plain(AnyLayer),
    Fast(FastRegion<AnyLayer>),
}

impl FrontLayer {
    /// The profile's layers over erased flash.
    pub(crate) fn new(
        profile: &Profile,
        flash: &FlashSection,
        geometry: &Geometry,
    ) -> Result<FrontLayer, Illegal> {
        let layer = AnyLayer::new(profile, flash, geometry)?;
        let Some(fast) = &flash.fast else { return Ok(FrontLayer::Plain(layer)) };
        let pages = |size: Bytes| u32::try_from(size.0.div_ceil(flash.page.0)).unwrap_or(u32::MAX);
        let options = FastRegionOptions {
            bypass_from: fast.bypass_from.map(pages),
            refill_blocks: fast
                .refill
                .map_or(u32::MAX, |size| pages(size).div_ceil(geometry.pages_per_block())),
            reliability: flash.reliability,
        };
        let wrong =
            |error: OptionsError| Illegal::new(format!("flash.fast.{}", error.key), error.value, error.legal);
        FastRegion::new(geometry, layer, &options).map(FrontLayer::Fast).map_err(wrong)
    }

    /// As [`AnyLayer::complete`].
    pub(crate) fn complete(&mut self, fresh: &FrontLayer, flash: &Flash<impl Timing>) -> Result<(), String> {
        match (self, fresh) {
            (FrontLayer::Plain(layer), FrontLayer::Plain(fresh)) => layer.complete(fresh, flash),
            (FrontLayer::Fast(region), FrontLayer::Fast(fresh)) => {
                region.complete(fresh, flash, |layer, fresh| layer.complete(fresh, flash))
            }
            _ => Err("one has a fast region and the other has none".to_owned()),
        }
    }
}

/// Makes an enum of layers a layer: every method is that of whichever it is.
macro_rules! layer_of {
    ($layers:ident: $($variant:ident),+) => {
        impl Layer for $layers {
            fn pages(&self) -> u32 {
                match self { $($layers::$variant(layer) => layer.pages(),)+ }
            }

            #[inline]
            fn holds(&self, page: LogicalPage) -> bool {
                match self { $($layers::$variant(layer) => layer.holds(page),)+ }
            }

            #[inline]
            fn touch(&self, geometry: &Geometry, pages: &[LogicalPage]) -> u32 {
                match self { $($layers::$variant(layer) => layer.touch(geometry, pages),)+ }
            }

            #[inline]
            fn accepts(&self, pages: Pages) -> Result<(), IoError> {
                match self { $($layers::$variant(layer) => layer.accepts(pages),)+ }
            }

            #[inline]
            fn write<T: Timing>(
                &mut self,
                flash: &mut Flash<T>,
                pages: Pages,
                stream: u16,
                at: Nanos,
            ) -> Result<Nanos, Exhausted> {
                match self { $($layers::$variant(layer) => layer.write(flash, pages, stream, at),)+ }
            }

            #[inline]
            fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
                match self { $($layers::$variant(layer) => layer.read(flash, pages, at),)+ }
            }

            fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
                match self { $($layers::$variant(layer) => layer.trim(flash, pages),)+ }
            }

            fn rest<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
                match self { $($layers::$variant(layer) => layer.rest(flash, from, until),)+ }
            }

            fn power_cut(&mut self) {
                match self { $($layers::$variant(layer) => layer.power_cut(),)+ }
            }
        }
    };
}

layer_of!(AnyLayer: PageMap, DemandMap, LogBlocks, SharedLogs, Zones);
layer_of!(FrontLayer: Plain, Fast);
