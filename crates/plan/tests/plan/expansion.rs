//! Compares the IOs of patterns with sequences computed by hand from the formulas of uFLIP's section 3.1 and
//! Table 1. A slot is one IOSize of the target; here IOSize is 4 KiB.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_plan::{
    Arrival, Basic, Content, IoSize, Location, Mix, ModeRule, Pattern, PlannedIo, Space, Start, Time,
};
use proptest::prelude::*;

const IO: Bytes = Bytes(4096);
const SPACE: Space = Space { capacity: Bytes(1 << 30), block: Bytes(512) };

/// Reads at `location` in a target of `slots` IOs.
fn pattern(location: Location, slots: u64) -> Pattern {
    let mut pattern = Pattern::baseline("SR").unwrap();
    pattern.first.location = location;
    pattern.first.io_size = IoSize::Fixed(IO);
    pattern.first.target_size = Some(IO * slots);
    pattern
}

fn ios(pattern: &Pattern, process: u32, count: usize) -> Vec<PlannedIo> {
    let placed = pattern.place(SPACE, Seed(1)).unwrap_or_else(|error| panic!("{error}"));
    placed.ios(process).take(count).collect()
}

/// The slots of the first IOs.
fn slots(pattern: &Pattern, count: usize) -> Vec<u64> {
    ios(pattern, 0, count).iter().map(|io| io.offset.0 / IO.0).collect()
}

fn offsets(pattern: &Pattern, process: u32, count: usize) -> Vec<u64> {
    ios(pattern, process, count).iter().map(|io| io.offset.0).collect()
}

#[test]
fn sequential_is_i_times_io_size_modulo_target_size() {
    assert_eq!(slots(&pattern(Location::Sequential, 3), 7), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn shift_and_offset_are_added_and_a_shifted_pattern_stays_in_its_target() {
    let mut pattern = pattern(Location::Sequential, 3);
    pattern.first.target_offset = Bytes(1 << 20);
    pattern.first.io_shift = Bytes(512);
    // The third slot would end 512 bytes beyond the target.
    let base = (1 << 20) + 512;
    assert_eq!(offsets(&pattern, 0, 4), [base, base + 4096, base, base + 4096]);
    // With a target that is one byte larger than the shift requires, the slot exists again.
    pattern.first.target_size = Some(IO * 3 + Bytes(512));
    assert_eq!(offsets(&pattern, 0, 4), [base, base + 4096, base + 8192, base]);
}

#[test]
fn random_hits_every_slot_about_as_often() {
    let mut counts = [0u32; 8];
    for slot in slots(&pattern(Location::Random, 8), 80_000) {
        counts[slot as usize] += 1;
    }
    // Chi-squared with 7 degrees of freedom: 24.3 is exceeded once in a thousand seeds.
    let chi2: f64 = counts.iter().map(|&n| (f64::from(n) - 1e4).powi(2) / 1e4).sum();
    assert!(chi2 < 24.3, "{counts:?}, seed 1");
}

#[test]
fn ordered_is_incr_times_i_and_fills_the_target_by_columns() {
    let ordered =
        |incr, slots_of_target, count| slots(&pattern(Location::Ordered { incr }, slots_of_target), count);
    assert_eq!(ordered(1, 3, 4), [0, 1, 2, 0]);
    assert_eq!(ordered(0, 3, 4), [0, 0, 0, 0]);
    assert_eq!(ordered(-1, 4, 6), [0, 3, 2, 1, 0, 3]);
    // 3 x i up to the end of the target; then the next column, and after the last column the first one.
    assert_eq!(ordered(3, 8, 10), [0, 3, 6, 1, 4, 7, 2, 5, 0, 3]);
    // Its mirror image modulo the 8 slots.
    assert_eq!(ordered(-3, 8, 10), [0, 5, 2, 7, 4, 1, 6, 3, 0, 5]);
    assert_eq!(ordered(4, 8, 9), [0, 4, 1, 5, 2, 6, 3, 7, 0]);
}

#[test]
fn partitioned_goes_round_the_partitions_and_is_sequential_within_each() {
    // PS = 8 / 2 = 4 slots: P_i x PS + O_i with P_i = i mod 2 and O_i = floor(i / 2) mod 4.
    let two = pattern(Location::Partitioned { partitions: 2 }, 8);
    assert_eq!(slots(&two, 10), [0, 4, 1, 5, 2, 6, 3, 7, 0, 4]);
    // PS = 8 / 3 rounded down to IOSize = 2 slots: the last two slots are in no partition.
    let three = pattern(Location::Partitioned { partitions: 3 }, 8);
    assert_eq!(slots(&three, 7), [0, 2, 4, 1, 3, 5, 0]);
    assert_eq!(slots(&pattern(Location::Partitioned { partitions: 1 }, 3), 4), [0, 1, 2, 0]);
}

proptest! {
    #[test]
    fn one_pass_of_these_functions_hits_every_slot_once(
        incr in (1i64..40).prop_flat_map(|n| prop_oneof![Just(n), Just(-n)]),
        count in 41u64..200,
        seed: u64,
    ) {
        for location in [Location::Permutation, Location::Ordered { incr }, Location::Sequential] {
            let placed = pattern(location, count).place(SPACE, Seed(seed)).unwrap();
            let mut all = placed.ios(0);
            for pass in 0..3 {
                let mut hit: Vec<u64> = all.by_ref().take(count as usize).map(|io| io.offset.0 / IO.0).collect();
                hit.sort_unstable();
                prop_assert!(hit.iter().copied().eq(0..count), "{location:?}, pass {pass}, seed {seed}: {hit:?}");
            }
        }
    }
}

#[test]
fn each_pass_of_a_permutation_has_an_order_of_its_own() {
    let all = slots(&pattern(Location::Permutation, 100), 200);
    assert_ne!(all[..100], all[100..]);
    assert!(!all.is_sorted());
}

#[test]
fn zipf_prefers_few_slots_that_are_no_neighbours() {
    let all = slots(&pattern(Location::Zipf { theta: 1.0 }, 1000), 100_000);
    let mut counts = vec![0u32; 1000];
    all.iter().for_each(|&slot| counts[slot as usize] += 1);
    let mut ranked: Vec<usize> = (0..1000).collect();
    ranked.sort_by_key(|&slot| std::cmp::Reverse(counts[slot]));
    // The hottest rank has 1 / H(1000) = 13.36 % of the IOs: standard deviation 0.11 %.
    let hottest = f64::from(counts[ranked[0]]) / 1e5;
    assert!((hottest - 0.1336).abs() < 0.005, "{hottest}, seed 1");
    let neighbours = ranked[..10].windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
    assert!(neighbours <= 1, "{:?}", &ranked[..10]);
}

#[test]
fn hot_and_cold_parts_get_their_share() {
    let all = slots(&pattern(Location::HotCold { ios: 0.9, space: 0.1 }, 1000), 100_000);
    let hot = all.iter().filter(|&&slot| slot < 100).count();
    // Binomial with a standard deviation of 95.
    assert!(hot.abs_diff(90_000) < 400, "{hot}, seed 1");
    assert!(all.contains(&0) && all.contains(&99) && all.contains(&100) && all.contains(&999));
}

#[test]
fn parallel_processes_have_equal_parts_and_streams_of_their_own() {
    let mut parallel = pattern(Location::Sequential, 10);
    parallel.parallel_degree = 4;
    // TargetSize / ParallelDegree = 2.5 slots, rounded down to IOSize: 2 slots.
    for process in 0..4u32 {
        let start = u64::from(process) * 2 * IO.0;
        assert_eq!(offsets(&parallel, process, 3), [start, start + IO.0, start]);
    }
    parallel.first.location = Location::Random;
    parallel.first.target_size = Some(IO * 4000);
    let relative = |process: u32| -> Vec<u64> {
        let start = u64::from(process) * 1000 * IO.0;
        offsets(&parallel, process, 50).iter().map(|offset| offset - start).collect()
    };
    assert!(relative(1).iter().all(|&offset| offset < 1000 * IO.0));
    assert_ne!(relative(0), relative(1));
}

#[test]
fn a_mix_interleaves_and_each_part_keeps_its_sequence_and_target() {
    let mut mixed = pattern(Location::Sequential, 100);
    let second = Basic {
        mode: ModeRule::Always(Mode::Write),
        target_offset: IO * 1000,
        io_size: IoSize::Fixed(IO * 2),
        ..mixed.first.clone()
    };
    mixed.mix = Some(Mix { second, ratio: 3 });
    let all = ios(&mixed, 0, 9);
    assert_eq!(slots(&mixed, 9), [0, 1, 2, 1000, 3, 4, 5, 1002, 6]);
    assert_eq!(all.iter().map(|io| io.position).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    let writes: Vec<u64> = all.iter().filter(|io| io.mode.is_write()).map(|io| io.position).collect();
    assert_eq!(writes, [3, 7]);
    let placed = mixed.place(SPACE, Seed(1)).unwrap();
    assert_eq!(placed.largest_io(), IO * 2);
    assert_eq!(placed.target(), [Bytes(0)..IO * 100, IO * 1000..IO * 1100]);
}

#[test]
fn pauses_come_between_ios_and_between_bursts() {
    let starts = |time, count| -> Vec<u64> {
        let mut timed = pattern(Location::Sequential, 10);
        timed.first.time = time;
        let nanos = |io: &PlannedIo| match io.start {
            Start::AfterPrevious(pause) => pause.0,
            Start::At(_) => panic!("not an open loop"),
        };
        ios(&timed, 0, count).iter().map(nanos).collect()
    };
    assert_eq!(starts(Time::Consecutive, 3), [0, 0, 0]);
    assert_eq!(starts(Time::Pause { pause: Nanos(7) }, 4), [0, 7, 7, 7]);
    assert_eq!(starts(Time::Burst { burst: 3, pause: Nanos(7) }, 8), [0, 0, 0, 7, 0, 0, 7, 0]);
    // pause(p) = burst(1, p).
    assert_eq!(starts(Time::Burst { burst: 1, pause: Nanos(7) }, 4), [0, 7, 7, 7]);
}

fn arrivals(per_second: f64, arrival: Arrival, count: usize) -> Vec<u64> {
    let mut open = pattern(Location::Sequential, 10);
    open.first.time = Time::Rate { per_second, arrival };
    let nanos = |io: &PlannedIo| match io.start {
        Start::At(time) => time.0,
        Start::AfterPrevious(_) => panic!("an open loop"),
    };
    ios(&open, 0, count).iter().map(nanos).collect()
}

#[test]
fn an_open_loop_knows_when_each_io_is_due() {
    assert_eq!(arrivals(1000.0, Arrival::Fixed, 4), [0, 1_000_000, 2_000_000, 3_000_000]);
    let last = *arrivals(3.0, Arrival::Fixed, 3_000_001).last().unwrap();
    assert!(last.abs_diff(1_000_000 * 1_000_000_000) < 1_000, "rounding accumulates: {last}");
    let poisson = arrivals(1000.0, Arrival::Poisson, 100_001);
    assert!(poisson.is_sorted());
    // Mean gap 1 ms with a standard error of 0.3 %; gaps over the mean are 1/e of all.
    let mean = *poisson.last().unwrap() as f64 / 1e5;
    assert!((mean / 1e6 - 1.0).abs() < 0.015, "{mean}, seed 1");
    let long = poisson.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
    assert!((long as f64 / 1e5 - (-1f64).exp()).abs() < 0.01, "{long}, seed 1");
}

#[test]
fn modes_follow_their_probability() {
    let writes = |probability| {
        let mut coin = pattern(Location::Random, 100);
        coin.first.mode = ModeRule::WriteProbability(probability);
        ios(&coin, 0, 100_000).iter().filter(|io| io.mode.is_write()).count()
    };
    assert_eq!((writes(0.0), writes(1.0)), (0, 100_000));
    assert!(writes(0.3).abs_diff(30_000) < 700, "{}, seed 1", writes(0.3));
}

#[test]
fn random_sizes_are_uniform_over_the_multiples_of_the_block() {
    let mut sized = pattern(Location::Random, 100);
    sized.first.io_size = IoSize::Uniform { min: Bytes(512), max: Bytes(2048) };
    let mut counts = [0u32; 4];
    for io in ios(&sized, 0, 40_000) {
        assert!(io.size.is_multiple_of(Bytes(512)) && io.offset.is_multiple_of(Bytes(512)));
        counts[io.size.0 as usize / 512 - 1] += 1;
    }
    // Chi-squared with 3 degrees of freedom: 16.3 is exceeded once in a thousand seeds.
    let chi2: f64 = counts.iter().map(|&n| (f64::from(n) - 1e4).powi(2) / 1e4).sum();
    assert!(chi2 < 16.3, "{counts:?}, seed 1");
    // Sequential IOs of random sizes have no gaps, until the next one might not fit.
    sized.first.location = Location::Sequential;
    let all = ios(&sized, 0, 1000);
    let gaps = all.windows(2).filter(|pair| pair[0].offset + pair[0].size != pair[1].offset);
    assert!(gaps.clone().count() > 0 && gaps.into_iter().all(|pair| pair[1].offset == Bytes::ZERO));
}

#[test]
fn a_pattern_has_io_count_ios_or_no_end() {
    let mut counted = pattern(Location::Sequential, 2);
    counted.io_count = Some(5);
    let placed = counted.place(SPACE, Seed(1)).unwrap();
    assert_eq!(placed.ios(0).count(), 5);
    assert_eq!(placed.ios(0).size_hint(), (5, Some(5)));
    counted.io_count = None;
    assert_eq!(counted.place(SPACE, Seed(1)).unwrap().ios(0).size_hint().1, None);
    assert_eq!(ios(&counted, 0, 100_000).len(), 100_000);
}

/// Any legal pattern whose IOs are multiples of 512 bytes.
fn any_placeable() -> impl Strategy<Value = Pattern> {
    let location = prop_oneof![
        Just(Location::Sequential),
        Just(Location::Random),
        Just(Location::Permutation),
        (-30i64..30).prop_map(|incr| Location::Ordered { incr }),
        (1u32..20).prop_map(|partitions| Location::Partitioned { partitions }),
        (0.0..2.0).prop_map(|theta| Location::Zipf { theta }),
        (0.01..0.99, 0.01..0.99).prop_map(|(ios, space)| Location::HotCold { ios, space }),
    ];
    let size = prop_oneof![
        (1u64..20).prop_map(|n| IoSize::Fixed(Bytes(n * 512))),
        (1u64..20, 0u64..20).prop_map(|(min, more)| {
            IoSize::Uniform { min: Bytes(min * 512), max: Bytes((min + more) * 512) }
        }),
    ];
    let target = (0u64..3000, proptest::option::of(1u64..3000));
    let basic = (location, size, proptest::option::of(0u64..40), 0u64..40, target, 0.0..1.0).prop_map(
        |(location, io_size, apart, shift, (offset, target), probability)| Basic {
            mode: ModeRule::WriteProbability(probability),
            location,
            time: Time::Consecutive,
            io_size,
            slot_size: apart.map(|n| io_size.largest() + Bytes(n * 512)),
            io_shift: Bytes(shift * 512),
            target_offset: Bytes(offset * 512),
            target_size: target.map(|n| Bytes(n * 512)),
            content: Content::Zeros,
        },
    );
    (basic.clone(), proptest::option::of((basic, 1u32..5)), 1u32..6).prop_map(|(first, mix, degree)| {
        Pattern {
            mix: mix.map(|(second, ratio)| Mix { second, ratio }),
            parallel_degree: degree,
            ..Pattern::basic(first)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn ios_of_placed_patterns_lie_in_their_target_and_are_the_same_again(
        pattern in any_placeable(),
        seed: u64,
    ) {
        let space = Space { capacity: Bytes(2000 * 512), block: Bytes(512) };
        let Ok(placed) = pattern.place(space, Seed(seed)) else { return Ok(()) };
        let target = placed.target();
        prop_assert!(target.iter().all(|range| range.start < range.end && range.end <= space.capacity));
        prop_assert!(target.windows(2).all(|pair| pair[0].end < pair[1].start));
        for process in 0..placed.processes() {
            for io in placed.ios(process).take(300) {
                let inside = |range: &std::ops::Range<Bytes>| {
                    range.start <= io.offset && io.offset + io.size <= range.end
                };
                prop_assert!(target.iter().any(inside), "{io:?} of {pattern:?}, seed {seed}");
                let in_target = |basic: &Basic| {
                    let start = basic.target_offset + basic.io_shift;
                    let size = basic.target_size.unwrap_or(Bytes(space.capacity.0 - basic.target_offset.0));
                    start <= io.offset && io.offset + io.size <= basic.target_offset + size
                };
                prop_assert!(pattern.basics().any(in_target), "{io:?} of {pattern:?}, seed {seed}");
                prop_assert!(io.offset.is_multiple_of(space.block) && io.size.is_multiple_of(space.block));
                prop_assert!(io.size > Bytes::ZERO && io.size <= placed.largest_io());
            }
            let again = pattern.place(space, Seed(seed)).unwrap();
            prop_assert!(placed.ios(process).take(300).eq(again.ios(process).take(300)));
        }
    }
}

#[test]
fn another_seed_gives_other_random_ios() {
    let random = pattern(Location::Random, 1000);
    let with = |seed| random.place(SPACE, seed).unwrap().ios(0).take(50).collect::<Vec<_>>();
    assert_ne!(with(Seed(1)), with(Seed(2)));
}

#[test]
fn the_expansion_is_part_of_the_format() {
    // A recorded run is replayed from its plan and seed, so these offsets must never change.
    let first_slots = |location| slots(&pattern(location, 1000), 6);
    insta::assert_debug_snapshot!(first_slots(Location::Random), @r#"
[
    797,
    110,
    785,
    137,
    949,
    681,
]
"#);
    insta::assert_debug_snapshot!(first_slots(Location::Permutation), @r#"
[
    957,
    930,
    101,
    804,
    516,
    3,
]
"#);
    insta::assert_debug_snapshot!(first_slots(Location::Zipf { theta: 0.99 }), @r#"
[
    873,
    127,
    873,
    15,
    61,
    494,
]
"#);
    insta::assert_debug_snapshot!(first_slots(Location::HotCold { ios: 0.8, space: 0.2 }), @r#"
[
    22,
    27,
    745,
    39,
    753,
    962,
]
"#);
}

/// The paper's example (sections 4.2 and 5.1): random writes have a start-up phase of 128 IOs. A mix of 4
/// reads to 1 write with IOCount = 512 would measure only fast writes.
#[test]
fn counts_of_a_mix_are_scaled_until_both_parts_are_through_their_start_up() {
    let mut mixed = Pattern::baseline("RR").unwrap();
    let second = Pattern::baseline("RW").unwrap().first;
    mixed.mix = Some(Mix { second, ratio: 4 });
    let writes_in = |pattern: &Pattern, count: u64| {
        let placed = pattern.place(SPACE, Seed(1)).unwrap();
        placed.ios(0).take(count as usize).filter(|io| io.mode.is_write()).count()
    };
    assert!(writes_in(&mixed, 512) < 128, "the unscaled run never leaves the start-up phase");
    let (ignore, count) = mixed.scaled_for_mix((0, 512), (128, 512));
    assert_eq!((ignore, count), (640, 2560));
    assert_eq!((writes_in(&mixed, ignore), writes_in(&mixed, ignore - 1)), (128, 127));
    assert_eq!(writes_in(&mixed, count), 512);
}

proptest! {
    #[test]
    fn scaled_counts_are_the_shortest_that_suffice(ratio in 1u32..9, first in 0u64..60, second in 0u64..60) {
        let mut mixed = Pattern::baseline("RR").unwrap();
        mixed.mix = Some(Mix { second: Pattern::baseline("RW").unwrap().first, ratio });
        let (ignore, count) = mixed.scaled_for_mix((first, first + 1), (second, second + 1));
        let placed = mixed.place(SPACE, Seed(1)).unwrap();
        let suffices = |length: u64, of_first: u64, of_second: u64| {
            let writes = placed.ios(0).take(length as usize).filter(|io| io.mode.is_write()).count() as u64;
            length - writes >= of_first && writes >= of_second
        };
        prop_assert!(suffices(ignore, first, second));
        prop_assert!(ignore == 0 || !suffices(ignore - 1, first, second));
        prop_assert!(suffices(count, first + 1, second + 1) && !suffices(count - 1, first + 1, second + 1));
    }
}

#[test]
fn slots_that_are_wider_than_the_ios_keep_them_apart() {
    let offsets = |location, shift| -> Vec<u64> {
        let mut pattern = Pattern::baseline("SR").unwrap();
        pattern.first.location = location;
        pattern.first.io_size = IoSize::Fixed(Bytes(1024));
        pattern.first.slot_size = Some(Bytes(4096));
        pattern.first.io_shift = Bytes(shift);
        pattern.first.target_size = Some(Bytes(16384));
        let space = Space { capacity: Bytes::mib(1), block: Bytes(512) };
        let placed = pattern.place(space, Seed(1)).unwrap();
        placed.ios(0).take(5).map(|io| io.offset.0).collect()
    };
    assert_eq!(offsets(Location::Sequential, 0), [0, 4096, 8192, 12288, 0]);
    // A read of 1 KiB across each boundary of 4 KiB; the last one would end beyond the target.
    assert_eq!(offsets(Location::Sequential, 3584), [3584, 7680, 11776, 3584, 7680]);
    assert_eq!(offsets(Location::Ordered { incr: 2 }, 0), [0, 8192, 4096, 12288, 0]);
    let mut permutation = offsets(Location::Permutation, 0);
    permutation.pop();
    permutation.sort_unstable();
    assert_eq!(permutation, [0, 4096, 8192, 12288]);
}
