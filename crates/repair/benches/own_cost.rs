//! What a volume costs by itself: `cargo bench -p flashlab-repair --bench own_cost -- [PART OF A NAME]`.
//!
//! The device is memory, so that all time is the volume's and that of copying. Random writes and reads of 4 KiB; CPU time of this
//! thread, because others may use the CPU. Rounds alternate, and the median counts. The rate of appended pages has the
//! host's pages and the copies of packing.

mod cpu_time;

use std::hint::black_box;
use std::time::Instant;

use flashlab_base::{Bytes, Nanos, Prng, Seed, median};
use flashlab_device::{Arena, Device, MemoryDevice, Operation, Request};
use flashlab_repair::{
    LayoutOptions, MountOptions, Policy, Volume, VolumeLayout, VolumeUuid, WorkloadKind, WriteWorkload,
    default_policy, policy_named,
};

use cpu_time::cpu_time;

const PAGE: usize = 4096;
const CAPACITY: Bytes = Bytes::mib(2048);
/// Small, so that this volume has as many segments as one of 8 GiB with segments of 4 MiB.
const SEGMENT: Bytes = Bytes::mib(1);
const ROUNDS: usize = 7;
const WRITES: u64 = 200_000;
const READS: u64 = 50_000;
/// Random writes of 4 KiB a second that one core should do.
const GOAL: f64 = 400_000.0;

fn greedy(layout: &VolumeLayout) -> Box<dyn Policy> {
    policy_named("greedy").expect("there is such a policy")(layout.segment_count)
}

fn new_volume(fill: f64, policy: fn(&VolumeLayout) -> Box<dyn Policy>) -> Volume<MemoryDevice> {
    let mut device = MemoryDevice::new(CAPACITY, Nanos(1));
    let options = LayoutOptions {
        capacity: CAPACITY,
        page: Bytes(PAGE as u64),
        segment: SEGMENT,
        logical_pages: (CAPACITY.0 as f64 * fill) as u64 / PAGE as u64,
        checkpoint_interval: Bytes::mib(64),
    };
    Volume::create(&mut device, VolumeUuid([1; 16]), options).expect("the options are possible");
    Volume::open(device, MountOptions::default(), policy).expect("it was just made")
}

fn main() {
    let begin = Instant::now();
    let zipf = WorkloadKind::Zipf(0.99);
    writes("uniform, 20 % full, greedy", 0.2, WorkloadKind::Uniform, greedy, begin);
    writes("uniform, 80 % full, greedy", 0.8, WorkloadKind::Uniform, greedy, begin);
    writes("zipf 0.99, 80 % full, greedy", 0.8, zipf, greedy, begin);
    writes("zipf 0.99, 80 % full, default policy", 0.8, zipf, default_policy, begin);
    reads(&mut Prng::new(Seed(1)), begin);
}

/// Whether the command line names this measurement, or none.
fn is_wanted(name: &str) -> bool {
    let mut parts = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).peekable();
    parts.peek().is_none() || parts.any(|part| name.contains(&part))
}

/// Random writes in the steady state.
fn writes(
    name: &str,
    fill: f64,
    workload: WorkloadKind,
    policy: fn(&VolumeLayout) -> Box<dyn Policy>,
    begin: Instant,
) {
    if !is_wanted(name) {
        return;
    }
    let data = vec![7; PAGE];
    let mut volume = new_volume(fill, policy);
    let pages = volume.size().0 / PAGE as u64;
    (0..pages).for_each(|page| volume.write(page * PAGE as u64, &data).expect("memory does not fail"));
    let mut workload = WriteWorkload::new(workload, pages as u32, Seed(1));
    let mut next = |count: u64| -> Vec<u64> { (0..count).map(|_| u64::from(workload.next_page())).collect() };
    let write = |volume: &mut Volume<MemoryDevice>, pages: &[u64]| {
        for page in pages {
            volume.write(page * PAGE as u64, &data).expect("memory does not fail");
        }
    };
    write(&mut volume, &next(2 * pages));
    let mut rates = Vec::new();
    let before = volume.counters();
    for _ in 0..ROUNDS {
        let pages = next(WRITES);
        let start = cpu_time(begin);
        write(&mut volume, &pages);
        rates.push(WRITES as f64 / (cpu_time(begin) - start).as_secs_f64());
    }
    let after = volume.counters();
    let copied = (after.copied_pages - before.copied_pages) as f64 / (ROUNDS as u64 * WRITES) as f64;
    let rate = median(rates).expect("there are rounds");
    println!(
        "random 4 KiB writes, {name}: {rate:.0} pages/s, {:.2} of the goal; {copied:.2} copies for each, {:.0} appended \
         pages/s",
        rate / GOAL,
        rate * (1.0 + copied)
    );
}

/// Reads of the volume and of the device, alternately.
fn reads(random: &mut Prng, begin: Instant) {
    if !is_wanted("reads") {
        return;
    }
    let mut volume = new_volume(0.8, greedy);
    let mut device = MemoryDevice::new(CAPACITY, Nanos(1));
    let pages = volume.size().0 / PAGE as u64;
    let mut data = vec![7; PAGE];
    (0..pages).for_each(|page| volume.write(page * PAGE as u64, &data).expect("memory does not fail"));
    let mut buffer = Some(Arena::buffers(1, Bytes(PAGE as u64)).remove(0));
    let (mut repaired, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = cpu_time(begin);
        for _ in 0..READS {
            volume.read(random.below(pages) * PAGE as u64, &mut data).expect("memory does not fail");
        }
        let middle = cpu_time(begin);
        for tag in 0..READS {
            let offset = Bytes(random.below(pages) * PAGE as u64);
            let buffer_of_io = buffer.take().expect("it came back");
            let (operation, size) = (Operation::Read, Bytes(PAGE as u64));
            device.submit(Request { tag, operation, offset, size, buffer: buffer_of_io });
            let done = device.wait(Nanos::MAX).expect("one is in flight");
            buffer = Some(done.buffer);
        }
        let end = cpu_time(begin);
        repaired.push((middle - start).as_secs_f64() / READS as f64 * 1e6);
        direct.push((end - middle).as_secs_f64() / READS as f64 * 1e6);
        black_box(&data);
    }
    println!(
        "random 4 KiB reads: {:.2} us, direct {:.2} us",
        median(repaired).expect("there are rounds"),
        median(direct).expect("there are rounds")
    );
}
