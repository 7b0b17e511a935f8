//! Whether a page map is kept on the flash, and only a part of it in memory.
//!
//! # Model
//! Such a map has to look up addresses that were not used lately, which is another read of the flash (DFTL, Gupta et
//! al., ASPLOS 2009). A few pages all over the device are brought to mind and read; then the whole device is read, so that
//! where they lie is forgotten, and so is what any buffer holds; then they are cached. The same pages lie at the same
//! places both times: what the second time takes more is looking them up.
//!
//! A page is brought to mind by writing it, which also makes a buffer for reads forget it.
//!
//! # Invariants
//! - what a write buffer may keep is pushed out of it before the first time;
//! - two rounds, at different places, have to agree.

use flashlab_analysis::decide::ranks::{mann_whitney, ratio};
use flashlab_analysis::inference::Family;
use flashlab_analysis::priors;
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::writes::{apart, known_buffer, place};
use crate::patterns::{ios, responses};
use crate::session::Session;
use crate::words::times;

/// What was found.
pub(super) enum MapCache {
    Found,
    None,
    /// It is not clear; this is more likely.
    Unclear(Family),
}

/// Pages whose places any such map can remember.
const PAGES: u64 = 32;
const ROUNDS: u64 = 2;
/// p of a difference, and its least size: a look-up is a read of the flash, which is a good part of any read.
const P: f64 = 1e-6;
const LOOK_UP: f64 = 1.15;
/// A difference whose upper end is smaller than this is none.
const NONE: f64 = 1.1;
/// Reads of the whole device.
const LARGE: Bytes = Bytes::mib(1);

/// Compares reads of a few pages before and after the whole device was read. The pages are written before, and what pushes them out of a
/// write buffer.
pub(super) fn look_for_map_cache(
    session: &mut Session<'_, '_>,
    size: Bytes,
) -> Result<(MapCache, String), Halt> {
    let held = known_buffer(session).most(session).round_up(size);
    if (size * PAGES + held) * ROUNDS > session.writes_left() {
        let why = "The write budget was too small to write a few pages and look for a map on the flash.";
        return Ok((MapCache::Unclear(Family::Page), why.to_owned()));
    }
    let capacity = session.capacity().round_down(size);
    let slot = Bytes(capacity.0 / (PAGES + 1)).round_down(size);
    let origin = place(session, 0.4, Bytes::mib(1));
    let (mut known, mut forgotten) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let offset = size * (5 + 2 * round);
        let few = |mode| {
            let pattern = ios(mode, Location::Sequential, size, PAGES).on_target(offset, slot * PAGES);
            apart(pattern, slot)
        };
        session.run("few-pages", &few(Mode::Write))?;
        if held > Bytes::ZERO {
            let others =
                ios(Mode::Write, Location::Sequential, size, held.0 / size.0).on_target(origin, held);
            session.run("push-out", &others)?;
        }
        session.idle(priors::BUFFER_DRAINED)?;
        known.extend(responses(&session.run("few-pages-read", &few(Mode::Read))?));
        let large = LARGE.min(capacity);
        let all = ios(Mode::Read, Location::Sequential, large, capacity.0 / large.0);
        session.run("everything-read", &all)?;
        forgotten.extend(responses(&session.run("few-pages-read", &few(Mode::Read))?));
    }
    let half = known.len() / 2;
    let ranks = |from: usize, to: usize| mann_whitney(&forgotten[from..to], &known[from..to]);
    let Some(more) = ratio(&forgotten, &known, 0.99) else {
        return Ok((MapCache::Unclear(Family::Page), String::new()));
    };
    let figures = format!(
        "After a write of {PAGES} pages, reading them takes {} the time if the whole device was read in between ({} to {}).",
        times(more.estimate),
        times(more.low),
        times(more.high)
    );
    let twice = [ranks(0, half), ranks(half, 2 * half)].iter().all(|ranks| ranks.p_above <= 1e-3);
    let cached = match () {
        () if more.estimate >= LOOK_UP && twice && ranks(0, 2 * half).p_above <= P => MapCache::Found,
        () if more.high <= NONE => MapCache::None,
        () if more.estimate > (LOOK_UP * NONE).sqrt() => MapCache::Unclear(Family::DemandCachedPage),
        () => MapCache::Unclear(Family::Page),
    };
    Ok((cached, figures))
}
