//! `[flash]`: the array of flash that a profile describes.

use flashlab_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::bandwidth::Bandwidth;
use crate::flash::{CellTimes, FlashGeometry, PageTimes, Reliability, Times};
use crate::illegal::{Illegal, check_duration};
use crate::layer::SlcCacheOptions;

/// One time, or one for each kind of multi-plane page: `"200us"` or `["200us", "900us"]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a duration with its unit such as \"200us\", or a list of one to four"
)]
pub enum PerPage {
    /// All multi-plane pages take the same time.
    All(Nanos),
    /// Fast and slow pages: the multi-plane pages of a block take these times round-robin.
    Alternating(Vec<Nanos>),
}

impl PerPage {
    /// As the flash takes it.
    pub fn times(&self) -> PageTimes {
        match self {
            PerPage::All(time) => PageTimes::new(&[*time]),
            PerPage::Alternating(times) => PageTimes::new(times),
        }
    }

    /// The longest of the times.
    pub fn longest(&self) -> Nanos {
        match self {
            PerPage::All(time) => *time,
            PerPage::Alternating(times) => times.iter().copied().max().unwrap_or_default(),
        }
    }

    /// How many different times there are.
    pub fn count(&self) -> usize {
        match self {
            PerPage::All(_) => 1,
            PerPage::Alternating(times) => times.len(),
        }
    }
}

/// `[flash]`: the array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlashSection {
    /// The size of a page: what the translation layer maps, and what the flash reads and programs.
    pub page: Bytes,
    /// The pages of a block in one plane.
    pub pages_per_block: u32,
    /// The number of planes of a die, which work together. A multi-plane page, one page of each, is programmed at once.
    pub planes: u32,
    /// The number of dies.
    pub dies: u32,
    /// The number of channels that the dies share.
    pub channels: u32,
    /// Over-provisioning: the blocks in addition to those that hold the capacity, as a share of those.
    pub over_provisioning: f64,
    /// The time of a read from the array into the register.
    pub read: PerPage,
    /// The time of a program from the register into the array.
    pub program: PerPage,
    /// The time of an erase.
    pub erase: Nanos,
    /// The time to issue a command to a die.
    pub command: Nanos,
    /// A channel's bandwidth.
    pub channel_bandwidth: Bandwidth,
    /// The time of a move between the data and the cache register, in cache mode.
    pub register_move: Nanos,
    /// Whether consecutive pages are read and programmed in cache mode.
    pub cache_mode: bool,
    /// Whether a die gathers the pages of a multi-plane page in its registers, and programs them when the last has come.
    /// Otherwise it programs each page when it comes.
    pub gathers_multi_plane_pages: bool,
    /// Whether a die keeps the multi-plane page that it read last, so that a second read of it takes only the transfer.
    pub reuses_page_register: bool,
    /// Whether pages are copied within a die without passing the channel.
    pub copy_back: bool,
    /// The controller's time for each copied page, for instance to correct its errors. The die waits for it.
    pub copy: Nanos,
    /// Garbage collection gives way to reads: a read does not wait while its die copies pages, and after each read the collections of
    /// all dies pause for this time, but not longer in sum than they work. Default: a read waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection_pause: Option<Nanos>,
    /// A read interrupts the programs, copies and erases of its die (program suspend): it waits at most for a step of this length, and
    /// they go on behind it. Default: a read waits for all work that its die has before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_interrupts: Option<Nanos>,
    /// The share of the program time that a page of zeros takes.
    pub zeros_program_share: f64,
    /// The share of the program time that a page of ones takes.
    pub ones_program_share: f64,
    /// The SLC cache in front of the other blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCacheSection>,
    /// How blocks age. Default: they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reliability: Option<Reliability>,
    /// The energy of the operations.
    pub energy: Energy,
}

/// `[flash.slc_cache]`: the SLC cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcCacheSection {
    /// Its capacity.
    pub size: Bytes,
    /// As in `[flash]`.
    pub read: PerPage,
    /// As in `[flash]`.
    pub program: PerPage,
    /// As in `[flash]`.
    pub erase: Nanos,
    /// The length from which on a sequential run of writes bypasses the cache. Default: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass_from: Option<Bytes>,
    /// The part of it up to which the device folds while the host is idle. Default: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_reclaim: Option<Bytes>,
}

/// `[flash.energy]`: microjoules for each operation, and the idle power.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Energy {
    /// Reading a page.
    pub read_uj: f64,
    /// Programming a page.
    pub program_uj: f64,
    /// Erasing a block.
    pub erase_uj: f64,
    /// The idle power, which the device takes at all times, in milliwatts.
    pub idle_mw: f64,
}

impl Default for Energy {
    /// A large-page SLC chip of 2009 (3.3 V; 25 us at 15 mA, 200 us at 15 mA, 1.5 ms at 15 mA).
    fn default() -> Energy {
        Energy { read_uj: 1.2, program_uj: 9.9, erase_uj: 74.0, idle_mw: 0.0 }
    }
}

impl Default for FlashSection {
    /// One SLC chip of 2009.
    fn default() -> FlashSection {
        FlashSection {
            page: Bytes::kib(4),
            pages_per_block: 64,
            planes: 1,
            dies: 1,
            channels: 1,
            over_provisioning: 0.07,
            read: PerPage::All(Nanos::from_micros(25)),
            program: PerPage::All(Nanos::from_micros(200)),
            erase: Nanos::from_micros(1500),
            command: Nanos::ZERO,
            channel_bandwidth: Bandwidth(Bytes(40_000_000)),
            register_move: Nanos::from_micros(3),
            cache_mode: false,
            gathers_multi_plane_pages: false,
            reuses_page_register: false,
            copy_back: false,
            copy: Nanos::ZERO,
            collection_pause: None,
            read_interrupts: None,
            zeros_program_share: 1.0,
            ones_program_share: 1.0,
            slc_cache: None,
            reliability: None,
            energy: Energy::default(),
        }
    }
}

impl FlashSection {
    /// How long the array's operations take.
    pub(crate) fn times(&self) -> Times {
        Times {
            command: self.command,
            transfer: self.channel_bandwidth.time(self.page),
            register_move: self.register_move,
            cache_mode: self.cache_mode,
            gathers_multi_plane_pages: self.gathers_multi_plane_pages,
            reuses_page_register: self.reuses_page_register,
            copy_back: self.copy_back,
            copy: self.copy,
            collection_pause: self.collection_pause,
            read_interrupts: self.read_interrupts,
            cells: self.cells(),
            slc_cells: self.slc_cells(),
        }
    }

    fn cells(&self) -> CellTimes {
        CellTimes { read: self.read.times(), program: self.program.times(), erase: self.erase }
    }

    fn slc_cells(&self) -> CellTimes {
        self.slc_cache.as_ref().map_or(self.cells(), |cache| CellTimes {
            read: cache.read.times(),
            program: cache.program.times(),
            erase: cache.erase,
        })
    }

    /// The options of the SLC cache, if there is one.
    pub(crate) fn slc_cache_options(&self, geometry: &FlashGeometry) -> Option<SlcCacheOptions> {
        let pages = |size: Bytes| u32::try_from(size.0.div_ceil(self.page.0)).unwrap_or(u32::MAX);
        self.slc_cache.as_ref().map(|cache| SlcCacheOptions {
            bypass_from: cache.bypass_from.map(pages),
            idle_reclaim_blocks: cache
                .idle_reclaim
                .map_or(u32::MAX, |size| pages(size).div_ceil(geometry.pages_per_block())),
            reliability: self.reliability,
        })
    }

    /// Takes the SLC cache of `other`, and its `idle_reclaim`, `factor` times as large. A smaller cache still has two blocks
    /// of each die.
    pub(crate) fn resize_slc_cache(&mut self, other: &FlashSection, factor: f64) {
        let least = self.page * u64::from(self.block_pages()) * u64::from(self.dies) * 2;
        let resized = |size: Bytes| {
            let in_proportion = Bytes((size.0 as f64 * factor) as u64).round_up(self.page);
            in_proportion.max(least.min(size))
        };
        self.slc_cache = other.slc_cache.clone().map(|fast| SlcCacheSection {
            size: resized(fast.size),
            idle_reclaim: fast.idle_reclaim.map(resized),
            ..fast
        });
    }

    /// Halves the size of the blocks, or the number of dies. Returns `false` if neither can be halved.
    pub(crate) fn shrink(&mut self) -> bool {
        const LEAST_PAGES: u32 = 32;
        if self.pages_per_block >= 2 * LEAST_PAGES && self.pages_per_block.is_multiple_of(2) {
            self.pages_per_block /= 2;
        } else if self.dies >= 2 && self.dies.is_multiple_of(2) {
            self.dies /= 2;
            self.channels = self.channels.min(self.dies);
        } else {
            return false;
        }
        true
    }

    /// The pages of a block, in all planes.
    pub(crate) fn block_pages(&self) -> u32 {
        self.pages_per_block.saturating_mul(self.planes)
    }

    /// Whether programming depends on the content.
    pub(crate) fn sees_content(&self) -> bool {
        self.zeros_program_share != 1.0 || self.ones_program_share != 1.0
    }

    /// The logical pages that a capacity takes.
    pub(crate) fn logical_pages(&self, capacity: Bytes) -> Result<u32, Illegal> {
        let pages = capacity.0.div_ceil(self.page.0);
        u32::try_from(pages)
            .map_err(|_| Illegal::new("flash.page", self.page, "larger: there are too many pages"))
    }

    /// The layout of the array that holds `capacity` and what is provisioned beyond it, at least `spare` blocks on
    /// each die.
    pub(crate) fn geometry(&self, capacity: Bytes, spare: u32) -> Result<FlashGeometry, Illegal> {
        let block = self.page.0 * u64::from(self.block_pages().max(1));
        let dies = u64::from(self.dies.max(1));
        let per_die = |size: u64| size.div_ceil(block).div_ceil(dies) * dies;
        let fast = self.slc_cache.as_ref().map_or(0, |fast| per_die(fast.size.0));
        let least = per_die(capacity.0).saturating_add(u64::from(spare) * dies);
        let usual = per_die((capacity.0 as f64 * (1.0 + self.over_provisioning)).ceil() as u64).max(least);
        let too_many = || {
            let pages = (usual + fast) as f64 * f64::from(self.block_pages());
            let legal =
                "and its translation layer's spare blocks such that there are fewer than 4294967295 pages";
            let legal = format!("less, {legal}, which are {pages:e}; or `flash.page` larger");
            if fast > usual {
                Illegal::new(
                    "flash.slc_cache.size",
                    self.slc_cache.as_ref().map_or(Bytes::ZERO, |fast| fast.size),
                    legal,
                )
            } else {
                Illegal::new("capacity", capacity, legal)
            }
        };
        let blocks = u32::try_from(usual + fast).map_err(|_| too_many())?;
        let illegal = |error: crate::flash::FlashGeometryError| match error.what {
            "blocks" => too_many(),
            what => Illegal::new(format!("flash.{what}"), error.value, error.legal),
        };
        FlashGeometry::new(self.page, self.block_pages(), self.planes, blocks, self.dies, self.channels)
            .and_then(|geometry| geometry.with_slc_blocks(fast as u32))
            .map_err(illegal)
    }

    pub(super) fn check(&self, block: Bytes) -> Result<(), Illegal> {
        if !self.page.0.is_power_of_two() || !(512..=1 << 20).contains(&self.page.0) {
            return Err(Illegal::new("flash.page", self.page, "a power of two from 512B to 1MiB"));
        }
        if block > self.page {
            return Err(Illegal::new("block", block, "at most `flash.page`"));
        }
        if !(0.0..=100.0).contains(&self.over_provisioning) {
            return Err(Illegal::number(
                "flash.over_provisioning",
                self.over_provisioning,
                "0 to 100, as a share",
            ));
        }
        if self.planes == 0 {
            return Err(Illegal::new("flash.planes", 0, "from 1 on"));
        }
        if self.pages_per_block == 0 || self.block_pages() > 1 << 16 {
            let legal = "1 to 65536 with all planes together";
            return Err(Illegal::new("flash.pages_per_block", self.pages_per_block, legal));
        }
        let check_times = |cells: &str, read: &PerPage, program: &PerPage| {
            for (key, times) in [("read", read), ("program", program)] {
                if !(1..=4).contains(&times.count()) {
                    return Err(Illegal::new(format!("{cells}.{key}"), times.count(), "one to four times"));
                }
                check_duration(&format!("{cells}.{key}"), times.longest())?;
            }
            Ok(())
        };
        check_times("flash", &self.read, &self.program)?;
        if let Some(fast) = &self.slc_cache {
            check_times("flash.slc_cache", &fast.read, &fast.program)?;
            check_duration("flash.slc_cache.erase", fast.erase)?;
            if fast.size == Bytes::ZERO {
                return Err(Illegal::new("flash.slc_cache.size", fast.size, "from one page on"));
            }
        }
        check_duration("flash.erase", self.erase)?;
        check_duration("flash.command", self.command)?;
        check_duration("flash.register_move", self.register_move)?;
        check_duration("flash.copy", self.copy)?;
        if let Some(step) = self.read_interrupts {
            check_duration("flash.read_interrupts", step)?;
            if step == Nanos::ZERO || self.collection_pause.is_some() {
                let legal = "longer than 0, without `flash.collection_pause`: reads pass collections, too";
                return Err(Illegal::new("flash.read_interrupts", step, legal));
            }
        }
        let Energy { read_uj, program_uj, erase_uj, idle_mw } = self.energy;
        for (key, energy) in
            [("read_uj", read_uj), ("program_uj", program_uj), ("erase_uj", erase_uj), ("idle_mw", idle_mw)]
        {
            if !(0.0..=1e9).contains(&energy) {
                return Err(Illegal::number(format!("flash.energy.{key}"), energy, "0 to 1000000000"));
            }
        }
        if let Some(reliability) = self.reliability {
            let illegal = |error: crate::flash::FlashGeometryError| {
                Illegal::new(format!("flash.reliability.{}", error.what), error.value, error.legal)
            };
            reliability.checked().map_err(illegal)?;
        }
        for (key, share) in [
            ("flash.zeros_program_share", self.zeros_program_share),
            ("flash.ones_program_share", self.ones_program_share),
        ] {
            if !(0.0..=10.0).contains(&share) {
                return Err(Illegal::number(key, share, "0 to 10"));
            }
        }
        Ok(())
    }
}
