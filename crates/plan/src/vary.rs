//! Reads which parameter varies in an experiment, and its values.

use crate::check::check;
use crate::section::{Entry, Section, nearest};
use crate::{ExperimentValue, Pattern, PatternParameter, PlanError, Vary};

/// The most values of a quick run.
const QUICK_MAX: usize = 5;

/// What varies in an experiment. Its own section decides, and otherwise the surrounding one. `sections`
/// starts with the inner one.
pub(crate) fn read_vary(sections: &[Section], pattern: &Pattern) -> Result<Option<Vary>, PlanError> {
    // A parameter in the inner section needs values there, and values need their own list of quick values.
    let own = |key: &str| sections.iter().position(|section| section.get(key).is_some());
    let find = |key: &str, level: usize| sections[..=level].iter().find_map(|section| section.get(key));
    let Some(vary_level) = own("vary") else {
        let orphan = ["values", "quick_values"].into_iter().find_map(|key| find(key, sections.len() - 1));
        return orphan.map_or(Ok(None), |entry| Err(entry.misplaced("with `vary`, the parameter's name")));
    };
    let vary = find("vary", vary_level).expect("it was found at this level");
    let parameter = read_parameter(&vary)?;
    let Some(values_level) = own("values").filter(|level| *level <= vary_level) else {
        return Err(vary.missing("values", "the list of values that the parameter takes"));
    };
    let list = find("values", values_level).expect("it was found at this level");
    let values = read_values(&list, parameter, pattern, &vary)?;
    let quick_values = match find("quick_values", values_level) {
        Some(list) => read_quick_values(&list, parameter, pattern, &vary, &values)?,
        None => thinned(&values),
    };
    Ok(Some(Vary { parameter, values, quick_values }))
}

fn read_parameter(entry: &Entry) -> Result<PatternParameter, PlanError> {
    let name = entry.text()?;
    PatternParameter::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = PatternParameter::all().map(PatternParameter::name).collect();
        match nearest(name, &names) {
            Some(near) => entry.illegal(format!("a parameter's name: did you mean {near:?}?")),
            None => entry.illegal(format!("a parameter's name: one of {}", names.join(", "))),
        }
    })
}

/// A list of values, each legal in the pattern.
fn read_values(
    list: &Entry,
    parameter: PatternParameter,
    pattern: &Pattern,
    vary: &Entry,
) -> Result<Vec<ExperimentValue>, PlanError> {
    let mut values: Vec<ExperimentValue> = Vec::new();
    for entry in list.list()? {
        let number = entry.number(parameter.quantity())?;
        let mut varied = pattern.clone();
        parameter.set(&mut varied, number).map_err(|use_it| vary.misplaced(use_it))?;
        check(&varied).map_err(|illegal| {
            if illegal.parameter == parameter {
                entry.illegal(illegal.legal)
            } else {
                entry.illegal(format!(
                    "such that {} is {}; it is {}",
                    illegal.parameter, illegal.legal, illegal.value
                ))
            }
        })?;
        if values.last().is_some_and(|last| number <= last.number) {
            return Err(entry.illegal("greater than the value before it"));
        }
        values.push(ExperimentValue::of(parameter, number));
    }
    if values.is_empty() {
        return Err(list.illegal("a list of one value at least"));
    }
    Ok(values)
}

fn read_quick_values(
    list: &Entry,
    parameter: PatternParameter,
    pattern: &Pattern,
    vary: &Entry,
    values: &[ExperimentValue],
) -> Result<Vec<ExperimentValue>, PlanError> {
    let quick = read_values(list, parameter, pattern, vary)?;
    let has_ends = quick.first() == values.first() && quick.last() == values.last();
    if quick.len() > QUICK_MAX || !has_ends || !quick.iter().all(|value| values.contains(value)) {
        return Err(list.illegal(format!("at most {QUICK_MAX} of `values`, with the first and the last")));
    }
    Ok(quick)
}

/// At most [`QUICK_MAX`] values, evenly spread over the list, with both ends.
fn thinned(values: &[ExperimentValue]) -> Vec<ExperimentValue> {
    if values.len() <= QUICK_MAX {
        return values.to_vec();
    }
    let last = values.len() - 1;
    (0..QUICK_MAX).map(|index| values[index * last / (QUICK_MAX - 1)].clone()).collect()
}
