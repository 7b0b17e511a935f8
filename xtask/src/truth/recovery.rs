//! What a burst of random writes does to sequential ones, and what cures it (Ajwani et al., appendix C).
//!
//! # Model
//! The first eighth of the device is written sequentially, and after the second half was, too, randomly for five seconds. After it the first
//! half of that half is written, twice at most, and when it is as quick as before, the rest of it, which was not written since: if
//! that is slow to its end, it was rewriting that helped. Sequential writes are slowed down where those of a whole
//! erase block take a tenth more than before. The device is once only filled, and once written randomly all over: a figure that
//! depends on that is not judged. How long merges take that random writes leave is chance: where the times of several devices are
//! near each other, what lies between the least and the most of them, each an erase block further, is right.
//!
//! What all probes together may write is twice the capacity, and filling the device takes half of it. The other half is for some twenty
//! groups of probes, and of its part a group can spend the half on bursts: what writes more is not affordable, and where that is a burst of
//! five seconds, nothing is judged. Where one of a minute is affordable, it is asked as well whether that ends.

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
/// How often a time is measured, on devices of either history, and how many times as long as the least the most of them may be.
const REPETITIONS: usize = 4;
const APART: f64 = 1.5;
const HISTORY: &str = "it depends on what was written before";
const LENGTH: &str = "it depends on how long the burst is";
const UNAFFORDABLE: &str = "five seconds of random writes are more than a probe may write";
/// The part of the capacity that a burst may write.
const BURST_PART: u64 = 40;

/// Of one experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recovery {
    /// How long it was slowed down, and how exact that is, in nanoseconds; `None`: until the end, or until rewritten.
    time: Option<(f64, f64)>,
    /// Whether rewriting helps, if it does not come back by itself.
    cured: Option<bool>,
    /// By the random writes.
    written: Bytes,
}

/// Recovery time, whether it ends, and whether rewriting cures it.
pub struct Truths {
    pub time: Truth,
    pub ends: Truth,
    pub cures: Truth,
}

/// Measures them. Sequential writes fill `unit` bytes between one expensive one and the next.
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

/// What lies between the times of several devices of either history, two of which are known so exactly.
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
    // So many writes to the slots of `of`, from its first one on and round and round.
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
            // What is not rewritten yet is asked only after what was slow at all.
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

/// How many writes are over when the first of two stretches of `width` in a row comes that are not slowed down; `None`
/// where the last quarter is slowed down. Later ones are no recovery: where the writes begin again at the first address
/// they break a sequence, burst or not.
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
