//! A device that does its IOs in wall time, several at once, and stores its data.

use flashlab_base::{Bytes, Identity};
use flashlab_device::{Geometry, IoError, Operation};

use crate::io::Data;

/// A device for a live disk without a model: its IOs take as long as they take, and are answered at once.
pub trait ConcurrentDevice: Send + Sync {
    /// Capacity, block size and queue depth.
    fn geometry(&self) -> Geometry;

    /// Its name and description.
    fn identity(&self) -> Identity;

    /// Does an IO, of any range. Several threads call it at the same time. A write calls `acknowledge` when its answer may be sent, which
    /// may be before it is done: then everybody who comes later finds it done, and what may fail is reported by the next flush.
    ///
    /// # Errors
    /// The device's.
    fn serve(
        &self,
        operation: Operation,
        range: (Bytes, Bytes),
        data: &mut Data<'_>,
        acknowledge: &mut dyn FnMut(),
    ) -> Result<(), IoError>;

    /// What it reports of itself, as a JSON object.
    fn details(&self) -> Option<serde_json::Value> {
        None
    }
}
