//! The contract of a translation layer: the methods by which the controller uses it.
//!
//! # Model
//! A [`Layer`] reads and writes whole logical pages with the operations of a [`Flash`], which checks and times them. The
//! layer keeps the mapping and decides what is merged, collected and erased. Its decisions depend on the requests alone
//! and never on time, so that conditioning without times ends in the same state. Only [`Layer::idle`] is about time.
//!
//! # Invariants
//! - a read of a page that [`Layer::holds`] returns its most recent write;
//! - a write is served or fails with [`Exhausted`]; no layer collects without end.

use flashlab_base::Nanos;
use flashlab_device::IoError;

use crate::flash::{Flash, FlashGeometry, LogicalPage, Timing};

/// A run of logical pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The first page.
    pub first: LogicalPage,
    /// The number of pages.
    pub count: u32,
}

impl Pages {
    /// The page behind the last one.
    #[inline]
    pub fn end(self) -> LogicalPage {
        self.first + self.count
    }

    /// Takes the first `count` pages off the run, which has that many or more.
    #[inline]
    pub fn take(&mut self, count: u32) -> Pages {
        let taken = Pages { first: self.first, count };
        *self = Pages { first: self.first + count, count: self.count - count };
        taken
    }

    /// The pages one by one.
    pub fn each(self) -> impl Iterator<Item = LogicalPage> {
        (self.first.0..self.first.0 + self.count).map(LogicalPage)
    }
}

/// A write fails, because no block is left to write to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Exhausted {
    /// Why there is none.
    pub reason: String,
}

/// A flash translation layer.
pub trait Layer {
    /// The number of logical pages.
    fn pages(&self) -> u32;

    /// Whether a page was written and not trimmed since.
    fn holds(&self, page: LogicalPage) -> bool;

    /// Prefetches what writes of `pages` will need into the CPU's cache, if the layer supports it. Changes nothing. The
    /// returned number means nothing, but the caller has to use it, or the compiler removes the loads.
    fn prefetch(&self, _geometry: &FlashGeometry, _pages: &[LogicalPage]) -> u32 {
        0
    }

    /// Whether pages can be written now. Only zoned devices refuse some.
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
    /// When no block is left to write to.
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

    /// Forgets pages of which a cache in front now has newer versions. Until they are written here or trimmed, nobody asks for them:
    /// a layer need not write a map that says so.
    fn supersede<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        self.trim(flash, pages);
    }

    /// The host is idle between `from` and `until`: the layer may collect, fold or refresh.
    fn idle<T: Timing>(&mut self, _flash: &mut Flash<T>, _from: Nanos, _until: Nanos) {}

    /// The power fails. The layer rebuilds from the flash what it had in volatile memory only.
    fn power_cut(&mut self) {}
}
