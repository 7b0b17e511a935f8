//! How much lies between two openings of a log: from what single writes cost that go down the addresses in equal steps.
//!
//! # Model
//! Where each block of addresses has a log of its own, and all logs are in use, the first write to a block opens a log and
//! has another one merged; those that follow in the same block are fast. So the cost is a function of the place in the unit, and
//! tells the unit whether merges are deferred or not: once as many are deferred as may be, each opening has one done. Behind a full
//! buffer it is the same function, later.
//!
//! So costs are folded by each possible unit: the likeliest is the one whose places explain most of what the logarithms of the
//! costs differ by, less what so many places explain by chance (Schwarz, Annals of Statistics 6(2), 1978). Steps begin larger than any unit and
//! are halved. They are whole stripes, which lie on one die, as far as these are known; else three times a power of two pages, which
//! do so for most numbers of dies. No unit has fewer than sixteen rows of pages of all dies: what comes back sooner are the dies.
//!
//! # Invariants
//! - a unit counts only if two different steps tell it, with one slow stretch in it: a step longer than a unit passes
//!   some by, and feigns a longer one.

use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_analysis::priors;
use flashlab_analysis::signals::figures::{folded, mean, median, roundest};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::halt::{Halt, if_affordable};
use crate::patterns::writes::{apart, buffer, page_to_write, shifted};
use crate::patterns::{in_turn, ios, with_reads};
use crate::rule::Rule;
use crate::session::Session;

/// Writes of each step, and the fewest.
const WRITES: u64 = 128;
const WRITES_LEAST: u64 = 48;
/// Behind a buffer there are as many more as it holds, up to so many.
const BUFFERED_MOST: u64 = 512;
/// This part of them, the first ones, is not looked at: what was deferred before is done, and logs are filled.
const SETTLING: usize = 4;
/// The first step is this part of the device; the last one so many pages.
const FIRST_PART: u64 = 24;
const LAST_PAGES: u64 = 2;
/// A step tells of units of so many steps at least, as of shorter ones it passes some by;
const STEPS_LEAST: f64 = 3.9;
/// and of those that are passed so often, and of which the device has so many.
const PASSED: f64 = 5.8;
const UNITS_LEAST: f64 = 4.0;
/// How finely units are tried.
const FINE: f64 = 0.004;
/// How much likelier a unit has to be than none, as a log-likelihood ratio, by all steps, and by each one.
const GAIN_LEAST: f64 = 22.0;
const GAIN_OF_STEP: f64 = 7.0;
/// So many steps have to tell it at least, and with so many no further one is done.
const TOLD_BY: usize = 2;
const ENOUGH: usize = 3;
/// Of so many writes of a place one may be an outlier.
const OUTLIER_OF: usize = 4;
/// Places of a unit are slow or fast above and below these parts of the range.
const DEAR: f64 = 0.65;
const CHEAP: f64 = 0.35;
/// A shorter unit is believed instead of one that long steps may feign, if it is so much as likely.
const SHORTER_GAIN: f64 = 0.3;
/// Of units that are this near, and less likely by no more than this share, the roundest is taken.
const AGREES: f64 = 0.03;
const AS_GOOD: f64 = 0.15;
/// What costs scatter by in any case, as a logarithm.
const SCATTER: f64 = 0.07;

/// The rules of a unit that log-block allocations show, and that overwriting shows as well.
const TOLD: Rule = Rule::strong("log-block allocations");
const TOLD_TWICE: Rule = Rule::strong("log-block allocations and overwriting");

/// The writes of one step.
struct OpeningStep {
    size: f64,
    /// Where units end that can be told.
    longest: f64,
    /// Address and logarithm of the cost.
    costs: Vec<(f64, f64)>,
}

/// A unit that several steps told.
pub(super) struct Openings {
    pub unit: Bytes,
    /// The smallest step.
    pub step: Bytes,
    /// How much likelier than none it is, as a log-likelihood ratio.
    pub gain: f64,
    /// Address and cost of the writes of the steps that can tell it.
    pub costs: Vec<(f64, f64)>,
}

/// Looks for openings with smaller and smaller steps.
pub(super) fn openings(session: &mut Session<'_, '_>) -> Result<Option<Openings>, Halt> {
    let (page, capacity) = (page_to_write(session), session.capacity());
    let least = session.known().whole_stripe(page).unwrap_or(page * 3);
    let most = capacity.0 / FIRST_PART / least.0.max(1);
    if most == 0 {
        return Ok(None);
    }
    let mut size = least * (1 << most.ilog2());
    let shortest = session.known().row_of_all_dies().map_or(0.0, |row| (row * priors::ROWS_LEAST).0 as f64);
    // What is written comes out of a buffer as many writes later as it holds.
    let buffered = (buffer(session).most(session).0 / page.0).min(BUFFERED_MOST);
    let mut steps: Vec<OpeningStep> = Vec::new();
    let mut found = None;
    while size >= page * LAST_PAGES {
        let count = (WRITES + buffered).min(session.writes_left().0 / page.0 / 2);
        if count < WRITES_LEAST + buffered {
            break;
        }
        let Some(costs) = if_affordable(write_down(session, page, size, count))? else { break };
        let settled = costs.len().min(buffered as usize);
        steps.push(OpeningStep::new(size, &costs[settled..], capacity));
        found = likeliest(&steps, shortest);
        let told_by = |(unit, _)| steps.iter().filter(|step| step.gain(unit) >= GAIN_OF_STEP).count();
        if found.map_or(0, told_by) >= ENOUGH {
            break;
        }
        size = Bytes(size.0 / 2).round_down(page);
    }
    let step = Bytes(steps.last().map_or(0.0, |step| step.size) as u64);
    let told = |(unit, gain)| {
        let telling = steps.iter().filter(|step| step.can_tell(unit)).flat_map(|step| &step.costs);
        let costs = telling.map(|&(address, time)| (address, time.exp())).collect();
        Openings { unit: priors::whole_block(Bytes(unit as u64).round_down(page), page), step, gain, costs }
    };
    Ok(found.map(told))
}

impl Openings {
    /// What it says of the erase block, beside what overwriting in order, which is another signal, made suppose.
    pub(super) fn finding(&self, session: &Session<'_, '_>) -> Finding {
        let seen = session.provisional(Parameter::EraseBlockSize).and_then(|seen| seen.number());
        let same = seen.is_some_and(|seen| (seen / self.unit.0 as f64 - 1.0).abs() <= AGREES);
        let evidence = format!(
            "Single writes at descending offsets, in steps of {} and more, cost the same at the same position in each {} \
             (log-likelihood ratio {:.0}).{}",
            self.step,
            self.unit,
            self.gain,
            if same { " Sequential overwriting shows the same unit." } else { "" }
        );
        let picture = folded(
            "Single writes at descending offsets, each read back at once: the first in each erase block allocates a log block, which costs a merge.",
            "write and read",
            self.unit,
            &[("writes", self.costs.clone())],
        );
        let basis = if same { TOLD_TWICE } else { TOLD };
        Rule::found(Parameter::EraseBlockSize, self.unit, basis, evidence).with(picture)
    }
}

/// Single pages down the addresses, each read at once, which takes longer while its die is busy: the address of each and what
/// both took.
fn write_down(
    session: &mut Session<'_, '_>,
    page: Bytes,
    step: Bytes,
    count: u64,
) -> Result<Vec<(f64, f64)>, Halt> {
    let places = (session.capacity().0 / step.0).saturating_sub(1).min(count).max(1);
    let part =
        Bytes(session.capacity().0 - (step * (places + 1)).0.min(session.capacity().0)).round_down(step);
    let mut costs: Vec<(f64, f64)> = Vec::new();
    for round in 0..count.div_ceil(places) {
        let ios_of = places.min(count - round * places);
        let down = |mode| {
            let ios = ios(mode, Location::Ordered { incr: -1 }, page, ios_of);
            // Each page but once, and none at the beginning of a step.
            let shift = Bytes(page.0 * ((1 + round) % (step.0 / page.0).max(1)));
            shifted(apart(ios.on_target(part, step * (places + 1)), step), shift)
        };
        let mut writes = down(Mode::Write);
        writes.io_count = Some(2 * ios_of);
        let samples = session.run("down-in-steps", &in_turn(writes, down(Mode::Read)))?;
        costs.extend(with_reads(&samples).iter().map(|(write, both)| (write.offset.0 as f64, *both)));
    }
    Ok(costs)
}

/// The unit, no shorter than `shortest`, that all steps together are likeliest by, and how much likelier than none.
fn likeliest(steps: &[OpeningStep], shortest: f64) -> Option<(f64, f64)> {
    let gain = |unit: f64| {
        let of_steps = steps.iter().filter(|step| step.can_tell(unit)).map(|step| step.gain(unit));
        let gains: Vec<f64> = of_steps.collect();
        // The smallest step feigns the least.
        let told = gains.last().is_some_and(|&last| last >= GAIN_OF_STEP);
        let by = gains.iter().filter(|&&gain| gain >= GAIN_OF_STEP).count();
        if told && by >= TOLD_BY { gains.iter().sum::<f64>() } else { 0.0 }
    };
    let mut unit = (STEPS_LEAST * steps.last()?.size).max(shortest);
    let longest = steps.iter().map(|step| step.longest).fold(0.0, f64::max);
    let mut tried = Vec::new();
    while unit <= longest {
        tried.push((unit, gain(unit)));
        unit *= 1.0 + FINE;
    }
    let mut below = f64::INFINITY;
    let (mut best, mut gained) = (0.0, 0.0);
    // Steps that are all longer than another unit feign longer ones.
    loop {
        let least = GAIN_LEAST.max(SHORTER_GAIN * gained);
        let of = tried.iter().filter(|&&(unit, gain)| unit < below && gain >= least);
        let Some(&likeliest) = of.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        (best, gained) = likeliest;
        let told = steps.iter().filter(|step| step.gain(best) >= GAIN_OF_STEP);
        below = told.map(|step| step.size).fold(f64::INFINITY, f64::min);
    }
    // Of units that differ by little the roundest: whole blocks are.
    let near = (1.0 - AGREES) * best..(1.0 + AGREES) * best;
    let as_good = |round: f64| near.contains(&round) && gain(round) >= (1.0 - AS_GOOD) * gained;
    let rounded = roundest(best, as_good);
    (gained >= GAIN_LEAST).then_some((rounded, gained))
}

impl OpeningStep {
    fn new(size: Bytes, costs: &[(f64, f64)], capacity: Bytes) -> OpeningStep {
        let settled = &costs[costs.len() / SETTLING..];
        let times = settled.iter().map(|&(_, cost)| cost.max(1.0).ln());
        let addresses = settled.iter().map(|&(address, _)| address);
        let size = size.0 as f64;
        OpeningStep {
            size,
            longest: (settled.len() as f64 * size / PASSED).min(capacity.0 as f64 / UNITS_LEAST),
            costs: addresses.zip(times).collect(),
        }
    }

    fn can_tell(&self, unit: f64) -> bool {
        (STEPS_LEAST * self.size..self.longest).contains(&unit)
    }

    /// How much likelier its costs are if they depend on the place in a unit, as a log-likelihood ratio; 0 where it cannot tell.
    fn gain(&self, unit: f64) -> f64 {
        if !self.can_tell(unit) {
            return 0.0;
        }
        let mut places = vec![Vec::new(); (unit / self.size).ceil() as usize + 1];
        for &(address, time) in &self.costs {
            places[((address % unit) / self.size) as usize].push(time);
        }
        // Of each place the farthest one may be an outlier; fewer would not show it.
        places.retain(|place| place.len() >= OUTLIER_OF);
        for place in &mut places {
            let middle = median(place);
            place.sort_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs()));
            place.pop();
        }
        let means: Vec<f64> = places.iter().map(|place| mean(place)).collect();
        if stretches(&means) != 1 {
            return 0.0;
        }
        let squares = |place: &[f64], mean: f64| place.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        let all = places.concat();
        let (count, used) = (all.len() as f64, means.len() as f64);
        let least = count * SCATTER * SCATTER;
        let without = squares(&all, mean(&all)) + least;
        let within =
            places.iter().zip(&means).map(|(place, &mean)| squares(place, mean)).sum::<f64>() + least;
        (count / 2.0 * (without / within).ln() - (used - 1.0) / 2.0 * count.ln()).max(0.0)
    }
}

/// How many stretches of places are slow, around the end: more than one in several units, and in one that long steps feign.
fn stretches(means: &[f64]) -> usize {
    let (low, high) =
        means.iter().fold((f64::MAX, f64::MIN), |(low, high), &mean| (low.min(mean), high.max(mean)));
    let part = |mean: &&f64| (**mean - low) / (high - low).max(f64::MIN_POSITIVE);
    let clear: Vec<bool> = means
        .iter()
        .filter(|mean| !(CHEAP..DEAR).contains(&part(mean)))
        .map(|mean| part(&mean) >= DEAR)
        .collect();
    (0..clear.len()).filter(|&at| clear[at] && !clear[(at + 1) % clear.len()]).count()
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Writes down the addresses, the first of each unit a merge.
    fn costs(seed: u64, step: u64, unit: u64, merge: f64) -> Vec<(f64, f64)> {
        let mut random = Prng::new(Seed(seed));
        let mut last = u64::MAX;
        let write = |i: u64| {
            let address = (200 - i) * step;
            let opens = address / unit != last;
            last = address / unit;
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            (address as f64, (1.0 + 0.1 * random.unit()) * outlier * if opens { merge } else { 1.0 })
        };
        (0..128).map(write).collect()
    }

    fn told(seed: u64, unit: u64, merge: f64) -> Option<(f64, f64)> {
        let step = |step: u64| OpeningStep::new(Bytes(step), &costs(seed, step, unit, merge), Bytes::gib(4));
        likeliest(&[3 << 19, 3 << 18, 3 << 17].map(step), 0.0)
    }

    #[test]
    fn the_unit_is_found_and_no_multiple_of_it() {
        for (seed, unit) in [4 << 20, 6 << 20, 9 << 19, 12 << 20].into_iter().enumerate() {
            let (found, _) = told(seed as u64, unit, 20.0).unwrap();
            assert!((found / unit as f64 - 1.0).abs() < AGREES, "{unit}: {found}");
        }
    }

    #[test]
    fn costs_that_are_alike_have_none() {
        assert!((0..20).all(|seed| told(seed, 4 << 20, 1.0).is_none()));
    }
}
