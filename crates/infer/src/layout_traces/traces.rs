//! Reads of many sizes, one at a time and several in flight, from which `likely` finds the layout.
//!
//! # Model
//! The region that is read matters. Some devices know a part of their map at a time, so that reads all over the
//! device wait for the map. Others cache the most recent reads, and only many offsets show the flash. So there are
//! several regions, and the one whose reads are explained best counts.
//!
//! # Invariants
//! - The offsets of a region are read in random order, each once before any is repeated, so that no smaller cache
//!   helps.
//! - Reads begin and end one block beside a possible page boundary: they request little and need much of the flash.

use crate::flash_layout::{TimedRun, in_a_row, is_mixed, weighted};
use crate::signals::statistics::upper_median;
use flashlab_analysis::inference::{Parameter, TimedIo};
use flashlab_base::{Bytes, Sample};
use flashlab_plan::Location;

use crate::halt::Halt;
use crate::patterns::reads::{Walk, room};
use crate::patterns::responses;
use crate::priors::SMALL_IO;
use crate::session::Session;

/// The page by which regions are sized where the page is not known. Source: ONFI 4.2: a usual page. Too
/// large: a map of the region does not fit in memory; too small: a read cache answers.
const PAGE_OF_REGION: Bytes = Bytes::kib(8);
/// The page by which slots are spaced where the page is not known. Source: ONFI 4.2: the largest usual page.
/// Too large: few places fit in a region; too small: two places share a page.
const PAGE_OF_SLOT: Bytes = Bytes::kib(16);
/// The boundaries of pages that the reads cross at least. Unit: boundaries. Source: choice: doublings. Too
/// many: the probe takes longer; too few: large chunks are not crossed.
const BOUNDARIES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The sizes that are read with several in flight as well, the smallest first. Unit: sizes. Source: choice.
/// Too many: the probe takes longer; too few: the dies of one size decide.
const SIZES_IN_FLIGHT: usize = 4;
/// The largest read. Source: choice: the kernel splits larger ones on many devices. Too large: requests are
/// split; too small: large chunks are not crossed.
const SIZE_MAX: Bytes = Bytes::kib(512);
/// The numbers of reads in flight. Unit: reads. Source: choice. Too many: the probe takes longer; too few:
/// channels are not distinguished.
const DEPTHS: [u32; 4] = [1, 2, 4, 12];
/// The most reads of a size at a depth. Unit: reads. Source: choice. Too many: the probe takes longer; too
/// few: layouts that differ little stay undecided.
const READS_OF_KIND: u64 = 120;
/// The same where the device takes one read at a time, so that there are fewer kinds. Unit: reads. Source:
/// choice. Too many: the probe takes longer; too few: layouts that differ little stay undecided.
const READS_ALONE: u64 = 160;
/// The fewest reads of a kind. Unit: reads. Source: choice. Too many: slow devices exceed their time; too
/// few: the scatter is not known.
const READS_LEAST: u64 = 24;
/// The share of the time for reading that the reads of a kind take. Unit: share. Source: choice. Too high:
/// slow devices exceed their time; too low: layouts that differ little stay undecided.
const TIME_SHARE: f64 = 0.01;
/// The fewest places of a kind in one region. Unit: places. Source: choice. Too many: small regions have no
/// reads; too few: a read cache holds all of them.
const PLACES_LEAST: u64 = 10;
/// Reads are mixed if too many of them are off by this factor. The second one is tried where all regions are
/// mixed, as pages of cells with several bits differ as well. Unit: ratio. Source: tuned. Too high: reads
/// from a cache are mixed with reads from flash; too low: slow pages exclude a region.
pub(crate) const MIXED_FACTORS: [f64; 2] = [1.3, 1.7];

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
    /// The regions, in the order in which they are tried: places in sixteenths of the space, sizes in
    /// pages. Unit: sixteenths, pages. Source: tuned: maps in memory and on the flash, small and large
    /// read caches. Too many: the search takes longer; too few: a cache serves all of them.
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

/// Where a region lies: pieces of one segment group, between which switching costs nothing.
struct Pieces {
    /// Where each begins and how long it is.
    all: Vec<(Bytes, Bytes)>,
    /// Which is read next, and how much of it was read.
    next: usize,
    read: Bytes,
}

impl Pieces {
    fn new(session: &Session<'_, '_>, region: Region, range: Bytes, align: Bytes) -> Pieces {
        let (span, capacity) = (room(session), session.capacity());
        let groups = session.known().count(Parameter::SegmentGroups).unwrap_or(1).max(1);
        let base = Bytes(span.0 / 16 * region.place).round_down(align);
        let one = vec![(base, range.min(span - base))];
        let turns = capacity.0 / (span * groups).0.max(1);
        if one[0].1 == range || turns < 2 {
            return Pieces { all: one, next: 0, read: Bytes::ZERO };
        }
        // The first group repeatedly, from another turn on for each region.
        let wanted = range.0.div_ceil(span.0).min(turns);
        let turn = |index: u64| (index + region.place) % turns;
        let piece = |index: u64| {
            let begin = span * (groups * turn(index));
            (begin.round_up(align), begin + span)
        };
        let pieces = (0..wanted).map(piece).filter(|(begin, end)| begin < end);
        Pieces { all: pieces.map(|(begin, end)| (begin, end - begin)).collect(), next: 0, read: Bytes::ZERO }
    }

    /// Each shorter by this amount: offsets begin later than slots by less than that.
    fn without_the_last(mut self, bytes: Bytes) -> Pieces {
        self.all.iter_mut().for_each(|(_, length)| *length = *length - bytes.min(*length));
        self
    }

    fn length(&self) -> Bytes {
        Bytes(self.all.iter().map(|(_, length)| length.0).sum())
    }

    /// The longest.
    fn longest(&self) -> Bytes {
        self.all.iter().map(|&(_, length)| length).max().unwrap_or_default()
    }

    /// Where the next places are, as many as there are up to `count`, behind what was read last. What was read
    /// comes once more only when all else was.
    fn take(&mut self, slot: Bytes, count: u64) -> (Bytes, u64) {
        let left = |pieces: &Pieces| pieces.all[pieces.next].1 - pieces.read;
        if left(self).0 / slot.0 < count.min(PLACES_LEAST) {
            self.next = (self.next + 1) % self.all.len();
            self.read = Bytes::ZERO;
        }
        let offsets = (left(self).0 / slot.0).min(count);
        let at = self.all[self.next].0 + self.read;
        self.read += slot * offsets;
        (at, offsets)
    }
}

/// Reads in a region; none where it has too few places, or not all are answered in the same way. The first run has the
/// smallest reads, one at a time.
pub(crate) fn traces(
    session: &mut Session<'_, '_>,
    region: Region,
    page: Option<Bytes>,
    factor: f64,
) -> Result<Option<Vec<TimedRun>>, Halt> {
    let (block, is_known) = (session.block(), page.is_some());
    let (whole, largest) =
        (page.unwrap_or(PAGE_OF_REGION).max(block), page.unwrap_or(PAGE_OF_SLOT).max(block));
    let page = page.unwrap_or(SMALL_IO).max(block);
    // Half a page, should it be the half.
    let unit = Bytes(page.0 / 2).max(block);
    let align = Bytes::mib(1).min(Bytes(page.0 * 64));
    let mut pieces = Pieces::new(session, region, whole * region.pages, align).without_the_last(unit);
    if pieces.length() < page * 64 {
        return Ok(None);
    }
    if region.warm {
        for &(begin, length) in &pieces.all {
            let size = Bytes::kib(64).max(page).min(length);
            let walk = Walk { offset: begin, slot: size, size };
            session.run("map", &walk.pattern(length.round_down(size), length.0 / size.0, 1))?;
        }
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
        let kinds = if depth == 1 { sizes.len() } else { SIZES_IN_FLIGHT };
        let most = if deepest == 1 { READS_ALONE } else { READS_OF_KIND };
        for &size in sizes.iter().take(kinds).filter(|&&size| size <= SIZE_MAX) {
            // An odd number of units: the offsets go round all positions of a stripe. No page belongs to two of them.
            let units = (size + largest).0.div_ceil(unit.0);
            let slot = unit * (units + 1 - units % 2);
            if pieces.longest() < slot * PLACES_LEAST {
                break;
            }
            // The first show how much reads of one kind scatter.
            let most = if runs.is_empty() { 2 * most } else { most };
            let kind = Kind { size, slot, shift: unit - block, depth };
            let kind = kind.reads(session, &mut pieces, most)?;
            // Those of one kind that are alone are independent of each other, and one run.
            if runs.is_empty() && is_mixed(&kind.concat(), factor) {
                return Ok(None);
            }
            match depth {
                1 => runs.push(in_a_row(kind)),
                _ => runs.extend(kind),
            }
        }
    }
    Ok(runs.first().is_some_and(|run| !run.is_empty()).then(|| if is_known { runs } else { weighted(runs) }))
}

/// Reads of a size, with a number in flight.
struct Kind {
    size: Bytes,
    slot: Bytes,
    /// Where in its slot each read begins.
    shift: Bytes,
    depth: u32,
}

impl Kind {
    /// The reads, as many as the time allows and `most` at the most, run by run.
    fn reads(
        &self,
        session: &mut Session<'_, '_>,
        pieces: &mut Pieces,
        most: u64,
    ) -> Result<Vec<TimedRun>, Halt> {
        let Kind { size, slot, shift, depth } = *self;
        let (mut count, mut wanted, mut kind) = (0, READS_LEAST, Vec::new());
        while count < wanted {
            let (at, offsets) = pieces.take(slot, wanted - count);
            let mut pattern = Walk { offset: at + shift, slot, size }.pattern(slot * offsets, offsets, depth);
            pattern.first.location = Location::Permutation;
            let samples = session.run("reads-of-a-size", &pattern)?;
            if count == 0 {
                let once = upper_median(&responses(&samples)).max(1.0) / f64::from(depth);
                let affordable = session.reading_time().0 as f64 * TIME_SHARE / once;
                wanted = (affordable as u64).clamp(READS_LEAST, most);
            }
            count += offsets;
            kind.push(run(&samples));
        }
        Ok(kind)
    }
}

/// Samples in the order in which they were submitted.
pub(crate) fn run(samples: &[Sample]) -> TimedRun {
    let mut samples: Vec<&Sample> = samples.iter().collect();
    samples.sort_by_key(|sample| (sample.submitted, sample.position));
    let begin = samples.first().map_or(0, |sample| sample.submitted.0);
    let read = |sample: &&Sample| {
        TimedIo::new(
            (sample.submitted.0 - begin) as f64,
            sample.response().0 as f64,
            sample.offset.0,
            sample.size.0,
        )
    };
    samples.iter().map(read).collect()
}
