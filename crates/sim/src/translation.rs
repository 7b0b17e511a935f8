//! Which translation layer a device has.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::IoError;
use serde::{Deserialize, Serialize};

use crate::flash::{Flash, FlashGeometry, LogicalPage, Timing};
use crate::flash_device::FlushPolicy;
use crate::layer::{
    DemandMap, DemandMapOptions, Exhausted, FastRegion, FastRegionOptions, Layer, LogBlocks,
    LogBlocksOptions, OptionsError, PageMap, PageMapOptions, Pages, Policy, SharedLogs, SharedLogsOptions,
    Zones, ZonesOptions,
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
            Translation::Zones(options) => Translation::Zones(ZonesOptions {
                logical_pages,
                reliability: flash.reliability,
                ..options.clone()
            }),
        }
    }

    /// Whether the layer can be built over the array, and nothing that is built.
    pub(crate) fn check(&self, profile: &Profile, flash: &FlashSection) -> Result<(), Illegal> {
        let (section, policy) = match self {
            Translation::PageMap(options) => ("page_map", options.policy),
            Translation::DemandMap(options) => ("demand_map.page_map", options.page_map.policy),
            _ => ("", Policy::Greedy),
        };
        if let Policy::Choices(choices) = policy
            && !(1..=MOST_CHOICES).contains(&choices)
        {
            let key = format!("translation.{section}.policy.choices");
            return Err(Illegal::new(key, choices, format!("1 to {MOST_CHOICES}")));
        }
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
        self.fits(profile, flash).map_err(|illegal| {
            if illegal.key() != OVER_PROVISIONING {
                return illegal;
            }
            let least = self.least_over_provisioning(profile, flash);
            illegal.at_least(least.map_or("more".to_owned(), |share| format!("at least {share}")))
        })
    }

    /// Whether there is enough flash for the layer.
    fn fits(&self, profile: &Profile, flash: &FlashSection) -> Result<(), Illegal> {
        let geometry = &flash.geometry(profile.capacity, self.spare_blocks())?;
        match self.with_array(flash, flash.logical_pages(profile.capacity)?) {
            Translation::PageMap(options) => options.check(geometry).map_err(in_section("page_map", flash)),
            Translation::DemandMap(options) => {
                options.check(geometry).map_err(in_section("demand_map", flash))
            }
            Translation::LogBlocks(options) => {
                options.check(geometry).map_err(in_section("log_blocks", flash))
            }
            Translation::SharedLogs(options) => {
                options.check(geometry).map_err(in_section("shared_logs", flash))
            }
            Translation::Zones(options) => options.check(geometry).map_err(in_section("zones", flash)),
        }
    }

    /// What `over_provisioning` has to be that the layer has enough flash; `None` when it is not that.
    fn least_over_provisioning(&self, profile: &Profile, flash: &FlashSection) -> Option<f64> {
        let row = flash.page.0 as f64 * f64::from(flash.block_pages()) * f64::from(flash.dies);
        // As so many blocks more on each die are, in steps that can be written down.
        let share = |blocks: u32| {
            let more = flash.over_provisioning + f64::from(blocks) * row / profile.capacity.0 as f64;
            (more * 1e4).ceil() / 1e4
        };
        let is_enough = |blocks: u32| {
            let over_provisioning = share(blocks);
            let more = FlashSection { over_provisioning, ..flash.clone() };
            over_provisioning <= 100.0 && self.fits(profile, &more).is_ok()
        };
        let mut enough = (0..=MOST_DOUBLINGS).map(|power| 1 << power).find(|&blocks| is_enough(blocks))?;
        let mut short = enough / 2;
        while enough - short > 1 {
            let middle = short + (enough - short) / 2;
            *(if is_enough(middle) { &mut enough } else { &mut short }) = middle;
        }
        Some(share(enough))
    }
}

/// The key that is to be changed where the flash is not enough for the capacity.
const OVER_PROVISIONING: &str = "flash.over_provisioning";
/// What is lacking is looked for up to 2^16 blocks of a die.
const MOST_DOUBLINGS: u32 = 16;
/// The most blocks that are chosen among at random; more are as good as all of them.
const MOST_CHOICES: u32 = 1024;

/// Says what is wrong in a section of the profile.
fn in_section(section: &'static str, flash: &FlashSection) -> impl Fn(OptionsError) -> Illegal {
    let over_provisioning = flash.over_provisioning;
    move |error| match error.key {
        // A profile does not have this key: its capacity is what is too much for its flash.
        "logical_pages" => {
            let legal = format!("the capacity has {} pages, and there may be {}", error.value, error.legal);
            Illegal::number(OVER_PROVISIONING, over_provisioning, legal)
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
        geometry: &FlashGeometry,
    ) -> Result<AnyLayer, Illegal> {
        match profile.translation.with_array(flash, flash.logical_pages(profile.capacity)?) {
            Translation::PageMap(options) => {
                PageMap::new(geometry, &options).map(AnyLayer::PageMap).map_err(in_section("page_map", flash))
            }
            Translation::DemandMap(options) => DemandMap::new(geometry, &options)
                .map(AnyLayer::DemandMap)
                .map_err(in_section("demand_map", flash)),
            Translation::LogBlocks(options) => LogBlocks::new(geometry, &options)
                .map(AnyLayer::LogBlocks)
                .map_err(in_section("log_blocks", flash)),
            Translation::SharedLogs(options) => SharedLogs::new(geometry, &options)
                .map(AnyLayer::SharedLogs)
                .map_err(in_section("shared_logs", flash)),
            Translation::Zones(options) => {
                Zones::new(geometry, &options).map(AnyLayer::Zones).map_err(in_section("zones", flash))
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
        geometry: &FlashGeometry,
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
        let wrong = |error: OptionsError| {
            Illegal::new(
                "flash.fast.size",
                fast.size,
                format!("more: {} blocks are {}", error.value, error.legal),
            )
        };
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
            fn touch(&self, geometry: &FlashGeometry, pages: &[LogicalPage]) -> u32 {
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
