//! Measures how late a sleeping thread wakes up, and how late a wait on a device ends.
//!
//!     sleep FILE
//!
//! The first figure is what the spinning of the clock has to cover. The second is the error that remains.

use std::error::Error;
use std::time::{Duration, Instant};

use flashlab_base::Nanos;
use flashlab_host::{OpenOptions, open};

const ROUNDS: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: sleep FILE")?;
    let mut device = open(path, &OpenOptions::default())?;
    // One wait sets this thread's timer slack, which also affects the sleeps below.
    let until = device.now() + Nanos::from_millis(1);
    device.wait(until);
    for pause in [200, 1_000, 5_000].map(Nanos::from_micros) {
        let sleeps = (0..ROUNDS).map(|_| {
            let start = Instant::now();
            std::thread::sleep(Duration::from_nanos(pause.0));
            start.elapsed().as_nanos() as u64 - pause.0
        });
        print("asleep in the kernel", pause, sleeps.collect());
        let waits = (0..ROUNDS).map(|_| {
            let until = device.now() + pause;
            device.wait(until);
            device.now().since(until).0
        });
        print("waiting on a device", pause, waits.collect());
    }
    let start = Instant::now();
    for _ in 0..1_000_000 {
        std::hint::black_box(device.now());
    }
    println!("one reading of the clock takes {:.1} ns", start.elapsed().as_nanos() as f64 / 1e6);
    Ok(())
}

fn print(what: &str, pause: Nanos, mut late: Vec<u64>) {
    late.sort_unstable();
    let at = |p: f64| Nanos(late[((late.len() - 1) as f64 * p) as usize]);
    println!("{what} {pause}: late by p50 {}, p99 {}, p99.9 {}", at(0.5), at(0.99), at(0.999));
}
