//! Thresholds that several decisions share: false alarms, log-likelihood ratios, quantiles, and relative errors.
//!
//! Each constant of this crate has a unit, a source, and what breaks when it is off. Besides papers and derivations
//! there are two sources:
//!
//! - **tuned**: set by hand on simulated devices. With this value the command of docs/infer-score.md gives the scores
//!   on that page: `cargo xtask infer-score --devices 60 --seed 10100001`. No derivation is known.
//! - **choice**: a trade of time, or of bytes written, for precision. More IOs make the answer better.
//!
//! A constant that belongs to one decision only lies next to that decision. What is believed of all flash is in
//! [`priors`](crate::priors).

/// The probability with which noise alone shows the effect that a probe tests. Unit: probability. Source: derivation:
/// 37 parameters with a test each give a false alarm on fewer than one device in 200. Too high: noise becomes an answer;
/// too low: weak effects stay undetermined.
pub const FALSE_ALARM: f64 = 1e-4;
/// The same where a second condition has to hold as well, such as a least effect. Unit: probability. Source: tuned.
/// Too high: noise passes whenever the other condition does; too low: more IOs are needed for the same answer.
pub const FALSE_ALARM_WITH_EFFECT: f64 = 1e-3;
/// The same for one comparison of many IOs, where a small drift is significant as well. Unit: probability. Source: tuned.
/// Too high: drift becomes an effect; too low: probes of few IOs show nothing.
pub const FALSE_ALARM_OF_MANY_IOS: f64 = 1e-6;
/// The same for Student's t of single stretches. They contain latency spikes, which are not normally distributed.
/// Unit: probability. Source: tuned. Too high: one latency spike is an effect; too low: a short effect is not seen.
pub const FALSE_ALARM_OF_SPIKES: f64 = 3e-6;

/// The least log-likelihood ratio of a period to no period. The number of periods that are tried is subtracted first.
/// Unit: natural logarithm, so 8000 to 1. Source: tuned. Too high: few periods are not enough; too low: stalls by chance
/// have a period.
pub const PERIOD_GAIN: f64 = 9.0;
/// The same for a cycle that one part of the evidence shows alone. Unit: natural logarithm, so 1000 to 1. Source: tuned.
/// Too high: each part needs more writes; too low: one part confirms what another one found by chance.
pub const PART_GAIN: f64 = 7.0;
/// The same for a model with a free rate or mean at each position of a period. Unit: natural logarithm. Source: tuned.
/// Too high: short runs show no block; too low: the free rates fit noise.
pub const POSITIONS_GAIN: f64 = 22.0;
/// The least log-likelihood ratio of a change of frequencies to none. Slow IOs come in bunches, so it is larger than for
/// independent IOs. Unit: natural logarithm, so 22 000 to 1. Source: tuned. Too high: small changes are not seen; too low:
/// a bunch of slow IOs is a change.
pub const CHANGE_GAIN: f64 = 10.0;
/// The log-likelihood ratio from which on one answer is clear. Unit: natural logarithm, so 160 000 to 1. Source: tuned.
/// Too high: right answers count as doubtful; too low: wrong answers count as clear.
pub const CLEAR_GAIN: f64 = 12.0;
/// Each factor of two in a period adds this to its log-likelihood ratio: erase blocks have round sizes. Unit: natural
/// logarithm, so 4.5 to 1. Source: tuned. Too high: round periods win against the right one; too low: neighbours of the
/// right period win by noise.
pub const ROUNDER_GAIN: f64 = 1.5;

/// The fewest periods of a cycle. Unit: periods. Source: derivation: two give one distance, which nothing confirms. Too
/// many: large blocks need more writes than the budget has; too few: any two stalls are a cycle.
pub const PERIODS_LEAST: usize = 3;
/// A period that was found may be up to this multiple of the true one. Unit: ratio. Source: tuned. Too high: the search
/// takes longer, and short parts fit by chance; too low: a multiple is reported as the erase block.
pub const MULTIPLES_MOST: usize = 16;
/// The quantile of response times above which IOs are outliers of the usual ones. Unit: share. Source: tuned. Too high:
/// latency spikes count as usual; too low: slow pages of TLC flash count as outliers.
pub const USUAL_QUANTILE: f64 = 0.9;
/// The relative error up to which an answer is right. Unit: share. Source: the tolerance of docs/infer-score.md. Too high:
/// wrong answers are counted as right; too low: right ones are reported with too little confidence.
pub const RIGHT: f64 = 0.03;
