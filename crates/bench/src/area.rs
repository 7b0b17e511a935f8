//! Chooses the part of the target that a run uses (uFLIP section 4.2, the benchmark plan).
//!
//! Sequential writes disturb the device's random state. So each run with sequential writes gets an area that
//! no earlier run used. When the target is used up, the state is enforced again and the areas start over.

use flashlab_base::{Bytes, Mode};
use flashlab_plan::{Basic, Location, ModeRule, Space};

use crate::settings::{IO_SIZE, Lengths};

/// Assigns areas of a target, without overlap until the next reset.
#[derive(Clone, Debug)]
pub(crate) struct Areas {
    target: Bytes,
    used: Bytes,
}

/// Areas begin at multiples of this.
const UNIT: Bytes = Bytes::mib(1);

impl Areas {
    /// The areas of a fresh target.
    pub fn of(space: Space) -> Areas {
        Areas { target: space.capacity, used: Bytes::ZERO }
    }

    /// An unused area of this size; `None` if none is left, so that a reset is due.
    pub fn take(&mut self, size: Bytes) -> Option<Bytes> {
        let end = self.used.0.checked_add(size.round_up(UNIT).0)?;
        if end > self.target.0 {
            return None;
        }
        let start = self.used;
        self.used = Bytes(end);
        Some(start)
    }

    /// Starts over with the areas, after the state was enforced again.
    pub fn reset(&mut self) {
        self.used = Bytes::ZERO;
    }
}

/// Whether this basic pattern writes sequentially, and so disturbs a random state.
pub(crate) fn writes_sequentially(basic: &Basic) -> bool {
    basic.mode != ModeRule::Always(Mode::Read)
        && match basic.location {
            Location::Sequential | Location::Partitioned { .. } => true,
            Location::Ordered { incr } => incr.abs() <= 1,
            _ => false,
        }
}

/// What enforcing the state writes at most: its last IO may end beyond the last byte.
pub(crate) fn state_size(space: Space) -> Bytes {
    const LARGEST_IO: Bytes = Bytes::mib(1);
    space.capacity + LARGEST_IO
}

/// The area of the baseline of sequential writes: long enough for its phases, but a part of the target.
pub(crate) fn baseline_area(space: Space, lengths: Lengths) -> Bytes {
    let wanted = Bytes(space.capacity.0 / 8).max(IO_SIZE * lengths.baseline_ios);
    wanted.min(space.capacity).round_down(IO_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_do_not_overlap_and_a_reset_is_asked_for_when_they_do_not_fit() {
        let mut areas = Areas::of(Space { capacity: Bytes::mib(10), block: Bytes(512) });
        assert_eq!(areas.take(Bytes::mib(4)), Some(Bytes::ZERO));
        assert_eq!(areas.take(Bytes(1)), Some(Bytes::mib(4)));
        assert_eq!(areas.take(Bytes::mib(5)), Some(Bytes::mib(5)));
        assert_eq!(areas.take(Bytes(1)), None);
        areas.reset();
        assert_eq!(areas.take(Bytes::mib(10)), Some(Bytes::ZERO));
        assert_eq!(areas.take(Bytes(u64::MAX)), None);
    }
}
