use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::MemoryDevice;

use super::*;
use crate::single_log::Greedy;

const PAGE: usize = 4096;

fn options(capacity: Bytes, fill: f64) -> LayoutOptions {
    let segment = Bytes::kib(64);
    let logical_pages = (capacity.0 as f64 * fill) as u64 / PAGE as u64;
    let page = Bytes(PAGE as u64);
    LayoutOptions { capacity, page, segment, logical_pages, checkpoint_interval: Bytes::kib(256) }
}

fn open(device: MemoryDevice) -> Volume<MemoryDevice> {
    Volume::open(device, MountOptions::default(), |_| Box::new(Greedy)).unwrap()
}

fn new_volume(capacity: Bytes, fill: f64) -> Volume<MemoryDevice> {
    let mut device = MemoryDevice::new(capacity, Nanos(100));
    Volume::create(&mut device, VolumeUuid([9; 16]), options(capacity, fill)).unwrap();
    open(device)
}

#[test]
fn random_writes_over_many_volumes_are_read_back_across_mounts() {
    let mut volume = new_volume(Bytes::mib(8), 0.6);
    let pages = volume.size().0 / PAGE as u64;
    let mut content = vec![0_u64; pages as usize];
    let mut random = Prng::new(Seed(7));
    for round in 1..=40 {
        for _ in 0..500 {
            let page = random.below(pages);
            let version = random.next_u64() | 1;
            volume.write(page * PAGE as u64, &[version.to_le_bytes(); PAGE / 8].concat()).unwrap();
            content[page as usize] = version;
            if random.below(50) == 0 {
                let first = random.below(pages - 10);
                volume.discard(first * PAGE as u64, 10 * PAGE as u64).unwrap();
                content[first as usize..first as usize + 10].fill(0);
            }
        }
        volume = match round % 3 {
            0 => open(volume.close().unwrap()),
            1 => {
                volume.flush().unwrap();
                open(volume.abandon())
            }
            _ => volume,
        };
        let mut data = vec![0; PAGE * pages as usize];
        volume.read(0, &mut data).unwrap();
        for (page, data) in data.chunks_exact(PAGE).enumerate() {
            assert_eq!(data, [content[page].to_le_bytes(); PAGE / 8].concat(), "page {page}, round {round}");
        }
    }
    let counters = volume.counters();
    assert!(counters.packed_segments > 100, "{counters:?}");
}
