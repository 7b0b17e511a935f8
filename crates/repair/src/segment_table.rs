//! The table of segments: which log each belongs to, how many of its pages are live, and how old its data is.
//!
//! # Model
//! A volume is a sequence of segments of equal size. A segment is free, open (pages are appended to it), sealed, or being
//! packed. All time here is the write clock: host page writes since the volume was made. It needs no real clock, survives
//! restarts with the sequence numbers of the segment records, and is the time in which update frequencies are measured.
//!
//! # Memory
//! 64 bytes for each segment, nothing for each page. With segments of 1 MiB and pages of 4 KiB that is 0.25 bytes a page.
//!
//! # Invariants
//! - `live_pages <= written_pages <= pages_per_segment` in every segment;
//! - the sums over all segments of a log are what [`SegmentTable::log`] returns;
//! - [`SegmentTable::dead_segments`] has exactly the sealed segments without live pages;
//! - a segment becomes free only from [`SegmentState::Packing`] and without live pages.

use std::collections::{BTreeSet, VecDeque};

/// A segment, counted from the first of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

/// A log of a policy, counted from the hottest: a sequence of segments with data of similar update frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u8);

/// Where a page lies: a segment and the page's position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The segment.
    pub segment: SegmentId,
    /// The position in it, in pages.
    pub page: u32,
}

/// What a segment is used for at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentState {
    /// It holds nothing.
    #[default]
    Free,
    /// Pages are appended to it.
    Open,
    /// It is complete: nothing is appended any more.
    Sealed,
    /// Its live pages are being copied elsewhere.
    Packing,
}

/// One segment. All of it can be rebuilt from the segment's record on disk and the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// What it is used for.
    pub state: SegmentState,
    /// The log that it belongs to; without meaning while it is free.
    pub log: LogId,
    /// Pages whose newest version lies here.
    pub live_pages: u32,
    /// Positions that are taken, padding and records included.
    pub written_pages: u32,
    /// Segments opened before this one: the order in which they were opened.
    pub sequence: u64,
    /// The write clock when it was opened.
    pub opened: u64,
    /// The write clock when it was sealed.
    pub sealed: u64,
    /// When the host wrote the first and the last page that were appended; before `opened` if they are copies.
    pub written: [u64; 2],
}

/// The sums over the segments of one log that are open, sealed or being packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// Segments.
    pub segments: u32,
    /// Live pages in them.
    pub live_pages: u64,
}

/// All segments of a volume, the free list and the logs.
#[derive(Clone, Debug)]
pub struct SegmentTable {
    pages_per_segment: u32,
    segments: Vec<Segment>,
    free: VecDeque<SegmentId>,
    logs: Vec<LogSize>,
    /// Sealed segments of each log with their sequence, oldest first. Entries of segments that left the log stay until
    /// they are at the front.
    ages: Vec<VecDeque<(SegmentId, u64)>>,
    /// Sealed segments without live pages.
    dead: BTreeSet<SegmentId>,
    opened_count: u64,
}

impl SegmentTable {
    /// A table of free segments.
    ///
    /// # Panics
    /// When a segment has no pages.
    pub fn new(segment_count: u32, pages_per_segment: u32, log_count: u8) -> SegmentTable {
        assert!(pages_per_segment > 0, "a segment without pages");
        SegmentTable {
            pages_per_segment,
            segments: vec![Segment::default(); segment_count as usize],
            free: (0..segment_count).map(SegmentId).collect(),
            logs: vec![LogSize::default(); usize::from(log_count)],
            ages: vec![VecDeque::new(); usize::from(log_count)],
            dead: BTreeSet::new(),
            opened_count: 0,
        }
    }

    /// A table rebuilt from what is on disk: each segment as its record and the map describe it. An open segment is
    /// restored as sealed: appending continues in a new one. Logs that the policy does not have become its last log.
    ///
    /// # Panics
    /// When a segment breaks the invariants; recovery checks the records before it calls this.
    pub fn restore(segments: Vec<Segment>, pages_per_segment: u32, log_count: u8) -> SegmentTable {
        let mut table = SegmentTable::new(0, pages_per_segment, log_count);
        let mut in_order: Vec<(SegmentId, u64)> = Vec::new();
        for (id, mut segment) in (0..).map(SegmentId).zip(segments) {
            assert!(
                segment.live_pages <= segment.written_pages && segment.written_pages <= pages_per_segment,
                "{id:?} {segment:?}"
            );
            if segment.state == SegmentState::Free {
                table.free.push_back(id);
            } else {
                segment.state = SegmentState::Sealed;
                segment.log = LogId(segment.log.0.min(log_count - 1));
                let log = &mut table.logs[usize::from(segment.log.0)];
                log.segments += 1;
                log.live_pages += u64::from(segment.live_pages);
                in_order.push((id, segment.sequence));
                if segment.live_pages == 0 {
                    table.dead.insert(id);
                }
                table.opened_count = table.opened_count.max(segment.sequence + 1);
            }
            table.segments.push(segment);
        }
        in_order.sort_by_key(|&(_, sequence)| sequence);
        for entry in in_order {
            let log = table.segments[entry.0.0 as usize].log;
            table.ages[usize::from(log.0)].push_back(entry);
        }
        table
    }

    /// Pages that a segment has.
    pub fn pages_per_segment(&self) -> u32 {
        self.pages_per_segment
    }

    /// Segments that there are.
    pub fn segment_count(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Segments that hold nothing.
    pub fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// The segments that hold nothing, in the order in which they will be opened.
    pub fn free_segments(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.free.iter().copied()
    }

    /// Adds free segments behind the last one.
    pub fn grow(&mut self, segment_count: u32) {
        for id in self.segment_count()..segment_count {
            self.segments.push(Segment::default());
            self.free.push_back(SegmentId(id));
        }
    }

    /// Raises the number of segments opened so far: those that were opened and freed before a restart count, too.
    pub fn opened_at_least(&mut self, count: u64) {
        self.opened_count = self.opened_count.max(count);
    }

    /// Segments opened so far, which is the sequence of the next one.
    pub fn opened_count(&self) -> u64 {
        self.opened_count
    }

    /// One segment.
    #[inline]
    pub fn segment(&self, id: SegmentId) -> &Segment {
        &self.segments[id.0 as usize]
    }

    /// All segments in the order of their places.
    pub fn segments(&self) -> impl Iterator<Item = (SegmentId, &Segment)> {
        (0..).map(SegmentId).zip(&self.segments)
    }

    /// The sums of one log.
    pub fn log(&self, log: LogId) -> LogSize {
        self.logs[usize::from(log.0)]
    }

    /// Logs that there are.
    pub fn log_count(&self) -> u8 {
        self.logs.len() as u8
    }

    /// Live pages in all logs.
    pub fn live_pages(&self) -> u64 {
        self.logs.iter().map(|log| log.live_pages).sum()
    }

    /// The sealed segments of a log, from its head, which was opened first, to its end.
    pub fn sealed(&self, log: LogId) -> impl DoubleEndedIterator<Item = SegmentId> {
        let ages = self.ages[usize::from(log.0)].iter();
        ages.filter(|entry| self.is_sealed(**entry)).map(|&(id, _)| id)
    }

    /// The sealed segment at a log's head.
    pub fn oldest(&self, log: LogId) -> Option<SegmentId> {
        self.sealed(log).next()
    }

    fn is_sealed(&self, (id, sequence): (SegmentId, u64)) -> bool {
        let segment = self.segment(id);
        segment.state == SegmentState::Sealed && segment.sequence == sequence
    }

    /// About when the host wrote the page at `slot`: between its segment's first and last page, by its position.
    #[inline]
    pub fn written_at(&self, slot: Slot) -> u64 {
        let segment = self.segment(slot.segment);
        let [first, last] = segment.written;
        let span = last.saturating_sub(first);
        first + span * u64::from(slot.page) / u64::from(segment.written_pages.max(1))
    }

    /// Takes the free segment that was freed first and opens it for a log. `None`: no segment is free.
    pub fn open(&mut self, log: LogId, now: u64) -> Option<SegmentId> {
        let id = self.free.pop_front()?;
        self.logs[usize::from(log.0)].segments += 1;
        let segment = &mut self.segments[id.0 as usize];
        *segment = Segment {
            state: SegmentState::Open,
            log,
            sequence: self.opened_count,
            opened: now,
            sealed: now,
            written: [now, now],
            ..Segment::default()
        };
        self.opened_count += 1;
        Some(id)
    }

    /// Appends a live page, which the host wrote at `written`, to an open segment.
    ///
    /// # Panics
    /// When the segment is not open or is full.
    #[inline]
    pub fn append(&mut self, id: SegmentId, written: u64) -> Slot {
        let segment = &mut self.segments[id.0 as usize];
        assert!(
            segment.state == SegmentState::Open && segment.written_pages < self.pages_per_segment,
            "{id:?} takes no page: {segment:?}"
        );
        let slot = Slot { segment: id, page: segment.written_pages };
        if segment.live_pages == 0 {
            segment.written[0] = written;
        }
        segment.written[1] = written;
        segment.written_pages += 1;
        segment.live_pages += 1;
        self.logs[usize::from(segment.log.0)].live_pages += 1;
        slot
    }

    /// Takes positions of an open segment for what is no page of the host: records and padding.
    ///
    /// # Panics
    /// When the segment is not open or has fewer positions left.
    pub fn pad(&mut self, id: SegmentId, pages: u32) {
        let segment = &mut self.segments[id.0 as usize];
        let written = segment.written_pages + pages;
        assert!(
            segment.state == SegmentState::Open && written <= self.pages_per_segment,
            "{id:?}: {segment:?}"
        );
        segment.written_pages = written;
    }

    /// The page at this place is no longer the newest version, or was discarded.
    ///
    /// # Panics
    /// When its segment has no live page.
    #[inline]
    pub fn invalidate(&mut self, id: SegmentId) {
        let segment = &mut self.segments[id.0 as usize];
        assert!(segment.live_pages > 0, "{id:?} has no live page: {segment:?}");
        segment.live_pages -= 1;
        self.logs[usize::from(segment.log.0)].live_pages -= 1;
        if segment.live_pages == 0 && segment.state == SegmentState::Sealed {
            self.dead.insert(id);
        }
    }

    /// The sealed segments without live pages: packing them copies nothing.
    pub fn dead_segments(&self) -> &BTreeSet<SegmentId> {
        &self.dead
    }

    /// Closes an open segment.
    ///
    /// # Panics
    /// When it is not open.
    pub fn seal(&mut self, id: SegmentId, now: u64) {
        let segment = &mut self.segments[id.0 as usize];
        assert_eq!(segment.state, SegmentState::Open, "{id:?} is sealed");
        segment.state = SegmentState::Sealed;
        segment.sealed = now;
        if segment.live_pages == 0 {
            self.dead.insert(id);
        }
        let (log, sequence) = (usize::from(segment.log.0), segment.sequence);
        self.ages[log].push_back((id, sequence));
    }

    /// Begins to pack a sealed segment: its live pages will be copied, and it is no victim any more.
    ///
    /// # Panics
    /// When it is not sealed.
    pub fn begin_packing(&mut self, id: SegmentId) {
        let segment = &mut self.segments[id.0 as usize];
        assert_eq!(segment.state, SegmentState::Sealed, "{id:?} is packed");
        segment.state = SegmentState::Packing;
        self.dead.remove(&id);
        let log = usize::from(segment.log.0);
        while let Some(&entry) = self.ages[log].front() {
            if self.is_sealed(entry) {
                break;
            }
            self.ages[log].pop_front();
        }
    }

    /// Frees a packed segment. The caller does this when the copies of its pages are durable.
    ///
    /// # Panics
    /// When it is not being packed, or has live pages.
    pub fn free(&mut self, id: SegmentId) {
        let segment = &mut self.segments[id.0 as usize];
        assert!(
            segment.state == SegmentState::Packing && segment.live_pages == 0,
            "{id:?} is freed: {segment:?}"
        );
        segment.state = SegmentState::Free;
        self.logs[usize::from(segment.log.0)].segments -= 1;
        self.free.push_back(id);
    }
}
