//! `flashlab repair create`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use flashlab_base::Bytes;
use flashlab_device::Device;
use flashlab_repair::{LayoutOptions, Volume, VolumeLayout, VolumeUuid, default_policy};
use serde::Serialize;

use super::inferred_geometry::{Choice, InferredGeometry, PAGE, SEGMENT};
use super::opened;
use crate::arguments::{self, ConsentOptions};
use crate::exit::Usage;
use crate::files::NewFile;
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
    /// The page: what is mapped and verified as one; 4KiB if neither this nor --from is given
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    page: Option<Bytes>,
    /// The segment: a multiple of the device's erase block, which `flashlab infer` finds; if neither this nor --from is given,
    /// 4MiB, or on a small device the largest half, quarter and so on with which the volume fits
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    segment: Option<Bytes>,
    /// Take what is not given from this run of `flashlab infer` on the device: the page from its written page, the segment as the
    /// first multiple of at least 4 MiB of its erase block, and the policy to serve it with from its open blocks
    #[arg(long, value_name = "RUN")]
    from: Option<PathBuf>,
    #[command(flatten)]
    consent: ConsentOptions,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The smallest segment that is chosen for a small device: below it the headers of segments and records take several percent.
const SEGMENT_LEAST: Bytes = Bytes::kib(128);

#[derive(Serialize)]
struct Created {
    uuid: String,
    size_bytes: u64,
    page_bytes: u64,
    segment_bytes: u64,
    segments: u32,
    memory_bytes: u64,
    /// A file that is larger than what its file system has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    /// What the inference decided, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    from_inference: Vec<Choice>,
}

impl Create {
    /// Makes the volume.
    pub fn run(self) -> Result<()> {
        if !(self.fill > 0.0 && self.fill <= 0.95) {
            bail!(Usage(format!("--fill {}: give a share above 0 and at most 0.95", self.fill)));
        }
        let inferred = self.from.as_deref().map(InferredGeometry::open).transpose()?;
        let (page, segment, mut choices) = self.geometry(inferred.as_ref())?;
        let new = self.make_file()?;
        let is_new = new.is_some();
        let (layout, uuid) =
            self.create(new.as_ref().map_or(self.volume.as_path(), NewFile::part), (page, segment), is_new)?;
        // A file that holds no volume yet does not have the name.
        new.map_or(Ok(()), NewFile::finish)?;
        if let Some(inferred) = inferred {
            let default = default_policy(&layout);
            choices.push(inferred.policy((default.name(), default.log_count())));
        }
        let size = Bytes(layout.options.logical_pages * layout.options.page.0);
        let created = Created {
            uuid: uuid.to_string(),
            size_bytes: size.0,
            page_bytes: layout.options.page.0,
            segment_bytes: layout.options.segment.0,
            segments: layout.segment_count,
            memory_bytes: layout.memory().0,
            warning: if is_new { self.warning(layout.options.capacity) } else { None },
            from_inference: choices,
        };
        if let Some(warning) = &created.warning {
            tell!("warning: {warning}");
        }
        if self.json {
            return output::json(&created);
        }
        let mut text = format!(
            "volume {uuid}: {size} in {} segments of {} on {}; its map takes {} of memory\n",
            layout.segment_count,
            layout.options.segment,
            self.volume.display(),
            layout.memory()
        );
        for Choice { option, value, reason } in &created.from_inference {
            let serve = if *option == "--policy" { "serve it with " } else { "" };
            text += &format!("{serve}{option} {value}: {reason}\n");
        }
        output::text(&text)
    }

    /// Makes the file if it is asked for.
    fn make_file(&self) -> Result<Option<NewFile>> {
        let Some(size) = self.size else { return Ok(None) };
        let name = self.volume.display();
        if self.volume.symlink_metadata().is_ok() {
            bail!(Usage(format!(
                "{name} exists, and --size is for a file that does not exist yet: give another name, or leave --size out"
            )));
        }
        let new = NewFile::begin(&self.volume)?;
        new.file().set_len(size.0).with_context(|| {
            format!("cannot make {name} {size} large: choose a smaller --size, or another file system")
        })?;
        Ok(Some(new))
    }

    /// What becomes of a file that is larger than its file system can hold. `None`: it has space.
    fn warning(&self, size: Bytes) -> Option<String> {
        let system = rustix::fs::statvfs(&self.volume).ok()?;
        let free = Bytes(system.f_bavail.saturating_mul(system.f_frsize));
        (size > free).then(|| {
            format!(
                "{} is {size} large, and its file system has {free} left: when that is full, writes to the volume fail; choose a \
                 smaller --size, or free some space",
                self.volume.display()
            )
        })
    }

    /// The page, the segment if it does not follow from the capacity, and what of them an inference decided.
    fn geometry(&self, inferred: Option<&InferredGeometry>) -> Result<(Bytes, Option<Bytes>, Vec<Choice>)> {
        let Some(inferred) = inferred else {
            return Ok((self.page.unwrap_or(PAGE), self.segment, Vec::new()));
        };
        let mut choices = Vec::new();
        let page = self.page.unwrap_or_else(|| {
            let (page, choice) = inferred.page();
            choices.push(choice);
            page
        });
        let segment = match self.segment {
            Some(segment) => segment,
            None => {
                let (segment, choice) = inferred.segment(page)?;
                choices.push(choice);
                segment
            }
        };
        Ok((page, Some(segment), choices))
    }

    fn create(
        &self,
        volume: &Path,
        (page, segment): (Bytes, Option<Bytes>),
        is_new: bool,
    ) -> Result<(VolumeLayout, VolumeUuid)> {
        let text = volume.to_str().context(Usage("the path is no text in UTF-8".to_owned()))?;
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
        let device = opened::for_writing(volume, consent)?;
        let options = self.fitting(device.geometry().capacity, page, segment)?;
        let uuid = random_uuid()?;
        Ok((Volume::create(device, uuid, options)?, uuid))
    }

    /// The layout with this segment; without one, with the largest of 4 MiB and its halves with which the fill is possible.
    fn fitting(&self, capacity: Bytes, page: Bytes, segment: Option<Bytes>) -> Result<LayoutOptions> {
        if let Some(segment) = segment {
            return self.options(capacity, page, segment);
        }
        let usual = self.options(capacity, page, SEGMENT);
        let halves = (1..).map(|half| Bytes(SEGMENT.0 >> half));
        let mut smaller = halves.take_while(|&segment| segment >= SEGMENT_LEAST.max(Bytes(4 * page.0)));
        match usual {
            Ok(options) => Ok(options),
            Err(error) => smaller.find_map(|segment| self.options(capacity, page, segment).ok()).ok_or(error),
        }
    }

    fn options(&self, capacity: Bytes, page: Bytes, segment: Bytes) -> Result<LayoutOptions> {
        let mut options =
            LayoutOptions { capacity, page, segment, logical_pages: 1, checkpoint_interval: Bytes::mib(64) };
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

fn random_uuid() -> Result<VolumeUuid> {
    let text = flashlab_export::random_name()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).context("the kernel's random UUID is none")?;
    Ok(VolumeUuid(number.to_be_bytes()))
}
