//! The placer: keeps the books of a policy's logs for whoever moves the data.
//!
//! # Method
//! The owner of the map and of the data calls
//! 1. [`Placer::write`] for each page that the host writes, and puts the page where the answer says;
//! 2. [`Placer::should_pack`] when it has time, and packs until the answer is no; when `write` returns `None` it has to pack
//!    first;
//! 3. to pack: [`Placer::begin_packing`], [`Placer::copy`] for each page of the victim that is still live, and
//!    [`Placer::end_packing`] as soon as the copies are durable.
//!
//! # Invariants
//! - The host never takes the last free segments: they are for the copies of a segment that is being packed.
//! - A version is live in exactly one place: `write` and `copy` invalidate the place before.

use crate::policy::{PageCopy, PageWrite, Policy};
use crate::segment_table::{LogId, SegmentId, SegmentTable, Slot};
use crate::status::{LogFlow, PlacementStatus};

/// Numbers of free segments at which packing begins, ends, and the host has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Only packing may open a segment when this many or fewer are free.
    pub reserve: u32,
    /// Packing begins when this many or fewer are free.
    pub low: u32,
    /// Packing ends when this many are free.
    pub high: u32,
}

impl Watermarks {
    /// The smallest ones with which packing cannot run out of segments: a packed segment may have pages for every log.
    pub fn smallest(log_count: u8) -> Watermarks {
        let reserve = u32::from(log_count);
        Watermarks { reserve, low: reserve, high: reserve + 1 }
    }
}

/// Pages that were placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacedPages {
    /// By the host.
    pub host: u64,
    /// By packing.
    pub copied: u64,
    /// Records and padding.
    pub padding: u64,
    /// Segments that were packed.
    pub packed_segments: u64,
}

impl PlacedPages {
    /// Pages placed, of all sorts, for each page of the host. Not a number before the host wrote.
    pub fn write_amplification(&self) -> f64 {
        (self.host + self.copied + self.padding) as f64 / self.host as f64
    }

    /// What was placed since an earlier count.
    pub fn since(&self, earlier: &PlacedPages) -> PlacedPages {
        PlacedPages {
            host: self.host - earlier.host,
            copied: self.copied - earlier.copied,
            padding: self.padding - earlier.padding,
            packed_segments: self.packed_segments - earlier.packed_segments,
        }
    }
}

/// The books of a volume's logs, kept by a policy.
pub struct Placer {
    table: SegmentTable,
    policy: Box<dyn Policy>,
    watermarks: Watermarks,
    open: Vec<Option<SegmentId>>,
    is_packing: bool,
    now: u64,
    placed: PlacedPages,
    flows: Vec<LogFlow>,
    /// How often the sizes of the logs were added to their flows.
    samples: u64,
    /// The counts when the present span and the one before it began.
    spans: [PlacementMark; 2],
}

/// The counts at one time, for [`Placer::status_since`].
#[derive(Clone, Debug, Default)]
pub struct PlacementMark {
    placed: PlacedPages,
    flows: Vec<LogFlow>,
    samples: u64,
}

impl Placer {
    /// The books of a volume without data.
    pub fn new(
        segment_count: u32,
        pages_per_segment: u32,
        policy: Box<dyn Policy>,
        watermarks: Watermarks,
    ) -> Placer {
        let table = SegmentTable::new(segment_count, pages_per_segment, policy.log_count());
        Placer::with(table, policy, watermarks, 0)
    }

    /// The books of a volume that was recovered: its table, and the write clock, at least that of the newest segment.
    pub fn recovered(
        table: SegmentTable,
        mut policy: Box<dyn Policy>,
        watermarks: Watermarks,
        now: u64,
    ) -> Placer {
        policy.recovered(&table, now);
        Placer::with(table, policy, watermarks, now)
    }

    fn with(table: SegmentTable, policy: Box<dyn Policy>, watermarks: Watermarks, now: u64) -> Placer {
        let open = vec![None; usize::from(policy.log_count())];
        let flows = vec![LogFlow::default(); open.len()];
        let mark = PlacementMark { flows: flows.clone(), ..PlacementMark::default() };
        Placer {
            table,
            policy,
            watermarks,
            open,
            is_packing: false,
            now,
            placed: PlacedPages::default(),
            flows,
            samples: 0,
            spans: [mark.clone(), mark],
        }
    }

    /// The segments.
    pub fn table(&self) -> &SegmentTable {
        &self.table
    }

    /// Adds free segments behind the last one.
    pub(crate) fn grow(&mut self, segment_count: u32) {
        self.table.grow(segment_count);
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Announces pages that the host is about to write, to a policy that decides in batches.
    pub fn announce_writes(&mut self, pages: &[u32]) {
        self.policy.announce_writes(pages, self.now);
    }

    /// Announces live pages that packing is about to copy, to a policy that decides in batches.
    pub fn announce_copies(&mut self, pages: &[u32]) {
        self.policy.announce_copies(pages, self.now);
    }

    /// What was placed so far.
    pub fn placed(&self) -> PlacedPages {
        self.placed
    }

    /// The write clock: host page writes so far.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The segment that a log appends to.
    pub fn open_segment(&self, log: LogId) -> Option<SegmentId> {
        self.open[usize::from(log.0)]
    }

    /// Whether the host may write a page. Otherwise too few segments are free, and one has to be packed first.
    #[inline]
    pub fn can_write(&self) -> bool {
        self.table.free_count() > self.watermarks.reserve
    }

    /// The watermarks.
    pub fn watermarks(&self) -> Watermarks {
        self.watermarks
    }

    /// Places a page that the host writes; `previous` is where the version before it lies. `None`: too few segments are free
    /// for the host, nothing changed, and a segment has to be packed first.
    #[inline]
    pub fn write(&mut self, page: u64, previous: Option<Slot>) -> Option<Slot> {
        if !self.can_write() {
            return None;
        }
        let log = self.log_for_write(page, previous);
        Some(self.append_write(log, previous))
    }

    /// The log for a page that the host writes. [`Placer::append_write`] follows; in between a volume pads the log for the
    /// header of a record.
    #[inline]
    pub fn log_for_write(&mut self, page: u64, previous: Option<Slot>) -> LogId {
        self.policy.place_write(&PageWrite { page, previous, now: self.now }, &self.table)
    }

    /// Appends a page that the host writes to a log.
    ///
    /// # Panics
    /// When no segment is free: the caller asks [`Placer::can_write`] first.
    #[inline]
    pub fn append_write(&mut self, log: LogId, previous: Option<Slot>) -> Slot {
        if let Some(previous) = previous {
            self.overwritten(previous);
        }
        let slot = self.append(log, self.now);
        self.now += 1;
        self.placed.host += 1;
        self.flows[usize::from(log.0)].host += 1;
        slot
    }

    /// The counts at present.
    pub fn mark(&self) -> PlacementMark {
        PlacementMark { placed: self.placed, flows: self.flows.clone(), samples: self.samples }
    }

    /// What the logs did in the last half to whole volume of host writes.
    pub fn status(&self) -> PlacementStatus {
        self.status_since(&self.spans[0])
    }

    /// What the logs did since then.
    pub fn status_since(&self, then: &PlacementMark) -> PlacementStatus {
        let flows: Vec<LogFlow> =
            self.flows.iter().zip(&then.flows).map(|(now, then)| now.since(then)).collect();
        let amplification = self.placed.since(&then.placed).write_amplification();
        let predicted = self.policy.predicted(&self.table);
        PlacementStatus::new(&flows, self.samples - then.samples, amplification, predicted)
    }

    /// Adds the sizes of the logs to their flows, and begins a new span after half a volume of host writes.
    fn sample(&mut self) {
        let pages = u64::from(self.table.pages_per_segment());
        for (log, flow) in (0..).zip(&mut self.flows) {
            let size = self.table.log(LogId(log));
            flow.physical_samples += u64::from(size.segments) * pages;
            flow.live_samples += size.live_pages;
        }
        self.samples += 1;
        let written = self.placed.host - self.spans[1].placed.host;
        if written >= u64::from(self.table.segment_count()) * pages / 2 {
            self.spans.rotate_left(1);
            self.spans[1] = self.mark();
        }
    }

    fn overwritten(&mut self, previous: Slot) {
        let log = self.table.segment(previous.segment).log;
        self.flows[usize::from(log.0)].overwritten += 1;
        self.table.invalidate(previous.segment);
    }

    /// The host needs the page at this place no more.
    pub fn discard(&mut self, previous: Slot) {
        self.overwritten(previous);
    }

    /// Takes positions of a log's open segment for records and padding, and seals the segment if that fills it. Opens a
    /// segment if the log has none.
    ///
    /// # Panics
    /// When no segment is free, or the segment has fewer positions left.
    pub fn pad(&mut self, log: LogId, pages: u32) {
        let segment = self.open(log);
        self.table.pad(segment, pages);
        self.placed.padding += u64::from(pages);
        self.seal_if_full(log, segment);
    }

    /// Whether a segment should be packed now. The answer stays yes from the low mark until the high one is reached.
    #[inline]
    pub fn should_pack(&mut self) -> bool {
        let free = self.table.free_count();
        let end = if self.is_packing { self.watermarks.high } else { self.watermarks.low + 1 };
        self.is_packing = free < end;
        self.is_packing
    }

    /// Chooses the segment that is packed next. `None`: no segment is sealed.
    pub fn begin_packing(&mut self) -> Option<SegmentId> {
        let victim = self.policy.victim(&self.table, self.now)?;
        self.table.begin_packing(victim);
        Some(victim)
    }

    /// Takes a sealed segment without live pages. It is packed: only [`Placer::end_packing`] is left to do. `None`: there is none.
    pub fn take_dead_segment(&mut self) -> Option<SegmentId> {
        let dead = *self.table.dead_segments().first()?;
        self.table.begin_packing(dead);
        Some(dead)
    }

    /// Places the copy of a live page of the segment that is being packed.
    ///
    /// # Panics
    /// When no segment is free: the watermarks are too low for the number of segments that are packed at the same time.
    #[inline]
    pub fn copy(&mut self, page: u64, from: Slot) -> Slot {
        let log = self.log_for_copy(page, from);
        self.append_copy(log, from)
    }

    /// The log for the copy of a live page. [`Placer::append_copy`] follows; in between a volume pads the log for the header
    /// of a record.
    #[inline]
    pub fn log_for_copy(&mut self, page: u64, from: Slot) -> LogId {
        let written = self.table.written_at(from);
        self.policy.place_copy(&PageCopy { page, from, written, now: self.now }, &self.table)
    }

    /// Appends the copy of a live page to a log.
    ///
    /// # Panics
    /// When no segment is free.
    #[inline]
    pub fn append_copy(&mut self, log: LogId, from: Slot) -> Slot {
        let written = self.table.written_at(from);
        let source = self.table.segment(from.segment).log;
        self.flows[usize::from(source.0)].copied_out += 1;
        self.table.invalidate(from.segment);
        self.placed.copied += 1;
        self.append(log, written)
    }

    /// Frees a segment whose live pages were all copied or overwritten. The copies have to be durable.
    ///
    /// # Panics
    /// When it has live pages or is not being packed.
    pub fn end_packing(&mut self, segment: SegmentId) {
        self.policy.packed(segment, &self.table, self.now);
        let log = self.table.segment(segment).log;
        self.flows[usize::from(log.0)].packed += u64::from(self.table.pages_per_segment());
        self.sample();
        self.table.free(segment);
        self.placed.packed_segments += 1;
    }

    fn append(&mut self, log: LogId, written: u64) -> Slot {
        let segment = self.open(log);
        let slot = self.table.append(segment, written);
        self.policy.placed(slot);
        self.seal_if_full(log, segment);
        slot
    }

    /// The open segment of a log, which is opened if there is none.
    fn open(&mut self, log: LogId) -> SegmentId {
        match self.open[usize::from(log.0)] {
            Some(open) => open,
            None => {
                let opened =
                    self.table.open(log, self.now).expect("the watermarks keep a segment for every log");
                self.open[usize::from(log.0)] = Some(opened);
                self.policy.opened(opened, &self.table);
                opened
            }
        }
    }

    fn seal_if_full(&mut self, log: LogId, segment: SegmentId) {
        if self.table.segment(segment).written_pages == self.table.pages_per_segment() {
            self.table.seal(segment, self.now);
            self.open[usize::from(log.0)] = None;
            self.policy.sealed(segment, &self.table);
        }
    }
}
