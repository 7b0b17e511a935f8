//! Measures how long each location function takes to expand one IO.
//!
//! `cargo run --release -p flashlab-plan --example expansion_speed`

use std::hint::black_box;
use std::time::Instant;

use flashlab_base::{Bytes, Seed};
use flashlab_plan::{Location, Pattern, Space};

fn main() {
    const IOS: u64 = 20_000_000;
    let space = Space { capacity: Bytes::gib(64), block: Bytes(4096) };
    for location in [
        Location::Sequential,
        Location::Random,
        Location::Permutation,
        Location::Ordered { incr: 7 },
        Location::Partitioned { partitions: 16 },
        Location::Zipf { theta: 0.99 },
        Location::HotCold { ios: 0.8, space: 0.2 },
    ] {
        let mut pattern = Pattern::baseline("RR").expect("RR is a baseline");
        pattern.first.location = location;
        pattern.io_count = Some(IOS);
        let placed = pattern.place(space, Seed(1)).expect("the pattern fits");
        let start = Instant::now();
        for io in placed.ios(0) {
            black_box(io);
        }
        println!("{location:?}: {:.1} ns per IO", start.elapsed().as_secs_f64() * 1e9 / IOS as f64);
    }
}
