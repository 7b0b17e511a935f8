//! `flashlab report`: shows a finished or interrupted run of any verb.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use flashlab_analysis::ExpectationKind;
use flashlab_bench::Settings;
use flashlab_samples::{FolderKind, RunFolder, SamplesError};

use crate::arguments::{InferencePrintOptions, PrintOptions};
use crate::exit::Usage;
use crate::verbs::model::twin_check;
use crate::{files, inference, measurement, recordings, run_folder};

/// Show a run and rebuild its report
#[derive(Args)]
pub struct Report {
    /// The folder of a run, whatever verb made it
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The folder of its twin's run, or the twin's profile: say how far they are apart, as model twin-check does
    #[arg(value_name = "TWIN")]
    twin: Option<PathBuf>,
    /// Where the page goes; report.html in the run's folder if not given, twin.html with TWIN
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    print: InferencePrintOptions,
}

impl Report {
    /// Shows the run.
    pub fn run(self) -> Result<()> {
        let run = &self.run;
        if let Some(twin) = &self.twin {
            let page = self.output.as_deref().unwrap_or(Path::new("twin.html"));
            let options = &self.print.print;
            options.expectations.check_none("a comparison with a twin")?;
            return twin_check::check(run, twin, page, options.table.json);
        }
        if let Some(page) = &self.output {
            files::check_output(page, files::Output::Page)?;
        }
        let manifest = RunFolder::any_manifest(run)?;
        let kind = manifest.kind;
        if self.print.print.table.is_for_a_program() {
            run_folder::tell_unfinished(&manifest, run);
        }
        if kind == FolderKind::Inference {
            return inference::show::show(run, self.output.as_deref(), &self.print);
        }
        if self.print.advise {
            bail!(Usage(format!("--advise is for runs of flashlab infer, and {} is none", run.display())));
        }
        let options = &self.print.print;
        if kind == FolderKind::Recording {
            if self.output.is_some() {
                bail!(Usage(format!(
                    "{} is a recording, which has no page: leave out --output",
                    run.display()
                )));
            }
            options.expectations.check_none("a recording")?;
            return recordings::report(run, options.table);
        }
        options.expectations.check(ExpectationKind::Run)?;
        // The files are verified when the findings are computed from them.
        let (folder, _) = RunFolder::open_unverified::<Settings>(run, FolderKind::BENCHMARKS)?;
        match &self.output {
            Some(path) => page(&folder, path, options),
            None => measurement::report(&folder, options).map_err(with_advice),
        }
    }
}

/// Writes the report to another place. The folder of the run is not changed, and may be read-only.
fn page(folder: &RunFolder, path: &Path, options: &PrintOptions) -> Result<()> {
    let (findings, traces) = flashlab_bench::rebuild(folder.path())?;
    files::write_output(path, files::Output::Page, flashlab_report::html(&findings, &traces))?;
    measurement::print(folder, &findings, path, options)
}

/// Adds advice for a folder that cannot be written to.
fn with_advice(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<SamplesError>() {
        Some(SamplesError::Io { action: "write", .. }) => {
            anyhow!("{error}; give another place for the page with --output FILE")
        }
        _ => error,
    }
}
