//! Changes the IOs of a trace so that a device can serve them.

use flashlab_base::{Bytes, Operation};
use thiserror::Error;

use crate::{Trace, TraceIo};

/// What happens to IOs beyond the end of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// They are refused.
    #[default]
    Exact,
    /// Offsets are taken modulo the capacity.
    Wrap,
    /// All offsets are scaled by one factor, so that the last one fits. Sizes stay.
    Scale,
}

/// How many IOs of a trace were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fitted {
    /// IOs that began or ended within a block, and were extended to whole blocks.
    pub widened: u64,
    /// IOs whose offset was changed.
    pub moved: u64,
}

/// An IO that the device cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", self.reason())]
pub struct TraceMisfit {
    /// The IO.
    pub io: TraceIo,
    /// The device's capacity.
    pub capacity: Bytes,
    /// The capacity that all IOs of the trace need.
    pub extent: Bytes,
}

impl TraceMisfit {
    fn reason(&self) -> String {
        let TraceMisfit { io: TraceIo { operation, offset, size, .. }, capacity, extent } = self;
        let (offset, size, extent) = (offset.exact(), size.exact(), extent.exact());
        let shown = capacity.exact();
        if self.io.size > *capacity {
            return format!("a {operation} of {size} is larger than the device of {shown}");
        }
        format!(
            "a {operation} of {size} at offset {offset} ends behind the device of {shown}; the trace needs {extent}"
        )
    }
}

impl Trace {
    /// Extends every IO to whole blocks and moves it into `capacity`.
    ///
    /// # Errors
    /// The first IO that does not fit, if `fit` does not move it or it is larger than the device.
    pub fn fit(&mut self, capacity: Bytes, block: Bytes, fit: Fit) -> Result<Fitted, TraceMisfit> {
        let capacity = capacity.round_down(block);
        let mut fitted = Fitted::default();
        for io in self.ios.iter_mut().filter(|io| io.operation != Operation::Flush) {
            let (begin, end) = (io.offset.round_down(block), io.end().round_up(block));
            let size = Bytes(end.0 - begin.0).round_down(block).max(block);
            fitted.widened += u64::from((begin, size) != (io.offset, io.size));
            (io.offset, io.size) = (begin, size);
        }
        let extent = self.extent();
        for io in self.ios.iter_mut().filter(|io| io.operation != Operation::Flush) {
            let last = Bytes(capacity.0.saturating_sub(io.size.0));
            if io.size > capacity || (fit == Fit::Exact && io.offset > last) {
                return Err(TraceMisfit { io: *io, capacity, extent });
            }
            let offset = match fit {
                Fit::Wrap => Bytes(io.offset.0 % capacity.0),
                Fit::Scale if extent > capacity => {
                    let scaled = u128::from(io.offset.0) * u128::from(capacity.0) / u128::from(extent.0);
                    Bytes(scaled as u64).round_down(block)
                }
                Fit::Exact | Fit::Scale => io.offset,
            };
            // An IO that begins before the end and ends beyond it is moved to end at the end.
            let offset = offset.min(last);
            fitted.moved += u64::from(offset != io.offset);
            io.offset = offset;
        }
        Ok(fitted)
    }
}
