//! When data that no program syncs is written and flushed.
//!
//! # Model
//! As ext4 (`commit=5`): what programs wrote is durable some seconds later, whether they sync or not. A file system behind FUSE does not
//! learn of `sync` and `syncfs` (Linux sends `FUSE_SYNCFS` to virtiofs alone), so this is also what stands in for them.
//!
//! # Method
//! A thread looks every few milliseconds. What is dirty is due (1) as soon as no call came for [`IDLE`], or (2) [`DIRTY_MAX`] after the
//! thread first saw it.

use std::time::{Duration, Instant};

/// Without a call for this long nobody is held up by a flush. Longer than the gaps inside a program's burst of calls (a commit of a
/// database on an SD card: up to 50 ms); shorter makes records that are padded for nothing.
pub const IDLE: Duration = Duration::from_millis(100);
/// The longest that a write stays in memory alone: ext4's `commit`.
pub const DIRTY_MAX: Duration = Duration::from_secs(5);

/// What the thread saw so far.
pub struct Writeback {
    calls: u64,
    last_call: Instant,
    dirty_since: Option<Instant>,
}

impl Writeback {
    /// Begins to look.
    pub fn new(now: Instant) -> Writeback {
        Writeback { calls: 0, last_call: now, dirty_since: None }
    }

    /// Whether what is dirty has to be written now. `calls`: those of programs so far.
    pub fn is_due(&mut self, is_dirty: bool, calls: u64, now: Instant) -> bool {
        if calls != self.calls {
            (self.calls, self.last_call) = (calls, now);
        }
        if !is_dirty {
            self.dirty_since = None;
            return false;
        }
        let since = *self.dirty_since.get_or_insert(now);
        let is_due = now - self.last_call >= IDLE || now - since >= DIRTY_MAX;
        if is_due {
            self.dirty_since = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dirty_is_due_when_nobody_calls_and_after_five_seconds_at_the_latest() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut idle = Writeback::new(begin);
        assert!(!idle.is_due(false, 0, at(1000)), "nothing is dirty");
        assert!(!idle.is_due(true, 1, at(1010)));
        assert!(!idle.is_due(true, 1, at(1100)));
        assert!(idle.is_due(true, 1, at(1110)));
        let mut busy = Writeback::new(begin);
        let due: Vec<u64> = (0..1200).filter(|&step| busy.is_due(true, step, at(step * 10))).collect();
        assert_eq!(due, [500, 1001], "calls all the time");
        let mut syncing = Writeback::new(begin);
        let due = (0..1200).filter(|&step| syncing.is_due(step % 100 > 0, step, at(step * 10)));
        assert_eq!(due.count(), 0, "a program that syncs itself each second");
    }
}
