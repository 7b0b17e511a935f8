//! The error messages for a pattern that does not fit the device: the parameter, its value, its legal range.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_plan::{Arrival, IoSize, Location, Misfit, Mix, ModeRule, Pattern, Space, Time};

/// The message and what stands against sequential reads, after `change`, on 1 MiB of 4 KiB blocks.
fn error_of(change: impl Fn(&mut Pattern)) -> String {
    let mut pattern = Pattern::baseline("SR").unwrap();
    change(&mut pattern);
    let space = Space { capacity: Bytes::mib(1), block: Bytes(4096) };
    let error = pattern.place(space, Seed(1)).expect_err("this does not fit");
    format!("{error} [{:?}]", error.misfit().unwrap())
}

fn with_location(location: Location) -> String {
    error_of(|pattern| pattern.first.location = location)
}

fn with_time(time: Time) -> String {
    error_of(|pattern| pattern.first.time = time)
}

#[test]
fn what_the_devices_block_forbids() {
    let misaligned = Bytes(512);
    insta::assert_snapshot!(error_of(|p| p.first.io_size = IoSize::Fixed(misaligned)), @"IOSize = 512B: must be a multiple of the device's block of 4KiB [Block]");
    insta::assert_snapshot!(error_of(|p| p.first.io_shift = misaligned), @"IOShift = 512B: must be a multiple of the device's block of 4KiB [Block]");
    insta::assert_snapshot!(error_of(|p| p.first.target_offset = misaligned), @"TargetOffset = 512B: must be a multiple of the device's block of 4KiB [Block]");
    insta::assert_snapshot!(error_of(|p| p.first.target_size = Some(Bytes(40_000))), @"TargetSize = 40000B: must be a multiple of the device's block of 4KiB [Block]");
    let between = IoSize::Uniform { min: Bytes(5000), max: Bytes(8000) };
    insta::assert_snapshot!(error_of(|p| p.first.io_size = between), @"IOSize = 5000B to 8000B: must be a range that holds a multiple of the device's block of 4KiB [Block]");
}

#[test]
fn what_the_devices_capacity_forbids() {
    insta::assert_snapshot!(error_of(|p| p.first.target_offset = Bytes::mib(1)), @"TargetOffset = 1MiB: must be below the device's capacity of 1MiB [Space]");
    insta::assert_snapshot!(error_of(|p| p.first.target_size = Some(Bytes::mib(2))), @"TargetSize = 2MiB: must be at most 1MiB, as the device ends at 1MiB and the target starts at 0B [Space]");
    insta::assert_snapshot!(error_of(|p| p.first.io_size = IoSize::Fixed(Bytes::mib(2))), @"TargetSize = 1MiB: must be at least 2MiB, for one IO of 2MiB with IOShift 0B [Space]");
    insta::assert_snapshot!(error_of(|p| {
        p.first.target_offset = Bytes::kib(512);
        p.first.target_size = Some(Bytes::mib(1));
    }), @"TargetSize = 1MiB: must be at most 512KiB, as the device ends at 1MiB and the target starts at 512KiB [Space]");
    insta::assert_snapshot!(error_of(|p| {
        p.parallel_degree = 33;
        p.first.io_shift = Bytes(4096);
    }), @"TargetSize = 1MiB: must be at least 2112KiB, for one IO of 32KiB with IOShift 4KiB in each of 33 processes [Space]");
    insta::assert_snapshot!(with_location(Location::Partitioned { partitions: 33 }), @"Partitions = 33: must be from 1 to 32, the number of IOs that fit into the target [Space]");
    insta::assert_snapshot!(with_location(Location::Ordered { incr: 32 }), @"Incr = 32: must be from -31 to 31, as 32 IOs fit into the target [Space]");
    insta::assert_snapshot!(with_location(Location::Ordered { incr: i64::MIN }), @"Incr = -9223372036854775808: must be from -2^53 to 2^53 [Value]");
    insta::assert_snapshot!(error_of(|p| {
        p.first.location = Location::HotCold { ios: 0.9, space: 0.1 };
        p.first.target_size = Some(Bytes::kib(32));
    }), @"TargetSize = 32KiB: must be long enough for two IOs of each process, a hot one and a cold one [Space]");
}

#[test]
fn what_no_device_allows() {
    insta::assert_snapshot!(error_of(|p| p.first.io_size = IoSize::Fixed(Bytes(0))), @"IOSize = 0B: must be from 1B to 8PiB [Value]");
    let reversed = IoSize::Uniform { min: Bytes(8192), max: Bytes(4096) };
    insta::assert_snapshot!(error_of(|p| p.first.io_size = reversed), @"IOSize = 8KiB to 4KiB: must be such that 1B <= min <= max <= 8PiB [Value]");
    insta::assert_snapshot!(error_of(|p| p.first.io_shift = Bytes(u64::MAX)), @"IOShift = 18446744073709551615B: must be at most 8PiB [Value]");
    insta::assert_snapshot!(error_of(|p| p.first.target_offset = Bytes(u64::MAX)), @"TargetOffset = 18446744073709551615B: must be at most 8PiB [Value]");
    insta::assert_snapshot!(error_of(|p| p.first.target_size = Some(Bytes(4096))), @"TargetSize = 4KiB: must be at least 32KiB, which is IOSize + IOShift [Value]");
    insta::assert_snapshot!(error_of(|p| p.first.mode = ModeRule::WriteProbability(1.5)), @"WriteProbability = 1.5: must be from 0 to 1 [Value]");
    insta::assert_snapshot!(error_of(|p| p.parallel_degree = 0), @"ParallelDegree = 0: must be from 1 to 1024 [Value]");
    insta::assert_snapshot!(error_of(|p| p.queue_depth = 0), @"QueueDepth = 0: must be from 1 to 4096 [Value]");
    insta::assert_snapshot!(error_of(|p| p.io_count = Some(0)), @"IOCount = 0: must be from 1 to 2^53 [Value]");
    insta::assert_snapshot!(error_of(|p| (p.io_count, p.io_ignore) = (Some(5), 5)), @"IOIgnore = 5: must be below io_count (5), or no IO is left to measure [Value]");
    insta::assert_snapshot!(error_of(|p| p.io_ignore = u64::MAX), @"IOIgnore = 18446744073709551615: must be at most 2^53 [Value]");
    insta::assert_snapshot!(error_of(|p| p.duration = Some(Nanos::ZERO)), @"Duration = 0ns: must be longer than 0 and below 2502h [Value]");
    insta::assert_snapshot!(with_location(Location::Partitioned { partitions: 0 }), @"Partitions = 0: must be at least 1 [Value]");
    insta::assert_snapshot!(with_location(Location::Zipf { theta: -0.5 }), @"Theta = -0.5: must be from 0 to 10 [Value]");
    insta::assert_snapshot!(with_location(Location::Zipf { theta: f64::NAN }), @"Theta = NaN: must be from 0 to 10 [Value]");
    insta::assert_snapshot!(with_location(Location::HotCold { ios: 1.0, space: 0.2 }), @"HotIOs = 1: must be above 0 and below 1 [Value]");
    insta::assert_snapshot!(with_location(Location::HotCold { ios: 0.8, space: 0.0 }), @"HotSpace = 0: must be above 0 and below 1 [Value]");
    insta::assert_snapshot!(with_time(Time::Pause { pause: Nanos::MAX }), @"Pause = 18446744073709551615ns: must be below 2502h [Value]");
    insta::assert_snapshot!(with_time(Time::Burst { burst: 0, pause: Nanos(1) }), @"Burst = 0: must be at least 1 [Value]");
    let never = Time::Rate { per_second: 0.0, arrival: Arrival::Fixed };
    insta::assert_snapshot!(with_time(never), @"Rate = 0: must be above 0 and at most 1000000000 IOs a second [Value]");
}

#[test]
fn what_no_mix_allows() {
    let mixed = |ratio, time| {
        error_of(|pattern| {
            let mut second = pattern.first.clone();
            second.mode = ModeRule::Always(Mode::Write);
            second.time = time;
            pattern.mix = Some(Mix { second, ratio });
        })
    };
    insta::assert_snapshot!(mixed(0, Time::Consecutive), @"Ratio = 0: must be at least 1 [Value]");
    insta::assert_snapshot!(mixed(1, Time::Rate { per_second: 5.0, arrival: Arrival::Poisson }), @"Rate = 5: must be given for both parts of the mix, or for none [Value]");
}

#[test]
fn a_space_of_nothing_is_an_error_too() {
    let nothing = Space { capacity: Bytes::ZERO, block: Bytes::ZERO };
    let error = Pattern::baseline("RW").unwrap().place(nothing, Seed(1)).unwrap_err();
    assert_eq!(error.misfit(), Some(Misfit::Space));
}
