//! The three answers about recovery, from the writes before and after the bursts alone.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::signals::figures::windows;
use flashlab_analysis::signals::pass_level::SLOWED;
use flashlab_base::{Bytes, Nanos};

use super::after::{After, BURST, Before, End, Sizes};
use crate::rule::Rule;
use crate::words::{duration, times};

/// The rule of a burst that is shorter than it should be.
const SHORT_BURST: Rule = Rule::weak("short burst");

/// All that was measured.
pub(super) struct Experiment {
    pub(super) sizes: Sizes,
    pub(super) before: Before,
    /// The bursts, the shortest first: one at least.
    pub(super) bursts: Vec<After>,
    /// Whether the level before the bursts was steady.
    pub(super) is_steady: bool,
    /// The burst that the write budget does not allow, and what it would write.
    pub(super) left_out: Option<(Nanos, Bytes)>,
    /// What the first region cost after everything was rewritten.
    pub(super) rewritten: Option<Vec<f64>>,
    /// What is left of the write budget.
    pub(super) left: Bytes,
    /// Whether the translation layer merges blocks, which limits what it can defer.
    pub(super) merges: bool,
}

/// The recovery time, whether the slowdown ends by itself, and whether rewriting ends it.
pub(super) fn answers(seen: &Experiment) -> [Finding; 3] {
    let (first, last) = (&seen.bursts[0], &seen.bursts[seen.bursts.len() - 1]);
    let mut evidence = figures(seen);
    // A longer burst may have an effect that a shorter one has not.
    let is_short = !first.is_long_enough(BURST);
    if is_short {
        evidence += " The write budget does not allow a longer burst.";
    }
    if !seen.is_steady {
        evidence += " The level was not steady before the burst, after the writes that came earlier.";
    }
    let time = recovery_time(seen, is_short, &evidence);
    let [ends, cures] = match last.end(&seen.before) {
        End::NotSeen if !seen.merges => without_end(seen, evidence),
        end => with_end(seen, end, is_short, evidence),
    };
    [time, ends, cures]
}

fn recovery_time(seen: &Experiment, is_short: bool, evidence: &str) -> Finding {
    let (parameter, first) = (Parameter::RecoveryTime, &seen.bursts[0]);
    let picture = picture(seen);
    match first.end(&seen.before) {
        End::ByItself if seen.is_steady && !is_short && first.is_as_before(&seen.before) => {
            let found = Rule::found(parameter, first.time(), Rule::likely("ended by itself"), evidence);
            found.with(picture.mark(first.time().0 as f64, "recovered"))
        }
        End::WhereRewritten => {
            Rule::not_identifiable(parameter, Rule::likely("ends where rewritten"), evidence).with(picture)
        }
        _ => Finding::undetermined(parameter, evidence).with(picture),
    }
}

/// Whether it ends, and whether rewriting helps, where an end was seen or has to come.
fn with_end(seen: &Experiment, end: End, is_short: bool, mut evidence: String) -> [Finding; 2] {
    let (level, last) = (&seen.before.first, &seen.bursts[seen.bursts.len() - 1]);
    let (ends, rule) = match end {
        End::ByItself if seen.is_steady && is_short => (true, SHORT_BURST),
        End::ByItself if seen.is_steady && level.times(last.last(level.writes())).high < SLOWED => {
            (true, Rule::strong("as before"))
        }
        End::ByItself if seen.is_steady => (true, Rule::likely("nearly as before")),
        End::ByItself | End::OnItsWay => (true, Rule::likely("on its way")),
        End::WhereRewritten => (false, Rule::likely("ends where rewritten")),
        End::Doubtful => (true, Rule::weak("doubtful end")),
        End::NotSeen => {
            evidence += " But the log blocks limit how many merges the device can defer, so that the slowdown should end.";
            (true, Rule::weak("merges are limited"))
        }
    };
    let found = Rule::found(Parameter::RecoveryEnds, ends, rule, evidence.clone()).with(picture(seen));
    let cures = if ends {
        Rule::not_identifiable(Parameter::RewriteCures, rule, evidence)
    } else {
        Rule::found(Parameter::RewriteCures, true, rule, evidence)
    };
    [found, cures]
}

/// The same where writes are slow to the end.
fn without_end(seen: &Experiment, mut evidence: String) -> [Finding; 2] {
    let level = &seen.before.first;
    evidence += &match &seen.rewritten {
        Some(costs) => format!(
            " After the randomly written region was rewritten as well, they take {} the time before.",
            times(level.times(costs).estimate)
        ),
        None => format!(
            " Rewriting the randomly written region needs {}, and {} of the write budget is left.",
            seen.sizes.span + seen.sizes.sequential * (2 * seen.sizes.pass),
            seen.left,
        ),
    };
    let was_steady = seen.rewritten.as_ref().is_none_or(|costs| !level.is_cheaper(costs));
    let ends = if was_steady {
        Rule::found(Parameter::RecoveryEnds, false, Rule::weak("no end seen"), evidence.clone())
    } else {
        Finding::undetermined(Parameter::RecoveryEnds, evidence.clone())
    };
    let cures = match seen.rewritten.as_ref().filter(|_| was_steady) {
        Some(costs) => {
            let is_cured = level.slowed(costs) == 0;
            Rule::found(Parameter::RewriteCures, is_cured, Rule::likely("rewritten region"), evidence)
        }
        None => Finding::undetermined(Parameter::RewriteCures, evidence),
    };
    [ends.with(picture(seen)), cures]
}

fn figures(seen: &Experiment) -> String {
    let Experiment { sizes, before, bursts, left_out, .. } = seen;
    let writes = before.first.writes();
    let mut figures = format!(
        "Before the random writes, sequential writes of {} take {}.",
        sizes.sequential,
        duration(before.first.mean())
    );
    for found in bursts {
        let ratios: Vec<_> = found.costs.chunks_exact(writes).map(|pass| before.first.times(pass)).collect();
        let listed: Vec<String> = ratios.iter().map(|ratio| times(ratio.estimate)).collect();
        let last = ratios[ratios.len() - 1];
        figures += &format!(
            " After {} of random writes of {} they take, pass by pass, {} that time; the last ratio is between {} and {}.",
            found.burst,
            sizes.random,
            listed.join(", "),
            times(last.low),
            times(last.high)
        );
        if found.slowed > 0 {
            figures += &format!(" They are slower for {}.", duration(found.time().0 as f64));
        }
        if let Some(other) = &found.other {
            let ratio = before.other.times(other).estimate;
            figures += &format!(
                " In a region that was not written to since, they take {} the time before.",
                times(ratio)
            );
        }
    }
    if let Some((length, needed)) = left_out {
        figures += &format!(
            " Random writes for {length} and a pass after them need {needed} more, which the write budget does not allow."
        );
    }
    figures
}

fn picture(seen: &Experiment) -> Picture {
    let Experiment { before, bursts: all, .. } = seen;
    let width = before.first.width();
    let level = before.first.mean();
    let end = all.iter().filter_map(|found| found.done.last()).copied().fold(0.0, f64::max);
    let empty = Picture::new(
        "Sequential writes after bursts of random writes, as means of stretches, and their level before the bursts.",
        Axis::linear("time since the burst", "ns"),
        Axis::linear("response time", "ns"),
    );
    let draw = |picture: Picture, found: &After| {
        let done = found.done.chunks_exact(width).map(|part| part[width - 1]);
        let points = done.zip(windows(&found.costs, width)).collect();
        picture.draw(&format!("after {} of random writes", found.burst), Style::Line, points)
    };
    all.iter()
        .fold(empty, draw)
        .draw("mean before the bursts", Style::Fitted, vec![(0.0, level), (end, level)])
        .draw("limit: slower by a tenth", Style::Fitted, vec![(0.0, SLOWED * level), (end, SLOWED * level)])
}
