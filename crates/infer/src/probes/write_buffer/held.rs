//! How much a write buffer holds that is reclaimed only when it is full, from what comes fast when it is read back.
//!
//! # Model
//! Written one address after the other, what was written last is held, back to some place; all before it is on the
//! flash. What is held grows with what is written until the buffer is full, and then falls by what is given away at once.
//! So what was written less what is held grows in steps of that: which steps, many looks tell. If all of it is given
//! away the step is the size. If it is a part, at least what is held at the most is the size, and at most what is held at the
//! least and a step.
//!
//! # Invariants
//! - each place is read once, backwards: nothing that was read before, or is read ahead, comes fast;
//! - everything goes one behind the other from the device's beginning on, as a part of filling it.

use flashlab_analysis::priors;
use flashlab_analysis::signals::bursts::SMALL;
use flashlab_analysis::signals::figures::off_grid;
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use super::bursts::write_behind;
use crate::halt::Halt;
use crate::patterns::ios;
use crate::session::Session;

/// How often it is looked at what is held.
const LOOKS: usize = 16;
/// The fewest looks that say something.
const LOOKS_LEAST: usize = 6;
/// What is held ends where three of so many reads are slow: some places may be slow, or fast, for other reasons.
const OF: usize = 12;
/// This share of the looks agree on a step.
const AGREE: f64 = 0.75;
/// Smaller steps agree by chance.
const STEP_LEAST: usize = 8;
/// Reads of a stretch.
const STRETCH: usize = 64;
/// The most reads of a look.
const READS_MOST: usize = 4096;

/// What a look showed, in units of [`SMALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    /// Written before it, from the first one on.
    written: usize,
    held: usize,
}

/// How much is held at the most; `None` where the looks do not agree. What takes longer than `slow` to be read is not
/// held. About `guess` is held.
pub(super) fn held(session: &mut Session<'_, '_>, slow: f64, guess: Bytes) -> Result<Option<Bytes>, Halt> {
    let unit = SMALL.max(session.block());
    let mut looks: Vec<Look> = Vec::new();
    let (mut written, mut most) = (0, (guess.0 / unit.0).max(4) as usize);
    for index in 0..LOOKS as u64 {
        // Another length each time.
        let count = most as u64 / 2 + session.seed("held", index).0 % most as u64;
        if session.writes_left() < unit * count || session.fill().until + unit * count > session.capacity() {
            break;
        }
        write_behind(session, "held", unit, count)?;
        session.idle(priors::PROGRAMMED)?;
        written += count as usize;
        let held = look_back(session, session.fill().until, unit, slow)?;
        looks.push(Look { written, held });
        if held > most {
            most = held;
        }
    }
    Ok(size(&looks).map(|units| unit * units as u64))
}

/// How many units before `end` are held.
fn look_back(session: &mut Session<'_, '_>, end: Bytes, unit: Bytes, slow: f64) -> Result<usize, Halt> {
    let most = READS_MOST.min((end.0 / unit.0) as usize);
    let (mut slow_ones, mut from): (Vec<usize>, usize) = (Vec::new(), 0);
    while from < most {
        let count = STRETCH.min(most - from);
        let begin = end - unit * (from + count) as u64;
        let backwards = ios(Mode::Read, Location::Ordered { incr: -1 }, unit, count as u64);
        let reads = session.run("look-back", &backwards.on_target(begin, unit * count as u64))?;
        let mut places: Vec<(usize, f64)> = reads
            .iter()
            .map(|read| (((end - read.offset).0 / unit.0) as usize - 1, read.response().0 as f64))
            .collect();
        places.sort_by_key(|place| place.0);
        slow_ones.extend(places.iter().filter(|(_, cost)| *cost > slow).map(|place| place.0));
        let ends = slow_ones.windows(3).find(|three| three[2] - three[0] < OF);
        if let Some(three) = ends {
            return Ok(three[0]);
        }
        from += count;
    }
    Ok(most)
}

/// The size that explains the looks.
fn size(looks: &[Look]) -> Option<usize> {
    if looks.len() < LOOKS_LEAST {
        return None;
    }
    let most = looks.iter().map(|look| look.held).max()?;
    let least = looks.iter().map(|look| look.held).min()?;
    if 10 * least > 9 * most {
        return Some(most);
    }
    let agree = |step: &usize| {
        let gone = |look: &Look| look.written.saturating_sub(look.held);
        let with =
            |one: &Look| looks.iter().filter(|other| off_grid(gone(one), gone(other), *step) <= 1).count();
        looks.iter().map(with).max().unwrap_or(0) as f64 >= AGREE * looks.len() as f64
    };
    let step = (STEP_LEAST..=most + most / 2 + 2).rev().find(agree)?;
    if step >= most {
        return Some(step);
    }
    Some(most.max((most + least + step - 1) / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_explains_what_is_held() {
        let looks = |size: usize| -> Vec<Look> {
            let written = (1..=16).map(|i| 3 * size * i + i * i * 7);
            written.map(|written| Look { written, held: (written + 5) % size }).collect()
        };
        assert_eq!([10, 43, 211].map(|held| size(&looks(held))), [Some(10), Some(43), Some(211)]);
        let nearly = [98, 100, 99, 97, 100, 98].map(|held| Look { written: 1000 * held, held });
        assert_eq!(size(&nearly), Some(100));
        assert_eq!(size(&[]), None);
    }
}
