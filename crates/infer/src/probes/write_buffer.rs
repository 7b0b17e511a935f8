//! The memory that takes writes before they are on the flash: whether there is any, and when it is written to the
//! flash.
//!
//! # Method
//! 1. Data that was just written is read back (`landing`): that shows a buffer, and when it is written to the flash.
//! 2. A buffer that answers such reads shows in a flush, which waits for what it holds.
//! 3. Its size is found when pages are known ([`super::buffered_writes`]), or when the fill of the device shows where
//!    it is full ([`super::fill`]).
//!
//! # Invariants
//! - Writes go one behind the other from the device's beginning on, as a part of filling it: nothing is overwritten,
//!   neither in the buffer nor on the flash.

mod landing;

use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::{Finding, Parameter};

use crate::answers::write_buffer::hand_in_none;
use crate::halt::Halt;
use crate::patterns::flushes;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;
use landing::{Landed, Landing, SIZES, landing};

pub(crate) const PROBE: Probe = Probe {
    name: "write-buffer",
    about: "sequential writes that are read back at once and after idle time: is there a write buffer, and when is it written to the flash?",
    parameters: &[],
    hands_in: &[Parameter::WriteBufferSize, Parameter::WriteBufferFlush],
    write_share: 0.1,
};

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let landed = landing(session)?;
    if landed.landing != Landing::Before {
        conclude(session, landed);
        return Ok(());
    }
    match flush_waits(session)? {
        None => conclude_none(session, &landed),
        Some(flushed) => {
            let evidence = format!(
                "{} Reading back does not show it, but a write with a flush takes {}, and without {}: the flush waits for a write \
                 buffer.",
                landed.evidence,
                duration(flushed),
                duration(upper_median(&landed.writes))
            );
            conclude(session, Landed { evidence, ..landed });
        }
    }
    Ok(())
}

/// The time of a write with a flush, if the flush waits for a buffer that reading back does not show: one that
/// answers reads of its data. The flush of a file system waits for its journal.
fn flush_waits(session: &mut Session<'_, '_>) -> Result<Option<f64>, Halt> {
    let is_file = session.inference().identity.file_system.is_some();
    if is_file || session.writes_left() < flushes::written(session) {
        return Ok(None);
    }
    flushes::flushed_nanos(session)
}

/// Concludes what is known of a buffer that there is.
fn conclude(session: &mut Session<'_, '_>, landed: Landed) {
    let policy = if landed.landing == Landing::Late { "when-full" } else { "immediately" };
    let flush = Rule::found(Parameter::WriteBufferFlush, policy, Rule::strong("landing"), &landed.evidence);
    session.hand_in(flush.with(landed.picture.clone()));
    let evidence = format!("{} The size of the write buffer does not show in that.", landed.evidence);
    session.hand_in(Finding::undetermined(Parameter::WriteBufferSize, evidence).with(landed.picture));
}

/// Concludes that there is none.
fn conclude_none(session: &mut Session<'_, '_>, landed: &Landed) {
    let (writes, reads) = (upper_median(&landed.writes), upper_median(&landed.reads));
    let evidence = format!(
        "{} A write of {} takes {} and a read {}.",
        landed.evidence,
        SIZES[0].max(session.block()),
        duration(writes),
        duration(reads)
    );
    // Where a write takes hardly more than a read, what was written before may be in a buffer as well.
    let basis = if writes - reads >= priors::PROGRAM_LEAST.0 as f64 {
        Rule::strong("writes wait for the program")
    } else {
        Rule::likely("writes hardly slower than reads")
    };
    let evidence =
        format!("{evidence} No write is answered before it is on the flash: there is no write buffer.");
    hand_in_none(session, basis, evidence, landed.picture.clone());
}
