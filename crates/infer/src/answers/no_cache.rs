//! That no reads are faster than those of the flash.
//!
//! # Model
//! It says that nothing is kept or read ahead, where the flash is seen at all: no flash is read in less than
//! [`priors::FLASH_READ_LEAST`].

use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::decide::ranks::{mann_whitney, shift};
use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::Bytes;

use crate::patterns::reads::how_many_times;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;

/// What a fast read takes, at most, relative to one of the flash. A seek that costs less than 3 % is not seen (`segment_groups`), and one
/// place may be that much nearer than another. Higher: a seek is taken for a cache; lower: caches behind a slow link are not seen.
pub(crate) const FAST_MAX: f64 = 0.96;
/// The chance that reads seem fast.
pub(crate) const ALPHA: f64 = 1e-4;
/// Why reads may not show the flash.
pub(crate) const HOLDS_NO_DATA: &str =
    "The device may hold no data, and a device can answer reads of empty addresses without the flash.";
/// The confidence that nothing is there where it is not known whether the flash is seen.
const BLIND: Rule = Rule::likely("flash not seen");

/// Whether reads are faster than others, beyond chance.
pub(crate) fn is_faster(reads: &[f64], others: &[f64]) -> bool {
    mann_whitney(reads, others).p_below < ALPHA && upper_median(reads) < FAST_MAX * upper_median(others)
}

/// What is to be said where reads are no faster than those of the flash of some kind: that nothing is kept, as far as the
/// flash is seen.
pub(crate) fn nothing<const N: usize>(
    session: &Session<'_, '_>,
    parameter: Parameter,
    flash: [&[f64]; N],
    reads: &[f64],
    evidence: String,
) -> Finding {
    let least = flash.iter().map(|flash| how_many_times(flash, reads).low).fold(0.0, f64::max);
    let saved =
        flash.iter().filter_map(|flash| Some(shift(flash, reads, 0.99)?.high)).fold(f64::INFINITY, f64::min);
    let flash_was_seen = [Parameter::ReadPageSize, Parameter::ParallelUnits]
        .iter()
        .any(|&parameter| session.known().number(parameter).is_some());
    // Of a device that is filled in part it was seen there, and not elsewhere.
    let in_part = !session.holds_data() && session.filled_until() > Bytes::ZERO;
    let seen = flash_was_seen && least > FAST_MAX;
    let no_flash_saved = session.holds_data() && saved < priors::FLASH_READ_LEAST.0 as f64;
    let evidence = format!("{evidence} The difference is at most {}.", duration(saved.max(0.0)));
    if seen || no_flash_saved {
        let basis = if in_part { BLIND } else { Rule::strong("no faster") };
        Rule::found(parameter, Bytes::ZERO, basis, evidence)
    } else if !session.holds_data() {
        Finding::undetermined(parameter, format!("{evidence} {HOLDS_NO_DATA}"))
    } else if least > 2.0 * FAST_MAX - 1.0 {
        Rule::found(parameter, Bytes::ZERO, BLIND, evidence)
    } else {
        Finding::undetermined(parameter, evidence)
    }
}
