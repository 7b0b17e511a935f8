//! Draws zipf-distributed ranks by rejection-inversion, without a table.
//!
//! Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
//! ACM TOMACS 6(3), 1996. It is implemented here, and not taken from a library, for the same reason as the
//! random generator: a plan and a seed must expand to the same IOs in ten years.

use flashlab_base::Prng;

/// Draws ranks from `1..=ranks`, rank k with probability proportional to 1 / k^theta.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    theta: f64,
    integral_low: f64,
    integral_high: f64,
    accept_within: f64,
}

impl Zipf {
    /// `ranks` is at least 1, `theta` not negative.
    pub fn new(ranks: u64, theta: f64) -> Zipf {
        let ranks = ranks as f64;
        Zipf {
            ranks,
            theta,
            integral_low: integral(theta, 1.5) - 1.0,
            integral_high: integral(theta, ranks + 0.5),
            accept_within: 2.0 - inverse_integral(theta, integral(theta, 2.5) - density(theta, 2.0)),
        }
    }

    /// The next rank.
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        loop {
            let area = self.integral_high + prng.unit() * (self.integral_low - self.integral_high);
            let point = inverse_integral(self.theta, area);
            let rank = point.round().clamp(1.0, self.ranks);
            // The first test accepts nearly always, and avoids the logarithms of the second one.
            if rank - point <= self.accept_within
                || area >= integral(self.theta, rank + 0.5) - density(self.theta, rank)
            {
                return rank as u64;
            }
        }
    }
}

/// x^-theta.
fn density(theta: f64, x: f64) -> f64 {
    (-theta * x.ln()).exp()
}

/// The integral of the density from 1 to `x`: (x^(1-theta) - 1) / (1 - theta), or ln x for theta = 1.
fn integral(theta: f64, x: f64) -> f64 {
    let log = x.ln();
    let exponent = (1.0 - theta) * log;
    if exponent.abs() < 1e-8 { log * (1.0 + exponent / 2.0) } else { exponent.exp_m1() / exponent * log }
}

fn inverse_integral(theta: f64, area: f64) -> f64 {
    // Rounding must not make the argument smaller than -1, where the logarithm does not exist.
    let t = (area * (1.0 - theta)).max(-1.0);
    let log = if t.abs() < 1e-8 { area * (1.0 - t / 2.0) } else { t.ln_1p() / t * area };
    log.exp()
}

#[cfg(test)]
mod tests {
    use flashlab_base::Seed;

    use super::*;

    #[test]
    fn frequencies_are_those_of_theory() {
        for (theta, ranks) in [(0.0, 10), (0.5, 20), (0.99, 100), (1.0, 7), (1.5, 50), (3.0, 4), (0.8, 1)] {
            let draws = 200_000;
            let zipf = Zipf::new(ranks, theta);
            let mut prng = Prng::new(Seed(11));
            let mut counts = vec![0u32; ranks as usize];
            for _ in 0..draws {
                counts[zipf.draw(&mut prng) as usize - 1] += 1;
            }
            let weight = |rank: usize| (rank as f64 + 1.0).powf(-theta);
            let total: f64 = (0..ranks as usize).map(weight).sum();
            let chi2: f64 = (counts.iter().enumerate())
                .map(|(rank, &count)| {
                    let expected = f64::from(draws) * weight(rank) / total;
                    (f64::from(count) - expected).powi(2) / expected
                })
                .sum();
            // Mean plus 4.5 standard deviations of chi-squared with that many degrees of freedom.
            let freedom = ranks as f64 - 1.0;
            assert!(chi2 <= freedom + 4.5 * (2.0 * freedom).sqrt(), "theta {theta}: {chi2}, seed 11");
        }
    }

    #[test]
    fn ranks_of_huge_spaces_lie_inside() {
        for theta in [0.0, 0.5, 1.0, 1.2, 10.0] {
            let zipf = Zipf::new(1 << 50, theta);
            let mut prng = Prng::new(Seed(1));
            assert!((0..10_000).all(|_| (1..=1 << 50).contains(&zipf.draw(&mut prng))), "{theta}, seed 1");
        }
    }
}
