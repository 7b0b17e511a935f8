//! Bursts of writes behind what was filled.

use flashlab_analysis::priors;
use flashlab_base::{Bytes, Nanos};
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::writes::{costs_of, writes};
use crate::session::Session;

/// The idle time after a burst that took `cost` nanoseconds.
pub(crate) fn idle_after(cost: f64) -> Nanos {
    priors::PROGRAMMED.max(Nanos(cost as u64) * REST_FACTOR)
}

/// `count` writes of `size` behind what was written, as a part of filling the device: what they took.
pub(crate) fn write_behind(
    session: &mut Session<'_, '_>,
    name: &str,
    size: Bytes,
    count: u64,
) -> Result<Vec<f64>, Halt> {
    let (place, length) = (session.fill().until, size * count);
    if place + length > session.capacity() {
        return Err(Halt::Misfit(format!("it has no space for bursts of {length}")));
    }
    let costs = costs_of(session, name, &writes(Location::Sequential, size, count, place, length))?;
    session.filled(length);
    Ok(costs)
}

/// One write behind what was written: what it took.
pub(crate) fn write_one(session: &mut Session<'_, '_>, name: &str, size: Bytes) -> Result<f64, Halt> {
    Ok(write_behind(session, name, size, 1)?.first().copied().unwrap_or(0.0))
}

/// The idle time after a burst, as a multiple of the burst's time.
const REST_FACTOR: u64 = 3;
