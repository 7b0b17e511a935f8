//! When collection begins, by the device's own count of what it wrote to its flash.
//!
//! # Model
//! What a device writes to its flash for each byte that the host wrote (write amplification) stays as it is, a little above
//! one with the device's own tables, until collection begins, and then rises by what collecting blocks moves. A drive
//! may count in coarse steps, and late: writes until the next step are one reading, and the place is as good as that.
//!
//! # Invariants
//! - a rise is one that stays: [`RISEN`] readings one after the other;
//! - nothing is said without as many readings before it as show what is usual.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_analysis::priors;
use flashlab_analysis::signals::figures::median;
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::answers::space::{hand_in_space, known_within};
use crate::halt::Halt;
use crate::patterns::ios;
use crate::rule::Rule;
use crate::session::Session;

/// The part of the capacity after which the count is looked at.
const PARTS: u64 = 1024;
/// Readings that are risen.
const RISEN: usize = 3;
/// Readings before them.
const USUAL: usize = 4;
/// The least that amplification rises by.
const RISE: f64 = 1.2;
/// The device's own count.
const COUNTED: Rule = Rule::strong("device counter");

/// Where amplification rises.
#[derive(Clone, Debug, PartialEq)]
struct Rise {
    /// What the host had written until then.
    place: Bytes,
    /// How far off that may be.
    error: Bytes,
    /// Write amplification before it.
    before: f64,
    /// Write amplification behind it.
    after: f64,
    /// Write amplification over what the host had written.
    curve: Vec<(f64, f64)>,
}

/// What the device had written to its flash when the host had written this much.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    host: Bytes,
    flash: Bytes,
}

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

/// Writes `size` anywhere until the device writes more to its flash than before; `None`: it does not count that, or the
/// budget was used up before.
fn collection(session: &mut Session<'_, '_>, size: Bytes) -> Result<Option<Rise>, Halt> {
    let count = (session.capacity().0 / PARTS / size.0).max(16);
    let pattern = ios(Mode::Write, Location::Random, size, count);
    let (mut readings, mut host) = (Vec::new(), Bytes::ZERO);
    loop {
        let Some(flash) = session.media_written() else { return Ok(None) };
        // A count that stands still is a step that is longer.
        if readings.last().is_none_or(|last: &Reading| flash > last.flash) {
            readings.push(Reading { host, flash });
        }
        if let Some(rise) = rise(&readings) {
            return Ok(Some(rise));
        }
        if session.writes_left() < size * count {
            return Ok(None);
        }
        session.run("random-writes", &pattern)?;
        host += size * count;
    }
}

/// The rise that the last readings are, if they are one.
fn rise(readings: &[Reading]) -> Option<Rise> {
    let steps: Vec<(Reading, f64)> = readings
        .windows(2)
        .map(|pair| {
            let written = (pair[1].flash - pair[0].flash).0 as f64;
            (pair[0], written / (pair[1].host - pair[0].host).0 as f64)
        })
        .collect();
    let first = steps.len().checked_sub(RISEN).filter(|&first| first >= USUAL)?;
    let (usual, risen) = steps.split_at(first);
    let before = median(&usual.iter().map(|step| step.1).collect::<Vec<_>>());
    let after = median(&risen.iter().map(|step| step.1).collect::<Vec<_>>());
    if risen.iter().any(|step| step.1 < RISE * before) {
        return None;
    }
    // In the first of them it rises at a place that its own amplification shows.
    let length = (risen[1].0.host - risen[0].0.host).0 as f64;
    let usual_part = 1.0 - ((risen[0].1 - before) / (after - before)).clamp(0.0, 1.0);
    let place = risen[0].0.host + Bytes((usual_part * length) as u64);
    let curve =
        steps.iter().map(|(reading, amplification)| (reading.host.0 as f64, *amplification)).collect();
    Some(Rise { place, error: Bytes(length as u64 / 2), before, after, curve })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(flash: impl Fn(u64) -> u64, step: usize) -> Vec<Reading> {
        (0..40).step_by(step).map(|i| Reading { host: Bytes::mib(i), flash: Bytes(flash(i << 20)) }).collect()
    }

    #[test]
    fn collection_begins_where_more_is_written_to_the_flash() {
        let onset = 20 << 20 | 300_000;
        let flash = |host: u64| (1 << 40) + host + host / 20 + 4 * host.saturating_sub(onset);
        let all = readings(flash, 1);
        let found = (1..all.len()).find_map(|count| rise(&all[..count])).unwrap();
        assert!(found.place.0.abs_diff(onset) < 20_000, "{found:?}");
        assert!((found.before - 1.05).abs() < 0.01 && (found.after - 5.05).abs() < 0.01, "{found:?}");
        // In coarse steps, too.
        let coarse = readings(flash, 4);
        let found = (1..coarse.len()).find_map(|count| rise(&coarse[..count])).unwrap();
        assert!(found.place.0.abs_diff(onset) < found.error.0, "{found:?}");
    }

    #[test]
    fn what_goes_on_as_before_is_no_rise() {
        let even = readings(|host| host + host / 8, 1);
        assert_eq!((1..even.len()).find_map(|count| rise(&even[..count])), None);
        let once = readings(|host| host + if host > 20 << 20 { 9 << 20 } else { 0 }, 1);
        assert_eq!((1..once.len()).find_map(|count| rise(&once[..count])), None);
        assert_eq!(rise(&[]), None);
    }
}
