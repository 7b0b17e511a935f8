//! `flashlab plan`.

use std::path::Path;

use anyhow::{Context, Result};
use flashlab_plan::{Choice, Plan};
use serde::Serialize;

use crate::args::{PlanAction, PlanVerb};
use crate::exit::Usage;
use crate::{input, output};

/// `flashlab plan`.
pub fn plan(arguments: PlanVerb) -> Result<()> {
    match arguments.verb {
        PlanAction::List(json) => list(json.json),
        PlanAction::Show { name, json } => show(&name, json.json),
        PlanAction::Check { file, json } => {
            let plan = Plan::parse(&read(&file)?, &file.display().to_string())?;
            describe(&plan, json.json)
        }
    }
}

/// The file of a shipped plan.
pub fn builtin(name: &str) -> Result<&'static str> {
    let found = Plan::builtins().iter().find(|builtin| builtin.name == name);
    let text = found.map(|builtin| builtin.text);
    text.with_context(|| {
        let names: Vec<&str> = Plan::builtins().iter().map(|builtin| builtin.name).collect();
        Usage(format!("there is no plan `{name}`; there are: {}", names.join(", ")))
    })
}

/// The text of a plan's file.
pub fn read(file: &Path) -> Result<String> {
    input::text(file, "plan", "; `flashlab plan list` names the plans that come with flashlab")
}

fn show(name: &str, json: bool) -> Result<()> {
    let text = builtin(name)?;
    if json {
        return describe(&Plan::parse(text, name)?, true);
    }
    output::text(text)
}

/// A plan as other programs read it.
#[derive(Serialize)]
struct Description {
    name: String,
    title: String,
    description: String,
    parameter: Option<&'static str>,
    unit: Option<&'static str>,
    experiments: Vec<ExperimentDescription>,
}

#[derive(Serialize)]
struct ExperimentDescription {
    name: String,
    values: Vec<f64>,
    quick_values: Vec<f64>,
    runs: usize,
}

impl Description {
    fn of(plan: &Plan) -> Description {
        let experiments = plan.experiments.iter().map(|experiment| {
            let vary = experiment.vary.as_ref();
            let numbers = |values: &[flashlab_plan::Value]| values.iter().map(|value| value.number).collect();
            ExperimentDescription {
                name: experiment.name.clone(),
                values: vary.map(|vary| numbers(&vary.values)).unwrap_or_default(),
                quick_values: vary.map(|vary| numbers(&vary.quick_values)).unwrap_or_default(),
                runs: experiment.runs(Choice::Full).count(),
            }
        });
        Description {
            name: plan.name.clone(),
            title: plan.title.clone(),
            description: plan.description.clone(),
            parameter: plan.parameter.map(|parameter| parameter.name()),
            unit: plan.parameter.map(|parameter| parameter.unit()),
            experiments: experiments.collect(),
        }
    }
}

fn list(json: bool) -> Result<()> {
    let plans: Vec<Plan> = Plan::builtins().iter().map(|builtin| builtin.plan()).collect();
    if json {
        let all: Vec<Description> = plans.iter().map(Description::of).collect();
        return output::json(&all);
    }
    let line = |plan: &Plan| {
        let parameter = plan.parameter.map_or("", |parameter| parameter.name());
        format!("{:<17} {:<15} {}\n", plan.name, parameter, plan.title)
    };
    output::text(&plans.iter().map(line).collect::<String>())
}

fn describe(plan: &Plan, json: bool) -> Result<()> {
    if json {
        return output::json(&Description::of(plan));
    }
    let mut text = match plan.title.as_str() {
        "" => format!("{}\n", plan.name),
        title => format!("{}: {title}\n", plan.name),
    };
    for experiment in &plan.experiments {
        let runs: Vec<String> = experiment.runs(Choice::Full).map(|(value, _)| value.label).collect();
        text += &match &experiment.vary {
            Some(vary) => format!("  {}: {} = {}\n", experiment.name, vary.parameter, runs.join(", ")),
            None => format!("  {}: one run\n", experiment.name),
        };
    }
    output::text(&text)
}
