//! What a page map can be told.

use flashlab_base::Seed;
use serde::{Deserialize, Serialize};

use crate::layer::Policy;

/// Where the next page is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Striping {
    /// On the die after that of the last write, row by row.
    #[default]
    WriteOrder,
    /// On the die that the logical page's number gives, so that pages that are written together elsewhere are not
    /// read at once.
    Static,
}

/// What a page map can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct PageMapOptions {
    /// How many logical pages there are.
    pub logical_pages: u32,
    /// Who is collected.
    pub policy: Policy,
    /// Where pages go.
    pub striping: Striping,
    /// How many streams the host may tell apart.
    pub streams: u16,
    /// The share of the blocks that each stream may use, if they are collected apart. Their sum is at most 1.
    pub shares: Option<Vec<f64>>,
    /// Whether the pages of victims go to open blocks of their own.
    pub collect_apart: bool,
    /// At how many free blocks a die collects before it opens another block.
    pub low_watermark: u32,
    /// How many free blocks a die makes while the host rests.
    pub high_watermark: u32,
    /// How many erases a block may lag behind the most worn one before its data moves; `None`: never.
    pub wear_spread: Option<u32>,
    /// For [`Policy::Choices`].
    pub seed: Seed,
}

impl Default for PageMapOptions {
    /// Greedy, in write order, one stream, one block of each die in reserve, no static wear levelling.
    fn default() -> PageMapOptions {
        PageMapOptions {
            logical_pages: 0,
            policy: Policy::Greedy,
            striping: Striping::WriteOrder,
            streams: 1,
            shares: None,
            collect_apart: false,
            low_watermark: 1,
            high_watermark: 1,
            wear_spread: None,
            seed: Seed(0),
        }
    }
}
