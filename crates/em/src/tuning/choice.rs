//! Chooses a queue depth from probes whose rates are noisy.
//!
//! # Model
//! A probe of some milliseconds on a shared disk is off by a tenth, and by more where it meets another program. What disturbs a round
//! of probes disturbs its neighbours, too, so that depths are compared within a round. More IOs in flight never make a device slower in
//! truth: a rate that falls with the depth is noise, or an end of the queue.
//!
//! # Method
//! 1. The median of each depth's rounds; medians that fall are pooled with their neighbours, as [`non_decreasing`] says.
//! 2. The depths within [`ENOUGH`] of the best pooled rate are the plateau. In each round the mean of the plateau is the reference.
//! 3. The smallest depth is chosen that is within [`ENOUGH`] of the reference even if its mean is too high by one standard error. Where
//!    that is no depth, nothing can be told, and the plateau's largest depth is chosen: too many in flight only take memory.

use flashlab_base::median;

/// The share of the best rate that is enough. Above it the rates differ by the ends of a probe, where the queue is not full, rather than
/// by the depth.
const ENOUGH: f64 = 0.98;

/// The rates of one depth, one for each round of probes.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthRates {
    /// IOs in flight.
    pub depth: u32,
    /// IOs a second.
    pub rates: Vec<f64>,
}

/// A depth that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthChoice {
    /// It.
    pub depth: u32,
    /// IOs a second of the plateau.
    pub ios_per_s: f64,
}

/// The nearest sequence that does not fall: neighbours that fall are replaced by their mean (pool adjacent violators; Ayer et al.,
/// Annals of Mathematical Statistics 1955).
pub(crate) fn non_decreasing(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &value in values {
        let mut pool = (value, 1);
        while let Some(&(sum, count)) = pools.last()
            && sum / count as f64 > pool.0 / pool.1 as f64
        {
            pool = (pool.0 + sum, pool.1 + count);
            pools.pop();
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|&(sum, count)| std::iter::repeat_n(sum / count as f64, count)).collect()
}

/// The depth that is used: of depths in ascending order, all with the same number of rounds; `None` without any.
pub fn choose_depth(depths: &[DepthRates]) -> Option<DepthChoice> {
    let pooled: Vec<f64> = depths.iter().map(|depth| median(&depth.rates).unwrap_or_default()).collect();
    let pooled = non_decreasing(&pooled);
    let best = pooled.last().copied()?;
    let first = pooled.iter().position(|&rate| rate >= best * ENOUGH)?;
    let plateau = &depths[first..];
    let rounds = plateau.iter().map(|depth| depth.rates.len()).min()?;
    let reference: Vec<f64> = (0..rounds)
        .map(|round| plateau.iter().map(|depth| depth.rates[round]).sum::<f64>() / plateau.len() as f64)
        .collect();
    let is_enough = |depth: &&DepthRates| {
        let logs = || depth.rates.iter().zip(&reference).map(|(rate, reference)| (rate / reference).ln());
        let (mean, count) = (logs().sum::<f64>() / rounds as f64, rounds as f64);
        let square = logs().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        mean - (square / count).sqrt() >= ENOUGH.ln()
    };
    let chosen = match rounds {
        // Without noise each rate counts as it is, even if a larger depth falls behind it.
        1 => depths.iter().find(|depth| depth.rates[0] >= ENOUGH * highest(depths)),
        _ => depths.iter().find(is_enough).or(plateau.last()),
    }?;
    let ios_per_s = if rounds == 1 { chosen.rates[0] } else { best };
    Some(DepthChoice { depth: chosen.depth, ios_per_s })
}

fn highest(depths: &[DepthRates]) -> f64 {
    depths.iter().flat_map(|depth| depth.rates.iter().copied()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    #[test]
    fn what_falls_is_pooled() {
        assert_eq!(non_decreasing(&[1.0, 4.0, 2.0, 3.0, 9.0, 6.0]), [1.0, 3.0, 3.0, 3.0, 7.5, 7.5]);
    }

    /// Made-up rounds of a shared disk: what each round alone would have chosen differs.
    #[test]
    fn rounds_that_disagree_give_one_choice() {
        let rounds = [
            [4210.0, 8120.0, 7900.0, 8010.0, 8460.0, 8390.0],
            [3900.0, 6120.0, 8590.0, 8300.0, 8190.0, 8610.0],
            [4400.0, 7010.0, 8210.0, 8740.0, 8650.0, 8100.0],
            [4050.0, 6880.0, 8480.0, 8120.0, 8700.0, 8580.0],
            [4120.0, 7200.0, 8330.0, 8550.0, 8410.0, 8470.0],
        ];
        let all: Vec<DepthRates> = (0..6)
            .map(|at| DepthRates { depth: 1 << at, rates: rounds.iter().map(|round| round[at]).collect() })
            .collect();
        let alone = |round: &[f64; 6]| {
            let one = |(at, &rate): (usize, &f64)| DepthRates { depth: 1 << at, rates: vec![rate] };
            choose_depth(&round.iter().enumerate().map(one).collect::<Vec<_>>()).unwrap().depth
        };
        assert_eq!(rounds.each_ref().map(alone), [16, 4, 8, 16, 8]);
        let chosen = choose_depth(&all).unwrap().depth;
        assert!((4..=16).contains(&chosen), "{chosen}");
        assert_eq!(choose_depth(&[]), None);
    }

    /// Rates of a device with this response time and most rate, with noise: a scatter of each probe, one of each round, and probes that
    /// meet another program.
    fn noisy(truth: &[(u32, f64)], scatter: f64, random: &mut Prng) -> Vec<DepthRates> {
        let mut all: Vec<DepthRates> =
            truth.iter().map(|&(depth, _)| DepthRates { depth, rates: Vec::new() }).collect();
        for _ in 0..5 {
            let round = 1.0 + scatter * (random.unit() - 0.5);
            for (one, &(_, rate)) in all.iter_mut().zip(truth) {
                let sum: f64 = (0..4).map(|_| random.unit() - 0.5).sum();
                let disturbed = if random.unit() < 0.05 { 0.5 } else { 1.0 };
                one.rates.push(rate * round * disturbed * (scatter * sum * 1.7).exp());
            }
        }
        all
    }

    /// A thousand replays for each scatter: what is lost in rate, and how much more than needed is in flight.
    #[test]
    fn the_choice_loses_little_rate_whatever_the_noise() {
        let mut random = Prng::new(Seed(43));
        for (scatter, most) in [(0.02, 1.0), (0.1, 2.5), (0.2, 4.0)] {
            let (mut losses, mut surplus) = (Vec::new(), Vec::new());
            for _ in 0..1000 {
                let knee = 2f64.powf(5.0 * random.unit());
                let truth: Vec<(u32, f64)> =
                    (0..8).map(|at| (1u32 << at, 1000.0 * f64::from(1u32 << at).min(knee))).collect();
                let chosen = choose_depth(&noisy(&truth, scatter, &mut random)).unwrap().depth;
                let rate = truth.iter().find(|one| one.0 == chosen).unwrap().1;
                losses.push(1.0 - rate / (1000.0 * knee));
                surplus.push((f64::from(chosen) / knee).log2());
            }
            losses.sort_by(f64::total_cmp);
            let (mean, worst) = (losses.iter().sum::<f64>() / 1000.0, losses[990]);
            assert!(
                mean < 0.01 && worst < 0.15,
                "scatter {scatter}: mean loss {mean:.4}, 99 of 100 {worst:.3}"
            );
            let surplus = median(surplus).unwrap();
            assert!(surplus < most, "scatter {scatter}: 2^{surplus:.2} times as many in flight as needed");
        }
    }
}
