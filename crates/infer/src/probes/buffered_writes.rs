//! Finds the size of the write buffer, from pages whose parts are rewritten repeatedly.
//!
//! # Model
//! A write buffer keeps a part of a page until the rest of it comes, or until the buffer is full. So parts of `n`
//! pages that are rewritten round-robin never reach the flash while `n` pages fit. If they do not fit, each part has
//! left the buffer before it is rewritten. Then each write reads the rest of a page and programs it. No small write
//! costs more, so this shows a buffer behind a slow link as well.
//!
//! Whether there is a buffer shows in one page: rewriting a part is faster than rewriting the page if it is buffered,
//! and slower if not.
//!
//! # Method
//! 1. If parts leave the buffer in idle time, the probe ends: their number shows a time and not a size.
//! 2. Without an earlier sign of a buffer, parts of one page and whole pages are rewritten alternately.
//! 3. The number of pages doubles until it does not fit. Bisection finds the size to the page, or to one per cent.
//!
//! # Invariants
//! - Each number of pages is rewritten in four rounds, so that pages which leave also fill the path to the flash. The
//!   last round counts.

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
use crate::thresholds;
use crate::words::duration;

pub(crate) const PROBE: Probe = Probe {
    name: "buffered-writes",
    about: "parts of a few pages are rewritten repeatedly, of more and more pages: how many does the write buffer hold?",
    parameters: &[Parameter::WriteBufferSize, Parameter::WriteBufferFlush],
    hands_in: &[],
    write_share: 0.01,
};

/// The largest write buffer that is looked for. Source: choice. Too large: the probe writes more; too small:
/// a larger buffer stays undetermined.
const BUFFER_MOST: Bytes = Bytes::mib(24);
/// The rounds over a number of pages. Only the last one counts, as pages that leave the buffer fill the path
/// to the flash first. Unit: rounds. Source: derivation: one fills the buffer, one empties it, one is in
/// between. Too many: the probe writes more; too few: pages that do not fit seem to fit.
const ROUNDS: u64 = 4;
/// The fewest writes that count. Unit: writes. Source: choice. Too many: the probe writes more; too few:
/// outliers decide.
const COUNTED_LEAST: u64 = 128;
/// A write that takes this many times a buffered one waits for the flash. Unit: ratio. Source: tuned. Too
/// high: short programs count as buffered; too low: jitter counts as waiting.
const WAITING_RATIO: f64 = 1.5;
/// The share of waiting writes from which on the pages do not fit. Unit: share. Source: tuned. Too high: the
/// buffer seems larger; too low: outliers make it seem smaller.
const WAITING_SHARE: f64 = 0.06;
/// The pages do not fit either if most writes take this many times a buffered one. Unit: ratio. Source:
/// tuned. Too high: the buffer seems larger; too low: drift makes it seem smaller.
const SLOWER_RATIO: f64 = 1.04;
/// The bisection ends when the number of pages is known to this share of it. Unit: share. Source: choice, a
/// third of [`crate::thresholds::RIGHT`]. Too large: the size is wrong; too small: the probe writes more.
const SIZE_STEP: f64 = 0.01;
/// The rounds in which a part of one page and the whole page are rewritten alternately. Unit: rounds. Source:
/// choice. Too many: the probe writes more; too few: rank tests show nothing.
const REWRITES: usize = 8;
/// The rewrites of one run. Unit: writes. Source: choice. Too many: the probe writes more; too few: the first
/// write after idle time is a large part.
const REWRITES_OF_RUN: u64 = 8;
/// A buffered part takes at most this share of the whole page. A smaller difference may be drift between the
/// two kinds of runs. Unit: share. Source: tuned. Too high: drift is a buffer; too low: buffers behind a slow
/// link are not found.
const BUFFERED_SHARE: f64 = 0.98;
/// The pages whose parts are rewritten at once and after idle time. Unit: pages. Source: choice. Too many:
/// the probe takes longer; too few: rank tests show nothing.
const IDLE_TRIALS: u64 = 24;
/// A rewrite after idle time takes at least this many times one at once if the part left the buffer and is
/// read from the flash. Unit: ratio. Source: derivation: a read takes a third of a buffered write or more;
/// half of it may be hidden. Too high: buffers that flush when idle get a size; too low: drift leaves them
/// without one.
const IDLE_RATIO: f64 = 1.15;

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
    let mut buffered_pages = BufferedPages { page, curve: Vec::new(), buffered: Vec::new() };
    if !seen_to_fill {
        let (parts, whole) = buffered_pages.parts_and_whole(session)?;
        let share = upper_median(&parts) / upper_median(&whole).max(1.0);
        let buffers = share < BUFFERED_SHARE
            && mann_whitney(&parts, &whole).p_below < thresholds::FALSE_ALARM_WITH_EFFECT;
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
    let Some(pages) = buffered_pages.most(session, before.as_ref().and_then(Finding::number))? else {
        return Ok(());
    };
    conclude(session, buffered_pages, pages, before);
    Ok(())
}

/// Whether a part of a page leaves the buffer in idle time. Then the next part makes the device read the page.
/// The number of pages without that is a time, and not a size.
fn leaves_when_idle(session: &mut Session<'_, '_>, page: Bytes) -> Result<bool, Halt> {
    let (at, part) = (place(session, 0.29, Bytes::mib(1)), session.block());
    let (mut at_once, mut later) = (Vec::new(), Vec::new());
    for index in 0..IDLE_TRIALS {
        let parts = writes(Location::Sequential, part, 1, at + page * (2 * index), part);
        session.idle(priors::PROGRAMMED)?;
        costs_of(session, "part", &parts)?;
        at_once.extend(costs_of(session, "part", &parts)?);
        session.idle(priors::PROGRAMMED)?;
        later.extend(costs_of(session, "part", &parts)?);
    }
    let is_slower = upper_median(&later) > IDLE_RATIO * upper_median(&at_once);
    Ok(is_slower && mann_whitney(&later, &at_once).p_above < thresholds::FALSE_ALARM_WITH_EFFECT)
}

/// Concludes the size of the buffer: these pages, compared with an earlier finding.
fn conclude(
    session: &mut Session<'_, '_>,
    buffered_pages: BufferedPages,
    pages: u64,
    before: Option<Finding>,
) {
    let page = buffered_pages.page;
    let size = page * pages;
    let evidence = format!(
        "Rewriting parts of {pages} pages of {page} repeatedly takes {} each, and {} with one page more: the write buffer holds \
         {size}.",
        duration(upper_median(&buffered_pages.buffered)),
        duration(buffered_pages.cost(pages + 1))
    );
    let picture = Picture::new(
        "Repeated rewrites of parts of pages: as long as the write buffer holds them, they do not reach the flash.",
        Axis::logarithmic("size of all these pages", "bytes"),
        Axis::logarithmic("mean response time", "ns"),
    )
    .draw("small writes", Style::Dots, buffered_pages.curve)
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

/// Pages whose parts are rewritten in the write buffer.
struct BufferedPages {
    page: Bytes,
    /// Bytes of the pages, and means.
    curve: Vec<(f64, f64)>,
    /// What buffered writes take.
    buffered: Vec<f64>,
}

impl BufferedPages {
    /// The most pages that fit in the buffer; `None` if that does not show.
    fn most(&mut self, session: &mut Session<'_, '_>, guess: Option<f64>) -> Result<Option<u64>, Halt> {
        let most = BUFFER_MOST.min(Bytes(session.capacity().0 / 16)).0 / self.page.0;
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
        while many - few > 1.max((SIZE_STEP * few as f64) as u64) {
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
                let again = writes(Location::Sequential, size, REWRITES_OF_RUN, at, size);
                costs.extend(costs_of(session, "one-page", &again)?);
                session.wrote_in_place(size * REWRITES_OF_RUN);
            }
        }
        Ok((parts, whole))
    }

    /// Whether parts of this number of pages fit in the buffer.
    fn is_buffered(&mut self, session: &mut Session<'_, '_>, pages: u64) -> Result<bool, Halt> {
        let size = session.block();
        let count = (pages * ROUNDS).max(COUNTED_LEAST * 2);
        let span = self.page * pages;
        session.idle(priors::BUFFER_DRAINED)?;
        let at = place(session, 0.27, Bytes::mib(1));
        let pattern = apart(writes(Location::Sequential, size, count, at, span), self.page);
        let costs = costs_of(session, "again-and-again", &pattern)?;
        session.wrote_in_place(size * count);
        let counted = &costs[costs.len() - (count / ROUNDS).max(COUNTED_LEAST) as usize..];
        // The first one shows what buffered writes take, if any are.
        if self.buffered.is_empty() {
            self.buffered = counted.to_vec();
        }
        let usual = upper_median(&self.buffered);
        let waits = counted.iter().filter(|&&cost| cost > WAITING_RATIO * usual).count();
        self.curve.push((span.0 as f64, mean(counted)));
        let slower = mann_whitney(counted, &self.buffered).p_above < thresholds::FALSE_ALARM_OF_MANY_IOS
            && upper_median(counted) > SLOWER_RATIO * usual;
        Ok((waits as f64) < WAITING_SHARE * counted.len() as f64 && !slower)
    }

    /// The mean of the smallest number from this one on.
    fn cost(&self, pages: u64) -> f64 {
        let from = (self.page * pages).0 as f64;
        let above = self.curve.iter().filter(|point| point.0 >= from);
        above.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(f64::NAN, |point| point.1)
    }
}
