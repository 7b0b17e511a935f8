//! What a page map can be told.

use flashlab_base::Seed;
use serde::{Deserialize, Serialize};

use crate::flash::Geometry;
use crate::layer::{Exhausted, Policy};

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

/// What a page map can be told: the section `[translation.page_map]` of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageMapOptions {
    /// How many logical pages there are. A profile's capacity gives it.
    #[serde(skip)]
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

impl PageMapOptions {
    /// Whether the array has blocks enough for the logical pages, the open blocks and the reserve.
    ///
    /// # Errors
    /// Says how many are needed.
    pub fn check(&self, geometry: &Geometry) -> Result<(), Exhausted> {
        let (dies, pages) = (geometry.dies(), geometry.pages_per_block());
        let usable = geometry.blocks() - geometry.fast_blocks();
        let open = u32::from(self.streams.max(1)) * if self.collect_apart { 2 } else { 1 };
        let reserve = self.low_watermark.max(1);
        let needed =
            u64::from(self.logical_pages.div_ceil(pages)) + u64::from(dies) * u64::from(open + reserve);
        if u64::from(usable) >= needed {
            return Ok(());
        }
        let reason = format!(
            "{usable} blocks of {pages} pages do not hold {} logical pages, {open} open blocks for each of {dies} dies and \
             {reserve} in reserve for each: at least {needed} are needed",
            self.logical_pages,
        );
        Err(Exhausted { reason })
    }
}
