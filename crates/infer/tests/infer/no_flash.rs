//! Devices that are no flash, and behave in ways that flash does too, for other reasons: what is said of them is not
//! what they are not, or with little confidence.

use std::sync::atomic::AtomicBool;

use crate::made_up::MadeUp;
use flashlab_analysis::inference::{Finding, Parameter, Verdict};
use flashlab_base::{Bytes, Identity, Nanos, Prng, Seed};
use flashlab_device::{Device, Operation, Request};
use flashlab_infer::{
    InferenceEnd, InferenceSettings, Known, infer, infer_probes, nothing_known, probes_for,
};

fn inferred(device: &mut dyn Device, seed: u64) -> Known {
    inferred_by_transport(device, seed, None)
}

fn inferred_by_transport(device: &mut dyn Device, seed: u64, transport: Option<&str>) -> Known {
    let settings = InferenceSettings {
        seed: Seed(seed),
        write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(4 * 3600),
        interrupt: &AtomicBool::new(false),
    };
    let identity = Identity { transport: transport.map(str::to_owned), ..device.identity() };
    let mut known = Known::begun("no flash", identity, device.geometry().capacity);
    assert_eq!(infer(device, &settings, &mut known, &mut ()), InferenceEnd::Done);
    known
}

/// The device, which serves one IO at a time.
fn serial<F>(mut device: MadeUp<F>) -> MadeUp<F> {
    device.serial = true;
    device
}

/// Five per cent of noise, and outliers.
fn noise(random: &mut Prng) -> f64 {
    let normal: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    (0.05 * normal).exp() * if random.unit() < 0.01 { 10.0 } else { 1.0 }
}

/// What is found of these parameters, and is neither nothing (0 or 1) nor unsure.
fn confident<'a>(known: &'a Known, parameters: &[Parameter], from: f64) -> Vec<&'a Finding> {
    let says = |finding: &&Finding| {
        finding.verdict == Verdict::Found
            && finding.confidence >= from
            && finding.number().is_none_or(|number| number != 0.0 && number != 1.0)
    };
    known.findings.iter().filter(|finding| parameters.contains(&finding.parameter)).filter(says).collect()
}

/// What only flash has.
const OF_FLASH: [Parameter; 15] = [
    Parameter::ReadPageSize,
    Parameter::PlanesReadAtOnce,
    Parameter::ChunkSize,
    Parameter::ParallelUnits,
    Parameter::StripeSize,
    Parameter::Channels,
    Parameter::WritePageSize,
    Parameter::EraseBlockSize,
    Parameter::OpenBlocks,
    Parameter::MappingGranularity,
    Parameter::MisalignmentPenalty,
    Parameter::PhysicalCapacity,
    Parameter::OverProvisioning,
    Parameter::SlcCacheSize,
    Parameter::SlcCacheRefill,
];

#[test]
fn memory_has_no_pages_and_no_blocks() {
    let mut random = Prng::new(Seed(1));
    let memory = move |request: &Request, _| (10e3 + request.size.0 as f64) * noise(&mut random);
    let known = inferred(&mut MadeUp::new(Bytes::mib(256), memory), 1);
    assert_eq!(confident(&known, &OF_FLASH, 0.0), Vec::<&Finding>::new());
    let family = known.get(Parameter::TranslationFamily).unwrap();
    assert!(
        family.evidence.starts_with(
            "Nothing was found that only flash has, such as blocks that are erased (the value would be page)."
        ),
        "{}",
        family.evidence
    );
}

#[test]
fn what_is_inside_a_virtual_disk_is_not_told() {
    let inside = |transport| {
        let mut random = Prng::new(Seed(1));
        let memory = move |request: &Request, _| (10e3 + request.size.0 as f64) * noise(&mut random);
        let known = inferred_by_transport(&mut MadeUp::new(Bytes::mib(64), memory), 1, transport);
        assert!(known.get(Parameter::UsefulQueueDepth).unwrap().verdict == Verdict::Found);
        known.get(Parameter::WriteBufferSize).unwrap().clone()
    };
    let (of_its_own, of_a_host) = (inside(None), inside(Some("virtio")));
    assert_eq!(of_its_own.verdict, Verdict::Found);
    assert_eq!(of_a_host.verdict, Verdict::Undetermined);
    assert!(
        of_a_host.evidence.contains("The disk is virtual (attached by virtio): probes may measure its host in place of flash (the value would be 0 B)")
    );
    assert!(of_a_host.evidence.ends_with(&of_its_own.evidence));
}

/// With 48 such devices four were taken for collection of garbage, all by the same rule (`late collection`): by chance, what is at most one
/// in six.
#[test]
fn housekeeping_by_the_clock_is_no_erase_block() {
    let mut taken_for_blocks = Vec::new();
    for (seed, period_ns) in
        [1, 2].into_iter().flat_map(|seed| [50, 333, 20].map(|ms| (seed, ms * 1_000_000)))
    {
        let mut random = Prng::new(Seed(seed));
        let mut next = Nanos::ZERO;
        let flash = move |request: &Request, begin: Nanos| {
            let mut time = (80e3 + 4.0 * request.size.0 as f64) * noise(&mut random);
            if begin > next {
                time += 5e6;
                next = Nanos(begin.0 / period_ns * period_ns + period_ns);
            }
            time
        };
        let known = inferred(&mut serial(MadeUp::new(Bytes::mib(256), flash)), seed);
        let found = confident(&known, &OF_FLASH, 0.8);
        let found: Vec<_> = found.iter().map(|finding| (finding.parameter, finding.confidence)).collect();
        if !found.is_empty() {
            taken_for_blocks.push((seed, period_ns, found));
        }
    }
    assert!(taken_for_blocks.len() <= 1, "{taken_for_blocks:?}");
}

#[test]
fn a_hard_disk_is_not_taken_for_flash() {
    for seed in [1, 2] {
        let mut random = Prng::new(Seed(seed));
        let (capacity, mut head) = (Bytes::mib(512), 0);
        let disk = move |request: &Request, _: Nanos| {
            let distance = request.offset.0.abs_diff(head) as f64 / capacity.0 as f64;
            head = request.offset.0 + request.size.0;
            let turn =
                if distance == 0.0 { 0.0 } else { 1e6 + 14e6 * distance.sqrt() + 8.3e6 * random.unit() };
            100e3 + turn + 10.0 * request.size.0 as f64 * (0.99 + 0.02 * random.unit())
        };
        let known = inferred(&mut serial(MadeUp::new(capacity, disk)), seed);
        assert_says_nothing_of_flash(&known, &format!("seed {seed}"));
    }
}

/// No parameter that only flash has, and none that advice for flash needs.
fn assert_says_nothing_of_flash(known: &Known, name: &str) {
    let of_advice = [Parameter::TranslationFamily, Parameter::WriteBufferSize];
    for parameter in
        OF_FLASH.into_iter().chain(of_advice).filter(|&one| one != Parameter::MisalignmentPenalty)
    {
        if let Some(finding) = known.get(parameter) {
            let value = finding.value_in_words();
            assert_eq!(
                finding.verdict,
                Verdict::Undetermined,
                "{name}: {parameter} {value}: {}",
                finding.evidence
            );
        }
    }
}

/// The zoo's hard disks, and others with their speed, heads and seeks changed. `sim:barracuda` was a page map at 94.9 %.
#[test]
fn hard_disks_of_the_simulator_are_not_taken_for_flash() {
    let mut judged = 0;
    for profile in flashlab_sim::zoo().into_iter().filter(|profile| profile.disk.is_some()) {
        for (seed, rpm) in [(1, None), (2, Some(5400)), (3, Some(15_000))] {
            let mut profile = profile.resized(Bytes::gib(2)).unwrap();
            if let (Some(disk), Some(rpm)) = (&mut profile.disk, rpm) {
                disk.rpm = rpm;
            }
            let mut device = profile.device().unwrap();
            assert_says_nothing_of_flash(&inferred(&mut device, seed), &format!("{} {rpm:?}", profile.name));
            judged += 1;
        }
    }
    assert!(judged >= 6, "{judged} hard disks");
}

#[test]
fn a_volume_that_is_throttled_shows_the_throttle_and_no_flash() {
    for seed in [1, 2] {
        let mut random = Prng::new(Seed(seed));
        // 3000 IOs a second, of which 300 may come at once, and 125 MB/s.
        let (mut tokens, mut last) = (300.0, Nanos::ZERO);
        let volume = move |request: &Request, begin: Nanos| {
            tokens = (tokens + begin.since(last).0 as f64 * 3e-6).min(300.0);
            last = begin;
            tokens -= 1.0;
            let wait = if tokens < 0.0 { -tokens / 3e-6 } else { 0.0 };
            let write = if request.operation == Operation::Write { 1.5 } else { 1.0 };
            (400e3 * write + 8.0 * request.size.0 as f64) * noise(&mut random) + wait
        };
        let known = inferred(&mut MadeUp::new(Bytes::mib(512), volume), seed);
        // A burst of the throttle is a region at speed, and refilled: seen from outside that is one.
        let but_for_the_burst: Vec<Parameter> = OF_FLASH
            .into_iter()
            .filter(|parameter| !matches!(parameter, Parameter::SlcCacheSize | Parameter::SlcCacheRefill))
            .collect();
        assert_eq!(confident(&known, &but_for_the_burst, 0.8), Vec::<&Finding>::new(), "seed {seed}");
    }
}

#[test]
fn a_group_that_is_at_hand_by_chance_is_not_the_first_one_again() {
    let mut random = Prng::new(Seed(1));
    let mut last = 0;
    let device = move |request: &Request, _| {
        let group = request.offset.0 / Bytes::mib(4).0;
        let goes = group != last && ![(0, 7), (7, 0)].contains(&(last, group));
        last = group;
        (if goes { 160e3 } else { 100e3 } + request.size.0 as f64) * noise(&mut random)
    };
    let known = inferred(&mut serial(MadeUp::new(Bytes::mib(64), device)), 1);
    let groups = known.get(Parameter::SegmentGroups).unwrap();
    assert_eq!(groups.number(), Some(16.0), "{}", groups.evidence);
}

/// Flash of one die whose pages may be of no power of two: a read brings all pages that it touches.
fn with_pages_of(page: Bytes, seed: u64) -> MadeUp<impl FnMut(&Request, Nanos) -> f64> {
    let mut random = Prng::new(Seed(seed));
    serial(MadeUp::new(Bytes::mib(96), move |request: &Request, _| {
        let end = request.offset.0 + request.size.0;
        let pages = end.div_ceil(page.0) - request.offset.0 / page.0;
        let parts = request.offset.0 % page.0 + end.next_multiple_of(page.0) - end;
        let reads = match request.operation {
            Operation::Read => pages,
            _ => pages.min(parts),
        };
        let programs = if request.operation == Operation::Write { pages } else { 0 };
        let flash = 60e3 * reads as f64 + 400e3 * programs as f64;
        (30e3 + flash + 10.0 * request.size.0 as f64) * noise(&mut random)
    }))
}

#[test]
fn pages_of_no_power_of_two_are_not_taken_for_others() {
    for (page, block) in [(Bytes::kib(12), Bytes(512)), (Bytes::kib(20), Bytes::kib(4))] {
        takes_nothing_else_for_pages_of(page, block);
    }
}

/// Shows that nothing else is taken for pages with confidence; a page of no power of two may not be found.
fn takes_nothing_else_for_pages_of(page: Bytes, block: Bytes) {
    let mut device = with_pages_of(page, 1);
    device.block = block;
    let settings = InferenceSettings {
        seed: Seed(1),
        write_budget: Some(InferenceSettings::usual_budget(device.geometry().capacity)),
        reading_time: Some(Nanos::from_secs(60)),
        writing_time: Nanos::from_secs(4 * 3600),
        interrupt: &AtomicBool::new(false),
    };
    let mut known = nothing_known(&device, "no flash");
    let probes = probes_for(&[Parameter::WritePageSize]);
    infer_probes(&mut device, &settings, &mut known, &mut (), probes);
    for parameter in [Parameter::ReadPageSize, Parameter::WritePageSize] {
        let found = known.get(parameter).unwrap();
        let is_right = found.number() == Some(page.0 as f64) || found.confidence <= 0.7;
        assert!(is_right, "{parameter} {:?}: {}", found.value, found.evidence);
        eprintln!("{block} {page} {parameter} {:?} {}: {}", found.value, found.confidence, found.evidence);
    }
}
