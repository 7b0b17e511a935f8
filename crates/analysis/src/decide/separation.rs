//! Whether figures are one cluster or several: cheap and expensive IOs, and how many cost levels
//! there are.
//!
//! Model: a cluster is a distribution of logarithms with one mode and any other shape; and besides,
//! up to [`OUTLIER_SHARE`] of all figures may be outliers that lie anywhere, even all at one place.
//! Two clusters show as a gap with few figures between two stretches with many.
//!
//! Without a second cluster the density falls away from the mode. Then, seen from any figure on
//! that side of the mode, of the j figures next to it at most as many lie far as with a uniform
//! density: with the j-th at distance d, that only l - 1 of the j - 1 others are nearer than x d has
//! at most the probability that a binomial with x shows so few, which Hoeffding's inequality
//! bounds by exp(-(j - 1) KL((l - 1) / (j - 1), x)). A gap must be that surprising seen from
//! both its edges, as the mode may lie on either side, and it is corrected for all places it may be
//! at and for the windows j that are tried. This is the argument of tests for unimodality
//! (Hartigan and Hartigan, Annals of Statistics 13(1), 1985), for a rare second cluster, which the
//! dip does not see.
//!
//! Figures that are equal have no distance: a clock that ticks coarsely gives clusters one tick
//! apart, which the ratio of the levels tells.

use super::{divergence, logarithms, median_of_sorted};

/// The share of figures that may be outliers and no cluster.
pub const OUTLIER_SHARE: f64 = 0.01;

/// The most likely division of figures into cheap and expensive ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Separation {
    /// Figures above it are expensive.
    pub threshold: f64,
    /// The median of the cheap figures.
    pub low: f64,
    /// The median of the expensive figures.
    pub high: f64,
    /// How many of the figures are expensive.
    pub expensive: usize,
    /// The share of figures that are.
    pub share: f64,
    /// p that all figures are one cluster, without outliers.
    pub p_one_cluster: f64,
    /// p that the smaller part are outliers.
    pub p_outliers: f64,
}

impl Separation {
    /// How many times the cheap level the expensive one is.
    pub fn ratio(&self) -> f64 {
        self.high / self.low
    }

    /// p that there is one cluster and outliers at random places.
    pub fn p(&self) -> f64 {
        self.p_one_cluster.max(self.p_outliers)
    }

    /// As [`Separation::p`], where the places of the expensive figures speak too: `p_places` is the
    /// p that they are random (see [`super::events`]), which outliers' places are.
    pub fn p_with_places(&self, p_places: f64) -> f64 {
        // The smaller of two, corrected for having two.
        self.p_one_cluster.max((2.0 * self.p_outliers.min(p_places)).min(1.0))
    }
}

/// Divides positive figures at the gap that is the least likely without a second cluster. None with
/// fewer than 4 figures or where all are equal.
pub fn separate(values: &[f64]) -> Option<Separation> {
    let mut logs = logarithms(values);
    logs.sort_by(f64::total_cmp);
    let gap = surest_gap(&logs, logs.len())?;
    let below = refined(&logs, gap.below);
    let (cheap, expensive) = logs.split_at(below);
    Some(Separation {
        threshold: (cheap[below - 1] / 2.0 + expensive[0] / 2.0).exp(),
        low: median_of_sorted(cheap)?.exp(),
        high: median_of_sorted(expensive)?.exp(),
        expensive: expensive.len(),
        share: expensive.len() as f64 / logs.len() as f64,
        p_one_cluster: gap.ln_p_one_cluster.exp().min(1.0),
        p_outliers: gap.ln_p_outliers.exp(),
    })
}

/// One of several cost levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostLevel {
    /// The median of its figures.
    pub median: f64,
    /// The least figure that belongs to it.
    pub least: f64,
    /// How many belong to it.
    pub count: usize,
}

/// The distinct cost levels among positive figures, ascending: divided again and again where p is
/// at most `alpha`, but for outliers. With K true levels more are found with probability K `alpha`
/// at most. Levels of fewer figures than outliers may be are counted to their neighbour.
pub fn cost_levels(values: &[f64], alpha: f64) -> Vec<CostLevel> {
    let mut logs = logarithms(values);
    logs.sort_by(f64::total_cmp);
    let mut levels = Vec::new();
    let mut parts = if logs.is_empty() { Vec::new() } else { vec![logs.as_slice()] };
    while let Some(part) = parts.pop() {
        let gap = surest_gap(part, logs.len()).filter(|gap| gap.ln_p() <= alpha.ln());
        if let Some(gap) = gap {
            let (cheap, expensive) = part.split_at(refined(part, gap.below));
            parts.extend([expensive, cheap]);
        } else {
            let median = median_of_sorted(part).unwrap_or(0.0).exp();
            levels.push(CostLevel { median, least: part[0].exp(), count: part.len() });
        }
    }
    levels
}

/// A gap in ascending figures, and how likely it is without a second cluster.
struct Gap {
    /// How many figures lie below it.
    below: usize,
    ln_p_one_cluster: f64,
    ln_p_outliers: f64,
}

impl Gap {
    fn ln_p(&self) -> f64 {
        self.ln_p_one_cluster.max(self.ln_p_outliers)
    }
}

/// The gap with the smallest p; those too small for outliers to be told from come last. `all` is
/// the number of figures that the outliers are a share of.
fn surest_gap(sorted: &[f64], all: usize) -> Option<Gap> {
    let n = sorted.len();
    let is_gap = |&below: &usize| sorted[below] > sorted[below - 1];
    let gap = |below: usize| {
        let seen_from_below = ln_p_of_falling(n - below, |j| sorted[below - 1 + j] - sorted[below - 1]);
        let seen_from_above = ln_p_of_falling(below, |j| sorted[below] - sorted[below - j]);
        let smaller = below.min(n - below) as f64;
        let share = smaller / all as f64;
        let more_than_outliers = if share > OUTLIER_SHARE { divergence(share, OUTLIER_SHARE) } else { 0.0 };
        Gap {
            below,
            ln_p_one_cluster: seen_from_below.max(seen_from_above) + (n as f64).ln(),
            ln_p_outliers: -(all as f64) * more_than_outliers,
        }
    };
    let by_p = |a: &Gap, b: &Gap| {
        a.ln_p().total_cmp(&b.ln_p()).then(a.ln_p_one_cluster.total_cmp(&b.ln_p_one_cluster))
    };
    (2..n.saturating_sub(1)).filter(is_gap).map(gap).min_by(by_p)
}

/// The logarithm of the p that a density falls from an edge on: `distance(j)` is that of the j-th
/// of `count` figures from it. Windows of all figures, three quarters, nine sixteenths... are tried, so
/// that neither figures far out nor a third cluster hide the second.
fn ln_p_of_falling(count: usize, distance: impl Fn(usize) -> f64) -> f64 {
    let (mut window, mut windows, mut surest) = (count, 0.0, 0.0_f64);
    while window >= 2 {
        let quarter = (window / 4).max(1);
        let near = distance(quarter) / distance(window);
        let share = (quarter - 1) as f64 / (window - 1) as f64;
        if near > share {
            surest = surest.min(-((window - 1) as f64) * divergence(share, near));
        }
        windows += 1.0;
        window = window * 3 / 4;
    }
    surest + f64::ln(windows).max(0.0)
}

/// The division near `below` that lies between the medians of both parts by their scatter: the
/// surest gap may have some of one cluster's figures on its other side.
fn refined(sorted: &[f64], below: usize) -> usize {
    let mut below = below;
    for _ in 0..4 {
        let (cheap, expensive) = sorted.split_at(below);
        let (low, high) = (quartile(cheap, 2), quartile(expensive, 2));
        // A cluster without scatter is still given some.
        let floor = (high - low) / 20.0;
        let low_scatter = (quartile(cheap, 3) - quartile(cheap, 1)).min(high - low) + floor;
        let high_scatter = (quartile(expensive, 3) - quartile(expensive, 1)).min(high - low) + floor;
        let between = low + (high - low) * low_scatter / (low_scatter + high_scatter);
        let moved = sorted.partition_point(|&v| v <= between);
        if moved == below || moved == 0 || moved == sorted.len() {
            break;
        }
        below = moved;
    }
    below
}

fn quartile(sorted: &[f64], quarters: usize) -> f64 {
    sorted[(sorted.len() - 1) * quarters / 4]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::noise::{assert_honest, jitter, odd_samples, sample};
    use crate::synthetic::Source;

    /// `n` figures of which a share costs `ratio` times as much.
    fn mixed(source: &mut Source, n: usize, share: f64, ratio: f64) -> Vec<f64> {
        (0..n).map(|_| if source.unit() < share { ratio } else { 1.0 } * jitter(source)).collect()
    }

    #[test]
    fn one_cluster_of_any_shape_is_no_two() {
        type Shape = fn(&mut Source) -> f64;
        let shapes: [(&str, Shape); 6] = [
            ("jitter and outliers", jitter),
            ("uniform logarithms", |s| s.unit().exp()),
            ("exponential", |s| 1e-9 - s.unit().ln()),
            ("Pareto", |s| s.pareto(1.0)),
            ("Laplace", |s| s.pareto(5.0) / s.pareto(5.0)),
            ("jitter and outliers of one size", |s| if s.unit() < 0.01 { 10.0 } else { s.log_normal(0.05) }),
        ];
        let mut source = Source::new(6);
        for (name, shape) in shapes {
            for n in [12, 60, 400] {
                let one = |_| (0..n).map(|_| shape(&mut source)).collect::<Vec<_>>();
                let ps: Vec<f64> =
                    (0..150).map(one).map(|v| separate(&v).map_or(1.0, |found| found.p())).collect();
                assert_honest(&ps, name);
            }
        }
    }

    #[test]
    fn two_clusters_are_told_with_their_threshold_share_and_ratio() {
        let mut source = Source::new(7);
        for (n, share, ratio) in
            [(200, 0.5, 1.5), (300, 0.1, 2.0), (400, 0.05, 3.0), (200, 0.1, 50.0), (300, 0.9, 4.0)]
        {
            let right = (0..50)
                .filter(|_| {
                    let values = mixed(&mut source, n, share, ratio);
                    separate(&values).is_some_and(|found| {
                        found.p() < 1e-3
                            && (found.ratio() / ratio - 1.0).abs() < 0.05
                            && (1.0..ratio).contains(&found.threshold)
                    })
                })
                .count();
            assert!(right >= 47, "{right} of 50 with {n}, {share}, {ratio}");
        }
    }

    #[test]
    fn rare_expensive_figures_are_believed_only_for_their_places() {
        let mut source = Source::new(8);
        let mut values = sample(&mut source, 1000, 1.0);
        values.iter_mut().step_by(128).for_each(|v| *v = 10.0);
        let found = separate(&values).unwrap();
        assert!(found.p_one_cluster < 1e-6 && found.p_outliers > 0.01, "{found:?}");
        assert!(found.p() > 0.01 && found.p_with_places(1e-6) < 1e-5, "{found:?}");
    }

    #[test]
    fn cost_levels_are_counted() {
        let mut source = Source::new(9);
        for levels in [&[100.0][..], &[100.0, 150.0], &[100.0, 200.0, 400.0], &[60.0, 100.0, 900.0, 27e3]] {
            let right = (0..40)
                .filter(|_| {
                    let values: Vec<f64> =
                        (0..480).map(|i| levels[i % levels.len()] * jitter(&mut source)).collect();
                    let found = cost_levels(&values, 1e-3);
                    found.len() == levels.len()
                        && found.iter().zip(levels).all(|(f, l)| (f.median / l - 1.0).abs() < 0.03)
                })
                .count();
            assert!(right >= 38, "{right} of 40 with {levels:?}");
        }
        let exact = cost_levels(&[[5.0; 20], [7.0; 20], [80.0; 20]].concat(), 1e-3);
        assert_eq!(exact.iter().map(|l| l.count).collect::<Vec<_>>(), [20, 20, 20]);
    }

    #[test]
    fn odd_figures_do_no_harm() {
        for values in odd_samples() {
            if let Some(found) = separate(&values) {
                assert!((0.0..=1.0).contains(&found.p()), "{found:?} for {values:?}");
                assert!(found.expensive > 0 && found.expensive < values.len());
            }
            let counted: usize = cost_levels(&values, 0.01).iter().map(|level| level.count).sum();
            assert_eq!(counted, values.len());
        }
    }
}
