//! Why a probe could not go on, as a sentence: it becomes the evidence of its parameters.

use std::fmt::Display;

use flashlab_base::{Bytes, Nanos};
use thiserror::Error;

/// Why a probe could not go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Halt {
    /// The user or a signal ended it.
    #[error("The inference was interrupted.")]
    Interrupted,
    /// The device is gone: no probe can go on.
    #[error("The device is gone: {0}.")]
    Gone(String),
    /// A replayed inference asks for something that was never done.
    #[error("The replay diverges from the recording: {0}.")]
    Diverges(String),
    /// Too many IOs failed; this is the first of them.
    #[error("The probe failed: {0}.")]
    Failed(String),
    /// What the probe builds on is missing: consent, the answers of other probes, or the state that they leave.
    #[error("The probe was left out: {0}.")]
    Lacks(String),
    /// The device is too small for the probe, or takes no such IOs.
    #[error("The device is too small or its blocks are too large for this probe: {0}.")]
    Misfit(String),
    /// More would be written than is allowed.
    #[error("The probe needs to write {needed}, and {} of the write budget is left for it (--write-budget).", less(.left, .needed))]
    Budget {
        /// What the probe needs.
        needed: Bytes,
        /// What the probe has left.
        left: Bytes,
    },
    /// The probe's time is used up.
    #[error("The time for this probe was used up (--time-limit).")]
    Time,
    /// A probe needs more idle time than the probe has left.
    #[error("The probe needs {needed} of idle time, and {} of its time is left (--time-limit).", less(.left, .needed))]
    IdleTime {
        /// What the probe needs.
        needed: Nanos,
        /// What the probe has left.
        left: Nanos,
    },
}

/// None of what could not be done for want of time or budget.
pub(crate) fn if_affordable<T>(result: Result<T, Halt>) -> Result<Option<T>, Halt> {
    match result {
        Err(Halt::Time | Halt::Budget { .. } | Halt::IdleTime { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// What is left, which is less than what is needed, also where both are rounded to the same.
fn less(left: impl Display, needed: impl Display) -> String {
    let (left, needed) = (left.to_string(), needed.to_string());
    if left == needed { "a little less".to_owned() } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_told_as_what_is_needed() {
        let message = |needed, left| Halt::Budget { needed: Bytes(needed), left: Bytes(left) }.to_string();
        assert_eq!(
            message(4096, 512),
            "The probe needs to write 4 KiB, and 512 B of the write budget is left for it (--write-budget)."
        );
        assert_eq!(
            message(2_250_240, 2_250_239),
            "The probe needs to write 2.1 MiB, and a little less of the write budget is left for it (--write-budget)."
        );
        let rest = Halt::IdleTime { needed: Nanos(986_660_002), left: Nanos(986_660_001) };
        assert_eq!(
            rest.to_string(),
            "The probe needs 987 ms of idle time, and a little less of its time is left (--time-limit)."
        );
    }
}
