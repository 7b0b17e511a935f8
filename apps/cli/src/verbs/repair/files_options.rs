//! What `repair mount` and `repair run` have in common: the options of the volume, and opening its files.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use flashlab_base::Bytes;
use flashlab_device::Device;
use flashlab_export::SharedFiles;
use flashlab_repair::{FileAttributes, FileId, Files, MountOptions, Volume};

use super::opened;
use crate::arguments;

/// How a volume with files is opened.
#[derive(Args)]
pub struct FilesOptions {
    /// The most memory that the map may take
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    memory_max: Option<Bytes>,
    /// The most that is discarded on the device each second, of segments that are free
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, default_value = "256MiB", conflicts_with = "no_discard")]
    discard_rate: Bytes,
    /// Discard nothing on the device
    #[arg(long)]
    no_discard: bool,
}

impl FilesOptions {
    /// Opens the files of a volume. A new volume gets an empty directory, which belongs to this user.
    pub fn open(&self, volume: &Path) -> Result<SharedFiles> {
        let device = opened::with_volume(volume)?;
        let discard_rate = if self.no_discard { Bytes::ZERO } else { self.discard_rate };
        let mut options = MountOptions::default();
        (options.memory_max, options.discard_rate) = (self.memory_max, discard_rate);
        let opened = Volume::open(device, options, |layout| {
            flashlab_repair::default_policy(layout.segment_count, layout.spare_segments())
        })?;
        if opened.replayed_records() > 0 {
            tell!("the volume was not closed in order: {} records were replayed", opened.replayed_records());
        }
        let mut files = Files::open(opened)
            .with_context(|| format!("the files of {} cannot be opened", volume.display()))?;
        give_root_to_user(&mut files)?;
        Ok(SharedFiles::new(files))
    }
}

fn give_root_to_user(files: &mut Files<Box<dyn Device + Send>>) -> Result<()> {
    let old = files.status(FileId::ROOT)?.attributes;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_new = old.modified_ns == 0 && (old.user, old.group) == (0, 0);
    if is_new && (user, group) != (0, 0) {
        files.set_attributes(FileId::ROOT, FileAttributes { user, group, ..old })?;
    }
    Ok(())
}

/// Packs and discards between the programs' IOs.
pub fn work_while_idle(files: &SharedFiles, ends: &AtomicBool) {
    const PAUSE: Duration = Duration::from_millis(20);
    while !ends.load(Ordering::Relaxed) {
        if !files.work_while_idle() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// A name that nobody can guess.
pub fn random_name() -> Result<String> {
    const SOURCE: &str = "/proc/sys/kernel/random/uuid";
    let text = std::fs::read_to_string(SOURCE).with_context(|| format!("cannot read {SOURCE}"))?;
    Ok(text.trim().to_owned())
}
