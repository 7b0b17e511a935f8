//! Truths about states: the phases of random writes, their lingering effect, and over-provisioning.

use flashlab_analysis::decide::change::{Direction, change};
use flashlab_analysis::findings::Lingering;
use flashlab_analysis::inference::Value;
use flashlab_analysis::{STARTUP_IOS_MIN, lingering, phases};
use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::Operation;
use flashlab_sim::Profile;
use flashlab_sim::layer::Mapping;
use flashlab_sim::profile::FlashSection;

use super::lab::{Lab, mean};
use super::{NEAR, Truth};

/// The IOSize of the definitions.
const IO: Bytes = Bytes::kib(4);
/// The rest of the definitions.
const REST: Nanos = Nanos::from_secs(60);
/// How often figures that depend on random offsets are measured.
const REPETITIONS: usize = 4;
/// Batches of a run. Their means show the precision of the mean of the whole run.
const BATCHES: usize = 4;
/// With this number of repetitions, a mean is within this many standard errors 19 times in 20 (Student's t, 3
/// degrees of freedom).
const STANDARD_ERRORS: f64 = 3.2;
/// With fewer slow reads than this, both "no lingering effect" and "an effect" are right.
const FEW: u64 = 20;
/// Reads per step, until they are as fast as before.
const READS: u64 = 20_000;
/// The ratio of the writes after to those in a start-up phase that no single run shows.
const CHEAPER: f64 = 2.0;
/// The most random writes that are measured.
const MOST: u64 = 200_000;

/// The most that a profile may defer: its buffers, its SLC cache, and its backlog of merges, in random
/// writes. Several times this number shows what comes after.
fn deferred_capacity(profile: &Profile) -> u64 {
    let Some(flash) = &profile.flash else { return 0 };
    let fast = flash.slc_cache.as_ref().map_or(0, |fast| fast.size.0);
    fast / IO.0 + deferred_writes(profile)
}

/// The most random writes that it may defer: those in its buffer, and deferred merges.
fn deferred_writes(profile: &Profile) -> u64 {
    let dies = profile.flash.as_ref().map_or(0, |flash| u64::from(flash.dies));
    let buffer = profile.controller.write_buffer.map_or(0, |buffer| buffer.size.0);
    let pieces = profile.controller.background.map_or(0, |background| u64::from(background.max_backlog));
    buffer / IO.0 + pieces * dies
}

/// The map entries in memory, each of which may have to be written back.
fn entries(profile: &Profile) -> u64 {
    profile.translation.structure().cached_map_entries.map_or(0, u64::from)
}

/// The device after a fill, random writes until costs are steady, and idle time.
pub fn steady(profile: &Profile, random: &mut Prng) -> Lab {
    let mut lab = Lab::filled(profile);
    let slots = lab.capacity().0 / IO.0;
    let writes = match profile.translation.structure().mapping {
        Mapping::OwnLogBlocks { .. } => 4000,
        Mapping::SharedLogBlocks { logs } => {
            let ring = log_pages(profile.flash.as_ref().expect("a layer has flash"), logs);
            ring + ring / 4
        }
        Mapping::Pages { .. } | Mapping::Zones => slots + slots / 2,
    };
    let mut ios = (0..writes).map(|_| (Operation::Write, IO * random.below(slots), IO));
    lab.condition(&mut ios);
    // After writes without times nothing is deferred, and a minute may be too short to work off a backlog.
    random_writes(&mut lab, 2 * deferred_writes(profile), random);
    lab.rest(REST);
    lab
}

fn random_writes(lab: &mut Lab, count: u64, random: &mut Prng) -> Vec<f64> {
    let span = lab.capacity();
    lab.random(Operation::Write, (span, Bytes::ZERO, IO), count, random)
}

/// Start-up phase and period of random writes. The fill level of the SLC cache's open block at the start of a
/// run is random. If every run began after the same number of writes, the level would always be the same, and
/// a cache of few blocks would seem to have a start-up phase.
pub fn start_up_and_period(profile: &Profile) -> (Truth, Truth) {
    let count = (4 * deferred_capacity(profile) + 16_384).min(MOST);
    let runs = repeated(|random| {
        let mut lab = steady(profile, random);
        random_writes(&mut lab, random.below(1 + deferred_capacity(profile)), random);
        lab.rest(REST);
        random_writes(&mut lab, count, random)
    });
    let found = runs.each_ref().map(|times| phases(&times.iter().map(|&ns| ns as u64).collect::<Vec<_>>()));
    let startup = agreed(found.each_ref().map(|phases| phases.startup_ios as f64));
    (
        with_short_startup(startup, &runs),
        agreed(found.each_ref().map(|phases| phases.period_ios.unwrap_or(0) as f64)),
    )
}

/// A start-up phase of a few writes may be too short for a single run to distinguish it from an oscillation,
/// and still be in every run. If the medians over all runs show a phase that is much faster, either answer is
/// right. A phase shorter than the minimum of `phases` counts as none, or as one of the minimum length: if
/// all runs become slow at the same write, that is a phase, too.
fn with_short_startup(startup: Truth, runs: &[Vec<f64>; REPETITIONS]) -> Truth {
    let Truth::Is(Value::Number(told)) = startup else { return startup };
    if let Some(short) = short_startup(runs).filter(|_| [0.0, STARTUP_IOS_MIN as f64].contains(&told)) {
        return Truth::OneOf(vec![told.into(), (short as f64).into()]);
    }
    if told != 0.0 {
        return startup;
    }
    let typical = |index: usize| {
        let mut costs = runs.each_ref().map(|run| run[index]);
        costs.sort_by(f64::total_cmp);
        costs[REPETITIONS / 2]
    };
    let typical: Vec<f64> = (0..runs[0].len()).map(typical).collect();
    match change(&typical, Direction::Up).filter(|step| step.p < 1e-4 && step.ratio() > CHEAPER) {
        Some(step) => Truth::OneOf(vec![0.into(), (step.index as f64).into()]),
        None => startup,
    }
}

/// The number of writes, below the minimum of `phases`, after which each run is much slower than all runs
/// were before, and stays so.
fn short_startup(runs: &[Vec<f64>; REPETITIONS]) -> Option<usize> {
    let expensive = |place: usize| {
        let before = runs.iter().flat_map(|run| &run[..place]).copied().fold(0.0, f64::max);
        runs.iter().all(|run| run[place..2 * STARTUP_IOS_MIN].iter().all(|&cost| cost > CHEAPER * before))
    };
    (1..STARTUP_IOS_MIN).find(|&place| expensive(place))
}

/// How long random reads are slower after random writes. The device also works off its backlog while reads
/// are late. So the figure is another one with noise, and either is right.
pub fn lingering_time(profile: &Profile, noisy: &Profile) -> Truth {
    let quiet = quiet_lingering_time(profile);
    let Truth::Is(value) = &quiet else { return quiet };
    match agreed(lingering_times(noisy).map(|found| found.affected.0 as f64)) {
        Truth::Is(with_noise) => Truth::OneOf(vec![value.clone(), with_noise]),
        by_chance if *value != Value::Number(0.0) => by_chance,
        _ => quiet,
    }
}

fn quiet_lingering_time(profile: &Profile) -> Truth {
    let found = lingering_times(profile);
    if found.iter().any(|found| found.still_affected_at_end) {
        return Truth::unjudged("it lasts longer than is looked at");
    }
    let times = found.each_ref().map(|found| found.affected.0 as f64);
    if found.iter().all(|found| found.affected_reads < FEW) && times.iter().any(|&time| time > 0.0) {
        // A few reads wait for the work of the last writes: no effect, or a short one.
        return Truth::OneOf([0.0].into_iter().chain(times).map(Into::into).collect());
    }
    agreed(times)
}

fn lingering_times(profile: &Profile) -> [Lingering; REPETITIONS] {
    let entries = entries(profile);
    let writes = (2 * (deferred_capacity(profile) + entries) + 1000).min(MOST);
    repeated(|random| {
        let mut lab = steady(profile, random);
        let span = lab.capacity();
        // Dirty map pages are written back when reads need their space, and merges may continue only while
        // the host reads.
        lab.random(Operation::Read, (span, Bytes::ZERO, IO), READS + 2 * entries, random);
        let before = lab.random(Operation::Read, (span, Bytes::ZERO, IO), 2000, random);
        random_writes(&mut lab, writes, random);
        let end = lab.now();
        let before: Vec<u64> = before.iter().map(|&ns| ns as u64).collect();
        let mut after: Vec<(Nanos, u64)> = Vec::new();
        loop {
            after.extend((0..READS).map(|_| {
                let start = lab.now();
                let read = lab.random(Operation::Read, (span, Bytes::ZERO, IO), 1, random);
                (start, read[0] as u64)
            }));
            let found = lingering(&before, end, &after);
            if !found.still_affected_at_end || after.len() >= MOST as usize {
                return found;
            }
        }
    })
}

/// The cost of random writes with pauses of their own length, relative to the cost without. With noise the
/// figure is another one, and either is right: jitter gives the device time or takes it, and outliers make
/// pauses longer. A device that defers nothing has no benefit of pauses.
///
/// Costs are steady only after more random writes than the capacity, which no probe may write in addition to
/// all others. So the benefit is measured in the steady state. It is also measured after a sequential
/// overwrite, in stages that are each as long as all earlier ones together. If the figure depends on the
/// state or the stage, it is not judged.
pub fn pause_benefit(profile: &Profile, noisy: &Profile) -> Truth {
    let with_noise = pause_ratio(noisy, steady).0;
    let quiet = if defers_work(profile) { pause_ratio(profile, steady).0 } else { (1.0, 0.0) };
    if defers_work(profile) {
        let (_, stages) = pause_ratio(profile, written_in_order);
        let differs = |&&(early, error): &&Ratio| (early - quiet.0).abs() > NEAR + STANDARD_ERRORS * error;
        if let Some((early, _)) = stages.iter().find(differs) {
            return Truth::unjudged(format!(
                "it depends on what was written before: {:.4} or {early:.4}",
                quiet.0
            ));
        }
    }
    match [quiet, with_noise].map(|(ratio, error)| (error <= NEAR / 3.0).then_some(Value::Number(ratio))) {
        [Some(quiet), Some(noisy)] => Truth::OneOf(vec![quiet, noisy]),
        [Some(quiet), None] => Truth::Is(quiet),
        [None, _] => {
            Truth::unjudged(format!("it depends on chance: {:.3}, and {:.3} more or less", quiet.0, quiet.1))
        }
    }
}

/// Whether the device defers anything: it has a buffer, an SLC cache, a map that is written back, or deferred
/// merges.
fn defers_work(profile: &Profile) -> bool {
    deferred_capacity(profile) > 0 || entries(profile) > 0
}

/// The device after a fill, a sequential overwrite, and idle time.
fn written_in_order(profile: &Profile, _random: &mut Prng) -> Lab {
    let mut lab = Lab::filled(profile);
    lab.fill();
    lab.rest(REST);
    lab
}

/// The benefit of pauses on devices that `begin` makes, and its standard error. It uses enough writes for a
/// third of the tolerance, or as many as no probe may do, twice the capacity. Also the figure of each stage;
/// a stage is as long as all earlier ones together.
fn pause_ratio(profile: &Profile, begin: impl Fn(&Profile, &mut Prng) -> Lab) -> (Ratio, Vec<Ratio>) {
    let settle = (2 * deferred_capacity(profile) + 4096).min(MOST);
    let mut runs = repeated(|random| (begin(profile, random), random.clone()));
    for (lab, random) in &mut runs {
        random_writes(lab, settle, random);
    }
    let most = (2 * profile.capacity.0 / IO.0).min(4 * MOST);
    let (mut with, mut without, mut written, mut count) = (Vec::new(), Vec::new(), 0, settle);
    let mut stages = Vec::new();
    loop {
        let before = without.len();
        for (lab, random) in &mut runs {
            let costs = random_writes(lab, count, random);
            let pause = Nanos(mean(&costs) as u64);
            without.extend(batches(&costs));
            paused_writes(lab, settle, pause, random);
            with.extend(batches(&paused_writes(lab, count, pause, random)));
            random_writes(lab, settle, random);
        }
        let all = ratio(&with, &without);
        // A change during a stage is not chance; the differences between devices show that.
        let of_devices = |batches: &[f64]| batches[before..].chunks(BATCHES).map(mean).collect::<Vec<_>>();
        stages.push(ratio(&of_devices(&with), &of_devices(&without)));
        written += 2 * REPETITIONS as u64 * count;
        if all.1 <= NEAR / 3.0 || 2 * written > most {
            return (all, stages);
        }
        count = written / (2 * REPETITIONS as u64);
    }
}

/// A ratio and its standard error.
type Ratio = (f64, f64);

/// That of the means of batches.
fn ratio(with: &[f64], without: &[f64]) -> Ratio {
    let level = mean(without);
    let ratio = mean(with) / level;
    (ratio, standard_error(with).hypot(ratio * standard_error(without)) / level)
}

fn paused_writes(lab: &mut Lab, count: u64, pause: Nanos, random: &mut Prng) -> Vec<f64> {
    let write = |_| {
        lab.rest(pause);
        random_writes(lab, 1, random)[0]
    };
    (0..count).map(write).collect()
}

/// The means of this number of parts of a run.
fn batches(costs: &[f64]) -> Vec<f64> {
    costs.chunks_exact(costs.len() / BATCHES).map(mean).collect()
}

/// The capacity, plus the random writes until the first garbage collection.
pub fn physical_capacity(profile: &Profile) -> Truth {
    let Some(flash) = &profile.flash else { return Truth::unjudged("it is no flash") };
    if flash.slc_cache.is_some() {
        return Truth::unjudged("what the SLC cache holds counts once or twice");
    }
    let capacity = profile.capacity.round_down(profile.block).0;
    match profile.translation.structure().mapping {
        Mapping::OwnLogBlocks { .. } => Truth::NotIdentifiable("log blocks belong to one data block each"),
        Mapping::SharedLogBlocks { logs } => Bytes(capacity + flash.page.0 * log_pages(flash, logs)).into(),
        Mapping::Pages { die_follows_offset } => {
            let mut random = Prng::new(Seed(9));
            let anywhere = until_collected(profile, flash.page, |_, slots| random.below(slots));
            if !die_follows_offset || flash.dies == 1 {
                return Bytes(capacity + anywhere).into();
            }
            // The die that happens to get the most writes is full first. How many it gets is chance;
            // sequential writes give each die the same number.
            let in_order = until_collected(profile, flash.page, |index, slots| index % slots);
            Truth::OneOf([anywhere, in_order].map(|spare| Bytes(capacity + spare).into()).into())
        }
        Mapping::Zones => Truth::unjudged("nothing is collected"),
    }
}

/// The pages of the shared logs of all dies.
fn log_pages(flash: &FlashSection, logs: u32) -> u64 {
    u64::from(logs * flash.pages_per_block * flash.planes * flash.dies)
}

/// The bytes written to the filled device, page by page, until the first garbage collection. `place` returns
/// the next page among this number of pages.
fn until_collected(profile: &Profile, page: Bytes, mut place: impl FnMut(u64, u64) -> u64) -> u64 {
    let mut lab = Lab::filled(profile);
    let (before, slots) = (lab.collected(), lab.capacity().0 / page.0);
    let mut written = 0;
    while lab.collected() == before && written < 4 * slots {
        let mut ios =
            (written..written + 8).map(|index| (Operation::Write, page * place(index, slots), page));
        lab.condition(&mut ios);
        written += 8;
    }
    page.0 * written
}

/// The physical capacity above the capacity, relative to the capacity.
pub fn over_provisioning(profile: &Profile) -> Truth {
    let capacity = profile.capacity.round_down(profile.block).0 as f64;
    let share = |physical| match physical {
        Value::Number(physical) => Value::Number(physical / capacity - 1.0),
        other => other,
    };
    let several_dies = profile.flash.as_ref().is_some_and(|flash| flash.dies > 1);
    match (profile.translation.structure().mapping, physical_capacity(profile)) {
        (Mapping::SharedLogBlocks { .. }, Truth::Is(_)) if several_dies => {
            Truth::unjudged("the logs of the dies become full one after the other, by chance")
        }
        (_, Truth::Is(physical)) => Truth::Is(share(physical)),
        (_, Truth::OneOf(either)) => Truth::OneOf(either.into_iter().map(share).collect()),
        (_, other) => other,
    }
}

/// The results of several measurements, each with other random offsets.
fn repeated<T>(measure: impl Fn(&mut Prng) -> T) -> [T; REPETITIONS] {
    std::array::from_fn(|index| measure(&mut Prng::new(Seed(3).derive("repetition", index as u64))))
}

/// The mean of the figures, if it is known to a third of the tolerance.
fn agreed(figures: [f64; REPETITIONS]) -> Truth {
    let mean = mean(&figures);
    if standard_error(&figures) <= NEAR / 3.0 * mean {
        return mean.into();
    }
    let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.4}")).collect();
    Truth::unjudged(format!("it depends on chance: {}", figures.join(", ")))
}

/// The standard error of the mean of the figures.
fn standard_error(figures: &[f64]) -> f64 {
    let (n, mean) = (figures.len() as f64, mean(figures));
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (squares / (n * (n - 1.0))).sqrt()
}
