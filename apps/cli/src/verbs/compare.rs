//! `flashlab compare`: shows how far runs differ, at which quantile and with which confidence.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use flashlab_analysis::{ComparedRun, ExpectationKind, compare};
use flashlab_input::InputKind;
use flashlab_report::shell_word;
use flashlab_samples::{FolderKind, RunFolder};

use crate::arguments::PrintOptions;
use crate::exit::Usage;
use crate::verbs::view;
use crate::{csv_table, expectations, files, output, run_folder};

/// Compare runs of bench or run: ratios with confidence intervals at each quantile
#[derive(Args)]
pub struct Compare {
    /// The folder of the run that the others are compared with
    #[arg(value_name = "RUN")]
    first: PathBuf,
    /// The folders of the other runs
    #[arg(required = true, value_name = "OTHER")]
    others: Vec<PathBuf>,
    /// Where the page goes
    #[arg(long, short, value_name = "FILE", default_value = "comparison.html")]
    output: PathBuf,
    #[command(flatten)]
    print: PrintOptions,
}

impl Compare {
    /// Compares the runs, writes the page and prints the summary.
    pub fn run(self) -> Result<()> {
        let folders: Vec<&Path> =
            std::iter::once(&self.first).chain(&self.others).map(PathBuf::as_path).collect();
        check(&folders)?;
        files::check_output(&self.output, files::Output::Page)?;
        let PrintOptions { table, expectations } = &self.print;
        expectations.check(ExpectationKind::Comparison)?;
        let runs: Vec<ComparedRun> =
            folders.iter().map(|folder| Ok(flashlab_bench::compared_run(folder)?)).collect::<Result<_>>()?;
        let comparison = compare(&runs);
        files::write_output(&self.output, files::Output::Page, flashlab_report::compare_html(&comparison))?;
        let page = self.output.display().to_string();
        let manifests: Vec<_> =
            folders.iter().map(|folder| RunFolder::any_manifest(folder)).collect::<Result<_, _>>()?;
        let is_finished = manifests.iter().all(|manifest| manifest.finished.is_some());
        let judged = expectations.judge(is_finished, |expectations| {
            Ok(expectations
                .iter()
                .flat_map(|expectation| expectation.judge_comparison(&comparison))
                .collect())
        })?;
        if table.is_for_a_program() {
            tell!("report: {page}");
            for (manifest, folder) in manifests.iter().zip(&folders) {
                run_folder::tell_unfinished(manifest, folder);
            }
            match table.csv {
                true => csv_table::print(&flashlab_report::ratio_rows(&comparison))?,
                false => expectations::json(&comparison, &judged)?,
            }
        } else {
            output::text(&flashlab_report::compare_terminal(&comparison, &output::layout(Some(page))))?;
            let words: Vec<String> =
                folders.iter().map(|folder| shell_word(&folder.display().to_string())).collect();
            if words.len() <= view::RUNS_MOST {
                tell!("each IO of these runs: flashlab view {} --state layout=overlay", words.join(" "));
            }
        }
        let names: Vec<String> = (0..runs.len()).map(|run| comparison.run_in_words(run)).collect();
        expectations.conclude(
            &names.join(" against "),
            &judged,
            &comparison.doubts(),
            table.is_for_a_program(),
        )
    }
}

/// Refuses runs without experiments, and a run that is compared with itself.
fn check(folders: &[&Path]) -> Result<()> {
    let mut known: HashMap<Vec<u8>, &Path> = HashMap::new();
    for folder in folders {
        let kind = RunFolder::any_manifest(folder)?.kind;
        if kind != FolderKind::Bench {
            let (folder, kind) = (folder.display(), kind.name());
            bail!(Usage(format!(
                "{folder} is {kind}: only runs of flashlab bench and flashlab run are compared"
            )));
        }
        // The manifest has the start of the run and the overhead that was measured for it, so only copies of a run have the
        // same one. If it does not exist, opening the folder reports the error.
        let manifest = folder.join("manifest.json");
        let Ok(manifest) = flashlab_input::read(&manifest, InputKind::DOCUMENT) else { continue };
        if let Some(same) = known.insert(manifest, folder) {
            let (folder, same) = (folder.display(), same.display());
            bail!(Usage(format!(
                "{folder} and {same} are the same run, or one is a copy of the other: to see how runs of one device differ, repeat it with another \
                 --seed and compare the two"
            )));
        }
    }
    Ok(())
}
