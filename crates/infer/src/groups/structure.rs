//! Pages, planes and dies: one builds on the other.
//!
//! # Probes
//! 1. The page, by reads across boundaries, one at a time.
//! 2. The stripe over the dies, by concurrent reads that wait for each other. Without one: what one read at a time tells
//!    of dies.
//! 3. The page again where it was not seen, by concurrent reads on one die.
//! 4. The planes, within what lies on one die.

use flashlab_analysis::inference::{Finding, Parameter};
use flashlab_base::Bytes;

use super::dies::Dies;
use super::ground::Ground;
use super::levels::{Told, levels};
use super::parallel_reads::{Stripe, stripe};
use super::read_pages::{self, Places, page, planes};
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

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let alone = Places { slot: Bytes::kib(128), ground: Ground::WHOLE, depth: 1 };
    let mut found = page(session, alone)?;
    let size = found.as_ref().ok().map(|page| page.size);
    let dies = match session.depth() {
        1 => Err("the device takes one IO at a time".to_owned()),
        _ => stripe(session, size)?,
    };
    let (dies, places) = match dies {
        Ok(stripe) => {
            let slot = stripe.ground.stride(session, stripe.width).unwrap_or(stripe.width);
            let places = Places { slot, ground: stripe.ground, depth: Dies::depth(session) };
            conclude_stripe(session, &stripe);
            (Some(read_pages::Dies::Chunk(stripe.chunk)), places)
        }
        Err(why) => (without_stripe(session, size, &why)?, alone),
    };
    if found.is_err() && dies.is_some() {
        found = page(session, places)?;
    }
    let size = found.as_ref().ok().map(|page| page.size);
    session.conclude(match found {
        Ok(page) => page.finding,
        Err(finding) => finding,
    });
    let (Some(size), Some(dies)) = (size, dies) else {
        let evidence = "it is not known which pages lie on one die";
        session.conclude(Finding::undetermined(Parameter::PlanesReadAtOnce, evidence));
        return Ok(());
    };
    let finding = planes(session, places, size, dies)?;
    session.conclude(finding);
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
) -> Result<Option<read_pages::Dies>, Halt> {
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
            Some(read_pages::Dies::One)
        }
        Told::Chunk(chunk) => {
            session.conclude(Finding::found(Parameter::ChunkSize, chunk, 0.85, evidence.clone()));
            leave(session, &[Parameter::StripeSize, Parameter::ParallelUnits], &evidence);
            Some(read_pages::Dies::Chunk(chunk))
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
