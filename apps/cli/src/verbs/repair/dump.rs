//! `flashlab repair dump`.

use std::fmt::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_repair::{DumpMap, DumpReport, PageRange, dump};
use serde::Serialize;

use super::copy_out::copy_out;
use super::opened;
use crate::files::NewFile;
use crate::output;

/// Copy the data or the files out of a volume, also of one that cannot be opened
///
/// It needs one copy of the superblock. Of each page the version that the map names is taken, or the newest one with the right checksum. The
/// image gets its name when it is complete. With --files the files of `repair mount` and `repair run` are copied to a new folder, as far as
/// their catalogue can be read. Exit code 1: pages, files or parts of them are missing or older than the map says, or the newest map cannot be
/// read, so that nobody knows what is missing.
#[derive(Args)]
pub struct Dump {
    /// A block device, or a regular file
    volume: PathBuf,
    /// The image to make: a sparse file as large as the volume
    #[arg(long, short, required_unless_present = "files")]
    output: Option<PathBuf>,
    /// The folder to make for the files of the volume
    #[arg(long, value_name = "FOLDER", conflicts_with = "output")]
    files: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Dumped {
    size_bytes: u64,
    records: u64,
    pages: u64,
    damaged_versions: u64,
    /// `newest`, `older` or `none`.
    map: &'static str,
    map_checkpoint: Option<u64>,
    why_no_newest_map: Option<String>,
    missing_pages: u64,
    missing: Vec<Pages>,
    older_pages: u64,
    older: Vec<Pages>,
}

/// Pages of the volume that lie behind each other.
#[derive(Serialize)]
struct Pages {
    first_page: u64,
    pages: u64,
}

/// Ranges that are printed one by one; `--json` has all.
const PRINTED: usize = 10;

impl Dump {
    /// Copies it out.
    pub fn run(self) -> Result<()> {
        if let Some(folder) = &self.files {
            return copy_out(&self.volume, folder, self.json);
        }
        let output = self.output.as_deref().context("an image or a folder is given")?;
        let name = output.display();
        let device = opened::for_reading(&self.volume)?;
        let image = NewFile::begin(output)?;
        let report = dump(device, |offset, page| -> Result<()> {
            image.file().write_all_at(page, offset).with_context(|| format!("cannot write {name}"))
        })?;
        image.file().set_len(report.size.0).with_context(|| format!("cannot write {name}"))?;
        image.finish()?;
        if self.json {
            output::json(&Dumped::of(&report))?;
        } else {
            output::text(&text(&name.to_string(), &report))?;
        }
        if report.is_whole() {
            return Ok(());
        }
        let (missing, older) = (count(&report.missing), count(&report.older));
        let found = format!("{missing} pages are missing and {older} are or may be older");
        let volume = self.volume.display();
        match &report.map {
            DumpMap::Newest => bail!("{name} is not all of {volume}: {found}"),
            DumpMap::Older { checkpoint, why } => bail!(
                "{name} may not be all of {volume}: of the pages at checkpoint {checkpoint} {found}; what was written later and is \
                 missing is not known: {why}"
            ),
            DumpMap::None { why } => {
                bail!("{name} may not be all of {volume}: what is missing is not known without a map: {why}")
            }
        }
    }
}

impl Dumped {
    fn of(report: &DumpReport) -> Dumped {
        let ranges = |ranges: &[PageRange]| {
            ranges.iter().map(|range| Pages { first_page: range.first, pages: range.count }).collect()
        };
        let (map, map_checkpoint, why) = match &report.map {
            DumpMap::Newest => ("newest", None, None),
            DumpMap::Older { checkpoint, why } => ("older", Some(*checkpoint), Some(why.clone())),
            DumpMap::None { why } => ("none", None, Some(why.clone())),
        };
        Dumped {
            size_bytes: report.size.0,
            records: report.records,
            pages: report.pages,
            damaged_versions: report.damaged,
            map,
            map_checkpoint,
            why_no_newest_map: why,
            missing_pages: count(&report.missing),
            missing: ranges(&report.missing),
            older_pages: count(&report.older),
            older: ranges(&report.older),
        }
    }
}

fn text(name: &str, report: &DumpReport) -> String {
    let mut text = format!(
        "{name}: {} pages of {} records; {} versions with wrong checksums were left out\n",
        report.pages, report.records, report.damaged
    );
    for (ranges, what) in [(&report.missing, "missing"), (&report.older, "older, or may be older")] {
        for range in ranges.iter().take(PRINTED) {
            let _ = match range.count {
                1 => writeln!(text, "page {} is {what}", range.first),
                count => writeln!(text, "pages {} to {} are {what}", range.first, range.first + count - 1),
            };
        }
        if let Some(more) = ranges.get(PRINTED..).filter(|more| !more.is_empty()) {
            let _ = writeln!(text, "{} more pages are {what}; --json lists them", count(more));
        }
    }
    text
}

fn count(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(|range| range.count).sum()
}
