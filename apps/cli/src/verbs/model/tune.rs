//! `flashlab model tune`: settings of other software that follow from a model.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use flashlab_base::Bytes;
use flashlab_input::InputKind;
use flashlab_model::{IoProperties, TuneReport, TuneSurroundings, TuneTarget, tune};

use crate::arguments::{self, TableOptions};
use crate::exit::Usage;
use crate::verbs::model::source;
use crate::{csv_table, files, output};

/// Published sets of IO properties: that of AWS has 730 lines.
const PROPERTIES: InputKind = InputKind { name: "set of IO properties", largest: Bytes::mib(1) };

/// Derive settings of other software from a model, each with its reason, interval, effect and undo line
#[derive(Args)]
pub struct Tune {
    /// A run, the folder of flashlab model fit, or its model.json
    #[arg(value_name = "RUN")]
    model: PathBuf,
    /// For what: io-cost, scylla, postgresql, rocksdb, ceph, fio, sim
    #[arg(long = "for", value_name = "NAME", value_parser = target)]
    target: TuneTarget,
    /// The number of the block device in the lines of io-cost, as 259:0
    #[arg(long, value_name = "MAJOR:MINOR", value_parser = device_number)]
    device: Option<String>,
    /// Where the disk is mounted, for scylla
    #[arg(long, value_name = "DIR")]
    mountpoint: Option<String>,
    /// The largest IO that the kernel passes on in one piece (max_sectors_kb), for rocksdb; the run's if not given
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    largest_request: Option<Bytes>,
    /// The kernel's read-ahead of the disk (read_ahead_kb), for postgresql; 128 KiB if not given
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    read_ahead: Option<Bytes>,
    /// The share of a database's random reads that a cache answers, from 0 to 1, for postgresql; 0.9 if not given, as in
    /// PostgreSQL's manual
    #[arg(long, value_name = "SHARE", value_parser = share)]
    cached: Option<f64>,
    /// A published io_properties.yaml or set of instance types: says which of its figures repeat another one, for scylla
    #[arg(long, value_name = "FILE")]
    published: Option<PathBuf>,
    /// Write the settings to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    table: TableOptions,
}

fn target(text: &str) -> Result<TuneTarget, String> {
    text.parse().map_err(|error: flashlab_model::ModelError| error.to_string())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1, as 0.9".to_owned())
}

fn device_number(text: &str) -> Result<String, String> {
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    match text.split_once(':') {
        Some((major, minor)) if is_number(major) && is_number(minor) => Ok(text.to_owned()),
        _ => Err("write it as lsblk shows it, 259:0".to_owned()),
    }
}

impl Tune {
    /// Derives the settings and prints them with their reasons; exit code 2 where none could be derived.
    pub fn run(self) -> Result<()> {
        let model = source::model(&self.model)?;
        let surroundings = TuneSurroundings {
            device_number: self.device,
            mountpoint: self.mountpoint,
            largest_request: self.largest_request,
            read_ahead: self.read_ahead,
            cached_share: self.cached,
        };
        let doubts = self.published.as_ref().map(|file| doubts(file)).transpose()?;
        let mut report = tune(&model, self.target, &surroundings);
        report.doubts = doubts.unwrap_or_default();
        if let Some(sentence) = model.regime_sentence() {
            tell!("{sentence}");
        }
        if let Some(file) = self.output.as_ref().filter(|_| !report.text.is_empty()) {
            files::write_output(file, files::Output::Settings, &report.text)?;
            tell!("wrote {}", file.display());
        }
        match (self.table.json, self.table.csv) {
            (true, _) => output::json(&report)?,
            (_, true) => csv_table::print(&report.values)?,
            _ => output::text(&text(&report, self.output.is_some()))?,
        }
        if report.text.is_empty() {
            let reasons: Vec<String> = refusals(&report).into_iter().map(|(_, reason)| reason).collect();
            bail!(Usage(format!("nothing is set for {}: {}", report.target, reasons.join("; "))));
        }
        Ok(())
    }
}

/// What is doubtful in a published set of properties.
fn doubts(file: &Path) -> Result<Vec<String>> {
    let text = flashlab_input::read_text(file, PROPERTIES)
        .map_err(|error| Usage(format!("cannot read {}: {error}", file.display())))?;
    let sets = IoProperties::parse_all(&text);
    if sets.is_empty() {
        let file = file.display();
        bail!(Usage(format!(
            "{file} has no set of read_iops, read_bandwidth, write_iops and write_bandwidth: give an io_properties.yaml, or a file of \
             scylla-machine-image"
        )));
    }
    let doubts = sets
        .iter()
        .flat_map(|(name, set)| set.doubts().into_iter().map(move |doubt| format!("{name}: {doubt}")));
    let doubts: Vec<String> = doubts.collect();
    tell!("{}: {} sets, {} doubtful figures", file.display(), sets.len(), doubts.len());
    Ok(doubts)
}

fn text(report: &TuneReport, is_written: bool) -> String {
    let mut text = String::new();
    if !report.text.is_empty() {
        for (names, reason) in refusals(report) {
            text += &format!("not set: {}: {reason}\n", names.join(", "));
        }
        if !report.refused.is_empty() {
            text.push('\n');
        }
        if !is_written {
            text += &format!("# {}\n{}\n", report.file, report.text);
        }
    }
    for doubt in &report.doubts {
        text += &format!("doubtful: {doubt}\n");
    }
    for value in &report.values {
        let interval = value
            .interval
            .map_or(String::new(), |[low, high]| format!(" (95 %: {} - {})", units_of(low), units_of(high)));
        text += &format!(
            "{} = {}{interval}\n  why: {}\n  effect: {}\n  undo: {}\n",
            value.name, value.value, value.reason, value.effect, value.undo
        );
    }
    text
}

/// Each reason with all settings that it refuses.
fn refusals(report: &TuneReport) -> Vec<(Vec<&'static str>, String)> {
    let mut refusals: Vec<(Vec<&str>, String)> = Vec::new();
    for refused in &report.refused {
        match refusals.iter_mut().find(|(_, reason)| *reason == refused.reason) {
            Some((names, _)) => names.push(refused.name),
            None => refusals.push((vec![refused.name], refused.reason.clone())),
        }
    }
    refusals
}

/// A figure with few digits.
fn units_of(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
