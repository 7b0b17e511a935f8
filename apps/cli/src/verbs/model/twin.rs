//! `flashlab model twin`: a profile of the simulator from a measured run.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use flashlab_analysis::{TwinDifference, inference::Inference};
use flashlab_model::twin::{MeasuredRuns, TwinCandidate, TwinFit, compare_with_profile, fit_twin};
use flashlab_samples::RunFolder;
use flashlab_samples::seal::PROFILE;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::exit::Usage;
use crate::inference::folder;
use crate::{files, output, run_folder};

/// Make a simulated device of a measured one: the simplest model that reproduces the run
#[derive(Args)]
pub struct Twin {
    /// The folder of a run of bench
    run: PathBuf,
    /// The folder of a run of infer on the same device
    #[arg(long, value_name = "DIR")]
    inference: Option<PathBuf>,
    /// The profile's file
    #[arg(long, short, value_name = "FILE", default_value = "twin.toml")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    json: JsonOption,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    target: &'a str,
    profile: String,
    model: &'a str,
    candidates: &'a [TwinCandidate],
    /// Whether the search for flash ended at its most work.
    was_cut: bool,
    difference: &'a TwinDifference,
}

impl Twin {
    /// Fits the twin, writes its profile, and says how well it serves the run's requests.
    pub fn run(self) -> Result<()> {
        files::check_output(&self.output, files::Output::Profile)?;
        // Nothing is lost in a pipe or /dev/null, nor in an empty file.
        let is_filled = fs::metadata(&self.output).is_ok_and(|found| found.is_file() && found.len() > 0);
        if is_filled && !self.overwrite {
            let file = self.output.display();
            bail!(Usage(format!(
                "{file} exists and holds a profile, which would be lost: give another --output; --overwrite replaces it"
            )));
        }
        let known = self.known()?;
        run_folder::require_finished(&RunFolder::any_manifest(&self.run)?, &self.run)?;
        let measured = MeasuredRuns::read(&self.run)?;
        if let Some(known) = known.as_ref().filter(|known| known.capacity != measured.capacity) {
            bail!(Usage(format!(
                "the inference is of a device of {}, and {} of one of {}: give one of the same device",
                known.capacity,
                self.run.display(),
                measured.capacity
            )));
        }
        let fit = fit_twin(&measured, known.as_ref(), &told_progress())?;
        let difference = compare_with_profile(&measured, &fit.profile)?;
        files::write_output(&self.output, files::Output::Profile, PROFILE.sealed(&fit.profile.to_toml()))?;
        let profile = self.output.display().to_string();
        if self.json.json {
            let TwinFit { model, candidates, .. } = &fit;
            let target = &measured.target;
            return output::json(&Document {
                version: 1,
                target,
                profile,
                model,
                candidates,
                was_cut: fit.was_cut,
                difference: &difference,
            });
        }
        let mut text = candidates(&fit);
        text += "\nThe twin served the run's requests:\n";
        text += &flashlab_report::twin_terminal(&difference);
        text += &format!("profile: {profile}; measure it: flashlab bench sim:{}\n", simulated(&self.output));
        output::text(&text)
    }

    fn known(&self) -> Result<Option<Inference>> {
        self.inference.as_ref().map(|place| Ok(folder::open(place)?.2)).transpose()
    }
}

/// Prints how far the fit is and how long it takes still, from time to time, and that it has ended.
fn told_progress() -> impl Fn(f64) {
    const BETWEEN_LINES: Duration = Duration::from_secs(10);
    let begun = Instant::now();
    let told = Cell::new(begun);
    let has_ended = Cell::new(false);
    move |share: f64| {
        if share >= 1.0 && begun.elapsed() >= BETWEEN_LINES && !has_ended.replace(true) {
            tell!("the fit has ended; each model serves the run's requests once more");
        }
        if has_ended.get() || told.get().elapsed() < BETWEEN_LINES || share <= 0.0 {
            return;
        }
        told.set(Instant::now());
        let left = begun.elapsed().as_secs_f64() * (1.0 - share) / share;
        tell!("fitting: {:.0} % of the most work, at most {left:.0} s left", share * 100.0);
    }
}

/// What was chosen from.
fn candidates(fit: &TwinFit) -> String {
    let judged = match fit.is_held_out {
        true => "judged on the last repetitions, which no fit saw",
        false => "judged on what they were fitted to, because the run repeats nothing",
    };
    let mut text = format!("{}; models {judged}\n", fit.profile.title);
    for TwinCandidate { model, error, factor, held_out, refused, .. } in &fit.candidates {
        let chosen = if *model == fit.model { " (chosen)" } else { "" };
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let found = match (error, refused) {
            (Some(error), _) => format!(
                "off by {} in the mean, {} in the median, {} in the 99th percentile{}{}{chosen}",
                percent(error.mean),
                percent(error.p50),
                percent(error.p99),
                factor.map_or(String::new(), |factor| format!(", by a factor of {factor:.2} in the middle")),
                held_out.map_or(String::new(), |deviation| format!(
                    "; by {} on what no fit saw",
                    percent(deviation.exp_m1())
                ))
            ),
            (None, reason) => reason.clone().unwrap_or_default(),
        };
        text += &format!("{model}: {found}\n");
    }
    if fit.was_cut {
        text += "The search for flash was cut at its most work: its figures are those of the best that was found until then.\n";
    }
    text
}

/// A profile's file as it stands behind `sim:`.
fn simulated(path: &Path) -> String {
    let text = path.display().to_string();
    if path.is_absolute() || text.starts_with('.') { text } else { format!("./{text}") }
}
