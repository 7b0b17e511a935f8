//! `flashlab repair dump`.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use flashlab_repair::dump;
use serde::Serialize;

use super::opened;
use crate::exit::Usage;
use crate::output;

/// Copy the data out of a volume, also of one that cannot be opened
///
/// It needs one copy of the superblock and no map: of each page the newest version with the right checksum is taken.
#[derive(Args)]
pub struct Dump {
    /// A block device, or a regular file
    volume: PathBuf,
    /// The image to make: a sparse file as large as the volume
    #[arg(long, short)]
    output: PathBuf,
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
}

impl Dump {
    /// Copies it out.
    pub fn run(self) -> Result<()> {
        let name = self.output.display();
        let device = opened::for_reading(&self.volume)?;
        let image = OpenOptions::new().write(true).create_new(true).open(&self.output);
        let image =
            image.map_err(|error| Usage(format!("cannot make {name}: {error}; choose another --output")))?;
        let dumped = dump(device, |offset, page| -> Result<()> {
            image.write_all_at(page, offset).with_context(|| format!("cannot write {name}"))
        });
        let report = dumped.inspect_err(|_| {
            // A part of an image could be taken for all of it.
            let _ = fs::remove_file(&self.output);
        })?;
        image
            .set_len(report.size.0)
            .and_then(|()| image.sync_all())
            .with_context(|| format!("cannot write {name}"))?;
        if self.json {
            return output::json(&Dumped {
                size_bytes: report.size.0,
                records: report.records,
                pages: report.pages,
                damaged_versions: report.damaged,
            });
        }
        output::text(&format!(
            "{name}: {} pages of {} records; {} versions with wrong checksums were left out\n",
            report.pages, report.records, report.damaged
        ))
    }
}
