//! A number of bytes, as a size or as an offset, with its units.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use crate::text_or_number::{TextOrNumber, TextOrNumberVisitor};

/// A number of bytes.
///
/// Written with a unit: `512`, `512B`, `32KiB`, `1.5GiB` (powers of 1024) or `4MB` (powers of
/// 1000). Displayed in the largest binary unit that is exact or, above 1 MiB, to one decimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

const KIB: u64 = 1024;
const BINARY_UNITS: [(&str, u64); 6] =
    [("EiB", 1 << 60), ("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", KIB)];

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` KiB.
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n * KIB)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n * KIB * KIB)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n * KIB * KIB * KIB)
    }

    /// The raw number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is a multiple of `unit`; everything is a multiple of zero.
    pub const fn is_multiple_of(self, unit: Bytes) -> bool {
        unit.0 == 0 || self.0.is_multiple_of(unit.0)
    }

    /// The largest multiple of `unit` that is not larger than this.
    pub const fn round_down(self, unit: Bytes) -> Bytes {
        match self.0.checked_rem(unit.0) {
            Some(rest) => Bytes(self.0 - rest),
            None => self,
        }
    }

    /// The smallest multiple of `unit` that is not smaller than this, saturating.
    pub const fn round_up(self, unit: Bytes) -> Bytes {
        if unit.0 == 0 { self } else { Bytes(self.0.div_ceil(unit.0).saturating_mul(unit.0)) }
    }

    /// The smallest size that is a multiple of both, saturating. One of them has to be above 0.
    pub const fn least_common_multiple(self, other: Bytes) -> Bytes {
        let (mut divisor, mut rest) = (self.0, other.0);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Bytes((self.0 / divisor).saturating_mul(other.0))
    }

    /// The written form that [`FromStr`] reads back to exactly this value.
    pub fn exact(self) -> String {
        for (unit, size) in BINARY_UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return format!("{}{unit}", self.0 / size);
            }
        }
        format!("{}B", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in BINARY_UNITS {
            if self.0 < size {
                continue;
            }
            return if self.0.is_multiple_of(size) {
                f.pad(&format!("{} {unit}", self.0 / size))
            } else {
                f.pad(&format!("{:.1} {unit}", self.0 as f64 / size as f64))
            };
        }
        f.pad(&format!("{} B", self.0))
    }
}

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseBytesError {
    /// It is not a number with a unit, or not a whole number of bytes.
    #[error("`{0}` is not a size: write a number with a unit, as in 512B, 32KiB, 4MB or 1GiB")]
    NotASize(String),
    /// It does not fit in 64 bits.
    #[error("`{0}` is too large: a size is below 16EiB (2^64 bytes)")]
    TooLarge(String),
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Bytes, ParseBytesError> {
        let not_a_size = || ParseBytesError::NotASize(text.to_owned());
        let too_large = || ParseBytesError::TooLarge(text.to_owned());
        let trimmed = text.trim();
        let split =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
        let number = trimmed[..split].replace('_', "");
        let factor: u64 = match trimmed[split..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "p" | "pib" => 1 << 50,
            "e" | "eib" => 1 << 60,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "pb" => 1_000_000_000_000_000,
            "eb" => 1_000_000_000_000_000_000,
            _ => return Err(not_a_size()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Bytes).ok_or_else(too_large);
        }
        let value = number.parse::<f64>().map_err(|_| not_a_size())? * factor as f64;
        if value >= u64::MAX as f64 {
            return Err(too_large());
        }
        // Half a byte does not exist: `0.5KiB` is a size, `0.3B` is a mistake.
        if value.fract() != 0.0 {
            return Err(not_a_size());
        }
        Ok(Bytes(value as u64))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, factor: u64) -> Bytes {
        Bytes(self.0 * factor)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.exact())
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Bytes);
        }
        let expected = TextOrNumberVisitor("a size such as \"32KiB\" or a number of bytes");
        match deserializer.deserialize_any(expected)? {
            TextOrNumber::Text(text) => text.parse().map_err(de::Error::custom),
            TextOrNumber::Number(number) => Ok(Bytes(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_multiple_is_the_least_one() {
        let of = |a, b| Bytes(a).least_common_multiple(Bytes(b)).0;
        assert_eq!([of(16, 4096), of(12, 4096), of(4097, 4096)], [4096, 12_288, 4097 * 4096]);
        assert_eq!(of(u64::MAX, u64::MAX - 1), u64::MAX);
    }

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units() {
        for (text, expected) in [
            ("512", 512),
            ("512 B", 512),
            ("0.5KiB", 512),
            ("32KiB", 32_768),
            ("32k", 32_768),
            ("4MB", 4_000_000),
            ("1_000", 1000),
            ("1.5GiB", 3 << 29),
            ("2TB", 2_000_000_000_000),
            ("1PiB", 1 << 50),
            ("1.5EiB", 3 << 59),
            ("3 PB", 3_000_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(expected)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["", "KiB", "12 parsecs", "-1", "0.3B", "1e3", "1..5KiB"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains("32KiB"), "{text}: {error}");
        }
        for text in ["20000000TiB", "16EiB", "18446744073709551616", "99999999999999999999.5 GiB"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert_eq!(error, format!("`{text}` is too large: a size is below 16EiB (2^64 bytes)"));
        }
    }

    #[test]
    fn the_exact_form_is_read_back() {
        for value in [0, 1, 511, 512, 1024, 1536, 1 << 20, (1 << 30) + 512, 1 << 53, 15 << 60, u64::MAX] {
            assert_eq!(Bytes(value).exact().parse(), Ok(Bytes(value)));
        }
    }

    #[test]
    fn sizes_are_displayed_for_people() {
        let shown = [512, 1024, 1536, 32 << 10, (1 << 30) + (1 << 29)].map(|n| Bytes(n).to_string());
        assert_eq!(shown, ["512 B", "1 KiB", "1.5 KiB", "32 KiB", "1.5 GiB"]);
    }
}
