//! Log-likelihood ratios of counts: how much likelier two shares are than one.

/// The log likelihood of `count` hits, each as likely as `count` of this many are: one term of a multinomial likelihood.
pub fn log_likelihood(count: f64, of: f64) -> f64 {
    if count > 0.0 { count * (count / of).ln() } else { 0.0 }
}

/// How many of the first ones are of each kind, for each number of them.
pub fn running<const KINDS: usize>(kinds: impl IntoIterator<Item = usize>) -> Vec<[f64; KINDS]> {
    let mut counts = [0.0; KINDS];
    let mut all = vec![counts];
    for kind in kinds {
        counts[kind] += 1.0;
        all.push(counts);
    }
    all
}

/// The log-likelihood ratio of two sets of probabilities to one. The first set is for the first `at` values, of
/// which `before` are of each kind. The second is for the rest of `all`.
pub fn gain_of_two(before: &[f64], whole: &[f64], at: usize, all: usize) -> f64 {
    let (first, second) = (at as f64, (all - at) as f64);
    let gain = |(&one, &both): (&f64, &f64)| {
        log_likelihood(one, first) + log_likelihood(both - one, second) - log_likelihood(both, all as f64)
    };
    before.iter().zip(whole).map(gain).sum()
}

/// Kullback and Leibler's divergence of two coins, as a log-likelihood ratio.
pub fn divergence(a: f64, b: f64) -> f64 {
    let part = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a * (a / b).ln() };
    part(a, b) + part(1.0 - a, 1.0 - b)
}
