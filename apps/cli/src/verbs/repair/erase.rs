//! `flashlab repair erase`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use flashlab_repair::{RepairError, erase, superblock};
use serde::Serialize;

use super::opened;
use crate::exit::Refused;
use crate::output;

/// Remove a volume from its device or file
///
/// It overwrites the superblocks. Then flashlab takes the device or file for other uses.
#[derive(Args)]
pub struct Erase {
    /// A block device, or a regular file
    volume: PathBuf,
    /// The volume's UUID, which `flashlab repair status` prints: the consent to losing its data; `unknown` if all superblocks
    /// are damaged
    #[arg(long)]
    uuid: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Erased {
    uuid: String,
}

impl Erase {
    /// Removes it.
    pub fn run(self) -> Result<()> {
        let name = self.volume.display();
        let uuid = match superblock(opened::for_reading(&self.volume)?) {
            Ok(superblock) => superblock.uuid.to_string(),
            Err(error @ (RepairError::NoVolume | RepairError::Io { .. })) => return Err(error.into()),
            Err(_) => "unknown".to_owned(),
        };
        if self.uuid.as_deref() != Some(uuid.as_str()) {
            bail!(Refused(format!(
                "all data of the volume on {name} would be lost: consent with --uuid {uuid}"
            )));
        }
        erase(opened::of_volume(&self.volume)?)?;
        match self.json {
            true => output::json(&Erased { uuid }),
            false => {
                let hint = match self.volume.is_file() {
                    // What else is in the file is the user's.
                    true => {
                        "; to make another one in this file, give `repair create` --overwrite-file, or remove it"
                    }
                    false => "",
                };
                output::text(&format!("volume {uuid} is no longer on {name}{hint}\n"))
            }
        }
    }
}
