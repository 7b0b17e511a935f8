//! What a burst of random writes does to sequential ones, and what cures it (Ajwani et al., appendix C).
//!
//! # Model
//! The first half of the device is written randomly for five seconds, the second half sequentially before and after that.
//! Sequential writes are slowed down where those of a whole erase block take a tenth more than before. The device is
//! once only filled, and once written randomly all over: a figure that depends on that is not judged.

use flashlab_base::{Bytes, Nanos, Prng, Seed};
use flashlab_device::Operation;
use flashlab_sim::Profile;

use super::lab::{Lab, mean};
use super::{NEAR, Truth, states};

const RANDOM: Bytes = Bytes::kib(4);
const SEQUENTIAL: Bytes = Bytes::kib(32);
const BURST: Nanos = Nanos::from_secs(5);
const REST: Nanos = Nanos::from_secs(60);
const SLOWED: f64 = 1.1;
const HISTORY: &str = "it depends on what was written before";

/// Of one experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Recovery {
    /// How long it was slowed down, and how exact that is, in nanoseconds; `None`: until the end.
    time: Option<(f64, f64)>,
    /// Whether rewriting helps, if it does not come back by itself.
    cured: Option<bool>,
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
    let filled = experiment(Lab::filled(profile), unit, &mut random);
    let written = experiment(states::steady(profile, &mut random), unit, &mut random);
    let ends = [filled, written].map(|one| one.time.is_some());
    let time = match (filled.time, written.time) {
        (Some((0.0, _)), Some((0.0, _))) => 0.into(),
        (Some((one, exact)), Some((other, _))) => {
            if (one - other).abs() > NEAR / 2.0 * one.max(other) {
                let times = format!("{} or {}", Nanos(one as u64), Nanos(other as u64));
                Truth::unjudged(format!("{HISTORY}: {times}"))
            } else if exact > NEAR / 2.0 * one {
                Truth::unjudged("it is over within a few erase blocks")
            } else {
                ((one + other) / 2.0).into()
            }
        }
        (None, None) => Truth::NotIdentifiable("it does not end"),
        _ => Truth::unjudged(HISTORY),
    };
    let cures = match (ends, filled.cured, written.cured) {
        ([true, true], ..) => Truth::NotIdentifiable("sequential writes come back by themselves"),
        ([false, false], Some(one), Some(other)) if one == other => one.into(),
        _ => Truth::unjudged(HISTORY),
    };
    let ends = if ends[0] == ends[1] { ends[0].into() } else { Truth::unjudged(HISTORY) };
    Truths { time, ends, cures }
}

fn experiment(mut lab: Lab, unit: Bytes, random: &mut Prng) -> Recovery {
    let half = Bytes(lab.capacity().0 / 2).round_down(SEQUENTIAL);
    let slots = half.0 / SEQUENTIAL.0;
    let mut next = 0;
    let mut sequential = |lab: &mut Lab, count: u64| -> Vec<f64> {
        let times = (0..count).map(|_| {
            let offset = half + SEQUENTIAL * (next % slots);
            next += 1;
            lab.io(Operation::Write, offset, SEQUENTIAL).0 as f64
        });
        times.collect()
    };
    let width = unit.0.div_ceil(SEQUENTIAL.0);
    lab.rest(REST);
    let before = slots.max(4 * width);
    sequential(&mut lab, before);
    let level = mean(&sequential(&mut lab, before));

    let end = lab.now() + BURST;
    let areas = half.0 / RANDOM.0;
    while lab.now() < end {
        lab.io(Operation::Write, RANDOM * random.below(areas), RANDOM);
    }
    let after = sequential(&mut lab, 2 * slots.max(4 * width));
    match slowed_until(&after, width as usize, level) {
        Some(writes) => {
            let time = after[..writes].iter().sum::<f64>();
            Recovery { time: Some((time, level * width as f64)), cured: None }
        }
        None => {
            let rewritten = (0..slots).map(|slot| (Operation::Write, SEQUENTIAL * slot, SEQUENTIAL));
            lab.condition(&mut rewritten.into_iter());
            lab.rest(REST);
            sequential(&mut lab, before);
            let again = mean(&sequential(&mut lab, before));
            Recovery { time: None, cured: Some(again < SLOWED * level) }
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
