//! Pages, planes and dies: one builds on the other.
//!
//! # Probes
//! 1. The page, by reads across boundaries, one at a time.
//! 2. The stripe over the dies, by concurrent reads that wait for each other. Without one: what one read at a time tells
//!    of dies.
//! 3. The page again where it was not seen, by concurrent reads on one die.
//! 4. The planes, within what lies on one die.

use std::ops::Range;

use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::Bytes;

use super::dies::Dies;
use super::ground::Ground;
use super::levels::{Told, levels};
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
    ],
    write_share: 0.0,
    probe,
};

/// How far boundaries for pages are apart, so that there are so many of them.
const SLOT: Range<Bytes> = Bytes::kib(32)..Bytes::kib(128);
const PLACES: u64 = 32;

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
    let (dies, places) = match dies {
        Ok(stripe) => {
            let slot = stripe.ground.stride(session, stripe.width).unwrap_or(stripe.width);
            let places = Places { slot, ground: stripe.ground, depth: Dies::depth(session), beside: 2 };
            conclude_stripe(session, &stripe);
            (Some((OnDie::Chunk(stripe.chunk), 0.98)), places)
        }
        Err(why) => (without_stripe(session, size, &why)?, alone),
    };
    if found.is_err() && dies.is_some() {
        found = page(session, places)?;
    }
    if let (Err(_), Some((OnDie::Chunk(chunk), _))) = (&found, dies)
        && chunk == session.block()
    {
        let evidence = "a chunk is no larger than the smallest read";
        let finding = Finding::found(Parameter::ReadPageSize, chunk, 0.9, evidence);
        found = Ok(Page { size: chunk, finding });
    }
    let size = found.as_ref().ok().map(|page| page.size);
    session.conclude(match found {
        Ok(page) => page.finding,
        Err(finding) => finding,
    });
    let (Some(size), Some((dies, confidence))) = (size, dies) else {
        let evidence = "it is not known which pages lie on one die";
        session.conclude(Finding::undetermined(Parameter::PlanesReadAtOnce, evidence));
        return Ok(());
    };
    let places = match dies {
        OnDie::Chunk(chunk) => Places { slot: places.slot.max(chunk), ..places },
        OnDie::All => places,
    };
    let places = Places { beside: if size > session.block() { 2 } else { 1 }, ..places };
    let finding = planes(session, places, size, dies)?;
    let confidence = finding.confidence.min(confidence);
    session.conclude(Finding { confidence, ..finding });
    Ok(())
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
fn without_stripe(
    session: &mut Session<'_, '_>,
    page: Option<Bytes>,
    why: &str,
) -> Result<Option<(OnDie, f64)>, Halt> {
    let Some(page) = page else {
        leave(session, &[Parameter::StripeSize, Parameter::ChunkSize, Parameter::ParallelUnits], why);
        return Ok(None);
    };
    let (told, figures) = levels(session, page)?;
    let evidence = format!("{why}; {figures}");
    Ok(match told {
        Told::OneDie(confidence) => {
            session.conclude(Finding::found(Parameter::ParallelUnits, 1u64, confidence, evidence));
            for parameter in [Parameter::ChunkSize, Parameter::StripeSize] {
                session.conclude(Finding::not_identifiable(parameter, confidence, "there is one die"));
            }
            Some((OnDie::All, confidence))
        }
        Told::Chunk(chunk) => {
            session.conclude(Finding::found(Parameter::ChunkSize, chunk, 0.85, evidence.clone()));
            leave(session, &[Parameter::StripeSize, Parameter::ParallelUnits], &evidence);
            Some((OnDie::Chunk(chunk), 0.85))
        }
        Told::Nothing => {
            leave(
                session,
                &[Parameter::StripeSize, Parameter::ChunkSize, Parameter::ParallelUnits],
                &evidence,
            );
            None
        }
    })
}

fn leave(session: &mut Session<'_, '_>, parameters: &[Parameter], evidence: &str) {
    for &parameter in parameters {
        session.conclude(Finding::undetermined(parameter, evidence));
    }
}
