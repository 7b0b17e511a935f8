//! What reads of many sizes say of pages, planes, chunks, dies and channels, if a layout explains them.
//!
//! # Probes
//! 1. `traces` in one region after the other, until `likely` has a layout that explains what reads take there.
//! 2. The same elsewhere: what is sure has to be said by both.

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style, Value};
use flashlab_base::Bytes;

use super::figures::median;
use super::likely::{Likely, scatter};
use super::replay::{Layout, Run};
use super::traces::{Region, traces};
use crate::session::{Halt, Session};

/// Pages that are tried where they are not known.
const PAGES: [u64; 5] = [2048, 4096, 8192, 16384, 32768];
/// Reads scatter by as much more than reads of one kind, as a variance, where a layout explains them.
const MISFIT_GOOD: f64 = 1.3;
const MISFIT_MAX: f64 = 2.6;
/// Reads of one kind that scatter by more are not all answered in the same way.
const SCATTER_MAX: f64 = 0.3;
/// The flash takes at least this share of the shortest read, or reads did not need it.
const FLASH_MIN: f64 = 0.12;
/// By how much other answers have to be less likely, as a logarithm: in all, and elsewhere.
const MARGIN_SURE: f64 = 20.0;
const MARGIN_AGAIN: f64 = 4.0;
/// Less likely answers are none.
const CHANCE_LEAST: f64 = 0.55;

/// A layout that explains what was measured.
pub(crate) struct Explained {
    /// From all reads, and from those elsewhere alone.
    both: Likely,
    again: Option<Likely>,
    evidence: String,
    picture: Picture,
}

/// Looks for a layout.
pub(crate) fn explained(
    session: &mut Session<'_, '_>,
    page: Option<Bytes>,
) -> Result<Option<Explained>, Halt> {
    let pages: Vec<u64> = match page {
        Some(page) => vec![page.0],
        None => PAGES.into_iter().filter(|&page| page >= session.block().0).collect(),
    };
    let mut best: Option<(Region, Vec<Run>, Likely)> = None;
    for region in Region::ALL {
        let Some(runs) = traces(session, region, page)? else { continue };
        if scatter(&runs).is_none_or(|sigma| sigma > SCATTER_MAX) || Likely::is_without_flash(&runs, pages[0]) {
            if std::env::var("H1").is_ok() { eprintln!("{region:?} skipped"); }
            continue;
        }
        let t = std::time::Instant::now();
        let Some(likely) = Likely::search(&runs, &pages) else { continue };
        if std::env::var("H1").is_ok() {
            let b = likely.best();
            eprintln!("{region:?} sigma {:.3} misfit {:.2} best {b:?} times {:.0?} margins: page {:.0} planes {:.0} chunk {:.0} dies {:.0} channels {:.0} cached {:.0}; reads {} {:.2} s {}",
                likely.sigma, likely.misfit(), likely.times(), likely.margin(|l| l.page, &b.page), likely.margin(|l| l.planes, &b.planes), likely.margin(|l| l.chunk*l.page, &(b.chunk*b.page)), likely.margin(|l| l.dies, &b.dies), likely.margin(|l| l.channels, &b.channels), likely.margin(|l| l.cached, &b.cached), runs.iter().map(Vec::len).sum::<usize>(), t.elapsed().as_secs_f64(), likely.tried);
            if std::env::var("H1").unwrap() == "2" { for run in &runs {
                let one = vec![run.clone()];
                let replay = super::replay::Replay::new(&one, b, likely.sigma);
                let mut devs: Vec<f64> = Vec::new();
                replay.predict(&likely.times(), |r, p| devs.push((r.nanos / p).ln() / likely.sigma));
                let q = |s: f64| super::figures::quantile(&devs, s);
                eprintln!("    size {} loss {:.2} devs {:.1} {:.1} {:.1} {:.1} {:.1}", run[0].size, replay.loss(&likely.times()) / run.len() as f64, q(0.05), q(0.25), q(0.5), q(0.75), q(0.95));
            }}
        }
        let shortest = median(&runs[0].iter().map(|read| read.nanos).collect::<Vec<_>>());
        let [_, sense, transfer, _] = likely.times();
        let fits = likely.misfit() <= MISFIT_MAX && sense + transfer > FLASH_MIN * shortest;
        let misfit = likely.misfit();
        if fits && best.as_ref().is_none_or(|(_, _, best)| misfit < best.misfit()) {
            best = Some((region, runs, likely));
        }
        if fits && misfit < MISFIT_GOOD {
            break;
        }
    }
    let Some((region, runs, likely)) = best else { return Ok(None) };
    let elsewhere = traces(session, region.elsewhere(), page)?;
    let agreed = elsewhere.and_then(|runs| likely.again(&runs));
    let agreed = agreed.filter(|(again, _)| again.misfit() <= MISFIT_MAX);
    let picture = picture(&runs);
    let (again, both) = match agreed {
        Some((again, both)) => (Some(again), both),
        None => (None, likely),
    };
    let evidence = evidence(&both, &runs);
    return Ok(Some(Explained { both, again, evidence, picture }));
}

fn evidence(likely: &Likely, runs: &[Run]) -> String {
    let Layout { page, planes, chunk, dies, channels, cached } = likely.best();
    let [command, sense, transfer, link] = likely.times().map(|time| time / 1000.0);
    let largest = runs.iter().flatten().map(|read| read.size).max().unwrap_or(0);
    let chunk = if dies == 1 { "one die".to_owned() } else { format!("chunks of {chunk} pages on {dies} dies") };
    let cache = if cached { ", in cache mode" } else { "" };
    format!(
        "reads up to {} take what pages of {} in rows of {planes}, {chunk} and {channels} channels{cache} explain: command \
         {command:.1}, sense {sense:.1}, transfer {transfer:.1}, link {link:.1} us a page; they scatter {:.2} times as much as \
         reads of one kind",
        Bytes(largest),
        Bytes(page),
        likely.misfit().sqrt()
    )
}

fn picture(runs: &[Run]) -> Picture {
    let point = |run: &Run| {
        let times: Vec<f64> = run.iter().map(|read| read.nanos).collect();
        (run.first().map_or(0.0, |read| read.size as f64), median(&times))
    };
    let mut points: Vec<(f64, f64)> = runs.iter().map(point).collect();
    // The runs of one at a time come first, by size.
    let alone = points.windows(2).position(|two| two[1].0 <= two[0].0).map_or(points.len(), |last| last + 1);
    let several = points.split_off(alone);
    Picture::new(
        "Response time of reads that begin and end a block from a boundary, over their size.",
        Axis::logarithmic("IOSize", "bytes"),
        Axis::logarithmic("median response time", "ns"),
    )
    .draw("one at a time", Style::Line, points)
    .draw("several in flight", Style::Dots, several)
}

impl Explained {
    /// What is said, and how surely; none where nothing is likely.
    fn says<T: PartialEq>(&self, likely: &Likely, what: impl Fn(&Layout) -> T) -> Option<(T, f64)> {
        let (value, chance) = likely.says(&what)?;
        let margin = likely.margin(&what, &value);
        let again = self.again.as_ref().map_or(f64::NEG_INFINITY, |again| again.margin(&what, &value));
        let most = match () {
            () if likely.misfit() < MISFIT_GOOD && margin > MARGIN_SURE && again > MARGIN_AGAIN => 0.97,
            () if again > 0.0 => 0.9,
            () => 0.8,
        };
        (chance > CHANCE_LEAST).then_some((value, chance.min(most)))
    }

    /// The page.
    pub(crate) fn page(&self) -> Option<(Bytes, f64)> {
        self.says(&self.both, |layout| layout.page).map(|(page, confidence)| (Bytes(page), confidence))
    }

    /// Concludes the dies, and what follows from them.
    pub(crate) fn conclude(&self, session: &mut Session<'_, '_>) {
        let found = |parameter, said: Option<(Value, f64)>| {
            let finding = match said {
                Some((value, confidence)) => Finding::found(parameter, value, confidence, &self.evidence),
                None => Finding::undetermined(parameter, &self.evidence),
            };
            finding.with(self.picture.clone())
        };
        let dies = self.says(&self.both, |layout| layout.dies);
        let of = dies.and_then(|(dies, _)| self.both.of(|layout| layout.dies == dies));
        let likely = of.as_ref().unwrap_or(&self.both);
        let sure = dies.map_or(0.0, |(_, confidence)| confidence);
        session.conclude(found(Parameter::ParallelUnits, dies.map(|(dies, sure)| (dies.into(), sure))));
        if let Some((1, confidence)) = dies {
            for parameter in [Parameter::ChunkSize, Parameter::StripeSize] {
                session.conclude(Finding::not_identifiable(parameter, confidence, "there is one die"));
            }
            session.conclude(Finding::found(Parameter::Channels, 1u64, confidence, "there is one die"));
        } else {
            let chunk = self.says(likely, |layout| Bytes(layout.page * layout.chunk));
            session.conclude(found(Parameter::ChunkSize, chunk.map(|(chunk, sure)| (chunk.into(), sure))));
            let both = dies.zip(chunk);
            let width = both.map(|((dies, sure), (chunk, also))| ((chunk * dies).into(), sure.min(also)));
            session.conclude(found(Parameter::StripeSize, width));
            let channels = dies.and_then(|_| self.says(likely, |layout| layout.channels));
            let channels = channels.map(|(channels, also)| (channels.into(), also.min(sure)));
            session.conclude(found(Parameter::Channels, channels));
        }
        let planes = self.says(likely, |layout| layout.planes).map(|(planes, sure)| (planes.into(), sure));
        session.conclude(found(Parameter::PlanesReadAtOnce, planes));
    }

    pub(crate) fn evidence(&self) -> &str {
        &self.evidence
    }
}
