//! `flashlab repair resize`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use flashlab_base::Bytes;
use flashlab_device::Device;
use flashlab_repair::{Files, MountOptions, Volume, default_policy};
use serde::Serialize;

use super::opened;
use crate::arguments;
use crate::output;

/// Make a volume larger or smaller
///
/// It is not being served meanwhile. A power failure leaves the old size or the new one. What the device has grown by is used,
/// too. Grow a file system on the volume after this, and shrink it before. Files of `repair mount` and `repair run` are moved away
/// from the end of a volume that becomes smaller.
#[derive(Args)]
pub struct Resize {
    /// A block device, or a regular file
    volume: PathBuf,
    /// The size that the volume offers from now on, rounded down to whole pages
    #[arg(value_parser = arguments::size)]
    size: Bytes,
    /// Discard the data behind the new end; files are moved all the same
    #[arg(long)]
    drop_beyond: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Resized {
    size_bytes: u64,
    size_before_bytes: u64,
    segments: u32,
    moved_bytes: u64,
}

impl Resize {
    /// Resizes it.
    pub fn run(self) -> Result<()> {
        let device = opened::with_volume(&self.volume)?;
        let mut volume = Volume::open(device, MountOptions::default(), default_policy)?;
        let before = volume.size();
        let mut moved = Bytes::ZERO;
        if self.size < before && Files::are_on(&mut volume)? {
            let mut files = Files::open(volume)?;
            match files.move_before(self.size) {
                Ok(bytes) => moved = bytes,
                Err(error) => {
                    // The files are whole, and some may lie elsewhere.
                    if files.volume().poison().is_none() {
                        files.finish()?;
                    }
                    return Err(error.into());
                }
            }
            volume = files.into_volume();
        }
        let resized = self.resize(&mut volume, before);
        if resized.is_err() && volume.poison().is_none() {
            // It was refused, and is as it was.
            volume.finish()?;
        }
        resized?;
        let (size, segments) = (volume.size(), volume.layout().segment_count);
        if self.json {
            return output::json(&Resized {
                size_bytes: size.0,
                size_before_bytes: before.0,
                segments,
                moved_bytes: moved.0,
            });
        }
        let moved = match moved {
            Bytes::ZERO => String::new(),
            moved => format!("; {moved} of files were moved"),
        };
        output::text(&format!(
            "{} offers {size}, in {segments} segments; it was {before}{moved}\n",
            self.volume.display()
        ))
    }

    fn resize<D: Device>(&self, volume: &mut Volume<D>, before: Bytes) -> Result<()> {
        let end = self.size.round_down(volume.layout().options.page);
        if self.drop_beyond && end > Bytes::ZERO && end < before {
            volume.discard(end.0, before.0 - end.0)?;
        }
        Ok(volume.resize(self.size)?)
    }
}
