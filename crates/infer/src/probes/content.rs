//! Measures whether a write of zeros or ones takes less time than one of random data (Sun and Zhang, section 4.2).
//!
//! # Model
//! A page of zeros or ones may be programmed faster, or the controller may not program it at all. Sequential writes
//! of different content differ in nothing else. The dies, planes and blocks alternate in them, and so does the cost.
//! So writes at the same position of their runs are compared, and the length of a run is a multiple of the usual
//! numbers of dies and planes.
//!
//! # Method
//! 1. Runs of random data, zeros and ones alternate in a first region, each on fresh pages, and then in a second one.
//!    The device is idle before each run. The first half of a run does not count: a write buffer still holds the
//!    content before.
//! 2. Three estimates of the ratio have to agree: medians, ranks, and pairs of writes at the same position.
//! 3. If contents differ, half of each 4 KiB is made zeros (figures 13 to 15 of the paper). This costs half of the
//!    difference if each half is a page of its own, and nothing less if both belong to one page. It is reported, and
//!    decides nothing.
//! 4. Writes that wait for a merge are reported with the shares.
//!
//! If the page is not known, larger writes are whole pages: if their content makes no difference, that of a page does
//! not either.
//!
//! # Invariants
//! - Each content comes first, second and third equally often, so that the state of the device is the same for all.
//! - If the regions disagree, the answer is doubtful.
//! - A ratio is known to three per cent, or it is doubtful.

use crate::priors;
use crate::signals::pictures::ranked;
use crate::signals::statistics::upper_median;
use crate::signals::steps::spike;
use flashlab_analysis::decide::level::trimmed_mean;
use flashlab_analysis::decide::ranks::{Interval, ratio};
use flashlab_analysis::inference::{Finding, Parameter, Picture};
use flashlab_base::Bytes;
use flashlab_plan::{Content, Location};

use crate::halt::{Halt, if_affordable};
use crate::patterns::writes::{costs_of, place, with_content, writes};
use crate::priors::SMALL_IO;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::thresholds;
use crate::words::duration;

pub(crate) const PROBE: Probe = Probe {
    name: "content",
    about: "sequential writes of random data, of zeros and of ones, alternating: does the content change the cost?",
    parameters: &[Parameter::ZerosProgramShare, Parameter::OnesProgramShare],
    hands_in: &[],
    write_share: 0.015,
};

/// A content, and what it is called.
type Kind = (&'static str, Content);

const RANDOM: Kind = ("random", Content::Incompressible);
const ZEROS: Kind = ("zeros", Content::Zeros);
const KINDS: [Kind; 3] = [RANDOM, ZEROS, ("ones", Content::Ones)];
const HALVED: [Kind; 3] = [RANDOM, ZEROS, ("half-zeros", Content::Half)];
/// The part of the write budget for whole contents; the rest is for half zeros. Unit: share. Source: choice.
/// Too high: half zeros are not written; too low: the shares are less exact.
const SHARES_PART: f64 = 0.8;
/// Half zeros cost half of the difference, or none of it, up to this share of the difference. Unit: share.
/// Source: derivation: the middle between 0 and a half. Too large: both statements hold; too small: neither
/// does.
const HALF_SLACK: f64 = 0.25;
/// The rounds of all contents. Each content is the first, second and third one equally often. Unit: rounds.
/// Source: derivation: 3 orders, in two regions. Too many: runs are short; too few: drift decides.
const ROUNDS: usize = 6;
/// The regions that have to agree. Unit: regions. Source: derivation: two can disagree. Too many: runs are
/// short; too few: nothing confirms the first one.
const REGIONS: usize = 2;
/// Where the regions begin. Unit: share of the device. Source: choice: beyond the offsets of other probes.
/// Too high: the runs do not fit; too low: the writes of other probes disturb them.
const REGION_OFFSETS: [f64; REGIONS] = [0.81, 0.9];
/// The writes of a run are a multiple of this: whole rounds of 1, 2, 3, 4, 6, 8, 12 or 16 dies or planes.
/// Unit: writes. Source: derivation: their least common multiple. Too high: small budgets have no run; too
/// low: a run ends on another die than it began on.
const RUN_MULTIPLE: u64 = 48;
/// The most writes of a run. Unit: writes. Source: choice. Too many: the probe takes longer; too few: the
/// median is less exact.
const RUN_MOST: u64 = 1536;
/// A round that differs from the others by more than this saw something else. Unit: share. Source: tuned. Too
/// large: disturbed rounds count; too small: jitter leaves no round.
const ROUND_SLACK: f64 = 0.05;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let known = session.known();
    let page = known.bytes(Parameter::WritePageSize).or(known.bytes(Parameter::ReadPageSize));
    let size = page.unwrap_or(priors::WHOLE_PAGES).max(session.block());
    let left = session.writes_left();
    let [random, zeros, ones] =
        alternating(session, KINDS, size, Bytes((left.0 as f64 * SHARES_PART) as u64))?;
    let slow = slow_ones([&random, &zeros, &ones]);
    let findings =
        [(Parameter::ZerosProgramShare, &zeros, "zeros"), (Parameter::OnesProgramShare, &ones, "ones")].map(
            |(parameter, of, name)| {
                let mut finding = share(parameter, of, &random, page.is_some(), &format!("{size} of {name}"));
                finding.evidence += &slow;
                finding
            },
        );
    let picture = picture(size, &[random, zeros, ones]);
    let differ = findings.iter().any(|finding| finding.number().is_some_and(|share| share != 1.0));
    let halves = if differ { if_affordable(halves(session, size.max(SMALL_IO))) } else { Ok(None) };
    for mut finding in findings {
        if let Ok(Some(halves)) = &halves {
            finding.evidence += halves;
        }
        session.conclude(finding.with(picture.clone()));
    }
    // What is known is known before it is said that the device failed.
    halves.map(drop)
}

/// What writes of three kinds cost, alternating, of at most `budget` bytes.
fn alternating(
    session: &mut Session<'_, '_>,
    kinds: [Kind; 3],
    size: Bytes,
    budget: Bytes,
) -> Result<[Vec<f64>; 3], Halt> {
    let affordable = budget.0 / size.0 / (kinds.len() * ROUNDS + REGIONS) as u64;
    let count =
        if affordable >= RUN_MULTIPLE { affordable / RUN_MULTIPLE * RUN_MULTIPLE } else { affordable.max(8) };
    let count = count.min(RUN_MOST);
    let length = size * count;
    if length * 4 > session.capacity() {
        return Err(Halt::Misfit("it has no space for runs of writes".to_owned()));
    }
    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    let mut begin = Bytes::ZERO;
    for run in 0..kinds.len() * ROUNDS {
        if run.is_multiple_of(kinds.len() * ROUNDS / REGIONS) {
            // What was open elsewhere is given up here, and that costs once.
            begin = place(session, REGION_OFFSETS[run * REGIONS / (kinds.len() * ROUNDS)], size);
            costs_of(session, "begin", &writes(Location::Sequential, size, count, begin, length))?;
            begin += length;
        }
        let rest = priors::DIES_IDLE.min(session.time_left());
        session.idle(rest)?;
        let kind = (run + run / kinds.len()) % kinds.len();
        let (name, content) = kinds[kind];
        if begin + length > session.capacity() {
            begin = Bytes::ZERO;
        }
        let pattern = with_content(writes(Location::Sequential, size, count, begin, length), content);
        begin += length;
        let settled = costs_of(session, name, &pattern)?.split_off(count as usize / 2);
        costs[kind].extend(settled);
    }
    Ok(costs)
}

/// What it costs that half of each 4 KiB is zeros, as a part of a sentence.
fn halves(session: &mut Session<'_, '_>, size: Bytes) -> Result<String, Halt> {
    let left = session.writes_left();
    let [random, zeros, halves] =
        alternating(session, HALVED, size, left)?.map(|costs| upper_median(&costs).max(1.0));
    let (zeros, halves) = (zeros / random, halves / random);
    let of_difference = (1.0 - halves) / (1.0 - zeros);
    let pages = if (of_difference - 0.5).abs() <= HALF_SLACK {
        ", as if each half were a page of its own"
    } else if of_difference.abs() <= HALF_SLACK {
        ", as if both halves belonged to one page"
    } else {
        ""
    };
    Ok(format!(
        " If half of each {SMALL_IO} is zeros, {size} take {halves:.3} x the time of random content, and {zeros:.3} x if all is \
         zeros{pages}."
    ))
}

/// What the slow ones of random content, zeros and ones take, as a part of a sentence; nothing where there are none.
fn slow_ones(costs: [&[f64]; 3]) -> String {
    let spikes = costs.map(spike);
    if spikes.iter().any(|spike| spike.excess == 0.0) {
        return String::new();
    }
    let listed: Vec<String> = KINDS
        .iter()
        .zip(spikes)
        .map(|((name, _), spike)| format!("{} ({name})", duration(spike.usual + spike.excess)))
        .collect();
    format!(" The slow ones among them take {}.", listed.join(", "))
}

/// What writes of a content cost relative to random ones, of as many runs of the same length.
fn share(parameter: Parameter, of: &[f64], random: &[f64], page_is_known: bool, what: &str) -> Finding {
    let share = upper_median(of) / upper_median(random).max(1.0);
    let evidence = format!(
        "Writing {what} takes {share:.3} x the time of random content, by the medians of {} writes each.",
        of.len()
    );
    let differences: Vec<f64> =
        of.iter().zip(random).map(|(of, random)| (of / random.max(1.0)).ln()).collect();
    let pairs = trimmed_mean(&differences, 0.1, 0.99).map(|pairs| pairs.map(f64::exp));
    let (Some(pairs), Some(ranks)) = (pairs, ratio(of, random, 0.99)) else {
        return Finding::undetermined(parameter, evidence);
    };
    let evidence = format!(
        "{evidence} The ratio is between {:.3} and {:.3} by ranks, and between {:.3} and {:.3} for pairs of writes at the same position \
         of a run.",
        ranks.low, ranks.high, pairs.low, pairs.high
    );
    // Each run has its own offset. Where blocks are merged or log blocks fill, the cost differs from run to
    // run by more than chance. Then only a ratio that all rounds show is one of content.
    let of_turn = |(of, random): (&[f64], &[f64])| {
        (upper_median(of) / upper_median(random).max(1.0)).max(f64::MIN_POSITIVE).ln()
    };
    let run = of.len() / ROUNDS;
    let turns: Vec<f64> =
        of.chunks_exact(run.max(1)).zip(random.chunks_exact(run.max(1))).map(of_turn).collect();
    let by_turn = trimmed_mean(&turns, 0.0, 0.95);
    // All turns but one may be nearer to the share than to no difference.
    let nearer = turns.iter().filter(|&&turn| turn / share.max(f64::MIN_POSITIVE).ln() > 0.5).count();
    let disagree = nearer + 1 < turns.len() && by_turn.is_some_and(|turns| turns.holds(0.0));
    // Pairs see less where costs come round with the place, ranks where they come by chance.
    let same = [pairs, ranks].into_iter().filter(|interval| interval.holds(1.0)).map(half).reduce(f64::min);
    match same {
        Some(half) if half <= thresholds::RIGHT => {
            return Rule::found(parameter, 1.0, Rule::strong("no difference"), evidence);
        }
        Some(half) if half <= 4.0 * thresholds::RIGHT => {
            return Rule::found(parameter, 1.0, Rule::likely("hardly a difference"), evidence);
        }
        _ if disagree => {
            return Rule::found(
                parameter,
                1.0,
                Rule::likely("runs disagree"),
                format!("{evidence} But not all runs show the difference."),
            );
        }
        _ if page_is_known => {}
        // Of several pages the share is about that of one.
        _ if half(ranks) <= thresholds::RIGHT * share => {
            return Rule::found(parameter, share, Rule::weak("unknown page"), evidence);
        }
        _ => return Finding::undetermined(parameter, evidence),
    }
    let estimates = Estimates { share, ranks, pairs };
    estimates.finding(parameter, (of, random), &turns, evidence)
}

/// Medians, ranks and pairs: three estimates of the same ratio. Where levels are mixed they part.
struct Estimates {
    share: f64,
    ranks: Interval,
    pairs: Interval,
}

/// Half the width of an interval.
fn half(interval: Interval) -> f64 {
    (interval.high - interval.low) / 2.0
}

impl Estimates {
    /// The ratio where contents differ; `turns` has its logarithm by runs.
    fn finding(
        &self,
        parameter: Parameter,
        (of, random): (&[f64], &[f64]),
        turns: &[f64],
        evidence: String,
    ) -> Finding {
        let Estimates { share, ranks, pairs } = *self;
        let near = |one: f64, other: f64| (one / other - 1.0).abs() <= thresholds::RIGHT;
        let agree = near(ranks.estimate, share) && near(ranks.estimate, pairs.estimate);
        if agree {
            // A turn in which the device did other work beside, for one kind, is off; most are not.
            let by_turn = trimmed_mean(turns, 0.1, 0.95).map_or(share, |turns| turns.estimate.exp());
            let alike = turns.iter().all(|&turn| (turn.exp() / by_turn - 1.0).abs() <= ROUND_SLACK);
            // What the writes before left shows in the one half or the other.
            let (middle, ratio) =
                (of.len() / 2, |of, random| upper_median(of) / upper_median(random).max(1.0));
            let halves = [ratio(&of[..middle], &random[..middle]), ratio(&of[middle..], &random[middle..])];
            let repeats = halves.iter().all(|&half| near(half, by_turn)) && !near(by_turn, 1.0);
            let is_exact = alike && repeats && half(ranks) <= thresholds::RIGHT * share;
            return Rule::found(
                parameter,
                by_turn,
                if is_exact { Rule::strong("runs agree") } else { Rule::likely("estimates agree") },
                evidence,
            );
        }
        let nearly_same = |interval: &Interval| {
            interval.low <= 1.0 + thresholds::RIGHT
                && interval.high >= 1.0 - thresholds::RIGHT
                && half(*interval) <= 4.0 * thresholds::RIGHT
        };
        let nearly_same = [pairs, ranks].iter().any(nearly_same);
        Rule::found(
            parameter,
            if nearly_same { 1.0 } else { share },
            Rule::weak("estimates disagree"),
            evidence,
        )
    }
}

fn picture(size: Bytes, costs: &[Vec<f64>; 3]) -> Picture {
    let kinds = KINDS.iter().zip(costs).map(|((name, _), costs)| (*name, costs.as_slice()));
    ranked(format!("Sequential writes of {size}, by their content."), "writes", kinds).mark(0.5, "median")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six runs of writes that take about so long, each with its own level within one percent.
    fn costs(level: f64) -> Vec<f64> {
        let about = |run: usize, index: usize| {
            level * (1.0 + 0.01 * (run % 3) as f64 + 0.02 * (index * 7 % 11) as f64 / 11.0)
        };
        (0..ROUNDS).flat_map(|run| (0..96).map(move |index| about(run, index))).collect()
    }

    fn found(zeros: f64) -> Finding {
        share(Parameter::ZerosProgramShare, &costs(zeros * 500e3), &costs(500e3), true, "4 KiB of zeros")
    }

    #[test]
    fn the_share_is_that_of_the_medians_of_all_runs() {
        let zeros = found(0.6);
        assert!(zeros.number().is_some_and(|share| (share - 0.6).abs() < 0.01), "{}", zeros.evidence);
        assert_eq!(zeros.rule.as_deref(), Some("zeros_program_share/runs agree"));
        let same = found(1.0);
        assert_eq!(same.number(), Some(1.0));
        assert_eq!(same.rule.as_deref(), Some("zeros_program_share/no difference"));
    }

    #[test]
    fn writes_that_wait_for_a_merge_are_told_beside_the_shares() {
        let with_merges = |merge: f64| {
            let cost = |index: usize| if index % 64 == 63 { merge } else { 500e3 };
            (0..640).map(cost).collect::<Vec<f64>>()
        };
        let [random, zeros] = [with_merges(115e6), with_merges(24e6)];
        let words = slow_ones([&random, &zeros, &random]);
        assert!(words.contains("115 ms (random), 24 ms (zeros)"), "{words}");
        assert_eq!(slow_ones([&costs(1e5), &costs(1e5), &costs(1e5)]), "");
    }
}
