//! What can be told of dies by one read at a time: the costs of lying across boundaries of 1, 2, 4, 8 ... pages.
//!
//! # Model
//! As in `read_pages`: within a row a boundary costs a transfer; at the next row of the same die it costs the
//! array's time as well; on another die no more than a transfer. What was written in order lies in chunks, one on each
//! die, and every boundary of a larger power of two is one of chunks, too. So costs that fall at some boundary, and stay,
//! tell the chunk. Costs that rise from row to row and never fall are those of one die. Costs that are all the same are
//! the rows of one die, where they are most of what a read takes; less than that may be transfers of dies that share a
//! channel.

use flashlab_analysis::decide::ranks::Interval;
use flashlab_base::Bytes;

use super::figures::median;
use super::ground::Ground;
use super::read_pages::{Cost, Places, cost};
use crate::session::{Halt, Session};

/// The largest boundary.
const BOUNDARY_MAX: Bytes = Bytes::mib(4);
/// So many places are in no buffer, and with so many boundaries no fewer places are looked at.
const PLACES_MANY: u64 = 160;
const ENOUGH: usize = 8;
/// So many boundaries at the end have to be the same.
const LAST: usize = 3;
/// Costs of a row are at least this share of the time of a read.
const ROW_MIN: f64 = 0.38;
/// Reads that take less than this share of the usual time did not wait for the flash.
const BUFFERED: f64 = 0.92;
/// Costs that differ by less than this share are the same.
const SAME: f64 = 0.08;

/// What the array takes is at least this share of a cost.
const RISE_MIN: f64 = 0.15;
const CHANGE_MIN: f64 = 0.12;

/// What the costs say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    /// There is one die, with how much confidence.
    OneDie(f64),
    /// All boundaries cost the same, and whether that is as much as rows of one die cost.
    Alike(bool),
    /// Chunks of this size, on several dies.
    Chunk(Bytes),
    /// Nothing.
    Nothing,
}

/// Looks at boundaries from the page on.
pub(crate) fn levels(session: &mut Session<'_, '_>, page: Bytes) -> Result<(Told, String), Halt> {
    let mut costs: Vec<(Bytes, Cost)> = Vec::new();
    let mut boundary = page;
    while boundary <= BOUNDARY_MAX {
        let places = Places {
            slot: boundary * 2,
            ground: Ground::WHOLE,
            depth: 1,
            beside: if page > session.block() { 2 } else { 1 },
        };
        let slots = Ground::WHOLE.slots(session, places.slot, places.slot);
        if slots < 12 || slots < PLACES_MANY && costs.len() >= ENOUGH {
            break;
        }
        let cost = cost(session, places, boundary, 16)?;
        // Few places may be in a buffer, where they cost nothing.
        if costs.first().is_some_and(|(_, first)| cost.beside < BUFFERED * first.beside) {
            break;
        }
        costs.push((boundary, cost));
        boundary = boundary * 2;
    }
    let words: Vec<String> =
        costs.iter().map(|(boundary, cost)| format!("{boundary}: {:.2}", cost.relative.estimate)).collect();
    let evidence = format!("reads across boundaries, relative to beside them: {}", words.join(", "));
    let beside = median(&costs.iter().map(|(_, cost)| cost.beside).collect::<Vec<_>>());
    let relative: Vec<Interval> = costs.iter().map(|(_, cost)| cost.relative).collect();
    let told = match told(&relative) {
        Tail::Alike if costs.len() > LAST => {
            let row = median(&costs.iter().map(|(_, cost)| cost.nanos()).collect::<Vec<_>>());
            Told::Alike(row > ROW_MIN * beside)
        }
        Tail::Rises => Told::OneDie(0.97),
        Tail::Falls(place) => Told::Chunk(costs[place].0),
        _ => Told::Nothing,
    };
    Ok((told, evidence))
}

/// How costs end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// They are all the same.
    Alike,
    /// They rise to their last level.
    Rises,
    /// They fall to their last level, which begins there.
    Falls(usize),
    /// There is no last level.
    None,
}

fn told(costs: &[Interval]) -> Tail {
    let Some(last) = costs.len().checked_sub(LAST).map(|from| &costs[from..]) else { return Tail::None };
    let level = median(&last.iter().map(|cost| cost.estimate).collect::<Vec<_>>());
    let most = costs.iter().fold(1.0_f64, |most, cost| most.max(cost.estimate)) - 1.0;
    let same = |cost: &Interval| {
        (cost.low < level && cost.high > level) || (cost.estimate - level).abs() < SAME * most
    };
    let from = costs.iter().rposition(|cost| !same(cost)).map_or(0, |place| place + 1);
    // The last one that is nearer to the highest than to the level.
    let middle = (level + 1.0 + most) / 2.0;
    let high = costs.iter().rposition(|cost| cost.estimate > middle);
    let falls = (level - 1.0) < (1.0 - CHANGE_MIN) * most;
    if from + LAST > costs.len() {
        // Where a block ends it costs more again.
        let rises = costs.get(from).is_some_and(|after| after.low > costs[from - 1].high);
        return if rises { told(&costs[..from]) } else { Tail::None };
    }
    let lowest = costs[..from].iter().fold(level, |lowest, cost| lowest.min(cost.high)) - 1.0;
    match high {
        Some(high) if falls && high < from => Tail::Falls(high + 1),
        // One of the last is high, with so wide an interval that it might be as the others.
        Some(_) if falls => Tail::None,
        _ if lowest < (1.0 - RISE_MIN) * (level - 1.0) => Tail::Rises,
        _ => Tail::Alike,
    }
}
