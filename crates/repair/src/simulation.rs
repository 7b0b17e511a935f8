//! A volume without data: pages, places and the write clock, to measure what a policy costs.
//!
//! # Method
//! 1. All logical pages are written once, in order.
//! 2. Whoever uses the simulation writes pages; before each write segments are packed as the [`Placer`] asks.
//! 3. Write amplification is what the placer counts.
//!
//! # Invariants
//! - The map and its inverse agree: each logical page lies in one place.

use crate::placer::{PlacedPages, Placer, Watermarks};
use crate::policy::Policy;
use crate::segment_table::{SegmentId, Slot};

const NOWHERE: u32 = u32::MAX;

/// A volume of logical pages under a policy.
pub struct SimulatedVolume {
    placer: Placer,
    /// The place of each logical page.
    map: Vec<u32>,
    /// The logical page at each place, whether or not it is still live there.
    pages: Vec<u32>,
}

impl SimulatedVolume {
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
        let mut volume = SimulatedVolume {
            placer: Placer::new(segment_count, pages_per_segment, policy, watermarks),
            map: vec![NOWHERE; logical_pages as usize],
            pages: vec![0; segment_count as usize * pages_per_segment as usize],
        };
        (0..logical_pages).for_each(|page| volume.write(page));
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

    /// Writes a page.
    pub fn write(&mut self, page: u32) {
        while self.placer.should_pack() {
            self.pack();
        }
        let previous = self.slot(self.map[page as usize]);
        let slot = self.placer.write(page.into(), previous).expect("packing has freed segments");
        self.put(page, slot);
    }

    fn pack(&mut self) {
        let victim =
            self.placer.begin_packing().expect("a volume with too few free segments has sealed ones");
        let written = self.placer.table().segment(victim).written_pages;
        for position in 0..written {
            let from = Slot { segment: victim, page: position };
            let place = self.place(from);
            let page = self.pages[place as usize];
            if self.map[page as usize] == place {
                let to = self.placer.copy(page.into(), from);
                self.put(page, to);
            }
        }
        self.placer.end_packing(victim);
    }

    fn put(&mut self, page: u32, slot: Slot) {
        let place = self.place(slot);
        self.map[page as usize] = place;
        self.pages[place as usize] = page;
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
