//! Whether a page map is kept on the flash, and only a part of it in memory.
//!
//! # Model
//! Such a map has to look up addresses that were not used lately, which is another read of the flash (DFTL, Gupta et
//! al., ASPLOS 2009). A few pages all over the device are brought to mind and read; then the whole device is read, so that
//! where they lie is forgotten, and so is what any buffer holds; then they are cached. The same pages lie at the same
//! places both times: what the second time takes more is looking them up.
//!
//! A page is brought to mind by writing it, which also makes a buffer for reads forget it. But what lies in SLC cells is found by another
//! map, and forgotten when it is moved from there. So other pages are only read, and then as many as a read buffer holds, which are fewer
//! than any such map remembers.
//!
//! # Invariants
//! - what a write buffer may keep is pushed out of it before the first time;
//! - two rounds, at different places, have to agree.

use crate::priors;
use crate::signals::map_look_ups::{MapCache, look_ups};
use flashlab_analysis::inference::{Family, Parameter};
use flashlab_base::{Bytes, Mode};
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::writes::{apart, known_buffer, place};
use crate::patterns::{ios, responses};
use crate::session::Session;
use crate::words::times;

/// Pages whose places any such map can remember.
const PAGES: u64 = 32;
const ROUNDS: u64 = 2;
/// Pages that a buffer for reads holds at most, and the part of a device that a map certainly remembers.
const READ_BUFFER: u64 = 640;
const READ_PART: u64 = 60;
/// Reads of the whole device.
const LARGE: Bytes = Bytes::mib(1);

/// Compares reads of a few pages before and after the whole device was read: of pages that are written before, and, where these show no
/// look-up, of others that are only read.
pub(super) fn look_for_map_cache(
    session: &mut Session<'_, '_>,
    size: Bytes,
) -> Result<(MapCache, String), Halt> {
    let held = known_buffer(session).most(session).round_up(size);
    let (written, figures) = if (size * PAGES + held) * ROUNDS > session.writes_left() {
        let why = "The write budget was too small to write a few pages and look for a map on the flash.";
        (MapCache::Unclear(Family::Page), why.to_owned())
    } else {
        compare(session, size, Mode::Write, held)?
    };
    let known = session.known().bytes(Parameter::ReadBufferSize);
    let held = known.map_or(size * READ_BUFFER, |buffer| Bytes(buffer.0 * 5 / 4)).round_up(size);
    let is_few = held <= Bytes(session.capacity().0 / READ_PART);
    let (read, more) = match written {
        MapCache::Found => return Ok((written, figures)),
        MapCache::None if !is_few => return Ok((MapCache::Unclear(Family::Page), figures)),
        MapCache::Unclear(_) if !is_few => return Ok((written, figures)),
        _ => compare(session, size, Mode::Read, held)?,
    };
    let both = if matches!(read, MapCache::None) { written } else { read };
    Ok((both, format!("{figures} {more}")))
}

/// Brings pages to mind by reading or writing them and `held` of others, and reads them before and after all else.
fn compare(
    session: &mut Session<'_, '_>,
    size: Bytes,
    by: Mode,
    held: Bytes,
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
        if held > Bytes::ZERO {
            let others = ios(by, Location::Sequential, size, held.0 / size.0).on_target(origin, held);
            session.run("push-out", &others)?;
        }
        if by.is_write() {
            session.idle(priors::BUFFER_DRAINED)?;
        }
        known.extend(responses(&session.run("few-pages-read", &few(Mode::Read))?));
        let large = LARGE.min(capacity);
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
