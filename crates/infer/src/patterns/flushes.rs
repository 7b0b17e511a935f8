//! Whether a flush waits for what a write buffer holds.
//!
//! # Model
//! A device without a volatile buffer has nothing to flush. Where a write with a flush takes much longer than a write and a
//! flush of nothing, the flush waits for a program.
//!
//! # Invariants
//! - Writes go behind what was written, as a part of filling the device.

use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_base::Bytes;
use flashlab_plan::{Location, Pattern};

use crate::halt::Halt;
use crate::patterns::responses;
use crate::patterns::writes::writes;
use crate::session::Session;

/// Writes, as small as any buffer holds them, that are asked whether they take longer when they are flushed: by how many times
/// at least, as a program takes much longer than what is beside it, and how likely that may be by chance.
const ASKED: Bytes = Bytes::kib(4);
const ASKED_OF: u64 = 24;
const SHOWN: f64 = 1.25;
const SHOWN_P: f64 = 0.001;

/// How much [`flushed_nanos`] writes.
pub(crate) fn written(session: &Session<'_, '_>) -> Bytes {
    ASKED.max(session.block()) * (2 * ASKED_OF)
}

/// What a write takes with a flush behind it, if that is much longer than a write and a flush of nothing: then it waits for what a
/// buffer holds. One that outlasts a loss of power need not be reclaimed.
pub(crate) fn flushed_nanos(session: &mut Session<'_, '_>) -> Result<Option<f64>, Halt> {
    let size = ASKED.max(session.block());
    let write = |session: &mut Session<'_, '_>, name: &str, flush: bool| {
        let next = writes(Location::Sequential, size, ASKED_OF, session.filled_until(), size * ASKED_OF);
        let samples = session.run(name, &Pattern { write_through: flush, ..next })?;
        session.filled(size * ASKED_OF);
        Ok::<_, Halt>(responses(&samples))
    };
    if session.flush()?.is_none() {
        return Ok(None);
    }
    let mut empty = Vec::new();
    for _ in 0..ASKED_OF {
        let Some(took) = session.flush()? else { return Ok(None) };
        empty.push(took.0 as f64);
    }
    let plain = write(session, "plain", false)?;
    session.flush()?;
    let flushed = write(session, "flushed", true)?;
    // The first flushes may find what earlier groups left.
    let nothing = upper_median(&empty);
    let both: Vec<f64> = plain.iter().map(|write| SHOWN * (write + nothing)).collect();
    let waits = mann_whitney(&flushed, &both).p_above <= SHOWN_P;
    Ok(waits.then(|| upper_median(&flushed)))
}
