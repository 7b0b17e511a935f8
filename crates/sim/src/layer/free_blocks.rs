//! The free blocks of a die, in the order in which a layer takes them.
//!
//! # Invariants
//! - the block with the fewest erases is taken first, and of several the one with the lowest number (dynamic wear
//!   levelling).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::flash::{EraseBlock, FlashGeometry, Reliability};

/// The free blocks of a die: erases and block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::layer) struct FreeBlocks(BTreeSet<(u32, EraseBlock)>);

/// The blocks of erased flash behind the SLC cache, without those that are bad from the factory.
pub(in crate::layer) fn usable_blocks(
    geometry: &FlashGeometry,
    reliability: Option<Reliability>,
) -> impl Iterator<Item = EraseBlock> + use<> {
    let is_bad = move |block| reliability.is_some_and(|reliability| reliability.factory_bad(block));
    geometry.main_blocks().filter(move |&block| !is_bad(block))
}

impl FreeBlocks {
    /// By die: the [`usable_blocks`], never erased.
    pub(in crate::layer) fn by_die(
        geometry: &FlashGeometry,
        reliability: Option<Reliability>,
    ) -> Vec<FreeBlocks> {
        let mut free = vec![Vec::new(); geometry.dies() as usize];
        for block in usable_blocks(geometry, reliability) {
            free[geometry.die(block).index()].push((0, block));
        }
        // A tree that is made of a sorted list at once takes a fraction of the time of single insertions.
        free.into_iter().map(|blocks| FreeBlocks(blocks.into_iter().collect())).collect()
    }

    /// The number of free blocks.
    pub(in crate::layer) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::layer) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A block is free from now on; it was erased `erases` times.
    pub(in crate::layer) fn insert(&mut self, block: EraseBlock, erases: u32) {
        self.0.insert((erases, block));
    }

    /// Takes the block with the fewest erases.
    pub(in crate::layer) fn take(&mut self) -> Option<EraseBlock> {
        self.0.pop_first().map(|(_, block)| block)
    }

    /// The blocks, with the erases that they were inserted with.
    pub(in crate::layer) fn iter(&self) -> impl Iterator<Item = (EraseBlock, u32)> {
        self.0.iter().map(|&(erases, block)| (block, erases))
    }

    /// About how many bytes of memory they take.
    pub(in crate::layer) fn bytes(&self) -> usize {
        // The nodes of a tree are at least half full.
        2 * self.0.len() * size_of::<(u32, EraseBlock)>()
    }
}
