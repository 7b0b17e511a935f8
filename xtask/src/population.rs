//! Makes the random devices on which `flashlab infer` is judged: legal and plausible profiles of every
//! family.
//!
//! # Method
//! A device follows from its seed alone, so that it can be made again.
//! 1. Draw its class: USB stick, SATA disk, NVMe disk, or a disk of today. The times of commands, link,
//!    channel and cells then fit together.
//! 2. Draw its flash, its translation layer, and the caches and buffers in front of them.
//! 3. If the simulator refuses the profile (for example because its logs need more flash), draw again.
//!
//! # Invariants
//! - Reading a page from the flash takes at least as long as its transfer over the link, and as the command.
//!   So the link does not hide the flash, and every parameter can be seen.
//! - Every device has 5 % log-normal jitter, and 1 % outliers of ten times.

mod draw;
mod layers;
mod parts;

use std::fmt;
use std::str::FromStr;

use flashlab_base::{Bytes, Nanos, Seed};
use flashlab_sim::layer::Mapping;
use flashlab_sim::profile::Noise;
use flashlab_sim::{Profile, Translation};

use draw::Draw;

/// The families of translation layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceFamily {
    /// A page map.
    Page,
    /// A demand-cached page map (DFTL).
    Demand,
    /// Replacement blocks, which are written in page order.
    Block,
    /// Log blocks with one data block each (BAST).
    Log,
    /// Log blocks that all data blocks share (FAST).
    Shared,
}

impl DeviceFamily {
    /// All of them. The family of a device is its seed modulo their number.
    pub const ALL: [DeviceFamily; 5] = [
        DeviceFamily::Page,
        DeviceFamily::Demand,
        DeviceFamily::Block,
        DeviceFamily::Log,
        DeviceFamily::Shared,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DeviceFamily::Page => "page",
            DeviceFamily::Demand => "demand",
            DeviceFamily::Block => "block",
            DeviceFamily::Log => "log",
            DeviceFamily::Shared => "shared",
        }
    }

    /// Whether the family has a page map.
    pub fn maps_pages(self) -> bool {
        matches!(self, DeviceFamily::Page | DeviceFamily::Demand)
    }
}

impl fmt::Display for DeviceFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DeviceFamily {
    type Err = String;
    fn from_str(text: &str) -> Result<DeviceFamily, String> {
        let found = DeviceFamily::ALL.into_iter().find(|family| family.name() == text);
        found.ok_or_else(|| {
            format!(
                "{text} is no family: write one of {}",
                DeviceFamily::ALL.map(DeviceFamily::name).join(", ")
            )
        })
    }
}

/// The speed class of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// USB sticks and cards: slow links, one request at a time, one or two dies.
    Stick,
    /// SATA disks.
    Sata,
    /// NVMe disks.
    Nvme,
    /// Disks with today's flash: many planes and dies, and several bits per cell, some of which take longer
    /// to read.
    Modern,
}

/// The family of the device that a seed makes.
pub fn family_of(seed: u64) -> DeviceFamily {
    DeviceFamily::ALL[(seed % DeviceFamily::ALL.len() as u64) as usize]
}

/// The device that a seed makes, with its noise.
pub fn profile(seed: u64) -> Profile {
    (0..).find_map(|attempt| legal(draw(seed, attempt))).expect("there is always another draw")
}

/// The flash devices of the zoo, at most 1 GiB each, alternating with the seed. Those without noise get that
/// of the random devices.
pub fn zoo(seed: u64) -> (Profile, DeviceFamily) {
    const MOST: Bytes = Bytes::gib(1);
    let known = flashlab_sim::zoo().into_iter().filter_map(|profile| {
        let family = of_translation(profile.flash.as_ref().map(|_| &profile.translation)?)?;
        let profile = if profile.capacity > MOST { profile.resized(MOST).ok()? } else { profile };
        let noise = Some(profile.noise.unwrap_or(noise(seed)));
        Some((Profile { noise, ..profile }, family))
    });
    let known: Vec<_> = known.collect();
    known[(seed % known.len() as u64) as usize].clone()
}

/// `None` for zones, which are no translation.
fn of_translation(translation: &Translation) -> Option<DeviceFamily> {
    let structure = translation.structure();
    match (structure.mapping, structure.cached_map_entries) {
        (Mapping::Pages { .. }, None) => Some(DeviceFamily::Page),
        (Mapping::Pages { .. }, Some(_)) => Some(DeviceFamily::Demand),
        (Mapping::OwnLogBlocks { any_order: true, .. }, _) => Some(DeviceFamily::Log),
        (Mapping::OwnLogBlocks { any_order: false, .. }, _) => Some(DeviceFamily::Block),
        (Mapping::SharedLogBlocks { .. }, _) => Some(DeviceFamily::Shared),
        (Mapping::Zones, _) => None,
    }
}

/// 5 % log-normal jitter and 1 % outliers of ten times.
fn noise(seed: u64) -> Noise {
    Noise { sigma: 0.05, outlier_share: 0.01, outlier_factor: 10.0, outlier: Nanos::ZERO, seed: Seed(seed) }
}

/// The same device without noise.
pub fn quiet(profile: &Profile) -> Profile {
    Profile { noise: None, ..profile.clone() }
}

/// The same device with 2 % jitter and no outliers, for noise of another kind.
pub fn without_outliers(profile: &Profile) -> Profile {
    let noise = profile.noise.map(|noise| Noise { sigma: 0.02, outlier_share: 0.0, ..noise });
    Profile { noise, ..profile.clone() }
}

/// The same device with other noise of the same kind.
pub fn with_noise(profile: &Profile, seed: u64) -> Profile {
    let noise = profile.noise.map(|noise| Noise { seed: Seed(noise.seed.0 ^ seed), ..noise });
    Profile { noise, ..profile.clone() }
}

/// The profile as read from its file, if the simulator accepts it.
fn legal(profile: Profile) -> Option<Profile> {
    let read = Profile::parse(&profile.to_toml(), &profile.name).ok()?;
    assert_eq!(read, profile, "a profile is read back as it was written");
    Some(read)
}

fn draw(seed: u64, attempt: u64) -> Profile {
    let family = family_of(seed);
    let mut draw = Draw::new(Seed(seed).derive("infer-score", attempt));
    let class = match family {
        DeviceFamily::Page | DeviceFamily::Demand => {
            draw.weighted(&[(1, Class::Stick), (4, Class::Sata), (2, Class::Nvme), (3, Class::Modern)])
        }
        DeviceFamily::Block | DeviceFamily::Log | DeviceFamily::Shared => {
            draw.weighted(&[(6, Class::Stick), (4, Class::Sata)])
        }
    };
    let block = if matches!(class, Class::Nvme | Class::Modern) { draw.of(&[512, 512, 4096]) } else { 512 };
    let capacity = Bytes(draw.logarithmic(64e6, 2.1e9) as u64).round_down(Bytes::kib(16));
    let flash = parts::flash(&mut draw, class, family, capacity, Bytes(block));
    let translation = layers::translation(&mut draw, family, &flash, capacity);
    let controller = parts::controller(&mut draw, class, family, &flash, capacity);
    Profile {
        title: format!("Random device {seed}"),
        source: format!("cargo xtask infer-score --devices 1 --seed {seed}"),
        fit: "random".to_owned(),
        flash: Some(flash),
        controller,
        translation,
        noise: Some(noise(seed)),
        ..Profile::new(format!("score-{seed}"), capacity, Bytes(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::profile::FlashSection;

    /// Its first draw is a demand-cached map that would move data for ever after some random writes.
    #[test]
    fn a_device_whose_collection_does_not_keep_up_is_drawn_again() {
        assert_eq!(legal(draw(2_713_031, 0)), None);
        assert!(legal(profile(2_713_031)).is_some());
    }

    #[test]
    fn a_seed_makes_one_device_that_is_plausible() {
        for seed in 0..500 {
            let device = profile(seed);
            assert_eq!(device, profile(seed));
            let flash = device.flash.as_ref().unwrap();
            assert!((1_000_000..10_000_000).contains(&flash.erase.0), "{seed}: {}", flash.erase);
            assert!((64_000_000..2_200_000_000).contains(&device.capacity.0), "{seed}: {}", device.capacity);
            let read = parts::page_read(flash);
            assert!(device.controller.read_command <= read, "{seed}: {read}");
            let link = device.controller.read_bandwidth.unwrap().time(flash.page);
            assert!(link.0 <= read.0 + 1, "{seed}: {link} over the link, {read} from the flash");
            assert!(quiet(&device).device().is_ok());
        }
    }

    #[test]
    fn devices_are_of_every_kind() {
        let devices: Vec<Profile> = (0..500).map(profile).collect();
        let share = |is: &dyn Fn(&Profile, &FlashSection) -> bool| {
            devices.iter().filter(|device| is(device, device.flash.as_ref().unwrap())).count()
        };
        for (what, count) in [
            ("odd pages per block", share(&|_, flash| !flash.pages_per_block.is_power_of_two())),
            ("planes", share(&|_, flash| flash.planes > 1)),
            ("dies", share(&|_, flash| flash.dies > 1)),
            ("one die", share(&|_, flash| flash.dies == 1)),
            ("dies that share channels", share(&|_, flash| flash.channels < flash.dies)),
            ("groups", share(&|device, _| device.controller.segment_groups.is_some())),
            ("contents", share(&|_, flash| flash.zeros_program_share != 1.0)),
            ("write buffers", share(&|device, _| device.controller.write_buffer.is_some())),
            ("read buffers", share(&|device, _| device.controller.read_buffer.is_some())),
            ("SLC caches", share(&|_, flash| flash.slc_cache.is_some())),
            ("background work", share(&|device, _| device.controller.background.is_some())),
        ] {
            assert!(count > 25, "{what}: {count} of 500");
        }
        assert!(devices.iter().all(|device| !device.capacity.0.is_power_of_two()));
    }
}
