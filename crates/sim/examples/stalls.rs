//! The response times of 16 writers, of every flash drive of the zoo: `cargo run --release -p flashlab-sim --example stalls [NAME ...]`.
//!
//! # Method
//! 1. The capacity is lowered to 8 GiB where it is larger, because the time of a collection does not depend on it. An SLC cache
//!    and a cached map keep their shares.
//! 2. The device is written sequentially once and randomly until its write amplification is steady, without times; for the sequential
//!    writers only sequentially.
//! 3. 16 writers write 4 KiB randomly, then 1 MiB randomly and sequentially, each to a device of its own: the first half of their IOs fills
//!    the buffers and is not counted.

use flashlab_base::Bytes;
use flashlab_device::{Conditioning, Device};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice, zoo};

#[path = "../tests/sim/writers.rs"]
mod writers;
use writers::{Load, resized, response_times};

/// Larger devices are made this large: conditioning takes the host's time in proportion to the capacity.
const MOST: Bytes = Bytes::gib(8);
/// The loads, and how many IOs are counted: of the small ones 100 above the 99.9th percentile, of the large ones those that write an SLC
/// cache of 1 GiB several times.
const LOADS: [(&str, Load, usize); 3] = [
    ("random", Load::RANDOM, 100_000),
    ("1 MiB random", Load { io: Bytes::mib(1), sequential: false }, 5_000),
    ("1 MiB in order", Load { io: Bytes::mib(1), sequential: true }, 5_000),
];

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "{:<22} {:<14} {:>10} {:>10} {:>10} {:>10} {:>6} {:>8}",
        "device", "writes", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "WA", "IOPS"
    );
    for profile in zoo().into_iter().filter(|profile| names.is_empty() || names.contains(&profile.name)) {
        let smaller = (profile.capacity > MOST).then(|| resized(&profile, MOST)).flatten();
        let profile = smaller.unwrap_or(profile);
        for (name, load, counted) in LOADS {
            if let Ok(SimulatedDevice::Flash(device)) = profile.device() {
                measure(&profile, *device, name, load, counted);
            }
        }
    }
}

fn measure(profile: &Profile, mut device: FlashDevice, writes: &str, load: Load, counted: usize) {
    let slots = load.slots(&device);
    let steady = if load.sequential {
        device.condition(&mut load.filling(slots, 0)).expect("writes succeed");
        true
    } else {
        device.condition_until_steady(&mut load.filling(slots, 8 * slots)).expect("writes succeed").steady
    };
    let before = device.flash().counts().clone();
    let started = device.now();
    let mut times = response_times(&mut device, load, 2 * counted);
    let since = device.flash().counts().since(&before);
    let seconds = device.now().since(started).0 as f64 / 1e9;
    let mut last = times.split_off(counted);
    last.sort_unstable();
    let at = |share: f64| last[((last.len() - 1) as f64 * share) as usize].0 as f64 / 1e6;
    println!(
        "{:<22} {:<14} {:>10.3} {:>10.3} {:>10.3} {:>10.3} {:>6.2} {:>8.0}{}",
        profile.name,
        writes,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        since.write_amplification().unwrap_or_default(),
        2.0 * counted as f64 / seconds,
        if steady { "" } else { " not steady" },
    );
}
