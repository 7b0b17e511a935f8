//! `flashlab model check`: predicts what was never fitted, measures it, and prints how far the two are apart.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use flashlab_base::{Bytes, Identity, Target};
use flashlab_bench::Settings;
use flashlab_model::{
    CHECK_FILLS, CheckSummary, DeviceModel, Extraction, GoalVerdict, ModelCheck, SizeStep, run_points,
};
use flashlab_plan::Plan;
use flashlab_report::{printable, units};
use flashlab_samples::FolderKind;

use crate::arguments::TableOptions;
use crate::verbs::model::measuring::MeasuringOptions;
use crate::verbs::model::{show, source};
use crate::{csv_table, output};

/// The document in the run's folder.
const DOCUMENT: &str = "check.json";
/// Of a real device: each run is repeated, so that its own repeatability is known.
const REPETITIONS: u32 = 3;

/// Predict requests, depths, mixes and fills that were never fitted, measure them, and print the error per class
#[derive(Args)]
pub struct Check {
    /// A model: the folder of flashlab model fit, its model.json, or a run to fit
    model: PathBuf,
    /// A block device, a regular file, sim:NAME or sim:./profile.toml; a scratch file if not given
    target: Option<Target>,
    #[command(flatten)]
    measuring: MeasuringOptions,
    #[command(flatten)]
    table: TableOptions,
}

impl Check {
    /// Measures what the model predicts, and prints both.
    pub fn run(self) -> Result<()> {
        let model = source::model(&self.model)?;
        let is_simulated = self.target.as_ref().is_some_and(Target::is_simulated);
        let repetitions = if is_simulated { 1 } else { REPETITIONS };
        let mut measuring = self.measuring.begin(
            FolderKind::ModelCheck,
            self.target.as_ref(),
            repetitions,
            |extraction| plans(&model, is_simulated, extraction),
        )?;
        let plans = plans(&model, is_simulated, &measuring.extraction);
        measuring.run(&plans)?;
        let without_fills = match model.filled {
            None => Some("the model has none"),
            Some(_) => measuring.run_fills(&CHECK_FILLS, Extraction::check_fill_plan)?,
        };
        let folder = measuring.measurement.folder().clone();
        let identity = measuring.measurement.identity();
        let (device, other) =
            (identity.target.clone(), of_another_device(&model.fitted_to.identity, identity));
        measuring.end()?;
        let points = run_points(folder.path())?;
        let mut report = ModelCheck::new(&model, &device, is_simulated, other.is_none(), &points);
        report.left_out.extend(without_fills.map(|reason| format!("other fills: {reason}")));
        if let Some(sentence) = model.regime_sentence() {
            tell!("{sentence}");
        }
        if let Some(other) = &other {
            tell!("warning: {other}");
        }
        folder.write_json(DOCUMENT, &report)?;
        folder.finish::<Settings>()?;
        let place = folder.path().join(DOCUMENT).display().to_string();
        if self.table.is_for_a_program() {
            tell!("document: {place}");
            return match self.table.csv {
                true => csv_table::print(&report.summaries),
                false => output::json(&report),
            };
        }
        output::text(&format!("{}\nDocument: {place}\n", text(&report)))
    }
}

/// A sentence where the model was fitted to a device of another name. That is allowed: the check then says how well it describes this one.
fn of_another_device(fitted: &Identity, checked: &Identity) -> Option<String> {
    let (fitted, checked) = (fitted.model.as_ref()?, checked.model.as_ref()?);
    let (one, other) = (printable(fitted), printable(checked));
    (fitted != checked).then(|| format!("the model was fitted to {one}, and this is {other}"))
}

/// What is measured: sizes between the fitted ones up to the largest of them, other depths and other mixes; before them, on a real
/// device, some that were fitted.
fn plans(model: &DeviceModel, is_simulated: bool, extraction: &Extraction) -> Vec<Plan> {
    let again = if is_simulated { Vec::new() } else { plans_again(model, extraction) };
    let largest = |writes: bool| {
        let points = model.fitted_to.points.iter().filter(|point| point.workload.class.writes() == writes);
        points.map(|point| point.workload.size).max().unwrap_or(Bytes::ZERO)
    };
    let steps = extraction.size_steps().into_iter();
    let sizes = steps.flat_map(|step| {
        let most = largest(step.classes()[0].writes());
        let sizes = extraction.check_sizes().into_iter().filter(move |size| *size <= most);
        sizes.map(move |size| extraction.check_size_plan(step, size))
    });
    let others = extraction.check_queue_plans().into_iter().chain(extraction.check_seek_plans());
    again.into_iter().chain(sizes).chain(others).collect()
}

/// Some of the requests that were fitted, because a real device changes: small, middle and large ones, every fourth size.
fn plans_again(model: &DeviceModel, extraction: &Extraction) -> Vec<Plan> {
    let is_fitted = |step: SizeStep, size: Bytes| {
        let mut plain =
            model.fitted_to.points.iter().map(|point| &point.workload).filter(|point| point.is_plain());
        plain.any(|point| point.size == size && step.classes().contains(&point.class))
    };
    let sizes: Vec<Bytes> = extraction.sizes().into_iter().skip(2).step_by(4).collect();
    let steps = extraction.size_steps().into_iter();
    let all = steps.flat_map(|step| sizes.iter().map(move |&size| (step, size)));
    all.filter(|&(step, size)| is_fitted(step, size))
        .map(|(step, size)| extraction.size_plan(step, size))
        .collect()
}

fn text(report: &ModelCheck) -> String {
    let share = |share: Option<f64>| share.map_or(units::UNKNOWN.to_owned(), show::per_cent);
    let row = |summary: &CheckSummary| {
        let mut cells = vec![
            summary.name.to_owned(),
            summary.rows.to_string(),
            show::per_cent(summary.throughput_error),
            share(summary.p50_error),
            share(summary.paper_error),
        ];
        if !report.is_simulated {
            cells.extend([share(summary.throughput_repeatability), share(summary.p50_repeatability)]);
            cells.extend([share(summary.throughput_drift), share(summary.p50_drift)]);
        }
        cells.extend([
            show::per_cent(summary.in_interval),
            match (summary.holds, summary.goal) {
                (false, _) => "apart",
                (true, GoalVerdict::Met) => "yes",
                (true, GoalVerdict::Missed) => "no",
                (true, GoalVerdict::Undecided) => "no verdict",
            }
            .to_owned(),
        ]);
        cells
    };
    let rows: Vec<Vec<String>> = report.summaries.iter().map(row).collect();
    let mut headings = vec!["of", "kinds", "throughput error", "p50 error", "the paper's"];
    if !report.is_simulated {
        headings.extend(["repeats within", "p50 within", "drift", "p50 drift"]);
    }
    headings.extend(["in interval", "goal met"]);
    let goal = match report.is_simulated {
        true => "Goal on a simulated device: throughput within 5 %, p50 within 10 %.",
        false => {
            "Goal on a real device: errors within 1.5 times the larger of two: how far one measurement repeats, and the drift since the fit."
        }
    };
    let undecided: String =
        report.undecided.iter().map(|reason| format!("no verdict on {reason}\n")).collect();
    let apart: String = report
        .apart
        .iter()
        .map(|reason| format!("counted apart, because its model does not hold: {reason}\n"))
        .collect();
    let missed: Vec<&str> = report.missed().map(|summary| summary.name).collect();
    let missed = match missed.as_slice() {
        [] => String::new(),
        some => format!("the goal is missed by {}\n", some.join(", ")),
    };
    let left_out: String = report.left_out.iter().map(|reason| format!("left out: {reason}\n")).collect();
    format!(
        "{}: what was never fitted, predicted and measured\n\n{}\n{goal}\n{missed}{undecided}{apart}{left_out}",
        report.device,
        show::table(&headings, &rows)
    )
}
