//! The write page (Ajwani et al., section 3.3.4).
//!
//! # Model
//! Flash is written by the page. A write that covers a part of a page makes the device read the rest of it and write
//! all of it. A write of `s` bytes that is shifted by half of its size lies
//! - across two pages if a page is `s`: two parts instead of a whole. Every such write costs more;
//! - across two pages only now and then if a page is larger than `s`, so that half of them or more cost as before;
//! - on the bounds of pages again if a page is `s / 2` or less.
//!
//! So the page is the largest `s` of which shifting by half makes all writes more expensive. Where writing in sequence
//! shows it, writing at random places need not, and the other way round: a block-mapped device merges for each random
//! write, and a write buffer puts parts together that follow one another. Each speaks for itself; where both speak
//! they have to agree.
//!
//! # Invariants
//! - aligned and shifted writes alternate, and neither comes twice to the same place in a run of sequential ones;
//! - the page is confirmed at another place, with other seeds.

use flashlab_analysis::decide::ranks::mann_whitney;
use flashlab_analysis::inference::{Axis, Finding, Parameter, Picture, Style};
use flashlab_base::Bytes;
use flashlab_plan::Location;

use super::writes::{median, place, shifted, times, writes};
use crate::group::Group;
use crate::session::{Halt, Session};

pub(crate) const GROUP: Group = Group {
    name: "write-page",
    about: "aligned and shifted writes of doubling size: the largest that all cost more when shifted by half is the page",
    parameters: &[Parameter::WritePageSize],
    write_share: 0.03,
    probe,
};

/// The largest size that is tried.
const LARGEST: Bytes = Bytes::kib(64);
/// Where random writes go.
const TARGET: Bytes = Bytes::mib(1);
/// Writes of each kind in a comparison, and in its confirmation.
const FEW: u64 = 16;
const MANY: u64 = 32;
/// If shifted writes are above aligned ones in this share of the pairs, all of them cost more: of writes within
/// pages twice as large only half do, which is 0.75.
const ALL: f64 = 0.92;
/// Up to this share the shift costs nothing that matters.
const NONE: f64 = 0.72;
const P: f64 = 1e-4;
/// How sure it is that flash is written by the pages that are read from it, where writes do not tell: the page is the
/// unit of both, but a controller may put several together.
const READ_PAGE: f64 = 0.85;
/// Aligned writes that cost so many times what they do in sequence are merges.
const MERGE: f64 = 4.0;

/// Aligned and shifted writes of one size.
struct Comparison {
    size: Bytes,
    aligned: Vec<f64>,
    shifted: Vec<f64>,
}

impl Comparison {
    fn superiority(&self) -> f64 {
        mann_whitney(&self.shifted, &self.aligned).superiority
    }

    /// Every write costs more when it is shifted.
    fn all_cost_more(&self) -> bool {
        let ranks = mann_whitney(&self.shifted, &self.aligned);
        ranks.superiority >= ALL && ranks.p_above <= P
    }

    fn ratio(&self) -> f64 {
        median(&self.shifted) / median(&self.aligned).max(1.0)
    }
}

fn probe(session: &mut Session<'_, '_>) -> Result<(), Halt> {
    if session.block() * 2 > LARGEST {
        return Ok(());
    }
    let mut seen = Vec::new();
    let mut curves = Vec::new();
    for (name, location) in [("sequential", Location::Sequential), ("random", Location::Random)] {
        let curve = doubling(session, name, location)?;
        if let Some(page) = page_of(&curve)
            && session.writes_left() >= page * (7 * MANY)
        {
            let again = [page, page * 2].map(|size| compare(session, name, location, size, MANY, 0.71));
            let [at_page, beyond] = again;
            let (at_page, beyond) = (at_page?, beyond?);
            let usual = sequential_cost(session, page)?;
            if median(&at_page.aligned) <= MERGE * usual
                && at_page.all_cost_more()
                && beyond.superiority() <= NONE
            {
                seen.push((name, page, at_page.ratio(), beyond.ratio()));
            }
        }
        curves.push((name, curve));
    }
    conclude_page(session, &seen, &curves);
    Ok(())
}

/// What aligned writes of a size usually cost in sequence.
fn sequential_cost(session: &mut Session<'_, '_>, size: Bytes) -> Result<f64, Halt> {
    let pattern = writes(Location::Sequential, size, MANY, place(session, 0.91, TARGET), size * MANY);
    Ok(median(&times(session, "sequential-aligned", &pattern)?))
}

/// Compares sizes from the smallest on until the shift costs nothing twice in a row.
fn doubling(session: &mut Session<'_, '_>, name: &str, location: Location) -> Result<Vec<Comparison>, Halt> {
    let mut curve: Vec<Comparison> = Vec::new();
    let mut size = session.block() * 2;
    while size <= LARGEST
        && TARGET.0 * 16 <= session.capacity().0
        && session.writes_left() >= size * (2 * FEW + 2)
    {
        let compared = compare(session, name, location, size, FEW, 0.43)?;
        let free = |compared: &Comparison| compared.superiority() <= NONE;
        let done =
            free(&compared) && curve.last().is_some_and(free) && curve.iter().any(Comparison::all_cost_more);
        curve.push(compared);
        if done {
            break;
        }
        size = size * 2;
    }
    Ok(curve)
}

/// The largest size of which all writes cost more when shifted, if the next one costs nothing more.
fn page_of(curve: &[Comparison]) -> Option<Bytes> {
    let largest = curve.iter().rposition(Comparison::all_cost_more)?;
    let next = curve.get(largest + 1)?;
    (next.superiority() <= NONE).then_some(curve[largest].size)
}

/// Aligned and shifted writes in turns, four times each, about the share `part` of the device.
fn compare(
    session: &mut Session<'_, '_>,
    name: &str,
    location: Location,
    size: Bytes,
    count: u64,
    part: f64,
) -> Result<Comparison, Halt> {
    let turns = 4;
    let (each, half) = (count / turns, size.0 / 2);
    let base = place(session, part, TARGET);
    // Sequential writes go on through fresh places; random ones stay in the target.
    let length = if location == Location::Random { TARGET } else { Bytes((each + 1) * size.0) };
    let mut compared = Comparison { size, aligned: Vec::new(), shifted: Vec::new() };
    for turn in 0..turns {
        let at = |index: u64| match location {
            Location::Random => base,
            _ => base + length * index,
        };
        let aligned = writes(location, size, each, at(2 * turn), length);
        compared.aligned.extend(times(session, &format!("{name}-aligned"), &aligned)?);
        let moved = shifted(writes(location, size, each, at(2 * turn + 1), length), Bytes(half));
        compared.shifted.extend(times(session, &format!("{name}-shifted"), &moved)?);
    }
    Ok(compared)
}

fn picture(curves: &[(&str, Vec<Comparison>)]) -> Picture {
    let empty = Picture::new(
        "Writes shifted by half of their size, relative to aligned ones: beyond the page the shift costs nothing.",
        Axis::logarithmic("IOSize", "bytes"),
        Axis::logarithmic("median, shifted to aligned", "ratio"),
    );
    curves.iter().fold(empty, |picture, (name, curve)| {
        let points = curve.iter().map(|c| (c.size.0 as f64, c.ratio().max(1e-3))).collect();
        picture.draw(name, Style::Line, points)
    })
}

fn conclude_page(
    session: &mut Session<'_, '_>,
    seen: &[(&str, Bytes, f64, f64)],
    curves: &[(&str, Vec<Comparison>)],
) {
    let picture = picture(curves);
    let parameter = Parameter::WritePageSize;
    let Some(&(name, page, ratio, beyond)) = seen.first() else {
        let evidence = "no size of which all writes cost more when shifted by half, and of its double none: \
                        a write buffer, merges or collecting hide them";
        let finding = match session.known().bytes(Parameter::ReadPageSize) {
            Some(page) => {
                let evidence = format!(
                    "{evidence}; pages of {page} are read, and flash is written by such pages as well"
                );
                Finding::found(parameter, page, READ_PAGE, evidence)
            }
            None => Finding::undetermined(parameter, evidence),
        };
        session.conclude(finding.with(picture));
        return;
    };
    let evidence = format!(
        "{name} writes of {page} cost {ratio:.2} times as much when shifted by half, writes of {} only {beyond:.2} times",
        page * 2
    );
    if let Some((other, another, ..)) = seen.iter().find(|(_, another, ..)| *another != page) {
        let evidence = format!("{evidence}; but {other} writes say {another}");
        session.conclude(Finding::undetermined(parameter, evidence).with(picture));
        return;
    }
    let confidence = if seen.len() > 1 { 0.99 } else { 0.96 };
    let found = Finding::found(parameter, page, confidence, evidence);
    session.conclude(found.with(picture.mark(page.0 as f64, "page")));
}
