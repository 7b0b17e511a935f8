//! Volumes with as much data as may be: packing never runs out of segments.

use flashlab_base::{Nanos, Prng, Seed};
use flashlab_device::MemoryDevice;

use super::*;
use crate::format::VolumeUuid;
use crate::layout::{LayoutOptions, VolumeLayout};
use crate::policies::default_policy;
use crate::volume::MountOptions;

const PAGE: Bytes = Bytes::kib(4);

/// The fullest volume that can be made of segments of this number of pages.
fn fullest(segment_pages: u64, segments: u32) -> LayoutOptions {
    let segment = Bytes(PAGE.0 * segment_pages);
    let with = |capacity, logical_pages| LayoutOptions {
        capacity,
        page: PAGE,
        segment,
        logical_pages,
        checkpoint_interval: Bytes::mib(4),
    };
    let capacities = (1..).map(|count| Bytes(count * segment.0));
    let has = |capacity: &Bytes| {
        VolumeLayout::new(with(*capacity, 1)).is_ok_and(|layout| layout.segment_count >= segments)
    };
    let capacity = { capacities }.find(has).unwrap();
    let options = (1..).map(|logical_pages| with(capacity, logical_pages));
    options.take_while(|&options| VolumeLayout::new(options).is_ok()).last().unwrap()
}

#[test]
fn the_fullest_volume_takes_random_writes_whatever_its_segments() {
    for (segment_pages, segments) in [(4, 40), (4, 143), (8, 40), (8, 143), (16, 143), (32, 160), (64, 40)] {
        for flushed in [1, 20] {
            let options = fullest(segment_pages, segments);
            let mut device = MemoryDevice::new(options.capacity, Nanos(100));
            Volume::create(&mut device, VolumeUuid([9; 16]), options).unwrap();
            let mut volume = Volume::open(device, MountOptions::default(), default_policy).unwrap();
            let mut random = Prng::new(Seed(flushed));
            let pages = options.logical_pages;
            for round in 0..5 * pages {
                let page = if round < pages { round } else { random.below(pages) };
                let written = volume.write(page * PAGE.0, &[1; PAGE.0 as usize]);
                assert_eq!(
                    written,
                    Ok(()),
                    "{segments} segments of {segment_pages}, {pages} pages, write {round}"
                );
                if random.below(flushed) == 0 {
                    volume.flush().unwrap();
                }
            }
        }
    }
}
