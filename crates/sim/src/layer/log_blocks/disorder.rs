//! What becomes of a layer that loses the order of its blocks.
//!
//! # Model
//! Ajwani et al., appendix C: a drive that writes at a fraction of its speed after small random writes and "did not
//! recover to its normal performance until it was entirely rewritten sequentially". A run of single pages, each
//! written elsewhere than the one before it, disorders all blocks. A disordered block has no log that outlasts a
//! request, so that each request to it costs a merge. It is in order again when it was written from its first page to
//! its last without anything else in between.

use serde::{Deserialize, Serialize};

use crate::layer::data_blocks::{LogicalBlock, Part};

/// Which logical blocks are in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Disorder {
    /// How many stray pages in a row disorder the blocks; 0: no number.
    limit: u32,
    strays: u32,
    /// How many times the blocks were disordered.
    times: u32,
    /// Where the last part ended: its block and the offset behind it.
    last: (LogicalBlock, u32),
    /// By block: `times` when it was last in order, and up to where it was written in order since then.
    blocks: Vec<(u32, u32)>,
}

impl Disorder {
    /// All blocks are in order.
    pub(super) fn new(limit: u32, blocks: u32) -> Disorder {
        let blocks = if limit > 0 { vec![(0, 0); blocks as usize] } else { Vec::new() };
        Disorder { limit, strays: 0, times: 0, last: (LogicalBlock(0), 0), blocks }
    }

    /// Whether this, read from outside bytes, belongs to so many blocks with this limit.
    pub(super) fn fits(&self, limit: u32, blocks: u32) -> bool {
        let blocks = if limit > 0 { blocks as usize } else { 0 };
        (self.limit, self.blocks.len()) == (limit, blocks) && (self.strays < self.limit || self.strays == 0)
    }

    /// A part was written. Returns whether its block is in disorder.
    #[inline]
    pub(super) fn written(&mut self, part: Part, pages_per_block: u32) -> bool {
        if self.limit == 0 {
            return false;
        }
        let end = part.offset + part.pages;
        let stray = part.pages == 1 && part.offset > 0 && self.last != (part.block, part.offset);
        self.last = (part.block, end);
        self.strays = if stray { self.strays + 1 } else { 0 };
        if self.strays == self.limit {
            self.times = self.times.wrapping_add(1);
            self.strays = 0;
            self.blocks.iter_mut().for_each(|(_, written)| *written = 0);
        }
        let (ordered, written) = &mut self.blocks[part.block.index()];
        *written = if part.offset == 0 || part.offset == *written { end } else { 0 };
        if *written == pages_per_block {
            *ordered = self.times;
        }
        *ordered != self.times
    }
}
