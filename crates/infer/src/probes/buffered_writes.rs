//! How much a write buffer holds, from pages that are written repeatedly in it.
//!
//! # Model
//! A part of a page that is written is held until the rest of it comes or there is no room. So parts of `n` pages, written in
//! turn repeatedly, never reach the flash while `n` pages fit; if one does not, each of them has left when its turn comes
//! again, and each write costs reading the rest of a page and programming it. As that is the most that a small write can ask of
//! the flash, it shows where the link is too slow for large writes to fill the buffer.
//!
//! Whether there is a buffer at all shows in one page: a part of it that is held takes less than the whole, one that is not more,
//! as the rest is read.
//!
//! # Invariants
//! - a number of pages is written four times in turn, so that what leaves fills the way to the flash as well; the last turn counts;
//! - the number is halved in on until it is known to the page, or to a hundredth.

use crate::priors;
use crate::signals::pictures::ranked;
use crate::signals::statistics::{mean, upper_median};
use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style, Verdict};
use flashlab_base::Bytes;
use flashlab_plan::Location;

use crate::answers::write_buffer::{hand_in_none, of_parts};
use crate::halt::Halt;
use crate::patterns::writes::{apart, costs_of, place, writes};
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::duration;

pub(crate) const PROBE: Probe = Probe {
    name: "buffered-writes",
    about: "parts of a few pages are rewritten repeatedly, of more and more pages: how many does the write buffer hold?",
    parameters: &[Parameter::WriteBufferSize, Parameter::WriteBufferFlush],
    hands_in: &[],
    write_share: 0.01,
};

/// The most that is expected.
const MOST: Bytes = Bytes::mib(24);
/// Turns of a number of pages, and the fewest writes that count.
const TURNS: u64 = 4;
const COUNTED: u64 = 128;
/// A write that takes this many times as long as buffered ones waits, and this share of all that count does, at least.
const WAITS: f64 = 1.5;
const SHARE: f64 = 0.06;
/// Or most take this many times as long, with this p.
const SLOWER: f64 = 1.04;
const P_SLOWER: f64 = 1e-6;
/// A number of pages is known if it is known so exactly.
const EXACT: f64 = 0.01;
/// One page is written in parts and whole so often in turn, and so often in a row.
const REWRITES: usize = 8;
const IN_TURN: u64 = 8;
/// A part that is held takes at most this share of what the page takes, with this p. A smaller difference, which the test alone would find,
/// may be drift between the two kinds of runs.
const BUFFERED_SHARE: f64 = 0.98;
const P: f64 = 1e-3;
/// Pages whose parts are rewritten at once and after idle time, and by how much the latter takes longer if it reads from the flash: a
/// read takes a third of a buffered write or more.
const LEAVES_OF: u64 = 24;
const LEAVES_SLOWER: f64 = 1.15;

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let parameter = Parameter::WriteBufferSize;
    let known = session.known();
    let Some(page) = known.bytes(Parameter::ReadPageSize) else { return Ok(()) };
    let seen_to_fill = known.word(Parameter::WriteBufferFlush) == Some("immediately")
        && known.number(Parameter::WriteBufferSize).is_some();
    let before = session.provisional(parameter).map(|finding| rounded(finding, page));
    if let Some(before) = before.clone() {
        session.hand_in(before);
    }
    if page < session.block() * 2 {
        return Ok(());
    }
    if leaves_when_idle(session, page)? {
        return Ok(());
    }
    let mut held = Held { page, curve: Vec::new(), buffered: Vec::new() };
    if !seen_to_fill {
        let (parts, whole) = held.parts_and_whole(session)?;
        let share = upper_median(&parts) / upper_median(&whole).max(1.0);
        let buffers = share < BUFFERED_SHARE && mann_whitney(&parts, &whole).p_below < P;
        let provisional = session.provisional(Parameter::WriteBufferFlush).map(|finding| finding.verdict);
        match provisional {
            Some(Verdict::Found) if share >= 1.0 => {
                hand_in_unbuffered(session, page, [&parts, &whole]);
                return Ok(());
            }
            Some(Verdict::Found) => {}
            _ if buffers => {}
            _ => return Ok(()),
        }
    }
    let before =
        session.provisional(parameter).filter(|finding| finding.number().is_some_and(|size| size > 0.0));
    let Some(pages) = held.most(session, before.as_ref().and_then(Finding::number))? else { return Ok(()) };
    conclude(session, held, pages, before);
    Ok(())
}

/// Whether a part of a page leaves the buffer when the device is idle: then the next part makes the device read the page, and how
/// many pages are rewritten without that says how long they stay, and not how many there is space for.
fn leaves_when_idle(session: &mut Session<'_, '_>, page: Bytes) -> Result<bool, Halt> {
    let (at, part) = (place(session, 0.29, Bytes::mib(1)), session.block());
    let (mut at_once, mut later) = (Vec::new(), Vec::new());
    for index in 0..LEAVES_OF {
        let parts = writes(Location::Sequential, part, 1, at + page * (2 * index), part);
        session.idle(priors::PROGRAMMED)?;
        costs_of(session, "part", &parts)?;
        at_once.extend(costs_of(session, "part", &parts)?);
        session.idle(priors::PROGRAMMED)?;
        later.extend(costs_of(session, "part", &parts)?);
    }
    let is_slower = upper_median(&later) > LEAVES_SLOWER * upper_median(&at_once);
    Ok(is_slower && mann_whitney(&later, &at_once).p_above < P)
}

/// Concludes how much is held: these pages, compared with what was found before.
fn conclude(session: &mut Session<'_, '_>, held: Held, pages: u64, before: Option<Finding>) {
    let page = held.page;
    let size = page * pages;
    let evidence = format!(
        "Rewriting parts of {pages} pages of {page} repeatedly takes {} each, and {} with one page more: the write buffer holds \
         {size}.",
        duration(upper_median(&held.buffered)),
        duration(held.cost(pages + 1))
    );
    let picture = Picture::new(
        "Repeated rewrites of parts of pages: as long as the write buffer holds them, they do not reach the flash.",
        Axis::logarithmic("size of all these pages", "bytes"),
        Axis::logarithmic("mean response time", "ns"),
    )
    .draw("small writes", Style::Dots, held.curve)
    .mark(size.0 as f64, "size of the write buffer");
    let finding = of_parts(size, evidence, before);
    if session.known().word(Parameter::WriteBufferFlush).is_none() {
        let evidence =
            format!("The write buffer keeps parts of pages, but not whole pages. {}", finding.evidence);
        let flush = Rule::found(
            Parameter::WriteBufferFlush,
            "immediately",
            Rule::likely("keeps parts of pages"),
            evidence,
        );
        session.hand_in(flush.with(picture.clone()));
    }
    session.conclude(finding.with(picture));
}

/// Hands in that there is no buffer, other than before.
fn hand_in_unbuffered(session: &mut Session<'_, '_>, page: Bytes, [parts, whole]: [&[f64]; 2]) {
    let evidence = format!(
        "Rewriting a part of a page of {page} repeatedly takes {} each, and rewriting the whole page {}: the device reads the other \
         part each time, and has no write buffer.",
        duration(upper_median(parts)),
        duration(upper_median(whole))
    );
    let picture = ranked(
        "Repeated rewrites of one page and of a part of it: with a write buffer the part takes less time than the page.",
        "writes",
        [("a part of the page", parts), ("the whole page", whole)],
    );
    hand_in_none(session, Rule::likely("parts are read each time"), evidence, picture);
}

/// A size in whole pages.
fn rounded(finding: Finding, page: Bytes) -> Finding {
    match finding.number() {
        Some(size) => {
            let size = Bytes(size as u64).round_down(page);
            Finding { value: Some(size.into()), ..finding }
        }
        None => finding,
    }
}

/// Pages that are held.
struct Held {
    page: Bytes,
    /// Bytes of the pages, and means.
    curve: Vec<(f64, f64)>,
    /// What buffered writes take.
    buffered: Vec<f64>,
}

impl Held {
    /// How many pages are held at the most; `None` where that is not seen.
    fn most(&mut self, session: &mut Session<'_, '_>, guess: Option<f64>) -> Result<Option<u64>, Halt> {
        let most = MOST.min(Bytes(session.capacity().0 / 16)).0 / self.page.0;
        let (mut few, mut many, mut too_many) = (2, 4, false);
        if !self.is_buffered(session, 2)? {
            return Ok(None);
        }
        if let Some(guess) = guess {
            let guess = ((guess / self.page.0 as f64) as u64).clamp(2, most.max(2));
            if self.is_buffered(session, guess)? {
                (few, many) = (guess, guess + 1);
            } else {
                // The next one to be tried is one page less.
                (many, too_many) = (guess.max(3), true);
                if guess > 2 && self.is_buffered(session, guess - 1)? {
                    return Ok(Some(guess - 1));
                }
            }
        }
        // Where the guess is not too large: one page more, then twice as many each time.
        while !too_many && self.is_buffered(session, many)? {
            (few, many) = (many, many * 2);
            if many > most {
                return Ok(None);
            }
        }
        while many - few > 1.max((EXACT * few as f64) as u64) {
            let middle = (few + many) / 2;
            if self.is_buffered(session, middle)? { few = middle } else { many = middle }
        }
        Ok(Some(few))
    }

    /// What writing a part of one page takes, and writing all of it, repeatedly and alternating.
    fn parts_and_whole(&self, session: &mut Session<'_, '_>) -> Result<(Vec<f64>, Vec<f64>), Halt> {
        let at = place(session, 0.27, Bytes::mib(1));
        let (mut parts, mut whole) = (Vec::new(), Vec::new());
        for _ in 0..REWRITES {
            for (size, costs) in [(session.block(), &mut parts), (self.page, &mut whole)] {
                session.idle(priors::BUFFER_DRAINED)?;
                let again = writes(Location::Sequential, size, IN_TURN, at, size);
                costs.extend(costs_of(session, "one-page", &again)?);
                session.wrote_in_place(size * IN_TURN);
            }
        }
        Ok((parts, whole))
    }

    /// Whether parts of this number of pages are all held.
    fn is_buffered(&mut self, session: &mut Session<'_, '_>, pages: u64) -> Result<bool, Halt> {
        let size = session.block();
        let count = (pages * TURNS).max(COUNTED * 2);
        let span = self.page * pages;
        session.idle(priors::BUFFER_DRAINED)?;
        let at = place(session, 0.27, Bytes::mib(1));
        let pattern = apart(writes(Location::Sequential, size, count, at, span), self.page);
        let costs = costs_of(session, "again-and-again", &pattern)?;
        session.wrote_in_place(size * count);
        let counted = &costs[costs.len() - (count / TURNS).max(COUNTED) as usize..];
        // The first one shows what buffered writes take, if any are.
        if self.buffered.is_empty() {
            self.buffered = counted.to_vec();
        }
        let usual = upper_median(&self.buffered);
        let waits = counted.iter().filter(|&&cost| cost > WAITS * usual).count();
        self.curve.push((span.0 as f64, mean(counted)));
        let slower = mann_whitney(counted, &self.buffered).p_above < P_SLOWER
            && upper_median(counted) > SLOWER * usual;
        Ok((waits as f64) < SHARE * counted.len() as f64 && !slower)
    }

    /// The mean of the smallest number from this one on.
    fn cost(&self, pages: u64) -> f64 {
        let from = (self.page * pages).0 as f64;
        let above = self.curve.iter().filter(|point| point.0 >= from);
        above.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(f64::NAN, |point| point.1)
    }
}
