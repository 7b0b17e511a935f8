//! Writes, discards and flushes: whole pages and parts of pages, through the write buffer to the flash.

use flashlab_base::{Bytes, Nanos};

use super::super::write_buffer::{Leaving, Sectors, WriteBuffer};
use super::{Controller, RequestContext};
use crate::flash::{Cause, LogicalPage, Timing};
use crate::layer::{Exhausted, Layer, Pages};

impl Controller {
    pub(super) fn write<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        offset: Bytes,
        size: Bytes,
        now: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let is_adjacent = offset.0.abs_diff(self.last_write_end.0) <= self.options.reach.0;
        let jump = if is_adjacent { Nanos::ZERO } else { self.options.costs.write_jump };
        self.last_write_end = offset + size;
        let taken = self.command(
            self.options.costs.write_command + jump,
            self.options.costs.write_switch,
            offset,
            now,
        );
        let covered = self.cover(offset, size);
        if let Some(buffer) = &mut self.reads {
            buffer.forget(covered.pages);
        }
        let carried = self.transfer(size, self.options.costs.write_ns_per_byte, taken);
        // The flash begins when the first page has arrived.
        let first = carried.0
            - (size.0.saturating_sub(self.page.0) as f64 * self.options.costs.write_ns_per_byte) as u64;
        let first = Nanos(first).max(taken);
        let whole = self.whole;
        if covered.head == whole && covered.tail == whole {
            let end = self.write_whole(context, covered.pages, first)?;
            return Ok(end.max(carried));
        }
        let Pages { first: LogicalPage(number), count } = covered.pages;
        let mut end = carried;
        let middle_from = u32::from(covered.head != whole);
        let middle_to = count - u32::from(covered.tail != whole && count > 1);
        if middle_from == 1 {
            end = end.max(self.write_part(context, LogicalPage(number), covered.head, first)?);
        }
        if middle_to > middle_from {
            let middle = Pages { first: LogicalPage(number + middle_from), count: middle_to - middle_from };
            end = end.max(self.write_whole(context, middle, first)?);
        }
        if middle_to < count {
            let last = LogicalPage(number + count - 1);
            end = end.max(self.write_part(context, last, covered.tail, first)?);
        }
        Ok(end)
    }

    /// Writes whole pages; returns when the write is complete for the host.
    #[inline]
    fn write_whole<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        pages: Pages,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        if self.writes.as_mut().is_none_or(|buffer| buffer.lets_through(pages)) {
            return self.send_pages(context, pages, at);
        }
        let whole = self.whole;
        let mut end = at;
        for page in pages.each() {
            end = self.buffer(context, page, whole, end)?;
        }
        Ok(end)
    }

    /// Sends whole pages through the write buffer to the flash; returns when the buffer has taken them.
    fn send_pages<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        pages: Pages,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let Some(buffer) = &mut self.writes else { return context.write(pages, at) };
        let (mut first, mut left, mut accepted) = (pages.first.0, pages.count, at);
        while left > 0 {
            let count = left.min(buffer.largest_group());
            let group = Pages { first: LogicalPage(first), count };
            accepted = buffer.slots_free(count, accepted);
            let end = context.write(group, accepted)?;
            buffer.take_slots(count, end);
            if buffer.waits_for_flash() {
                accepted = end;
            }
            first += count;
            left -= count;
        }
        Ok(accepted)
    }

    /// Writes part of a page.
    fn write_part<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        page: LogicalPage,
        part: Sectors,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        if self.writes.is_some() {
            return self.buffer(context, page, part, at);
        }
        let ready = self.read_for_partial_write(context, page, at);
        context.write(Pages { first: page, count: 1 }, ready)
    }

    /// Puts sectors of a page into the write buffer, and sends the pages that have to leave it to the flash.
    fn buffer<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        page: LogicalPage,
        part: Sectors,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let Some(buffer) = &mut self.writes else { return Ok(at) };
        buffer.put(page, part);
        let mut accepted = at;
        while let Some(leaving) = self.writes.as_mut().and_then(|buffer| buffer.take_due(page)) {
            accepted = self.send(context, leaving, accepted)?;
        }
        Ok(accepted)
    }

    /// Sends pages that leave the write buffer to the flash.
    fn send<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        leaving: Leaving,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let ready =
            if leaving.partial { self.read_for_partial_write(context, leaving.pages.first, at) } else { at };
        self.send_pages(context, leaving.pages, ready)
    }

    /// Reads a page of which a write changes only a part.
    fn read_for_partial_write<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        page: LogicalPage,
        at: Nanos,
    ) -> Nanos {
        if !context.layer.holds(page) {
            return at;
        }
        let before = context.flash.counts().pages_read(Cause::Host);
        let ready = context.read(Pages { first: page, count: 1 }, at);
        let read = (context.flash.counts().pages_read(Cause::Host) - before) as u32;
        context.flash.counts_mut().charge_reads(Cause::Host, Cause::PartialPage, read);
        ready
    }

    pub(super) fn discard<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        offset: Bytes,
        size: Bytes,
    ) {
        let (first, end) = (offset.0.div_ceil(self.page.0), (offset.0 + size.0) / self.page.0);
        if first >= end {
            return;
        }
        let pages = Pages { first: LogicalPage(first as u32), count: (end - first) as u32 };
        if let Some(buffer) = &mut self.writes {
            buffer.forget(pages);
        }
        if let Some(buffer) = &mut self.reads {
            buffer.forget(pages);
        }
        context.layer.trim(context.flash, pages);
    }

    pub(super) fn flush<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        now: Nanos,
    ) -> Result<Nanos, Exhausted> {
        context.stream = 0;
        while let Some(leaving) = self.writes.as_mut().and_then(WriteBuffer::take_oldest) {
            self.send(context, leaving, now)?;
        }
        Ok(self.writes.as_ref().map_or(now, |buffer| buffer.all_free().max(now)))
    }
}
