//! Flash translation layers: they turn the host's pages into places on the flash.
//!
//! # Model
//! A [`Layer`] is asked to read and write whole logical pages and does it with the operations of a
//! [`Flash`], which checks and times them. It keeps its mapping and decides what is merged, collected and
//! erased. It reads no clock: what it decides depends on what it was asked, so that a device that is
//! conditioned without times ends in the same state; only [`Layer::rest`] is about time.
//!
//! # Invariants
//! - a page that [`Layer::holds`] is read from the place of its last write;
//! - a write is served, or refused with [`Exhausted`]: no layer turns in circles for want of space.

mod data_blocks;
mod demand_map;
mod fast_region;
mod log_blocks;
mod options_error;
mod page_map;
mod shared_logs;
mod victims;
mod zones;

use flashlab_base::Nanos;
use flashlab_device::IoError;

use crate::flash::{Flash, FlashGeometry, LogicalPage, Timing};

pub use demand_map::{DemandMap, DemandMapOptions};
pub use fast_region::{FastRegion, FastRegionOptions};
pub use log_blocks::{LogBlocks, LogBlocksOptions, LogOrder, Replacement};
pub use options_error::OptionsError;
pub use page_map::{PageMap, PageMapOptions, Striping};
pub use shared_logs::{SharedLogs, SharedLogsOptions};
pub use victims::Policy;
pub use zones::{Zones, ZonesOptions};

/// A run of logical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The first one.
    pub first: LogicalPage,
    /// How many.
    pub count: u32,
}

impl Pages {
    /// The pages one by one.
    pub fn each(self) -> impl Iterator<Item = LogicalPage> {
        (self.first.0..self.first.0 + self.count).map(LogicalPage)
    }
}

/// No block is left to write to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Exhausted {
    /// What happened.
    pub reason: String,
}

/// A flash translation layer.
pub trait Layer {
    /// How many logical pages there are.
    fn pages(&self) -> u32;

    /// Whether a page was written and not trimmed since.
    fn holds(&self, page: LogicalPage) -> bool;

    /// Loads what writes of `pages` will need into the processor's cache, where the layer knows how. Changes nothing;
    /// the number means nothing, but has to be used, or the compiler removes the loads.
    fn touch(&self, _geometry: &FlashGeometry, _pages: &[LogicalPage]) -> u32 {
        0
    }

    /// Whether pages may be written now. Only zoned devices refuse any.
    ///
    /// # Errors
    /// The error of the write.
    fn accepts(&self, _pages: Pages) -> Result<(), IoError> {
        Ok(())
    }

    /// Writes whole pages, not before `at`; returns when they are on the flash. `stream` is the host's hint which
    /// writes belong together; layers without streams ignore it.
    ///
    /// # Errors
    /// When no block can be had any more.
    fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted>;

    /// Reads whole pages, not before `at`; returns when their data has left the flash. Pages that are not held
    /// take no time.
    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos;

    /// Forgets pages.
    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages);

    /// The host asks for nothing between `from` and `until`: the layer may do what it has to do anyway.
    fn rest<T: Timing>(&mut self, _flash: &mut Flash<T>, _from: Nanos, _until: Nanos) {}

    /// The power fails: what is kept in volatile memory only is rebuilt from the flash.
    fn power_cut(&mut self) {}
}
