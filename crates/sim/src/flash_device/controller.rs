//! The controller between the host and the flash: commands, the link, the buffers.
//!
//! # Model
//! 1. The controller takes one command after the other. A command takes longer in two cases. Its segment group ([`Groups`])
//!    differs from that of the previous command, or it begins far from the end of the previous command of its kind (a jump).
//! 2. The data crosses the link at its bandwidth, while the flash works.
//! 3. A write is complete when its pages are programmed. With a write buffer it is complete when the buffer has taken them.
//! 4. A write of a part of a page reads the other sectors of the page first, if the page is on the flash.
//! 5. A request may take longer than it occupies anything ([`Pipeline`]), and reads may wait for the writes before them.
//!
//! # Invariants
//! - while the host is never idle, what the translation layer does depends only on the order of the requests, not on when they
//!   arrive or complete. So a device can be conditioned without computing times
//!   ([`FlashDevice::condition`](super::FlashDevice)).

mod reads;
mod writes;

use flashlab_base::{Bytes, Nanos};
use flashlab_device::{IoError, Operation};
use serde::{Deserialize, Serialize};

use super::read_buffer::ReadBuffer;
use super::write_buffer::{Sectors, WriteBuffer};
use crate::flash::{Flash, LogicalPage, Timing};
use crate::layer::{Exhausted, Layer, Pages};
use crate::profile::FlushPolicy;

/// The times of the controller's own work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Costs {
    pub(super) read_command: Nanos,
    pub(super) write_command: Nanos,
    /// Nanoseconds for a byte over the link.
    pub(super) read_ns_per_byte: f64,
    pub(super) write_ns_per_byte: f64,
    /// The additional time of a write that begins further than [`Options::reach`] from the end of the previous write.
    pub(super) write_jump: Nanos,
    pub(super) read_jump: Nanos,
    /// The time to switch between segment groups.
    pub(super) read_switch: Nanos,
    pub(super) write_switch: Nanos,
}

/// The segment groups: parts of the address space between which switching takes time (Sun and Zhang, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Groups {
    pub(super) count: u64,
    pub(super) span: Bytes,
}

/// What a request takes in addition, while others are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pipeline {
    pub(super) read: Nanos,
    pub(super) write: Nanos,
    /// For each byte of a write.
    pub(super) write_ns_per_byte: f64,
}

/// The buffers' options.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Buffers {
    pub(super) write: Option<(FlushPolicy, u32)>,
    /// The largest number of the write buffer's pages that are being programmed at the same time; `None`: the
    /// default of the profile.
    pub(super) in_flight: Option<u32>,
    pub(super) flush_group: u32,
    pub(super) read: u32,
    pub(super) read_ahead: u32,
}

/// The options of the controller, without its buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Options {
    pub(super) costs: Costs,
    pub(super) groups: Option<Groups>,
    /// A larger request comes as several commands.
    pub(super) largest_command: Option<Bytes>,
    /// The largest distance from the end of the previous request that is not a jump.
    pub(super) reach: Bytes,
    pub(super) pipeline: Option<Pipeline>,
    /// Whether reads wait until the write buffer has taken the writes before them.
    pub(super) reads_behind_writes: bool,
    /// The idle time after which the layer begins background work: garbage collection, SLC reclaim or refresh.
    pub(super) idle_after: Nanos,
    /// Whether the dies pause their deferred work while the host is idle.
    pub(super) idle_sleeps: bool,
}

/// The controller's state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Controller {
    #[serde(skip)]
    pub(super) options: Options,
    /// All sectors of a page.
    #[serde(skip)]
    whole: Sectors,
    page: Bytes,
    /// The size of a sector in bytes. Each bit of [`Sectors`] is one sector.
    sector: Bytes,
    read_ahead: u32,
    last_group: u64,
    last_read_end: Option<Bytes>,
    last_write_end: Bytes,
    free: Nanos,
    link_free: Nanos,
    /// How long the controller was busy with commands, and how long the link was busy with transfers.
    #[serde(skip)]
    busy: Nanos,
    #[serde(skip)]
    link_busy: Nanos,
    /// The time at which the last request completed in the model, without noise.
    quiet: Nanos,
    /// The time at which the host received the last answer: the completion with the noise.
    #[serde(skip)]
    answered: Nanos,
    /// When the write buffer, or the flash, had taken all writes before.
    #[serde(skip)]
    writes_taken: Nanos,
    writes: Option<WriteBuffer>,
    reads: Option<ReadBuffer>,
    /// Why nothing can be written any more.
    exhausted: Option<String>,
}

/// The context of a request of the host: the layer, its flash, and the stream that the host gave as a hint.
pub(super) struct RequestContext<'a, T, L> {
    pub(super) layer: &'a mut L,
    pub(super) flash: &'a mut Flash<T>,
    pub(super) stream: u16,
}

impl<T: Timing, L: Layer> RequestContext<'_, T, L> {
    #[inline]
    fn read(&mut self, pages: Pages, at: Nanos) -> Nanos {
        self.layer.read(self.flash, pages, at)
    }

    #[inline]
    fn write(&mut self, pages: Pages, at: Nanos) -> Result<Nanos, Exhausted> {
        self.layer.write(self.flash, pages, self.stream, at)
    }
}

/// The pages that a request touches, and the sectors that it covers of the first and of the last page.
struct Covered {
    pages: Pages,
    /// The covered sectors of the first page and of the last page.
    head: Sectors,
    tail: Sectors,
}

impl Controller {
    pub(super) fn new(page: Bytes, block: Bytes, options: Options, buffers: Buffers) -> Controller {
        // A 64-bit mask has a bit for each sector of a page.
        let sector = block.max(Bytes(page.0 / 64)).min(page);
        let whole = sectors(0, page.0 / sector.0);
        Controller {
            options,
            whole,
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
            answered: Nanos::ZERO,
            writes_taken: Nanos::ZERO,
            writes: buffers.write.map(|(policy, pages)| {
                WriteBuffer::new(policy, pages, buffers.in_flight, whole, buffers.flush_group.max(1))
            }),
            reads: (buffers.read > 0).then(|| ReadBuffer::new(buffers.read)),
            exhausted: None,
        }
    }

    /// Takes from `fresh` the fields that a saved state does not have. Returns `false` if the loaded state does not fit a
    /// controller like `fresh` over a layer with `pages` pages.
    pub(super) fn complete(&mut self, fresh: &Controller, pages: u32) -> bool {
        self.restart();
        (self.options, self.whole) = (fresh.options, fresh.whole);
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

    /// The time for which commands kept the controller busy so far.
    pub(super) fn busy(&self) -> Nanos {
        self.busy
    }

    /// The time for which transfers kept the link busy so far.
    pub(super) fn link_busy(&self) -> Nanos {
        self.link_busy
    }

    /// Sets the clock to zero. Afterwards nothing is busy or in flight.
    pub(super) fn restart(&mut self) {
        (self.free, self.link_free, self.quiet) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        (self.busy, self.link_busy, self.answered) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        self.writes_taken = Nanos::ZERO;
        if let Some(buffer) = &mut self.writes {
            buffer.restart();
        }
        if let Some(buffer) = &mut self.reads {
            buffer.restart();
        }
    }

    /// The power fails: what is only in the buffers is lost.
    pub(super) fn power_cut(&mut self) {
        if let Some(buffer) = &mut self.writes {
            buffer.clear();
        }
        if let Some(buffer) = &mut self.reads {
            buffer.clear();
        }
    }

    /// Serves a request that arrives at `now`, and returns the time of its completion. The caller has checked its range.
    #[inline]
    pub(super) fn serve<T: Timing, L: Layer>(
        &mut self,
        context: &mut RequestContext<'_, T, L>,
        operation: Operation,
        (offset, size): (Bytes, Bytes),
        now: Nanos,
    ) -> Result<Nanos, IoError> {
        if now > self.quiet {
            self.pass_idle_time(context, now);
        }
        let served = match operation {
            Operation::Read => {
                let mut at = if self.options.reads_behind_writes { now.max(self.writes_taken) } else { now };
                for (offset, size) in self.commands(offset, size) {
                    at = self.read(context, offset, size, at);
                }
                Ok(at)
            }
            Operation::Write => {
                context.layer.accepts(self.cover(offset, size).pages)?;
                let taken = self
                    .commands(offset, size)
                    .try_fold(now, |at, (offset, size)| self.write(context, offset, size, at));
                self.writes_taken = self.writes_taken.max(*taken.as_ref().unwrap_or(&now));
                taken
            }
            Operation::Discard => {
                self.discard(context, offset, size);
                Ok(self.command(
                    self.options.costs.write_command,
                    self.options.costs.write_switch,
                    offset,
                    now,
                ))
            }
            Operation::Flush => self.flush(context, now),
        };
        let end = served.map_err(|exhausted| {
            self.exhausted.get_or_insert(exhausted.reason);
            IoError::READ_ONLY
        })?;
        let end = end + self.pipeline_time(operation, size);
        self.quiet = self.quiet.max(end);
        Ok(end)
    }

    #[inline]
    fn pipeline_time(&self, operation: Operation, size: Bytes) -> Nanos {
        match (&self.options.pipeline, operation) {
            (Some(pipeline), Operation::Read) => pipeline.read,
            (Some(pipeline), Operation::Write) => {
                pipeline.write + Nanos((size.0 as f64 * pipeline.write_ns_per_byte) as u64)
            }
            _ => Nanos::ZERO,
        }
    }

    /// Records when a request was answered. The device may add a random delay (noise) to an answer; idle time begins after it.
    pub(super) fn works_until(&mut self, answered: Nanos) {
        self.answered = self.answered.max(answered);
    }

    /// The commands into which the host divides a request.
    #[inline]
    fn commands(&self, offset: Bytes, size: Bytes) -> impl Iterator<Item = (Bytes, Bytes)> + use<> {
        let largest = self.options.largest_command.unwrap_or(size).0.max(1);
        let end = offset.0 + size.0;
        (offset.0..end)
            .step_by(largest as usize)
            .map(move |offset| (Bytes(offset), Bytes(largest.min(end - offset))))
    }

    /// The host was idle until `now`: lets the layer do its background work. With `idle_sleeps` the dies pause their
    /// deferred merges.
    fn pass_idle_time<T: Timing, L: Layer>(&mut self, context: &mut RequestContext<'_, T, L>, now: Nanos) {
        if self.options.idle_sleeps {
            context.flash.sleep(self.quiet, now);
        }
        let from = self.quiet.max(self.answered).saturating_add(self.options.idle_after);
        if from < now {
            context.layer.idle(context.flash, from, now);
        }
    }

    /// Takes the command of a request, and returns the time at which the controller has accepted it.
    #[inline]
    fn command(&mut self, cost: Nanos, switch: Nanos, offset: Bytes, now: Nanos) -> Nanos {
        let begin = now.max(self.free);
        let mut start = begin + cost;
        if let Some(groups) = &self.options.groups {
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

    /// A transfer over the link from `at` on. Returns its end time.
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
}

/// The mask of a page's sectors `from..to`, without `to`.
#[inline]
fn sectors(from: u64, to: u64) -> Sectors {
    let below = |n: u64| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(to) & !below(from)
}
