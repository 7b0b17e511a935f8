//! Whether a page map is kept on the flash, and only a part of it in memory.
//!
//! # Model
//! Such a map has to look up addresses that were not used lately, which is another read of the flash (DFTL, Gupta et
//! al., ASPLOS 2009). A few pages all over the device are written: where they lie is in memory then, and no
//! buffer for reads holds them. They are read; then the whole device is read, so that where they lie is forgotten, and
//! so is what any buffer holds; then they are read again. The same pages lie at the same places both times: what
//! the second time takes more is looking them up.
//!
//! # Invariants
//! - what a write buffer may keep is pushed out of it before the first time;
//! - two rounds, at different places, have to agree.

use flashlab_analysis::decide::ranks::{mann_whitney, ratio};
use flashlab_analysis::inference::Parameter;
use flashlab_base::{Bytes, Mode, Nanos};
use flashlab_plan::Location;

use super::patterns::{ios, responses};
use super::writes::{apart, buffer, place, writes};
use crate::session::{Halt, Session};

/// What was found.
pub(super) enum MapCache {
    Found,
    None,
    /// It is not clear; this is more likely.
    Unclear(&'static str),
}

/// Pages whose places any such map can remember.
const PAGES: u64 = 32;
const ROUNDS: u64 = 2;
/// p of a difference, and its least size: a look-up is a read of the flash, which is a good part of any read.
const P: f64 = 1e-6;
const LOOK_UP: f64 = 1.15;
/// A difference that is smaller than this for sure is none.
const NONE: f64 = 1.1;
/// Reads of the whole device.
const LARGE: Bytes = Bytes::mib(1);
const REST: Nanos = Nanos::from_millis(500);

/// Compares reads of a few pages before and after the whole device was read.
pub(super) fn look_for_map_cache(
    session: &mut Session<'_, '_>,
    size: Bytes,
) -> Result<(MapCache, String), Halt> {
    let capacity = session.capacity().round_down(size);
    let slot = Bytes(capacity.0 / (PAGES + 1)).round_down(size);
    let held = buffer(session).most(session).round_up(size);
    // What was written may have been moved while the device rested, which is forgotten as well: without a buffer for reads
    // it can be brought to mind.
    let unbuffered = session.known().bytes(Parameter::ReadBufferSize) == Some(Bytes::ZERO);
    let (mut known, mut forgotten) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let offset = size * (5 + 2 * round);
        let few = |mode| {
            let pattern = ios(mode, Location::Sequential, size, PAGES).on_target(offset, slot * PAGES);
            apart(pattern, slot)
        };
        session.run("few-pages-written", &few(Mode::Write))?;
        if held > Bytes::ZERO {
            let origin = place(session, 0.4, Bytes::mib(1));
            session.run("push-out", &writes(Location::Sequential, size, held.0 / size.0, origin, held))?;
        }
        session.rest(REST)?;
        let mut first = session.run("few-pages-read", &few(Mode::Read))?;
        if unbuffered {
            first = session.run("few-pages-read", &few(Mode::Read))?;
        }
        known.extend(responses(&first));
        let large = LARGE.min(capacity);
        let all = ios(Mode::Read, Location::Sequential, large, capacity.0 / large.0);
        session.run("everything-read", &all)?;
        forgotten.extend(responses(&session.run("few-pages-read", &few(Mode::Read))?));
    }
    let half = known.len() / 2;
    let ranks = |from: usize, to: usize| mann_whitney(&forgotten[from..to], &known[from..to]);
    let more = ratio(&forgotten, &known, 0.99);
    let figures = match &more {
        Some(more) => format!(
            "{PAGES} pages that were written just before are read in {:.2} times as long after everything was read ({:.2} to \
             {:.2})",
            more.estimate, more.low, more.high
        ),
        None => String::new(),
    };
    let Some(more) = more else { return Ok((MapCache::Unclear("page"), figures)) };
    let twice = [ranks(0, half), ranks(half, 2 * half)].iter().all(|ranks| ranks.p_above <= 1e-3);
    let cached = match () {
        () if more.estimate >= LOOK_UP && twice && ranks(0, 2 * half).p_above <= P => MapCache::Found,
        () if more.high <= NONE => MapCache::None,
        () if more.estimate > (LOOK_UP * NONE).sqrt() => MapCache::Unclear("demand-cached page"),
        () => MapCache::Unclear("page"),
    };
    Ok((cached, figures))
}
