//! Whether two places are on the same die, once the stripe over the dies is known.
//!
//! # Model
//! Reads at random places that are the same modulo the stripe are all on one die, and with several in flight each waits for those before
//! it. Of two such walks in turn the reads wait as long if both are on the same die, and less if not. How much
//! less is seen at half a stripe, which is another die however many there are. Dies of one channel wait for each
//! other's transfers as well, so that a pair may lie between; what counts as the same die is
//! within a quarter of the contrast.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;
use flashlab_plan::Pattern;

use super::ground::{Ground, Piece};
use super::reads::{Walk, compare, in_turn, times};
use crate::session::{Halt, Session};

/// The contrast that the least difference in waiting must have.
const CONTRAST_MAX: f64 = 0.975;
/// Which part of the contrast still counts as the same die.
const SAME_SHARE: f64 = 0.25;

/// A chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// Where one begins.
    pub(crate) begin: Bytes,
    /// Its size.
    pub(crate) chunk: Bytes,
}

/// The oracle.
pub(crate) struct Dies {
    stripe: Bytes,
    ground: Ground,
    piece: Piece,
    stride: Bytes,
    depth: u32,
    /// How long reads half a stripe apart wait, relative to those on one die.
    half: f64,
}

impl Dies {
    /// Reads of a run.
    pub(crate) const READS: u64 = 32;
    /// Runs of each pattern, and more where they do not decide.
    const ROUNDS: usize = 6;

    /// How many reads are kept in flight.
    pub(crate) fn depth(session: &Session<'_, '_>) -> u32 {
        session.depth().min(8)
    }

    /// The oracle for stripes of this width on a ground; none where reads at half of it wait as long.
    pub(crate) fn new(
        session: &mut Session<'_, '_>,
        ground: Ground,
        piece: Piece,
        stripe: Bytes,
    ) -> Result<Option<Dies>, Halt> {
        let Some(stride) = ground.stride(session, stripe) else { return Ok(None) };
        let mut dies = Dies { stripe, ground, piece, stride, depth: Dies::depth(session), half: 1.0 };
        let away = Bytes(stripe.0 / 2).round_down(piece.unit);
        for rounds in [2 * Dies::ROUNDS, 6 * Dies::ROUNDS] {
            let waits = dies.waits(session, Bytes::ZERO, away, rounds)?;
            dies.half = waits.estimate;
            if waits.high < CONTRAST_MAX {
                return Ok(Some(dies));
            }
        }
        Ok(None)
    }

    /// How long reads half a stripe apart take, relative to those on one die.
    pub(crate) fn contrast(&self) -> f64 {
        self.half
    }

    /// The same elsewhere.
    pub(crate) fn elsewhere(&self, session: &Session<'_, '_>) -> Dies {
        Dies { ground: self.ground.elsewhere(session), ..*self }
    }

    fn walk(&self, session: &Session<'_, '_>, place: Bytes) -> Pattern {
        let walk = Walk { offset: place + self.piece.offset, slot: self.stride, size: self.piece.size };
        self.ground.random(session, walk, Dies::READS + u64::from(self.depth), self.depth)
    }

    /// How long reads at two places wait, relative to those at the first alone.
    fn waits(
        &self,
        session: &mut Session<'_, '_>,
        first: Bytes,
        second: Bytes,
        rounds: usize,
    ) -> Result<Interval, Halt> {
        let alone = self.walk(session, first);
        let both = in_turn(alone.clone(), self.walk(session, second));
        let patterns = [alone, both];
        self.ground.warm(session, &patterns)?;
        let figures = compare(session, "same-die", &patterns, rounds)?;
        Ok(times(&figures[0], &figures[1]))
    }

    /// Whether two places are on the same die; none where it is not clear.
    pub(crate) fn same(
        &self,
        session: &mut Session<'_, '_>,
        first: Bytes,
        second: Bytes,
    ) -> Result<Option<bool>, Halt> {
        let limit = 1.0 - SAME_SHARE * (1.0 - self.half);
        for rounds in [Dies::ROUNDS, 3 * Dies::ROUNDS, 9 * Dies::ROUNDS] {
            let waits = self.waits(session, first, second, rounds)?;
            if waits.low > limit {
                return Ok(Some(true));
            }
            if waits.high < limit {
                return Ok(Some(false));
            }
        }
        Ok(None)
    }

    /// The first chunk that begins behind `from`: its ends by bisection.
    pub(crate) fn chunk(&self, session: &mut Session<'_, '_>, from: Bytes) -> Result<Option<Place>, Halt> {
        let Some(begin) = self.end(session, from)? else { return Ok(None) };
        let Some(end) = self.end(session, begin)? else { return Ok(None) };
        Ok(Some(Place { begin, chunk: end - begin }))
    }

    /// Where the chunk that holds `from` ends: half a stripe later at the most.
    fn end(&self, session: &mut Session<'_, '_>, from: Bytes) -> Result<Option<Bytes>, Halt> {
        let unit = self.piece.unit;
        let (mut same, mut other) = (0, (self.stripe.0 / 2).div_ceil(unit.0));
        while other - same > 1 {
            let middle = (same + other) / 2;
            match self.same(session, from, from + unit * middle)? {
                Some(true) => same = middle,
                Some(false) => other = middle,
                None => return Ok(None),
            }
        }
        Ok(Some(from + unit * other))
    }

    /// Whether each of the next chunks is on a die of its own, until the stripe begins again.
    pub(crate) fn all_apart(
        &self,
        session: &mut Session<'_, '_>,
        begin: Bytes,
        chunk: Bytes,
        units: u64,
    ) -> Result<bool, Halt> {
        for k in 1..units {
            if self.same(session, begin, begin + chunk * k)? != Some(false) {
                return Ok(false);
            }
        }
        Ok(self.same(session, begin, begin + self.stripe)? == Some(true))
    }

    /// Whether a chunk begins and ends at these places.
    pub(crate) fn is_chunk(
        &self,
        session: &mut Session<'_, '_>,
        begin: Bytes,
        chunk: Bytes,
    ) -> Result<bool, Halt> {
        let last = begin + chunk - self.piece.unit;
        Ok(self.same(session, begin, last)? == Some(true)
            && self.same(session, last, begin + chunk)? == Some(false)
            && self.same(session, begin - self.piece.unit, begin)? == Some(false))
    }
}
