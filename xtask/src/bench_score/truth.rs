//! What is true of a drive: each point on a copy of the drive, for as long as it takes.
//!
//! # Method
//! 1. A copy of the drive is written from end to end, and then randomly, with the sizes of the plan `random-state`, as much as `bench` did
//!    before it called the drive steady. Its state
//!    is kept, and every figure begins from it.
//! 2. Sustained: random writes of twice the longest stage, and at least of a quarter of the capacity, because deferred collection takes writes faster
//!    as well, and no profile says how many. Without a pause the pattern. Its first IOs, of one longest stage, do not count;
//!    those of the next twenty do.
//! 3. Burst: the same random writes, the pause of the measurement, and as many IOs as the measurement took. Repeated with other
//!    random writes.
//!
//! The longest stage is what the profile says of the write buffer and the SLC cache.

use anyhow::{Context, Result};
use flashlab_base::{Bytes, Mode, Nanos, Prng, Seed};
use flashlab_device::{Buffer, Conditioning, Device, Operation, Request};
use flashlab_plan::{Pattern, Plan, Space};
use flashlab_sim::{Profile, SimulatedDevice};

/// How many times the longest stage a truth takes.
const STAGES: u64 = 20;
/// IOs of a truth at least (of large ones, their bytes), and at most: a stage of 400 MiB written by 512 B would take hours.
const IOS: [u64; 2] = [8192, 400_000];
/// Bursts that are averaged.
const BURSTS: u64 = 5;
/// The size of the random writes before a figure.
const LEAD: Bytes = Bytes::kib(32);

/// The figures of a truth.
#[derive(Clone, Copy, Debug)]
pub struct TrueFigures {
    pub mean_ns: f64,
    pub p99_ns: f64,
}

/// A drive in its steady state.
pub struct TruthLab {
    device: SimulatedDevice,
    longest_stage: Bytes,
    /// The random writes before a figure.
    lead: Bytes,
    pause: Nanos,
    prng: Prng,
}

impl TruthLab {
    pub fn new(profile: &Profile, random: Bytes, pause: Nanos, seed: Seed) -> Result<TruthLab> {
        let mut device = profile.device()?;
        let flash = profile.flash.as_ref().context("a drive of flash")?;
        let buffer = profile.controller.write_buffer.as_ref().map_or(Bytes::ZERO, |buffer| buffer.size);
        let cache = flash.slc_cache.as_ref().map_or(Bytes::ZERO, |cache| cache.size);
        let capacity = profile.capacity;
        let mut prng = Prng::new(seed.derive("truth", 0));
        let slots = capacity.0 / LEAD.0;
        let fill = (0..slots).map(|slot| (Operation::Write, LEAD * slot, LEAD));
        // The shipped plan of the state is the input of `bench`, not its method.
        let mut plan = Plan::builtin("random-state").context("a shipped plan")?;
        let mut pattern = plan.experiments.swap_remove(0).pattern;
        pattern.io_count = Some(1 << 40);
        let space = Space { capacity, block: device.geometry().block };
        let placed = pattern.place(space, Seed(prng.below(u64::MAX)))?;
        let mut left = random.0;
        let random = placed.ios(0).map_while(move |io| {
            left = left.checked_sub(io.size.0)?;
            Some((Operation::Write, io.offset, io.size))
        });
        let state = device.conditioning().context("a simulated drive")?;
        state.condition(&mut fill.chain(random)).ok().context("the drive serves what lies on it")?;
        let longest_stage = buffer.max(cache).max(Bytes::mib(1));
        let lead = (longest_stage * 2).max(Bytes(capacity.0 / 4));
        let mut lab = TruthLab { device, longest_stage, lead, pause, prng };
        lab.lead();
        lab.state()?.remember();
        Ok(lab)
    }

    pub fn block(&self) -> Bytes {
        self.device.geometry().block
    }

    fn state(&mut self) -> Result<&mut dyn Conditioning> {
        self.device.conditioning().context("a simulated drive")
    }

    /// The pattern sustained, and in a burst of `burst_ios` IOs.
    pub fn both(
        &mut self,
        pattern: &Pattern,
        space: Space,
        seed: Seed,
        burst_ios: u64,
    ) -> Result<[TrueFigures; 2]> {
        Ok([self.sustained(pattern, space, seed)?, self.burst(pattern, space, seed, burst_ios)?])
    }

    fn sustained(&mut self, pattern: &Pattern, space: Space, seed: Seed) -> Result<TrueFigures> {
        let size = pattern.first.io_size.largest().0.max(1);
        let least = IOS[0].min((LEAD * IOS[0]).0 / size) / STAGES;
        let stage = (self.longest_stage.0 / size).clamp(least, IOS[1] / STAGES);
        self.state()?.recall();
        self.lead();
        let mut all = self.run(pattern, space, seed, stage * (STAGES + 1))?;
        let ignored = (stage as usize).min(all.len() / 2);
        all.drain(..ignored);
        Ok(figures(all))
    }

    fn burst(&mut self, pattern: &Pattern, space: Space, seed: Seed, ios: u64) -> Result<TrueFigures> {
        self.state()?.recall();
        let mut all = Vec::new();
        for _ in 0..BURSTS {
            self.lead();
            let until = self.device.now().saturating_add(self.pause);
            self.device.wait(until);
            all.extend(self.run(pattern, space, seed, ios.min(IOS[1] / BURSTS))?);
        }
        Ok(figures(all))
    }

    /// Random writes without a pause between them.
    fn lead(&mut self) {
        let slots = self.device.geometry().capacity.0 / LEAD.0;
        for _ in 0..self.lead.0 / LEAD.0 {
            let offset = LEAD * self.prng.below(slots);
            self.io(Operation::Write, offset, LEAD);
        }
    }

    /// The response times of the pattern's IOs.
    fn run(&mut self, pattern: &Pattern, space: Space, seed: Seed, ios: u64) -> Result<Vec<u64>> {
        let mut pattern = pattern.clone();
        (pattern.io_count, pattern.io_ignore) = (Some(ios), 0);
        let placed = pattern.place(space, seed)?;
        let response = |io: flashlab_plan::PlannedIo| {
            let operation = if io.mode == Mode::Read { Operation::Read } else { Operation::Write };
            self.io(operation, io.offset, io.size)
        };
        Ok(placed.ios(0).map(response).collect())
    }

    fn io(&mut self, operation: Operation, offset: Bytes, size: Bytes) -> u64 {
        self.device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
        self.device.wait(Nanos::MAX).map_or(0, |done| done.completed.since(done.submitted).0)
    }
}

fn figures(mut responses: Vec<u64>) -> TrueFigures {
    responses.sort_unstable();
    let count = responses.len().max(1);
    let sum: f64 = responses.iter().map(|&ns| ns as f64).sum();
    let p99_ns = responses.get(count * 99 / 100).or(responses.last()).map_or(0.0, |&ns| ns as f64);
    TrueFigures { mean_ns: sum / count as f64, p99_ns }
}
