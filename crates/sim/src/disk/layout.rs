//! Where the sectors of a disk lie, and when they pass under the head.

use flashlab_base::{Bytes, Nanos};

use crate::profile::DiskSection;

/// Consecutive cylinders whose tracks have the same number of sectors.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_sector: u64,
    first_cylinder: u64,
    sectors_per_track: u64,
}

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) cylinder: u64,
    pub(super) head: u64,
    pub(super) sector: u64,
    pub(super) sectors_per_track: u64,
}

/// The layout of a disk: sectors go around a track, then to the next surface, then to the next cylinder inwards.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    zones: Vec<Zone>,
    heads: u64,
    revolution_ns: f64,
    head_switch: Nanos,
    cylinder_switch: Nanos,
    writes_settle_longer: bool,
}

impl Layout {
    /// The layout of a section that passed the check.
    pub(super) fn new(section: &DiskSection, capacity: Bytes, sector: Bytes) -> Layout {
        let (zones, heads) = (u64::from(section.zones), u64::from(section.heads));
        let (outer, inner) = (section.outer_track.0 as f64, section.inner_track.0 as f64);
        let share = |zone: u64| if zones == 1 { 0.0 } else { zone as f64 / (zones - 1) as f64 };
        let track = |zone: u64| ((outer - (outer - inner) * share(zone)) / sector.0 as f64) as u64;
        let per_cylinder: u64 = (0..zones).map(|zone| track(zone) * heads).sum();
        let cylinders = (capacity.0 / sector.0).div_ceil(per_cylinder).max(1);
        let mut first_sector = 0;
        let zones = (0..zones)
            .map(|zone| {
                let sectors_per_track = track(zone);
                let this = Zone { first_sector, first_cylinder: zone * cylinders, sectors_per_track };
                first_sector += cylinders * heads * sectors_per_track;
                this
            })
            .collect();
        Layout {
            zones,
            heads,
            revolution_ns: 60e9 / f64::from(section.rpm),
            head_switch: section.head_switch,
            cylinder_switch: section.seek.time(1).max(section.head_switch),
            writes_settle_longer: section.write_settle > Nanos::ZERO,
        }
    }

    /// Where a sector lies.
    pub(super) fn spot(&self, sector: u64) -> Spot {
        let zone = self.zones[self.zones.partition_point(|zone| zone.first_sector <= sector) - 1];
        let within = sector - zone.first_sector;
        let (track, sector) = (within / zone.sectors_per_track, within % zone.sectors_per_track);
        Spot {
            cylinder: zone.first_cylinder + track / self.heads,
            head: track % self.heads,
            sector,
            sectors_per_track: zone.sectors_per_track,
        }
    }

    /// The time of one sector under the head, in nanoseconds.
    pub(super) fn sector_ns(&self, spot: Spot) -> f64 {
        self.revolution_ns / spot.sectors_per_track as f64
    }

    /// The time to switch to the track of `spot` from the track before it. The skew is made for reads. So a write, for
    /// which the arm settles longer, misses the sector and waits for a revolution.
    pub(super) fn switch_to(&self, spot: Spot, write: bool) -> Nanos {
        let missed = if write && self.writes_settle_longer { self.revolution_ns as u64 } else { 0 };
        if spot.head == 0 { self.cylinder_switch + Nanos(missed) } else { self.head_switch }
    }

    /// How long the transfer of `sectors` from `first` on takes when the head is there.
    pub(super) fn transfer(&self, first: u64, sectors: u64, write: bool) -> Nanos {
        let (mut next, end, mut time) = (first, first + sectors, 0.0);
        while next < end {
            let spot = self.spot(next);
            if spot.sector == 0 && next > first {
                time += self.switch_to(spot, write).0 as f64;
            }
            let count = (end - next).min(spot.sectors_per_track - spot.sector);
            time += count as f64 * self.sector_ns(spot);
            next += count;
        }
        Nanos(time.round() as u64)
    }

    /// How long the head waits, from `at` on, until a sector comes.
    pub(super) fn rotation(&self, spot: Spot, at: Nanos) -> Nanos {
        let revolution = self.revolution_ns;
        // The skew: each track begins where the head is after the switch from the track before it.
        let (head, cylinder) = (self.head_switch.0 as f64, self.cylinder_switch.0 as f64);
        let skew =
            spot.cylinder as f64 * (cylinder + head * (self.heads - 1) as f64) + spot.head as f64 * head;
        let begins = spot.sector as f64 * self.sector_ns(spot) + skew;
        let wait = (begins - at.0 as f64).rem_euclid(revolution);
        // A sector that is missed by a rounding error alone is not missed.
        if revolution - wait < 2.0 { Nanos::ZERO } else { Nanos(wait as u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let section = DiskSection {
            heads: 2,
            zones: 3,
            outer_track: Bytes(6 * 512),
            inner_track: Bytes(2 * 512),
            ..DiskSection::default()
        };
        // Two tracks of 6, of 4 and of 2 sectors to each cylinder of the three zones: 24 for one of each.
        Layout::new(&section, Bytes(48 * 512), Bytes(512))
    }

    #[test]
    fn sectors_lie_track_by_track_from_the_outside_to_the_inside() {
        let layout = layout();
        let spot =
            |cylinder, head, sector, sectors_per_track| Spot { cylinder, head, sector, sectors_per_track };
        assert_eq!(layout.spot(0), spot(0, 0, 0, 6));
        assert_eq!(layout.spot(11), spot(0, 1, 5, 6));
        assert_eq!(layout.spot(12), spot(1, 0, 0, 6));
        assert_eq!(layout.spot(24), spot(2, 0, 0, 4));
        assert_eq!(layout.spot(47), spot(5, 1, 1, 2));
    }

    #[test]
    fn going_on_to_the_next_track_loses_the_switch_and_nothing_more() {
        let layout = layout();
        let revolution = 60e9 / 7200.0;
        // Sectors 5 to 12 are the end of a track, a whole one, and the beginning of one on the next cylinder.
        let switches = (layout.head_switch + layout.cylinder_switch).0 as f64;
        let time = layout.transfer(5, 8, false).0 as f64;
        assert!((time - (8.0 / 6.0 * revolution + switches)).abs() < 2.0, "{time}");
        for sector in [6, 12, 24] {
            let begin = layout.rotation(layout.spot(sector - 1), Nanos::ZERO);
            let end = begin + layout.transfer(sector - 1, 1, false);
            let arrived = end + layout.switch_to(layout.spot(sector), false);
            assert!(layout.rotation(layout.spot(sector), arrived) < Nanos(3), "sector {sector}");
        }
    }
}
