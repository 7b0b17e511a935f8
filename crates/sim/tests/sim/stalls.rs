//! A drive in its steady state stalls for tens to hundreds of milliseconds, not for seconds: it collects and folds at the host's pace.

use flashlab_base::{Bytes, Nanos};
use flashlab_device::Conditioning;
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
