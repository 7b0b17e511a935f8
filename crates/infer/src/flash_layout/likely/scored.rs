//! A layout with its best times and its loss, and how far the search goes.

use crate::flash_layout::fitting::LayoutTimes;
use crate::flash_layout::replay::FlashLayout;

/// How often changes begin.
pub(crate) const TURNS: usize = 5;

/// A layout is not tried on all reads if its loss on a part of the reads exceeds the least one by this.
pub(crate) const FAR: f64 = 30.0;

/// A layout, the times with which it fits best, and how unlikely it is, as a logarithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    pub(crate) layout: FlashLayout,
    pub(crate) times: LayoutTimes,
    pub(crate) loss: f64,
    /// Of that, how unusual it is before, and how unlikely what was seen besides.
    pub(crate) prior: f64,
}

impl Scored {
    /// Its times for pages of another size.
    pub(crate) fn times_of(&self, page: u64) -> LayoutTimes {
        let [command, sense, transfer, link] = self.times;
        let ratio = page as f64 / self.layout.page as f64;
        [command, sense, transfer * ratio, link * ratio]
    }
}
