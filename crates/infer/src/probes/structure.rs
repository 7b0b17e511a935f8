//! Pages, planes, chunks, dies and channels.
//!
//! # Method
//! 1. The page, by reads across boundaries, one at a time.
//! 2. All of it, by reads of many sizes that a layout has to explain.

use flashlab_analysis::inference::{Finding, Parameter};

use crate::answers::no_cache::HOLDS_NO_DATA;
use crate::caps;
use crate::halt::Halt;
use crate::layout_traces::explained::explained;
use crate::layout_traces::read_pages::page;
use crate::probe::Probe;
use crate::rule::Rule;
use crate::session::Session;

pub(crate) const PROBE: Probe = Probe {
    name: "structure",
    about: "small reads across boundaries, and reads of many sizes that wait for each other: how are pages, planes and dies laid out?",
    parameters: &[
        Parameter::ReadPageSize,
        Parameter::StripeSize,
        Parameter::ChunkSize,
        Parameter::ParallelUnits,
        Parameter::PlanesReadAtOnce,
        Parameter::Channels,
    ],
    hands_in: &[],
    write_share: 0.0,
};

/// The limit of a page that boundaries show, but of which no layout explains the times of reads: boundaries of pages of an odd number of
/// blocks look so. All devices of the calibration have pages of a power of two.
const UNEXPLAINED: Rule = Rule::weak("no layout").capped(caps::UNSEEN);

pub(crate) fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    let writes = session.take_row_writes();
    let found = page(session)?;
    if let Ok(page) = &found {
        session.hand_in(page.finding.clone());
    }
    let explained = explained(session, found.as_ref().ok(), &writes)?;
    let said = explained.as_ref().and_then(|explained| Some((explained.page()?, explained)));
    session.conclude(match (found, said) {
        (Ok(page), Some(((size, _), explained))) if page.size == size => explained.most.limits(page.finding),
        (_, Some(((size, rule), explained))) => {
            let found = Rule::found(Parameter::ReadPageSize, size, rule, explained.evidence());
            found.with(explained.picture().clone())
        }
        (Ok(page), None) => UNEXPLAINED.limits(page.finding),
        (Err(finding), None) => finding,
    });
    if let Some(explained) = explained {
        explained.conclude(session);
        return Ok(());
    }
    for &parameter in PROBE.parameters.iter().filter(|&&other| other != Parameter::ReadPageSize) {
        let mut evidence =
            "No layout of pages on dies that was tried explains the times of reads of many sizes.".to_owned();
        if !session.holds_data() {
            evidence += &format!(" {HOLDS_NO_DATA}");
        }
        session.conclude(Finding::undetermined(parameter, evidence));
    }
    Ok(())
}
