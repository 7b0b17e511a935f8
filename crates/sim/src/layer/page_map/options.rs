//! The options of a page map.

use flashlab_base::{Nanos, Seed};
use serde::{Deserialize, Serialize};

use super::victims::VictimPolicy;
use crate::flash::{FlashGeometry, Reliability};
use crate::illegal::Illegal;
use crate::layer::free_blocks::usable_blocks;
use crate::layer::options::OptionsError;

/// To which die the next page is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Striping {
    /// Round-robin over the dies, in the order of the writes; each die gets a multi-plane page.
    #[default]
    WriteOrder,
    /// To the die that follows from the logical page's number. Pages of the same die are then read one after the other,
    /// however they were written.
    Static,
}

/// The options of a page map: the section `[translation.page_map]` of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageMapOptions {
    /// The number of logical pages. A profile's capacity gives it.
    #[serde(skip)]
    pub logical_pages: u32,
    /// Which block garbage collection takes.
    pub policy: VictimPolicy,
    /// To which die pages go.
    pub striping: Striping,
    /// The number of streams that the host may use; default 1.
    pub streams: u16,
    /// The share of the blocks that each stream may use. Each stream is then collected within its own blocks. The sum of
    /// the shares is at most 1. Default: all streams share all blocks.
    pub shares: Option<Vec<f64>>,
    /// A page that is rewritten within this number of written pages is hot, and goes to stream 1. Any other goes to
    /// stream 0, and the host's hints are ignored. This lowers write amplification with [`VictimPolicy::CostBenefit`] and a
    /// number of about the logical pages. Default: the host chooses the stream.
    pub hot_within: Option<u32>,
    /// Whether garbage collection has open blocks of its own, apart from the host's; default no.
    pub collect_apart: bool,
    /// The number of free blocks at which a die collects before it opens another block; default and least 1.
    pub low_watermark: u32,
    /// The number of free blocks up to which a die collects while the host is idle; default 1.
    pub high_watermark: u32,
    /// Whether the free block with the fewest erases is used next (dynamic wear levelling), or the one with the lowest
    /// number; default yes.
    pub level_free_blocks: bool,
    /// A block's data moves when it has this number of erases fewer than the most erased block (static wear levelling).
    /// Default: never.
    pub wear_spread: Option<u32>,
    /// A block's data moves when this number of its pages was read since its erase. Default: never.
    pub refresh_reads: Option<u32>,
    /// A block's data is rewritten, while the host is idle, when this time has passed since the block was opened.
    /// Default: never.
    pub retention: Option<Nanos>,
    /// How the flash ages, from `[flash.reliability]`. Blocks that failed are not used any more, and each die keeps three
    /// more blocks in reserve. Default: it does not.
    #[serde(skip)]
    pub reliability: Option<Reliability>,
    /// The seed of [`VictimPolicy::Choices`].
    pub seed: Seed,
}

impl Default for PageMapOptions {
    /// Greedy, in write order, one stream, one block of each die in reserve, no static wear levelling.
    fn default() -> PageMapOptions {
        PageMapOptions {
            logical_pages: 0,
            policy: VictimPolicy::Greedy,
            striping: Striping::WriteOrder,
            streams: 1,
            shares: None,
            hot_within: None,
            collect_apart: false,
            low_watermark: 1,
            high_watermark: 1,
            level_free_blocks: true,
            wear_spread: None,
            refresh_reads: None,
            retention: None,
            reliability: None,
            seed: Seed(0),
        }
    }
}

/// The most blocks among which [`VictimPolicy::Choices`] chooses. With more, the choice is almost that of greedy.
const MOST_CHOICES: u32 = 1024;

/// How a page map divides an array.
pub(super) struct PageMapLayout {
    pub(super) streams: u32,
    /// The number of open blocks of each die.
    pub(super) open: u32,
    /// The number of free blocks that a die keeps for garbage collection.
    pub(super) reserve: u32,
    /// By die: the number of blocks that may fail.
    pub(super) spare: Vec<u32>,
    /// By pool: the number of blocks that it may use, and of those that it uses.
    pub(super) quotas: Vec<(u32, u32)>,
}

impl PageMapOptions {
    /// Whether a page map can be built over the array.
    ///
    /// # Errors
    /// When the flash has too few blocks for the logical pages, the open blocks and the reserve, or an option asks
    /// for more than it has.
    pub fn check(&self, geometry: &FlashGeometry) -> Result<(), OptionsError> {
        self.layout(geometry).map(|_| ())
    }

    /// The options of a page map with `map_pages` pages more, in a stream of their own.
    pub(in crate::layer) fn with_map_pages(&self, map_pages: u32) -> PageMapOptions {
        let logical_pages = self.logical_pages.saturating_add(map_pages);
        PageMapOptions { logical_pages, streams: self.host_streams().saturating_add(1), ..self.clone() }
    }

    /// The spare blocks of the die with the fewest, and its blocks without the open ones and the reserve.
    ///
    /// # Errors
    /// As [`PageMapOptions::check`].
    pub(in crate::layer) fn blocks_to_spare(
        &self,
        geometry: &FlashGeometry,
    ) -> Result<(u32, u32), OptionsError> {
        let spare = self.layout(geometry)?.spare.into_iter().min().unwrap_or(0);
        let full = self.logical_pages.div_ceil(geometry.dies()).div_ceil(geometry.pages_per_block());
        Ok((spare, full + spare))
    }

    /// Whether the policy is legal; `section` is its section of the profile.
    ///
    /// # Errors
    /// The key that is wrong.
    pub(in crate::layer) fn check_policy(&self, section: &str) -> Result<(), Illegal> {
        match self.policy {
            VictimPolicy::Choices(choices) if !(1..=MOST_CHOICES).contains(&choices) => Err(Illegal::new(
                format!("{section}.policy.choices"),
                choices,
                format!("1 to {MOST_CHOICES}"),
            )),
            _ => Ok(()),
        }
    }

    fn host_streams(&self) -> u16 {
        self.streams.max(if self.hot_within.is_some() { 2 } else { 1 })
    }

    pub(super) fn layout(&self, geometry: &FlashGeometry) -> Result<PageMapLayout, OptionsError> {
        let streams = u32::from(self.host_streams());
        let open = streams * if self.collect_apart { 2 } else { 1 };
        // When a block fails after its data moved, the pages that the data moved to are lost as free pages. Three blocks
        // of each die cover several failures one after the other.
        let against_failures = if self.reliability.is_some() { 3 } else { 0 };
        let reserve = self.low_watermark.max(1).saturating_add(against_failures);
        let mut usable = vec![0; geometry.dies() as usize];
        for block in usable_blocks(geometry, self.reliability) {
            usable[geometry.die(block).index()] += 1;
        }
        let spare = self.spare(geometry, &usable, open, reserve)?;
        let quotas = self.quotas(&usable, streams, reserve)?;
        Ok(PageMapLayout { streams, open, reserve, spare, quotas })
    }

    /// By die: the spare blocks, which are its `usable` blocks without those for its share of the logical pages, the open
    /// blocks and the reserve.
    fn spare(
        &self,
        geometry: &FlashGeometry,
        usable: &[u32],
        open: u32,
        reserve: u32,
    ) -> Result<Vec<u32>, OptionsError> {
        let (dies, pages) = (geometry.dies(), geometry.pages_per_block());
        let fixed = open.saturating_add(reserve);
        let needed = self.logical_pages.div_ceil(dies).div_ceil(pages).saturating_add(fixed);
        for (die, &usable) in usable.iter().enumerate() {
            if usable < needed {
                let most = u64::from(usable.saturating_sub(fixed)) * u64::from(pages) * u64::from(dies);
                let legal = format!(
                    "up to {most}: die {die} of {dies} has {usable} blocks of {pages} pages, of which {open} are open and \
                     {reserve} in reserve"
                );
                return Err(OptionsError { key: "logical_pages", value: self.logical_pages.into(), legal });
            }
            let most = reserve + (usable - needed) / 2;
            if self.high_watermark > most {
                let legal = format!("up to {most}, as die {die} has {} blocks to spare", usable - needed);
                return Err(OptionsError { key: "high_watermark", value: self.high_watermark.into(), legal });
            }
        }
        Ok(usable.iter().map(|usable| usable - needed).collect())
    }

    fn quotas(&self, usable: &[u32], streams: u32, reserve: u32) -> Result<Vec<(u32, u32)>, OptionsError> {
        let Some(shares) = &self.shares else {
            return Ok(vec![(u32::MAX, 0); usable.len()]);
        };
        let sum: f64 = shares.iter().sum();
        if shares.len() != streams as usize || !shares.iter().all(|&share| share > 0.0) || sum > 1.0 + 1e-9 {
            let legal =
                format!("{streams}, a positive number for each stream, with a sum of at most 1: it is {sum}");
            return Err(OptionsError { key: "shares", value: shares.len() as u64, legal });
        }
        let of_die = |usable: &u32| {
            let blocks = f64::from(usable - reserve);
            shares.iter().map(move |share| ((share * blocks).round() as u32, 0))
        };
        Ok(usable.iter().flat_map(of_die).collect())
    }
}
