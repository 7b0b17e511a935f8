//! By block: the number of reads since its erase, and when it was opened.

use std::collections::VecDeque;

use flashlab_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::flash::EraseBlock;

/// The number of pages of each block that were read since its erase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Disturbance {
    pub(super) limit: u32,
    pub(super) reads: Vec<u32>,
}

/// When each block was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ages {
    pub(super) limit: Nanos,
    pub(super) begun: Vec<Nanos>,
    /// The opened blocks, the oldest first. An entry is void if its time is not that of `begun`.
    pub(super) order: VecDeque<(Nanos, EraseBlock)>,
}

impl Ages {
    pub(super) fn new(limit: Nanos, blocks: u32) -> Ages {
        Ages { limit, begun: vec![Nanos::MAX; blocks as usize], order: VecDeque::new() }
    }

    /// Notes that a block is opened.
    pub(super) fn begin(&mut self, block: EraseBlock, at: Nanos) {
        self.begun[block.index()] = at;
        self.order.push_back((at, block));
    }

    pub(super) fn fits(&self, blocks: u32) -> bool {
        self.begun.len() == blocks as usize
            && self.order.iter().all(|&(_, block)| block.index() < self.begun.len())
    }

    /// The memory that they take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.begun.capacity() * size_of::<Nanos>() + self.order.capacity() * size_of::<(Nanos, EraseBlock)>()
    }

    /// Notes that a block was erased.
    pub(super) fn end(&mut self, block: EraseBlock) {
        self.begun[block.index()] = Nanos::MAX;
    }
}
