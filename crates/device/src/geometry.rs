//! The constants of an open device: capacity, block size, queue depth, and what happens to data.

use flashlab_base::{Bytes, Operation};

use crate::io::IoError;

/// The properties of a device that do not change while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The device's size; offsets are below it.
    pub capacity: Bytes,
    /// The logical block: offsets and sizes are multiples of it.
    pub block: Bytes,
    /// How many requests may be in flight at the same time.
    pub depth: u32,
    /// What the device does with the data that callers write.
    pub data: DataHandling,
}

/// What a device does with the data that callers write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataHandling {
    /// The device ignores data: it only times IOs. Callers pass [`Buffer::empty`](crate::Buffer::empty).
    Ignored,
    /// Data changes response times, as on a device that compresses, but reads do not return it.
    AffectsTiming,
    /// The device stores data, and reads return it.
    Stored,
}

impl DataHandling {
    /// Whether reads return what was written.
    pub fn is_stored(self) -> bool {
        self == DataHandling::Stored
    }

    /// Whether writes need a buffer with data.
    pub fn is_used(self) -> bool {
        self != DataHandling::Ignored
    }
}

impl Geometry {
    /// Checks that the device can serve a request to this range.
    ///
    /// # Errors
    /// [`IoError::INVALID`] when the range is empty or misaligned, [`IoError::OUT_OF_RANGE`] when it ends beyond the
    /// capacity.
    #[inline]
    pub fn check(&self, offset: Bytes, size: Bytes) -> Result<(), IoError> {
        if size == Bytes::ZERO || !offset.is_multiple_of(self.block) || !size.is_multiple_of(self.block) {
            return Err(IoError::INVALID);
        }
        match offset.0.checked_add(size.0) {
            Some(end) if end <= self.capacity.0 => Ok(()),
            _ => Err(IoError::OUT_OF_RANGE),
        }
    }

    /// Checks the ranges of IOs one after the other. A flush has none.
    ///
    /// # Errors
    /// As [`Geometry::check`], of the first IO that cannot be served.
    pub fn check_all(&self, ios: &mut dyn Iterator<Item = (Operation, Bytes, Bytes)>) -> Result<(), IoError> {
        for (operation, offset, size) in ios {
            if operation != Operation::Flush {
                self.check(offset, size)?;
            }
        }
        Ok(())
    }
}
