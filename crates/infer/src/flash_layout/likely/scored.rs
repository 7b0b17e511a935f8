//! A layout with its best times and its loss, and how far the search goes.

use crate::flash_layout::fitting::LayoutTimes;
use crate::flash_layout::replay::FlashLayout;

/// The rounds in which the search starts again from the best layouts. Unit: rounds. Source: choice. Too many:
/// the search takes longer; too few: it ends before the best layout.
pub(crate) const CLIMBS_MOST: usize = 5;

/// A layout that is less likely than the best one by more than this is impossible. Unit: natural logarithm.
/// Source: derivation: e^30 to 1 is beyond the error of the model. Too high: the search takes longer; too
/// low: a bad start excludes the right layout.
pub(crate) const MARGIN_MOST: f64 = 30.0;

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
