//! The present time, as changes of files get it.
//!
//! # Model
//! As ext4's times since Linux 6.13. A change gets the time of the last tick. So a program that syncs each write does not have a new time
//! recorded with each, which would be a second record. But after somebody looked at a file's times, the next change of any file gets the
//! clock's time. So who looks twice sees every change.
//!
//! # Invariants
//! - A change after a look has a later time than what was seen.
//! - No time is earlier than one before it, unless the system's clock was set back.

use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::locks::lock;

/// The kernel's timer tick: 250 a second, as distributions build it.
const TICK_NS: i64 = 4_000_000;

/// A clock for the times of files.
#[derive(Default)]
pub(crate) struct FileClock(Mutex<State>);

#[derive(Default)]
struct State {
    last_ns: i64,
    is_looked_at: bool,
}

impl FileClock {
    /// The time of a change now, in nanoseconds since 1970.
    pub fn now_ns(&self) -> i64 {
        // The clock is read under the lock: the order of the times is that of the calls.
        let mut state = lock(&self.0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        state.at(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Notes that somebody gets to know the times of a file.
    pub fn look(&self) {
        lock(&self.0).is_looked_at = true;
    }
}

impl State {
    fn at(&mut self, now_ns: i64) -> i64 {
        let is_looked_at = std::mem::take(&mut self.is_looked_at);
        let time_ns = if is_looked_at { now_ns } else { now_ns / TICK_NS * TICK_NS };
        let is_set_back = now_ns < self.last_ns;
        self.last_ns = if is_set_back { time_ns } else { time_ns.max(self.last_ns) };
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_in_a_tick_have_one_time_until_somebody_looks() {
        let mut clock = State::default();
        let begin = 1000 * TICK_NS;
        assert_eq!([1, 5, TICK_NS - 1].map(|after| clock.at(begin + after)), [begin; 3]);
        assert_eq!(clock.at(begin + TICK_NS), begin + TICK_NS);
        clock.is_looked_at = true;
        let fine = begin + TICK_NS + 7;
        assert_eq!(clock.at(fine), fine, "a change after a look");
        assert_eq!(clock.at(fine + 9), fine, "another file's, which may have been looked at, too");
        assert_eq!(clock.at(begin + 2 * TICK_NS + 1), begin + 2 * TICK_NS);
        assert_eq!(clock.at(begin - 1), begin - TICK_NS, "the clock was set back");
    }
}
