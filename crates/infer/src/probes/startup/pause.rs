//! What pauses between random writes buy.
//!
//! # Model
//! A device may do deferred work while the host is idle. With pauses as long as the writes themselves take it has half
//! of the time for it; the cost of a write then, relative to that without pauses, is what pauses buy: 1 if it is idle, too.
//! Runs with and without pauses alternate, each after idle time: with pauses just as long as the writes, a buffer that the
//! other kind of run had filled would stay full for thousands of writes.

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

/// How likely it is that pauses buy nothing: without memory for writes, where that is not known, and with it.
const NOTHING: [f64; 3] = [0.75, 0.4, 0.1];
/// What else is likely is between 0 and this: where every page may lie anywhere pauses make no write slower, and where blocks
/// are merged they may.
const ELSE: [f64; 2] = [1.0, 1.5];
/// What is less likely right than this is not said, and nothing has a stronger rule than that.
const SAID: f64 = 0.45;
const STRONGEST: Rule = Rule::likely("mean of batches");
/// The rule at most that they buy something of a page map: costs become steady only after more writes than the
/// capacity, which there is no budget for.
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
        Buffer::None => NOTHING[0],
        Buffer::Unknown => NOTHING[1],
        Buffer::Holds(_) => NOTHING[2],
    };
    let most = ELSE[usize::from(!is_page_map)];
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
    let finding = if right >= SAID {
        Rule::found(Parameter::PauseBenefit, value, strongest.of_chance(right), evidence)
    } else {
        Finding::undetermined(Parameter::PauseBenefit, evidence)
    };
    finding.with(picture)
}
