//! The windows of a view, cut to what a recording has.

use std::ops::Range;

use crate::ios::{IoColumns, KIND_COUNT};
use crate::overview::Overview;
use crate::response_bins::{ResponseBin, ResponseBins};
use crate::view::View;

/// The windows that were counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Nanoseconds since the recording's first IO.
    pub time_ns: Range<u64>,
    /// Bytes.
    pub offset_bytes: Range<u64>,
    /// Nanoseconds.
    pub response_ns: Range<u64>,
}

impl Windows {
    /// The windows of a view within a recording. They contain at least one position, also where the recording has nothing.
    pub fn of(view: &View, overview: &Overview) -> Windows {
        let cut = |window: &Option<Range<u64>>, all: Range<u64>| match window {
            None => all,
            Some(window) if window.start < all.end && all.start < window.end => {
                window.start.max(all.start)..window.end.min(all.end)
            }
            // The recording has nothing there.
            Some(window) => window.start..window.start + 1,
        };
        let all = |start: u64, end: u64| start.min(end)..end.max(start.saturating_add(1)).max(1);
        let offset_start = overview.offset_first.min(overview.offset_last);
        let response_start = overview.response_ns.0.min(overview.response_ns.1);
        Windows {
            time_ns: cut(&view.time_ns, all(0, overview.time_end_ns)),
            offset_bytes: cut(&view.offset_bytes, all(offset_start, overview.offset_last.saturating_add(1))),
            response_ns: cut(
                &view.response_ns,
                all(response_start, overview.response_ns.1.saturating_add(1)),
            ),
        }
    }

    /// Whether a view shows the IO `index`, whose windows in the recording these are; `kinds` is [`View::kinds`].
    #[inline]
    pub fn show(&self, view: &View, kinds: &[bool; KIND_COUNT], ios: &IoColumns, index: usize) -> bool {
        kinds[usize::from(ios.kind[index].0)]
            && self.time_ns.contains(&ios.time_ns[index])
            && view.has_rest(ios, index)
    }

    /// The response bins that the window of response times touches.
    pub fn bins(&self, bins: &ResponseBins) -> Range<ResponseBin> {
        bins.bin(self.response_ns.start)..bins.bin(self.response_ns.end - 1) + 1
    }
}
