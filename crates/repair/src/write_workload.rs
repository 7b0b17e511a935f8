//! Workloads of page writes that policies are compared on.
//!
//! # Grammar
//! `uniform`, `zipf:EXPONENT`, `hot-cold:WRITES/PAGES` (80/20: 80 % of the writes go to 20 % of the pages).
//!
//! # Model
//! Page `i` of a Zipf distribution is written with probability proportional to `i^-exponent`. Ranks are spread over the volume by
//! a seeded permutation, and a moved hot set is another permutation.

use std::fmt;
use std::str::FromStr;

use flashlab_base::{Prng, Seed};
use thiserror::Error;

/// The kind of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkloadKind {
    /// Every page equally often.
    Uniform,
    /// Zipf with this exponent.
    Zipf(f64),
    /// This share of the writes goes to this share of the pages.
    HotCold {
        /// The share of the writes, from 0 to 1.
        writes: f64,
        /// The share of the pages, from 0 to 1.
        pages: f64,
    },
}

/// Why a text is not a workload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a workload: write uniform, zipf:EXPONENT with an exponent from 0 to 10 as in zipf:0.99, or \
         hot-cold:WRITES/PAGES in percent as in hot-cold:80/20"
)]
pub struct ParseWorkloadError(String);

impl FromStr for WorkloadKind {
    type Err = ParseWorkloadError;

    fn from_str(text: &str) -> Result<WorkloadKind, ParseWorkloadError> {
        let parse = || -> Option<WorkloadKind> {
            match text.split_once(':') {
                None => (text == "uniform").then_some(WorkloadKind::Uniform),
                Some(("zipf", exponent)) => {
                    let exponent = exponent.parse().ok().filter(|value| (0.0..=10.0).contains(value))?;
                    Some(WorkloadKind::Zipf(exponent))
                }
                Some(("hot-cold", shares)) => {
                    let (writes, pages) = shares.split_once('/')?;
                    let share = |text: &str| {
                        let percent =
                            text.parse::<f64>().ok().filter(|value| *value > 0.0 && *value < 100.0)?;
                        Some(percent / 100.0)
                    };
                    Some(WorkloadKind::HotCold { writes: share(writes)?, pages: share(pages)? })
                }
                Some(_) => None,
            }
        };
        parse().ok_or_else(|| ParseWorkloadError(text.to_owned()))
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadKind::Uniform => f.write_str("uniform"),
            WorkloadKind::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            WorkloadKind::HotCold { writes, pages } => {
                write!(f, "hot-cold:{}/{}", round(100.0 * writes), round(100.0 * pages))
            }
        }
    }
}

/// Without the last digits that a division by 100 leaves.
fn round(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

/// A sequence of page writes.
#[derive(Clone, Debug)]
pub struct WriteWorkload {
    kind: WorkloadKind,
    /// For Zipf: the probability of all ranks up to each.
    cumulative: Vec<f64>,
    /// The page of each rank.
    pages: Vec<u32>,
    random: Prng,
    seed: Seed,
    moves: u64,
}

impl WriteWorkload {
    /// The writes of this seed to this number of pages.
    ///
    /// # Panics
    /// When there are no pages.
    pub fn new(kind: WorkloadKind, page_count: u32, seed: Seed) -> WriteWorkload {
        assert!(page_count > 0, "a workload without pages");
        let mut cumulative = Vec::new();
        if let WorkloadKind::Zipf(exponent) = kind {
            let mut sum = 0.0;
            cumulative.extend((1..=page_count).map(|rank| {
                sum += f64::from(rank).powf(-exponent);
                sum
            }));
            cumulative.iter_mut().for_each(|value| *value /= sum);
        }
        let mut workload = WriteWorkload {
            kind,
            cumulative,
            pages: (0..page_count).collect(),
            random: Prng::new(seed.derive("writes", 0)),
            seed,
            moves: 0,
        };
        workload.move_hot_set();
        workload
    }

    /// Gives every rank another page.
    pub fn move_hot_set(&mut self) {
        let mut random = Prng::new(self.seed.derive("pages", self.moves));
        self.moves += 1;
        for last in (1..self.pages.len()).rev() {
            self.pages.swap(last, random.below(last as u64 + 1) as usize);
        }
    }

    /// The page of the next write.
    #[inline]
    pub fn next_page(&mut self) -> u32 {
        let count = self.pages.len();
        let rank = match self.kind {
            WorkloadKind::Uniform => self.random.below(count as u64) as usize,
            WorkloadKind::Zipf(_) => {
                let value = self.random.unit();
                self.cumulative.partition_point(|&sum| sum < value).min(count - 1)
            }
            WorkloadKind::HotCold { writes, pages } => {
                let hot = ((pages * count as f64).round() as usize).clamp(1, count);
                if self.random.unit() < writes || hot == count {
                    self.random.below(hot as u64) as usize
                } else {
                    hot + self.random.below((count - hot) as u64) as usize
                }
            }
        };
        self.pages[rank]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_read_and_written() {
        for text in ["uniform", "zipf:0.99", "hot-cold:80/20", "hot-cold:99.9/7"] {
            assert_eq!(text.parse::<WorkloadKind>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "zipf",
            "zipf:x",
            "zipf:-1",
            "zipf:NaN",
            "hot-cold:80",
            "hot-cold:100/20",
            "hot-cold:0/5",
            "uniform:1",
        ] {
            assert!(text.parse::<WorkloadKind>().is_err(), "{text}");
        }
    }

    #[test]
    fn pages_are_written_as_often_as_the_distribution_says() {
        let mut workload = WriteWorkload::new("hot-cold:80/20".parse().unwrap(), 1000, Seed(3));
        let hot: Vec<u32> = workload.pages[..200].to_vec();
        let hits = (0..100_000).filter(|_| hot.contains(&workload.next_page())).count();
        assert!((hits as f64 / 1e5 - 0.8).abs() < 0.01, "{hits}");
        let mut workload = WriteWorkload::new(WorkloadKind::Zipf(1.0), 1000, Seed(3));
        let (first, second) = (workload.pages[0], workload.pages[1]);
        let mut counts = [0u32; 2];
        for _ in 0..200_000 {
            let page = workload.next_page();
            counts[0] += u32::from(page == first);
            counts[1] += u32::from(page == second);
        }
        // The harmonic number of 1000 is 7.485.
        assert!((f64::from(counts[0]) / 2e5 - 1.0 / 7.485).abs() < 0.005, "{counts:?}");
        assert!((f64::from(counts[0]) / f64::from(counts[1]) - 2.0).abs() < 0.1, "{counts:?}");
        workload.move_hot_set();
        assert_ne!(workload.pages[0], first);
    }
}
