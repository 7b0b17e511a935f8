//! A device profile: what a simulated device is made of, as a TOML file.
//!
//! A profile has one of the sections `[throughput]` (a throughput model alone), `[flash]` (with `[controller]` and
//! `[translation]`) and `[disk]` (a hard disk). Durations and sizes have units. Unknown keys are errors, so that a misspelt
//! key is not ignored.

mod bandwidth;
mod controller;
mod disk;
mod flash;
mod memory;
mod response_tree;
mod throughput;
pub(crate) mod translation;

use flashlab_base::{Bytes, Identity};
use flashlab_device::{DataHandling, Geometry};
use serde::{Deserialize, Serialize};

use crate::illegal::Illegal;
use crate::layer::{Surroundings, Translation};
pub use crate::noise::Noise;
pub use bandwidth::Bandwidth;
pub use controller::{
    BackgroundSection, ControllerSection, FlushPolicy, Limit, PipelineSection, Placement, ReadBufferSection,
    SegmentGroups, WriteBufferSection,
};
pub use disk::{DiskSection, Seek};
pub use flash::{Energy, FlashSection, PerPage, SlcCacheSection};
pub use response_tree::{ResponseTree, TreeLeaf, TreeSplit};
pub use throughput::{LingeringReads, Oscillation, Startup, Throughput, ThroughputClass, ThroughputLine};

/// The version of the profile format that this program writes.
pub const PROFILE_VERSION: u32 = 2;

/// The kind of a device of measured response times.
pub const RESPONSE_TREE: &str = "response tree";

/// A simulated device, described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// [`PROFILE_VERSION`].
    pub version: u32,
    /// Its name behind `sim:`.
    pub name: String,
    /// The device's name in reports.
    pub title: String,
    /// Where its figures come from.
    pub source: String,
    /// How it was fitted, and how well.
    pub fit: String,
    /// The size of the device.
    pub capacity: Bytes,
    /// The smallest IO.
    #[serde(default = "default_block")]
    pub block: Bytes,
    /// A throughput model, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Of a throughput model: a start-up phase of random writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Startup>,
    /// Of a throughput model: an oscillation of one class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oscillation: Option<Oscillation>,
    /// Of a throughput model: an effect of random writes on later reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lingering: Option<LingeringReads>,
    /// Of a throughput model: response times that were measured, instead of those of the four lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_tree: Option<ResponseTree>,
    /// An array of flash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashSection>,
    /// A hard disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSection>,
    /// What stands between the host and the flash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub controller: ControllerSection,
    /// The translation layer, which maps the host's pages to pages of the flash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub translation: Translation,
    /// Random variation of each response time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
}

fn default_block() -> Bytes {
    Bytes(512)
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The message of the TOML reader, with the ranges of types instead of their names.
fn plain(message: &str) -> String {
    const NAMES: [(&str, &str); 9] = [
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0 on"),
        ("expected f64", "expected a number"),
        ("expected any value", "which is too large"),
        (" as i128", ""),
        (
            "wanted exactly 1 element, more than 1 element",
            "expected one translation layer, and there are more",
        ),
        ("unit variant, expected newtype variant", "string, expected a section as [translation.page_map]"),
        ("expected struct ", "expected a section, as of "),
    ];
    NAMES.iter().fold(message.to_owned(), |message, (name, words)| message.replace(name, words))
}

impl Profile {
    /// A profile of this version without any text or section. It describes a device when a part is added that takes time:
    /// a throughput model, an array of flash, or a hard disk.
    pub fn new(name: impl Into<String>, capacity: Bytes, block: Bytes) -> Profile {
        Profile {
            version: PROFILE_VERSION,
            name: name.into(),
            title: String::new(),
            source: String::new(),
            fit: String::new(),
            capacity,
            block,
            throughput: None,
            startup: None,
            oscillation: None,
            lingering: None,
            response_tree: None,
            flash: None,
            disk: None,
            controller: ControllerSection::default(),
            translation: Translation::default(),
            noise: None,
        }
    }

    /// Reads a profile; `file` is named in errors.
    ///
    /// # Errors
    /// Says the file, the line, the key and the legal range.
    pub fn parse(text: &str, file: &str) -> Result<Profile, ProfileError> {
        let wrong = |message| ProfileError::Syntax { file: file.to_owned(), message };
        let profile: Profile = toml::from_str(text).map_err(|error| wrong(plain(&error.to_string())))?;
        profile.check().map_err(|illegal| ProfileError::value(file, illegal))?;
        Ok(profile)
    }

    /// The profile as TOML; [`Profile::parse`] reads it back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is made of texts and numbers")
    }

    /// The same device with another capacity, as in a series of one maker. The SLC cache keeps its share of the device. When the
    /// capacity has too few blocks for all dies, the blocks become smaller, by halves, down to 32 pages. After that the
    /// number of dies becomes smaller.
    ///
    /// # Errors
    /// When the profile's parts do not fit together even so.
    pub fn resized(&self, capacity: Bytes) -> Result<Profile, ProfileError> {
        let mut resized = Profile { capacity: capacity.round_down(self.block), ..self.clone() };
        let factor = resized.capacity.0 as f64 / self.capacity.0.max(1) as f64;
        loop {
            if let (Some(flash), Some(own)) = (&mut resized.flash, &self.flash) {
                flash.resize_slc_cache(own, factor);
            }
            let Err(illegal) = resized.check() else { return Ok(resized) };
            if !resized.flash.as_mut().is_some_and(FlashSection::shrink) {
                return Err(ProfileError::value(&format!("sim:{} of {capacity}", self.name), illegal));
            }
        }
    }

    /// A number that changes with any key that the device depends on.
    pub(crate) fn fingerprint(&self) -> u64 {
        // FNV-1a over the text, but for what people read.
        let nameless =
            Profile { title: String::new(), source: String::new(), fit: String::new(), ..self.clone() };
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        nameless.to_toml().bytes().fold(0xCBF2_9CE4_8422_2325, step)
    }

    /// The geometry of a device without flash, which has this depth.
    pub(crate) fn geometry(&self, depth: u32) -> Geometry {
        Geometry {
            capacity: self.capacity.round_down(self.block),
            block: self.block,
            depth,
            data: DataHandling::Ignored,
        }
    }

    /// The device's identity.
    pub fn identity(&self) -> Identity {
        Identity {
            target: format!("sim:{}", self.name),
            kind: "simulated".to_owned(),
            model: Some(self.title.clone()),
            mechanism: Some(self.kind().to_owned()),
            profile_fingerprint: Some(format!("{:016x}", self.fingerprint())),
            capacity: self.capacity.round_down(self.block),
            logical_block: Some(self.block),
            rotational: Some(false),
            engine: Some("virtual time".to_owned()),
            ..Identity::default()
        }
    }

    /// Whether it is written in zones only.
    pub fn is_zoned(&self) -> bool {
        self.flash.is_some() && matches!(self.translation, Translation::Zones(_))
    }

    /// The kind of device in a word or two: its translation layer, or its model without flash.
    pub fn kind(&self) -> &'static str {
        match (&self.flash, &self.disk) {
            (Some(_), _) => self.translation.kind(),
            (None, Some(_)) => "hard disk",
            (None, None) if self.response_tree.is_some() => RESPONSE_TREE,
            (None, None) => "throughput model",
        }
    }

    fn check(&self) -> Result<(), Illegal> {
        if self.version != PROFILE_VERSION {
            return Err(Illegal::new("version", self.version, "2: the version that this program knows"));
        }
        if !self.block.0.is_power_of_two() || self.block.0 > 1 << 20 {
            return Err(Illegal::new("block", self.block, "a power of two from 1B to 1MiB"));
        }
        if self.capacity < self.block || self.capacity.0 > 1 << 60 {
            return Err(Illegal::new("capacity", self.capacity, "from one block to 1 EiB"));
        }
        if let Some(noise) = &self.noise {
            noise.check()?;
        }
        if self.throughput.is_none() {
            for (key, present) in [
                ("startup", self.startup.is_some()),
                ("oscillation", self.oscillation.is_some()),
                ("lingering", self.lingering.is_some()),
                ("response_tree", self.response_tree.is_some()),
            ] {
                if present {
                    return Err(Illegal::new(key, "there", "absent: it belongs to a throughput model"));
                }
            }
        }
        if self.flash.is_none() {
            for (key, absent) in
                [("controller", is_default(&self.controller)), ("translation", is_default(&self.translation))]
            {
                if !absent {
                    return Err(Illegal::new(key, "there", "absent: it belongs to flash"));
                }
            }
        }
        match (&self.throughput, &self.flash, &self.disk) {
            (Some(throughput), None, None) => {
                throughput.check()?;
                self.startup.as_ref().map_or(Ok(()), Startup::check)?;
                self.oscillation.as_ref().map_or(Ok(()), Oscillation::check)?;
                self.lingering.as_ref().map_or(Ok(()), LingeringReads::check)?;
                self.response_tree.as_ref().map_or(Ok(()), ResponseTree::check)
            }
            (None, Some(flash), None) => {
                flash.check(self.block)?;
                self.controller.check(flash.page)?;
                let surroundings = Surroundings {
                    block: self.block,
                    page: flash.page,
                    has_slc_cache: flash.slc_cache.is_some(),
                    flushes_when_full: self
                        .controller
                        .write_buffer
                        .is_some_and(|buffer| buffer.flush == FlushPolicy::WhenFull),
                };
                translation::check(&self.translation, flash, self.capacity, &surroundings)
            }
            (None, None, Some(disk)) => disk.check(self.capacity, self.block),
            (None, None, None) => {
                let legal = "there, or `throughput` or `disk`: a device is one of them";
                Err(Illegal::new("flash", "absent", legal))
            }
            (Some(_), Some(_), _) => {
                Err(Illegal::new("flash", "there", "absent where `throughput` is there"))
            }
            (_, _, Some(_)) => {
                Err(Illegal::new("disk", "there", "absent where `throughput` or `flash` is there"))
            }
        }
    }
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is no TOML, or has unknown, missing or mistyped keys.
    #[error("profile {file}: {message}")]
    Syntax {
        /// The profile's file.
        file: String,
        /// The line, the key and what is wrong.
        message: String,
    },
    /// A value that no device can have.
    #[error("profile {file}: `{key}` is {value}; it may be {legal}")]
    Value {
        /// The profile's file.
        file: String,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What it may be.
        legal: String,
    },
    /// No profile of the zoo has this name.
    #[error(
        "there is no simulated device `{name}`: `flashlab sim list` names them; or give a file as sim:./{name}.toml"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// The device's tables do not fit into memory.
    #[error(
        "sim:{name}: to simulate a `capacity` of {capacity} in pages of {page} takes {needed} of memory, and {available} \
         are available: choose a larger `flash.page`, or a `capacity` of up to {}",
        capacity_for(*capacity, *needed, *available)
    )]
    Memory {
        /// The profile's name.
        name: String,
        /// The device's size.
        capacity: Bytes,
        /// The size of its pages.
        page: Bytes,
        /// What its tables take.
        needed: Bytes,
        /// What there is.
        available: Bytes,
    },
}

impl ProfileError {
    pub(crate) fn value(file: &str, illegal: Illegal) -> ProfileError {
        let Illegal { key, value, legal } = illegal;
        ProfileError::Value { file: file.to_owned(), key, value, legal }
    }
}

/// The largest power of two whose tables fit into `available` memory, when those of `capacity` take `needed`.
fn capacity_for(capacity: Bytes, needed: Bytes, available: Bytes) -> Bytes {
    let most = (capacity.0 as f64 * available.0 as f64 / needed.0 as f64) as u64;
    Bytes(1 << most.max(1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEUS: &str = include_str!("../profiles/zeus.toml");

    #[test]
    fn a_profile_is_printed_and_read_back() {
        let text = format!(
            "{ZEUS}\n[startup]\nios = 125\nfactor = 0.05\nidle = \"2.5s\"\n[oscillation]\nclass = \"random_write\"\n\
             period = 32\npeak_share = 0.9\n[lingering]\nper_write = \"20ms\"\nlongest = \"2.5s\"\nread_factor = 2.0\n\
             [noise]\nsigma = 0.1\n"
        );
        let profile = Profile::parse(&text, "test").unwrap();
        assert_eq!(Profile::parse(&profile.to_toml(), "printed"), Ok(profile));
    }

    #[test]
    fn what_no_device_can_have_is_refused_with_the_legal_range() {
        let error =
            |from: &str, to: &str| Profile::parse(&ZEUS.replace(from, to), "x.toml").unwrap_err().to_string();
        insta::assert_snapshot!(error("version = 2", "version = 7"), @"profile x.toml: `version` is 7; it may be 2: the version that this program knows");
        insta::assert_snapshot!(error("512B", "500B"), @"profile x.toml: `block` is 500 B; it may be a power of two from 1B to 1MiB");
        insta::assert_snapshot!(error("b_us_per_kb = 4.005", "b_us_per_kb = -1.0"), @"profile x.toml: `throughput.sequential_read.b_us_per_kb` is -1; it may be 0 to 1000000");
        let misspelt = error("capacity =", "capacty =");
        assert!(misspelt.contains("capacty") && misspelt.contains("line 6"), "{misspelt}");
    }

    #[test]
    fn an_unknown_key_is_refused_with_those_that_there_are() {
        let unknown = format!("{ZEUS}\n[startup]\nios = 125\nfactor = 0.05\nidel = \"2.5s\"\n");
        let error = Profile::parse(&unknown, "new.toml").unwrap_err().to_string();
        assert!(error.trim_end().ends_with("expected one of `ios`, `factor`, `idle`"), "{error}");
    }
}
