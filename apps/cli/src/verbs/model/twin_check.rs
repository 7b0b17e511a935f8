//! `flashlab model twin-check`: a device and its twin, by micro-benchmark and as a picture.

use std::path::{Path, PathBuf};
use std::slice::from_ref;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_analysis::TwinDifference;
use flashlab_model::twin::{MeasuredRuns, compare_runs, compare_with_profile};
use flashlab_samples::RunFolder;
use flashlab_sim::Profile;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::exit::Usage;
use crate::{files, output, run_folder};

/// Say how far a twin is from its device, by micro-benchmark, and draw both over each other
#[derive(Args)]
pub struct TwinCheck {
    /// The folder of the device's run of bench
    run: PathBuf,
    /// The folder of the twin's run of bench; or the twin's profile, which serves the requests of RUN once more
    twin: PathBuf,
    /// Where the page goes
    #[arg(long, short, value_name = "FILE", default_value = "twin.html")]
    output: PathBuf,
    #[command(flatten)]
    json: JsonOption,
}

#[derive(Serialize)]
struct Document {
    version: u32,
    device: String,
    twin: String,
    page: String,
    #[serde(flatten)]
    difference: TwinDifference,
}

impl TwinCheck {
    /// Compares, writes the page and prints the errors.
    pub fn run(self) -> Result<()> {
        check(&self.run, &self.twin, &self.output, self.json.json)
    }
}

fn finished_runs(run: &Path) -> Result<MeasuredRuns> {
    run_folder::require_finished(&RunFolder::any_manifest(run)?, run)?;
    Ok(MeasuredRuns::read(run)?)
}

/// Compares a run with its twin.
pub fn check(run: &Path, twin: &Path, page: &Path, json: bool) -> Result<()> {
    let device = finished_runs(run)?;
    let (name, difference) = if twin.is_dir() {
        let twin = finished_runs(twin)?;
        (twin.target.clone(), compare_runs(from_ref(&device), from_ref(&twin)))
    } else {
        let file = twin.display().to_string();
        let profile = Profile::parse(&files::profile(&file)?, &file)?;
        if profile.capacity != device.capacity {
            bail!(Usage(format!(
                "{file} has a capacity of {}, and the device of {} has {}: it is no twin of it",
                profile.capacity,
                run.display(),
                device.capacity
            )));
        }
        (format!("sim:{file}"), compare_with_profile(&device, &profile)?)
    };
    if difference.micro_benchmarks.is_empty() {
        let (run, twin) = (run.display(), twin.display());
        bail!(Usage(format!("{run} and {twin} have no point of a micro-benchmark in common")));
    }
    files::write_output(
        page,
        files::Output::Page,
        flashlab_report::twin_html(&difference, &device.target, &name),
    )?;
    let page = page.display().to_string();
    if json {
        return output::json(&Document { version: 1, device: device.target, twin: name, page, difference });
    }
    output::text(&format!("{}page: {page}\n", flashlab_report::twin_terminal(&difference)))
}
