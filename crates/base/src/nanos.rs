//! A duration or an instant, in nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::bytes::{TextOrNumber, TextOrNumberVisitor};

/// Nanoseconds: a duration, or an instant since a clock's own origin.
///
/// Written with a unit: `100ns`, `70us`, `0.1ms`, `2.5s`, `3min`, `5h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Nanos {
    /// No time at all, or a clock's origin.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than any clock shows: waiting until then is waiting for the next event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }

    /// `seconds`, rounded to the nearest nanosecond; negative and undefined values become zero.
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9).round() as u64)
    }

    /// The raw number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time from `earlier` to this instant, or zero if that is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// This plus `other`, or [`Nanos::MAX`].
    pub const fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// The written form that [`FromStr`] reads back to exactly this value.
    pub fn exact(self) -> String {
        // Milliseconds and microseconds carry one decimal, as the papers write `0.1ms`.
        for (unit, size) in UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return format!("{}{unit}", self.0 / size);
            }
            if size == 1_000_000 && self.0 >= size / 10 && self.0.is_multiple_of(size / 10) {
                return format!("{}.{}ms", self.0 / size, self.0 % size / (size / 10));
            }
        }
        format!("{}ns", self.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        f.pad(&match self.0 {
            0..1_000 => format!("{n} ns"),
            1_000..1_000_000 => format!("{:.1} us", n / 1e3),
            1_000_000..1_000_000_000 => format!("{:.2} ms", n / 1e6),
            1_000_000_000..120_000_000_000 => format!("{:.1} s", n / 1e9),
            120_000_000_000..7_200_000_000_000 => format!("{:.1} min", n / 6e10),
            _ => format!("{:.1} h", n / 3.6e12),
        })
    }
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseNanosError {
    text: String,
    is_too_long: bool,
}

impl fmt::Display for ParseNanosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        if self.is_too_long {
            return write!(f, "`{text}` is too long: a duration is below 5124095h (2^64 ns)");
        }
        write!(f, "`{text}` is not a duration: write a number with a unit, as in 70us, 0.1ms, 2.5s or 3min")
    }
}

impl std::error::Error for ParseNanosError {}

impl FromStr for Nanos {
    type Err = ParseNanosError;

    fn from_str(text: &str) -> Result<Nanos, ParseNanosError> {
        let error = |is_too_long| ParseNanosError { text: text.to_owned(), is_too_long };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
        let factor = match unit {
            // A bare zero needs no unit; any other bare number could be anything.
            "" if number == "0" => 1,
            "µs" => 1_000,
            "m" => 60_000_000_000,
            _ => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| error(false))?.1,
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Nanos).ok_or_else(|| error(true));
        }
        let value = number.parse::<f64>().map_err(|_| error(false))? * factor as f64;
        if value >= u64::MAX as f64 {
            return Err(error(true));
        }
        Ok(Nanos(value.round() as u64))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, factor: u64) -> Nanos {
        Nanos(self.0 * factor)
    }
}

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.exact())
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Nanos);
        }
        const EXPECTED: &str = "a duration with its unit such as \"0.1ms\"";
        match deserializer.deserialize_any(TextOrNumberVisitor(EXPECTED))? {
            TextOrNumber::Text(text) => text.parse().map_err(de::Error::custom),
            TextOrNumber::Number(0) => Ok(Nanos::ZERO),
            TextOrNumber::Number(other) => {
                Err(de::Error::invalid_value(de::Unexpected::Unsigned(other), &EXPECTED))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, expected) in [
            ("0", 0),
            ("100ns", 100),
            ("70us", 70_000),
            ("70 µs", 70_000),
            ("0.1ms", 100_000),
            ("2.5s", 2_500_000_000),
            ("3min", 180_000_000_000),
            ("5h", 18_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(expected)), "{text}");
        }
        for text in ["", "5", "ms", "1.2.3s", "-1s", "3 weeks"] {
            let error = text.parse::<Nanos>().unwrap_err().to_string();
            assert!(error.contains("is not a duration"), "{text}: {error}");
        }
        for text in ["6000000h", "18446744073709551616ns"] {
            let error = text.parse::<Nanos>().unwrap_err().to_string();
            assert_eq!(error, format!("`{text}` is too long: a duration is below 5124095h (2^64 ns)"));
        }
    }

    #[test]
    fn the_exact_form_is_read_back() {
        for value in [
            0,
            1,
            999,
            1_000,
            70_500,
            100_000,
            25_600_000,
            1_100_000,
            2_500_000_000,
            7_200_000_000_000,
            123_456_789,
        ] {
            assert_eq!(Nanos(value).exact().parse(), Ok(Nanos(value)), "{value}");
        }
        assert_eq!(Nanos(100_000).exact(), "0.1ms");
        assert_eq!(Nanos(25_600_000).exact(), "25.6ms");
    }
}
