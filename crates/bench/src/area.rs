//! Where on the target a run works (uFLIP section 4.2, the benchmark plan).
//!
//! Sequential writes disturb the device's state, so that each run with sequential writes gets an
//! area that none before it had. When the target is used up, the state is enforced again and the
//! areas start over.

use flashlab_base::Bytes;

/// Hands out areas of a target, without overlap until the next reset.
#[derive(Clone, Debug)]
pub(crate) struct Areas {
    target: Bytes,
    used: Bytes,
    unit: Bytes,
}

impl Areas {
    /// Areas of a target from 0 to `target`, each aligned to `unit`.
    pub fn new(target: Bytes, unit: Bytes) -> Areas {
        Areas { target, used: Bytes::ZERO, unit }
    }

    /// An unused area of this size; `None` when it does not fit any more, and a reset is due.
    pub fn take(&mut self, size: Bytes) -> Option<Bytes> {
        let end = self.used.0.checked_add(size.round_up(self.unit).0)?;
        if end > self.target.0 {
            return None;
        }
        let start = self.used;
        self.used = Bytes(end);
        Some(start)
    }

    /// The whole target is in a defined state again.
    pub fn reset(&mut self) {
        self.used = Bytes::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_do_not_overlap_and_a_reset_is_asked_for_when_they_do_not_fit() {
        let mut areas = Areas::new(Bytes::mib(10), Bytes::mib(1));
        assert_eq!(areas.take(Bytes::mib(4)), Some(Bytes::ZERO));
        assert_eq!(areas.take(Bytes(1)), Some(Bytes::mib(4)));
        assert_eq!(areas.take(Bytes::mib(5)), Some(Bytes::mib(5)));
        assert_eq!(areas.take(Bytes(1)), None);
        areas.reset();
        assert_eq!(areas.take(Bytes::mib(10)), Some(Bytes::ZERO));
        assert_eq!(areas.take(Bytes(u64::MAX)), None);
    }
}
