//! `flashlab plan`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use flashlab_plan::{Choice, Plan};
use flashlab_report::printable;
use serde::Serialize;

use crate::arguments::{JsonOption, TableOptions};
use crate::{csv_table, files, output};

/// Show the plans that come with flashlab, or check one of yours
#[derive(Args)]
pub struct PlanCommand {
    #[command(subcommand)]
    action: PlanAction,
}

#[derive(Subcommand)]
enum PlanAction {
    /// List the plans that come with flashlab
    List(TableOptions),
    /// Print a plan's file
    Show {
        /// Its name
        name: String,
        #[command(flatten)]
        json: JsonOption,
    },
    /// Check whether a file is a plan, and print its experiments
    Check {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        json: JsonOption,
    },
}

impl PlanCommand {
    /// Prints what the action asks for.
    pub fn run(self) -> Result<()> {
        match self.action {
            PlanAction::List(table) => list(table),
            PlanAction::Show { name, json } => show(&name, json.json),
            PlanAction::Check { file, json } => {
                let plan = Plan::parse(&files::plan(&file)?, &file.display().to_string())?;
                describe(&plan, json.json)
            }
        }
    }
}

fn show(name: &str, json: bool) -> Result<()> {
    let text = files::builtin_plan(name)?;
    if json {
        return describe(&Plan::parse(text, name)?, true);
    }
    output::text(text)
}

/// A plan for other programs.
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
            let numbers =
                |values: &[flashlab_plan::ExperimentValue]| values.iter().map(|value| value.number).collect();
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

fn list(table: TableOptions) -> Result<()> {
    let plans: Vec<Plan> = Plan::builtins().iter().map(|builtin| builtin.plan()).collect();
    let all = || plans.iter().map(Description::of).collect::<Vec<_>>();
    if table.json {
        return output::json(&all());
    }
    if table.csv {
        return csv_table::print(&all());
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
        title => format!("{}: {}\n", plan.name, printable(title)),
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
