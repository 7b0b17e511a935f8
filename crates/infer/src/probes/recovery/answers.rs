//! The three answers about recovery, from the writes before and after the bursts alone.

use crate::signals::pass_level::SLOWED_RATIO;
use crate::signals::recovery::{After, Before, End};
use crate::signals::statistics::windows;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Nanos};

use crate::rule::Rule;
use crate::words::{duration, times};

/// How long the burst takes. Source: the shortest of Ajwani et al., who have 5, 30 and 60 s. Too long: the
/// budget is used up; too short: devices with much to defer show nothing.
pub(super) const BURST_TIME: Nanos = Nanos::from_secs(5);
/// A burst of this share of [`BURST_TIME`] is long enough: one merge more or less changes its last request by
/// a tenth. Unit: share. Source: tuned. Too high: right answers are doubtful; too low: short bursts count.
const BURST_SHARE: f64 = 0.9;

/// What is written, and where.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Writes of a pass of one region.
    pub(super) pass: u64,
    /// The most random writes of the burst.
    pub(super) burst: u64,
    pub(super) random: Bytes,
    pub(super) sequential: Bytes,
    /// Random writes go below this.
    pub(super) span: Bytes,
    /// Whether it is written in order before the burst.
    pub(super) in_order: bool,
    /// What is kept for rewriting all that was written randomly, where that is affordable.
    pub(super) rewriting: Bytes,
}

/// The rule of a burst that is shorter than it should be.
const SHORT_BURST: Rule = Rule::weak("short burst");

/// All that was measured.
pub(super) struct Experiment {
    pub(super) sizes: Sizes,
    pub(super) before: Before,
    /// How long the burst took.
    pub(super) burst: Nanos,
    /// What followed it.
    pub(super) after: After,
    /// Whether the level before the burst was steady.
    pub(super) is_steady: bool,
    /// What the first region cost after everything was rewritten.
    pub(super) rewritten: Option<Vec<f64>>,
    /// What is left of the write budget.
    pub(super) left: Bytes,
    /// Whether the translation layer merges blocks, which limits what it can defer.
    pub(super) merges: bool,
    /// What its log blocks hold, if that is known.
    pub(super) log_bytes: Option<Bytes>,
}

/// The recovery time, whether the slowdown ends by itself, and whether rewriting ends it.
pub(super) fn answers(seen: &Experiment) -> [Finding; 3] {
    let mut evidence = figures(seen);
    // A longer burst may have an effect that a shorter one has not.
    let is_short = (seen.burst.0 as f64) < BURST_SHARE * BURST_TIME.0 as f64;
    if is_short {
        evidence += " The write budget does not allow a longer burst.";
    }
    if !seen.is_steady {
        evidence += " The level was not steady before the burst, after the writes that came earlier.";
    }
    let time = recovery_time(seen, is_short, &evidence);
    let [ends, cures] = match seen.after.end(&seen.before) {
        End::NotSeen if !seen.merges => without_end(seen, evidence),
        end => with_end(seen, end, is_short, evidence),
    };
    [time, ends, cures]
}

/// What the log blocks hold, if writes were slowed down and that is more than both regions. The regions then have log blocks of their
/// own, and are fast again while other log blocks still hold random writes.
fn logs_beyond_regions(seen: &Experiment) -> Option<Bytes> {
    let regions = seen.sizes.sequential * (2 * seen.sizes.pass);
    seen.log_bytes.filter(|&logs| seen.after.slowed > 0 && logs > regions)
}

fn recovery_time(seen: &Experiment, is_short: bool, evidence: &str) -> Finding {
    let (parameter, after) = (Parameter::RecoveryTime, &seen.after);
    let picture = picture(seen);
    match (after.end(&seen.before), logs_beyond_regions(seen)) {
        (End::ByItself, Some(logs)) => {
            let evidence = format!("{evidence} The log blocks hold {logs}, which is more than both regions.");
            Finding::undetermined(parameter, evidence).with(picture)
        }
        (End::ByItself, None) if seen.is_steady && !is_short && after.is_as_before(&seen.before) => {
            let found = Rule::found(parameter, after.time(), Rule::likely("ended by itself"), evidence);
            found.with(picture.mark(after.time().0 as f64, "recovered"))
        }
        (End::WhereRewritten, _) => {
            Rule::not_identifiable(parameter, Rule::likely("ends where rewritten"), evidence).with(picture)
        }
        _ => Finding::undetermined(parameter, evidence).with(picture),
    }
}

/// Whether it ends, and whether rewriting helps, where an end was seen or has to come.
fn with_end(seen: &Experiment, end: End, is_short: bool, mut evidence: String) -> [Finding; 2] {
    let level = &seen.before.first;
    let (ends, rule) = match end {
        End::ByItself if seen.is_steady && is_short => (true, SHORT_BURST),
        End::ByItself
            if seen.is_steady && level.times(seen.after.last(level.writes())).high < SLOWED_RATIO =>
        {
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
    let Experiment { sizes, before, burst, after, .. } = seen;
    let passes = after.costs.chunks_exact(before.first.writes());
    let ratios: Vec<_> = passes.map(|pass| before.first.times(pass)).collect();
    let listed: Vec<String> = ratios.iter().map(|ratio| times(ratio.estimate)).collect();
    let last = ratios[ratios.len() - 1];
    let mut figures = format!(
        "Before the random writes, sequential writes of {} take {}. After {} of random writes of {} they take, pass by pass, {} that \
         time; the last ratio is between {} and {}.",
        sizes.sequential,
        duration(before.first.mean()),
        burst,
        sizes.random,
        listed.join(", "),
        times(last.low),
        times(last.high)
    );
    if after.slowed > 0 {
        figures += &format!(" They are slower for {}.", duration(after.time().0 as f64));
    }
    if let Some(other) = &after.other {
        let ratio = times(before.other.times(other).estimate);
        figures += &format!(" In a region that was not written to since, they take {ratio} the time before.");
    }
    figures
}

fn picture(seen: &Experiment) -> Picture {
    let Experiment { before, after, .. } = seen;
    let (width, level) = (before.first.width(), before.first.mean());
    let end = after.done.last().copied().unwrap_or(0.0);
    let done = after.done.chunks_exact(width).map(|part| part[width - 1]);
    Picture::new(
        "Sequential writes after a burst of random writes, as means of stretches, and their level before the burst.",
        Axis::linear("time since the burst", "ns"),
        Axis::linear("response time", "ns"),
    )
    .draw("after the burst", Style::Line, done.zip(windows(&after.costs, width)).collect())
    .draw("mean before the burst", Style::Fitted, vec![(0.0, level), (end, level)])
    .draw("limit: slower by a tenth", Style::Fitted, vec![(0.0, SLOWED_RATIO * level), (end, SLOWED_RATIO * level)])
}

#[cfg(test)]
mod tests {
    use crate::signals::pass_level::PassLevel;

    use super::*;

    const PASS: u64 = 64;

    /// Three passes after a burst, of which the first is slower by this factor; the other region is as before.
    fn experiment(slower: f64, log_bytes: Option<Bytes>) -> Experiment {
        let pass = |factor: f64| -> Vec<f64> {
            (0..PASS).map(|write| 1e6 * factor * (1.0 + 0.01 * (write * 7 % 11) as f64)).collect()
        };
        let level = || PassLevel::new(&[pass(1.0), pass(1.01), pass(0.99)]);
        let before = Before { first: level(), other: level() };
        let costs = [pass(slower), pass(1.0), pass(1.0)].concat();
        let slowed = before.first.slowed(&costs);
        let done = (1..=costs.len()).map(|write| write as f64 * 1e6).collect();
        let (random, sequential) = (Bytes::kib(4), Bytes::kib(32));
        let span = Bytes::mib(8);
        Experiment {
            sizes: Sizes {
                pass: PASS,
                burst: 1,
                random,
                sequential,
                span,
                in_order: false,
                rewriting: Bytes::ZERO,
            },
            before,
            burst: BURST_TIME,
            after: After { costs, done, slowed, other: Some(pass(1.0)) },
            is_steady: true,
            rewritten: None,
            left: Bytes::ZERO,
            merges: true,
            log_bytes,
        }
    }

    #[test]
    fn no_time_is_concluded_where_the_logs_hold_more_than_both_regions() {
        let [time, ends, _] = answers(&experiment(3.0, Some(Bytes::kib(32) * (2 * PASS + 1))));
        assert!(time.value.is_none() && time.evidence.contains("The log blocks hold"), "{}", time.evidence);
        assert_eq!(ends.value, Some(true.into()), "{}", ends.evidence);
        for (slower, log_bytes) in
            [(3.0, None), (3.0, Some(Bytes::kib(32) * (2 * PASS))), (1.0, Some(Bytes::gib(1)))]
        {
            let [time, ..] = answers(&experiment(slower, log_bytes));
            assert_eq!(time.rule.as_deref(), Some("recovery_time/ended by itself"), "{}", time.evidence);
            assert_eq!(time.number() == Some(0.0), slower == 1.0, "{}", time.evidence);
        }
    }
}
