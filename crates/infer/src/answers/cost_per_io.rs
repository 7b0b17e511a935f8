//! The constant part of what an IO takes: the answer of the lines through medians of several sizes.

use crate::signals::sizes::{FittedLine, LineOf, between};
use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::Nanos;

use crate::answers::size_pictures::beginning;
use crate::knowledge::CONFIDENCE_LEAST;
use crate::rule::Rule;

/// The rules by the sizes that show the cost: what is no line depends on all its sizes.
const OF_DEFINITION: Rule = Rule::strong("line of defined sizes");
const OF_LINE: Rule = Rule::likely("line");
const OF_PART: Rule = Rule::weak("line of a part");

fn rule_of(line: &FittedLine) -> Rule {
    match line.line_of() {
        LineOf::Definition => OF_DEFINITION,
        LineOf::Line => OF_LINE,
        LineOf::Part => OF_PART,
    }
}

/// The cost of each IO; `what` they are, as "sequential reads"; `off` as for [`between`].
pub(crate) fn cost(
    parameter: Parameter,
    what: &str,
    plain: Option<&FittedLine>,
    paused: Option<&FittedLine>,
    off: Option<[f64; 2]>,
) -> Finding {
    let rule = [plain, paused].into_iter().flatten().map(rule_of).reduce(Rule::min);
    let Some(((estimate, chance), rule)) = between(plain, paused, off).zip(rule) else {
        return Finding::undetermined(parameter, format!("There are too few sizes of {what} to fit a line."));
    };
    let words = [(plain, "without pauses"), (paused, "with pauses")];
    let words = words.map(|(fitted, how)| fitted.map(|fitted| format!("{how} {}", fitted.words())));
    let evidence = format!(
        "The time of {what} grows linearly with their size: {}.",
        words.into_iter().flatten().collect::<Vec<_>>().join(", and ")
    );
    if chance < CONFIDENCE_LEAST {
        return Finding::undetermined(parameter, evidence).with(beginning(what, plain, paused, None));
    }
    Rule::found(parameter, Nanos(estimate as u64), rule.of_chance(chance), evidence).with(beginning(
        what,
        plain,
        paused,
        Some(estimate),
    ))
}
