//! What a volume takes of its segments besides pages, for a simulation without data.
//!
//! # Model
//! (`volume/writing.rs`, `volume/packing.rs` and `volume/checkpointing.rs` do it with data.)
//! - A record has a header in front of its pages. It ends when it is full or its segment is, at a flush, and at a checkpoint. The
//!   records of the host end together.
//! - A page that the host overwrites before its record ends takes no place.
//! - Packing begins at the low mark. Under a load without pauses it does about as much as the host writes; in pauses it goes on to
//!   the high mark.
//! - A packed segment is free after the next checkpoint.

use crate::layout::VolumeLayout;
use crate::placer::Placer;
use crate::segment_table::{LogId, SegmentId, Slot};

/// How the host writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLoad {
    /// The writes between two flushes. `None`: it does not flush.
    pub flush_every: Option<u32>,
    /// Whether the host pauses often enough for the volume to pack up to its high mark.
    pub has_pauses: bool,
}

/// The record that a log fills.
#[derive(Clone, Copy, Debug)]
struct OpenRecord {
    header: Slot,
    pages: u32,
    /// Those that are no copies.
    host_pages: u32,
}

/// The records of a simulated volume, and its packed segments.
pub(crate) struct SimulatedRecords {
    load: HostLoad,
    pages_max: u32,
    positions: u32,
    /// Packed segments for which a checkpoint is written.
    batch: u32,
    open: Vec<Option<OpenRecord>>,
    packed: Vec<SegmentId>,
    /// Host writes since the last flush.
    unflushed: u32,
    /// Positions that packing is behind what the host wrote.
    backlog: f64,
    /// Whether the host's records ended since packing was last paced.
    has_ended: bool,
    /// The share of the last victim that was live.
    victim_live_share: f64,
}

impl SimulatedRecords {
    pub(crate) fn new(layout: &VolumeLayout, log_count: u8, load: HostLoad) -> SimulatedRecords {
        SimulatedRecords {
            load,
            pages_max: layout.record_pages_max,
            positions: layout.pages_per_segment(),
            batch: layout.packed_batch().max(1),
            open: vec![None; usize::from(log_count)],
            packed: Vec::new(),
            unflushed: 0,
            backlog: 0.0,
            has_ended: false,
            victim_live_share: 0.5,
        }
    }

    /// Counts a write of the host, and flushes before it if a flush is due.
    pub(crate) fn count_write(&mut self) {
        if Some(self.unflushed) == self.load.flush_every {
            self.end_host_records();
            self.unflushed = 0;
        }
        self.unflushed = self.unflushed.saturating_add(1);
    }

    /// Whether the page at this place is still in memory.
    pub(crate) fn is_in_memory(&self, slot: Slot) -> bool {
        self.open.iter().flatten().any(|record| {
            let first = record.header.page + 1;
            record.header.segment == slot.segment && (first..first + record.pages).contains(&slot.page)
        })
    }

    /// Begins a record in a log that fills none: its header takes the next position.
    pub(crate) fn before_append(&mut self, log: LogId, is_host: bool, placer: &mut Placer) {
        let index = usize::from(log.0);
        if self.open[index].is_none() {
            let written = |placer: &Placer, segment| placer.table().segment(segment).written_pages;
            if let Some(segment) = placer.open_segment(log)
                && written(placer, segment) + 1 == self.positions
            {
                placer.pad(log, 1);
            }
            placer.pad(log, 1);
            let segment = placer.open_segment(log).expect("a segment has more positions than one");
            let header = Slot { segment, page: written(placer, segment) - 1 };
            self.open[index] = Some(OpenRecord { header, pages: 0, host_pages: 0 });
        }
        if let Some(record) = &mut self.open[index] {
            record.host_pages += u32::from(is_host);
        }
    }

    /// A page was appended to a log's record, which ends if that fills it or its segment.
    pub(crate) fn appended(&mut self, log: LogId, slot: Slot) {
        let Some(record) = &mut self.open[usize::from(log.0)] else { return };
        record.pages += 1;
        if record.pages < self.pages_max && slot.page + 1 < self.positions {
            return;
        }
        match record.host_pages {
            1.. => self.end_host_records(),
            0 => self.open[usize::from(log.0)] = None,
        }
    }

    fn end_host_records(&mut self) {
        // Packing in pauses is no reason to pack less now.
        self.backlog = self.backlog.max(-f64::from(self.pages_max + 1));
        self.has_ended = true;
        for open in self.open.iter_mut() {
            if let Some(record) = open.take_if(|record| record.host_pages > 0) {
                // A position of a segment with many live pages frees little.
                self.backlog += f64::from(1 + record.host_pages) / (1.0 - self.victim_live_share).max(0.1);
            }
        }
    }

    /// The positions that are to be packed before the next write of the host, at most a record. `None`: none are.
    pub(crate) fn due(&mut self, placer: &mut Placer) -> Option<u32> {
        let should_pack = placer.should_pack();
        if self.load.has_pauses {
            return should_pack.then_some(self.positions);
        }
        if !self.has_ended {
            return None;
        }
        if !should_pack {
            self.backlog = 0.0;
        }
        self.has_ended = self.backlog > 0.0;
        self.has_ended.then(|| (self.backlog.ceil() as u32).min(self.pages_max + 1))
    }

    /// The packing of a segment begins, of which this share is live.
    pub(crate) fn begins_packing(&mut self, live_share: f64) {
        self.victim_live_share = live_share;
    }

    /// This number of positions was packed, which completed this segment.
    pub(crate) fn has_packed(&mut self, positions: u32, done: Option<SegmentId>) {
        self.backlog -= f64::from(positions);
        self.packed.extend(done);
    }

    /// Whether a checkpoint should free the packed segments now.
    pub(crate) fn is_checkpoint_due(&self, placer: &Placer) -> bool {
        let (free, marks) = (placer.table().free_count(), placer.watermarks());
        let packed = (self.packed.len() + placer.table().dead_segments().len()) as u32;
        packed >= self.batch || free <= marks.reserve + 1 || free + packed >= marks.high
    }

    /// Ends all records, and frees the segments that are packed or hold no live page.
    pub(crate) fn checkpoint(&mut self, placer: &mut Placer) {
        self.open.fill(None);
        while let Some(segment) = placer.take_dead_segment() {
            self.packed.push(segment);
        }
        self.packed.drain(..).for_each(|segment| placer.end_packing(segment));
        if placer.table().free_count() > placer.watermarks().low {
            // The host does not wait for more.
            self.backlog = self.backlog.min(f64::from(self.positions));
            self.has_ended = false;
        }
    }
}
