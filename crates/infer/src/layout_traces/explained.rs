//! Concludes pages, planes, chunks, dies and channels from reads of many sizes, if a layout explains them.
//!
//! # Method
//! 1. `traces` reads one region after the other, until `likely` has a layout that explains the reads.
//! 2. Reads in another region have to agree with each answer.
//! 3. A device may serve one request after the other, as a USB stick does whatever the kernel queues. Then only reads
//!    one at a time count ([`served_in_turn`]). The same if pages show and no layout explains reads in flight,
//!    because a transport passes one on while another is served. These answers are capped.
//! 4. If layouts with other planes or dies are left, the writes of the fill decide (`row_writes`): a slow link hides
//!    reads, but no programs.
//!
//! # Invariants
//! - No answer is clear unless reads of two regions agree.

use crate::flash_layout::{Crossings, FlashLayout, Likely, TimedRun, alone, are_served_in_turn, nanos};
use crate::priors;
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style, Value};
use flashlab_base::Bytes;

use super::read_pages::Page;
use super::traces::{MIXED_FACTORS, Region, traces};
use crate::caps;
use crate::halt::Halt;
use crate::knowledge::CONFIDENCE_LEAST;
use crate::rule::Rule;
use crate::session::Session;
use crate::words::{duration, times};

/// The pages that are tried where the page is not known. Unit: bytes. Source: ONFI 4.2: 2 to 16 KiB, and
/// twice that. Too many: the search takes longer; too few: an unusual page gets a wrong layout.
const PAGES_TRIED: [u64; 5] = [2048, 4096, 8192, 16384, 32768];
/// Reads scatter by at most this much more than reads of one kind if a layout explains them. Unit: ratio of
/// variances. Source: tuned. Too high: wrong layouts are believed; too low: right ones stay undetermined.
const MISFIT_GOOD: f64 = 1.25;
/// With a greater misfit, no layout explains them. Unit: ratio of variances. Source: tuned. Too high: devices
/// without flash get a layout; too low: devices with effects beside the flash have none.
const MISFIT_MAX: f64 = 2.6;
/// The most regions in which a layout is looked for. Unit: regions. Source: choice. Too many: the search
/// takes longer; too few: a region that a cache serves is the last one.
const SEARCHES_MOST: usize = 4;
/// The reads in one region take at most this part of the time for reading. Unit: part. Source: choice. Too
/// small: later probes have no time; too large: slow devices have too few reads.
const REGION_TIME_PART: u64 = 4;
/// The least share of the flash in the shortest read. With less, a buffer may have answered. Unit: share.
/// Source: tuned. Too high: flash behind a slow link has no layout; too low: memory has one.
const FLASH_SHARE_LEAST: f64 = 0.12;
/// The log-likelihood ratio to other answers from which on an answer is clear. Unit: natural logarithm.
/// Source: tuned. Too high: right answers count as doubtful; too low: errors of the model decide.
const MARGIN_CLEAR: f64 = 20.0;
/// The same for reads of another region, which had no part in finding the layout. Unit: natural logarithm, so
/// 50 to 1. Source: tuned. Too high: right answers count as doubtful; too low: chance confirms a wrong
/// layout.
const MARGIN_AGAIN: f64 = 4.0;
const CLEAR_RULE: Rule = Rule::strong("layout with a page boundary");
const UNCLEAR_RULE: Rule = Rule::strong("layout");
/// Reads of one kind scatter by less on nearly all devices of the calibration, whose jitter is 5 %. Behind a
/// network they scatter by more. Unit: natural logarithm. Source: calibration: `cargo xtask infer-score
/// --calibrate`. Too high: answers have a confidence that was not counted for such devices; too low: the
/// confidence of usual devices is capped.
const SCATTER_USUAL: f64 = 0.12;
const SCATTERED: Rule = Rule::weak("reads scatter").capped(caps::SCATTER);
/// With more scatter, reads one at a time do not distinguish one die from several. Unit: natural logarithm.
/// Source: tuned. Too high: noise becomes dies; too low: devices with jitter stay undetermined.
const SCATTER_SERIAL: f64 = 0.16;
/// At most, where only reads one at a time are explained: devices without flash, and pages of no power of two, may look so.
const ONE_AT_A_TIME: Rule = Rule::weak("reads one at a time alone").capped(caps::UNSEEN);
/// At most, where reads scatter about the layout more than by chance.
const LEFT_OPEN: Rule = Rule::weak("misfit");

/// A layout that explains what was measured.
pub(crate) struct Explained {
    /// From all that was asked, and from reads elsewhere alone.
    both: Likely,
    again: Option<Likely>,
    written: Option<Written>,
    /// Whether reads scatter about it no more than reads of one kind.
    is_good: bool,
    /// The highest rule; a lower one where pages do not show by themselves, or reads in flight together were left out.
    pub(crate) most: Rule,
    evidence: String,
    picture: Picture,
}

/// What writes say alone, where they were asked, and what reads had said without them.
struct Written {
    alone: Likely,
    reads: Likely,
}

/// Looks for a layout; `row_writes` were a part of filling the device.
pub(crate) fn explained(
    session: &mut Session<'_, '_>,
    found: Option<&Page>,
    row_writes: &[TimedRun],
) -> Result<Option<Explained>, Halt> {
    let (page, crossings) = (found.map(|page| page.size), found.map(|page| &page.crossings));
    let pages: Vec<u64> = match page {
        Some(page) => vec![page.0],
        None => PAGES_TRIED.map(|page| page.max(session.block().0)).to_vec(),
    };
    let Some((best, least)) = best_region(session, page, &pages, crossings)? else { return Ok(None) };
    let Best { region, factor, runs, likely } = best;
    let elsewhere = traces(session, region.elsewhere(), page, factor)?;
    let is_alone = runs.len() == alone(&runs).len();
    let agreed =
        elsewhere.and_then(|other| likely.again(if is_alone { alone(&other) } else { other.as_slice() }));
    let agreed = agreed.filter(|(again, _)| again.misfit <= MISFIT_MAX);
    let picture = picture(&runs);
    let (again, both) = match agreed {
        Some((again, both)) => (Some(again), both),
        None => (None, likely),
    };
    let is_clear = |likely: &Likely| {
        likely.margin(|layout| layout.planes, &likely.best().planes) > MARGIN_CLEAR
            && likely.margin(|layout| layout.dies, &likely.best().dies) > MARGIN_CLEAR
    };
    let knows_buffer = session.known().bytes(Parameter::WriteBufferSize).is_some();
    let with_writes = if is_clear(&both) { None } else { both.with_writes(row_writes, knows_buffer) };
    let (written, both) = match with_writes {
        Some((alone, all)) => (Some(Written { alone, reads: both }), all),
        None => (None, both),
    };
    let evidence = evidence(&both, written.as_ref().map(|written| &written.alone), &runs);
    let is_good = unexplained(&both, least) < MISFIT_GOOD;
    let most = match page {
        Some(_) if is_alone && session.depth() > 1 => ONE_AT_A_TIME,
        Some(_) => CLEAR_RULE,
        None => UNCLEAR_RULE,
    };
    Ok(Some(Explained { both, again, written, is_good, most, evidence, picture }))
}

/// The region whose reads a layout explains best.
struct Best {
    region: Region,
    factor: f64,
    runs: Vec<TimedRun>,
    likely: Likely,
}

/// Looks for a layout in one region after the other; none where no region has one. Also returns by how much reads of one kind scatter
/// in the region where they do so least.
fn best_region(
    session: &mut Session<'_, '_>,
    page: Option<Bytes>,
    pages: &[u64],
    crossings: Option<&Crossings>,
) -> Result<Option<(Best, f64)>, Halt> {
    let (mut best, mut first): (Option<Best>, _) = (None, None);
    let (mut least, mut searched) = (f64::INFINITY, 0);
    for (factor, region) in
        MIXED_FACTORS.into_iter().flat_map(|factor| Region::ALL.map(|region| (factor, region)))
    {
        let is_over = session.time_left() * REGION_TIME_PART < session.reading_time();
        if factor > MIXED_FACTORS[0] && searched > 0 || searched == SEARCHES_MOST || is_over {
            break;
        }
        let Some(runs) = traces(session, region, page, factor)? else { continue };
        if Likely::is_without_flash(&runs, pages[0]) {
            continue;
        }
        searched += 1;
        first.get_or_insert_with(|| (region, factor, runs.clone()));
        let Some(likely) = Likely::search(&runs, pages, session.block().0, crossings) else { continue };
        // Where crossing a page costs a read, neighbouring pages lie on one die.
        let in_turn =
            page.is_none().then(|| served_in_turn(&runs, &likely, pages, session.block().0)).flatten();
        let (runs, likely) = in_turn.unwrap_or((runs, likely));
        let [_, sense, transfer, _] = likely.times();
        if sense + transfer < FLASH_SHARE_LEAST * upper_median(&nanos(&runs[0])) {
            continue;
        }
        least = least.min(likely.sigma);
        let misfit = unexplained(&likely, least);
        if best.as_ref().is_none_or(|best| misfit < unexplained(&best.likely, least)) {
            best = Some(Best { region, factor, runs, likely });
        }
        if misfit < MISFIT_GOOD {
            break;
        }
    }
    // Where reads are mixed, what a buffer or a map has a part in is explained by something, more or less.
    let most = |factor: f64| if factor > MIXED_FACTORS[0] { MISFIT_GOOD } else { MISFIT_MAX };
    if let Some(best) = best.filter(|best| unexplained(&best.likely, least) <= most(best.factor)) {
        return Ok(Some((best, least)));
    }
    // Only where pages show: what has no flash has none. Rows of half pages take the same, but the page is known.
    let alone = first.filter(|_| crossings.is_some()).and_then(|(region, factor, runs)| {
        let (runs, likely) = one_at_a_time(&runs, pages, session.block().0, crossings)?;
        let likely = likely.of(|layout| layout.page == pages[0] && likely.misfit <= most(factor))?;
        let sigma = likely.sigma;
        Some((Best { region, factor, runs, likely }, sigma))
    });
    Ok(alone)
}

/// The reads one at a time, and what they alone say, where the device serves one request after the other.
fn one_at_a_time(
    runs: &[TimedRun],
    pages: &[u64],
    block: u64,
    crossings: Option<&Crossings>,
) -> Option<(Vec<TimedRun>, Likely)> {
    let alone = are_served_in_turn(runs).then(|| alone(runs).to_vec())?;
    let likely = Likely::search(&alone, pages, block, crossings)?;
    Some((alone, likely))
}

/// The reads one at a time, and the layout that they alone show, on a device that serves one request after the
/// other. With several in flight such a device looks like one die, whose layout explains reads one at a time
/// much worse.
fn served_in_turn(
    runs: &[TimedRun],
    likely: &Likely,
    pages: &[u64],
    block: u64,
) -> Option<(Vec<TimedRun>, Likely)> {
    if likely.best().dies > 1 {
        return None;
    }
    let (alone, several) = one_at_a_time(runs, pages, block, None)?;
    let (one, _) = likely.again(&alone)?;
    let reads: usize = alone.iter().map(Vec::len).sum();
    let ratio = (unexplained(&one, several.sigma) - several.misfit) * reads as f64 / 2.0;
    let is_clear = several.sigma < SCATTER_SERIAL
        && several.misfit < MISFIT_GOOD
        && several.margin(|layout| layout.dies > 1, &true) > MARGIN_CLEAR
        && ratio > MARGIN_CLEAR;
    is_clear.then_some((alone, several))
}

/// How much more reads scatter than they do where they scatter least, as a variance.
fn unexplained(likely: &Likely, least: f64) -> f64 {
    likely.misfit * (likely.sigma / least).powi(2)
}

fn evidence(likely: &Likely, written: Option<&Likely>, runs: &[TimedRun]) -> String {
    let FlashLayout { page, planes, chunk, dies, channels, cached, .. } = likely.best();
    let [command, sense, transfer, link] = likely.times();
    let largest = runs.iter().flatten().map(|read| read.size).max().unwrap_or(0);
    let pages = if chunk == 1 { "page" } else { "pages" };
    let chunk =
        if dies == 1 { "one die".to_owned() } else { format!("{dies} dies with chunks of {chunk} {pages}") };
    let s = if channels == 1 { "" } else { "s" };
    let cache = if cached { ", with cached page reads" } else { "" };
    let written = written.map_or(String::new(), |written| {
        let misfit = written.misfit.sqrt();
        format!(" Writes were used as well; their error is {}.", times(misfit))
    });
    format!(
        "A model with pages of {}, {planes} {}, {chunk}, and {channels} channel{s}{cache} explains the times of reads up to {} \
         best. Per page it has a command of {}, sensing {}, transfer {} and link {}. Its error is {} the scatter of equal \
         reads.{written}",
        Bytes(page),
        if planes == 1 { "plane" } else { "planes" },
        Bytes(largest),
        duration(command),
        duration(sense),
        duration(transfer),
        duration(link),
        times(likely.misfit.sqrt())
    )
}

fn picture(runs: &[TimedRun]) -> Picture {
    let point =
        |run: &TimedRun| (run.first().map_or(0.0, |read| read.size as f64), upper_median(&nanos(run)));
    let mut points: Vec<(f64, f64)> = runs.iter().map(point).collect();
    // The runs of one at a time come first, by size.
    let alone = points.windows(2).position(|two| two[1].0 <= two[0].0).map_or(points.len(), |last| last + 1);
    let several = points.split_off(alone);
    Picture::new(
        "Response time of reads that begin and end one block beside a page boundary, over their size.",
        Axis::logarithmic("IOSize", "bytes"),
        Axis::logarithmic("median response time", "ns"),
    )
    .draw("one at a time", Style::Line, points)
    .draw("several in flight", Style::Dots, several)
}

impl Explained {
    /// What is said, and how clearly; none where nothing is likely.
    fn says<T: PartialEq>(&self, likely: &Likely, what: impl Fn(&FlashLayout) -> T) -> Option<(T, Rule)> {
        let (value, chance) = likely.says(&what)?;
        let margin = likely.margin(&what, &value);
        let again = self.again.as_ref().map_or(f64::NEG_INFINITY, |again| again.margin(&what, &value));
        // Writes are another look at what reads say as well.
        let margins = self
            .written
            .as_ref()
            .map(|written| (written.alone.margin(&what, &value), written.reads.margin(&what, &value)));
        let (written, agreed) =
            margins.map_or((0.0, f64::NEG_INFINITY), |(written, reads)| (written, written.min(reads)));
        let again = again.max(agreed);
        let most = match () {
            () if self.is_good && margin > MARGIN_CLEAR && again > MARGIN_AGAIN => self.most,
            () if !self.is_good && self.may_be_memory() => LEFT_OPEN.capped(caps::NO_FLASH),
            () if !self.is_good => LEFT_OPEN,
            () if again > 0.0 || written > MARGIN_CLEAR => Rule::strong("layout seen again"),
            () => Rule::likely("layout seen once"),
        };
        let most = if self.both.sigma > SCATTER_USUAL { most.min(SCATTERED) } else { most };
        (chance > CONFIDENCE_LEAST).then_some((value, most.min(self.most).of_chance(chance)))
    }

    /// Whether no page boundary shows, and a page is sensed faster than usual flash does.
    fn may_be_memory(&self) -> bool {
        let [_, sense, ..] = self.both.times();
        self.most == UNCLEAR_RULE && sense < priors::SENSE_USUAL.0 as f64
    }

    /// The page.
    pub(crate) fn page(&self) -> Option<(Bytes, Rule)> {
        self.says(&self.both, |layout| layout.page).map(|(page, rule)| (Bytes(page), rule))
    }

    /// Concludes the dies, and what follows from them.
    pub(crate) fn conclude(&self, session: &mut Session<'_, '_>) {
        let found = |parameter, said: Option<(Value, Rule)>| {
            let finding = match said {
                Some((value, rule)) => Rule::found(parameter, value, rule, &self.evidence),
                None => Finding::undetermined(parameter, &self.evidence),
            };
            finding.with(self.picture.clone())
        };
        let dies = self.says(&self.both, |layout| layout.dies);
        let of = dies.and_then(|(dies, _)| self.both.of(|layout| layout.dies == dies));
        let likely = of.as_ref().unwrap_or(&self.both);
        let basis = dies.map_or(UNCLEAR_RULE, |(_, rule)| rule);
        session.conclude(found(Parameter::ParallelUnits, dies.map(|(dies, basis)| (dies.into(), basis))));
        if let Some((1, rule)) = dies {
            for parameter in [Parameter::ChunkSize, Parameter::StripeSize] {
                session.conclude(Rule::not_identifiable(parameter, rule, "There is one die."));
            }
            let channels = Rule::found(Parameter::Channels, 1u64, rule, "There is one die.");
            session.conclude(channels.with(self.picture.clone()));
        } else {
            let several = self.says(&self.both, |layout| layout.dies > 1).filter(|(several, _)| *several);
            let chunk = several.zip(self.says(likely, |layout| Bytes(layout.page * layout.chunk)));
            let chunk = chunk.map(|((_, several), (chunk, basis))| (chunk, basis.min(several)));
            session.conclude(found(Parameter::ChunkSize, chunk.map(|(chunk, basis)| (chunk.into(), basis))));
            let both = dies.zip(chunk);
            let width = both.map(|((dies, basis), (chunk, also))| ((chunk * dies).into(), basis.min(also)));
            session.conclude(found(Parameter::StripeSize, width));
            let channels = dies.and_then(|_| self.says(likely, |layout| layout.channels));
            let channels = channels.map(|(channels, also)| (channels.into(), also.min(basis)));
            session.conclude(found(Parameter::Channels, channels));
        }
        // Rows that chunks do not keep together are not seen; and dies may be taken for planes.
        let planes = self.says(&self.both, |layout| layout.planes);
        let planes = planes.map(|(planes, basis)| (planes.into(), basis.min(UNCLEAR_RULE)));
        session.conclude(found(Parameter::PlanesReadAtOnce, planes));
    }

    pub(crate) fn evidence(&self) -> &str {
        &self.evidence
    }

    pub(crate) fn picture(&self) -> &Picture {
        &self.picture
    }
}
