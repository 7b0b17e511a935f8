//! How `repair serve`, `repair mount` and `repair run` open a volume.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use flashlab_base::Bytes;
use flashlab_device::Device;
use flashlab_repair::{MakePolicy, MountOptions, POLICIES, Volume, default_policy, policy_named};

use super::opened;
use crate::arguments;
use crate::exit::Usage;

/// How a volume is opened.
#[derive(Args)]
pub struct VolumeOptions {
    /// The policy that places pages; a device with few open blocks wants one with as few logs, as `greedy` with one
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The most memory that the map may take
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    memory_max: Option<Bytes>,
    /// The most that is discarded on the device each second, of segments that are free; by default 256 MiB on a block device, and nothing
    /// in a file, whose holes would have to be allocated anew
    #[arg(long, value_name = "SIZE", value_parser = arguments::size, conflicts_with = "no_discard")]
    discard_rate: Option<Bytes>,
    /// Discard nothing on the device, as in a file by default
    #[arg(long)]
    no_discard: bool,
}

impl VolumeOptions {
    /// Opens a volume, and says so if it was not closed in order.
    pub fn open(&self, volume: &Path) -> Result<Volume<Box<dyn Device + Send>>> {
        let policy = self.policy.as_deref().map(known_policy).transpose()?;
        let device = opened::with_volume(volume)?;
        let mut options = MountOptions::for_path(volume);
        options.memory_max = self.memory_max;
        if self.no_discard {
            options.discard_rate = Bytes::ZERO;
        }
        if let Some(rate) = self.discard_rate {
            options.discard_rate = rate;
        }
        let opened = Volume::open(device, options, |layout| match policy {
            Some(make) => make(layout.segment_count),
            None => default_policy(layout),
        })?;
        if opened.replayed_records() > 0 {
            tell!("the volume was not closed in order: {} records were replayed", opened.replayed_records());
        }
        warn_of_small_segments(&opened);
        Ok(opened)
    }
}

/// A policy that the user chose, or a volume of an earlier flashlab, may have too many logs for segments of few pages.
fn warn_of_small_segments<D: Device>(opened: &Volume<D>) {
    let (layout, policy) = (opened.layout(), opened.placer().policy());
    if !layout.suits(policy.log_count()) {
        tell!(
            "warning: at this fill, segments of {} pages are too small for the number of logs of {} ({}): the volume may become full \
             while it is only overwritten; use `--policy greedy`, or copy it to a volume with larger segments or a lower --fill",
            layout.pages_per_segment(),
            policy.name(),
            policy.log_count()
        );
    }
}

/// The policy of this name; refuses a name that none has.
fn known_policy(name: &str) -> Result<MakePolicy> {
    policy_named(name).with_context(|| {
        let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
        Usage(format!("there is no policy `{name}`; there are {}", names.join(", ")))
    })
}
