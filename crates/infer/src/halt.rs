//! Why a group of probes could not go on, in words that its parameters tell.

use std::fmt;

use flashlab_base::{Bytes, Nanos};

/// Why a group could not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Somebody wants it to end.
    Interrupted,
    /// The device is gone: nobody can go on.
    Gone(String),
    /// Too many IOs failed; this is the first of them.
    Failed(String),
    /// What the probe builds on is not there: consent, what other groups find, or the state that they leave.
    Lacks(String),
    /// The device is too small for the probe, or takes no such IOs.
    Misfit(String),
    /// More would be written than is allowed.
    Budget {
        /// What the probe needs.
        needed: Bytes,
        /// What the group has left.
        left: Bytes,
    },
    /// The group's time is used up.
    Time,
    /// A rest is longer than the time that the group has left.
    Rest {
        /// What the probe needs.
        needed: Nanos,
        /// What the group has left.
        left: Nanos,
    },
}

/// None of what could not be done for want of time or budget.
pub(crate) fn if_affordable<T>(result: Result<T, Halt>) -> Result<Option<T>, Halt> {
    match result {
        Err(Halt::Time | Halt::Budget { .. } | Halt::Rest { .. }) => Ok(None),
        other => other.map(Some),
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Interrupted => f.write_str("interrupted"),
            Halt::Gone(reason) => write!(f, "the device is gone: {reason}"),
            Halt::Failed(reason) | Halt::Lacks(reason) => f.write_str(reason),
            Halt::Misfit(reason) => {
                write!(f, "the device is too small or too coarse for this probe: {reason}")
            }
            Halt::Budget { needed, left } => {
                let left = less(left, needed);
                write!(
                    f,
                    "{needed} would have to be written, and {left} of the write budget is left for this (--write-budget)"
                )
            }
            Halt::Time => f.write_str("the time for this was used up (--time-limit)"),
            Halt::Rest { needed, left } => {
                let left = less(left, needed);
                write!(
                    f,
                    "the device has to rest for {needed}, and {left} of the time for this is left (--time-limit)"
                )
            }
        }
    }
}

/// What is left, which is less than what is needed, also where both are rounded to the same.
fn less(left: impl fmt::Display, needed: impl fmt::Display) -> String {
    let (left, needed) = (left.to_string(), needed.to_string());
    if left == needed { "a little less".to_owned() } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_told_as_what_is_needed() {
        let told = |needed, left| Halt::Budget { needed: Bytes(needed), left: Bytes(left) }.to_string();
        assert_eq!(
            told(4096, 512),
            "4 KiB would have to be written, and 512 B of the write budget is left for this (--write-budget)"
        );
        assert_eq!(
            told(2_250_240, 2_250_239),
            "2.1 MiB would have to be written, and a little less of the write budget is left for this (--write-budget)"
        );
        let rest = Halt::Rest { needed: Nanos(986_660_002), left: Nanos(986_660_001) };
        assert_eq!(
            rest.to_string(),
            "the device has to rest for 987 ms, and a little less of the time for this is left (--time-limit)"
        );
    }
}
