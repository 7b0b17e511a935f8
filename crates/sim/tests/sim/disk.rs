//! A hard disk against formulas: seeks, rotation, zones, and what its memory does.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Device, Operation, Request};
use flashlab_sim::profile::DiskSection;
use flashlab_sim::{Profile, SimulatedDevice};

const SECTOR: Bytes = Bytes(512);
/// 8.33 ms.
const REVOLUTION: f64 = 60e9 / 7200.0;

fn profile(disk: &str) -> Profile {
    let text = format!(
        "version = 2\nname = \"disk\"\ntitle = \"A disk\"\nsource = \"a test\"\nfit = \"none\"\ncapacity = \"20GB\"\n\
         [disk]\nread_command = \"100us\"\nwrite_command = \"100us\"\n{disk}"
    );
    Profile::parse(&text, "test").unwrap()
}

fn disk(disk: &str) -> SimulatedDevice {
    profile(disk).device().unwrap()
}

/// How long a request takes.
fn time(disk: &mut SimulatedDevice, operation: Operation, offset: Bytes, size: Bytes) -> f64 {
    disk.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
    let done = disk.wait(Nanos::MAX).unwrap();
    assert_eq!(done.result, Ok(()));
    done.completed.since(done.submitted).0 as f64
}

/// The mean time of requests of one sector at random offsets.
fn random_mean(disk: &mut SimulatedDevice, operation: Operation, count: u64) -> f64 {
    let (mut random, sectors) = (Prng::new(Seed(1)), disk.geometry().capacity.0 / 512);
    (0..count).map(|_| time(disk, operation, Bytes(512 * random.below(sectors)), SECTOR)).sum::<f64>()
        / count as f64
}

/// Bytes a second of 512 B requests, or larger ones, one after the other from `offset` on.
fn sequential_bandwidth(
    disk: &mut SimulatedDevice,
    operation: Operation,
    offset: Bytes,
    size: Bytes,
    count: u64,
) -> f64 {
    let ns: f64 = (0..count).map(|i| time(disk, operation, offset + size * i, size)).sum();
    (size.0 * count) as f64 / (ns / 1e9)
}

#[test]
fn a_random_read_takes_the_mean_seek_half_a_revolution_and_the_command() {
    let mut disk =
        disk("zones = 1\nouter_track = \"256KiB\"\ninner_track = \"256KiB\"\nhead_switch = \"0ns\"\n");
    let seek = DiskSection::default().seek;
    let cylinders = 20_000_000_000_u64.div_ceil(4 * (256 << 10));
    // Two random cylinders are d apart with probability 2 (n - d) / n^2.
    let n = cylinders as f64;
    let mean_seek: f64 = (1..cylinders)
        .map(|distance| 2.0 * (n - distance as f64) / (n * n) * seek.time(distance).0 as f64)
        .sum();
    let sector = REVOLUTION / 512.0;
    let expected = 100e3 + mean_seek + REVOLUTION / 2.0 + sector + 512.0 * 10.0;
    let mean = random_mean(&mut disk, Operation::Read, 20_000);
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean} and not {expected}");
}

#[test]
fn sequential_bandwidth_is_a_track_in_a_revolution_and_a_switch_and_outer_tracks_have_more() {
    for (operation, size) in [(Operation::Read, Bytes::mib(2)), (Operation::Write, Bytes::mib(2))] {
        for (offset, track) in [(Bytes::ZERO, 320), (Bytes(512 * 38_867_000), 160)] {
            let mut disk = disk("");
            let bandwidth = sequential_bandwidth(&mut disk, operation, offset, size, 40);
            // Three switches of heads and one of cylinders (1 ms) for four tracks, and a revolution that a write misses.
            let missed = if operation == Operation::Write { REVOLUTION / 4.0 } else { 0.0 };
            let expected = (track * 1024) as f64 / (REVOLUTION + missed + 1e6) * 1e9;
            assert!(
                (bandwidth / expected - 1.0).abs() < 0.06,
                "{operation:?} {track}: {bandwidth}, {expected}"
            );
        }
    }
}

#[test]
fn small_sequential_requests_cost_their_command_and_not_a_revolution() {
    // 100 us and 512 B over 100 MB/s.
    let expected = 512.0 / 105.12e-6;
    for operation in [Operation::Read, Operation::Write] {
        let bandwidth = sequential_bandwidth(&mut disk(""), operation, Bytes(1 << 30), SECTOR, 50_000);
        assert!((bandwidth / expected - 1.0).abs() < 0.01, "{operation:?}: {bandwidth} and not {expected}");
    }
    // Without memory each one waits for the sector to come around again.
    let mut bare = disk("read_ahead = \"0B\"\nwrite_cache = \"0B\"\n");
    for operation in [Operation::Read, Operation::Write] {
        let bandwidth = sequential_bandwidth(&mut bare, operation, Bytes(1 << 30), SECTOR, 500);
        let expected = 512.0 / (REVOLUTION / 1e9);
        assert!((bandwidth / expected - 1.0).abs() < 0.05, "{operation:?}: {bandwidth} and not {expected}");
    }
}

#[test]
fn writes_that_wait_are_written_in_the_order_in_which_the_head_reaches_them() {
    let one = random_mean(&mut disk("write_extents = 1\n"), Operation::Write, 4000);
    let many = random_mean(&mut disk("write_extents = 32\n"), Operation::Write, 4000);
    assert!(many < 0.6 * one, "{many} with 32 and {one} with one");
}

#[test]
fn a_read_waits_for_the_newer_data_and_a_flush_for_all_of_it() {
    let mut disk = disk("write_extents = 8\n");
    for i in 0..6 {
        let taken = time(&mut disk, Operation::Write, Bytes::mib(3000 * i), SECTOR);
        assert!(taken < 200e3, "memory takes the data: {taken}");
    }
    assert!(time(&mut disk, Operation::Flush, Bytes::ZERO, Bytes::ZERO) > 5.0 * REVOLUTION / 4.0);
    assert_eq!(time(&mut disk, Operation::Flush, Bytes::ZERO, Bytes::ZERO), 0.0);
}

#[test]
fn what_no_disk_can_have_is_refused_with_the_legal_range() {
    let error = |from: &str, to: &str| {
        let text = profile("rpm = 7200\n").to_toml().replace(from, to);
        Profile::parse(&text, "x.toml").unwrap_err().to_string()
    };
    insta::assert_snapshot!(error("rpm = 7200", "rpm = 0"), @"profile x.toml: `disk.rpm` is 0; it may be 1 to 1000000");
    insta::assert_snapshot!(error("inner_track = \"160KiB\"", "inner_track = \"1MiB\""), @"profile x.toml: `disk.inner_track` is 1 MiB; it may be at most `disk.outer_track`");
    insta::assert_snapshot!(error("capacity = \"19531250KiB\"", "capacity = \"1MB\""), @"profile x.toml: `disk.zones` is 16; it may be at most one for each cylinder");
    insta::assert_snapshot!(error("[disk]", "[flash]\n[disk]"), @"profile x.toml: `disk` is there; it may be absent where `throughput` or `flash` is there");
}
