//! How far a page lies from the beginning of its block, seen by what writing it costs.
//!
//! # Model
//! Where a block's pages have to be written in order, a write anywhere begins a new block: what comes before the page is
//! copied first, and what comes after it when the next write has to make room. So the cost rises with the page's place in
//! its block: over the addresses it is a saw of merges, whose teeth are as long as the blocks that fill together. Random
//! addresses all over the device, each folded by a period, show its correlation with the cost; only the true
//! period folds all of them right. What the merge before it costs is noise, of the same size, and hundreds of writes
//! make up for it.
//!
//! Blocks begin at the device's beginning, so that the place in a period is known and has not to be looked for. Ranks
//! stand for the costs, so that outliers count for no more than other high figures.
//!
//! # Invariants
//! - a period is found only if it foretells the costs of writes that it was not found with.

/// A period and how well it folds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Saw {
    /// The period, in units.
    pub period: u64,
    /// The correlation of place and cost's rank, of the writes that it was found with.
    pub correlation: f64,
    /// And of others.
    pub foretold: f64,
}

/// A correlation of so many standard errors is none by chance, among all periods; and of one of which it is asked alone.
const FOUND: f64 = 6.5;
const FORETOLD: f64 = 4.0;

/// The period of the saw in the costs of writes at these addresses, in units, from `shortest` to `longest`.
pub(super) fn saw(addresses: &[u64], costs: &[f64], shortest: u64, longest: u64) -> Option<Saw> {
    let half = addresses.len() / 2;
    if half < 64 || shortest > longest {
        return None;
    }
    let (ranks, others) = (ranks(&costs[..half]), ranks(&costs[half..]));
    let enough = FOUND / (half as f64).sqrt();
    let fold = |period| correlation(&addresses[..half], &ranks, period);
    let (best, _) = (shortest..=longest)
        .map(|period| (period, fold(period)))
        .filter(|&(_, correlation)| correlation >= enough)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    // Neighbours that differ by less than a part of a tooth over all of the device fold as well: both halves decide,
    // and of what folds nearly as well the roundest is taken.
    let both = |period| fold(period) + correlation(&addresses[half..], &others, period);
    let near = best - best / 30..=best + best / 30;
    let most = near.clone().map(both).fold(f64::MIN, f64::max);
    let period = near
        .filter(|&period| both(period) >= 0.97 * most)
        .max_by_key(|period| (period.trailing_zeros(), both(*period).to_bits()))?;
    let foretold = correlation(&addresses[half..], &others, best);
    (foretold >= FORETOLD / (half as f64).sqrt()).then_some(Saw {
        period,
        correlation: fold(period),
        foretold,
    })
}

/// The places of figures in their order, from 0 to 1.
fn ranks(costs: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by(|&a, &b| costs[a].total_cmp(&costs[b]));
    let mut ranks = vec![0.0; costs.len()];
    for (place, index) in order.into_iter().enumerate() {
        ranks[index] = (place as f64 + 0.5) / costs.len() as f64;
    }
    ranks
}

/// The correlation of the ranks with the places in a period, both uniform from 0 to 1.
fn correlation(addresses: &[u64], ranks: &[f64], period: u64) -> f64 {
    let length = period as f64;
    let (mut sum, mut squares, mut products) = (0.0, 0.0, 0.0);
    for (&address, &rank) in addresses.iter().zip(ranks) {
        let place = (address % period) as f64 / length;
        sum += place;
        squares += place * place;
        products += place * (rank - 0.5);
    }
    let count = addresses.len() as f64;
    let variance = squares / count - (sum / count).powi(2);
    if variance <= 0.0 { 0.0 } else { products / count / (variance / 12.0).sqrt() }
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;

    /// Writes at random places of a device, whose cost is what lies before them in a block of `period`, and behind the
    /// last one in its own.
    fn writes(seed: u64, period: u64, teeth: u64, tooth: f64) -> (Vec<u64>, Vec<f64>) {
        let mut random = Prng::new(Seed(seed));
        let mut before = 0;
        (0..512)
            .map(|_| {
                let address = random.below(period * teeth);
                let outlier = if random.unit() < 0.01 { 10.0 } else { 1.0 };
                let copied = (address % period) as f64 + (period - before) as f64;
                before = address % period;
                (address, outlier * (1.0 + 0.1 * random.unit()) * (period as f64 + tooth * copied))
            })
            .unzip()
    }

    #[test]
    fn the_period_is_found() {
        for (seed, period) in [48, 64, 96, 320, 1000, 4096].into_iter().enumerate() {
            let (addresses, costs) = writes(seed as u64, period, 400, 1.0);
            let found = saw(&addresses, &costs, 8, 6000).unwrap();
            assert!(found.period.abs_diff(period) * 33 <= period, "{period}: {found:?}");
        }
    }

    #[test]
    fn costs_that_do_not_rise_have_none() {
        for seed in 0..20 {
            let (addresses, costs) = writes(seed, 256, 400, 0.0);
            assert_eq!(saw(&addresses, &costs, 8, 4000), None);
        }
    }
}
