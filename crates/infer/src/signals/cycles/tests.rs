use flashlab_base::{Prng, Seed};

use super::*;

#[test]
fn what_comes_by_the_clock_is_told_from_what_comes_by_the_writes() {
    for seed in 0..8 {
        let mut random = Prng::new(Seed(seed));
        let (mut by_clock, mut by_writes, mut next) = (Vec::new(), Vec::new(), 0.0);
        for index in 0..4000 {
            let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
            let time = (1.0 + 0.1 * random.unit()) * outlier;
            by_writes.push(time + if index % 170 < 2 { 20.0 } else { 0.0 });
            let now: f64 = by_clock.iter().sum();
            by_clock.push(time + if now >= next { 20.0 } else { 0.0 });
            next = if now >= next { next + 200.0 } else { next };
        }
        let told = |costs: &[f64]| cycles(costs).first().map(|cycle| is_by_the_clock(cycle, costs, costs));
        assert_ne!(told(&by_clock), Some(false), "seed {seed}");
        assert_eq!(told(&by_writes), Some(false), "seed {seed}");
    }
}

/// Costs with jitter and outliers; from `onset` on up to eight of each `period` are expensive, anywhere within twelve.
fn costs(seed: u64, count: usize, period: usize, onset: usize) -> Vec<f64> {
    let mut random = Prng::new(Seed(seed));
    let mut costs: Vec<f64> = (0..count)
        .map(|_| (1.0 + 0.1 * random.unit()) * if random.unit() < 0.01 { 10.0 } else { 1.0 })
        .collect();
    for begin in (onset..count.saturating_sub(12)).step_by(period) {
        (0..8).for_each(|_| costs[begin + random.below(12) as usize] = 8.0 + random.unit());
    }
    costs
}

#[test]
fn the_period_and_the_beginning_are_found() {
    for (seed, period) in [64, 96, 320, 512].into_iter().enumerate() {
        let onset = 7 * period + 5;
        let costs = costs(seed as u64, 24 * period, period, onset);
        let found = cycles(&costs)[0];
        assert_eq!(found.period, period, "{found:?}");
        let begin = found.onset(&costs).expect("it begins later");
        assert!(begin.abs_diff(onset) <= period + 16, "{begin}, not {onset}");
        let fresh = self::costs(99 + seed as u64, 24 * period, period, onset);
        let (windows, stalled, gain) = found.predicts(&fresh[9 * period..], 9 * period);
        assert!(windows >= 6 && stalled + 1 >= windows && gain > 7.0, "{windows}, {stalled}, {gain}");
    }
}

#[test]
fn without_a_period_none_is_found() {
    assert!((0..40).all(|seed| cycles(&costs(seed, 3000, usize::MAX / 2, 2999)).is_empty()));
}

#[test]
fn outliers_between_the_windows_do_not_feign_half_the_period() {
    for (seed, period) in [64, 384, 500].into_iter().enumerate() {
        let costs = costs(seed as u64, 12 * period, period, 5);
        let found = cycles(&costs)[0];
        let half = Cycle { period: period / 2, ..found };
        assert_eq!(half.likeliest_period(&costs, 0, 32).period, period);
        assert_eq!(found.likeliest_period(&costs, 0, 32).period, period);
    }
}

#[test]
fn outliers_before_the_first_window_are_told_by_what_they_take() {
    for seed in 0..20 {
        let (period, onset) = (128, 27 * 128);
        let mut random = Prng::new(Seed(seed));
        // A buffer is reclaimed at each place, which takes 6 to 7.4; from the onset on it takes 2 more, as a block is erased.
        let mut one = |at: usize| match at % period {
            40 => 6.0 + 1.4 * random.unit() + if at >= onset { 2.0 } else { 0.0 },
            _ => 1.0 + 0.1 * random.unit(),
        };
        let costs: Vec<f64> = (0..45 * period).map(&mut one).collect();
        let cycle = Cycle {
            period,
            phase: 40,
            width: 1,
            from: 0,
            length: costs.len(),
            gain: 0.0,
            low: 7.2,
            high: f64::INFINITY,
        };
        assert_eq!(cycle.onset(&costs), Some(onset + 40), "seed {seed}");
    }
}
