//! Reads of many sizes, one at a time and several in flight, from which `likely` tells how pages lie on dies.
//!
//! # Model
//! Where a device reads from counts: some know a part of their map at a time, so that reads all over the device wait for
//! the map; others keep what was read last, and only many places show the flash. So there are several regions, and what is
//! believed is the one in which reads are explained best. Places of a region are read in random order, each once before
//! any is read again, so that a buffer which holds fewer never helps.
//!
//! Reads begin and end a block from where a page may end: they ask for little, and need much of the flash.

use flashlab_base::Bytes;
use flashlab_plan::{Location, Pattern};
use flashlab_samples::Sample;

use super::figures::median;
use super::reads::{Walk, room};
use super::replay::{Read, Run};
use crate::session::{Halt, Session};

/// Pages where they are not known: for reads, and for regions.
const PAGE: Bytes = Bytes::kib(4);
const PAGE_LARGE: Bytes = Bytes::kib(8);
/// Boundaries of pages that reads lie across at least.
const BOUNDARIES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Of these, with several in flight.
const FEW: usize = 4;
/// The largest read.
const SIZE_MAX: Bytes = Bytes::kib(512);
/// The numbers of reads in flight.
const DEPTHS: [u32; 4] = [1, 2, 4, 12];
/// Reads of a kind, where one at a time are all that there are as well.
const COUNT: u64 = 120;
const COUNT_ALONE: u64 = 160;
const COUNT_LEAST: u64 = 24;
/// The share of the time left that reads of a kind may take.
const TIME_SHARE: f64 = 0.01;
/// Reads of different kinds go to different ones of so many parts.
const PARTS: u64 = 4;
/// The fewest places of a kind.
const PLACES_LEAST: u64 = 16;

/// A part of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// Where it begins, in sixteenths of the room.
    pub(crate) place: u64,
    /// How much of the device it is at most.
    pub(crate) pages: u64,
    /// Whether it is read once before, so that its map is known.
    pub(crate) warm: bool,
}

impl Region {
    /// All, in the order in which they are tried.
    pub(crate) const ALL: [Region; 6] = [
        Region { place: 2, pages: 960, warm: true },
        Region { place: 6, pages: 384, warm: true },
        Region { place: 4, pages: 8192, warm: false },
        Region { place: 10, pages: 192, warm: true },
        Region { place: 8, pages: 2048, warm: true },
        Region { place: 5, pages: 4096, warm: true },
    ];

    /// As much of the device, elsewhere.
    pub(crate) fn elsewhere(self) -> Region {
        Region { place: (self.place + 5) % 12, ..self }
    }
}

/// Reads in a region; none where it has too few places. The first run has the smallest reads, one at a time.
pub(crate) fn traces(
    session: &mut Session<'_, '_>,
    region: Region,
    page: Option<Bytes>,
) -> Result<Option<Vec<Run>>, Halt> {
    let (block, room) = (session.block(), room(session));
    let whole = page.unwrap_or(PAGE_LARGE).max(block);
    let page = page.unwrap_or(PAGE).max(block);
    // Half a page, should it be the half.
    let unit = Bytes(page.0 / 2).max(block);
    let align = Bytes::mib(1).min(Bytes(page.0 * 64));
    let base = Bytes(room.0 / 16 * region.place).round_down(align);
    let range = (whole * region.pages).min(Bytes((room - base).0.saturating_sub(SIZE_MAX.0)));
    if range < page * 64 {
        return Ok(None);
    }
    if region.warm {
        let size = Bytes::kib(64).max(page).min(range);
        let walk = Walk { offset: base, slot: size, size };
        session.run("map", &walk.pattern(range.round_down(size), range.0 / size.0, 1))?;
    }
    let deepest = session.depth();
    let across = BOUNDARIES.map(|boundaries| page * (boundaries - 1) + block * 2);
    let sizes: Vec<Bytes> = [block].into_iter().chain(across).collect();
    let mut runs = Vec::new();
    for (turn, depth) in DEPTHS.into_iter().enumerate() {
        if depth > deepest && (turn == 0 || DEPTHS[turn - 1] >= deepest) {
            break;
        }
        let depth = depth.min(deepest);
        let kinds = if depth == 1 { sizes.len() } else { FEW };
        for &size in sizes.iter().take(kinds).filter(|&&size| size <= SIZE_MAX) {
            // An odd number of units: all places in a stripe come in turn. No page belongs to two places.
            let units = size.0.div_ceil(unit.0) + 2;
            let slot = unit * (units + 1 - units % 2);
            // What was read last is elsewhere.
            let parts = if region.warm { 1 } else { PARTS };
            let part = Bytes(range.0 / parts).round_down(align);
            let places = part.0 / slot.0;
            if places < PLACES_LEAST {
                break;
            }
            let reads = |part_number: u64, count: u64| -> Pattern {
                let offset = base + part * (part_number % parts) + (unit - block);
                let walk = Walk { offset, slot, size };
                let mut pattern = walk.pattern(slot * places, count, depth);
                pattern.first.location = Location::Permutation;
                pattern
            };
            let most = if deepest == 1 { COUNT_ALONE } else { COUNT };
            let first = session.run("reads-of-a-size", &reads(turn_of(&runs) + 2, COUNT_LEAST))?;
            let times: Vec<f64> = first.iter().map(|sample| sample.response().0 as f64).collect();
            let once = median(&times).max(1.0) / f64::from(depth);
            let affordable = session.time_left().0 as f64 * TIME_SHARE / once;
            let count = (affordable as u64).min(most);
            if count < COUNT_LEAST {
                runs.push(run(&first));
                continue;
            }
            runs.push(run(&session.run("reads-of-a-size", &reads(turn_of(&runs), count))?));
        }
    }
    Ok(runs.first().is_some_and(|run| !run.is_empty()).then_some(runs))
}

fn turn_of(runs: &[Run]) -> u64 {
    runs.len() as u64
}

/// Samples in the order in which they were submitted.
fn run(samples: &[Sample]) -> Run {
    let mut samples: Vec<&Sample> = samples.iter().collect();
    samples.sort_by_key(|sample| (sample.submitted, sample.position));
    let begin = samples.first().map_or(0, |sample| sample.submitted.0);
    let read = |sample: &&Sample| Read {
        at: (sample.submitted.0 - begin) as f64,
        nanos: sample.response().0 as f64,
        offset: sample.offset.0,
        size: sample.size.0,
    };
    samples.iter().map(read).collect()
}
