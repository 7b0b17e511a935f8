//! Which translation layer a device has.

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::{Flash, Geometry, LogicalPage, Timing};
use crate::layer::{
    Exhausted, Layer, LogBlocks, LogBlocksOptions, OptionsError, PageMap, PageMapOptions, Pages, SharedLogs,
    SharedLogsOptions,
};
use crate::profile::{FlashSection, Illegal, Profile};

/// `[translation]`: one of the layers, as a table of its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Translation {
    /// Every page may lie anywhere.
    PageMap(PageMapOptions),
    /// Log blocks that belong to one data block each: BAST, the block map, the chunk map.
    LogBlocks(LogBlocksOptions),
    /// Log blocks that all data blocks share: FAST.
    SharedLogs(SharedLogsOptions),
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
            Translation::PageMap(_) => 0,
            Translation::LogBlocks(options) => options.spare_blocks(),
            Translation::SharedLogs(options) => options.spare_blocks(),
        }
    }
}

/// One of the translation layers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AnyLayer {
    PageMap(PageMap),
    LogBlocks(LogBlocks),
    SharedLogs(SharedLogs),
}

impl AnyLayer {
    /// The profile's layer over erased flash.
    pub(crate) fn new(
        profile: &Profile,
        flash: &FlashSection,
        geometry: &Geometry,
    ) -> Result<AnyLayer, Illegal> {
        let logical_pages = flash.logical_pages(profile.capacity)?;
        let wrong = |layer: &'static str| {
            move |error: OptionsError| {
                Illegal::new(format!("translation.{layer}.{}", error.key), error.value, error.legal)
            }
        };
        match &profile.translation {
            Translation::PageMap(options) => {
                let options = PageMapOptions { logical_pages, ..options.clone() };
                let scarce = |error: Exhausted| {
                    Illegal::new("flash.over_provisioning", flash.over_provisioning, format!("more: {error}"))
                };
                PageMap::new(geometry, &options).map(AnyLayer::PageMap).map_err(scarce)
            }
            Translation::LogBlocks(options) => {
                let options = LogBlocksOptions { logical_pages, ..options.clone() };
                LogBlocks::new(geometry, &options).map(AnyLayer::LogBlocks).map_err(wrong("log_blocks"))
            }
            Translation::SharedLogs(options) => {
                let options = SharedLogsOptions { logical_pages, ..options.clone() };
                SharedLogs::new(geometry, &options).map(AnyLayer::SharedLogs).map_err(wrong("shared_logs"))
            }
        }
    }

    /// Rebuilds what a saved layer does not hold. `false` when it is not a state of the layer `fresh`.
    pub(crate) fn complete(&mut self, fresh: &AnyLayer, flash: &Flash<impl Timing>) -> bool {
        match (self, fresh) {
            (AnyLayer::PageMap(layer), AnyLayer::PageMap(fresh)) => layer.complete(fresh, flash),
            (AnyLayer::LogBlocks(_), AnyLayer::LogBlocks(_)) => true,
            (AnyLayer::SharedLogs(_), AnyLayer::SharedLogs(_)) => true,
            _ => false,
        }
    }
}

/// Calls a method of whichever layer it is.
macro_rules! each {
    ($layer:expr, $inner:ident => $call:expr) => {
        match $layer {
            AnyLayer::PageMap($inner) => $call,
            AnyLayer::LogBlocks($inner) => $call,
            AnyLayer::SharedLogs($inner) => $call,
        }
    };
}

impl Layer for AnyLayer {
    fn pages(&self) -> u32 {
        each!(self, layer => layer.pages())
    }

    #[inline]
    fn holds(&self, page: LogicalPage) -> bool {
        each!(self, layer => layer.holds(page))
    }

    #[inline]
    fn touch(&self, page: LogicalPage) -> u32 {
        each!(self, layer => layer.touch(page))
    }

    #[inline]
    fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        each!(self, layer => layer.write(flash, pages, stream, at))
    }

    #[inline]
    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        each!(self, layer => layer.read(flash, pages, at))
    }

    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        each!(self, layer => layer.trim(flash, pages));
    }

    fn rest<T: Timing>(&mut self, flash: &mut Flash<T>, from: Nanos, until: Nanos) {
        each!(self, layer => layer.rest(flash, from, until));
    }

    fn power_cut(&mut self) {
        each!(self, layer => layer.power_cut());
    }
}
