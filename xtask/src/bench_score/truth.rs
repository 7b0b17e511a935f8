//! What is true of a drive: each point on a copy of the drive, for as long as it takes.
//!
//! # Method
//! 1. A copy of the drive is written from end to end, and then randomly, with the sizes of the plan `random-state`, as much as `bench` did
//!    before it called the drive steady. Its state
//!    is kept, and every figure begins from it.
//! 2. Sustained: random writes of twice the longest stage, and at least of a quarter of the capacity, because deferred collection takes writes faster
//!    as well, and no profile says how many. Without a pause the pattern. Its first IOs, of one longest stage, do not count;
//!    those of the next twenty do, if both halves of them agree to within [`HALVES_WITHIN`]. Otherwise the figure may be of the truth's
//!    own transient, as long as the cache folds what was written before. Then the pattern goes on for twice as long, and only
//!    that counts. A truth that does not settle judges nothing.
//!
//!    It is no longer than that: two capacities of sequential writes leave nothing of the random state, and are another measurement (527 us in place
//!    of 3.4 ms on another drive). So a pattern that writes sequentially over at least [`TURNED_MOST`] of the capacity writes at most that much
//!    from the state, but one longest stage that counts, and is repeated from the state until twenty of them count. It is settled if
//!    what the second half of each trial took agrees with the first.
//! 3. Burst: the same random writes, the pause of the measurement, and as many IOs as the measurement took. Repeated with other
//!    random writes.
//!
//! The longest stage is what the profile says of the write buffer and the SLC cache.

use anyhow::{Context, Result};
use flashlab_base::{Bytes, Mode, Nanos, Prng, Seed, quantile};
use flashlab_device::{Buffer, Conditioning, Device, Operation, Request};
use flashlab_plan::{Location, Pattern, Placed, Plan, PlannedIo, Space};
use flashlab_sim::{Profile, SimulatedDevice};

/// How many times the longest stage a truth takes.
const STAGES: u64 = 20;
/// IOs of a truth at least (of large ones, their bytes), and at most: a stage of 400 MiB written by 512 B would take hours.
const IOS: [u64; 2] = [8192, 400_000];
/// Bursts that are averaged.
const BURSTS: u64 = 5;
/// The means from which the error of a truth follows: one for each stage that it takes.
const BATCHES: usize = 20;
/// Student's t of 95 % and 19 degrees.
const STUDENT: f64 = 2.093;
/// The means of both halves of a truth differ by at most this part: the goal for the median error.
const HALVES_WITHIN: f64 = 0.05;
/// The part of the capacity that sequential writes may replace, before the state is another one: the random state's own rounds are as long.
const TURNED_MOST: u64 = 4;
/// How often a truth that has not settled goes on, each time for twice as long.
const DOUBLINGS: u32 = 3;
/// The size of the random writes before a figure.
const LEAD: Bytes = Bytes::kib(32);

/// The figures of a truth.
#[derive(Clone, Copy, Debug)]
pub struct TrueFigures {
    pub mean_ns: f64,
    pub p99_ns: f64,
    /// The half width of the 95 % interval of the mean, relative to it, from [`BATCHES`] means: a truth is an estimate as well.
    pub precision: f64,
    /// Whether both halves agree; a burst does not have to settle.
    pub is_settled: bool,
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
        let mut pattern = pattern.clone();
        (pattern.io_count, pattern.io_ignore) = (Some(1 << 40), 0);
        let placed = pattern.place(space, seed)?;
        let longest_trial = space.capacity.0 / TURNED_MOST / size;
        if turns_over(&pattern, space) && stage * (STAGES + 1) > longest_trial {
            let counted = longest_trial.saturating_sub(stage).max(stage);
            return self.trials(&placed, stage as usize, counted as usize, (stage * STAGES) as usize);
        }
        self.state()?.recall();
        self.lead();
        let mut ios = placed.ios(0);
        self.responses(ios.by_ref().take(stage as usize));
        let mut count = (stage * STAGES) as usize;
        for _ in 0..DOUBLINGS {
            let found = figures(self.responses(ios.by_ref().take(count)));
            if found.is_settled {
                return Ok(found);
            }
            count *= 2;
        }
        Ok(figures(self.responses(ios.by_ref().take(count))))
    }

    /// The pattern from the state, as often as it takes: the first IOs of each trial do not count.
    fn trials(&mut self, placed: &Placed, ignored: usize, counted: usize, all: usize) -> Result<TrueFigures> {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        while first.len() + second.len() < all {
            self.state()?.recall();
            self.lead();
            let mut ios = placed.ios(0);
            self.responses(ios.by_ref().take(ignored));
            first.extend(self.responses(ios.by_ref().take(counted.div_ceil(2))));
            second.extend(self.responses(ios.by_ref().take(counted.div_ceil(2))));
        }
        first.append(&mut second);
        Ok(figures(first))
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
        Ok(TrueFigures { is_settled: true, ..figures(all) })
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
        Ok(self.responses(placed.ios(0)))
    }

    fn responses(&mut self, ios: impl Iterator<Item = PlannedIo>) -> Vec<u64> {
        ios.map(|io| self.io(operation(&io), io.offset, io.size)).collect()
    }

    fn io(&mut self, operation: Operation, offset: Bytes, size: Bytes) -> u64 {
        self.device.submit(Request { tag: 0, operation, offset, size, buffer: Buffer::empty() });
        self.device.wait(Nanos::MAX).map_or(0, |done| done.completed.since(done.submitted).0)
    }
}

/// Whether the pattern writes over a part of the capacity in order, so that it replaces the random state.
fn turns_over(pattern: &Pattern, space: Space) -> bool {
    let is_in_order = match pattern.first.location {
        Location::Sequential | Location::Partitioned { .. } => true,
        Location::Ordered { incr } => incr != 0,
        _ => false,
    };
    let area = pattern.first.target_size.unwrap_or(space.capacity);
    is_in_order && area.0 >= space.capacity.0 / TURNED_MOST
}

fn operation(io: &PlannedIo) -> Operation {
    if io.mode == Mode::Read { Operation::Read } else { Operation::Write }
}

fn figures(responses: Vec<u64>) -> TrueFigures {
    let mean = |ns: &[u64]| ns.iter().map(|&ns| ns as f64).sum::<f64>() / ns.len().max(1) as f64;
    let (first, second) = responses.split_at(responses.len() / 2);
    let p99_ns = quantile(responses.iter().map(|&ns| ns as f64), 0.99).unwrap_or(0.0);
    let is_settled = (mean(second) / mean(first).max(f64::MIN_POSITIVE) - 1.0).abs() <= HALVES_WITHIN;
    let all = mean(&responses);
    let batches = responses.chunks_exact((responses.len() / BATCHES).max(1));
    let means: Vec<f64> = batches.take(BATCHES).map(mean).collect();
    let squares: f64 = means.iter().map(|mean| (mean - all).powi(2)).sum();
    let error = (squares / (BATCHES * (BATCHES - 1)) as f64).sqrt();
    let precision = STUDENT * error / all.max(f64::MIN_POSITIVE);
    TrueFigures { mean_ns: all, p99_ns, precision, is_settled }
}
