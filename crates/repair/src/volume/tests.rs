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

/// Reads of many pages see what was overwritten, moved or discarded between them.
#[test]
fn sequential_reads_see_what_was_written_between_them() {
    const CHUNK: u64 = 16;
    let mut volume = new_volume(Bytes::mib(8), 0.6);
    let pages = volume.size().0 / PAGE as u64 / CHUNK * CHUNK;
    let mut content = vec![0_u8; pages as usize];
    let mut random = Prng::new(Seed(8));
    let mut data = vec![0; CHUNK as usize * PAGE];
    for round in 0..60 {
        for first in (0..pages).step_by(CHUNK as usize) {
            volume.read(first * PAGE as u64, &mut data).unwrap();
            for (page, data) in (first..).zip(data.chunks_exact(PAGE)) {
                assert!(data == [content[page as usize]; PAGE], "page {page}, round {round}");
            }
            // Half of the writes begin in what is read next.
            let page =
                if random.below(2) == 0 { first + random.below(3 * CHUNK) } else { random.below(pages) };
            let (start, count) = (page % pages, random.below(CHUNK).min(pages - page % pages));
            let version = random.below(256) as u8;
            let range = start as usize..(start + count) as usize;
            content[range].fill(version);
            let bytes = vec![version; count as usize * PAGE];
            match version {
                0 => volume.discard(start * PAGE as u64, bytes.len() as u64).unwrap(),
                _ => volume.write(start * PAGE as u64, &bytes).unwrap(),
            }
            if random.below(4) == 0 {
                volume.flush().unwrap();
            }
        }
    }
    assert!(volume.counters().packed_segments > 100);
}

/// Looks at single writes: the pages that packing copied meanwhile, and the IOs that the device did.
struct Stalls {
    copied_max: u64,
    ios_max: u64,
    /// Writes during which something was packed.
    count: u64,
}

/// The longest stalls of random writes that began above the low mark.
fn stalls_above_low_mark(capacity: Bytes, segment: Bytes, fill: f64) -> Stalls {
    const RESPONSE: Nanos = Nanos(100);
    let mut device = MemoryDevice::new(capacity, RESPONSE);
    let options = LayoutOptions { segment, checkpoint_interval: Bytes::mib(4), ..options(capacity, fill) };
    Volume::create(&mut device, VolumeUuid([9; 16]), options).unwrap();
    let mut volume = open(device);
    let pages = volume.size().0 / PAGE as u64;
    let write = |volume: &mut Volume<MemoryDevice>, page: u64| {
        volume.write(page * PAGE as u64, &[1; PAGE]).unwrap();
    };
    (0..pages).for_each(|page| write(&mut volume, page));
    let mut random = Prng::new(Seed(5));
    let mut stalls = Stalls { copied_max: 0, ios_max: 0, count: 0 };
    for round in 0..2 * pages {
        if round % 200 == 0 {
            // Idle time ends between the marks, so that the next writes begin above the low one while the volume packs.
            let between = volume.placer.watermarks().low + 2;
            while volume.placer.table().free_count() < between && volume.background_step() {}
        }
        let is_above = volume.placer.table().free_count() > volume.placer.watermarks().low;
        let (copied, now) = (volume.counters.copied_pages, Device::now(&mut volume));
        write(&mut volume, random.below(pages));
        let copied = volume.counters.copied_pages - copied;
        if is_above && copied > 0 {
            stalls.count += 1;
            stalls.copied_max = stalls.copied_max.max(copied);
            stalls.ios_max = stalls.ios_max.max((Device::now(&mut volume) - now).0 / RESPONSE.0);
        }
    }
    stalls
}

/// Below the low mark a write may wait for as much packing as its own pages need.
#[test]
fn above_the_low_mark_no_write_waits_for_more_than_the_packing_of_a_segment() {
    for (capacity, segment) in [(Bytes::mib(32), Bytes::kib(128)), (Bytes::mib(384), Bytes::mib(2))] {
        let above = stalls_above_low_mark(capacity, segment, 0.8);
        let pages = segment.0 / PAGE as u64;
        // Each record: its header, its pages, the copies. A checkpoint of 4 MiB: less than 16 IOs.
        let ios = 3 * pages.div_ceil(250) + 16;
        assert!(above.count > 20, "{segment}: {} writes waited for packing", above.count);
        assert!(above.copied_max <= pages, "{segment}: a write waited for {} copies", above.copied_max);
        assert!(above.ios_max <= ios, "{segment}: a write waited for {} IOs", above.ios_max);
    }
}

/// A volume of tiny segments with little slack may never reach the high mark: headers take what packing gains.
#[test]
fn an_idle_volume_comes_to_rest() {
    for (segment, fill) in [(16, 0.83), (16, 0.7), (64, 0.8), (256, 0.8)] {
        let segment = Bytes(segment * PAGE as u64);
        let capacity = Bytes(segment.0 * 400);
        let mut device = MemoryDevice::new(capacity, Nanos(100));
        let options =
            LayoutOptions { segment, checkpoint_interval: Bytes::mib(4), ..options(capacity, fill) };
        Volume::create(&mut device, VolumeUuid([9; 16]), options).unwrap();
        let mut volume = open(device);
        let pages = volume.size().0 / PAGE as u64;
        let mut random = Prng::new(Seed(5));
        for round in 0..3 * pages {
            let page = if round < pages { round } else { random.below(pages) };
            volume.write(page * PAGE as u64, &[1; PAGE]).unwrap();
        }
        let copied = |volume: &Volume<MemoryDevice>| volume.counters.copied_pages;
        let before = copied(&volume);
        volume.wait(Nanos::from_secs(100));
        let at_rest = copied(&volume);
        assert!(at_rest - before <= pages * 2, "{segment}, {fill}: {} of {pages} pages", at_rest - before);
        volume.wait(Nanos::from_secs(200));
        assert_eq!(copied(&volume), at_rest, "{segment}, {fill}");
        let (free, marks) = (volume.placer.table().free_count(), volume.placer.watermarks());
        assert!(fill > 0.8 || free >= marks.high, "{segment}, {fill}: {free} segments are free, {marks:?}");
        // A single write is no reason to pack everything.
        volume.write(0, &[1; PAGE]).unwrap();
        volume.flush().unwrap();
        volume.wait(Nanos::from_secs(300));
        assert!(copied(&volume) - at_rest <= 3 * u64::from(volume.layout().pages_per_segment()));
    }
}

#[test]
fn idle_time_after_a_mount_packs_what_the_life_before_did_not() {
    // With little slack the mark is out of reach: headers take what packing gains.
    for (fill, is_reached) in [(0.7, true), (0.815, false)] {
        let mut volume = new_volume(Bytes::mib(16), fill);
        let pages = volume.size().0 / PAGE as u64;
        let mut random = Prng::new(Seed(5));
        for round in 0..3 * pages {
            let page = if round < pages { round } else { random.below(pages) };
            volume.write(page * PAGE as u64, &[1; PAGE]).unwrap();
        }
        let lacking = |volume: &Volume<MemoryDevice>| {
            volume.placer.watermarks().high.saturating_sub(volume.placer.table().free_count())
        };
        let mut volume = open(volume.close().unwrap());
        let (before, copied) = (lacking(&volume), volume.counters.copied_pages);
        assert!(before > 0, "{fill}");
        volume.wait(Nanos::from_secs(100));
        assert_eq!(lacking(&volume) == 0, is_reached, "{fill}: {before} segments were lacking");
        let allowed = 10 * (u64::from(before) + 1) * u64::from(volume.layout().pages_per_segment());
        assert!(volume.counters.copied_pages - copied <= allowed, "{fill}");
    }
}

#[test]
fn free_segments_are_discarded_at_the_rate_and_the_others_are_the_backlog() {
    let segment = Bytes::kib(64);
    let mut device = MemoryDevice::new(Bytes::mib(8), Nanos(100));
    Volume::create(&mut device, VolumeUuid([9; 16]), options(Bytes::mib(8), 0.5)).unwrap();
    let mount = MountOptions { discard_rate: Bytes::kib(640), ..MountOptions::default() };
    let mut volume = Volume::open(device, mount, |_| Box::new(SingleLog::Greedy)).unwrap();
    let size = volume.size();
    volume.write(0, &vec![1; size.0 as usize]).unwrap();
    volume.discard(0, size.0).unwrap();
    volume.write_checkpoint().unwrap();
    let backlog = volume.discard_backlog();
    assert!(backlog.0 > size.0 / 2, "{backlog}");
    // Ten segments a second, and one at the beginning.
    for second in 1..=3_u32 {
        volume.wait(Nanos::from_secs_f64(f64::from(second) - 0.05));
        let discarded = volume.counters().device_discarded_bytes;
        assert_eq!(discarded, u64::from(second) * 10 * segment.0, "second {second}");
        assert_eq!(volume.discard_backlog(), Bytes(backlog.0 - discarded));
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

/// Copies bytes of a device.
fn read_device(device: &mut MemoryDevice, offset: u64, size: Bytes) -> Vec<u8> {
    let mut range = [crate::device_io::ReadRange::new(offset, size)];
    DeviceIo::new(device, Bytes::ZERO, 0).read(&mut range).unwrap();
    range[0].bytes().to_vec()
}

fn write_device(device: &mut MemoryDevice, offset: u64, bytes: &[u8]) {
    let mut io = DeviceIo::new(device, Bytes::ZERO, 0);
    io.write_bytes(offset, bytes).unwrap();
    io.flush().unwrap();
}

/// A mount that ends in the middle of an image leaves chunks with the number that the next mount's image has.
#[test]
fn a_chunk_of_an_earlier_attempt_at_the_same_image_is_refused() {
    let page = |volume: &mut Volume<MemoryDevice>, byte: u8| {
        volume.write(0, &[byte; PAGE]).unwrap();
        volume.flush().unwrap();
    };
    let mut volume = new_volume(Bytes::mib(8), 0.5);
    page(&mut volume, 1);
    volume.write_checkpoint().unwrap();
    volume.begin_image(volume.checkpoint_name.number);
    volume.write_chunks(1).unwrap();
    let chunk = volume.layout().images[1].0;
    let mut device = volume.abandon();
    let earlier = read_device(&mut device, chunk, Bytes(4096));
    let mut volume = open(device);
    page(&mut volume, 2);
    volume.write_checkpoint().unwrap();
    volume.begin_image(volume.checkpoint_name.number);
    volume.write_chunks(u64::MAX).unwrap();
    volume.complete_image().unwrap();
    assert_eq!(volume.superblock().image, 1);
    let mut device = volume.close().unwrap();
    assert_eq!(crate::check(&mut device, &mut |_| {}).unwrap().right_pages, 1);
    assert!(read_device(&mut device, chunk, Bytes(4096)) != earlier);
    write_device(&mut device, chunk, &earlier);
    let refused = crate::check(&mut device, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("an earlier attempt at this image"), "{refused}");
}

#[test]
fn superblocks_of_another_volume_count_only_if_they_are_most() {
    let mut device = new_volume(Bytes::mib(8), 0.5).close().unwrap();
    let own = crate::superblock(&mut device).unwrap();
    let mut other = MemoryDevice::new(Bytes::mib(8), Nanos(100));
    Volume::create(&mut other, VolumeUuid([7; 16]), options(Bytes::mib(8), 0.5)).unwrap();
    for _ in 0..5 {
        other = open(other).close().unwrap();
    }
    let copies = [0, 64 << 10, (8 << 20) - (64 << 10), (8 << 20) - (128 << 10)];
    for (number, offset) in copies.into_iter().enumerate() {
        let block = read_device(&mut other, offset, Bytes(4096));
        write_device(&mut device, offset, &block);
        let found = crate::superblock(&mut device);
        match number {
            0 => assert_eq!(found.unwrap(), own),
            1 => assert!(
                found.unwrap_err().to_string().contains("an equal number of copies are those of volume")
            ),
            _ => assert_eq!(found.unwrap().uuid, VolumeUuid([7; 16])),
        }
    }
    // Nothing of the device is the other volume's.
    assert!(matches!(crate::check(&mut device, &mut |_| {}), Err(RepairError::Damaged { .. })));
}
