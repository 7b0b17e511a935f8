//! The distribution of update rates, learned from the lifetimes of overwritten pages.
//!
//! # Model
//! Pages fall into classes. Each page of class `k` is updated at rate `r_k` for each host write, so its versions live
//! exponentially distributed times with mean `1 / r_k`. The rates are octaves: the model of the paper (Stoica et al. 2009,
//! section 3.3) within each class, and a sum over classes for a workload that is not uniform.
//!
//! # Method
//! 1. Each overwrite adds the lifetime of the old version to a histogram of octaves. The counts fade: after as many
//!    overwrites as there are live pages a count has lost two thirds of its weight.
//! 2. Expectation maximisation finds the shares of the classes with which the histogram is most likely.

/// Octaves of lifetimes: 2^48 host writes are more than any volume sees.
const OCTAVES: usize = 48;
/// Iterations of expectation maximisation. After 100 the predicted cost changes by less than 0.5 % with twice as many.
const ITERATIONS: usize = 100;

/// A class of pages that are updated equally often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateClass {
    /// The share of host writes that go to pages of the class.
    pub share: f64,
    /// Updates of each of its pages for each host write.
    pub rate: f64,
}

/// A histogram of lifetimes that fades.
#[derive(Clone, Debug)]
pub(crate) struct Lifetimes {
    counts: [f64; OCTAVES],
    since_fading: u64,
}

impl Lifetimes {
    pub(crate) fn new() -> Lifetimes {
        Lifetimes { counts: [0.0; OCTAVES], since_fading: 0 }
    }

    /// A version lived for so many host writes.
    #[inline]
    pub(crate) fn add(&mut self, lived: u64) {
        self.counts[lived.max(1).ilog2() as usize % OCTAVES] += 1.0;
        self.since_fading += 1;
    }

    /// Lets the counts fade in a volume with so many live pages.
    pub(crate) fn fade(&mut self, live_pages: u64) {
        let factor = (-(self.since_fading as f64) / live_pages.max(1) as f64).exp();
        self.counts.iter_mut().for_each(|count| *count *= factor);
        self.since_fading = 0;
    }

    /// The classes that explain the histogram; none without lifetimes.
    pub(crate) fn classes(&self) -> Vec<UpdateClass> {
        let total: f64 = self.counts.iter().sum();
        let Some(longest) = self.counts.iter().rposition(|&count| count > 0.0) else { return Vec::new() };
        let mut classes: Vec<UpdateClass> = (0..=longest + 2)
            .map(|octave| UpdateClass { share: 1.0 / (longest + 3) as f64, rate: (-(octave as f64)).exp2() })
            .collect();
        let likelihood = |class: &UpdateClass, octave: usize| {
            let from = if octave == 0 { 0.0 } else { (octave as f64).exp2() };
            let until = (octave as f64 + 1.0).exp2();
            (-class.rate * from).exp() - (-class.rate * until).exp()
        };
        let table: Vec<Vec<f64>> = (0..=longest)
            .map(|octave| classes.iter().map(|class| likelihood(class, octave)).collect())
            .collect();
        for _ in 0..ITERATIONS {
            let mut shares = vec![0.0; classes.len()];
            for (octave, row) in table.iter().enumerate() {
                let all: f64 = row.iter().zip(&classes).map(|(one, class)| one * class.share).sum();
                let weight = self.counts[octave] / total / all.max(1e-300);
                for ((share, one), class) in shares.iter_mut().zip(row).zip(&classes) {
                    *share += weight * one * class.share;
                }
            }
            classes.iter_mut().zip(shares).for_each(|(class, share)| class.share = share);
        }
        classes.retain(|class| class.share > 1e-6);
        classes
    }
}
