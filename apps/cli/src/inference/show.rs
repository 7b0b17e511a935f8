//! Shows an inference: as a table, a page, JSON, or advice.

use std::path::Path;

use anyhow::Result;
use flashlab_analysis::ExpectationKind;
use flashlab_analysis::inference::Inference;
use flashlab_infer::PROBES_FOLDER;
use flashlab_report::{
    InferenceJson, InferenceRun, Layout, advice, advice_terminal, device_state, inference_html,
    inference_terminal, parameter_rows, shell_word,
};
use flashlab_samples::{Manifest, RunFolder, SamplesError};

use crate::arguments::{InferencePrintOptions, PrintOptions};
use crate::inference::folder::{self, PAGE};
use crate::inference::settings::InferenceSettings;
use crate::{csv_table, expectations, files, output};

/// The text for a parameter whose probe has not run yet.
const NOT_YET: &str = "not looked at yet";

/// Shows the inference in a run's folder, and writes its page into the folder or to `page`.
pub fn show(path: &Path, page: Option<&Path>, options: &InferencePrintOptions) -> Result<()> {
    options.print.expectations.check(ExpectationKind::Inference)?;
    let (folder, mut manifest, known) = folder::open_unfinished(path)?;
    match page {
        Some(page) => files::write_output(page, files::Output::Page, html(&folder, &manifest, &known))?,
        // If the folder is read-only, the findings are shown anyway.
        None => write_pages(&folder, &manifest, &known).unwrap_or_else(|error| tell!("{error}")),
    }
    let unfinished = unfinished(&manifest.settings, &known, path);
    let left = || Some(("unfinished".to_owned(), format!("unfinished: {}", manifest.unfinished(path)?)));
    if let Some(warning) = unfinished.or_else(left) {
        if options.print.table.json {
            tell!("{}", warning.1);
        }
        manifest.warnings.push(warning);
    }
    let known = known.with_rest(manifest.settings.parameters(), NOT_YET);
    let is_finished = manifest.finished.is_some();
    print(&manifest, &known, Some(page.unwrap_or(&path.join(PAGE))), is_finished, options)
}

/// A warning if some parameters were not probed yet.
fn unfinished(settings: &InferenceSettings, known: &Inference, folder: &Path) -> Option<(String, String)> {
    let parameters = settings.parameters();
    let left = parameters.iter().filter(|&&parameter| known.get(parameter).is_none()).count();
    let word = shell_word(&folder.display().to_string());
    let message = format!(
        "unfinished: {left} of {} parameters were {NOT_YET}; resume with: flashlab resume {word}",
        parameters.len()
    );
    (left > 0).then(|| ("unfinished".to_owned(), message))
}

/// Prints the findings, and where their page is, if it could be written.
pub fn print(
    manifest: &Manifest<InferenceSettings>,
    known: &Inference,
    page: Option<&Path>,
    is_finished: bool,
    options: &InferencePrintOptions,
) -> Result<()> {
    let page = page.map(|page| page.display().to_string());
    let advised = || advice(known, manifest.settings.write_budget);
    let PrintOptions { table, expectations } = &options.print;
    let judged = expectations.judge(is_finished, |expectations| {
        Ok(expectations.iter().map(|expectation| expectation.judge_inference(known)).collect())
    })?;
    if table.is_for_a_program() {
        if let Some(page) = &page {
            tell!("report: {page}");
        }
        match (options.advise, table.csv) {
            (true, true) => csv_table::print(&advised().given)?,
            (true, false) => output::json(&advised())?,
            (false, true) => csv_table::print(&parameter_rows(known))?,
            (false, false) => expectations::json(&InferenceJson(known), &judged)?,
        }
    } else {
        let run = inference_run(manifest, known, &manifest.warnings, &[]);
        output::text(&inference_terminal(&run, &output::layout(page)))?;
        if options.advise {
            output::text(&format!("\n{}", advice_terminal(&advised(), &output::layout(None))))?;
        }
    }
    let state = std::iter::once(device_state(known).1);
    let doubts: Vec<String> =
        state.chain(manifest.warnings.iter().map(|(_, message)| message.clone())).collect();
    expectations.conclude(&manifest.settings.target, &judged, &doubts, table.is_for_a_program())
}

fn inference_run<'a>(
    manifest: &'a Manifest<InferenceSettings>,
    known: &'a Inference,
    warnings: &'a [(String, String)],
    probes: &'a [String],
) -> InferenceRun<'a> {
    InferenceRun {
        inference: known,
        started: &manifest.started,
        flashlab: &manifest.flashlab,
        seed: manifest.settings.seed,
        write_budget: manifest.settings.write_budget,
        warnings,
        probes,
    }
}

/// Writes the page and the table into the folder.
pub fn write_pages(
    folder: &RunFolder,
    manifest: &Manifest<InferenceSettings>,
    known: &Inference,
) -> Result<(), SamplesError> {
    with_run(folder, manifest, known, |run| {
        folder.write_text(PAGE, &inference_html(run))?;
        folder.write_text("report.txt", &inference_terminal(run, &Layout::default()))
    })
}

fn html(folder: &RunFolder, manifest: &Manifest<InferenceSettings>, known: &Inference) -> String {
    with_run(folder, manifest, known, inference_html)
}

/// Calls `use_run` with everything that a page shows, with an answer for each parameter.
fn with_run<T>(
    folder: &RunFolder,
    manifest: &Manifest<InferenceSettings>,
    known: &Inference,
    render: impl FnOnce(&InferenceRun<'_>) -> T,
) -> T {
    let probes = probes_in(folder);
    let complete = known.clone().with_rest(manifest.settings.parameters(), NOT_YET);
    let mut warnings = manifest.warnings.clone();
    warnings.extend(unfinished(&manifest.settings, known, folder.path()));
    render(&inference_run(manifest, &complete, &warnings, &probes))
}

/// The files of the probes, in the order of their numbers.
fn probes_in(folder: &RunFolder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path().join(PROBES_FOLDER)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<String> =
        names.filter(|name| name.ends_with(".toml")).map(|name| format!("{PROBES_FOLDER}/{name}")).collect();
    files.sort();
    files
}
