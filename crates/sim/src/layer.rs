//! Flash translation layers: they map the host's logical pages to pages of the flash.
//!
//! `contract` defines what a layer is, and `options` how a profile describes it. Each layer lies in a folder of its own
//! with its options; to add one, see the recipe in ARCHITECTURE.md.

mod bits;
mod contract;
mod data_blocks;
mod demand_map;
mod free_blocks;
mod front;
mod log_blocks;
mod options;
mod page_map;
mod registry;
mod shared_logs;
mod slc_cache;
mod zones;

use flashlab_base::Nanos;
use flashlab_device::IoError;
use serde::{Deserialize, Serialize};

use crate::flash::{Flash, FlashGeometry, LogicalPage, Reliability, Timing};
use crate::illegal::Illegal;
pub use contract::{Exhausted, Layer, Pages};
pub use demand_map::{DemandMap, DemandMapOptions};
pub(crate) use front::FrontLayer;
pub use log_blocks::{LogBlocks, LogBlocksOptions, LogOrder, Replacement};
pub(crate) use options::{LayerOptions, MAP_ENTRY, Surroundings};
pub use options::{LayerStructure, Mapping, OptionsError};
pub use page_map::{PageMap, PageMapOptions, Striping, VictimPolicy};
use registry::{dispatch_layer, register_layers};
pub use shared_logs::{SharedLogs, SharedLogsOptions};
pub use slc_cache::{SlcCache, SlcCacheOptions};
pub use zones::{Zones, ZonesOptions};

register_layers! {
    /// Each logical page may lie on any physical page.
    "page_map" PageMap(PageMapOptions),
    /// A page map that lies on the flash, with a part of it in memory: DFTL.
    "demand_map" DemandMap(DemandMapOptions),
    /// Log blocks that belong to one data block each: BAST, the block map, the chunk map.
    "log_blocks" LogBlocks(LogBlocksOptions),
    /// Log blocks that all data blocks share: FAST.
    "shared_logs" SharedLogs(SharedLogsOptions),
    /// Zones that the host writes in order: ZNS.
    "zones" Zones(ZonesOptions),
}

impl Default for Translation {
    fn default() -> Translation {
        Translation::PageMap(PageMapOptions::default())
    }
}
