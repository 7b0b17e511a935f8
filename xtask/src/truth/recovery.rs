//! Measures the effect of a burst of random writes on sequential writes, and what ends it (Ajwani et al.,
//! appendix C).
//!
//! # Method
//! 1. Write the first eighth of the device sequentially, then its second half, and then write it randomly for
//!    five seconds.
//! 2. Write the first half of the second half sequentially, at most twice.
//! 3. When it is as fast as before, write its other half, which was not written since. If that is slow to its
//!    end, rewriting has helped.
//!
//! Sequential writes are slowed down if those of a whole erase block take at least 10 % longer than before.
//! The experiment runs on a device that was only filled, and on one that was written randomly everywhere. A
//! figure that depends on this is not judged. Chance decides how long the merges of random writes take. If
//! the times of several devices are close to each other, all values between the smallest and the largest are
//! right, extended by one erase block.
//!
//! All probes together may write twice the capacity, and filling the device takes half of that. About twenty
//! probes share the other half, and a probe can spend half of its share on bursts. A burst that
//! writes more is not affordable. If that is the burst of five seconds, nothing is judged. If a burst of one
//! minute is affordable, it is also tested whether its effect ends.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::Operation;
use flashlab_sim::Profile;

use super::lab::{Lab, mean};
use super::{Truth, states};

const RANDOM: Bytes = Bytes::kib(2);
/// The part of the device that is written randomly.
const RANDOM_PART: u64 = 8;
const SEQUENTIAL: Bytes = Bytes::kib(32);
const BURST: Nanos = Nanos::from_secs(5);
const LONG_BURST: Nanos = Nanos::from_secs(60);
const REST: Nanos = Nanos::from_secs(60);
const SLOWED: f64 = 1.1;
/// How often a time is measured on devices of both histories, and how far the largest time may exceed the
/// smallest.
const REPETITIONS: usize = 4;
const APART: f64 = 1.5;
const HISTORY: &str = "it depends on what was written before";
const LENGTH: &str = "it depends on how long the burst is";
const UNAFFORDABLE: &str = "five seconds of random writes are more than a probe may write";
/// The share of the capacity that a burst may write (1/N).
const BURST_PART: u64 = 40;

/// Of one experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recovery {
    /// How long the slowdown lasted, and its precision, in nanoseconds. `None`: to the end, or until
    /// rewritten.
    time: Option<(f64, f64)>,
    /// Whether rewriting helps, if the speed does not come back by itself.
    cured: Option<bool>,
    /// By the random writes.
    written: Bytes,
}

/// Recovery time, whether it ends, and whether rewriting ends it.
pub struct Truths {
    pub time: Truth,
    pub ends: Truth,
    pub cures: Truth,
}

/// Measures them. `unit` is the number of bytes between two slow sequential writes.
pub fn truths(profile: &Profile, unit: Bytes) -> Truths {
    let mut random = Prng::new(Seed(11));
    let of_filled = |length| experiment(Lab::filled(profile), unit, length, &mut random.clone());
    let filled = of_filled(BURST);
    let is_affordable = |bursts: u64| filled.written * bursts * BURST_PART <= profile.capacity;
    if !is_affordable(1) {
        let unjudged = || Truth::unjudged(UNAFFORDABLE);
        return Truths { time: unjudged(), ends: unjudged(), cures: unjudged() };
    }
    let long = is_affordable(LONG_BURST.0 / BURST.0).then(|| of_filled(LONG_BURST));
    let written = experiment(states::steady(profile, &mut random), unit, BURST, &mut random);
    let of_long_ends = long.is_none_or(|long| long.time.is_some() == filled.time.is_some());
    let ends = [filled, written].map(|one| one.time.is_some());
    let time = match (filled.time, written.time) {
        (Some((0.0, _)), Some((0.0, _))) => 0.into(),
        (Some((one, exact)), Some((other, _))) => {
            if one.max(other) > APART * one.min(other) {
                let times = format!("{} or {}", Nanos(one as u64), Nanos(other as u64));
                Truth::unjudged(format!("{HISTORY}: {times}"))
            } else if 2.0 * exact > (APART - 1.0) * one.min(other) {
                Truth::unjudged("it is over within a few erase blocks")
            } else {
                between(profile, unit, &mut random, &[one, other], exact)
            }
        }
        (None, None) => Truth::NotIdentifiable("it does not end"),
        _ => Truth::unjudged(HISTORY),
    };
    let cures = match (ends, filled.cured, written.cured) {
        _ if !of_long_ends => Truth::unjudged(LENGTH),
        ([true, true], ..) => Truth::NotIdentifiable("sequential writes come back by themselves"),
        ([false, false], Some(one), Some(other)) if one == other => one.into(),
        _ => Truth::unjudged(HISTORY),
    };
    let ends = match ends {
        _ if !of_long_ends => Truth::unjudged(LENGTH),
        [one, other] if one == other => one.into(),
        _ => Truth::unjudged(HISTORY),
    };
    Truths { time, ends, cures }
}

/// The range of the times of several devices of both histories, two of which are known precisely.
fn between(profile: &Profile, unit: Bytes, random: &mut Prng, known: &[f64], exact: f64) -> Truth {
    let mut times = known.to_vec();
    for _ in 1..REPETITIONS {
        let filled = experiment(Lab::filled(profile), unit, BURST, random);
        let written = experiment(states::steady(profile, random), unit, BURST, random);
        times.extend([filled, written].iter().filter_map(|one| one.time).map(|(time, _)| time));
    }
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let (least, most) = (least - exact, most + exact);
    if most > APART * least || times.len() < 2 * REPETITIONS {
        let times = format!("{} to {}", Nanos(least as u64), Nanos(most as u64));
        return Truth::unjudged(format!("it depends on chance: {times}"));
    }
    Truth::Between([least, most])
}

fn experiment(mut lab: Lab, unit: Bytes, length: Nanos, random: &mut Prng) -> Recovery {
    let capacity = lab.capacity();
    let half = Bytes(capacity.0 / 2).round_down(SEQUENTIAL);
    let slots = half.0 / SEQUENTIAL.0;
    let first = slots / 2;
    // This number of writes to the slots of `of`, starting with the first one and wrapping around.
    let sequential = |lab: &mut Lab, of: std::ops::Range<u64>, count: u64| -> Vec<f64> {
        let slot = |index: u64| half + SEQUENTIAL * (of.start + index % (of.end - of.start));
        (0..count).map(|index| lab.io(Operation::Write, slot(index), SEQUENTIAL).0 as f64).collect()
    };
    let width = unit.0.div_ceil(SEQUENTIAL.0);
    let rounds = |slots: u64| slots.max(4 * width);
    let order = |lab: &mut Lab| {
        let eighth = (0..capacity.0 / RANDOM_PART / SEQUENTIAL.0).map(|slot| SEQUENTIAL * slot);
        eighth.for_each(|offset| {
            lab.io(Operation::Write, offset, SEQUENTIAL);
        });
    };
    order(&mut lab);
    lab.rest(REST);
    sequential(&mut lab, 0..slots, rounds(slots));
    let level = mean(&sequential(&mut lab, 0..slots, rounds(slots)));

    let end = lab.now() + length;
    let size = RANDOM.max(lab.block());
    let areas = capacity.0 / RANDOM_PART / size.0;
    let mut written = Bytes::ZERO;
    while lab.now() < end {
        lab.io(Operation::Write, size * random.below(areas), size);
        written += size;
    }
    let after = sequential(&mut lab, 0..first, 2 * rounds(first));
    match slowed_until(&after, width as usize, level) {
        Some(slowed) => {
            let time = after[..slowed].iter().sum::<f64>();
            let recovered = Recovery { time: Some((time, level * width as f64)), cured: None, written };
            // The region that was not rewritten is only measured if the writes were slow at all.
            let other =
                if slowed > 0 { sequential(&mut lab, first..slots, slots - first) } else { Vec::new() };
            let is_slow = mean(&other[other.len() / 2..]) >= SLOWED * level;
            if is_slow { Recovery { time: None, cured: Some(true), written } } else { recovered }
        }
        None => {
            order(&mut lab);
            sequential(&mut lab, 0..first, rounds(first));
            let again = mean(&sequential(&mut lab, 0..first, rounds(first)));
            Recovery { time: None, cured: Some(again < SLOWED * level), written }
        }
    }
}

/// The number of writes before the first two consecutive stretches of `width` that are not slowed down.
/// `None` if the last quarter is slowed down. Later stretches are no recovery: when the writes wrap around to
/// the first address they break a sequence, with or without a burst.
fn slowed_until(times: &[f64], width: usize, level: f64) -> Option<usize> {
    let slow: Vec<bool> = times.chunks_exact(width).map(|part| mean(part) >= SLOWED * level).collect();
    let ends = mean(&times[times.len() - times.len() / 4..]) < SLOWED * level;
    let quick = slow.windows(2).position(|pair| !pair[0] && !pair[1]);
    quick.filter(|_| ends).map(|stretches| stretches * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_quick_stretches_end_the_recovery() {
        let times = [vec![9.0; 4], vec![1.0; 8]].concat();
        assert_eq!(slowed_until(&times, 2, 1.0), Some(4));
        assert_eq!(slowed_until(&times[4..], 2, 1.0), Some(0));
        assert_eq!(slowed_until(&times[..4], 2, 1.0), None);
    }
}
