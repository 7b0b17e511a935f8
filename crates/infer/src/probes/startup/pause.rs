//! What pauses between random writes buy.
//!
//! # Model
//! A device may do deferred work while the host is idle. With pauses as long as the writes themselves take it has
//! half of the time for it; the cost of a write then, relative to that without pauses, is what pauses buy: 1 if it is
//! idle, too. Runs with and without pauses alternate, each after idle time: with pauses just as long as the writes, a
//! buffer that the other kind of run had filled would stay full for thousands of writes.

use crate::priors;
use crate::signals::pause_benefit::{PauseBenefit, pause_benefit, settled};
use crate::signals::statistics::mean;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Nanos;
use flashlab_plan::Time;

use crate::halt::Halt;
use crate::patterns::random_writes::random_writes;
use crate::patterns::responses;
use crate::patterns::writes::Buffer;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;

/// The prior probability that pauses have no benefit: without a write buffer, where that is not known, and
/// with one. Unit: probability. Source: tuned. Too high: small benefits are denied; too low: noise is a
/// benefit.
const NO_BENEFIT_PRIOR: [f64; 3] = [0.75, 0.4, 0.1];
/// The greatest ratio otherwise: on a page map pauses make no write slower, and where blocks are merged they
/// may. Unit: ratio. Source: tuned. Too high: the prior of any ratio is too low; too low: devices that defer
/// in pauses have no ratio.
const RATIO_MOST: [f64; 2] = [1.0, 1.5];
/// A ratio that is right with a lower probability is not reported. Unit: probability. Source: tuned, near one
/// half. Too high: right ratios stay undetermined; too low: wrong ones are reported.
const RIGHT_LEAST: f64 = 0.45;
const STRONGEST: Rule = Rule::likely("mean of batches");
/// The rule for a benefit on a page map. Costs become steady only after more writes than the capacity, for
/// which there is no budget.
const NOT_STEADY: Rule = Rule::weak("page map not steady");

/// `count` random writes with pauses as long as those of the runs without take, once these are settled.
pub(super) fn run(session: &mut Session<'_, '_>, without: &[Vec<f64>], count: u64) -> Result<Vec<f64>, Halt> {
    let pause = mean(&settled(without).concat());
    session.idle(priors::BACKLOG_DONE)?;
    let mut paused = random_writes(session, count);
    paused.first.time = Time::Pause { pause: Nanos(pause as u64) };
    Ok(responses(&session.run("with-pauses", &paused)?))
}

/// What pauses buy, from runs with and without them, by what is known of a write buffer.
pub(super) fn benefit(runs: [&[Vec<f64>]; 2], buffer: Buffer, is_page_map: bool) -> Finding {
    let nothing = match buffer {
        Buffer::None => NO_BENEFIT_PRIOR[0],
        Buffer::Unknown => NO_BENEFIT_PRIOR[1],
        Buffer::Holds(_) => NO_BENEFIT_PRIOR[2],
    };
    let most = RATIO_MOST[usize::from(!is_page_map)];
    let PauseBenefit { value, right, ratio: (ratio, error), batches: [with, without] } =
        pause_benefit(runs, nothing, most);
    let points =
        |batches: &[f64]| batches.iter().enumerate().map(|(index, &cost)| (index as f64, cost)).collect();
    let picture = Picture::new(
        "Mean response times of batches of random writes: alternating runs with and without pauses.",
        Axis::linear("batch of writes", ""),
        Axis::linear("response time", "ns"),
    )
    .draw("with pauses", Style::Dots, points(&with))
    .draw("without", Style::Dots, points(&without));
    let evidence = format!(
        "Random writes take {} with pauses of their own length between them, and {} without. The ratio is {ratio:.3}, with a \
         standard error of {error:.3}, from the means of {} batches each.",
        duration(mean(&with)),
        duration(mean(&without)),
        with.len(),
    );
    let strongest = if is_page_map && value < 1.0 { NOT_STEADY } else { STRONGEST };
    let finding = if right >= RIGHT_LEAST {
        Rule::found(Parameter::PauseBenefit, value, strongest.of_chance(right), evidence)
    } else {
        Finding::undetermined(Parameter::PauseBenefit, evidence)
    };
    finding.with(picture)
}
