//! Finds out whether a page map is on the flash and only a part of it in memory.
//!
//! # Model
//! Such a device looks up the map entries that it did not use recently. A look-up is one more read of the flash
//! (DFTL, Gupta et al., ASPLOS 2009).
//!
//! # Method
//! 1. A few pages all over the device are written, so that their map entries are in memory, and read.
//! 2. The whole device is read: that evicts these entries from the map cache, and the pages from any read cache.
//! 3. The same pages are read again. The difference is the look-ups.
//! 4. Pages in an SLC cache have a map of their own. So the same is done with pages that are only read before,
//!    followed by as many reads as a read cache holds, which are fewer than the entries of any map cache.
//!
//! # Invariants
//! - A write buffer is full of other pages before the first reads.
//! - Two rounds with different pages have to agree.

use crate::priors;
use crate::signals::map_look_ups::{MapCache, look_ups};
use flashlab_analysis::inference::{Family, Parameter};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::filling;
use crate::patterns::writes::{apart, known_buffer, place};
use crate::patterns::{ios, responses};
use crate::session::Session;
use crate::words::times;

/// The pages whose addresses are looked up: any map cache holds so few entries. Unit: pages. Source: choice.
/// Too many: a small map cache forgets them; too few: rank tests show nothing.
const PAGES: u64 = 32;
/// The rounds, each with other pages, that have to agree. Unit: rounds. Source: derivation: two can disagree.
/// Too many: the budget is used up; too few: drift decides.
const ROUNDS: u64 = 2;
/// The pages that a read cache of unknown size holds at most. Unit: pages. Source: tuned. Too many: small
/// maps forget as well; too few: a read cache answers.
const READ_BUFFER: u64 = 640;
/// Reading this part of a device leaves its map in memory. Unit: part. Source: tuned. Too small: the map
/// forgets; too large: large read caches stay undetermined.
const READ_PART: u64 = 60;

/// Compares reads of a few pages before and after the whole device was read. The pages are written first. If
/// these show no look-up, the same is done with pages that are only read.
pub(super) fn look_for_map_cache(
    session: &mut Session<'_, '_>,
    size: Bytes,
) -> Result<(MapCache, String), Halt> {
    let cached_bytes = known_buffer(session).most(session).round_up(size);
    let (written, figures) = if (size * PAGES + cached_bytes) * ROUNDS > session.writes_left() {
        let why = "The write budget was too small to write a few pages and look for a map on the flash.";
        (MapCache::Unclear(Family::Page), why.to_owned())
    } else {
        compare(session, size, Mode::Write, cached_bytes)?
    };
    let known = session.known().bytes(Parameter::ReadBufferSize);
    let cached_bytes = known.map_or(size * READ_BUFFER, |buffer| Bytes(buffer.0 * 5 / 4)).round_up(size);
    let is_few = cached_bytes <= Bytes(session.capacity().0 / READ_PART);
    let (read, more) = match written {
        MapCache::Found => return Ok((written, figures)),
        MapCache::None if !is_few => return Ok((MapCache::Unclear(Family::Page), figures)),
        MapCache::Unclear(_) if !is_few => return Ok((written, figures)),
        _ => compare(session, size, Mode::Read, cached_bytes)?,
    };
    let both = if matches!(read, MapCache::None) { written } else { read };
    Ok((both, format!("{figures} {more}")))
}

/// Brings pages to mind by reading or writing them and `cached_bytes` of others, and reads them before and after all else.
fn compare(
    session: &mut Session<'_, '_>,
    size: Bytes,
    by: Mode,
    cached_bytes: Bytes,
) -> Result<(MapCache, String), Halt> {
    let capacity = session.capacity().round_down(size);
    let slot = Bytes(capacity.0 / (PAGES + 1)).round_down(size);
    let origin = place(session, 0.4, Bytes::mib(1));
    let (mut known, mut forgotten) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let offset = size * (5 + 2 * round + if by.is_write() { 0 } else { 2 * ROUNDS });
        let few = |mode| {
            let pattern = ios(mode, Location::Sequential, size, PAGES).on_target(offset, slot * PAGES);
            apart(pattern, slot)
        };
        session.run("few-pages", &few(by))?;
        if cached_bytes > Bytes::ZERO {
            let others =
                ios(by, Location::Sequential, size, cached_bytes.0 / size.0).on_target(origin, cached_bytes);
            session.run("push-out", &others)?;
        }
        if by.is_write() {
            session.idle(priors::BUFFER_DRAINED)?;
        }
        known.extend(responses(&session.run("few-pages-read", &few(Mode::Read))?));
        let large = filling::LARGEST.min(capacity);
        let all = ios(Mode::Read, Location::Sequential, large, capacity.0 / large.0);
        session.run("everything-read", &all)?;
        forgotten.extend(responses(&session.run("few-pages-read", &few(Mode::Read))?));
    }
    let Some((cached, more)) = look_ups(&known, &forgotten) else {
        return Ok((MapCache::Unclear(Family::Page), String::new()));
    };
    let figures = format!(
        "After a {by} of {PAGES} pages, reading them takes {} the time if the whole device was read in between ({} to {}).",
        times(more.estimate),
        times(more.low),
        times(more.high)
    );
    Ok((cached, figures))
}
