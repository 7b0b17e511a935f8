//! `flashlab repair check`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_repair::{FilesCheck, check};
use serde::Serialize;

use super::opened;
use super::status::VolumeStatus;
use crate::output;

/// Verify every structure, every page and the catalogue of files of a volume that is not being served
///
/// It only reads. Exit code 1: something is damaged.
#[derive(Args)]
pub struct Check {
    /// A block device, or a regular file
    volume: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked {
    right_pages: u64,
    damaged: Vec<Damaged>,
    damaged_superblocks: Vec<u64>,
    /// Absent: the volume holds no files.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<CheckedFiles>,
    volume: VolumeStatus,
}

/// What the catalogue says.
#[derive(Serialize)]
struct CheckedFiles {
    files: u64,
    faults: Vec<String>,
}

#[derive(Serialize)]
struct Damaged {
    page: u64,
    device_offset_bytes: u64,
    why: String,
}

/// How many copies of the superblock a crash can leave damaged: those of a pair, which are written together.
const CRASHED_COPIES: usize = 2;

/// Damaged pages that are printed one by one.
const PRINTED: usize = 20;

impl Check {
    /// Verifies it.
    pub fn run(self) -> Result<()> {
        let report = check(opened::for_reading(&self.volume)?, &mut |_| {})?;
        let damaged = report.damaged.len();
        let superblocks = report.damaged_superblocks.len();
        let volume = VolumeStatus::of(&report.summary);
        let files = report.files;
        let faults = files.as_ref().map_or(0, |files| files.faults.len());
        if self.json {
            let pages = report.damaged.into_iter();
            output::json(&Checked {
                right_pages: report.right_pages,
                damaged: pages
                    .map(|damaged| Damaged {
                        page: damaged.page,
                        device_offset_bytes: damaged.offset,
                        why: damaged.why,
                    })
                    .collect(),
                damaged_superblocks: report.damaged_superblocks,
                files: files.map(|FilesCheck { files, faults }| CheckedFiles { files, faults }),
                volume,
            })?;
        } else {
            let mut text = volume.text();
            for page in report.damaged.iter().take(PRINTED) {
                text += &format!("page {} at byte {} of the device: {}\n", page.page, page.offset, page.why);
            }
            for offset in &report.damaged_superblocks {
                text += &format!("the copy of the superblock at byte {offset} of the device is damaged\n");
            }
            text += &format!("{} pages are right, {damaged} are damaged\n", report.right_pages);
            if let Some(files) = &files {
                for fault in files.faults.iter().take(PRINTED) {
                    text += &format!("{fault}\n");
                }
                text += &format!(
                    "the catalogue has {} files and directories, and {faults} faults\n",
                    files.files
                );
            }
            output::text(&text)?;
        }
        if faults > 0 {
            bail!(
                "the catalogue of the files of {} is damaged: they cannot be mounted; `flashlab repair dump --files` copies out \
                 those that can be read",
                self.volume.display()
            );
        }
        match damaged {
            0 if superblocks > CRASHED_COPIES => bail!(
                "{superblocks} of 4 copies of the superblock of {} are damaged, more than a crash leaves: mount it twice, which \
                 writes all of them again",
                self.volume.display()
            ),
            0 => Ok(()),
            _ => bail!(
                "{damaged} pages of {} are damaged: reading them is an error until they are overwritten; `flashlab \
                 repair dump` copies out the others, with older versions where there are any",
                self.volume.display()
            ),
        }
    }
}
