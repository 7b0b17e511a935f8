//! A device profile: what a simulated device is made of, as a TOML file.
//!
//! Every duration carries its unit, every size too. Unknown keys are errors, so that a misspelt
//! one is not silently ignored.

use std::fmt;

use flashlab_base::{Bytes, Nanos, Seed};
use serde::{Deserialize, Serialize};

use crate::throughput::ThroughputDevice;

/// The version of the profile format that this program reads.
pub const PROFILE_VERSION: u32 = 1;

/// A simulated device, described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// [`PROFILE_VERSION`].
    pub version: u32,
    /// What comes after `sim:`.
    pub name: String,
    /// The device's name among people.
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
    /// The throughput model.
    pub throughput: Throughput,
    /// A start-up phase of random writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Startup>,
    /// An oscillation of one class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oscillation: Option<Oscillation>,
    /// An effect of random writes on later reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lingering: Option<Lingering>,
    /// Random variation of each response time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
}

/// The throughput model of El Maghraoui et al. section 4: T(n) = A + n B for each of four classes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Reads that continue where the read before them ended.
    pub sequential_read: Line,
    /// Other reads.
    pub random_read: Line,
    /// Writes that continue where the write before them ended.
    pub sequential_write: Line,
    /// Other writes.
    pub random_write: Line,
}

/// One class's line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// A: the fixed time of an IO.
    pub a: Nanos,
    /// B: microseconds for each KiB.
    pub b_us_per_kb: f64,
}

impl Line {
    /// T(n), in nanoseconds.
    pub fn time_ns(&self, size: Bytes) -> f64 {
        self.a.0 as f64 + self.b_us_per_kb * 1e3 * (size.0 as f64 / 1024.0)
    }
}

/// One of the four classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// See [`Throughput::sequential_read`].
    SequentialRead,
    /// See [`Throughput::random_read`].
    RandomRead,
    /// See [`Throughput::sequential_write`].
    SequentialWrite,
    /// See [`Throughput::random_write`].
    RandomWrite,
}

/// After rest, some random writes are absorbed at a lower cost (uFLIP section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Startup {
    /// How many random writes a rested device absorbs.
    pub ios: u64,
    /// What an absorbed one costs, relative to the model.
    pub factor: f64,
    /// How long without random writes until the device is wholly rested again.
    pub rest: Nanos,
}

/// Every `period`-th IO of a class does the work of all of them; the mean stays the model's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oscillation {
    /// The class that oscillates.
    pub class: Class,
    /// The length of one oscillation in IOs of that class, at least 2.
    pub period: u64,
    /// The part of a period's time that its last IO takes, between 1/period and 1.
    pub peak_share: f64,
}

/// Random writes leave work behind that slows reads down (uFLIP section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lingering {
    /// What each random write adds to the time that reads are slow.
    pub per_write: Nanos,
    /// The longest that reads are slow after the last random write.
    pub longest: Nanos,
    /// What a slow read costs, relative to the model.
    pub read_factor: f64,
}

/// Log-normal variation around the model, with mean 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Where the variation starts from.
    #[serde(default)]
    pub seed: Seed,
}

fn default_block() -> Bytes {
    Bytes(512)
}

impl Profile {
    /// Reads a profile; `file` is named in errors.
    ///
    /// # Errors
    /// Says the file, the line, the key and the legal range.
    pub fn parse(text: &str, file: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text)
            .map_err(|error| ProfileError::Syntax { file: file.to_owned(), message: error.to_string() })?;
        profile.check().map_err(|(key, value, legal)| ProfileError::Value {
            file: file.to_owned(),
            key,
            value,
            legal,
        })?;
        Ok(profile)
    }

    /// The profile as TOML; [`Profile::parse`] reads it back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is made of texts and numbers")
    }

    /// Builds the device.
    pub fn device(&self) -> ThroughputDevice {
        ThroughputDevice::new(self)
    }

    fn check(&self) -> Result<(), (&'static str, String, &'static str)> {
        let wrong = |key, value: &dyn fmt::Display, legal| Err((key, value.to_string(), legal));
        if self.version != PROFILE_VERSION {
            return wrong("version", &self.version, "1: the only version this program knows");
        }
        if !self.block.0.is_power_of_two() || self.block.0 > 1 << 20 {
            return wrong("block", &self.block, "a power of two from 1B to 1MiB");
        }
        if self.capacity < self.block || self.capacity.0 > 1 << 60 {
            return wrong("capacity", &self.capacity, "from one block to 1 EiB");
        }
        let model = &self.throughput;
        for (key, line) in [
            ("throughput.sequential_read.b_us_per_kb", model.sequential_read),
            ("throughput.random_read.b_us_per_kb", model.random_read),
            ("throughput.sequential_write.b_us_per_kb", model.sequential_write),
            ("throughput.random_write.b_us_per_kb", model.random_write),
        ] {
            if !(0.0..=1e6).contains(&line.b_us_per_kb) || line.a > Nanos::from_secs(1000) {
                return wrong(key, &line.b_us_per_kb, "0 to 1000000, with `a` at most 1000s");
            }
        }
        if let Some(startup) = &self.startup {
            if !(0.0..=1000.0).contains(&startup.factor) {
                return wrong("startup.factor", &startup.factor, "0 to 1000");
            }
            if startup.ios > 1 << 32 {
                return wrong("startup.ios", &startup.ios, "0 to 4294967296");
            }
        }
        if let Some(oscillation) = &self.oscillation {
            if !(2..=1 << 32).contains(&oscillation.period) {
                return wrong("oscillation.period", &oscillation.period, "2 to 4294967296");
            }
            if !(1.0 / oscillation.period as f64..=1.0).contains(&oscillation.peak_share) {
                return wrong("oscillation.peak_share", &oscillation.peak_share, "1/period to 1");
            }
        }
        if let Some(lingering) = &self.lingering
            && !(0.0..=1000.0).contains(&lingering.read_factor)
        {
            return wrong("lingering.read_factor", &lingering.read_factor, "0 to 1000");
        }
        if let Some(noise) = &self.noise
            && !(0.0..=3.0).contains(&noise.sigma)
        {
            return wrong("noise.sigma", &noise.sigma, "0 to 3");
        }
        Ok(())
    }
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is no TOML, or has unknown, missing or mistyped keys.
    Syntax {
        /// The profile's file.
        file: String,
        /// The line, the key and what is wrong.
        message: String,
    },
    /// A value that no device can have.
    Value {
        /// The profile's file.
        file: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        legal: &'static str,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileError::Syntax { file, message } => write!(f, "profile {file}: {message}"),
            ProfileError::Value { file, key, value, legal } => {
                write!(f, "profile {file}: `{key}` is {value}; it may be {legal}")
            }
        }
    }
}

impl std::error::Error for ProfileError {}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEUS: &str = include_str!("../profiles/zeus.toml");

    #[test]
    fn a_profile_is_printed_and_read_back() {
        let text = format!(
            "{ZEUS}\n[startup]\nios = 125\nfactor = 0.05\nrest = \"2.5s\"\n[oscillation]\nclass = \"random_write\"\n\
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
        insta::assert_snapshot!(error("version = 1", "version = 7"), @"profile x.toml: `version` is 7; it may be 1: the only version this program knows");
        insta::assert_snapshot!(error("512B", "500B"), @"profile x.toml: `block` is 500 B; it may be a power of two from 1B to 1MiB");
        insta::assert_snapshot!(error("b_us_per_kb = 4.005", "b_us_per_kb = -1.0"), @"profile x.toml: `throughput.sequential_read.b_us_per_kb` is -1; it may be 0 to 1000000, with `a` at most 1000s");
        let misspelt = error("capacity =", "capacty =");
        assert!(misspelt.contains("capacty") && misspelt.contains("line 6"), "{misspelt}");
    }
}
