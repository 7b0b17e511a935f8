//! The response times of 16 random writers in the steady state, of every flash drive of the zoo:
//! `cargo run --release -p flashlab-sim --example stalls [NAME ...]`.
//!
//! # Method
//! 1. The capacity is lowered to 8 GiB where it is larger, because the time of a collection does not depend on it. An SLC cache
//!    and a cached map keep their shares.
//! 2. The device is written sequentially once and randomly until its write amplification is steady, without times.
//! 3. 16 writers write 4 KiB randomly: the first half of their IOs fills the buffers and is not counted.

use flashlab_base::{Bytes, Prng, Seed};
use flashlab_device::{Device, Operation};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice, zoo};

#[path = "../tests/sim/writers.rs"]
mod writers;
use writers::{IO, resized, response_times};

/// Larger devices are made this large: conditioning takes the host's time in proportion to the capacity.
const MOST: Bytes = Bytes::gib(8);
/// A 99.9th percentile of 100 IOs above it.
const COUNTED: usize = 100_000;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "{:<22} {:>10} {:>10} {:>10} {:>10} {:>6} {:>8}",
        "device", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "WA", "IOPS"
    );
    for profile in zoo().into_iter().filter(|profile| names.is_empty() || names.contains(&profile.name)) {
        let smaller = (profile.capacity > MOST).then(|| resized(&profile, MOST)).flatten();
        let profile = smaller.unwrap_or(profile);
        if let Ok(SimulatedDevice::Flash(device)) = profile.device() {
            measure(&profile, *device);
        }
    }
}

fn measure(profile: &Profile, mut device: FlashDevice) {
    let slots = device.geometry().capacity.0 / IO.0;
    let sequential = (0..slots).map(|slot| (Operation::Write, Bytes(slot * IO.0), IO));
    let mut places = Prng::new(Seed(2));
    let anywhere = (0..8 * slots).map(|_| (Operation::Write, Bytes(places.below(slots) * IO.0), IO));
    let conditioned = device.condition_until_steady(&mut sequential.chain(anywhere)).expect("writes succeed");
    let before = device.flash().counts().clone();
    let started = device.now();
    let mut times = response_times(&mut device, 2 * COUNTED);
    let since = device.flash().counts().since(&before);
    let seconds = device.now().since(started).0 as f64 / 1e9;
    let mut counted = times.split_off(COUNTED);
    counted.sort_unstable();
    let at = |share: f64| counted[((counted.len() - 1) as f64 * share) as usize].0 as f64 / 1e6;
    println!(
        "{:<22} {:>10.3} {:>10.3} {:>10.3} {:>10.3} {:>6.2} {:>8.0}{}",
        profile.name,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        since.write_amplification().unwrap_or_default(),
        2.0 * COUNTED as f64 / seconds,
        if conditioned.steady { "" } else { " not steady" },
    );
}
