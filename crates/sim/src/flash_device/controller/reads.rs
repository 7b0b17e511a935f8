//! Reads: from the buffers and from the flash, with read-ahead for a sequential reader.

use flashlab_base::{Bytes, Nanos};

use super::{Controller, Covered, RequestContext};
use crate::flash::{LogicalPage, Timing};
use crate::layer::{Layer, Pages};

impl Controller {
    pub(super) fn read<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        offset: Bytes,
        size: Bytes,
        now: Nanos,
    ) -> Nanos {
        let is_adjacent =
            self.last_read_end.is_none_or(|end| offset.0.abs_diff(end.0) <= self.options.reach.0);
        let jump = if is_adjacent { Nanos::ZERO } else { self.options.costs.read_jump };
        let taken =
            self.command(self.options.costs.read_command + jump, self.options.costs.read_switch, offset, now);
        let Covered { pages, .. } = self.cover(offset, size);
        let ready = if self.writes.is_none() && self.reads.is_none() {
            context.read(pages, taken)
        } else {
            self.read_through(context, pages, taken)
        };
        let sequential = self.last_read_end == Some(offset);
        self.last_read_end = Some(offset + size);
        if sequential && self.read_ahead > 0 {
            self.fetch_ahead(context, pages, ready);
        }
        // The transfer of the first pages over the link overlaps the read of the later ones.
        let carried = self.transfer(size, self.options.costs.read_ns_per_byte, taken);
        let last = size.min(self.page);
        carried.max(ready + Nanos((last.0 as f64 * self.options.costs.read_ns_per_byte) as u64))
    }

    /// Reads pages: what no buffer has comes from the flash, in runs.
    fn read_through<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        pages: Pages,
        at: Nanos,
    ) -> Nanos {
        let (mut ready, mut missing) = (at, None::<Pages>);
        for page in pages.each() {
            let written = self.writes.as_ref().and_then(|buffer| buffer.sectors(page)) == Some(self.whole);
            let kept = self.reads.as_ref().and_then(|buffer| buffer.ready(page.0));
            if written || kept.is_some() {
                ready = ready.max(kept.unwrap_or(at));
                ready = ready.max(self.fetch(context, missing.take(), at));
            } else {
                missing.get_or_insert(Pages { first: page, count: 0 }).count += 1;
            }
        }
        ready.max(self.fetch(context, missing, at))
    }

    fn fetch<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        missing: Option<Pages>,
        at: Nanos,
    ) -> Nanos {
        let Some(pages) = missing else { return at };
        let ready = context.read(pages, at);
        if let Some(buffer) = &mut self.reads {
            buffer.keep(pages, ready);
        }
        ready
    }

    /// Read-ahead: reads the pages behind a sequential read before the host does.
    fn fetch_ahead<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        pages: Pages,
        at: Nanos,
    ) {
        let next = pages.first.0 + pages.count;
        let end = next.saturating_add(self.read_ahead).min(context.layer.pages());
        let Some(buffer) = &self.reads else { return };
        let Some(first) = (next..end).find(|&page| buffer.ready(page).is_none()) else { return };
        let ahead = Pages { first: LogicalPage(first), count: end - first };
        // A read-ahead of single pages would lose what multi-plane pages and cache mode gain.
        if ahead.count * 2 >= self.read_ahead {
            self.fetch(context, Some(ahead), at);
        }
    }
}
