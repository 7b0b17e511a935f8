//! When collection begins, by the device's own count of what it wrote to its flash.
//!
//! # Model
//! What a device writes to its flash for each byte that the host wrote (write amplification) stays as it is, a little
//! above one with the device's own tables, until collection begins, and then rises by what collecting blocks moves. A
//! drive may count in coarse steps, and late: writes until the next step are one reading, and the place is as good as
//! that ([`mod@amplification`]).

use crate::priors;
use crate::signals::amplification::{self, AmplificationRise, FlashReading};
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::answers::space::{hand_in_space, known_within};
use crate::halt::Halt;
use crate::patterns::ios;
use crate::rule::Rule;
use crate::session::Session;

/// The device's counter is read after this part of the capacity is written. Unit: part. Source: choice. Too
/// small: the place is coarse; too large: the counter does not move.
const READING_PART: u64 = 1024;
/// The device's own count.
const COUNTED: Rule = Rule::strong("device counter");

/// Hands in what the device's own count says of where collection begins.
pub(super) fn counted(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let size = priors::WHOLE_PAGES.max(session.block());
    let before = session.written_since_fill()?;
    let Some(rise) = collection(session, size)? else {
        let evidence = "By the device's own counter, random writes do not begin to cost more writes to the flash within the write \
                        budget.";
        for parameter in [Parameter::PhysicalCapacity, Parameter::OverProvisioning] {
            session.hand_in(Finding::undetermined(parameter, evidence));
        }
        return Ok(());
    };
    // Blocks that others wrote over as a whole are collected for nothing, or count as written.
    let spare = rise.place.0 as f64 + before.0 as f64 / 2.0;
    let error = rise.error.0 as f64 + before.0 as f64 / 2.0;
    let evidence = format!(
        "By the device's own counter, the write amplification of random writes of {size} is {:.2} until {} are written after the \
         fill (error: {}), and {:.2} afterwards.",
        rise.before,
        Bytes(spare as u64),
        Bytes(error as u64),
        rise.after,
    );
    let picture = Picture::new(
        "Bytes that the device writes to its flash for each byte of random writes, by its own counter.",
        Axis::linear("written since the fill", "bytes"),
        Axis::linear("write amplification", ""),
    )
    .draw("random writes", Style::Line, rise.curve)
    .mark(rise.place.0 as f64, "garbage collection begins");
    let rules = known_within(session.capacity(), spare, error, COUNTED);
    hand_in_space(session, spare, rules, &evidence, &picture);
    Ok(())
}

/// Writes `size` at random offsets until the write amplification rises. `None`: the device does not count its
/// writes, or the budget ended before.
fn collection(session: &mut Session<'_, '_>, size: Bytes) -> Result<Option<AmplificationRise>, Halt> {
    let count = (session.capacity().0 / READING_PART / size.0).max(16);
    let pattern = ios(Mode::Write, Location::Random, size, count);
    let (mut readings, mut host) = (Vec::new(), Bytes::ZERO);
    loop {
        let Some(flash) = session.media_written() else { return Ok(None) };
        // A count that stands still is a step that is longer.
        if readings.last().is_none_or(|last: &FlashReading| flash > last.flash) {
            readings.push(FlashReading { host, flash });
        }
        if let Some(rise) = amplification::rise(&readings) {
            return Ok(Some(rise));
        }
        if session.writes_left() < size * count {
            return Ok(None);
        }
        session.run("random-writes", &pattern)?;
        host += size * count;
    }
}
