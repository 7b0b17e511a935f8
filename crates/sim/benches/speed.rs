//! How fast the simulator is and how much memory it takes: `cargo bench -p flashlab-sim --bench speed`.
//!
//! One core. The first part is a device of 4 GiB raw with 256-page blocks and 25 % spare under uniform random writes of
//! 4 KiB in the steady state: with times, one request after the other through the `Device` interface, and
//! conditioning without times; medians of several alternated rounds. The second part, with `-- tebibyte`, brings a 1 TiB
//! device to its random steady state and measures it.

use std::error::Error;
use std::time::Instant;

use flashlab_base::{Bytes, Nanos, Prng, Seed, median};
use flashlab_device::{Buffer, Conditioning, Device, Operation, Request};
use flashlab_sim::{FlashDevice, Profile, SimulatedDevice};

const PAGE: u64 = 4096;
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().any(|argument| argument == "tebibyte") {
        return tebibyte();
    }
    four_gibibytes()
}

fn profile(capacity: Bytes, over_provisioning: f64, more: &str) -> Result<Profile, Box<dyn Error>> {
    let text = format!(
        "version = 2\nname = \"speed\"\ntitle = \"\"\nsource = \"\"\nfit = \"\"\ncapacity = \"{}\"\n\
         [flash]\npages_per_block = 256\nover_provisioning = {over_provisioning}\n{more}",
        capacity.exact()
    );
    Ok(Profile::parse(&text, "speed")?)
}

fn device(profile: &Profile) -> Result<FlashDevice, Box<dyn Error>> {
    match profile.device()? {
        SimulatedDevice::Flash(device) => Ok(*device),
        _ => Err("a flash device was described".into()),
    }
}

/// Uniform random writes of one page.
fn random_writes(pages: u64, count: u64, seed: u64) -> impl Iterator<Item = (Operation, Bytes, Bytes)> {
    let mut random = Prng::new(Seed(seed));
    (0..count).map(move |_| (Operation::Write, Bytes(random.below(pages) * PAGE), Bytes(PAGE)))
}

fn sequential_fill(device: &mut FlashDevice, capacity: Bytes) -> Result<(), Box<dyn Error>> {
    let size = Bytes::mib(1);
    let ios = (0..capacity.0 / size.0).map(|i| (Operation::Write, Bytes(i * size.0), size));
    device.condition(&mut ios.into_iter())?;
    Ok(())
}

fn four_gibibytes() -> Result<(), Box<dyn Error>> {
    println!("4 GiB raw, 256-page blocks, 25 % spare, greedy, uniform 4 KiB writes, steady state, one core:");
    for (name, more) in [("one die", ""), ("8 dies, 4 channels", "dies = 8\nchannels = 4\n")] {
        let capacity = Bytes(Bytes::gib(4).0 * 4 / 5);
        let pages = capacity.0 / PAGE;
        let profile = profile(capacity, 0.25, more)?;
        let mut device = device(&profile)?;
        sequential_fill(&mut device, capacity)?;
        device.condition(&mut random_writes(pages, 3 * pages, 1))?;
        let (mut timed, mut untimed, mut programs) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS as u64 {
            let count = 2_000_000;
            let start = Instant::now();
            for (operation, offset, size) in random_writes(pages, count, 10 + round) {
                device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
                device.wait(Nanos::MAX).ok_or("a request was not served")?.result?;
            }
            timed.push(count as f64 / start.elapsed().as_secs_f64());
            let before = device.flash().counts().programs();
            let start = Instant::now();
            device.condition(&mut random_writes(pages, count, 100 + round))?;
            let seconds = start.elapsed().as_secs_f64();
            untimed.push(count as f64 / seconds);
            programs.push((device.flash().counts().programs() - before) as f64 / seconds);
        }
        println!(
            "  {name}: with times {:.1} M host writes/s; conditioning {:.1} M host writes/s, {:.1} M pages \
             programmed/s; ratio {:.2}; write amplification {:.3}",
            median(&timed).expect("there are rounds") / 1e6,
            median(&untimed).expect("there are rounds") / 1e6,
            median(&programs).expect("there are rounds") / 1e6,
            median(&untimed).expect("there are rounds") / median(&timed).expect("there are rounds"),
            device.statistics().write_amplification.unwrap_or(0.0),
        );
        let state = device.save();
        let loading: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                FlashDevice::restore(&profile, &state).map(|_| start.elapsed().as_secs_f64())
            })
            .collect::<Result<_, _>>()?;
        println!(
            "    a saved state has {:.2} bytes a physical page and is loaded in {:.0} ms",
            state.len() as f64 / f64::from(device.flash().geometry().pages()),
            median(&loading).expect("there are rounds") * 1e3,
        );
    }
    Ok(())
}

fn tebibyte() -> Result<(), Box<dyn Error>> {
    println!(
        "1 TiB, 256-page blocks, 25 % spare, 16 dies, 8 channels, greedy, uniform 4 KiB writes, one core:"
    );
    let start = Instant::now();
    let capacity = Bytes::gib(1024);
    let pages = capacity.0 / PAGE;
    let mut device = device(&profile(capacity, 0.25, "dies = 16\nchannels = 8\n")?)?;
    sequential_fill(&mut device, capacity)?;
    println!("  filled in {:.1?}", start.elapsed());
    let began = Instant::now();
    let state = device.condition_until_steady(&mut random_writes(pages, 4 * pages, 1))?;
    if !state.steady {
        return Err(format!("not steady after four capacities: {state:?}").into());
    }
    println!(
        "  random state in {:.1?}: {} written, write amplification {:.3}",
        began.elapsed(),
        state.written,
        state.write_amplification.unwrap_or(0.0),
    );
    let (count, counted, began) = (4_000_000, device.flash().counts().clone(), Instant::now());
    for (operation, offset, size) in random_writes(pages, count, 2) {
        device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
        device.wait(Nanos::MAX).ok_or("a request was not served")?.result?;
    }
    println!(
        "  measured in {:.1?}: {:.1} M host writes/s with times, write amplification {:.3}",
        began.elapsed(),
        count as f64 / began.elapsed().as_secs_f64() / 1e6,
        device.flash().counts().since(&counted).write_amplification().unwrap_or(0.0),
    );
    println!("  {:.1?} in all, {}, {}", start.elapsed(), cpu_time(), memory());
    Ok(())
}

/// The CPU time of this process, in words: less than the time that passed if other processes run too.
fn cpu_time() -> String {
    let schedule = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ran: Option<u64> = schedule.split_whitespace().next().and_then(|ns| ns.parse().ok());
    ran.map_or("CPU time not known".to_owned(), |ns| format!("{:.1} s of CPU time", ns as f64 / 1e9))
}

/// The peak memory of this process, in words.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")?.trim().parse().ok());
    most.map_or("memory not known".to_owned(), |kib: u64| {
        format!("{:.2} GiB of memory at the most", kib as f64 / f64::from(1 << 20))
    })
}
