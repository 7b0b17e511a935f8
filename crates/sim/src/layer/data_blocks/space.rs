//! The number of blocks that a block-mapped layer has and needs.

use crate::flash::{FlashGeometry, Reliability};
use crate::layer::free_blocks::FreeBlocks;
use crate::layer::options::OptionsError;

/// The space that a layer divides: what it has to hold, and the blocks for logs and merges.
#[derive(Clone, Copy)]
pub(in crate::layer) struct Space {
    pub logical_pages: u32,
    pub stripe_pages: u32,
    /// The number of blocks for logs on each die.
    pub logs: u32,
    /// The number of blocks for other purposes on each die.
    pub reserve: u32,
    pub reliability: Option<Reliability>,
}

impl Space {
    /// Whether each die has enough blocks for data, logs and the reserve.
    ///
    /// # Errors
    /// Names an option that leaves too few blocks.
    pub fn check(self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        let Space { logical_pages, stripe_pages, logs, reserve, .. } = self;
        let dies = geometry.dies();
        let per_die = self.free_blocks(geometry).iter().map(FreeBlocks::len).min().unwrap_or(0) as u32;
        let wrong = |key, value: u32, legal| Err(OptionsError { key, value: value.into(), legal });
        if logs == 0 {
            return wrong("logs", logs, "at least 1".to_owned());
        }
        let most = per_die.saturating_sub(reserve + 1);
        if logs > most {
            let others = format!("{reserve} in reserve for merges and at least 1 for data");
            return wrong("logs", logs, format!("at most {most}: a die has {per_die} blocks, {others}"));
        }
        let spare = logs + reserve;
        let data_pages = (per_die - spare) * geometry.pages_per_block();
        if !(1..=data_pages).contains(&stripe_pages) {
            return wrong(
                "stripe_pages",
                stripe_pages,
                format!("1 to {data_pages}, the pages of a die for data"),
            );
        }
        let most = data_pages / stripe_pages * stripe_pages * dies;
        if !(1..=most).contains(&logical_pages) {
            let legal =
                format!("1 to {most}: each of {dies} dies needs {spare} of its {per_die} blocks as spares");
            return wrong("logical_pages", logical_pages, legal);
        }
        Ok(())
    }

    /// The number of logical blocks that the logical pages take.
    pub(super) fn logical_blocks(self, geometry: &FlashGeometry) -> u32 {
        let stripes = self.logical_pages.div_ceil(self.stripe_pages).div_ceil(geometry.dies());
        (stripes * self.stripe_pages).div_ceil(geometry.pages_per_block()) * geometry.dies()
    }

    /// By die: the blocks of erased flash that are not bad from the factory.
    pub(super) fn free_blocks(self, geometry: &FlashGeometry) -> Vec<FreeBlocks> {
        FreeBlocks::by_die(geometry, self.reliability)
    }
}
