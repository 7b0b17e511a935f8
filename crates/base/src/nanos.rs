//! A duration or an instant, in nanoseconds: the one grammar for durations in flashlab.
//!
//! Command lines, plans, profiles and keys of exports read durations here. The grammar:
//! - a number and a unit: `100ns`, `70us`, `0.1ms`, `2.5s`, `3min`, `5h`, `2d`;
//! - several of them, the largest unit first: `1h30m`, `2min 30s`;
//! - `m` is `min`, and `µs` is `us`; spaces are allowed; a bare `0` needs no unit.
//!
//! Invariants: [`Nanos::exact`] is read back to the same value. [`fmt::Display`] is for people: three
//! significant digits, and always `us`, which every terminal and font shows.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use crate::text_or_number::{TextOrNumber, TextOrNumberVisitor};

/// Nanoseconds: a duration, or an instant since a clock's own origin.
///
/// Read from a number with a unit, such as `0.1ms`, `90s` or `1h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The units that durations are written in, the largest first.
const UNITS: [(&str, u64); 6] =
    [("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

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
        let seconds = self.0.saturating_add(SECOND / 2) / SECOND;
        let minutes = self.0.saturating_add(MINUTE / 2) / MINUTE;
        if seconds >= 3600 {
            return f.pad(&two_units(minutes / 60, "h", minutes % 60, "min"));
        }
        if seconds >= 120 {
            return f.pad(&two_units(seconds / 60, "min", seconds % 60, "s"));
        }
        // 999.6 us would be shown as 1000 us: the next unit begins where rounding reaches it.
        let fits = |&(unit, size): &(&str, u64)| {
            unit != "h" && unit != "min" && self.0 as f64 >= size as f64 * 0.9995
        };
        let (unit, size) = UNITS.into_iter().find(fits).unwrap_or(("ns", 1));
        f.pad(&format!("{} {unit}", three_digits(self.0 as f64 / size as f64)))
    }
}

/// As `2 min 5 s`; the second unit is left out where its count is zero.
fn two_units(count: u64, unit: &str, part_count: u64, part_unit: &str) -> String {
    match part_count {
        0 => format!("{count} {unit}"),
        _ => format!("{count} {unit} {part_count} {part_unit}"),
    }
}

/// `value`, from 0 to 1000, with three significant digits and without zeros at its end: `590`, `12.8`, `0.84`.
fn three_digits(value: f64) -> String {
    let decimals = match value {
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseNanosError {
    /// It is not made of numbers with units.
    #[error("`{0}` is not a duration: write a number with a unit, as in 70us, 0.1ms, 90s or 1h30m")]
    NotADuration(String),
    /// It does not fit in 64 bits.
    #[error("`{0}` is too long: a duration is below 5124095h (2^64 ns)")]
    TooLong(String),
}

/// How many nanoseconds a unit of a duration has, by any of its spellings.
fn unit_size(unit: &str) -> Option<u64> {
    match unit {
        "d" => Some(24 * HOUR),
        "m" => Some(MINUTE),
        // The micro sign and the Greek letter look the same.
        "µs" | "μs" => Some(1_000),
        _ => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size),
    }
}

impl FromStr for Nanos {
    type Err = ParseNanosError;

    fn from_str(text: &str) -> Result<Nanos, ParseNanosError> {
        let not_a_duration = || ParseNanosError::NotADuration(text.to_owned());
        let too_long = || ParseNanosError::TooLong(text.to_owned());
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let mut left = text.trim();
        // A bare zero needs no unit; any other bare number could be anything.
        if left == "0" {
            return Ok(Nanos::ZERO);
        }
        let (mut total, mut last_size) = (0u64, u64::MAX);
        while !left.is_empty() || last_size == u64::MAX {
            let (number, from_unit) = left.split_at(left.find(|c| !is_number(c)).unwrap_or(left.len()));
            let (unit, next) = from_unit.split_at(from_unit.find(is_number).unwrap_or(from_unit.len()));
            let size = unit_size(unit.trim()).ok_or_else(not_a_duration)?;
            // The largest unit comes first, each of them once: `30m1h` and `1s1s` are mistakes.
            if size >= last_size {
                return Err(not_a_duration());
            }
            let nanos = match number.parse::<u64>() {
                Ok(whole) => whole.checked_mul(size).ok_or_else(too_long)?,
                Err(_) => {
                    let value = number.parse::<f64>().map_err(|_| not_a_duration())? * size as f64;
                    if value >= u64::MAX as f64 {
                        return Err(too_long());
                    }
                    value.round() as u64
                }
            };
            total = total.checked_add(nanos).ok_or_else(too_long)?;
            (left, last_size) = (next, size);
        }
        Ok(Nanos(total))
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

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(times: I) -> Nanos {
        times.fold(Nanos::ZERO, |sum, time| sum + time)
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
            ("90s", 90_000_000_000),
            ("500\u{3bc}s", 500_000),
            ("2d", 172_800_000_000_000),
            ("1h30m", 5_400_000_000_000),
            (" 1h 2min 3s 4ms 5us 6ns ", 3_723_004_005_006),
            ("1.5h30s", 5_430_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(expected)), "{text}");
        }
        for text in
            ["", " ", "5", "ms", "1.2.3s", "-1s", "3 weeks", "1h30", "30m1h", "1s1s", "1m1min", "1h,30m", "."]
        {
            let error = text.parse::<Nanos>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "`{text}` is not a duration: write a number with a unit, as in 70us, 0.1ms, 90s or 1h30m"
                )
            );
        }
        for text in ["6000000h", "18446744073709551616ns", "5124095h60m", "213503d24h"] {
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

    #[test]
    fn durations_are_displayed_for_people() {
        for (nanos, shown) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (20_050, "20.1 us"),
            (589_644, "590 us"),
            (999_600, "1 ms"),
            (839_644, "840 us"),
            (1_280_000, "1.28 ms"),
            (10_000_000, "10 ms"),
            (2_500_000_000, "2.5 s"),
            (119_400_000_000, "119 s"),
            (119_600_000_000, "2 min"),
            (125_000_000_000, "2 min 5 s"),
            (3_599_600_000_000, "1 h"),
            (5_400_000_000_000, "1 h 30 min"),
            (360_000_000_000_000, "100 h"),
            (u64::MAX, "5124095 h 34 min"),
        ] {
            assert_eq!(Nanos(nanos).to_string(), shown);
        }
        assert_eq!(format!("{:>8}|{:<8}|", Nanos(500), Nanos(70_000)), "  500 ns|70 us   |");
    }
}
