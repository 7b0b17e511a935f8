//! Measures 4 KiB random reads of a file for comparison with fio, and prints one line of figures.
//!
//!     compare FILE sync|uring DEPTH SECONDS
//!
//! It does what the engine of flashlab does for each IO (choose an address, submit, wait, keep the two
//! stamps) and nothing else: what it lacks against fio's figures is the fault of this crate. The script
//! `compare.sh` beside it runs the two alternately.

use std::error::Error;

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::{Arena, Device, Operation, Request};
use flashlab_host::{Engine, OpenOptions, open};

const BLOCK: Bytes = Bytes::kib(4);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, engine, depth, seconds] = arguments.as_slice() else {
        return Err("usage: compare FILE sync|uring DEPTH SECONDS".into());
    };
    let engine = if engine == "sync" { Engine::Synchronous } else { Engine::IoUring };
    let options = OpenOptions { engine, depth: depth.parse()?, ..OpenOptions::default() };
    let mut device = open(path, &options)?;
    let responses = measure(&mut *device, Nanos::from_secs(seconds.parse()?))?;
    print(responses);
    Ok(())
}

/// Reads at random with the queue full; the response times, and how long it all took.
fn measure(device: &mut dyn Device, duration: Nanos) -> Result<(Vec<u32>, Nanos), Box<dyn Error>> {
    let blocks = device.geometry().capacity.0 / BLOCK.0;
    let mut prng = Prng::new(Seed(1));
    let mut responses = Vec::with_capacity(1 << 24);
    let mut read = |device: &mut dyn Device, tag, buffer| {
        let offset = Bytes(prng.below(blocks) * BLOCK.0);
        device.submit(Request { tag, operation: Operation::Read, offset, size: BLOCK, buffer });
    };
    let start = device.now();
    for (tag, buffer) in Arena::buffers(device.geometry().depth as usize, BLOCK).into_iter().enumerate() {
        read(device, tag as u64, buffer);
    }
    let end = start + duration;
    while let Some(done) = device.wait(Nanos::MAX) {
        done.result?;
        responses.push(u32::try_from(done.completed.since(done.submitted).0)?);
        if done.completed < end {
            read(device, done.tag, done.buffer);
        }
    }
    Ok((responses, device.now().since(start)))
}

fn print((mut responses, elapsed): (Vec<u32>, Nanos)) {
    responses.sort_unstable();
    let percentile = |p: f64| responses[((responses.len() - 1) as f64 * p) as usize];
    let sum: u64 = responses.iter().map(|&ns| u64::from(ns)).sum();
    println!(
        "{:.0} {:.0} {} {}",
        responses.len() as f64 / elapsed.as_secs_f64(),
        sum as f64 / responses.len() as f64,
        percentile(0.5),
        percentile(0.99)
    );
}
