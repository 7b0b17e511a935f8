//! The period of an effect that depends on the distance of two places: two IOs on the same die wait for each other, and
//! addresses come back to the same die with the stripe.
//!
//! Model: a figure is a level plus an effect that is a function of the distance, symmetric, with an unknown
//! period, highest at distance 0, and noise of any shape. Its ranks are correlated with a cosine of the distance, for
//! each frequency that the distances can resolve (a periodogram by fast Fourier transform). Without an effect the
//! correlation is about normal, so that its p is known, and corrected for all frequencies. An effect that is a pulse
//! in each period shows at multiples of its frequency too, and weaker (or not much stronger): the period
//! belongs to the lowest frequency that shows.
//!
//! Distances have to be spread over many periods. An effect that grows or falls with the distance alone has low
//! frequencies only: periods longer than an eighth of the range are not looked at.

use std::f64::consts::TAU;

use super::normal_upper_p;

/// The chance of a period where there is none.
const ALPHA: f64 = 1e-6;
/// Beside a strong frequency its neighbours show, too: with this share of its power at most.
const LEAKAGE: f64 = 0.015;

/// A period of distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// In the unit of the distances, to within about half a unit where power allows.
    pub period: u64,
    /// The square of the correlation at its frequency, in standard errors.
    pub power: f64,
    /// p that there is none, corrected for all frequencies.
    pub p: f64,
}

/// The period of figures over distances, in whole units. None where none shows, or with fewer than 100 figures.
pub fn period(figures: &[(i64, f64)]) -> Option<Period> {
    if figures.len() < 100 {
        return None;
    }
    let range = figures.iter().map(|(distance, _)| distance.unsigned_abs()).max().unwrap_or(0);
    let bins = (2 * range.clamp(31, 1 << 21) + 2).next_power_of_two() as usize;
    let ranks = normal_ranks(figures);
    let mut spectrum = vec![(0.0, 0.0); bins];
    for (&(distance, _), rank) in figures.iter().zip(&ranks) {
        spectrum[distance.rem_euclid(bins as i64) as usize].0 += rank;
    }
    transform(&mut spectrum);
    let lowest = (bins as u64 * 8).div_ceil(range.max(1)) as usize;
    // The correlation with a cosine, of which the square has the mean 1/2.
    let powers: Vec<f64> = spectrum[..=bins / 2]
        .iter()
        .map(|(real, _)| real.max(0.0).powi(2) * 2.0 / figures.len() as f64)
        .collect();
    let most = powers.get(lowest..)?.iter().copied().fold(0.0, f64::max);
    let p = |power: f64| (normal_upper_p(power.sqrt()) * bins as f64).min(1.0);
    let shows = |power: f64| p(power) <= ALPHA && power >= LEAKAGE * most;
    let first = (lowest..powers.len()).find(|&f| shows(powers[f]))?;
    // The peak that begins there.
    let peak = (first..(first + 4).min(powers.len())).max_by(|&a, &b| powers[a].total_cmp(&powers[b]))?;
    let about = bins as f64 / peak as f64;
    let width = (about * about / bins as f64 * 1.5).ceil() + 1.0;
    let candidates = (about - width).max(2.0) as u64..=(about + width) as u64;
    let best = candidates
        .max_by(|&a, &b| harmonics(figures, &ranks, a).total_cmp(&harmonics(figures, &ranks, b)))?;
    let power = power_at(figures, best);
    Some(Period { period: best, power, p: p(power) })
}

/// How much of an effect with this period figures show: the square of the correlation, in standard errors; 0 where it
/// is highest elsewhere than at distance 0.
pub fn power_at(figures: &[(i64, f64)], period: u64) -> f64 {
    correlation(figures, &normal_ranks(figures), period, 1.0).max(0.0).powi(2)
}

/// Three multiples of the frequency say more exactly where it is.
fn harmonics(figures: &[(i64, f64)], ranks: &[f64], period: u64) -> f64 {
    [1.0, 2.0, 3.0].iter().map(|&h| correlation(figures, ranks, period, h).max(0.0).powi(2)).sum()
}

fn correlation(figures: &[(i64, f64)], ranks: &[f64], period: u64, harmonic: f64) -> f64 {
    let period = period.max(1) as i64;
    let turn = TAU * harmonic / period as f64;
    let sum: f64 = figures
        .iter()
        .zip(ranks)
        .map(|((distance, _), rank)| rank * (distance.rem_euclid(period) as f64 * turn).cos())
        .sum();
    sum / (figures.len() as f64 / 2.0).sqrt()
}

/// The ranks, with mean 0 and variance 1.
fn normal_ranks(figures: &[(i64, f64)]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..figures.len()).collect();
    order.sort_by(|&a, &b| figures[a].1.total_cmp(&figures[b].1));
    let (n, mut ranks) = (figures.len() as f64, vec![0.0; figures.len()]);
    let mut begin = 0;
    for ties in order.chunk_by(|&a, &b| figures[a].1 == figures[b].1) {
        let middle = begin as f64 + (ties.len() - 1) as f64 / 2.0;
        ties.iter().for_each(|&i| ranks[i] = (middle - (n - 1.0) / 2.0) * (12.0 / (n * n)).sqrt());
        begin += ties.len();
    }
    ranks
}

/// The discrete Fourier transform, in place (Cooley and Tukey 1965); a power of two of figures.
fn transform(values: &mut [(f64, f64)]) {
    let n = values.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            values.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let factors: Vec<(f64, f64)> = (0..half)
            .map(|k| (-std::f64::consts::PI * k as f64 / half as f64).sin_cos())
            .map(|(sin, cos)| (cos, sin))
            .collect();
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), &(cos, sin)) in low.iter_mut().zip(high).zip(&factors) {
                let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                *b = (a.0 - turned.0, a.1 - turned.1);
                *a = (a.0 + turned.0, a.1 + turned.1);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Source;

    /// Two reads in flight on `dies` dies of `chunk` units: the later one waits half a read for the other, at most.
    fn conflicts(source: &mut Source, count: usize, chunk: i64, dies: i64) -> Vec<(i64, f64)> {
        let range = 20_000.0;
        let mut last = 0;
        (0..count)
            .map(|_| {
                let place = (source.unit() * range) as i64;
                let same = place / chunk % dies == last / chunk % dies;
                let wait = if same { 40.0 * source.unit() } else { 0.0 };
                let outlier = if source.unit() < 0.01 { 10.0 } else { 1.0 };
                let figure = (place - last, (70.0 + wait) * outlier * source.log_normal(0.05));
                last = place;
                figure
            })
            .collect()
    }

    #[test]
    fn stripes_of_any_width_are_found() {
        let mut source = Source::new(21);
        for (chunk, dies) in [(1, 2), (2, 3), (4, 16), (12, 5), (6, 13), (32, 7), (128, 2), (64, 16)] {
            let found = period(&conflicts(&mut source, 6000, chunk, dies)).map(|found| found.period as i64);
            let right = found.is_some_and(|found| (found - chunk * dies).abs() <= 1 + chunk / 8);
            assert!(right, "{chunk} x {dies}: {found:?}");
        }
    }

    #[test]
    fn one_die_and_growing_distances_have_no_period() {
        let mut source = Source::new(22);
        for _ in 0..40 {
            assert_eq!(period(&conflicts(&mut source, 2000, 4, 1)), None);
            let seek =
                |(distance, figure): (i64, f64)| (distance, figure + (distance.abs() as f64).sqrt() / 2.0);
            let figures: Vec<(i64, f64)> = conflicts(&mut source, 2000, 4, 1).into_iter().map(seek).collect();
            assert_eq!(period(&figures), None);
        }
    }

    #[test]
    fn odd_figures_do_no_harm() {
        assert_eq!(period(&[]), None);
        for figure in [0.0, f64::NAN, f64::INFINITY, 1e300] {
            let figures: Vec<(i64, f64)> =
                (0..200).map(|i| (i * i - 9, if i % 3 == 0 { figure } else { 1.0 })).collect();
            let _ = (period(&figures), power_at(&figures, 0));
            let same: Vec<(i64, f64)> = figures.iter().map(|&(_, figure)| (i64::MAX, figure)).collect();
            let _ = period(&same);
        }
    }
}
