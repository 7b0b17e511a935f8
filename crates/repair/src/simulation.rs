//! A volume without data: pages, places and the write clock, to measure what a policy costs.
//!
//! # Method
//! 1. All logical pages are written once, in order.
//! 2. Whoever uses the simulation writes pages; before each write segments are packed as the [`Placer`] asks.
//! 3. Write amplification is what the placer counts.
//!
//! [`SimulatedVolume::of_layout`] has, in addition, what a [`Volume`](crate::Volume) takes of its segments: headers of records,
//! free segments up to its watermarks, and packed segments that wait for a checkpoint.
//!
//! # Invariants
//! - The map and its inverse agree: each logical page lies in one place.

use crate::error::RepairError;
use crate::layout::VolumeLayout;
use crate::placer::{PlacedPages, Placer, Watermarks};
use crate::policy::Policy;
use crate::segment_table::{LogId, SegmentId, Slot};
use crate::simulated_records::{HostLoad, SimulatedRecords};

const NOWHERE: u32 = u32::MAX;

/// A volume of logical pages under a policy.
pub struct SimulatedVolume {
    placer: Placer,
    /// The place of each logical page.
    map: Vec<u32>,
    /// The logical page at each place, whether or not it is still live there.
    pages: Vec<u32>,
    /// `None`: every position of a segment holds a page, and a packed segment is free at once.
    records: Option<SimulatedRecords>,
    /// The segment that is being packed, and the position in it that is next.
    packing: Option<(SegmentId, u32)>,
}

impl SimulatedVolume {
    /// Pages that are written, and announced to the policy, at a time: so many that a call of a policy in another language costs little
    /// for each page, and so few that the batch stays in the CPU's first cache.
    pub const BATCH: u32 = 1024;

    /// A volume whose logical pages were all written once, in order.
    ///
    /// # Panics
    /// When the logical pages leave fewer segments than the policy's watermarks and open segments need.
    pub fn filled(
        segment_count: u32,
        pages_per_segment: u32,
        logical_pages: u32,
        policy: Box<dyn Policy>,
    ) -> SimulatedVolume {
        let logs = policy.log_count();
        let watermarks = Watermarks::smallest(logs);
        let needed = SimulatedVolume::segments_needed(logical_pages, pages_per_segment, logs);
        assert!(needed <= segment_count, "{logical_pages} pages need {needed} segments, not {segment_count}");
        let placer = Placer::new(segment_count, pages_per_segment, policy, watermarks);
        SimulatedVolume::written_once(placer, logical_pages, None)
    }

    /// A volume of this layout, whose logical pages were all written once, in order.
    ///
    /// # Errors
    /// [`RepairError::Options`] when the volume is too small for the policy.
    ///
    /// # Panics
    /// When it has 2^32 pages or more.
    pub fn of_layout(
        layout: &VolumeLayout,
        load: HostLoad,
        policy: Box<dyn Policy>,
    ) -> Result<SimulatedVolume, RepairError> {
        let watermarks = layout.watermarks(policy.log_count())?;
        let records = SimulatedRecords::new(layout, policy.log_count(), load);
        let placer = Placer::new(layout.segment_count, layout.pages_per_segment(), policy, watermarks);
        let logical_pages = u32::try_from(layout.options.logical_pages).expect("fewer than 2^32 pages");
        Ok(SimulatedVolume::written_once(placer, logical_pages, Some(records)))
    }

    fn written_once(
        placer: Placer,
        logical_pages: u32,
        records: Option<SimulatedRecords>,
    ) -> SimulatedVolume {
        let table = placer.table();
        let places = table.segment_count() as usize * table.pages_per_segment() as usize;
        let map = vec![NOWHERE; logical_pages as usize];
        let mut volume = SimulatedVolume { placer, map, pages: vec![0; places], records, packing: None };
        let mut pages = Vec::with_capacity(SimulatedVolume::BATCH as usize);
        for first in (0..logical_pages).step_by(SimulatedVolume::BATCH as usize) {
            pages.clear();
            pages.extend(first..logical_pages.min(first + SimulatedVolume::BATCH));
            volume.write_batch(&pages);
        }
        volume
    }

    /// Segments for so many logical pages and a policy with so many logs.
    pub fn segments_needed(logical_pages: u32, pages_per_segment: u32, log_count: u8) -> u32 {
        let open = u32::from(log_count) + 1;
        logical_pages.div_ceil(pages_per_segment) + Watermarks::smallest(log_count).high + open
    }

    /// The books.
    pub fn placer(&self) -> &Placer {
        &self.placer
    }

    /// What was placed so far, the first filling included.
    pub fn placed(&self) -> PlacedPages {
        self.placer.placed()
    }

    /// Writes pages in this order.
    pub fn write_batch(&mut self, pages: &[u32]) {
        if self.placer.policy().decides_in_batches() {
            self.placer.announce_writes(pages);
        }
        pages.iter().for_each(|&page| self.write(page));
    }

    /// Writes a page.
    pub fn write(&mut self, page: u32) {
        let place = self.slot(self.map[page as usize]);
        if let Some(records) = &mut self.records {
            records.count_write();
            if place.is_some_and(|slot| records.is_in_memory(slot)) {
                // It is overwritten in memory.
                return;
            }
        }
        self.pack_what_is_due();
        // Packing may have moved the page.
        let previous = self.slot(self.map[page as usize]);
        let log = self.placer.log_for_write(page.into(), previous);
        self.before_append(log, true);
        let slot = self.placer.append_write(log, previous);
        self.put(page, log, slot);
    }

    fn pack_what_is_due(&mut self) {
        if self.records.is_none() {
            while self.placer.should_pack() {
                self.pack(u32::MAX);
            }
            return;
        }
        while let Some(positions) = self.records.as_mut().and_then(|records| records.due(&mut self.placer)) {
            self.pack(positions);
        }
        while !self.placer.can_write() {
            self.pack(u32::MAX);
            self.checkpoint();
        }
    }

    /// Packs the next positions of a segment, and frees it or lets it wait for a checkpoint if these were its last.
    fn pack(&mut self, positions: u32) {
        let (victim, first) = self.packing.take().unwrap_or_else(|| {
            let victim =
                self.placer.begin_packing().expect("a volume with too few free segments has sealed ones");
            let table = self.placer.table().segment(victim);
            if let Some(records) = &mut self.records {
                records.begins_packing(f64::from(table.live_pages) / f64::from(table.written_pages));
            }
            (victim, 0)
        });
        let written = self.placer.table().segment(victim).written_pages;
        let end = first.saturating_add(positions).min(written);
        if self.placer.policy().decides_in_batches() {
            let places = (first..end).map(|page| self.place(Slot { segment: victim, page }));
            let pages = places.map(|place| (place, self.pages[place as usize]));
            let live = pages.filter(|&(place, page)| self.map[page as usize] == place);
            let live: Vec<u32> = live.map(|(_, page)| page).collect();
            self.placer.announce_copies(&live);
        }
        for position in first..end {
            let from = Slot { segment: victim, page: position };
            let place = self.place(from);
            let page = self.pages[place as usize];
            if self.map[page as usize] == place {
                let log = self.placer.log_for_copy(page.into(), from);
                self.before_append(log, false);
                let to = self.placer.append_copy(log, from);
                self.put(page, log, to);
            }
        }
        let is_done = end == written || self.placer.table().segment(victim).live_pages == 0;
        if !is_done {
            self.packing = Some((victim, end));
        }
        let Some(records) = &mut self.records else {
            self.placer.end_packing(victim);
            return;
        };
        records.has_packed(end - first, is_done.then_some(victim));
        if is_done && records.is_checkpoint_due(&self.placer) {
            self.checkpoint();
        }
    }

    fn checkpoint(&mut self) {
        if let Some(records) = &mut self.records {
            records.checkpoint(&mut self.placer);
        }
    }

    fn before_append(&mut self, log: LogId, is_host: bool) {
        if let Some(records) = &mut self.records {
            records.before_append(log, is_host, &mut self.placer);
        }
    }

    fn put(&mut self, page: u32, log: LogId, slot: Slot) {
        let place = self.place(slot);
        self.map[page as usize] = place;
        self.pages[place as usize] = page;
        if let Some(records) = &mut self.records {
            records.appended(log, slot);
        }
    }

    fn place(&self, slot: Slot) -> u32 {
        slot.segment.0 * self.placer.table().pages_per_segment() + slot.page
    }

    fn slot(&self, place: u32) -> Option<Slot> {
        let pages = self.placer.table().pages_per_segment();
        (place != NOWHERE).then(|| Slot { segment: SegmentId(place / pages), page: place % pages })
    }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;
    use crate::single_log::SingleLog;

    /// Write amplification of uniform writes in the steady state.
    fn uniform(policy: Box<dyn Policy>, fill: f64) -> f64 {
        let (segments, pages) = (2048, 64);
        let logical = (fill * f64::from((segments - 2) * pages)) as u32;
        let mut volume = SimulatedVolume::filled(segments, pages, logical, policy);
        let mut random = Prng::new(Seed(1));
        let mut write = |volume: &mut SimulatedVolume, count: u32| {
            (0..count).for_each(|_| volume.write(random.below(logical.into()) as u32));
        };
        write(&mut volume, 4 * logical);
        let before = volume.placed();
        write(&mut volume, 6 * logical);
        volume.placed().since(&before).write_amplification()
    }

    #[test]
    fn single_logs_cost_under_uniform_writes_what_theory_says() {
        // waf_theory.csv: columns fifo and greedy_b64.
        for (policy, fill, theory) in [
            (Box::new(SingleLog::Fifo) as Box<dyn Policy>, 0.8, 2.6927),
            (Box::new(SingleLog::Fifo), 0.9, 5.1787),
            (Box::new(SingleLog::Greedy), 0.8, 2.5993),
            (Box::new(SingleLog::Greedy), 0.9, 4.8213),
        ] {
            let name = policy.name();
            let measured = uniform(policy, fill);
            assert!(
                (measured / theory - 1.0).abs() < 0.015,
                "{name} at fill {fill}: {measured}, theory {theory}"
            );
        }
    }
}
