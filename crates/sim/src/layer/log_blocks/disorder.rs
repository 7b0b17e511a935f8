//! A layer that stays slow after stray writes, until its blocks are rewritten in order.
//!
//! # Model
//! Ajwani et al., appendix C: a drive that writes at a fraction of its speed after small random writes and "did not
//! recover to its normal performance until it was entirely rewritten sequentially".
//!
//! A stray write is a write of a single page that does not continue the write before it. A run of stray writes disorders
//! all blocks. The log of a disordered block does not stay after the request, so each request to the block costs a merge.
//! A block is in order again once it was written from its first page to its last, with no other write to it in between.

use serde::{Deserialize, Serialize};

use crate::layer::data_blocks::{LogicalBlock, Part};

/// Which logical blocks are in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Disorder {
    /// The number of consecutive stray writes that disorder the blocks; 0: no number does.
    limit: u32,
    strays: u32,
    /// The number of times that the blocks were disordered.
    times: u32,
    /// The end of the last part: its block and the offset behind it.
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

    /// Whether this, read from outside bytes, has this limit and this number of blocks.
    pub(super) fn fits(&self, limit: u32, blocks: u32) -> bool {
        let blocks = if limit > 0 { blocks as usize } else { 0 };
        (self.limit, self.blocks.len()) == (limit, blocks) && (self.strays < self.limit || self.strays == 0)
    }

    /// Notes the write of a part. Returns whether its block is in disorder.
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
