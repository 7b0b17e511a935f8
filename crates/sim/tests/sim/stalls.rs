//! A drive in its steady state stalls for tens to hundreds of milliseconds, not for seconds: it collects and folds at the host's pace.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Conditioning, Device, Operation, Request};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice, Translation, zoo};

const IO: Bytes = Bytes::kib(4);
const WRITERS: u64 = 16;
/// The drives of the zoo with an SLC cache. Without pace the longest stalls of 2 GiB were 3.9 s, 6.4 s and 8.5 s.
const DRIVES: [&str; 3] = ["nvme-consumer", "emmc", "qlc-sata"];
/// Small, so that the test is short. How long a fold takes does not depend on it.
const CAPACITY: Bytes = Bytes::gib(1);

fn drive(name: &str) -> FlashDevice {
    let mut profile: Profile = zoo().into_iter().find(|profile| profile.name == name).unwrap();
    if let Translation::DemandMap(options) = &mut profile.translation {
        let share = CAPACITY.0 as f64 / profile.capacity.0 as f64;
        options.cached_entries = (f64::from(options.cached_entries) * share) as u32;
    }
    match profile.resized(CAPACITY).unwrap().device().unwrap() {
        SimulatedDevice::Flash(device) => *device,
        _ => panic!("{name} is a flash drive"),
    }
}

/// The response times of writers that write randomly, after the device was written three times.
fn response_times(device: &mut FlashDevice, count: usize) -> Vec<Nanos> {
    let slots = device.geometry().capacity.0 / IO.0;
    let mut places = Prng::new(Seed(2));
    let sequential = (0..slots).map(|slot| (Operation::Write, Bytes(slot * IO.0), IO));
    let random = (0..2 * slots).map(|_| (Operation::Write, Bytes(places.below(slots) * IO.0), IO));
    device.condition(&mut sequential.chain(random)).unwrap();
    let mut random = Prng::new(Seed(1));
    let mut submit = |device: &mut FlashDevice| {
        let offset = Bytes(random.below(slots) * IO.0);
        device.submit(Request {
            tag: 0,
            operation: Operation::Write,
            offset,
            size: IO,
            buffer: Buffer::empty(),
        });
    };
    (0..WRITERS).for_each(|_| submit(device));
    let mut times = Vec::with_capacity(count);
    while times.len() < count {
        let done = device.wait(Nanos::MAX).unwrap();
        done.result.unwrap();
        times.push(done.completed.since(done.submitted));
        submit(device);
    }
    times
}

#[test]
fn sixteen_writers_wait_for_no_second_in_the_steady_state() {
    for name in DRIVES {
        // Several blocks of the cache on each die.
        let longest = response_times(&mut drive(name), 80_000).into_iter().max().unwrap();
        assert!(longest < Nanos::from_millis(700), "{name} stalls for {longest}");
    }
}
