//! The ring of checkpoints: where the next one goes, and which ones may not be overwritten.

use std::collections::VecDeque;

use flashlab_base::Bytes;

/// A checkpoint in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub number: u64,
    pub position: u64,
    pub length: Bytes,
}

/// The checkpoints since the newest image was begun.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    length: Bytes,
    /// Where the next checkpoint goes, unless it is too long for what is left there.
    next: u64,
    kept: VecDeque<Placed>,
}

impl Ring {
    pub fn new(length: Bytes, next: u64) -> Ring {
        Ring { length, next, kept: VecDeque::new() }
    }

    /// Where a checkpoint of this length goes. `None`: only over one that is needed.
    pub fn place(&self, length: Bytes) -> Option<u64> {
        let position = self.positions().into_iter().find(|position| position + length.0 <= self.length.0)?;
        let end = position + length.0;
        let overwrites = |kept: &Placed| kept.position < end && position < kept.position + kept.length.0;
        (!self.kept.iter().any(overwrites)).then_some(position)
    }

    /// Where the checkpoint behind the last one can lie: there, or at the ring's beginning.
    pub fn positions(&self) -> [u64; 2] {
        [self.next, 0]
    }

    /// Notes a checkpoint that was written or read.
    pub fn add(&mut self, placed: Placed) {
        self.next = placed.position + placed.length.0;
        self.kept.push_back(placed);
    }

    /// The checkpoints before this number are not needed any more.
    pub fn forget_before(&mut self, number: u64) {
        while self.kept.front().is_some_and(|kept| kept.number < number) {
            self.kept.pop_front();
        }
    }

    /// Bytes of checkpoints that are needed.
    pub fn used(&self) -> Bytes {
        Bytes(self.kept.iter().map(|kept| kept.length.0).sum())
    }

    /// The last checkpoint.
    pub fn last(&self) -> Option<Placed> {
        self.kept.back().copied()
    }

    /// Its length.
    pub fn length(&self) -> Bytes {
        self.length
    }

    /// Where the next checkpoint is looked for first.
    pub fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needed_checkpoint_is_not_overwritten() {
        let mut ring = Ring::new(Bytes::kib(16), 0);
        for number in 1..=3 {
            let position = ring.place(Bytes::kib(4)).unwrap();
            ring.add(Placed { number, position, length: Bytes::kib(4) });
        }
        // It does not fit behind the last one, and at the beginning lies the first.
        assert_eq!(ring.place(Bytes::kib(8)), None);
        assert_eq!(ring.place(Bytes::kib(4)), Some(12 << 10));
        ring.forget_before(3);
        assert_eq!(ring.place(Bytes::kib(8)), Some(0));
        assert_eq!(ring.used(), Bytes::kib(4));
    }
}
