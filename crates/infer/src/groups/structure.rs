//! Pages, planes and dies: one builds on the other.
//!
//! # Probes
//! 1. The page, by reads across boundaries, one at a time.
//! 2. The stripe over the dies, by concurrent reads that wait for each other. Without one: what one read at a time tells
//!    of dies.
//! 3. The page again where it was not seen, by concurrent reads on one die.
//! 4. The planes, within what lies on one die.
//! 5. The channels, by the times of reads over several chunks; and the dies, where one IO at a time is taken.

use std::ops::Range;

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style, Value};
use flashlab_base::Bytes;

use super::channels::{Chunks, Told, layout, layouts};
use super::dies::Dies;
use super::explained::explained;
use super::flash_times::Layout;
use super::ground::Ground;
use super::levels::{self, levels};
use super::parallel_reads::{PARTS, Stripe, stripe};
use super::read_pages::{OnDie, Page, Places, page, planes};
use super::reads::room;
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const STRUCTURE: Group = Group {
    name: "structure",
    about: "small reads across boundaries, and concurrent reads that wait for each other: pages, planes and dies",
    parameters: &[
        Parameter::ReadPageSize,
        Parameter::StripeSize,
        Parameter::ChunkSize,
        Parameter::ParallelUnits,
        Parameter::PlanesReadAtOnce,
        Parameter::Channels,
    ],
    write_share: 0.0,
    probe,
};

/// How far boundaries for pages are apart, so that there are so many of them.
const SLOT: Range<Bytes> = Bytes::kib(32)..Bytes::kib(128);
const PLACES: u64 = 32;
/// What a stripe tells.
const DIES: [Parameter; 3] = [Parameter::StripeSize, Parameter::ChunkSize, Parameter::ParallelUnits];
/// As many dies as a device may have that takes one IO at a time.
const DIES_FEW: [u64; 3] = [2, 4, 8];
/// Chunks of up to so many pages may begin there; and more pages than are ever read.
const PAGES_ALIGNED: u64 = 8;
const PAGES_ALL: u64 = 1 << 40;
/// No device that is looked at has more.
const DIES_MAX: u64 = 32;
/// Less would not speak against a stripe that was found.
const SURE: f64 = 0.9;
/// At most, of what builds on a stripe.
const CONFIDENCE: f64 = 0.98;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let slot = Bytes(room(session).0 / PLACES).max(SLOT.start).min(SLOT.end);
    let slot = Bytes(slot.0.next_power_of_two());
    let alone = Places { slot, ground: Ground::WHOLE, depth: 1, beside: 2 };
    let mut found = page(session, alone)?;
    let size = found.as_ref().ok().map(|page| page.size);
    if let Some(explained) = explained(session, size)? {
        session.conclude(match (found, explained.page()) {
            (Ok(page), Some((size, _))) if page.size == size => page.finding,
            (_, Some((size, confidence))) => {
                Finding::found(Parameter::ReadPageSize, size, confidence, explained.evidence())
            }
            (Ok(page), None) => page.finding,
            (Err(finding), None) => finding,
        });
        explained.conclude(session);
        return Ok(());
    }
    if std::env::var("H1").is_ok() { eprintln!("not explained"); }
    let dies = match session.depth() {
        1 => Err("the device takes one IO at a time".to_owned()),
        _ => stripe(session, size)?,
    };
    let stripe = dies.as_ref().ok();
    let places = stripe.map_or(alone, |stripe| {
        let slot = stripe.ground.stride(session, stripe.width).unwrap_or(stripe.width);
        Places { slot, ground: stripe.ground, depth: Dies::depth(session), beside: 2 }
    });
    if let Some(stripe) = stripe {
        if stripe.chunk == session.block() {
            let evidence = "a chunk is no larger than the smallest read";
            let finding = Finding::found(Parameter::ReadPageSize, stripe.chunk, 0.9, evidence);
            found = Ok(Page { size: stripe.chunk, finding });
        } else if found.is_err() {
            found = page(session, places)?;
        }
    }
    let size = found.as_ref().ok().map(|page| page.size);
    session.conclude(match found {
        Ok(page) => page.finding,
        Err(finding) => finding,
    });
    let Some(size) = size else {
        match &dies {
            Ok(stripe) => {
                conclude_stripe(session, stripe, None);
            }
            Err(why) => leave(session, &DIES, why),
        }
        leave(session, &[Parameter::PlanesReadAtOnce], "the page is not known");
        leave(session, &[Parameter::Channels], "the page is not known");
        return Ok(());
    };
    let places = Places { beside: if size > session.block() { 2 } else { 1 }, ..places };
    match dies {
        Ok(stripe) => {
            let (on_die, pages) = (OnDie::Chunk(stripe.chunk), stripe.chunk.0 / size.0);
            let planes = conclude_planes(session, places, size, on_die, CONFIDENCE)?;
            let chunks = Chunks { page: size, chunk: stripe.chunk, ground: stripe.ground };
            let dies = PARTS.into_iter().map(|parts| stripe.dies * parts).filter(|&dies| dies <= DIES_MAX);
            let all: Vec<Layout> = dies.flat_map(|dies| layouts(pages, planes, dies)).collect();
            let told = layout(session, chunks, &all, Some(stripe.dies))?;
            let dies = conclude_stripe(session, &stripe, Some(&told));
            conclude_channels(session, &told.with_dies(dies));
        }
        Err(why) => without_stripe(session, size, places, &why)?,
    }
    Ok(())
}

/// Concludes the planes; gives their number, or 1.
fn conclude_planes(
    session: &mut Session<'_, '_>,
    places: Places,
    page: Bytes,
    on_die: OnDie,
    confidence: f64,
) -> Result<u64, Halt> {
    let places = match on_die {
        OnDie::Chunk(chunk) => Places { slot: places.slot.max(chunk), ..places },
        OnDie::All => places,
    };
    let finding = planes(session, places, page, on_die)?;
    let confidence = finding.confidence.min(confidence);
    let planes = finding.number().map_or(1, |planes| planes as u64);
    session.conclude(Finding { confidence, ..finding });
    Ok(planes)
}

fn conclude_channels(session: &mut Session<'_, '_>, told: &Told) {
    let evidence = told.evidence.clone();
    let picture = Picture::new(
        "Response time of reads from the last page of a chunk on: it rises where a channel carries one more, or a die is \
         read again.",
        Axis::linear("pages", ""),
        Axis::linear("median response time", "ns"),
    );
    let picture = picture.draw("one read", Style::Dots, told.points.clone());
    session.conclude(match told.says(|layout| layout.channels) {
        Some((channels, confidence)) => {
            Finding::found(Parameter::Channels, channels, confidence, evidence).with(picture)
        }
        None => Finding::undetermined(Parameter::Channels, evidence).with(picture),
    });
}

/// Concludes the stripe; gives the number of dies. Reads over several chunks may tell that it is a part of one, in which dies wait for a channel.
fn conclude_stripe(session: &mut Session<'_, '_>, stripe: &Stripe, told: Option<&Told>) -> u64 {
    let Stripe { chunk, picture, .. } = stripe;
    let other = told.and_then(|told| Some((told.says(|layout| layout.dies)?, &told.evidence)));
    let other = other.filter(|((dies, confidence), _)| *dies != stripe.dies && *confidence > SURE);
    let (dies, confidence, evidence) = match other {
        Some(((dies, confidence), figures)) => {
            (dies, confidence.min(0.9), format!("{}; but {figures}", stripe.evidence))
        }
        None => (stripe.dies, stripe.confidence, stripe.evidence.clone()),
    };
    for finding in [
        Finding::found(Parameter::StripeSize, *chunk * dies, confidence, &evidence),
        Finding::found(Parameter::ChunkSize, *chunk, stripe.confidence, &evidence),
        Finding::found(Parameter::ParallelUnits, dies, confidence, &evidence),
    ] {
        session.conclude(finding.with(picture.clone()));
    }
    dies
}

/// Concludes what one read at a time tells of dies.
fn without_stripe(session: &mut Session<'_, '_>, page: Bytes, places: Places, why: &str) -> Result<(), Halt> {
    let (told, figures) = levels(session, page)?;
    let evidence = format!("{why}; {figures}");
    match told {
        levels::Told::Alike(one_die) => return alike(session, page, places, one_die, &evidence),
        levels::Told::OneDie(confidence) => {
            conclude_one_die(session, confidence, &evidence);
            conclude_planes(session, places, page, OnDie::All, confidence)?;
        }
        levels::Told::Chunk(chunk) => {
            session.conclude(Finding::found(Parameter::ChunkSize, chunk, 0.85, evidence));
            let planes = conclude_planes(session, places, page, OnDie::Chunk(chunk), 0.85)?;
            let chunks = Chunks { page, chunk, ground: Ground::WHOLE };
            let all: Vec<Layout> =
                DIES_FEW.iter().flat_map(|&dies| layouts(chunk.0 / page.0, planes, dies)).collect();
            let told = layout(session, chunks, &all, None)?;
            let dies = told.says(|layout| layout.dies);
            conclude_told(session, Parameter::ParallelUnits, dies, &told);
            let width = dies.map(|(dies, confidence)| (chunk * dies, confidence));
            conclude_told(session, Parameter::StripeSize, width, &told);
            conclude_channels(session, &told);
        }
        levels::Told::Nothing => {
            leave(session, &DIES, &evidence);
            leave(session, &[Parameter::PlanesReadAtOnce], "it is not known which pages lie on one die");
            leave(session, &[Parameter::Channels], &evidence);
        }
    }
    Ok(())
}

/// Concludes what reads over several pages tell, where lying across costs the same at all boundaries: they are rows of one
/// die, or dies on one channel.
fn alike(
    session: &mut Session<'_, '_>,
    page: Bytes,
    places: Places,
    one_die: bool,
    evidence: &str,
) -> Result<(), Halt> {
    let rows = [1, 2, 4].map(|planes| (planes, planes));
    let several = rows
        .iter()
        .flat_map(|&(chunk, planes)| DIES_FEW.iter().flat_map(move |&dies| layouts(chunk, planes, dies)));
    let one = rows.iter().flat_map(|&(_, planes)| {
        [PAGES_ALIGNED, PAGES_ALL].map(|chunk| Layout { chunk, planes, dies: 1, channels: 1 })
    });
    let all: Vec<Layout> = one.chain(several).collect();
    let chunks = Chunks { page, chunk: page * PAGES_ALIGNED, ground: Ground::WHOLE };
    let told = layout(session, chunks, &all, None)?;
    let evidence = format!("{evidence}; {}", told.evidence);
    let dies = told.says(|layout| layout.dies);
    let one = match dies {
        Some((1, confidence)) => Some(confidence),
        Some(_) => None,
        // Nothing shows a second die: as simple as that, but for one that hides behind the same channel.
        None => told.allows(|layout| layout.dies == 1).then_some(if one_die { 0.8 } else { 0.6 }),
    };
    if let Some(confidence) = one {
        conclude_one_die(session, confidence, &evidence);
        conclude_planes(session, places, page, OnDie::All, confidence)?;
        return Ok(());
    }
    let chunk = told.says(|layout| layout.chunk).map(|(pages, confidence)| (page * pages, confidence));
    let both = told.says(|layout| (layout.chunk, layout.dies));
    let width = both.map(|((chunk, dies), confidence)| (page * chunk * dies, confidence));
    conclude_told(session, Parameter::ParallelUnits, dies, &told);
    conclude_told(
        session,
        Parameter::ChunkSize,
        chunk.filter(|(chunk, _)| *chunk < page * PAGES_ALIGNED),
        &told,
    );
    conclude_told(session, Parameter::StripeSize, width, &told);
    conclude_told(session, Parameter::PlanesReadAtOnce, told.says(|layout| layout.planes), &told);
    conclude_channels(session, &told);
    Ok(())
}

fn conclude_told<T: Into<Value>>(
    session: &mut Session<'_, '_>,
    parameter: Parameter,
    said: Option<(T, f64)>,
    told: &Told,
) {
    session.conclude(match said {
        Some((value, confidence)) => Finding::found(parameter, value, confidence, &told.evidence),
        None => Finding::undetermined(parameter, &told.evidence),
    });
}

fn conclude_one_die(session: &mut Session<'_, '_>, confidence: f64, evidence: &str) {
    session.conclude(Finding::found(Parameter::ParallelUnits, 1u64, confidence, evidence));
    for parameter in [Parameter::ChunkSize, Parameter::StripeSize] {
        session.conclude(Finding::not_identifiable(parameter, confidence, "there is one die"));
    }
    session.conclude(Finding::found(Parameter::Channels, 1u64, confidence, "there is one die"));
}

fn leave(session: &mut Session<'_, '_>, parameters: &[Parameter], evidence: &str) {
    for &parameter in parameters {
        session.conclude(Finding::undetermined(parameter, evidence));
    }
}
