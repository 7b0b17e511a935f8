//! A drive in its steady state stalls for tens to hundreds of milliseconds, not for seconds: it collects and folds at the host's pace.

use flashlab_base::{ActivityKind, Bytes, Nanos};
use flashlab_device::{Conditioning, Device};
use flashlab_sim::flash::Cause;
use flashlab_sim::{FlashDevice, SimulatedDevice, zoo};

use crate::writers::{Load, resized, response_times};

/// The drives of the zoo with an SLC cache. Without pace the longest stalls of 2 GiB were 3.9 s, 6.4 s and 8.5 s.
const DRIVES: [&str; 3] = ["nvme-consumer", "emmc", "qlc-sata"];
/// Small, so that the test is short. How long a fold takes does not depend on it.
const CAPACITY: Bytes = Bytes::gib(1);

/// The drive, written three times.
fn conditioned(name: &str) -> FlashDevice {
    let profile = zoo().into_iter().find(|profile| profile.name == name).unwrap();
    let SimulatedDevice::Flash(mut device) = resized(&profile, CAPACITY).unwrap().device().unwrap() else {
        panic!("{name} is a flash drive")
    };
    let slots = Load::RANDOM.slots(&device);
    device.condition(&mut Load::RANDOM.filling(slots, 2 * slots)).unwrap();
    *device
}

#[test]
fn sixteen_writers_wait_for_no_second_in_the_steady_state() {
    for name in DRIVES {
        // Several blocks of the cache on each die.
        let mut device = conditioned(name);
        let longest = response_times(&mut device, Load::RANDOM, 80_000).into_iter().max().unwrap();
        assert!(longest < Nanos::from_millis(700), "{name} stalls for {longest}");
    }
}

/// What a device says of its own work: none while nobody asks, then all of it, when requests waited for it.
#[test]
fn a_device_tells_when_it_collects_and_folds() {
    let mut device = conditioned("nvme-consumer");
    assert_eq!(device.telemetry().unwrap().take_activity(100), [], "nobody asked");
    let begin = device.now();
    device.telemetry().unwrap().note_activity();
    let before = device.flash().counts().clone();
    response_times(&mut device, Load::RANDOM, 40_000);
    let counts = device.flash().counts().since(&before);
    let end = device.now();
    let activity = device.telemetry().unwrap().take_activity(100);
    for (kind, cause) in [(ActivityKind::Collection, Cause::Reclaim), (ActivityKind::Folding, Cause::Fold)] {
        let spans: Vec<_> = activity.iter().filter(|span| span.kind == kind).collect();
        let pages: u64 = spans.iter().map(|span| span.amount.pages).sum();
        let erases: u64 = spans.iter().map(|span| span.amount.erases).sum();
        assert_eq!(
            (pages, erases),
            (counts.pages_programmed(cause), counts.blocks_erased(cause)),
            "{kind:?}"
        );
        assert!(pages > 0 && !spans.is_empty() && spans.len() <= 100, "{kind:?}: {}", spans.len());
        assert!(spans.iter().all(|span| begin.0 <= span.start_ns && span.start_ns < span.end_ns));
        assert!(spans.iter().all(|span| span.start_ns <= end.0));
    }
    assert_eq!(device.telemetry().unwrap().take_activity(100), [], "it was taken");
}
