//! Finds out whether a flush waits for the data in a write buffer.
//!
//! # Model
//! A device without a volatile buffer has nothing to flush. If a write with a flush takes much longer than a write
//! and a flush of nothing, the flush waits for a program.
//!
//! # Invariants
//! - Writes follow the last filled address, as a part of filling the device.

use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_base::Bytes;
use flashlab_plan::{Location, Pattern};

use crate::halt::Halt;
use crate::patterns::responses;
use crate::patterns::writes::writes;
use crate::priors::SMALL_IO;
use crate::session::Session;
use crate::thresholds;

/// The writes that are flushed, those that are not, and the flushes of nothing. Unit: writes. Source: choice.
/// Too many: blank space is used up; too few: noise decides.
const WRITES_FLUSHED: u64 = 24;
/// A write with a flush takes at least this many times a write and a flush of nothing if it waits for a
/// program. Unit: ratio. Source: tuned. Too high: fast programs are not seen; too low: drift is a program.
const FLUSH_RATIO: f64 = 1.25;

/// How much [`flushed_nanos`] writes.
pub(crate) fn written(session: &Session<'_, '_>) -> Bytes {
    SMALL_IO.max(session.block()) * (2 * WRITES_FLUSHED)
}

/// The time of a write with a flush, if that is much longer than a write and a flush of nothing: the flush then
/// waits for the data in a write buffer. A buffer that survives a loss of power need not be flushed.
pub(crate) fn flushed_nanos(session: &mut Session<'_, '_>) -> Result<Option<f64>, Halt> {
    let size = SMALL_IO.max(session.block());
    let write = |session: &mut Session<'_, '_>, name: &str, flush: bool| {
        let next =
            writes(Location::Sequential, size, WRITES_FLUSHED, session.filled_until(), size * WRITES_FLUSHED);
        let samples = session.run(name, &Pattern { write_through: flush, ..next })?;
        session.filled(size * WRITES_FLUSHED);
        Ok::<_, Halt>(responses(&samples))
    };
    if session.flush()?.is_none() {
        return Ok(None);
    }
    let mut empty = Vec::new();
    for _ in 0..WRITES_FLUSHED {
        let Some(took) = session.flush()? else { return Ok(None) };
        empty.push(took.0 as f64);
    }
    let plain = write(session, "plain", false)?;
    session.flush()?;
    let flushed = write(session, "flushed", true)?;
    // The first flushes may find what earlier probes left.
    let nothing = upper_median(&empty);
    let both: Vec<f64> = plain.iter().map(|write| FLUSH_RATIO * (write + nothing)).collect();
    let waits = mann_whitney(&flushed, &both).p_above <= thresholds::FALSE_ALARM_WITH_EFFECT;
    Ok(waits.then(|| upper_median(&flushed)))
}
