use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::MemoryDevice;

use super::*;
use crate::crash::{CrashMedia, Scatter};
use crate::segment_table::LogId;
use crate::single_log::SingleLog;

const PAGE: usize = 4096;

fn options(capacity: Bytes, fill: f64) -> LayoutOptions {
    let segment = Bytes::kib(64);
    let logical_pages = (capacity.0 as f64 * fill) as u64 / PAGE as u64;
    let page = Bytes(PAGE as u64);
    LayoutOptions { capacity, page, segment, logical_pages, checkpoint_interval: Bytes::kib(256) }
}

fn open(device: MemoryDevice) -> Volume<MemoryDevice> {
    Volume::open(device, MountOptions::default(), |_| Box::new(SingleLog::Greedy)).unwrap()
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

/// Recovery found the segments in the order of their opening and stopped at the first one without a record. So it lost what lay
/// behind a segment with copies that were still in memory.
#[test]
fn flushed_writes_behind_a_segment_of_unwritten_copies_survive_a_crash() {
    let mut device = MemoryDevice::new(Bytes::mib(8), Nanos(100));
    Volume::create(&mut device, VolumeUuid([9; 16]), options(Bytes::mib(8), 0.5)).unwrap();
    let mount =
        |device| Volume::open(device, MountOptions::default(), |_| Box::new(Scatter::default())).unwrap();
    let mut volume = mount(device);
    let write = |volume: &mut Volume<MemoryDevice>, page: u64, version: u8| {
        volume.write(page * PAGE as u64, &[version; PAGE]).unwrap();
    };
    for page in 0..120 {
        write(&mut volume, page, 1);
    }
    // The first segments have a few live pages.
    for page in (0..60).filter(|page| page % 4 > 0) {
        write(&mut volume, page, 2);
    }
    volume.write_checkpoint().unwrap();
    volume.pack_step().unwrap();
    let copies = volume.open[2].as_ref().expect("packing has begun a record in the log for copies");
    let opened_for_copies = copies.segment;
    for page in 60..100 {
        write(&mut volume, page, 3);
    }
    volume.flush().unwrap();
    assert!(volume.open[2].is_some(), "the copies are not written yet");
    let hosts = volume.placer.open_segment(LogId(0)).into_iter().chain(volume.placer.open_segment(LogId(1)));
    let order = |id| volume.placer.table().segment(id).sequence;
    assert!(hosts.map(order).all(|host| host > order(opened_for_copies)));
    let mut volume = mount(volume.abandon());
    for page in 0..120 {
        let mut data = [0; PAGE];
        volume.read(page * PAGE as u64, &mut data).unwrap();
        let version = match page {
            60..100 => 3,
            0..60 if page % 4 > 0 => 2,
            _ => 1,
        };
        assert!(data == [version; PAGE], "page {page} has version {}, not {version}", data[0]);
    }
}

/// The write of a full record returns before the device has answered. When it failed, a read of its pages said that they were damaged,
/// or returned what nobody knows to be there.
#[test]
fn a_read_of_pages_whose_write_failed_returns_the_error_of_the_write() {
    let capacity = Bytes::mib(8);
    // The device fails each second write without doing it; the others reach the medium all the same.
    for writes_before in 1..=2 {
        let mut media = CrashMedia::new(Arc::new(vec![0; capacity.0 as usize]), Vec::new());
        Volume::create(&mut media, VolumeUuid([9; 16]), options(capacity, 0.5)).unwrap();
        let mut volume =
            Volume::open(media, MountOptions::default(), |_| Box::new(SingleLog::Greedy)).unwrap();
        for version in 0..writes_before {
            volume.write(0, &[version; PAGE]).unwrap();
            volume.flush().unwrap();
        }
        volume.device().fail_after(0);
        let pages = u64::from(volume.layout().record_pages_max);
        for page in 1..=pages {
            volume.write(page * PAGE as u64, &[7; PAGE]).unwrap();
        }
        let mut data = [0; PAGE];
        assert!(volume.poison().is_none(), "nothing has waited for the write yet");
        let error = volume.read(PAGE as u64, &mut data).unwrap_err();
        assert!(matches!(error, RepairError::Io { action: "write", .. }), "{error}");
        assert_eq!(volume.poison(), Some(&error));
        assert!(matches!(volume.write(0, &data), Err(RepairError::Poisoned(_))));
        volume.read(0, &mut data).unwrap();
        assert_eq!(data, [writes_before - 1; PAGE]);
    }
}
