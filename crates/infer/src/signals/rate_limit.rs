//! Whether a limit lets small reads pass at one rate, as that of a cloud volume does.
//!
//! # Model
//! A limit is a bucket of tokens. Each IO takes one token, or one for each byte. The bucket fills at the rate of the
//! limit, and saves unused tokens up to a number of its own. So the first reads after idle time pass at the speed of
//! the device, and those of a long run at the rate of the limit.
//!
//! Nothing else does both. A controller, dies and a link serve as many reads a second after idle time as in a long
//! run: they cannot save time. A read cache is no faster after idle time either, if offsets are random.
//! So a rate alone is no sign of a limit, even if it depends on neither size nor place: a controller that takes all
//! requests in the same time has such a rate, and so have dies with large pages.
//!
//! # Method
//! 1. The rate after idle time is that of the first reads submitted, at the time when nine in ten of them are done.
//!    It is compared with the rate of a long run, in each round.
//! 2. Reads of two sizes, on the whole device and in a small part, have one rate if all of them, in all rounds, differ
//!    by no more than twice [`RIGHT`] in IOs a second, or in bytes a second.

use flashlab_base::{Bytes, Nanos};

use super::statistics::{mean, upper_median};
use super::useful_depth::time_of_each;
use crate::thresholds::{RIGHT, USUAL_QUANTILE};

/// After idle time reads pass at least this many times as fast where there is a limit. Unit: ratio. Source: derivation:
/// a device that cannot save time has 1, and noise in a few reads makes 1.3 of it (test
/// `nothing_but_a_bucket_is_faster_after_idle_time`). Too high: limits of fast devices are not seen; too low: noise is a
/// limit.
const FASTER_LEAST: f64 = 2.0;
/// The fewest reads after idle time that show a rate. Unit: reads. Source: choice. Too many: small buckets are not seen;
/// too few: single cached reads are a burst.
const BURST_LEAST: usize = 16;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Ios,
    Bytes,
}

/// What one kind of reads shows in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KindRate {
    pub size: Bytes,
    /// IOs a second.
    pub rate: f64,
}

/// The reads of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRound {
    /// The rates after idle time and at the end of the long run that began then, in IOs a second, if the round began with idle time.
    pub after_idle: Option<[f64; 2]>,
    /// All kinds of reads, in the long run.
    pub kinds: Vec<KindRate>,
}

impl LimitRound {
    /// How many times as fast reads pass after idle time.
    pub fn burst(&self) -> Option<f64> {
        self.after_idle.map(|[burst, long]| burst / long)
    }
}

/// What the rounds show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeenLimit {
    /// A limit: what it counts, how many of it pass a second, and how many times as fast the first reads after idle time are.
    Limit { counted: Counted, rate: f64, burst: f64 },
    /// One rate, and nothing faster after idle time: a limit that saves nothing, a controller, or dies.
    OneRate { counted: Counted, rate: f64, burst: f64 },
    /// Reads are faster after idle time, but the rate of the long run depends on size, place or round.
    BurstAlone { spread: f64, burst: f64 },
    /// Neither.
    NoLimit { spread: f64, burst: f64 },
}

/// Whether the rounds show a limit. `None` if too little was read.
pub fn seen_limit(rounds: &[LimitRound]) -> Option<SeenLimit> {
    let burst = rounds.iter().filter_map(LimitRound::burst).reduce(f64::min)?;
    let kinds: Vec<&KindRate> = rounds.iter().flat_map(|round| &round.kinds).collect();
    let [by_ios, by_bytes] = [Counted::Ios, Counted::Bytes].map(|counted| {
        let rates = kinds.iter().map(|kind| match counted {
            Counted::Ios => kind.rate,
            Counted::Bytes => kind.rate * kind.size.0 as f64,
        });
        (counted, rates.collect::<Vec<f64>>())
    });
    let spread = |rates: &[f64]| {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        rates.iter().copied().fold(0.0, f64::max) / least - 1.0
    };
    let (counted, rates) = if spread(&by_ios.1) <= spread(&by_bytes.1) { by_ios } else { by_bytes };
    let (spread, rate) = (spread(&rates), upper_median(&rates));
    if !(burst.is_finite() && spread.is_finite()) {
        return None;
    }
    Some(match (spread <= 2.0 * RIGHT, burst >= FASTER_LEAST) {
        (true, true) => SeenLimit::Limit { counted, rate, burst },
        (true, false) => SeenLimit::OneRate { counted, rate, burst },
        (false, true) => SeenLimit::BurstAlone { spread, burst },
        (false, false) => SeenLimit::NoLimit { spread, burst },
    })
}

/// Whether a rate is that much higher than the one of a long run.
pub fn is_burst(rate: f64, long: f64) -> bool {
    rate >= FASTER_LEAST * long
}

/// The IOs a second while the queue was full, without the first `beginning` IOs. Each has the times of its submission
/// and its completion; they are in the order of completion. Not a number if there are too few.
pub fn rate_of_run(ios: &[(Nanos, Nanos)], beginning: usize) -> f64 {
    match time_of_each(ios.iter().copied(), beginning) {
        times if times.is_empty() => f64::NAN,
        times => 1e9 / mean(&times),
    }
}

/// The IOs a second of the first reads that were submitted, the most that any number of them up to `in_flight` has. Nine in ten
/// of that number count, so that an outlier does not decide. The reads are in the order of their submission.
pub fn rate_after_idle(ios: &[(Nanos, Nanos)], in_flight: usize) -> f64 {
    let Some(&(begin, _)) = ios.first() else { return f64::NAN };
    let most = in_flight.max(BURST_LEAST);
    let numbers = std::iter::successors(Some(BURST_LEAST), |number| Some(number * 2));
    let numbers = numbers.take_while(|&number| number <= most.min(ios.len()));
    let rates = numbers.map(|number| {
        let mut done: Vec<Nanos> = ios[..number].iter().map(|(_, completed)| *completed).collect();
        done.sort_unstable();
        let counted = (number as f64 * USUAL_QUANTILE) as usize;
        counted as f64 * 1e9 / done[counted - 1].since(begin).0.max(1) as f64
    });
    rates.fold(f64::NAN, f64::max)
}

#[cfg(test)]
mod tests {
    use flashlab_base::{Prng, Seed};

    use super::*;
    use crate::thresholds::PERIODS_LEAST;

    const KIB_4: Bytes = Bytes::kib(4);
    const KIB_8: Bytes = Bytes::kib(8);

    fn round(burst: f64, rates: [(Bytes, f64); 4]) -> LimitRound {
        let kinds = rates.map(|(size, rate)| KindRate { size, rate }).to_vec();
        LimitRound { after_idle: Some([burst * rates[0].1, rates[0].1]), kinds }
    }

    fn of(rates: [f64; 4]) -> [(Bytes, f64); 4] {
        let [a, b, c, d] = rates;
        [(KIB_4, a), (KIB_8, b), (KIB_4, c), (KIB_8, d)]
    }

    #[test]
    fn one_rate_and_a_burst_after_idle_time_are_a_limit() {
        let ios = round(18.0, of([12_400.0, 12_390.0, 12_410.0, 12_400.0]));
        let seen = seen_limit(&[ios.clone(), ios]).unwrap();
        assert!(
            matches!(seen, SeenLimit::Limit { counted: Counted::Ios, rate, burst } if rate > 12e3 && burst == 18.0)
        );
        let bytes = round(5.0, of([14_648.0, 7_324.0, 14_650.0, 7_320.0]));
        let seen = seen_limit(&[bytes]).unwrap();
        assert!(
            matches!(seen, SeenLimit::Limit { counted: Counted::Bytes, rate, .. } if (rate - 60e6).abs() < 1e5)
        );
    }

    #[test]
    fn each_condition_is_necessary() {
        let one_rate = of([12_400.0, 12_390.0, 12_410.0, 12_400.0]);
        // A controller that takes all requests in the same time.
        let controller = seen_limit(&[round(1.05, one_rate)]);
        assert!(matches!(controller, Some(SeenLimit::OneRate { .. })), "{controller:?}");
        // In one of three rounds reads were not faster after idle time.
        let once = seen_limit(&[round(8.0, one_rate), round(1.9, one_rate), round(8.0, one_rate)]);
        assert!(matches!(once, Some(SeenLimit::OneRate { .. })), "{once:?}");
        let by_size = seen_limit(&[round(8.0, of([12_400.0, 9_000.0, 12_400.0, 9_000.0]))]);
        assert!(matches!(by_size, Some(SeenLimit::BurstAlone { .. })), "{by_size:?}");
        let by_place = seen_limit(&[round(8.0, of([12_400.0, 12_400.0, 14_000.0, 14_000.0]))]);
        assert!(matches!(by_place, Some(SeenLimit::BurstAlone { .. })), "{by_place:?}");
        // Each round has one rate, but another one.
        let drift = seen_limit(&[round(8.0, one_rate), round(8.0, of([13_400.0; 4]))]);
        assert!(matches!(drift, Some(SeenLimit::BurstAlone { .. })), "{drift:?}");
        let flash = seen_limit(&[round(1.0, of([90e3, 60e3, 110e3, 70e3]))]);
        assert!(matches!(flash, Some(SeenLimit::NoLimit { .. })), "{flash:?}");
        assert_eq!(seen_limit(&[round(8.0, of([f64::NAN; 4]))]), None);
        assert_eq!(seen_limit(&[]), None);
    }

    /// Submissions and completions of a queue of `depth` reads; `done` has the completion of a read by when it is submitted.
    fn closed_queue(depth: usize, count: usize, mut done: impl FnMut(Nanos) -> Nanos) -> Vec<(Nanos, Nanos)> {
        let mut waiting = std::collections::BinaryHeap::new();
        let mut ios = Vec::new();
        let mut now = Nanos::ZERO;
        while ios.len() < count {
            if waiting.len() == depth {
                let std::cmp::Reverse(first) = waiting.pop().unwrap();
                now = first;
            }
            let completed = done(now);
            waiting.push(std::cmp::Reverse(completed));
            ios.push((now, completed));
        }
        ios
    }

    fn burst_of(ios: &[(Nanos, Nanos)], depth: usize) -> f64 {
        let burst = rate_after_idle(ios, depth);
        let mut done = ios.to_vec();
        done.sort_by_key(|(_, completed)| *completed);
        burst / rate_of_run(&done, 2 * depth)
    }

    /// Dies that serve random reads, of which some are cached, behind a controller, with noise and outliers.
    #[test]
    fn nothing_but_a_bucket_is_faster_after_idle_time() {
        let mut most: f64 = 0.0;
        for seed in 0..400 {
            let random = &mut Prng::new(Seed(seed));
            let depth = [1, 8, 32, 128][random.below(4) as usize];
            let (dies, cached) = (1 + random.below(128) as usize, 0.9 * random.unit());
            let (controller, flash) = (200.0 + random.unit() * 50e3, 20e3 + random.unit() * 100e3);
            let mut round = || {
                let (mut free_at, mut dies_free_at) = (0.0, vec![0.0_f64; dies]);
                let ios = closed_queue(depth, 8 * depth.max(32), |now| {
                    free_at = f64::max(free_at, now.0 as f64) + controller;
                    let noise = 0.7 + 0.6 * random.unit() + if random.below(100) == 0 { 9.0 } else { 0.0 };
                    if random.unit() < cached {
                        return Nanos((free_at + 5e3 * noise) as u64);
                    }
                    let die = &mut dies_free_at[random.below(dies as u64) as usize];
                    *die = die.max(free_at) + flash * noise;
                    Nanos(*die as u64)
                });
                burst_of(&ios, depth)
            };
            // One round alone is faster on one of these 400 devices: 16 reads that happen to be cached.
            let burst = (0..PERIODS_LEAST).map(|_| round()).fold(f64::INFINITY, f64::min);
            most = most.max(burst);
            assert!(
                burst < FASTER_LEAST,
                "seed {seed}: {burst}, {depth} in flight, {dies} dies, cached {cached}"
            );
        }
        println!("at most {most}");
    }

    #[test]
    fn a_bucket_is_faster_after_idle_time() {
        for (rate, saved, latency) in [(12_400.0, 124.0, 365e3), (500.0, 500.0, 1.2e6), (3000.0, 16.0, 1.5e6)]
        {
            let (mut tokens, mut last) = (saved, Nanos::ZERO);
            let ios = closed_queue(64, 1024, |now| {
                tokens = f64::min(tokens + rate * now.since(last).0 as f64 / 1e9, saved);
                last = now;
                tokens -= 1.0;
                now + Nanos((latency + (-tokens / rate * 1e9).max(0.0)) as u64)
            });
            let burst = burst_of(&ios[..ios.len().min(1024)], 64);
            assert!(burst >= FASTER_LEAST, "{rate} a second, {saved} saved: {burst}");
        }
    }
}
