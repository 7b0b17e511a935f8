//! `flashlab report`: what a finished or interrupted run shows, whatever verb made it; and comparisons of runs.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use flashlab_analysis::compare;
use flashlab_analysis::findings::Findings;
use flashlab_samples::{RunFolder, SamplesError};

use crate::arguments::InferencePrintOptions;
use crate::exit::Usage;
use crate::{files, inference, measurement, output, recordings};

/// Show a run and rebuild its report, or compare runs
#[derive(Args)]
pub struct Report {
    /// The folder of a run, whatever verb made it; several to compare the others with the first
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where the page goes; report.html in the run's folder, or comparison.html, if not given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: InferencePrintOptions,
}

impl Report {
    /// Shows the run, or compares the runs.
    pub fn run(self) -> Result<()> {
        let [run] = self.runs.as_slice() else { return self.comparison() };
        if inference::folder::is_inference(run) {
            return inference::show::show(run, self.output.as_deref(), self.print);
        }
        if self.print.advise {
            bail!(Usage(format!("--advise is for runs of flashlab infer, and {} is none", run.display())));
        }
        let json = self.print.json;
        if let Some((folder, manifest)) = recordings::open(run) {
            if self.output.is_some() {
                bail!(Usage(format!(
                    "{} is a recording, which has no page: leave out --output",
                    run.display()
                )));
            }
            return recordings::report(&folder, manifest, json);
        }
        let (folder, _, _) = flashlab_bench::open_run(run)?;
        match &self.output {
            Some(path) => page(&folder, path, json),
            None => measurement::report(&folder, json).map_err(with_advice),
        }
    }

    fn comparison(&self) -> Result<()> {
        for run in &self.runs {
            let kind = match () {
                () if inference::folder::is_inference(run) => "an inference",
                () if recordings::open(run).is_some() => "a recording",
                () => continue,
            };
            bail!(Usage(format!(
                "{} is {kind}: only runs of flashlab bench and flashlab run are compared",
                run.display()
            )));
        }
        let found = self
            .runs
            .iter()
            .map(|run| Ok(flashlab_bench::rebuild(run)?.0))
            .collect::<Result<Vec<Findings>>>()?;
        let comparison = compare(&found.iter().collect::<Vec<_>>());
        let path = self.output.as_deref().unwrap_or(Path::new("comparison.html"));
        files::write_page(path, &flashlab_report::compare_html(&comparison))?;
        let path = path.display().to_string();
        if self.print.json {
            tell!("report: {path}");
            return output::json(&comparison);
        }
        output::text(&flashlab_report::compare_terminal(&comparison, &output::layout(Some(path))))
    }
}

/// The report of a run in another place: its folder is left as it is, and may be read-only.
fn page(folder: &RunFolder, path: &Path, json: bool) -> Result<()> {
    let (findings, traces) = flashlab_bench::rebuild(folder.path())?;
    files::write_page(path, &flashlab_report::html(&findings, &traces))?;
    measurement::print(&findings, path, json)
}

/// Says how to report on a folder that cannot be written to.
fn with_advice(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<SamplesError>() {
        Some(SamplesError::Io { action: "write", .. }) => {
            anyhow!("{error}; give another place for the page with --output FILE")
        }
        _ => error,
    }
}
