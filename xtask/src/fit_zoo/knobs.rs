//! The parameters of a profile that a fit may change.

use flashlab_base::Nanos;
use flashlab_sim::layer::VictimPolicy;
use flashlab_sim::profile::{Bandwidth, FlashSection, PerPage, PipelineSection};
use flashlab_sim::{Profile, Translation};

/// A parameter, by what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    OverProvisioning,
    /// The controller's time for a copied page.
    Copy,
    BlockPages,
    Read,
    ReadInterrupts,
}

fn flash(profile: &mut Profile) -> &mut FlashSection {
    profile.flash.get_or_insert_with(FlashSection::default)
}

fn scaled(time: Nanos, factor: f64) -> Nanos {
    Nanos((time.0 as f64 * factor).round().max(1.0) as u64)
}

impl Knob {
    /// The profile with this parameter multiplied by `factor`.
    pub fn turned(self, profile: &Profile, factor: f64) -> Profile {
        let mut profile = profile.clone();
        let section = flash(&mut profile);
        match self {
            Knob::OverProvisioning => section.over_provisioning = rounded(section.over_provisioning * factor),
            Knob::Copy => section.copy = scaled(section.copy, factor),
            Knob::BlockPages => {
                let pages = (f64::from(section.pages_per_block) * factor).round() as u32;
                section.pages_per_block = if pages == section.pages_per_block {
                    if factor > 1.0 { pages + 1 } else { pages - 1 }.max(1)
                } else {
                    pages.max(1)
                };
            }
            Knob::Read => section.read = PerPage::All(scaled(section.read.longest(), factor)),
            Knob::ReadInterrupts => {
                section.read_interrupts = section.read_interrupts.map(|step| scaled(step, factor));
            }
        }
        profile
    }
}

/// Four digits.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// The profile with `program` multiplied by `factor`.
pub fn with_program(profile: &Profile, factor: f64) -> Profile {
    let mut profile = profile.clone();
    let section = flash(&mut profile);
    section.program = PerPage::All(scaled(section.program.longest(), factor));
    profile
}

/// The profile with a pipeline through which a MiB of one write takes `seconds` more.
pub fn with_slower_pipeline(profile: &Profile, seconds: f64) -> Profile {
    let mut profile = profile.clone();
    let pipeline = profile.controller.pipeline.get_or_insert_with(PipelineSection::default);
    let ns_per_byte =
        pipeline.write_bandwidth.map_or(0.0, Bandwidth::ns_per_byte) + seconds * 1e9 / 1_048_576.0;
    // A pipeline of more than 100 GB/s limits nothing.
    pipeline.write_bandwidth = (ns_per_byte > 0.01)
        .then(|| Bandwidth(flashlab_base::Bytes((1e9 / ns_per_byte / 1e6).round() as u64 * 1_000_000)));
    profile
}

/// The profile with a pipeline in which each write takes `us` microseconds more.
pub fn with_longer_writes(profile: &Profile, us: f64) -> Profile {
    let mut profile = profile.clone();
    let pipeline = profile.controller.pipeline.get_or_insert_with(PipelineSection::default);
    pipeline.write = Nanos((pipeline.write.0 as f64 + us * 1e3).round().max(0.0) as u64);
    profile
}

/// A way of collecting garbage.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    pub name: &'static str,
    pub policy: VictimPolicy,
    pub collect_apart: bool,
    /// Whether hot pages are separated: those rewritten within as many writes as the device has pages.
    pub by_heat: bool,
}

/// The ways that a coarse search tries.
pub const COLLECTIONS: [Collection; 5] = [
    Collection { name: "greedy", policy: VictimPolicy::Greedy, collect_apart: false, by_heat: false },
    Collection {
        name: "greedy, copies apart",
        policy: VictimPolicy::Greedy,
        collect_apart: true,
        by_heat: false,
    },
    Collection {
        name: "greedy, hot and cold apart",
        policy: VictimPolicy::Greedy,
        collect_apart: true,
        by_heat: true,
    },
    Collection {
        name: "cost-benefit",
        policy: VictimPolicy::CostBenefit,
        collect_apart: false,
        by_heat: false,
    },
    Collection {
        name: "cost-benefit, copies apart",
        policy: VictimPolicy::CostBenefit,
        collect_apart: true,
        by_heat: false,
    },
];

/// The profile with a way of collecting garbage.
pub fn with_collection(profile: &Profile, collection: &Collection) -> Profile {
    let mut profile = profile.clone();
    let pages = profile.capacity.0 / flash(&mut profile).page.0;
    if let Translation::PageMap(options) = &mut profile.translation {
        options.policy = collection.policy;
        options.collect_apart = collection.collect_apart;
        options.hot_within = collection.by_heat.then_some(pages as u32);
    }
    profile
}
