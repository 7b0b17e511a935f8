//! The controller between the host and the flash: commands, the link, the buffers.
//!
//! # Model
//! Each request costs the controller its command, one after the other, and a switch where it goes to another
//! segment group than the one before it. Data passes the link at its bandwidth while the flash works. A write is
//! done when its pages are programmed, or without waiting for that when the write buffer takes them. Writing part
//! of a page that is on the flash reads the rest of it first.
//!
//! # Invariants
//! - what is asked of the layer depends on the requests only, not on the times: see
//!   [`FlashDevice::condition`](super::FlashDevice).

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};
use serde::{Deserialize, Serialize};

use super::read_buffer::ReadBuffer;
use super::write_buffer::{FlushPolicy, Leaving, Sectors, WriteBuffer};
use crate::flash::{Cause, Flash, LogicalPage, Timing};
use crate::layer::{Exhausted, Layer, Pages};

/// What the controller's own work takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Costs {
    pub(super) read_command: Nanos,
    pub(super) write_command: Nanos,
    /// Nanoseconds for a byte over the link.
    pub(super) read_ns_per_byte: f64,
    pub(super) write_ns_per_byte: f64,
    /// What a write costs more that does not begin near the end of the one before it.
    pub(super) write_jump: Nanos,
    pub(super) read_jump: Nanos,
    /// The time to switch between segment groups.
    pub(super) read_switch: Nanos,
    pub(super) write_switch: Nanos,
}

/// The segment groups of the address space (Sun and Zhang, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Groups {
    pub(super) count: u64,
    pub(super) span: Bytes,
}

/// The buffers' options.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Buffers {
    pub(super) write: Option<(FlushPolicy, u32)>,
    /// Pages that may be on their way out of the write buffer.
    pub(super) on_the_way: Option<u32>,
    pub(super) together: u32,
    pub(super) read: u32,
    pub(super) read_ahead: u32,
}

/// The controller's state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Controller {
    #[serde(skip)]
    pub(super) costs: Costs,
    #[serde(skip)]
    groups: Option<Groups>,
    /// What is larger comes as several commands.
    #[serde(skip)]
    largest_command: Option<Bytes>,
    /// How far from the end of the last one a request may begin without a jump.
    #[serde(skip)]
    reach: Bytes,
    #[serde(skip)]
    idle_after: Nanos,
    /// Whether work is put off until the host waits.
    #[serde(skip)]
    idle_sleeps: bool,
    page: Bytes,
    /// The unit of the bits in [`Sectors`].
    sector: Bytes,
    read_ahead: u32,
    last_group: u64,
    last_read_end: Option<Bytes>,
    last_write_end: Bytes,
    free: Nanos,
    link_free: Nanos,
    /// How long commands kept the controller, and transfers the link.
    #[serde(skip)]
    busy: Nanos,
    #[serde(skip)]
    link_busy: Nanos,
    /// When everything the host asked for was done.
    quiet: Nanos,
    writes: Option<WriteBuffer>,
    reads: Option<ReadBuffer>,
    /// Why nothing can be written any more.
    exhausted: Option<String>,
}

/// The bytes of a page that a request covers.
struct Covered {
    pages: Pages,
    /// Of the first and the last page, as sectors.
    head: Sectors,
    tail: Sectors,
}

impl Controller {
    pub(super) fn new(
        page: Bytes,
        block: Bytes,
        costs: Costs,
        groups: Option<Groups>,
        buffers: Buffers,
    ) -> Controller {
        // 64 bits say which parts of a page are there.
        let sector = block.max(Bytes(page.0 / 64)).min(page);
        let whole = sectors(0, page.0 / sector.0);
        Controller {
            costs,
            groups,
            largest_command: None,
            reach: Bytes::ZERO,
            idle_after: Nanos::ZERO,
            idle_sleeps: false,
            page,
            sector,
            read_ahead: buffers.read_ahead,
            last_group: 0,
            last_read_end: None,
            last_write_end: Bytes::ZERO,
            free: Nanos::ZERO,
            link_free: Nanos::ZERO,
            busy: Nanos::ZERO,
            link_busy: Nanos::ZERO,
            quiet: Nanos::ZERO,
            writes: buffers.write.map(|(policy, pages)| {
                WriteBuffer::new(policy, pages, buffers.on_the_way, whole, buffers.together.max(1))
            }),
            reads: (buffers.read > 0).then(|| ReadBuffer::new(buffers.read)),
            exhausted: None,
        }
    }

    /// Says what the largest command is.
    pub(super) fn set_largest_command(&mut self, largest: Option<Bytes>) {
        self.largest_command = largest;
    }

    /// Says from when on a resting device works for itself, if it does.
    pub(super) fn set_idle(&mut self, after: Nanos, sleeps: bool) {
        (self.idle_after, self.idle_sleeps) = (after, sleeps);
    }

    /// Says how near to the end of the last request the next one is no jump.
    pub(super) fn set_reach(&mut self, reach: Bytes) {
        self.reach = reach;
    }

    /// Takes over from `fresh` what a saved state does not hold. `false` when this, read from outside bytes, is not a
    /// state of `fresh` over a layer of so many pages.
    pub(super) fn complete(&mut self, fresh: &Controller, pages: u32) -> bool {
        self.restart();
        self.largest_command = fresh.largest_command;
        (self.costs, self.groups, self.reach) = (fresh.costs, fresh.groups, fresh.reach);
        (self.idle_after, self.idle_sleeps) = (fresh.idle_after, fresh.idle_sleeps);
        let sizes = |controller: &Controller| (controller.page, controller.sector, controller.read_ahead);
        let writes = match (&self.writes, &fresh.writes) {
            (Some(buffer), Some(fresh)) => buffer.is_like(fresh, pages),
            (buffer, fresh) => buffer.is_some() == fresh.is_some(),
        };
        let reads = match (&self.reads, &fresh.reads) {
            (Some(buffer), Some(fresh)) => buffer.is_like(fresh),
            (buffer, fresh) => buffer.is_some() == fresh.is_some(),
        };
        sizes(self) == sizes(fresh) && writes && reads
    }

    /// Why nothing can be written any more.
    pub(super) fn exhausted(&self) -> Option<&str> {
        self.exhausted.as_deref()
    }

    /// How long commands kept the controller so far.
    pub(super) fn busy(&self) -> Nanos {
        self.busy
    }

    /// How long transfers kept the link so far.
    pub(super) fn link_busy(&self) -> Nanos {
        self.link_busy
    }

    /// It is time zero again and nothing is on its way.
    pub(super) fn restart(&mut self) {
        (self.free, self.link_free, self.quiet) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        (self.busy, self.link_busy) = (Nanos::ZERO, Nanos::ZERO);
        if let Some(buffer) = &mut self.writes {
            buffer.restart();
        }
        if let Some(buffer) = &mut self.reads {
            buffer.restart();
        }
    }

    /// The power fails: what is only in the buffers is gone.
    pub(super) fn power_cut(&mut self) {
        if let Some(buffer) = &mut self.writes {
            buffer.clear();
        }
        if let Some(buffer) = &mut self.reads {
            buffer.clear();
        }
    }

    /// Serves a request that comes at `now`; returns when it is done. Its range was checked.
    #[inline]
    pub(super) fn serve<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        operation: Operation,
        (offset, size): (Bytes, Bytes),
        stream: u16,
        now: Nanos,
    ) -> Result<Nanos, IoError> {
        if now > self.quiet {
            self.rest(layer, flash, now);
        }
        let served = match operation {
            Operation::Read => {
                let mut at = now;
                for (offset, size) in self.commands(offset, size) {
                    at = self.read(layer, flash, offset, size, at);
                }
                Ok(at)
            }
            Operation::Write => {
                layer.accepts(self.cover(offset, size).pages)?;
                self.commands(offset, size)
                    .try_fold(now, |at, (offset, size)| self.write(layer, flash, offset, size, stream, at))
            }
            Operation::Discard => {
                self.discard(layer, flash, offset, size);
                Ok(self.command(self.costs.write_command, self.costs.write_switch, offset, now))
            }
            Operation::Flush => self.flush(layer, flash, now),
        };
        let end = served.map_err(|exhausted| {
            self.exhausted.get_or_insert(exhausted.reason);
            IoError::READ_ONLY
        })?;
        self.quiet = self.quiet.max(end);
        Ok(end)
    }

    /// The commands that a request comes as.
    #[inline]
    fn commands(&self, offset: Bytes, size: Bytes) -> impl Iterator<Item = (Bytes, Bytes)> + use<> {
        let largest = self.largest_command.unwrap_or(size).0.max(1);
        let end = offset.0 + size.0;
        (offset.0..end)
            .step_by(largest as usize)
            .map(move |offset| (Bytes(offset), Bytes(largest.min(end - offset))))
    }

    /// What a device does that nobody asks for anything until `now`.
    fn rest<T: Timing, L: Layer>(&mut self, layer: &mut L, flash: &mut Flash<T>, now: Nanos) {
        if self.idle_sleeps {
            flash.timing_mut().sleep(self.quiet, now);
        }
        let from = self.quiet.saturating_add(self.idle_after);
        if from < now {
            layer.rest(flash, from, now);
        }
    }

    /// The command of a request; returns when it is taken.
    #[inline]
    fn command(&mut self, cost: Nanos, switch: Nanos, offset: Bytes, now: Nanos) -> Nanos {
        let begin = now.max(self.free);
        let mut start = begin + cost;
        if let Some(groups) = &self.groups {
            let group = offset.0 / groups.span.0 % groups.count;
            if group != self.last_group {
                self.last_group = group;
                start += switch;
            }
        }
        self.busy += start.since(begin);
        self.free = start;
        start
    }

    /// A transfer over the link from `at` on; returns when it has ended.
    #[inline]
    fn transfer(&mut self, size: Bytes, ns_per_byte: f64, at: Nanos) -> Nanos {
        if ns_per_byte == 0.0 {
            return at;
        }
        let time = Nanos((size.0 as f64 * ns_per_byte) as u64);
        let end = at.max(self.link_free) + time;
        self.link_busy += time;
        self.link_free = end;
        end
    }

    #[inline]
    fn cover(&self, offset: Bytes, size: Bytes) -> Covered {
        let end = offset.0 + size.0;
        // A page is a power of two.
        let shift = self.page.0.trailing_zeros();
        let (first, last) = ((offset.0 >> shift) as u32, ((end - 1) >> shift) as u32);
        let per_page = self.page.0 / self.sector.0;
        let head_from = (offset.0 & (self.page.0 - 1)) / self.sector.0;
        let tail_to = (((end - 1) & (self.page.0 - 1)) / self.sector.0) + 1;
        let pages = Pages { first: LogicalPage(first), count: last - first + 1 };
        if first == last {
            let both = sectors(head_from, tail_to);
            return Covered { pages, head: both, tail: both };
        }
        Covered { pages, head: sectors(head_from, per_page), tail: sectors(0, tail_to) }
    }

    fn read<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        offset: Bytes,
        size: Bytes,
        now: Nanos,
    ) -> Nanos {
        let is_near = self.last_read_end.is_none_or(|end| offset.0.abs_diff(end.0) <= self.reach.0);
        let jump = if is_near { Nanos::ZERO } else { self.costs.read_jump };
        let taken = self.command(self.costs.read_command + jump, self.costs.read_switch, offset, now);
        let Covered { pages, .. } = self.cover(offset, size);
        let ready = if self.writes.is_none() && self.reads.is_none() {
            layer.read(flash, pages, taken)
        } else {
            self.read_through(layer, flash, pages, taken)
        };
        let sequential = self.last_read_end == Some(offset);
        self.last_read_end = Some(offset + size);
        if sequential && self.read_ahead > 0 {
            self.fetch_ahead(layer, flash, pages, ready);
        }
        // The link carries what has come from the flash while the rest is still read.
        let carried = self.transfer(size, self.costs.read_ns_per_byte, taken);
        let last = size.min(self.page);
        carried.max(ready + Nanos((last.0 as f64 * self.costs.read_ns_per_byte) as u64))
    }

    /// Reads what is in no buffer, in runs.
    fn read_through<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        pages: Pages,
        at: Nanos,
    ) -> Nanos {
        let (mut ready, mut missing) = (at, None::<Pages>);
        let whole = sectors(0, self.page.0 / self.sector.0);
        for page in pages.each() {
            let written = self.writes.as_ref().and_then(|buffer| buffer.held(page)) == Some(whole);
            let kept = self.reads.as_ref().and_then(|buffer| buffer.ready(page.0));
            if written || kept.is_some() {
                ready = ready.max(kept.unwrap_or(at));
                ready = ready.max(self.fetch(layer, flash, missing.take(), at));
            } else {
                missing.get_or_insert(Pages { first: page, count: 0 }).count += 1;
            }
        }
        ready.max(self.fetch(layer, flash, missing, at))
    }

    fn fetch<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        missing: Option<Pages>,
        at: Nanos,
    ) -> Nanos {
        let Some(pages) = missing else { return at };
        let ready = layer.read(flash, pages, at);
        if let Some(buffer) = &mut self.reads {
            buffer.keep(pages, ready);
        }
        ready
    }

    /// Reads the pages behind a sequential read, before they are asked for.
    fn fetch_ahead<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        pages: Pages,
        at: Nanos,
    ) {
        let next = pages.first.0 + pages.count;
        let end = next.saturating_add(self.read_ahead).min(layer.pages());
        let Some(buffer) = &self.reads else { return };
        let Some(first) = (next..end).find(|&page| buffer.ready(page).is_none()) else { return };
        let ahead = Pages { first: LogicalPage(first), count: end - first };
        // Fetching a page at a time would lose what reading runs gains.
        if ahead.count * 2 >= self.read_ahead {
            self.fetch(layer, flash, Some(ahead), at);
        }
    }

    fn write<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        offset: Bytes,
        size: Bytes,
        stream: u16,
        now: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let is_near = offset.0.abs_diff(self.last_write_end.0) <= self.reach.0;
        let jump = if is_near { Nanos::ZERO } else { self.costs.write_jump };
        self.last_write_end = offset + size;
        let taken = self.command(self.costs.write_command + jump, self.costs.write_switch, offset, now);
        let covered = self.cover(offset, size);
        if let Some(buffer) = &mut self.reads {
            buffer.forget(covered.pages);
        }
        let carried = self.transfer(size, self.costs.write_ns_per_byte, taken);
        // The flash begins when the first page has come.
        let first =
            carried.0 - (size.0.saturating_sub(self.page.0) as f64 * self.costs.write_ns_per_byte) as u64;
        let first = Nanos(first).max(taken);
        let whole = sectors(0, self.page.0 / self.sector.0);
        if covered.head == whole && covered.tail == whole {
            let end = self.write_whole(layer, flash, covered.pages, stream, first)?;
            return Ok(end.max(carried));
        }
        let Pages { first: LogicalPage(number), count } = covered.pages;
        let mut end = carried;
        let middle_from = u32::from(covered.head != whole);
        let middle_to = count - u32::from(covered.tail != whole && count > 1);
        if middle_from == 1 {
            end = end.max(self.write_part(layer, flash, LogicalPage(number), covered.head, stream, first)?);
        }
        if middle_to > middle_from {
            let middle = Pages { first: LogicalPage(number + middle_from), count: middle_to - middle_from };
            end = end.max(self.write_whole(layer, flash, middle, stream, first)?);
        }
        if middle_to < count {
            let last = LogicalPage(number + count - 1);
            end = end.max(self.write_part(layer, flash, last, covered.tail, stream, first)?);
        }
        Ok(end)
    }

    /// Writes whole pages; returns when the host may go on.
    #[inline]
    fn write_whole<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        if self.writes.as_mut().is_none_or(|buffer| buffer.passes(pages)) {
            return self.pass(layer, flash, pages, stream, at);
        }
        let whole = sectors(0, self.page.0 / self.sector.0);
        let mut end = at;
        for page in pages.each() {
            end = self.hold(layer, flash, page, whole, stream, end)?;
        }
        Ok(end)
    }

    /// Sends whole pages through the write buffer to the flash; returns when the buffer has taken them.
    fn pass<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        pages: Pages,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let Some(buffer) = &mut self.writes else { return layer.write(flash, pages, stream, at) };
        let (mut first, mut left, mut accepted) = (pages.first.0, pages.count, at);
        while left > 0 {
            let count = left.min(buffer.most());
            let piece = Pages { first: LogicalPage(first), count };
            accepted = buffer.slots_free(count, accepted);
            let end = layer.write(flash, piece, stream, accepted)?;
            buffer.take_slots(count, end);
            if buffer.waits() {
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
        layer: &mut L,
        flash: &mut Flash<T>,
        page: LogicalPage,
        part: Sectors,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        if self.writes.is_some() {
            return self.hold(layer, flash, page, part, stream, at);
        }
        let ready = self.read_rest(layer, flash, page, at);
        layer.write(flash, Pages { first: page, count: 1 }, stream, ready)
    }

    /// Puts sectors of a page into the write buffer and sends on what has to leave.
    fn hold<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        page: LogicalPage,
        part: Sectors,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let Some(buffer) = &mut self.writes else { return Ok(at) };
        buffer.put(page, part);
        let mut accepted = at;
        while let Some(leaving) = self.writes.as_mut().and_then(|buffer| buffer.take_due(page)) {
            accepted = self.send(layer, flash, leaving, stream, accepted)?;
        }
        Ok(accepted)
    }

    /// Sends pages that leave the write buffer to the flash.
    fn send<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        leaving: Leaving,
        stream: u16,
        at: Nanos,
    ) -> Result<Nanos, Exhausted> {
        let ready = if leaving.partial { self.read_rest(layer, flash, leaving.pages.first, at) } else { at };
        self.pass(layer, flash, leaving.pages, stream, ready)
    }

    /// Reads a page of which a part will be overwritten.
    fn read_rest<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        page: LogicalPage,
        at: Nanos,
    ) -> Nanos {
        if !layer.holds(page) {
            return at;
        }
        let before = flash.counts().pages_read(Cause::Host);
        let ready = layer.read(flash, Pages { first: page, count: 1 }, at);
        let read = (flash.counts().pages_read(Cause::Host) - before) as u32;
        flash.counts_mut().charge_reads(Cause::Host, Cause::PartialPage, read);
        ready
    }

    fn discard<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
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
        layer.trim(flash, pages);
    }

    fn flush<T: Timing, L: Layer>(
        &mut self,
        layer: &mut L,
        flash: &mut Flash<T>,
        now: Nanos,
    ) -> Result<Nanos, Exhausted> {
        while let Some(leaving) = self.writes.as_mut().and_then(WriteBuffer::take_oldest) {
            self.send(layer, flash, leaving, 0, now)?;
        }
        Ok(self.writes.as_ref().map_or(now, |buffer| buffer.all_free().max(now)))
    }
}

/// The sectors from `from` up to `to` of a page.
#[inline]
fn sectors(from: u64, to: u64) -> Sectors {
    let below = |n: u64| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(to) & !below(from)
}
