//! `flashlab report`.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use flashlab_analysis::compare;
use flashlab_analysis::findings::Findings;
use flashlab_samples::{RunFolder, SamplesError};

use crate::args;
use crate::exit::Usage;
use crate::{inference_run, output, recordings, session};

/// `flashlab report`.
pub fn report(arguments: args::Report) -> Result<()> {
    arguments.runs.iter().try_for_each(|run| inference_run::refuse(run))?;
    match arguments.runs.as_slice() {
        [run] => {
            if let Some((folder, manifest)) = recordings::open(run) {
                if arguments.output.is_some() {
                    bail!(Usage(format!(
                        "{} is a recording, of which there is no page: leave --output away",
                        run.display()
                    )));
                }
                return recordings::report(&folder, manifest, arguments.json.json);
            }
            let (folder, _, _) = flashlab_bench::open_run(run)?;
            match arguments.output {
                Some(path) => page(&folder, &path, arguments.json.json),
                None => session::report(&folder, arguments.json.json).map_err(with_advice),
            }
        }
        runs => comparison(runs, arguments.output, arguments.json.json),
    }
}

/// The report of a run in another place: its folder is left as it is, which may be read-only.
fn page(folder: &RunFolder, path: &Path, json: bool) -> Result<()> {
    let (findings, traces) = flashlab_bench::rebuild(folder.path())?;
    write(path, &flashlab_report::html(&findings, &traces))?;
    session::print(&findings, path, json)
}

/// A run's folder that cannot be written to can be reported on all the same.
fn with_advice(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<SamplesError>() {
        Some(SamplesError::Io { action: "write", .. }) => {
            anyhow!("{error}; give another place for the page with --output FILE")
        }
        _ => error,
    }
}

fn write(path: &Path, page: &str) -> Result<()> {
    std::fs::write(path, page).map_err(|error| {
        Usage(format!("cannot write {}: {error}; choose another file with --output", path.display())).into()
    })
}

fn comparison(runs: &[PathBuf], output: Option<PathBuf>, json: bool) -> Result<()> {
    if let Some(run) = runs.iter().find(|run| recordings::open(run).is_some()) {
        bail!(Usage(format!(
            "{} is a recording: only runs of flashlab bench and flashlab run are compared",
            run.display()
        )));
    }
    let found =
        runs.iter().map(|run| Ok(flashlab_bench::rebuild(run)?.0)).collect::<Result<Vec<Findings>>>()?;
    let comparison = compare(&found.iter().collect::<Vec<_>>());
    let path = output.unwrap_or_else(|| Path::new("comparison.html").to_owned());
    write(&path, &flashlab_report::compare_html(&comparison))?;
    let path = path.display().to_string();
    if json {
        tell!("report: {path}");
        return output::json(&comparison);
    }
    output::text(&flashlab_report::compare_terminal(&comparison, &session::layout(Some(path))))
}
