//! Sequential writes that fill the device, as several probes do: each continues where the one before it stopped.

use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::{ios, responses};
use crate::session::Session;

/// The share of the write budget for the probe of large writes. Unit: share. Source: choice. Too high: other
/// probes cannot write; too low: large writes are undetermined.
pub(crate) const LARGE_WRITES_SHARE: f64 = 0.075;
/// The largest write of the probes. Source: choice. Too large: requests are split; too small: saturation is
/// not reached.
pub(crate) const LARGEST: Bytes = Bytes::mib(1);
/// The largest writes of a probe: the first of these for which there is space. Source: choice: halvings of [`LARGEST`]. Too
/// large: small devices have no such writes; too small: large chunks are not written at once.
pub(crate) const LARGE_SIZES: [Bytes; 3] = [LARGEST, Bytes::kib(512), Bytes::kib(256)];

/// The smallest write that fills the device. Source: choice: whole pages of nearly all flash. Too large: the
/// end of an SLC cache is coarse; too small: filling takes longer.
pub(crate) const IO_SIZE: Bytes = Bytes::kib(32);

/// About the most writes that fill the device. Larger devices get larger writes. Unit: writes. Source:
/// choice. Too many: recordings take gigabytes; too few: the end of an SLC cache is coarse.
pub(crate) const IOS_MOST: u64 = 1 << 20;

/// The writes of one run of the fill. Unit: writes. Source: choice. Too many: an interrupted fill loses more;
/// too few: pauses between the runs let the device do deferred work.
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
    Bytes(session.capacity().0 / RESERVED_PART).min(RESERVED_MOST).round_down(largest)
        + Bytes(session.capacity().0 % largest.0)
}

/// The part of the device that is not filled at first. Unit: part. Source: choice. Too small: the fill shows
/// no SLC cache; too large: probes that need blank space have none.
pub(crate) const RESERVED_PART: u64 = 3;

/// The most that is not filled at first. Source: choice. Too large: the fill shows no SLC cache; too small:
/// probes that need blank space have none.
pub(crate) const RESERVED_MOST: Bytes = Bytes::mib(512);
