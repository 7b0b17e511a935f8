//! The memory that a simulated device will take, computed before it is made.
//!
//! # Model
//! Only the tables by page and by block count: four bytes of a page for each direction of a map, a bit for each page that
//! may be invalid, and some words for each block.

use flashlab_base::Bytes;

use super::{Profile, ProfileError, translation};
use crate::layer::MAP_ENTRY;

/// The bytes of a block: its state in the array (8), its entry in the pools (16), and its node among the free blocks (20).
const BLOCK: f64 = 8.0 + 16.0 + 20.0;

impl Profile {
    /// The memory that its device takes, to within 10 % for large devices.
    ///
    /// # Errors
    /// When the profile's parts do not fit together.
    pub fn memory(&self) -> Result<Bytes, ProfileError> {
        let Some(flash) = &self.flash else { return Ok(Bytes::ZERO) };
        let wrong = |illegal| ProfileError::value(&format!("sim:{}", self.name), illegal);
        let logical = f64::from(flash.logical_pages(self.capacity).map_err(wrong)?);
        let array = flash.geometry(self.capacity, self.translation.extra_blocks()).map_err(wrong)?;
        let (pages, blocks) = (f64::from(array.pages()), f64::from(array.blocks()));
        let layer =
            translation::for_array(&self.translation, flash, self.capacity).map_err(wrong)?.memory(&array);
        let fast = f64::from(array.slc_blocks()) * f64::from(array.pages_per_block()) * MAP_ENTRY;
        let fast = if flash.slc_cache.is_some() { fast + logical * MAP_ENTRY } else { 0.0 };
        let content = if flash.sees_content() { pages } else { 0.0 };
        Ok(Bytes((layer + blocks * BLOCK + fast + content) as u64))
    }

    /// No saved state of the device is larger.
    ///
    /// # Errors
    /// Those of [`Profile::memory`].
    pub fn largest_state(&self) -> Result<Bytes, ProfileError> {
        Ok(Bytes(self.memory()?.0.saturating_mul(2)) + Bytes::mib(1))
    }

    /// Refuses a device whose tables would not fit into the `available` memory: what is promised and not there ends the
    /// whole program. Returns how much they take.
    ///
    /// # Errors
    /// [`ProfileError::Memory`], and those of [`Profile::memory`].
    pub fn fits_memory(&self, available: Bytes) -> Result<Bytes, ProfileError> {
        let needed = self.memory()?;
        if needed <= available {
            return Ok(needed);
        }
        let page = self.flash.as_ref().map_or(Bytes::ZERO, |flash| flash.page);
        Err(ProfileError::Memory {
            name: self.name.clone(),
            capacity: self.capacity,
            page,
            needed,
            available,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{AnyLayer, FrontLayer};

    fn profile(more: &str) -> Profile {
        let head = "version = 2\nname = \"t\"\ntitle = \"\"\nsource = \"\"\nfit = \"\"\ncapacity = \"256MiB\"\nblock = \"4KiB\"\n";
        Profile::parse(&format!("{head}[flash]\n{more}"), "t").unwrap()
    }

    #[test]
    fn it_is_what_a_map_takes() {
        for options in ["", "hot_within = 1000", "policy = \"fifo\"\nstreams = 4"] {
            let profile = profile(&format!("dies = 4\n[translation.page_map]\n{options}\n"));
            let flash = profile.flash.as_ref().unwrap();
            let array = flash.geometry(profile.capacity, 0).unwrap();
            let built = translation::build(&profile.translation, flash, profile.capacity, &array).unwrap();
            let FrontLayer::Plain(AnyLayer::PageMap(map)) = built else { panic!("a page map was described") };
            let ratio = profile.memory().unwrap().0 as f64 / map.memory().0 as f64;
            assert!((0.95..1.1).contains(&ratio), "{options}: {ratio}");
        }
    }

    #[test]
    fn a_device_that_does_not_fit_the_memory_is_refused() {
        let profile = Profile::parse(
            "version = 2\nname = \"large\"\ntitle = \"\"\nsource = \"\"\nfit = \"\"\ncapacity = \"8TiB\"\n[flash]\n",
            "large.toml",
        );
        let profile = profile.unwrap();
        insta::assert_snapshot!(profile.fits_memory(Bytes::gib(16)).unwrap_err(), @"sim:large: to simulate a `capacity` of 8 TiB in pages of 4 KiB takes 18.3 GiB of memory, and 16 GiB are available: choose a larger `flash.page`, or a `capacity` of up to 4 TiB");
        assert!(profile.fits_memory(Bytes::gib(32)).unwrap() > Bytes::gib(18));
    }

    #[test]
    fn every_state_is_smaller_than_the_largest() {
        for profile in crate::zoo() {
            let Ok(small) = profile.resized(profile.capacity.min(Bytes::mib(256))) else { continue };
            let crate::SimulatedDevice::Flash(device) = small.device().unwrap() else { continue };
            let (size, most) = (device.save().len() as u64, small.largest_state().unwrap());
            assert!(size < most.0, "{}: {size} against {most}", profile.name);
        }
    }

    #[test]
    fn what_a_device_has_more_takes_more() {
        let memory = |more| profile(more).memory().unwrap();
        let mut least_first = [
            memory("[translation.zones]\n"),
            memory("[translation.log_blocks]\n"),
            memory("[translation.shared_logs]\n"),
            memory("[translation.page_map]\n"),
            memory("zeros_program_share = 0.5\n"),
            memory("[translation.demand_map]\n"),
            memory(
                "[flash.slc_cache]\nsize = \"16MiB\"\nread = \"20us\"\nprogram = \"100us\"\nerase = \"1ms\"\n[translation.demand_map]\n",
            ),
        ];
        let written = least_first;
        least_first.sort();
        assert_eq!(written, least_first);
        assert_eq!(
            crate::zoo().iter().filter(|profile| profile.memory().unwrap() > Bytes::gib(1)).count(),
            0
        );
    }
}
