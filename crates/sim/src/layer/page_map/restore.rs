//! A page map that comes from outside bytes.

use super::options::Layout;
use super::{PageMap, PageMapOptions, UNMAPPED};
use crate::flash::{Flash, Timing};

impl PageMap {
    /// Whether this map, read from outside bytes, is one that `options` describe over `flash`, and of its logical pages
    /// `host_pages` are the host's: no number in it points to what does not exist. What a saved map does not hold is
    /// made again.
    pub(crate) fn complete<T: Timing>(
        &mut self,
        options: &PageMapOptions,
        host_pages: u32,
        flash: &Flash<T>,
    ) -> bool {
        let geometry = flash.geometry();
        let Ok(Layout { streams, open, reserve, spare, quotas }) = options.layout(geometry) else {
            return false;
        };
        let (dies, blocks, pages) = (geometry.dies(), geometry.blocks(), geometry.pages_per_block());
        let keeps_map = host_pages < options.logical_pages;
        let places = |list: &[u32], end: u32| list.iter().all(|&page| page == UNMAPPED || page < end);
        self.moving.reserve(pages as usize);
        self.map.len() == options.logical_pages as usize
            && self.back.len() == geometry.pages() as usize
            && self.valid.len() == self.back.len().div_ceil(64)
            && self.frontiers.len() == (dies * open) as usize
            && self.free.len() == dies as usize
            && self.quotas.len() == quotas.len()
            && self.pages_per_block == pages
            && self.streams == streams
            && self.host_streams == streams - u32::from(keeps_map)
            && self.host_pages == host_pages
            && self.report_moves == keeps_map
            && (self.collect_apart, self.apart) == (options.collect_apart, options.shares.is_some())
            && self.low_watermark == reserve
            && self.spare.len() == spare.len()
            && self.worn_out.is_none_or(|die| die < dies)
            && self.upkeep_fits(options, blocks)
            && self.next_die < dies
            && places(&self.map, geometry.pages())
            && places(&self.back, self.map.len() as u32)
            && self
                .frontiers
                .iter()
                .all(|open| open.page <= pages && (open.block < blocks || open.page == pages))
            && self.free.iter().flatten().all(|&(_, block)| block < blocks)
            && self.victims.fits(options.policy, blocks, pages, quotas.len())
    }
}
