//! `--expect`: judges the measurement, prints the answers, writes them for CI, and sets the exit code.

// The comments on options are help texts, in which [ ] marks what may be left out.
#![allow(rustdoc::broken_intra_doc_links)]

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_analysis::{Expectation, ExpectationKind, ExperimentKey, Judgement, Outcome};
use serde::Serialize;

use crate::exit::{Unmet, Usage};
use crate::{files, output};

const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// The expectations, and where the answers are written.
#[derive(Args, Clone, Default)]
pub struct ExpectationOptions {
    /// What must hold, as 'RW.p99 < 500us'; more than one may be given. Exit code 4: not met, 5: cannot be told
    #[arg(long, value_name = "EXPECTATION")]
    expect: Vec<Expectation>,
    /// Exit with 4 where an expectation cannot be told, too
    #[arg(long, requires = "expect")]
    strict: bool,
    /// Write the answers to this file as JUnit XML
    #[arg(long, value_name = "FILE", requires = "expect")]
    junit: Option<PathBuf>,
    /// Append the answers to GitHub's step summary ($GITHUB_STEP_SUMMARY)
    #[arg(long, requires = "expect")]
    github_summary: bool,
}

/// A document with the judged expectations next to its own keys.
#[derive(Serialize)]
struct Judged<'a, T> {
    #[serde(flatten)]
    document: &'a T,
    #[serde(skip_serializing_if = "<[Judgement]>::is_empty")]
    expectations: &'a [Judgement],
}

impl ExpectationOptions {
    /// Refuses expectations that only another verb can answer, and files that could not be written, before
    /// anything is measured.
    pub fn check(&self, kind: ExpectationKind) -> Result<()> {
        if let Some(other) = self.expect.iter().find(|expectation| expectation.kind() != kind) {
            let example = match kind {
                ExpectationKind::Run => "a figure of a run is expected here, as in 'RW.p99 < 500us'",
                ExpectationKind::Comparison => "a ratio is expected here, as in 'p99(RW) < 1.2x'",
                ExpectationKind::Inference => "a parameter is expected here, as in 'erase_block_size = 4MiB'",
            };
            let verb = match other.kind() {
                ExpectationKind::Run => "flashlab bench, run or report",
                ExpectationKind::Comparison => "flashlab compare",
                ExpectationKind::Inference => "flashlab infer",
            };
            bail!(Usage(format!("--expect '{other}' is for {verb}: {example}")));
        }
        if self.github_summary && step_summary().is_none() {
            bail!(Usage(format!(
                "--github-summary, but {STEP_SUMMARY} is not set: it is set in a step of GitHub Actions"
            )));
        }
        if let Some(path) = step_summary().filter(|_| self.github_summary) {
            let path = Path::new(&path);
            let is_new = path.symlink_metadata().is_err();
            files::append(path).context("--github-summary")?;
            if is_new {
                let _ = std::fs::remove_file(path);
            }
        }
        match &self.junit {
            Some(path) => files::check_output(path, files::Output::JUnit),
            None => Ok(()),
        }
    }

    /// Refuses expectations of something that has no figures.
    pub fn check_none(&self, what: &str) -> Result<()> {
        match self.expect.first() {
            Some(expectation) => bail!(Usage(format!(
                "--expect '{expectation}' is for runs of flashlab bench, run, infer and compare, and this is {what}"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses an expectation that names none of the experiments of the run.
    pub fn check_names(&self, keys: &[ExperimentKey]) -> Result<()> {
        self.check(ExpectationKind::Run)?;
        match self.expect.iter().find(|expectation| !expectation.names_any(keys)) {
            Some(unknown) => {
                let names = flashlab_report::enumeration(&flashlab_analysis::expectable_names(keys));
                bail!(Usage(format!(
                    "--expect '{unknown}' names nothing that would be measured; there are {names}"
                )))
            }
            None => Ok(()),
        }
    }

    /// The answers. Without expectations, `judge` is not called. What an unfinished measurement meets so far is not met.
    pub fn judge(
        &self,
        is_finished: bool,
        judge: impl FnOnce(&[Expectation]) -> Result<Vec<Judgement>>,
    ) -> Result<Vec<Judgement>> {
        if self.expect.is_empty() {
            return Ok(Vec::new());
        }
        let judged = judge(&self.expect)?;
        Ok(if is_finished { judged } else { judged.into_iter().map(Judgement::of_unfinished).collect() })
    }

    /// Prints the answers after the report (on standard error if a program reads standard output), and writes
    /// them for CI. Returns an error unless all are met.
    ///
    /// `doubts` are sentences that restrict what the answers mean: they go into the files for CI.
    pub fn conclude(
        &self,
        name: &str,
        judgements: &[Judgement],
        doubts: &[String],
        for_a_program: bool,
    ) -> Result<()> {
        if judgements.is_empty() {
            return Ok(());
        }
        match for_a_program {
            true => judgements.iter().for_each(|judgement| {
                tell!("expectation {}", flashlab_report::judgement_sentence(judgement));
            }),
            false => output::text(&format!(
                "\n{}",
                flashlab_report::expectations_terminal(judgements, &output::layout(None))
            ))?,
        }
        if let Some(path) = &self.junit {
            let xml = flashlab_report::expectations_junit(name, judgements, doubts);
            files::write_output(path, files::Output::JUnit, xml)?;
        }
        if let Some(path) = step_summary().filter(|_| self.github_summary) {
            let markdown = flashlab_report::expectations_markdown(name, judgements, doubts);
            let path = Path::new(&path);
            let written = files::append(path)?.write_all(markdown.as_bytes());
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        let has = |outcome| judgements.iter().any(|judgement| judgement.outcome == outcome);
        match flashlab_report::expectations_summary(judgements) {
            Some(summary) => {
                let is_known = has(Outcome::NotMet) || self.strict;
                Err(Unmet { summary, is_known }.into())
            }
            None => Ok(()),
        }
    }
}

/// Prints a document with the answers in it.
pub fn json(document: &impl Serialize, expectations: &[Judgement]) -> Result<()> {
    output::json(&Judged { document, expectations })
}

fn step_summary() -> Option<OsString> {
    std::env::var_os(STEP_SUMMARY).filter(|path| !path.is_empty())
}
