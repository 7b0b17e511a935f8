//! Garbage collection that gives way to reads.
//!
//! # Model
//! (Lee et al., "Preemptible I/O Scheduling of Garbage Collection for Solid State Drives", TCAD 32(2), 2013: a collection stops for requests
//! that wait, unless free blocks are short.)
//! - A read that comes while its die copies the pages of a victim does not wait. It delays the copies by its own time. An erase
//!   is not interrupted.
//! - After each read the collections of all dies pause, because one thread of the translation layer collects. The pauses of a die take at
//!   most as long in sum as its collections, so that writes still get free blocks.
//!
//! # Limits
//! The answer to a write that waits for a collection is known when the collection begins. A later pause delays the die's next
//! work, and not that answer. The right to pause adds up over a die's whole life. A read that passes takes the die at once, also where
//! the collection has yet to begin behind other work, and does not wait for the channel. Reads of the map and of merges pass, too.

use flashlab_base::Nanos;

/// The collections of a die.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CollectionPauses {
    /// When the last one ends.
    until: Nanos,
    worked: Nanos,
    paused: Nanos,
    /// When the last read that passed a collection ends.
    reads_until: Nanos,
}

impl CollectionPauses {
    /// Counts work of a collection.
    pub fn collect(&mut self, from: Nanos, until: Nanos) {
        self.until = self.until.max(until);
        self.worked += until.since(from);
    }

    /// Whether the die collects at this time.
    pub fn is_collecting(&self, at: Nanos) -> bool {
        at < self.until
    }

    /// Lets a read of this length pass. Returns when it begins.
    pub fn pass(&mut self, at: Nanos, length: Nanos) -> Nanos {
        let start = at.max(self.reads_until);
        self.reads_until = start + length;
        self.until += length;
        start
    }

    /// Pauses the collection if there is one. Returns for how long.
    pub fn pause(&mut self, at: Nanos, pause: Nanos) -> Nanos {
        if !self.is_collecting(at) || pause > self.worked.since(self.paused) {
            return Nanos::ZERO;
        }
        self.paused += pause;
        self.until += pause;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_pauses_for_reads_and_at_most_as_long_as_it_works() {
        let mut die = CollectionPauses::default();
        assert_eq!(die.pause(Nanos(0), Nanos(10)), Nanos::ZERO);
        die.collect(Nanos(100), Nanos(125));
        assert_eq!(
            [die.pass(Nanos(110), Nanos(5)), die.pass(Nanos(110), Nanos(5))],
            [Nanos(110), Nanos(115)]
        );
        assert!(die.is_collecting(Nanos(134)) && !die.is_collecting(Nanos(135)));
        let pauses = [Nanos(110), Nanos(120), Nanos(130)].map(|at| die.pause(at, Nanos(10)));
        assert_eq!(pauses, [Nanos(10), Nanos(10), Nanos::ZERO]);
        assert!(die.is_collecting(Nanos(154)) && !die.is_collecting(Nanos(155)));
    }
}
