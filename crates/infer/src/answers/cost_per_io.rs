//! The constant part of what an IO takes: the answer of the lines through medians of several sizes.

use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_analysis::signals::sizes::{FittedLine, LineOf};
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

/// The cost of each IO; `what` they are, as "sequential reads", and `how` they are done, as "with pauses".
pub(crate) fn cost(parameter: Parameter, what: &str, how: &str, line: Option<&FittedLine>) -> Finding {
    let Some(line) = line else {
        return Finding::undetermined(parameter, format!("There are too few sizes of {what} to fit a line."));
    };
    let (estimate, chance) = line.cost();
    let evidence = format!("The time of {what} {how} grows linearly with their size: {}.", line.words());
    if chance < CONFIDENCE_LEAST {
        return Finding::undetermined(parameter, evidence).with(beginning(what, line, None));
    }
    Rule::found(parameter, Nanos(estimate as u64), rule_of(line).of_chance(chance), evidence).with(beginning(
        what,
        line,
        Some(estimate),
    ))
}
