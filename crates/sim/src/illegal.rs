//! A value that no device can have.

use std::fmt;

use flashlab_base::Nanos;

/// A key of a profile, its value, and what it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Illegal {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) legal: String,
}

impl Illegal {
    pub(crate) fn new(key: impl Into<String>, value: impl fmt::Display, legal: impl Into<String>) -> Illegal {
        Illegal { key: key.into(), value: value.to_string(), legal: legal.into() }
    }

    /// The same for a number that may have hundreds of digits.
    pub(crate) fn number(key: impl Into<String>, value: f64, legal: impl Into<String>) -> Illegal {
        let digits = if value.abs() < 1e12 { value.to_string() } else { format!("{value:e}") };
        Illegal::new(key, digits, legal)
    }

    /// The same with the least that the value may be, and what is legal as the reason.
    pub(crate) fn at_least(self, least: String) -> Illegal {
        Illegal { legal: format!("{least}: {}", self.legal), ..self }
    }
}

/// Checks the duration of an operation. A longer one is a mistake in the unit, and millions of such operations would
/// overflow a clock of nanoseconds.
pub(crate) fn check_duration(key: &str, duration: Nanos) -> Result<(), Illegal> {
    if duration <= Nanos::from_secs(100) { Ok(()) } else { Err(Illegal::new(key, duration, "0 to 100s")) }
}

/// Checks how long something may go on while the device is idle.
pub(crate) fn check_idle_time(key: &str, idle: Nanos) -> Result<(), Illegal> {
    if idle <= Nanos::from_secs(86_400) { Ok(()) } else { Err(Illegal::new(key, idle, "0 to 24h")) }
}
