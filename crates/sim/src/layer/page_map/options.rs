//! What a page map can be told.

use flashlab_base::{Nanos, Seed};
use serde::{Deserialize, Serialize};

use super::victims::VictimPolicy;
use crate::flash::{FlashGeometry, Reliability};
use crate::illegal::Illegal;
use crate::layer::free_blocks::usable_blocks;
use crate::layer::options::OptionsError;

/// Where the next page is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Striping {
    /// Round-robin over the dies, in the order of the writes; each die gets a multi-plane page.
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
    pub policy: VictimPolicy,
    /// Where pages go.
    pub striping: Striping,
    /// How many streams the host may tell apart; default 1.
    pub streams: u16,
    /// The share of the blocks that each stream may use, if they are collected apart. Their sum is at most 1.
    /// Default: all streams are collected as one.
    pub shares: Option<Vec<f64>>,
    /// A page that is written again within this many written pages is hot, and goes to stream 1; any other goes to
    /// stream 0, whatever the host says. It pays with [`VictimPolicy::CostBenefit`] and a window of about the logical pages.
    /// Default: the host says.
    pub hot_within: Option<u32>,
    /// Whether the pages of victims go to open blocks of their own; default no.
    pub collect_apart: bool,
    /// At how many free blocks a die collects before it opens another block; default and least 1.
    pub low_watermark: u32,
    /// How many free blocks a die makes while the host rests; default 1.
    pub high_watermark: u32,
    /// Whether the free block with the fewest erases is taken next (dynamic wear levelling) or that with the lowest
    /// number; default yes.
    pub level_free_blocks: bool,
    /// How many erases a block may lag behind the most worn one before its data moves (static wear levelling).
    /// Default: never.
    pub wear_spread: Option<u32>,
    /// How many pages of a block may be read since its erase before its data moves. Default: any number.
    pub refresh_reads: Option<u32>,
    /// How long data may stay before it is written again while the host rests, from when its block was begun on.
    /// Default: for ever.
    pub retention: Option<Nanos>,
    /// How the flash ages, as the flash was told. Blocks that failed are not used again, and each die keeps three
    /// blocks more in reserve. Default: it does not.
    #[serde(skip)]
    pub reliability: Option<Reliability>,
    /// For [`VictimPolicy::Choices`].
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

/// The most blocks among which [`VictimPolicy::Choices`] chooses at random; more are as good as all of them.
const MOST_CHOICES: u32 = 1024;

/// How a page map divides an array.
pub(super) struct PageMapLayout {
    pub(super) streams: u32,
    /// How many blocks of each die are open.
    pub(super) open: u32,
    /// How many free blocks a die keeps for its collector.
    pub(super) reserve: u32,
    /// By die: how many blocks may fail.
    pub(super) spare: Vec<u32>,
    /// By pool: how many blocks it may use, and uses.
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

    /// How many blocks the die with the fewest has to spare, and how many it has beside its open ones and the reserve.
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

    /// Whether the policy can be; `section` is the section of the profile in which it stands.
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
        // A block that fails takes the free pages with it that its data moved to; several may fail in a row.
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

    /// How many of its `usable` blocks each die has to spare, beyond its part of the logical pages, its open blocks
    /// and the reserve.
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
