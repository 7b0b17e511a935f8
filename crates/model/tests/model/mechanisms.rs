//! Models of one mechanism, on simulated devices that have it.

use std::sync::atomic::AtomicBool;

use flashlab_base::{Bytes, Mode, Sample, Seed};
use flashlab_device::{Device, Operation};
use flashlab_engine::Control;
use flashlab_model::{
    ExternalMemoryCost, GarbageCollection, Linear, Measured, PerformanceModel, SeekLine, SeekRequest,
    fill_of, write_amplification,
};
use flashlab_plan::{IoSize, Pattern, Space};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice};

fn profile(name: &str) -> Profile {
    flashlab_sim::zoo().into_iter().find(|profile| profile.name == name).unwrap()
}

/// Runs so many IOs of a baseline, within the first `part` of the device.
fn run(
    device: &mut dyn Device,
    baseline: &str,
    size: Bytes,
    ios: u64,
    part: Bytes,
    seed: u64,
) -> Vec<Sample> {
    let geometry = device.geometry();
    let mut pattern = Pattern::baseline(baseline).unwrap().on_target(Bytes::ZERO, part);
    pattern.first.io_size = IoSize::Fixed(size);
    pattern.io_count = Some(ios);
    let space = Space { capacity: geometry.capacity, block: geometry.block };
    let placed = pattern.place(space, Seed(seed)).unwrap();
    let interrupt = AtomicBool::new(false);
    let control = Control { interrupt: &interrupt, time_limit: None, failures_allowed: 0 };
    let mut samples = [Vec::new()];
    flashlab_engine::run(device, &placed, &mut samples, &control).unwrap();
    samples.into_iter().next().unwrap()
}

/// Each read with the distance from the end of the one before.
fn requests(samples: &[Sample], capacity: Bytes) -> Vec<Measured<SeekRequest>> {
    let pairs = samples.windows(2).map(|pair| {
        let end = pair[0].offset + pair[0].size;
        let distance = end.0.abs_diff(pair[1].offset.0) as f64 / capacity.0 as f64;
        let figure = pair[1].response().0 as f64;
        Measured { input: SeekRequest { size: pair[1].size, distance }, figure }
    });
    pairs.collect()
}

#[test]
fn a_hard_disk_seeks_and_a_throughput_model_does_not() {
    for (name, seeks) in [("barracuda", true), ("zeus", false)] {
        let mut device = profile(name).device().unwrap();
        let capacity = device.geometry().capacity;
        let mut measured = Vec::new();
        for size in [Bytes::kib(4), Bytes::kib(256), Bytes::mib(1)] {
            measured.extend(requests(&run(&mut device, "RR", size, 300, capacity, size.0), capacity));
        }
        let line = SeekLine::fit(&measured).unwrap();
        if seeks {
            assert!(line.seek_p_value < 1e-6 && line.full_seek_ns.low > 1e6, "{line:?}");
            // The means of what is measured with another seed.
            let size = Bytes::kib(64);
            let others = requests(&run(&mut device, "RR", size, 300, capacity, 99), capacity);
            let mean = |of: &dyn Fn(&Measured<SeekRequest>) -> f64| {
                others.iter().map(of).sum::<f64>() / others.len() as f64
            };
            let ratio = mean(&|point| line.predict(point.input).estimate) / mean(&|point| point.figure);
            assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
        } else {
            let share = line.full_seek_ns.estimate.abs() / line.a_ns.estimate;
            assert!(share < 1e-3, "{line:?}");
        }
    }
}

const CAPACITY: Bytes = Bytes::mib(256);
const WRITE: Bytes = Bytes::kib(16);

/// Fills a part of a new device, overwrites it randomly, and measures random writes: write amplification, mean time.
fn filled(profile: &Profile, share: f64) -> (f64, f64) {
    let part = Bytes((CAPACITY.0 as f64 * share) as u64).round_down(WRITE);
    let SimulatedDevice::Flash(mut device) = profile.device().unwrap() else { panic!("flash") };
    let pages = part.0 / WRITE.0;
    let mut prng = flashlab_base::Prng::new(Seed(3));
    let mut ios = (0..pages)
        .map(|page| (Operation::Write, WRITE * page, WRITE))
        .chain((0..6 * pages).map(|_| (Operation::Write, WRITE * prng.below(pages), WRITE)));
    device.conditioning().unwrap().condition(&mut ios).unwrap();
    let programmed = |device: &mut Box<FlashDevice>| device.telemetry().unwrap().programmed().unwrap().0;
    let before = programmed(&mut device);
    let samples = run(device.as_mut(), "RW", WRITE, 2 * pages, part, 5);
    assert!(samples.iter().all(|sample| sample.mode == Mode::Write));
    let host: u64 = samples.iter().map(|sample| sample.size.0).sum();
    let time = samples.last().unwrap().completed.0 - samples[0].submitted.0;
    ((programmed(&mut device) - before) as f64 / host as f64, time as f64 / samples.len() as f64)
}

#[test]
fn a_fill_that_was_never_fitted_is_predicted() {
    let profile = profile("tlc-sata").resized(CAPACITY).unwrap();
    let fitted: Vec<(f64, (f64, f64))> =
        [0.6, 0.7, 0.85, 0.9].map(|share| (share, filled(&profile, share))).into();
    let measured: Vec<Measured<f64>> =
        fitted.iter().map(|(_, (input, figure))| Measured { input: *input, figure: *figure }).collect();
    let model = GarbageCollection::fit(&measured).unwrap();
    assert!(model.copy_cost > 0.0, "{model:?}");
    // The physical pages follow from the write amplification of the fullest device, and that of another fill from them.
    let pages = fitted[3].0 / fill_of(fitted[3].1.0);
    let (amplification, time) = filled(&profile, 0.8);
    let predicted = write_amplification(0.8 / pages);
    println!("{fitted:?} {model:?} {predicted} {amplification} {time}");
    assert!((predicted / amplification - 1.0).abs() < 0.1, "{predicted} {amplification}");
    assert!((model.predict(predicted).estimate / time - 1.0).abs() < 0.1, "{model:?} {predicted} {time}");
}

#[test]
fn an_asymmetric_device_charges_writes_in_reads() {
    let line = |a_us: f64, b_us_per_kib: f64| {
        let sizes = (2..13).map(|power| Bytes::kib(1 << power));
        let measured: Vec<Measured<Bytes>> = sizes
            .map(|input| Measured { input, figure: 1e3 * (a_us + b_us_per_kib * input.0 as f64 / 1024.0) })
            .collect();
        Linear::fit(&measured).unwrap()
    };
    // A read saturates to a half at 25 KiB, a write at 400 KiB.
    let cost = ExternalMemoryCost::of_lines(&line(100.0, 4.0), &line(2000.0, 5.0));
    assert_eq!((cost.read_block, cost.write_block), (Bytes::kib(32), Bytes::kib(512)));
    assert!((cost.read_ns - 228e3).abs() < 1.0, "{cost:?}");
    assert!((cost.write_cost - 4560.0 / 228.0).abs() < 1e-6, "{cost:?}");
    assert!((cost.seconds(10.0, 3.0) - (2280e-6 + 3.0 * 4560e-6)).abs() < 1e-9);
    assert!((cost.seconds_for(Bytes::kib(64), Bytes::mib(1)) - (456e-6 + 9120e-6)).abs() < 1e-9);
}
