//! The two-phase model of uFLIP section 4.2: start-up phase, running phase and period of a
//! baseline pattern, and IOIgnore and IOCount that follow from them.
//!
//! Everything is decided on the logarithm of response times: 400 us and 27 ms differ by a factor,
//! and a single IO that took a thousand times as long counts seven times as much as one that took
//! e times as long, not a thousand times.
//!
//! What the confidences mean, for the start-up phase and for the period alike: where one was
//! found, 1 - p, and where none was found, p; p being the probability (corrected for all the
//! places that were looked at) that a device without it shows at least this much of it.

use crate::findings::Phases;
use crate::point::mean;
use crate::{period, startup};

/// An answer below this p is taken: one false alarm in a thousand, before the safety that the
/// corrections for looking in many places add.
pub(crate) const SIGNIFICANT_P: f64 = 1e-3;

/// Finds the phases of a baseline pattern from its response times in nanoseconds, in the order of
/// the IOs and from the very first one (uFLIP section 4.2).
///
/// A start-up phase of 8 IOs up to three quarters of the run can be found, and periods of 2 IOs up
/// to an eighth of the running phase.
pub fn phases(response_ns: &[u64]) -> Phases {
    let log: Vec<f64> = response_ns.iter().map(|&ns| (ns.max(1) as f64).ln()).collect();
    let startup = startup::find(&log);
    let ios = startup.ios.unwrap_or(0);
    let period = period::find(&log[ios..]);
    let mean_ns = |part: &[u64]| mean(&part.iter().map(|&ns| ns as f64).collect::<Vec<_>>());
    let confidence = |found: bool, p: f64| if found { 1.0 - p } else { p };
    Phases {
        startup_ios: ios as u64,
        startup_ns_mean: startup.ios.and_then(|ios| mean_ns(&response_ns[..ios])),
        running_ns_mean: mean_ns(&response_ns[ios..]).unwrap_or(0.0),
        period_ios: period.ios.map(|ios| ios as u64),
        startup_confidence: confidence(startup.ios.is_some(), startup.p),
        period_confidence: confidence(period.ios.is_some(), period.p),
        evidence: format!("{}; {}.", startup.evidence, period.evidence),
    }
}

/// IOIgnore and IOCount for runs with this pattern (uFLIP section 4.2). IOIgnore over-estimates
/// the start-up phase by 2 % and up to the next multiple of 8, as the paper used 128 for 125.
/// IOCount, counted beyond IOIgnore, is at least `io_count_min`, covers at least 8 periods and
/// ends with a whole one.
pub fn io_ignore_and_count(phases: &Phases, io_count_min: u64) -> (u64, u64) {
    let startup = phases.startup_ios;
    let io_ignore =
        startup.saturating_add(startup.div_ceil(50)).checked_next_multiple_of(8).unwrap_or(startup);
    let io_count = match phases.period_ios.filter(|&period| period > 0) {
        None => io_count_min,
        Some(period) => io_count_min.div_ceil(period).max(8).saturating_mul(period),
    };
    (io_ignore, io_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Source, responses};

    /// A device without a start-up phase and without a period.
    type Noise = fn(&mut Source, usize, usize) -> f64;

    const NOISES: [(&str, Noise); 10] = [
        ("log-normal 0.1", |s, _, _| 100.0 * s.log_normal(0.1)),
        ("log-normal 1", |s, _, _| 100.0 * s.log_normal(1.0)),
        ("Pareto 1.5", |s, _, _| 100.0 * s.pareto(1.5)),
        ("1 % outliers 100x", |s, _, _| if s.unit() < 0.01 { 1e4 } else { 100.0 * s.log_normal(0.05) }),
        (
            "1 of 16 at random 67x",
            |s, _, _| if s.unit() < 1.0 / 16.0 { 27e3 } else { 400.0 * s.log_normal(0.05) },
        ),
        ("AR(1) 0.5", |s, _, _| 100.0 * (0.3 * s.autoregressive(0.5)).exp()),
        ("AR(1) 0.9", |s, _, _| 100.0 * (0.3 * s.autoregressive(0.9)).exp()),
        ("AR(1) 0.95", |s, _, _| 100.0 * (0.3 * s.autoregressive(0.95)).exp()),
        ("AR(1) 0.99", |s, _, _| 100.0 * (0.3 * s.autoregressive(0.99)).exp()),
        ("trend", |s, i, n| 100.0 * (1.0 + i as f64 / n as f64) * s.log_normal(0.2)),
    ];

    /// How many of `seeds` see a start-up phase, and how many a period.
    fn false_alarms(noise: Noise, n: usize, seeds: u64) -> (u64, u64) {
        let (mut startups, mut periods) = (0, 0);
        for seed in 0..seeds {
            let mut source = Source::new(seed);
            let got = phases(&responses(n, |i| noise(&mut source, i, n)));
            startups += u64::from(got.startup_ios > 0);
            periods += u64::from(got.period_ios.is_some());
        }
        (startups, periods)
    }

    #[test]
    fn noise_has_neither_phases_nor_periods() {
        for (name, noise) in NOISES {
            let (startups, periods) = false_alarms(noise, 2048, 100);
            assert!(startups <= 1 && periods <= 1, "{name}: {startups}, {periods} in the seeds 0..100");
        }
    }

    #[test]
    #[ignore = "a table for people: cargo test -p flashlab-analysis false_alarm_table -- --ignored --nocapture"]
    fn false_alarm_table() {
        println!("false start-up phases and periods in 2000 seeds");
        for (name, noise) in NOISES {
            let counts = [512, 2048, 5120].map(|n| false_alarms(noise, n, 2000));
            println!(
                "{name:<24} 512 IOs: {:?}  2048 IOs: {:?}  5120 IOs: {:?}",
                counts[0], counts[1], counts[2]
            );
        }
    }

    /// A device with a known start-up phase and period (0 and 0: none).
    struct Truth {
        name: &'static str,
        ios: usize,
        startup: usize,
        period: usize,
        response_us: fn(&mut Source, usize) -> f64,
    }

    const CHEAP_US: f64 = 400.0;
    const EXPENSIVE_US: f64 = 27_000.0;

    /// Cheap or expensive, with 10 % of noise.
    fn either(source: &mut Source, expensive: bool) -> f64 {
        (if expensive { EXPENSIVE_US } else { CHEAP_US }) * source.log_normal(0.1)
    }

    fn truths() -> Vec<Truth> {
        vec![
            Truth {
                name: "section 4.2: 128, then 400 us / 27 ms in turn",
                ios: 512,
                startup: 128,
                period: 2,
                response_us: |s, i| either(s, i >= 128 && i % 2 == 0),
            },
            Truth {
                name: "Mtron RW: 125, then period 16, 1 of 4 dear",
                ios: 5120,
                startup: 125,
                period: 16,
                response_us: |s, i| either(s, i >= 125 && (i - 125) % 16 < 4),
            },
            Truth {
                name: "125, then period 32, 1 dear",
                ios: 20_000,
                startup: 125,
                period: 32,
                response_us: |s, i| either(s, i >= 125 && (i - 125) % 32 == 0),
            },
            Truth {
                name: "30 (Memoright), then period 8, 1 dear",
                ios: 5120,
                startup: 30,
                period: 8,
                response_us: |s, i| either(s, i >= 30 && (i - 30) % 8 == 0),
            },
            Truth {
                name: "125, then 400 us / 27 ms at random, even odds",
                ios: 5120,
                startup: 125,
                period: 0,
                response_us: |s, i| {
                    let dear = i == 125 || i > 125 && s.unit() < 0.5;
                    either(s, dear)
                },
            },
            Truth {
                name: "dear start-up of 1000, noise 0.3",
                ios: 5120,
                startup: 1000,
                period: 0,
                response_us: |s, i| if i < 1000 { 300.0 } else { 100.0 } * s.log_normal(0.3),
            },
            Truth {
                name: "125 at 300 us, then 400 us, noise 0.1",
                ios: 5120,
                startup: 125,
                period: 0,
                response_us: |s, i| if i < 125 { 300.0 } else { 400.0 } * s.log_normal(0.1),
            },
            Truth {
                name: "Kingston DTI SW: period 128, 1 dear",
                ios: 5120,
                startup: 0,
                period: 128,
                response_us: |s, i| either(s, i % 128 == 77),
            },
            Truth {
                name: "period 128, 1 dear, noise 0.5",
                ios: 5120,
                startup: 0,
                period: 128,
                response_us: |s, i| if i % 128 == 77 { EXPENSIVE_US } else { CHEAP_US } * s.log_normal(0.5),
            },
            Truth {
                name: "period 128, 1 dear, short run",
                ios: 1100,
                startup: 0,
                period: 128,
                response_us: |s, i| either(s, i % 128 == 77),
            },
            Truth {
                name: "period 128, half dear",
                ios: 5120,
                startup: 0,
                period: 128,
                response_us: |s, i| either(s, i % 128 < 64),
            },
            Truth {
                name: "period 128 of an oscillation with period 2",
                ios: 5120,
                startup: 0,
                period: 128,
                response_us: |s, i| either(s, i % 128 < 64 && i % 2 == 0),
            },
            Truth {
                name: "period 100, 2 dear, outliers",
                ios: 5120,
                startup: 0,
                period: 100,
                response_us: |s, i| {
                    let dear = i % 100 < 2 || s.unit() < 0.005;
                    either(s, dear)
                },
            },
            Truth {
                name: "sine of period 100, half the noise",
                ios: 5120,
                startup: 0,
                period: 100,
                response_us: |s, i| {
                    100.0 * (0.15 * (std::f64::consts::TAU * i as f64 / 100.0).sin() + 0.2 * s.normal()).exp()
                },
            },
            Truth {
                name: "period 5, 1 dear, trend",
                ios: 2000,
                startup: 0,
                period: 5,
                response_us: |s, i| either(s, i % 5 == 0) * (1.0 + i as f64 / 1000.0),
            },
        ]
    }

    /// How often in `seeds` the start-up phase was exact, within 2 %, and the period exact.
    fn detections(truth: &Truth, seeds: u64) -> (u64, u64, u64) {
        let (mut exact, mut near, mut periods) = (0, 0, 0);
        for seed in 0..seeds {
            let mut source = Source::new(seed);
            let got = phases(&responses(truth.ios, |i| (truth.response_us)(&mut source, i)));
            let error = got.startup_ios.abs_diff(truth.startup as u64);
            exact += u64::from(error == 0);
            near += u64::from(error * 50 <= truth.startup as u64);
            periods += u64::from(got.period_ios.unwrap_or(0) == truth.period as u64);
        }
        (exact, near, periods)
    }

    #[test]
    #[ignore = "a table for people: cargo test -p flashlab-analysis detection_table -- --ignored --nocapture"]
    fn detection_table() {
        println!("{:<48} start-up exact, within 2 %, period exact: of 500 seeds", "");
        for truth in truths() {
            println!("{:<48} {:?}", truth.name, detections(&truth, 500));
        }
    }
}
