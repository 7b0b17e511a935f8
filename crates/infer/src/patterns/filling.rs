//! Sequential writes that fill the device, as several probes do: each continues where the one before it stopped.

use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::{ios, responses};
use crate::session::Session;

/// The share of the write budget for large writes, which write what [`reserved`] leaves.
pub(crate) const LARGE_WRITES_SHARE: f64 = 0.075;
/// The largest of the large writes.
pub(crate) const LARGEST: Bytes = Bytes::mib(1);

/// The smallest writes.
pub(crate) const IO_SIZE: Bytes = Bytes::kib(32);

/// The most of them, about.
pub(crate) const IOS_MOST: u64 = 1 << 20;

/// Writes of one run.
pub(crate) const IOS_OF_A_RUN: u64 = 1 << 17;

/// Writes until the next multiple of `align`.
pub(crate) fn fill_up(session: &mut Session<'_, '_>, align: Bytes) -> Result<(), Halt> {
    let begin = session.filled_until();
    let rest = begin.round_up(align).min(session.capacity()) - begin;
    let size = io_size(session.capacity(), session.block());
    sequential_writes(session, "fill", size, begin, rest)?;
    session.filled(rest);
    Ok(())
}

/// The size of the writes that fill a device.
pub(crate) fn io_size(capacity: Bytes, block: Bytes) -> Bytes {
    let least = Bytes((capacity.0 / IOS_MOST).next_power_of_two());
    IO_SIZE.max(least).max(block)
}

/// Writes `length` from `begin` on, the last bytes too; the response times.
pub(crate) fn sequential_writes(
    session: &mut Session<'_, '_>,
    name: &str,
    size: Bytes,
    begin: Bytes,
    length: Bytes,
) -> Result<Vec<f64>, Halt> {
    let mut costs = Vec::with_capacity((length.0 / size.0) as usize);
    let (mut offset, end) = (begin, begin + length);
    while end - offset >= size {
        let part = (size * IOS_OF_A_RUN).min((end - offset).round_down(size));
        let pattern = ios(Mode::Write, Location::Sequential, size, part.0 / size.0).on_target(offset, part);
        costs.extend(responses(&session.run(name, &pattern)?));
        offset += part;
    }
    let rest = (end - offset).round_down(session.block());
    if rest > Bytes::ZERO {
        let pattern = ios(Mode::Write, Location::Sequential, rest, 1).on_target(offset, rest);
        session.run(name, &pattern)?;
    }
    Ok(costs)
}

/// What is left at the device's end when it is filled.
pub(crate) fn reserved(session: &Session<'_, '_>) -> Bytes {
    let largest = LARGEST;
    Bytes(session.capacity().0 / PART).min(MOST).round_down(largest) + Bytes(session.capacity().0 % largest.0)
}

/// The part of the device that is left for this, and the most.
pub(crate) const PART: u64 = 3;

pub(crate) const MOST: Bytes = Bytes::mib(512);
