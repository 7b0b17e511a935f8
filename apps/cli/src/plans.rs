//! `flashlab plan`.

use anyhow::{Context, Result};
use flashlab_plan::{Choice, Plan};
use serde::Serialize;

use crate::args::{PlanAction, PlanVerb};
use crate::exit::Usage;

/// `flashlab plan`.
pub fn plan(arguments: PlanVerb) -> Result<()> {
    match arguments.verb {
        PlanAction::List(json) => list(json.json),
        PlanAction::Show { name, json } => show(&name, json.json),
        PlanAction::Check { file, json } => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(&file)
                .map_err(|error| Usage(format!("cannot read {name}: {error}")))?;
            describe(&Plan::parse(&text, &name)?, json.json)
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

fn show(name: &str, json: bool) -> Result<()> {
    let text = builtin(name)?;
    if json {
        return describe(&Plan::parse(text, name)?, true);
    }
    print!("{text}");
    Ok(())
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
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    for plan in plans {
        let parameter = plan.parameter.map_or("", |parameter| parameter.name());
        println!("{:<17} {:<15} {}", plan.name, parameter, plan.title);
    }
    Ok(())
}

fn describe(plan: &Plan, json: bool) -> Result<()> {
    let description = Description::of(plan);
    if json {
        println!("{}", serde_json::to_string_pretty(&description)?);
        return Ok(());
    }
    println!("{}: {}", plan.name, plan.title);
    for experiment in &plan.experiments {
        let runs: Vec<String> = experiment
            .runs(Choice::Full)
            .map(|(value, _)| value.label)
            .filter(|label| !label.is_empty())
            .collect();
        match &experiment.vary {
            Some(vary) => println!("  {}: {} = {}", experiment.name, vary.parameter, runs.join(", ")),
            None => println!("  {}: one run", experiment.name),
        }
    }
    Ok(())
}
