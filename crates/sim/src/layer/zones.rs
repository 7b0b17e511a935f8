//! Zones: the host writes each zone in order and resets it as a whole (NVMe zoned namespaces, ZNS).
//!
//! # Model
//! A zone is a number of blocks, spread over the dies.
//! 1. With its first write a zone gets its blocks: the least erased ones of their dies.
//! 2. The multi-plane pages of a zone go round-robin to its blocks. So a zone is written at the speed of all its dies.
//! 3. When the host discards a whole zone, its blocks are erased and become free.
//! 4. A block that fails at its erase is not used any more. When a die has no free block left, no zone on it can be begun.
//!
//! No data is ever moved, so write amplification is 1.
//!
//! # Invariants
//! - a zone is written from its beginning, without a gap; any other write fails before it changes anything;
//! - a zone that is begun and not full is active, and at most [`ZonesOptions::active_zones`] are.

mod options;

use std::cmp::Ordering;

use flashlab_base::Nanos;
use flashlab_device::IoError;
use serde::{Deserialize, Serialize};

use crate::flash::{Cause, Die, EraseBlock, Flash, FlashGeometry, LogicalPage, PageAddress, Timing, numbers};
use crate::layer::contract::{Exhausted, Layer, Pages};
use crate::layer::free_blocks::FreeBlocks;
use crate::layer::options::OptionsError;
use crate::layer::options::ensure;
pub use options::ZonesOptions;

numbers! {
    /// A zone, by its number.
    ZoneIndex,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Zone {
    /// The number of its pages that are written.
    written: u32,
    /// Whether it has blocks.
    begun: bool,
}

/// A zoned device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Zones {
    zones: Vec<Zone>,
    /// By zone, `blocks_per_zone` each.
    blocks: Vec<EraseBlock>,
    blocks_per_zone: u32,
    zone_pages: u32,
    planes: u32,
    dies: u32,
    active: u32,
    most_active: u32,
    /// By die.
    free: Vec<FreeBlocks>,
}

impl Zones {
    /// Erased flash.
    ///
    /// # Errors
    /// As [`ZonesOptions::check`].
    pub fn new(geometry: &FlashGeometry, options: &ZonesOptions) -> Result<Zones, OptionsError> {
        options.check(geometry)?;
        let dies = geometry.dies();
        let blocks_per_zone = options.zone_blocks.unwrap_or(dies);
        let zone_pages = blocks_per_zone * geometry.pages_per_block();
        let zones = (options.logical_pages / zone_pages) as usize;
        let free = FreeBlocks::by_die(geometry, options.reliability);
        Ok(Zones {
            zones: vec![Zone::default(); zones],
            blocks: vec![EraseBlock::NONE; zones * blocks_per_zone as usize],
            blocks_per_zone,
            zone_pages,
            planes: geometry.planes(),
            dies,
            active: 0,
            most_active: options.active_zones,
            free,
        })
    }

    /// Checks these zones, which were read from outside bytes, against their options and `flash`.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub(super) fn check<T: Timing>(&self, options: &ZonesOptions, flash: &Flash<T>) -> Result<(), String> {
        let geometry = flash.geometry();
        let blocks = options.zone_blocks.unwrap_or(geometry.dies());
        let zone_pages = blocks * geometry.pages_per_block();
        let zones = (options.logical_pages / zone_pages) as usize;
        let alike = (self.blocks_per_zone, self.zone_pages) == (blocks, zone_pages)
            && (self.planes, self.dies) == (geometry.planes(), geometry.dies())
            && self.most_active == options.active_zones
            && (self.zones.len(), self.blocks.len()) == (zones, zones * blocks as usize)
            && self.free.len() == geometry.dies() as usize;
        ensure(alike, || "the zones are those of another device".to_owned())?;
        let mut seen = vec![false; geometry.blocks() as usize];
        let mut is_once = |block: EraseBlock, die: Die, written: u32| {
            let state = flash.blocks().get(block.index());
            state.is_some_and(|state| state.written == written && block.0 >= geometry.slc_blocks())
                && geometry.die(block) == die
                && !std::mem::replace(&mut seen[block.index()], true)
        };
        for (die, free) in (0..).map(Die).zip(&self.free) {
            let all_free = free.iter().all(|(block, _)| is_once(block, die, 0));
            ensure(all_free, || format!("a block of die {die} is not free"))?;
        }
        let mut active = 0;
        for (number, zone) in (0..).zip(&self.zones) {
            let right = zone.written <= self.zone_pages
                && if zone.begun {
                    (0..self.blocks_per_zone).all(|i| {
                        let index = number * self.blocks_per_zone + i;
                        let written = self.written_to(i, zone.written);
                        is_once(self.blocks[index as usize], Die(index % self.dies), written)
                    })
                } else {
                    zone.written == 0
                };
            ensure(right, || format!("zone {number} is {zone:?}"))?;
            active += u32::from(zone.begun && zone.written < self.zone_pages);
        }
        let is_known = |block: EraseBlock| seen[block.index()] || flash.failed(block);
        ensure(active == self.active && geometry.main_blocks().all(is_known), || {
            format!("{active} zones are active and not {}, or a block is in none", self.active)
        })
    }

    /// The number of written pages of the block `i` of a zone of which `written` pages are written.
    fn written_to(&self, i: u32, written: u32) -> u32 {
        let (multi_plane_pages, partial) = (written / self.planes, written % self.planes);
        let rounds = multi_plane_pages / self.blocks_per_zone;
        let last = multi_plane_pages % self.blocks_per_zone;
        let more = match i.cmp(&last) {
            Ordering::Less => self.planes,
            Ordering::Equal => partial,
            Ordering::Greater => 0,
        };
        rounds * self.planes + more
    }

    /// Where a page of a zone lies, and the number of pages from it to the end of its multi-plane page.
    fn place(&self, zone: ZoneIndex, page: u32) -> (PageAddress, u32) {
        let (multi_plane_page, plane) = (page / self.planes, page % self.planes);
        let (round, index) =
            (multi_plane_page / self.blocks_per_zone, multi_plane_page % self.blocks_per_zone);
        let block = self.blocks[(zone.0 * self.blocks_per_zone + index) as usize];
        (PageAddress { block, page: round * self.planes + plane }, self.planes - plane)
    }

    /// The zone of a page, and the page's number in it.
    fn locate(&self, page: LogicalPage) -> (ZoneIndex, u32) {
        (ZoneIndex(page.0 / self.zone_pages), page.0 % self.zone_pages)
    }

    /// Gives a zone its blocks.
    fn begin(&mut self, zone: ZoneIndex) -> Result<(), Exhausted> {
        let places = zone.0 * self.blocks_per_zone..(zone.0 + 1) * self.blocks_per_zone;
        let needed = self.blocks_per_zone.div_ceil(self.dies) as usize;
        for die in places.clone().take(self.dies as usize).map(|index| Die(index % self.dies)) {
            if self.free[die.index()].len() < needed {
                let reason =
                    format!("so many blocks of die {die} have failed that none is left for zone {zone}");
                return Err(Exhausted { reason });
            }
        }
        for index in places {
            let free = &mut self.free[(index % self.dies) as usize];
            let block = free.take().expect("the die has enough free blocks");
            self.blocks[index as usize] = block;
        }
        self.zones[zone.index()].begun = true;
        self.active += 1;
        Ok(())
    }

    /// Erases a zone's blocks.
    fn reset<T: Timing>(&mut self, flash: &mut Flash<T>, zone: ZoneIndex) {
        let state = std::mem::take(&mut self.zones[zone.index()]);
        if !state.begun {
            return;
        }
        self.active -= u32::from(state.written < self.zone_pages);
        let first = (zone.0 * self.blocks_per_zone) as usize;
        for index in first..first + self.blocks_per_zone as usize {
            let block = std::mem::replace(&mut self.blocks[index], EraseBlock::NONE);
            flash.erase(block, Cause::Host, Nanos::ZERO);
            if !flash.failed(block) {
                let die = flash.geometry().die(block);
                self.free[die.index()].insert(block, flash.block(block).erases);
            }
        }
    }
}

impl Layer for Zones {
    fn pages(&self) -> u32 {
        self.zones.len() as u32 * self.zone_pages
    }

    fn holds(&self, page: LogicalPage) -> bool {
        let (zone, within) = self.locate(page);
        within < self.zones[zone.index()].written
    }

    fn accepts(&self, pages: Pages) -> Result<(), IoError> {
        let (mut page, end) = (pages.first.0, pages.first.0 + pages.count);
        let mut active = self.active;
        while page < end {
            let zone = self.zones[(page / self.zone_pages) as usize];
            if page % self.zone_pages != zone.written {
                return Err(IoError::IO);
            }
            active += u32::from(!zone.begun);
            if active > self.most_active {
                return Err(IoError::TOO_MANY_ZONES);
            }
            let next = (page / self.zone_pages + 1) * self.zone_pages;
            active -= u32::from(next <= end);
            page = next;
        }
        Ok(())
    }

    fn write<T: Timing>(
        &mut self,
        flash: &mut Flash<T>,
        pages: Pages,
        _stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let (mut rest, mut end) = (pages, at);
        while rest.count > 0 {
            let (zone, within) = self.locate(rest.first);
            if !self.zones[zone.index()].begun {
                self.begin(zone)?;
            }
            let (place, follow) = self.place(zone, within);
            let part = rest.take(follow.min(rest.count));
            end = end.max(flash.program(place, part.first, part.count, Cause::Host, at));
            self.zones[zone.index()].written += part.count;
            self.active -= u32::from(within + part.count == self.zone_pages);
        }
        Ok(end)
    }

    fn read<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages, at: Nanos) -> Nanos {
        let (mut rest, mut end) = (pages, at);
        while rest.count > 0 {
            let (zone, within) = self.locate(rest.first);
            let written = self.zones[zone.index()].written;
            if within >= written {
                rest.take(1);
                continue;
            }
            let (place, follow) = self.place(zone, within);
            let part = rest.take(follow.min(rest.count).min(written - within));
            end = end.max(flash.read(place, part.first, part.count, Cause::Host, at));
        }
        end
    }

    /// Resets the zones that lie in `pages` as a whole. Other zones do not change.
    fn trim<T: Timing>(&mut self, flash: &mut Flash<T>, pages: Pages) {
        let first = pages.first.0.div_ceil(self.zone_pages);
        let end = (pages.first.0 + pages.count) / self.zone_pages;
        for zone in (first..end).map(ZoneIndex) {
            self.reset(flash, zone);
        }
    }
}
