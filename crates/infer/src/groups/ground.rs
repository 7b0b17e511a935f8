//! Where reads go, and what they read.
//!
//! # Model
//! Some devices know a part of their map at a time (demand-cached maps), so that reads all over the device wait for the
//! map as well, and what was written in order lies in order only for a while. There, few places near each other are
//! read again and again: their part of the map stays at hand. Others keep what was read last, and only many places
//! show the flash. Nobody knows before which of them a device is, so both are tried: what is found on any of the
//! grounds is verified there.
//!
//! A read of one block needs one page. A read across the boundary of two pages needs two, so that the flash has more to do
//! beside the command.

use flashlab_base::Bytes;
use flashlab_plan::Pattern;

use super::reads::{Walk, room};
use crate::session::{Halt, Session};

/// The smallest stride over the whole device, and over a part of it.
const STRIDE_WHOLE: Bytes = Bytes::kib(128);
const STRIDE_PART: Bytes = Bytes::kib(16);
/// As many places are read even where they lie outside its range.
const PLACES_LEAST: u64 = 24;
/// Where there is less room than this, all parts begin at the beginning.
const ROOM_SMALL: Bytes = Bytes::mib(12);
/// The fewest places that are compared.
const PLACES_MIN: u64 = 12;

/// A part of the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ground {
    /// Where it begins.
    pub(crate) base: Bytes,
    /// Over how much random reads are spread, if that has enough places.
    pub(crate) range: Bytes,
    /// At most so many places of one kind are read.
    pub(crate) places: u64,
}

impl Ground {
    /// The whole device, as far as going there costs nothing.
    pub(crate) const WHOLE: Ground = Ground { base: Bytes::ZERO, range: Bytes::mib(64), places: u64::MAX };

    /// All grounds, in the order in which they are tried: many places whose map is at hand, then all.
    pub(crate) fn all(session: &Session<'_, '_>) -> Vec<Ground> {
        let part = |share: u64, mib: u64, places: u64| Ground {
            base: if room(session) < ROOM_SMALL { Bytes::ZERO } else { Bytes(room(session).0 / 8 * share) },
            range: Bytes::mib(mib),
            places,
        };
        vec![
            part(3, 16, 512),
            Ground::WHOLE,
            part(5, 8, 256),
            part(4, 4, 64),
            part(2, 1, 32),
            part(6, 2, 32),
            part(1, 1, 32),
        ]
    }

    /// The same ground elsewhere.
    pub(crate) fn elsewhere(self, session: &Session<'_, '_>) -> Ground {
        let eighth = Bytes(room(session).0 / 8);
        if self.is_whole() {
            return Ground { base: Bytes(eighth.0 / 2), ..self };
        }
        Ground {
            base: if self.base < eighth * 4 { self.base + eighth * 4 } else { self.base - eighth * 4 },
            ..self
        }
    }

    /// Its beginning as a multiple of `slot`.
    pub(crate) fn begin(&self, slot: Bytes) -> Bytes {
        Bytes(self.base.0 / slot.0 * slot.0)
    }

    /// How many slots it has for reads that end before `until` in their slot.
    pub(crate) fn slots(&self, session: &Session<'_, '_>, slot: Bytes, until: Bytes) -> u64 {
        let left = room(session).0.saturating_sub(self.begin(slot).0 + until.0);
        let within = if self.is_whole() { u64::MAX } else { (self.range.0 / slot.0).max(PLACES_LEAST) };
        (left / slot.0).min(self.places).min(within)
    }

    /// A multiple of the stripe, for reads that have the same place in each; none where there are too few of them. Where
    /// places may be far apart they are, as near ones may share a row of pages.
    pub(crate) fn stride(&self, session: &Session<'_, '_>, stripe: Bytes) -> Option<Bytes> {
        let least = if self.is_whole() { STRIDE_WHOLE } else { STRIDE_PART };
        let stride = stripe * least.0.div_ceil(stripe.0.max(1));
        (self.slots(session, stride, stride * 2) >= PLACES_MIN).then_some(stride)
    }

    /// Whether it has as many places as the device.
    fn is_whole(&self) -> bool {
        self.places == u64::MAX
    }

    /// Reads at random slots of it; `walk` says where in a slot.
    pub(crate) fn random(&self, session: &Session<'_, '_>, walk: Walk, count: u64, depth: u32) -> Pattern {
        let slots = self.slots(session, walk.slot, walk.offset + walk.size).max(1);
        let walk = Walk { offset: self.begin(walk.slot) + walk.offset, ..walk };
        walk.random(walk.slot * slots, count, depth)
    }

    /// Reads the places of these patterns once, so that the map of few places is at hand.
    pub(crate) fn warm(&self, session: &mut Session<'_, '_>, patterns: &[Pattern]) -> Result<(), Halt> {
        if self.is_whole() {
            return Ok(());
        }
        for pattern in patterns {
            let mut once = pattern.clone();
            let mixed = 1 + u64::from(pattern.mix.is_some());
            once.io_count = Some(self.places * mixed);
            for basic in once.basics_mut() {
                basic.location = flashlab_plan::Location::Sequential;
            }
            session.run("map", &once)?;
        }
        Ok(())
    }
}

/// What is read at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    /// Where it begins in its unit.
    pub(crate) offset: Bytes,
    /// Its size.
    pub(crate) size: Bytes,
    /// Places are multiples of this.
    pub(crate) unit: Bytes,
}

impl Piece {
    /// Places of one block are multiples of this where the page is not known.
    const UNIT: Bytes = Bytes::kib(2);

    /// One block, and reads across the boundary of two pages where these are known.
    pub(crate) fn all(session: &Session<'_, '_>, page: Option<Bytes>) -> Vec<Piece> {
        let block = session.block();
        let one = Piece { offset: Bytes::ZERO, size: block, unit: page.unwrap_or(Piece::UNIT).max(block) };
        let two = page.filter(|&page| page > block).map(|page| Piece {
            offset: page - block,
            size: block * 2,
            unit: page * 2,
        });
        [one].into_iter().chain(two).collect()
    }
}
