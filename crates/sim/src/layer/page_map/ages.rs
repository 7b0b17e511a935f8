//! How often each block was read, and since when it holds data.

use std::collections::VecDeque;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::EraseBlock;

/// How many pages of each block were read since its erase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Disturbance {
    pub(super) limit: u32,
    pub(super) reads: Vec<u32>,
}

/// When each block was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ages {
    pub(super) limit: Nanos,
    pub(super) begun: Vec<Nanos>,
    /// In the order of their beginning. An entry whose time is not the block's any more says nothing.
    pub(super) order: VecDeque<(Nanos, EraseBlock)>,
}

impl Ages {
    pub(super) fn new(limit: Nanos, blocks: u32) -> Ages {
        Ages { limit, begun: vec![Nanos::MAX; blocks as usize], order: VecDeque::new() }
    }

    /// A block is written to from now on.
    pub(super) fn begin(&mut self, block: EraseBlock, at: Nanos) {
        self.begun[block.index()] = at;
        self.order.push_back((at, block));
    }

    pub(super) fn fits(&self, blocks: u32) -> bool {
        self.begun.len() == blocks as usize
            && self.order.iter().all(|&(_, block)| block.index() < self.begun.len())
    }

    /// How much memory they take.
    pub(super) fn bytes(&self) -> usize {
        self.begun.capacity() * size_of::<Nanos>() + self.order.capacity() * size_of::<(Nanos, EraseBlock)>()
    }

    /// A block was erased.
    pub(super) fn end(&mut self, block: EraseBlock) {
        self.begun[block.index()] = Nanos::MAX;
    }
}
