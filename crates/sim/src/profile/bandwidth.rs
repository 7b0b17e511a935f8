//! A bandwidth, with its unit.

use std::fmt;
use std::str::FromStr;

use flashlab_base::{Bytes, Nanos};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes a second, written as `40MB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth(pub Bytes);

impl Bandwidth {
    /// How long `size` takes.
    pub fn time(self, size: Bytes) -> Nanos {
        Nanos((size.0 as f64 * self.ns_per_byte()).round() as u64)
    }

    /// Nanoseconds for each byte.
    pub fn ns_per_byte(self) -> f64 {
        1e9 / self.0.0.max(1) as f64
    }
}

impl FromStr for Bandwidth {
    type Err = String;
    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let wrong = || format!("`{text}` is not a bandwidth: write bytes a second with a unit, as in 40MB/s");
        let bytes: Bytes = text.trim().strip_suffix("/s").ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
        if bytes < Bytes(1000) {
            return Err(format!("`{text}` is too slow: a bandwidth is at least 1KB/s"));
        }
        Ok(Bandwidth(bytes))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)] {
            if self.0.0.is_multiple_of(size) {
                return write!(f, "{}{unit}/s", self.0.0 / size);
            }
        }
        write!(f, "{}/s", self.0.exact())
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bandwidth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bandwidth, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Bandwidth;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a bandwidth with its unit such as \"40MB/s\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bandwidth, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
