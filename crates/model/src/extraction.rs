//! What `flashlab model fit TARGET` measures: El Maghraoui et al., section 4.3.1.
//!
//! # Method
//! 1. The target is divided in 2z + 1 equal zones, and every other one, from the second on, is exercised: z of them.
//! 2. In each zone requests of one size run one after the other, from 4 KiB on and doubled until throughput saturates: first the
//!    sequential and random reads of all sizes, then the writes, so that what writes leave behind slows no read down. Sizes in the
//!    middle of every other octave follow: an equation that holds for powers of two may miss parts of pages.
//! 3. Then random requests run at several queue depths, and mixes of reads and writes, over the whole target.
//! 4. Where a device can be made new, random writes run at several fills: data in a part of it, the remainder never written.
//! 5. Random requests of a few sizes run one after the other over the whole target: a hard disk seeks, the longer the further.
//! 6. A check has other sizes, in the zones that were not exercised; other depths, mixes, fills and distances.
//!
//! Each step is a plan, so that every IO is recorded as in any run.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::Operation;
use flashlab_plan::{
    Experiment, ExperimentValue, IoSize, ModeRule, Pattern, PatternParameter, Plan, Space, Vary,
};
use flashlab_sim::profile::ThroughputClass;

use crate::run_points::{CHECK_FILL_PLAN, CHECK_SEEK_PLAN, FILL_PLAN, RunPoint, SEEK_PLAN};

/// The smallest request, as in the paper's fit.
pub const SIZE_LEAST: Bytes = Bytes::kib(4);
/// The largest request: beyond it no device of the zoo, and no SSD that was tried, wins throughput.
const SIZE_MOST: Bytes = Bytes::mib(16);
/// A zone holds this number of the largest requests, or a random one would hardly move.
const REQUESTS_PER_ZONE: u64 = 8;
/// Sizes that are measured in any case: fewer have no breakpoint.
const SIZES_LEAST: usize = 7;
/// A doubled size that wins less than this does not have to be doubled again.
const SATURATED_GAIN: f64 = 1.05;
/// A run has at least this number of IOs: a median needs them.
const RUN_IOS_LEAST: u64 = 12;
/// Runs with a queue, or with a mix, have this many times the IOs: a few collections that hold up a whole queue decide their rate.
const QUEUE_FACTOR: u64 = 4;
/// The depths that are fitted, up to the deepest queue and with it, and those that are checked.
const DEPTHS: [u32; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const CHECK_DEPTHS: [u32; 4] = [6, 24, 96, 384];
/// A plan's quick values are at most five.
const DEPTHS_OF_PLAN: usize = 5;
/// The sizes of runs at the deepest queue that are fitted, and those that are checked, in smallest sizes.
const QUEUED_SIZES: [u64; 3] = [4, 16, 64];
const CHECK_QUEUED_SIZES: [u64; 1] = [8];
/// The shares of writes that are fitted and those that are checked.
const MIXES: [f64; 5] = [0.0, 0.1, 0.4, 0.8, 1.0];
const CHECK_MIXES: [f64; 2] = [0.2, 0.6];
/// The sizes of runs over the whole target whose response times depend on the distance, if any, in smallest sizes; and those
/// that are checked.
const SEEK_SIZES: [u64; 3] = [1, 16, 128];
const CHECK_SEEK_SIZES: [u64; 1] = [48];
/// The depth of mixes: the frontier is that of a busy device.
const MIX_DEPTH: u32 = 16;

/// The shares of the device that hold data, of the runs that are fitted.
pub const FILLS: [f64; 5] = [0.4, 0.6, 0.75, 0.9, 1.0];
/// The shares of the runs that are checked: each lies between two that were fitted.
pub const CHECK_FILLS: [f64; 3] = [0.5, 0.8, 0.95];
/// Random overwrites of a fill: log-block devices merge a block in most of them, about 20 us of CPU time each.
const FILLING_WRITES: u64 = 100_000;
/// Random writes of a run at a fill at least.
const FILL_IOS: u64 = 4096;

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLength {
    /// The most bytes ...
    pub bytes: Bytes,
    /// ... the most IOs ...
    pub ios: u64,
    /// ... and the most time.
    pub time: Nanos,
}

impl RunLength {
    /// On a real disk: a minute or two for everything.
    pub const REAL: RunLength = RunLength { bytes: Bytes::mib(32), ios: 1024, time: Nanos::from_secs(3) };
    /// In virtual time, which costs nothing: long enough that garbage collection is in each mean with its share.
    pub const VIRTUAL: RunLength =
        RunLength { bytes: Bytes::mib(128), ios: 8192, time: Nanos::from_secs(600) };
}

/// How a device is measured for its model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extraction {
    /// The target.
    pub space: Space,
    /// z: how many zones are exercised.
    pub zones: u32,
    /// The deepest queue that the device takes, or that is wanted.
    pub depth_max: u32,
    /// Whether it may be written to.
    pub writes: bool,
    /// How long each run is.
    pub length: RunLength,
}

/// What is measured before anything is known of it: reads or writes of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeStep {
    /// Sequential and random reads.
    Reads,
    /// Sequential and random writes.
    Writes,
}

impl SizeStep {
    /// The two classes.
    pub fn classes(self) -> [ThroughputClass; 2] {
        match self {
            SizeStep::Reads => [ThroughputClass::SequentialRead, ThroughputClass::RandomRead],
            SizeStep::Writes => [ThroughputClass::SequentialWrite, ThroughputClass::RandomWrite],
        }
    }
}

fn baseline(class: ThroughputClass) -> Pattern {
    Pattern::baseline(&class.short_name().to_uppercase()).expect("the four classes are the baselines")
}

impl Extraction {
    /// The steps over the size.
    pub fn size_steps(&self) -> Vec<SizeStep> {
        if self.writes { vec![SizeStep::Reads, SizeStep::Writes] } else { vec![SizeStep::Reads] }
    }

    /// The sizes, ascending, up to the largest that the zones allow.
    pub fn sizes(&self) -> Vec<Bytes> {
        let most = SIZE_MOST.0.min(self.zone_size().0 / REQUESTS_PER_ZONE);
        let least = SIZE_LEAST.max(self.space.block);
        std::iter::successors(Some(least), |size| Some(*size * 2)).take_while(|size| size.0 <= most).collect()
    }

    /// Sizes between every other two of them, up to `most`: equations that hold for powers of two may miss what lies between, such as parts of
    /// pages.
    pub fn sizes_between(&self, most: Bytes) -> Vec<Bytes> {
        self.between(2).filter(|size| *size < most).collect()
    }

    /// The sizes in the middle of every other octave, from the octave with this index on.
    fn between(&self, first: usize) -> impl Iterator<Item = Bytes> {
        let (block, sizes) = (self.space.block, self.sizes());
        let last = sizes.last().copied();
        let middles = sizes.into_iter().skip(first).step_by(2);
        middles
            .map(move |size| Bytes(size.0 + size.0 / 2).round_down(block))
            .filter(move |size| Some(*size) < last)
    }

    /// Whether throughput has saturated in both classes of a step, by the points of all sizes up to now.
    pub fn is_saturated(&self, step: SizeStep, points: &[RunPoint]) -> bool {
        step.classes().into_iter().all(|class| {
            let mut rates: Vec<(Bytes, f64)> = points
                .iter()
                .filter(|point| point.workload.class == class && point.workload.is_plain())
                .map(|point| (point.workload.size, point.bytes_per_s()))
                .collect();
            rates.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let medians: Vec<f64> =
                rates.chunk_by(|a, b| a.0 == b.0).map(|chunk| chunk[chunk.len() / 2].1).collect();
            let gains = medians.windows(2).rev().take(2).map(|pair| pair[1] / pair[0]);
            medians.len() >= SIZES_LEAST && gains.into_iter().all(|gain| gain < SATURATED_GAIN)
        })
    }

    /// The plan of one size in the exercised zones.
    pub fn size_plan(&self, step: SizeStep, size: Bytes) -> Plan {
        self.zone_plan("model-size", step, size, 1)
    }

    /// The plan that checks a size in the zones that were not exercised.
    pub fn check_size_plan(&self, step: SizeStep, size: Bytes) -> Plan {
        self.zone_plan("check-size", step, size, 0)
    }

    /// Sizes that are checked: between those that were fitted.
    pub fn check_sizes(&self) -> Vec<Bytes> {
        // From the second on: what is no multiple of the smallest one is written in part of a block.
        self.between(1).collect()
    }

    /// The plans of queue depths and of mixes.
    pub fn queue_plans(&self) -> Vec<Plan> {
        let below = DEPTHS.into_iter().filter(|&depth| depth < self.depth_max);
        let depths: Vec<u32> = below.chain([self.depth_max]).filter(|&depth| depth > 1).collect();
        self.depth_plans("model", &depths, &QUEUED_SIZES, &MIXES)
    }

    /// The plans that check other depths and mixes.
    pub fn check_queue_plans(&self) -> Vec<Plan> {
        let depths: Vec<u32> = CHECK_DEPTHS.into_iter().filter(|&depth| depth < self.depth_max).collect();
        self.depth_plans("check", &depths, &CHECK_QUEUED_SIZES, &CHECK_MIXES)
    }

    /// The plans of random requests over the whole target, whose points are by distance.
    pub fn seek_plans(&self) -> Vec<Plan> {
        self.distance_plans(SEEK_PLAN, &SEEK_SIZES)
    }

    /// The same with other sizes, to be checked.
    pub fn check_seek_plans(&self) -> Vec<Plan> {
        self.distance_plans(CHECK_SEEK_PLAN, &CHECK_SEEK_SIZES)
    }

    /// The data on the device at a fill.
    pub fn filled(&self, share: f64) -> Bytes {
        let unit = if self.space.capacity >= Bytes::mib(64) { Bytes::mib(1) } else { self.space.block };
        Bytes((self.space.capacity.0 as f64 * share) as u64).round_down(unit).max(unit)
    }

    /// Random writes of the smallest size to the data of a fill, to be fitted.
    pub fn fill_plan(&self, filled: Bytes) -> Plan {
        self.filled_plan(FILL_PLAN, filled)
    }

    /// The same, to be checked.
    pub fn check_fill_plan(&self, filled: Bytes) -> Plan {
        self.filled_plan(CHECK_FILL_PLAN, filled)
    }

    /// The writes that bring a new device to a fill: its data in order, then random overwrites, three times the data where that
    /// takes at most 100,000 of them. Larger data is overwritten in larger requests: they are far below the
    /// size of a superblock, so that the pages left valid in a block are distributed as with small ones.
    pub fn filling(
        &self,
        filled: Bytes,
        seed: Seed,
    ) -> impl Iterator<Item = (Operation, Bytes, Bytes)> + use<> {
        let least = SIZE_LEAST.max(self.space.block);
        let size = Bytes(3 * filled.0 / FILLING_WRITES).round_up(least).max(least).min(filled);
        let (places, mut random) = (filled.0 / size.0, Prng::new(seed));
        let in_order = Bytes::mib(1).round_up(least);
        let first = (0..filled.0.div_ceil(in_order.0)).map(move |index| {
            let offset = in_order * index;
            (Operation::Write, offset, in_order.min(Bytes(filled.0 - offset.0)))
        });
        let overwrites = (0..3 * places).map(move |_| (Operation::Write, size * random.below(places), size));
        first.chain(overwrites)
    }

    fn filled_plan(&self, name: &str, filled: Bytes) -> Plan {
        let mut pattern = baseline(ThroughputClass::RandomWrite).on_target(Bytes::ZERO, filled);
        pattern.first.io_size = IoSize::Fixed(SIZE_LEAST.max(self.space.block));
        pattern.io_count = Some(self.length.ios.max(FILL_IOS));
        pattern.duration = Some(self.length.time);
        // Twice: without a repetition nothing is known of the error.
        let experiments = ["RW", "RW again"].map(|name| Experiment {
            name: name.to_owned(),
            pattern: pattern.clone(),
            vary: None,
        });
        let title = format!("random writes with {filled} of data");
        Plan::new(&format!("{name}-{}", filled.0), &title, "", experiments.into())
    }

    fn distance_plans(&self, name: &str, sizes: &[u64]) -> Vec<Plan> {
        let steps = self.size_steps();
        // On a small target no size fits, and a plan without experiments is none.
        let plan = |step: &SizeStep| {
            let class = step.classes()[1];
            let experiment = |&factor: &u64| {
                let size = SIZE_LEAST.max(self.space.block) * factor;
                let mut pattern = baseline(class).on_target(Bytes::ZERO, self.space.capacity);
                pattern.first.io_size = IoSize::Fixed(size);
                pattern.io_count = Some(self.length.ios);
                pattern.duration = Some(self.length.time);
                let fits = size * REQUESTS_PER_ZONE <= self.space.capacity;
                fits.then(|| Experiment { name: size.to_string(), pattern, vary: None })
            };
            let class = class.short_name();
            let title = format!("{class} over distances");
            Plan::new(&format!("{name}-{class}"), &title, "", sizes.iter().filter_map(experiment).collect())
        };
        steps.iter().map(plan).filter(|plan| !plan.experiments.is_empty()).collect()
    }

    fn zone_size(&self) -> Bytes {
        let zone = Bytes(self.space.capacity.0 / (2 * u64::from(self.zones) + 1));
        // Zones of whole MiB, where they have that many, begin with a page of any device.
        let unit = if zone >= Bytes::mib(16) { Bytes::mib(1) } else { self.space.block };
        zone.round_down(unit)
    }

    fn zone_plan(&self, name: &str, step: SizeStep, size: Bytes, first_zone: u64) -> Plan {
        let count = u64::from(self.zones) + u64::from(first_zone == 0);
        let zones = (0..count).map(|zone| 2 * zone + first_zone);
        let experiments = step.classes().into_iter().flat_map(|class| {
            zones.clone().map(move |zone| {
                let mut pattern = baseline(class).on_target(self.zone_size() * zone, self.zone_size());
                pattern.first.io_size = IoSize::Fixed(size);
                pattern.io_count = Some((self.length.bytes.0 / size.0).clamp(RUN_IOS_LEAST, self.length.ios));
                pattern.duration = Some(self.length.time);
                let name = format!("{} zone {}", class.short_name().to_uppercase(), zone + 1);
                Experiment { name, pattern, vary: None }
            })
        });
        let kind = if step == SizeStep::Reads { "reads" } else { "writes" };
        let title = format!("{kind} of {size} in zones");
        Plan::new(&format!("{name}-{kind}-{}", size.0), &title, "", experiments.collect())
    }

    fn depth_plans(&self, name: &str, depths: &[u32], sizes: &[u64], mixes: &[f64]) -> Vec<Plan> {
        let mut plans = Vec::new();
        let size = SIZE_LEAST.max(self.space.block);
        let queued = |class, size, depth| {
            let mut pattern = baseline(class);
            pattern.first.io_size = IoSize::Fixed(size);
            pattern.queue_depth = depth;
            pattern.io_count = Some((QUEUE_FACTOR * self.length.ios).min(self.length.bytes.0 * 2 / size.0));
            pattern.duration = Some(self.length.time);
            pattern
        };
        let steps = self.size_steps();
        let classes = || steps.iter().flat_map(|step| step.classes());
        let experiment = |class: ThroughputClass, pattern, vary| Experiment {
            name: class.short_name().to_uppercase(),
            pattern,
            vary: Some(vary),
        };
        for (index, depths) in depths.chunks(DEPTHS_OF_PLAN).enumerate() {
            let over_depth = classes().map(|class| {
                let vary = vary(PatternParameter::QueueDepth, depths.iter().map(|&depth| f64::from(depth)));
                experiment(class, queued(class, size, depths[0]), vary)
            });
            let more = if index == 0 { String::new() } else { format!("-{}", depths[0]) };
            plans.push(Plan::new(&format!("{name}-depth{more}"), "queue depths", "", over_depth.collect()));
        }
        if let Some(&deepest) = depths.last() {
            let over_size = classes().map(|class| {
                let values = sizes.iter().map(|&factor| (size * factor).0 as f64);
                let pattern = queued(class, size * sizes[0], deepest);
                experiment(class, pattern, vary(PatternParameter::IoSize, values))
            });
            plans.push(Plan::new(&format!("{name}-saturated"), "sizes at depth", "", over_size.collect()));
        }
        if self.writes {
            let depth = MIX_DEPTH.min(self.depth_max);
            let mut pattern = queued(ThroughputClass::RandomRead, size, depth);
            pattern.first.mode = ModeRule::WriteProbability(mixes[0]);
            let vary = vary(PatternParameter::WriteProbability, mixes.iter().copied());
            let mix = Experiment { name: "RR and RW".to_owned(), pattern, vary: Some(vary) };
            plans.push(Plan::new(&format!("{name}-mix"), "mixes of reads and writes", "", vec![mix]));
        }
        plans
    }
}

fn vary(parameter: PatternParameter, numbers: impl Iterator<Item = f64>) -> Vary {
    let values: Vec<ExperimentValue> = numbers.map(|number| ExperimentValue::of(parameter, number)).collect();
    Vary { parameter, quick_values: values.clone(), values }
}
