//! `flashlab repair create`.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_analysis::inference::{Parameter, Value};
use flashlab_base::Bytes;
use flashlab_device::Device;
use flashlab_repair::{LayoutOptions, Volume, VolumeLayout, VolumeUuid};
use serde::Serialize;

use super::open_files::random_name;
use super::opened;
use crate::arguments::{self, ConsentOptions};
use crate::exit::Usage;
use crate::inference::folder;
use crate::output;
use crate::target::{By, Candidate};

/// Make a volume on a block device or in a file
///
/// What the device holds is lost. A file that does not exist is made with --size.
#[derive(Args)]
pub struct Create {
    /// A block device, or a regular file
    volume: PathBuf,
    /// Make the file, of this size
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    size: Option<Bytes>,
    /// The share of the segments that data may take; the rest is slack, which makes packing inexpensive
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    fill: f64,
    /// The page: what is mapped and verified as one
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, default_value = "4KiB")]
    page: Bytes,
    /// The segment: a multiple of the device's erase block, which `flashlab infer` finds; 4MiB if neither this nor --from is given
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    segment: Option<Bytes>,
    /// Take the erase block from this run of `flashlab infer` on the device: the segment is its first multiple of at least 4 MiB
    #[arg(long, value_name = "RUN", conflicts_with = "segment")]
    from: Option<PathBuf>,
    #[command(flatten)]
    consent: ConsentOptions,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Created {
    uuid: String,
    size_bytes: u64,
    page_bytes: u64,
    segment_bytes: u64,
    segments: u32,
    memory_bytes: u64,
}

impl Create {
    /// Makes the volume.
    pub fn run(self) -> Result<()> {
        if !(self.fill > 0.0 && self.fill <= 0.95) {
            bail!(Usage(format!("--fill {}: give a share above 0 and at most 0.95", self.fill)));
        }
        let segment = self.segment()?;
        let is_new = self.make_file()?;
        let made = self.create(segment, is_new);
        if made.is_err() && is_new {
            // A file that holds no volume helps nobody.
            let _ = std::fs::remove_file(&self.volume);
        }
        let (layout, uuid) = made?;
        let size = Bytes(layout.options.logical_pages * layout.options.page.0);
        let created = Created {
            uuid: uuid.to_string(),
            size_bytes: size.0,
            page_bytes: layout.options.page.0,
            segment_bytes: layout.options.segment.0,
            segments: layout.segment_count,
            memory_bytes: layout.memory().0,
        };
        if self.json {
            return output::json(&created);
        }
        output::text(&format!(
            "volume {uuid}: {size} in {} segments of {} on {}; its map takes {} of memory\n",
            layout.segment_count,
            layout.options.segment,
            self.volume.display(),
            layout.memory()
        ))
    }

    /// Makes the file if it is asked for. Whether it did.
    fn make_file(&self) -> Result<bool> {
        let Some(size) = self.size else { return Ok(false) };
        let name = self.volume.display();
        let file = OpenOptions::new().write(true).create_new(true).open(&self.volume).map_err(|error| {
            Usage(format!("cannot make {name}: {error}; --size is for a file that does not exist yet"))
        })?;
        let sized = file.set_len(size.0);
        if sized.is_err() {
            let _ = std::fs::remove_file(&self.volume);
        }
        sized.map(|()| true).with_context(|| {
            format!("cannot make {name} {size} large: choose a smaller --size, or another file system")
        })
    }

    fn segment(&self) -> Result<Bytes> {
        match (&self.segment, &self.from) {
            (Some(segment), _) => Ok(*segment),
            (None, Some(run)) => segment_of(erase_block(run)?, self.page),
            (None, None) => Ok(SEGMENT),
        }
    }

    fn create(&self, segment: Bytes, is_new: bool) -> Result<(VolumeLayout, VolumeUuid)> {
        let text = self.volume.to_str().context(Usage("the path is no text in UTF-8".to_owned()))?;
        let target = crate::target::parsed(text)?;
        let consent =
            ConsentOptions { overwrite_file: self.consent.overwrite_file || is_new, ..self.consent.clone() };
        let Candidate::Real { path, inspection, by: Some(by) } = Candidate::find(&target, true, &consent)?
        else {
            bail!(Usage(format!(
                "{target} is a simulated device, which keeps no data: give a block device or a file"
            )));
        };
        let consent = By::consent(by, path, &inspection)?;
        let device = opened::for_writing(&self.volume, consent)?;
        let options = self.options(device.geometry().capacity, segment)?;
        let uuid = random_uuid()?;
        Ok((Volume::create(device, uuid, options)?, uuid))
    }

    fn options(&self, capacity: Bytes, segment: Bytes) -> Result<LayoutOptions> {
        let mut options = LayoutOptions {
            capacity,
            page: self.page,
            segment,
            logical_pages: 1,
            checkpoint_interval: Bytes::mib(64),
        };
        let layout = VolumeLayout::new(options)?;
        let possible = u64::from(layout.segment_count) * u64::from(layout.data_pages_per_segment());
        options.logical_pages = ((possible as f64 * self.fill) as u64).max(1);
        if let Err(error) = VolumeLayout::new(options) {
            // The map of all pages takes a few segments, too.
            options.logical_pages -= options.logical_pages / 100;
            VolumeLayout::new(options).map_err(|_| error)?;
        }
        Ok(options)
    }
}

/// Long enough for sequential speed on every device of the zoo.
const SEGMENT: Bytes = Bytes::mib(4);
const SEGMENT_MAX: Bytes = Bytes::mib(64);

/// The erase block that an inference found.
fn erase_block(run: &Path) -> Result<Bytes> {
    let known = folder::open(run)?.2;
    match known.get(Parameter::EraseBlockSize).and_then(|finding| finding.value.as_ref()) {
        Some(Value::Number(size)) if *size >= 1.0 => Ok(Bytes(*size as u64)),
        _ => bail!(Usage(format!(
            "{} does not know the erase block of {}: give --segment, or infer with --write",
            run.display(),
            known.target
        ))),
    }
}

/// The first multiple of the erase block that is a multiple of the page, too, and at least [`SEGMENT`].
fn segment_of(erase_block: Bytes, page: Bytes) -> Result<Bytes> {
    let multiples =
        (SEGMENT.0.div_ceil(erase_block.0)..).map(|count| Bytes(count.saturating_mul(erase_block.0)));
    let mut possible = multiples.take_while(|segment| *segment <= SEGMENT_MAX);
    let found = possible.find(|segment| segment.is_multiple_of(page));
    found.with_context(|| {
        Usage(format!(
            "no multiple of the erase block of {erase_block} up to {SEGMENT_MAX} is a multiple of the page of {page}: give \
             --segment"
        ))
    })
}

fn random_uuid() -> Result<VolumeUuid> {
    let text = random_name()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).context("the kernel's random UUID is none")?;
    Ok(VolumeUuid(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_the_first_suitable_multiple_of_the_erase_block() {
        let segment = |erase_block, page| segment_of(Bytes(erase_block), Bytes(page)).ok();
        assert_eq!(segment(4 << 20, 4096), Some(Bytes::mib(4)));
        assert_eq!(segment(16 << 20, 4096), Some(Bytes::mib(16)));
        assert_eq!(segment(1 << 20, 4096), Some(Bytes::mib(4)));
        // 480 KiB: nine of them are 4320 KiB, a multiple of 4 KiB but not of 64 KiB.
        assert_eq!(segment(480 << 10, 4096), Some(Bytes::kib(4320)));
        assert_eq!(segment(480 << 10, 65536), Some(Bytes::kib(4800)));
        assert_eq!(segment(128 << 20, 4096), None);
        assert_eq!(segment((4 << 20) + 512, 65536), None);
    }
}
