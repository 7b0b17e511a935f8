//! A page map that comes from outside bytes.

use super::{PageMap, UNMAPPED};
use crate::flash::{Flash, Timing};

impl PageMap {
    /// Whether this map, read from outside bytes, can be used in place of `fresh` over `flash`: no number in it points
    /// to what does not exist. What a saved map does not hold is made again.
    pub(crate) fn complete<T: Timing>(&mut self, fresh: &PageMap, flash: &Flash<T>) -> bool {
        let (blocks, pages) = (flash.geometry().blocks(), flash.geometry().pages_per_block());
        let physical = flash.geometry().pages();
        let places = |list: &[u32], end: u32| list.iter().all(|&page| page == UNMAPPED || page < end);
        self.moving.reserve(pages as usize);
        self.map.len() == fresh.map.len()
            && self.back.len() == fresh.back.len()
            && self.valid.len() == fresh.valid.len()
            && self.frontiers.len() == fresh.frontiers.len()
            && self.free.len() == fresh.free.len()
            && self.quotas.len() == fresh.quotas.len()
            && self.pages_per_block == pages
            && self.streams == fresh.streams
            && self.host_streams == fresh.host_streams
            && self.host_pages == fresh.host_pages
            && self.report_moves == fresh.report_moves
            && (self.collect_apart, self.apart) == (fresh.collect_apart, fresh.apart)
            && self.low_watermark == fresh.low_watermark
            && self.spare.len() == fresh.spare.len()
            && self.worn_out.is_none_or(|die| die < flash.geometry().dies())
            && self.upkeep_fits(fresh)
            && self.next_die < flash.geometry().dies()
            && places(&self.map, physical)
            && places(&self.back, self.map.len() as u32)
            && self
                .frontiers
                .iter()
                .all(|open| open.page <= pages && (open.block < blocks || open.page == pages))
            && self.free.iter().flatten().all(|&(_, block)| block < blocks)
            && self.victims.fits(&fresh.victims)
    }
}
