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

use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;

use super::channels::{Chunks, Told, layout, layouts};
use super::dies::Dies;
use super::flash_times::Layout;
use super::ground::Ground;
use super::levels::{self, levels};
use super::parallel_reads::{Stripe, stripe};
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
const DIES_FEW: [u64; 5] = [2, 3, 4, 6, 8];
/// Chunks of up to so many pages may begin there; and more pages than are ever read.
const PAGES_ALIGNED: u64 = 8;
const PAGES_ALL: u64 = 1 << 40;
/// At most, of what builds on a stripe.
const CONFIDENCE: f64 = 0.98;

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let slot = Bytes(room(session).0 / PLACES).max(SLOT.start).min(SLOT.end);
    let slot = Bytes(slot.0.next_power_of_two());
    let alone = Places { slot, ground: Ground::WHOLE, depth: 1, beside: 2 };
    let mut found = page(session, alone)?;
    let size = found.as_ref().ok().map(|page| page.size);
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
        conclude_stripe(session, stripe);
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
        if let Err(why) = &dies {
            leave(session, &DIES, why);
        }
        leave(session, &[Parameter::PlanesReadAtOnce], "the page is not known");
        leave(session, &[Parameter::Channels], "the page is not known");
        return Ok(());
    };
    let places = Places { beside: if size > session.block() { 2 } else { 1 }, ..places };
    match dies {
        Ok(stripe) => {
            let chunk = (stripe.chunk, CONFIDENCE);
            let planes = conclude_planes(session, places, size, OnDie::Chunk(stripe.chunk), chunk.1)?;
            let chunks = Chunks { page: size, chunk: stripe.chunk, ground: stripe.ground };
            let told = layout(session, chunks, &layouts(stripe.chunk.0 / size.0, planes, stripe.dies))?;
            conclude_channels(session, &told);
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
    session.conclude(match told.layout {
        Some((layout, confidence)) => {
            Finding::found(Parameter::Channels, layout.channels, confidence, evidence).with(picture)
        }
        None => Finding::undetermined(Parameter::Channels, evidence).with(picture),
    });
}

fn conclude_stripe(session: &mut Session<'_, '_>, stripe: &Stripe) {
    let Stripe { width, chunk, dies, confidence, evidence, picture, .. } = stripe;
    for finding in [
        Finding::found(Parameter::StripeSize, *width, *confidence, evidence),
        Finding::found(Parameter::ChunkSize, *chunk, *confidence, evidence),
        Finding::found(Parameter::ParallelUnits, *dies, *confidence, evidence),
    ] {
        session.conclude(finding.with(picture.clone()));
    }
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
            let told = layout(session, chunks, &all)?;
            if let Some((layout, confidence)) = told.layout {
                let units = Finding::found(Parameter::ParallelUnits, layout.dies, confidence, &told.evidence);
                session.conclude(units);
                let width = chunk * layout.dies;
                session.conclude(Finding::found(Parameter::StripeSize, width, confidence, &told.evidence));
            } else {
                leave(session, &[Parameter::StripeSize, Parameter::ParallelUnits], &told.evidence);
            }
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
    let told = layout(session, chunks, &all)?;
    let evidence = format!("{evidence}; {}", told.evidence);
    match told.layout {
        Some((Layout { dies: 1, .. }, confidence)) => {
            conclude_one_die(session, confidence, &evidence);
            conclude_planes(session, places, page, OnDie::All, confidence)?;
        }
        Some((found, confidence)) => {
            let chunk = page * found.chunk;
            for finding in [
                Finding::found(Parameter::ChunkSize, chunk, confidence, &evidence),
                Finding::found(Parameter::StripeSize, chunk * found.dies, confidence, &evidence),
                Finding::found(Parameter::ParallelUnits, found.dies, confidence, &evidence),
                Finding::found(Parameter::PlanesReadAtOnce, found.planes, confidence, &evidence),
            ] {
                session.conclude(finding);
            }
            conclude_channels(session, &told);
        }
        None if one_die => {
            conclude_one_die(session, 0.8, &evidence);
            conclude_planes(session, places, page, OnDie::All, 0.8)?;
        }
        None => {
            leave(session, &DIES, &evidence);
            leave(session, &[Parameter::PlanesReadAtOnce, Parameter::Channels], &evidence);
        }
    }
    Ok(())
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
