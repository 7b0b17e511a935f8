//! Lists the layouts that are tried, and the prior of each.
//!
//! # Model
//! Flash is sensed in some 50 us and transferred at some 150 MB/s, and both differ by factors. The numbers of a
//! layout are mostly powers of two, and devices are rather simple. So of two layouts that explain the same, the usual
//! one is believed.
//!
//! # Invariants
//! - Each layout has one way of being written, so that none is tried twice.

use super::fitting::LayoutTimes;
use super::replay::FlashLayout;
use crate::priors;

/// The numbers that are combined to layouts: planes, multi-plane pages of a chunk, and dies.
struct Grid {
    planes: &'static [u64],
    rows: &'static [u64],
    dies: &'static [u64],
}

/// The layouts that are tried first. Unit: planes, multi-plane pages, dies. Source: choice: powers of two, which most
/// devices have. Too many: the search takes longer; too few: the search starts far from the right layout.
const FIRST: Grid = Grid { planes: &[1, 4], rows: &[1, 4, 16], dies: &[1, 2, 4, 8, 16] };
/// The layouts of simple devices, none of which may be left out. Unit: planes, multi-plane pages, dies. Source: choice.
/// Too many: the search takes longer; too few: a layout that was not tried counts as impossible.
const SIMPLE: Grid = Grid { planes: &[1, 2, 4], rows: &[1, 2, 4, 8, 16, 32], dies: &[2, 4] };
/// All numbers that are tried. Any number of dies up to [`DIES_ANY`] is tried as well. Unit: planes, multi-plane pages,
/// dies. Source: choice: 2^n and 3 x 2^n, up to [`priors::DIES_MOST`]. Too many: the search takes longer; too few: a device
/// with an odd number gets a wrong layout.
const TRIED: Grid = Grid {
    planes: &[1, 2, 3, 4, 6, 8, 16],
    rows: &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64],
    dies: &[48, 64, 96, 128],
};
/// The usual chunks that compete with each other, in multi-plane pages of different powers of two. A device
/// with several dies has one of them, which its prior has to pay for. Unit: chunks. Source: choice. Too high:
/// one die is believed too often; too low: several dies are.
const ROWS_USUAL: u64 = 6;
/// Any number of dies up to this is tried. Unit: dies. Source: choice, twice [`priors::DIES_USUAL`]. Too
/// high: the search takes longer; too low: devices of 24 or 28 dies get a wrong layout.
const DIES_ANY: u64 = 32;
/// A chunk may begin this number of pages before the first address, less one. Unit: pages. Source: choice.
/// Too many: shifted chunks fit by chance; too few: devices whose map lies before the first address fit no
/// layout.
const PHASES_OF_CHUNK: u64 = 4;
/// The largest chunk where there are several dies. Unit: pages. Source: choice. Too high: the search takes
/// longer; too low: large chunks get a wrong layout.
const CHUNK_MOST: u64 = 256;
/// The chunk of one die: all pages lie on it. Unit: pages. Source: derivation: more than any device has. Too
/// low: the end of a device would lie on another die; too high: products overflow.
pub(crate) const CHUNK_OF_ALL: u64 = 1 << 40;
/// Hardly any flash has smaller pages (ONFI: 2 KiB or more). Unit: bytes. Source: ONFI 4.2. Too high: small
/// pages are not believed; too low: parts of pages count as pages.
const PAGE_LEAST: u64 = 2048;
/// Pages that are smaller have no more planes. More of them are a page of which parts are transferred. Unit:
/// planes. Source: tuned. Too high: parts of pages count as planes; too low: old flash with many planes fits
/// no layout.
const SMALL_PLANES: u64 = 4;
/// A value before anything is measured: its logarithm is normally distributed.
struct Usual {
    value: f64,
    /// The standard deviation of the logarithm.
    spread: f64,
}

impl Usual {
    /// The loss of a value, as a log-likelihood.
    fn loss(&self, value: f64) -> f64 {
        ((value.max(1.0) / self.value).ln() / self.spread).powi(2) / 2.0
    }
}

/// The command of a read, with the transport. Unit: ns. Source: tuned: from NVMe to USB. Too high: slow devices get the
/// layout of a slow link; too low: fast ones do.
const COMMAND: Usual = Usual { value: 40_000.0, spread: 1.8 };
/// Sensing a page. Unit: ns. Source: Grupp et al., MICRO 2009: 22 to 115 us. Too high: a page counts as two planes; too
/// low: two pages count as one.
const SENSE: Usual = Usual { value: 55_000.0, spread: 0.8 };

/// The loss of a layout with such times before anything is measured, as a log-likelihood. Numbers are mostly
/// powers of two, and devices are rather simple.
pub(crate) fn unusual(layout: &FlashLayout, &[command, sense, transfer, _]: &LayoutTimes) -> f64 {
    // A channel transfers 0.15 bytes a nanosecond, or 4.5 times more or less.
    let channel = Usual { value: layout.page as f64 / 0.15, spread: 1.5 };
    let times = COMMAND.loss(command) + SENSE.loss(sense) + channel.loss(transfer);
    // Where there are several dies, some chunk and some channels are one of several.
    let several = match layout.dies {
        1 if layout.chunk == CHUNK_OF_ALL => 0.0,
        dies => {
            let rows = layout.chunk / layout.planes;
            priors::oddness(rows) + (ROWS_USUAL as f64).ln() + (divisors(dies).count() as f64).ln()
        }
    };
    let log = |number: u64| (number as f64).log2();
    let simple = 1.1 * log(layout.dies) + 0.4 * log(layout.planes);
    let kinds = if layout.cached { 1.5 } else { 0.0 }
        + if layout.phase > 0 { 4.0 } else { 0.0 }
        + if layout.serial { 1.5 } else { 0.0 }
        + if layout.partial { 1.5 } else { 0.0 };
    let small = if layout.page < PAGE_LEAST { 8.0 } else { 0.0 };
    times + priors::oddness(layout.planes) + priors::oddness(layout.dies) + several + simple + kinds + small
}

/// The layouts that are tried first, with pages of a size.
pub(crate) fn usual(page: u64) -> Vec<FlashLayout> {
    let mut all = Vec::new();
    for &planes in FIRST.planes {
        for &dies in FIRST.dies {
            let rows: &[u64] = if dies == 1 { &[CHUNK_OF_ALL] } else { FIRST.rows };
            for chunk in rows.iter().map(|rows| rows * planes) {
                for channels in if dies == 1 { vec![1] } else { vec![1, dies] } {
                    all.push(FlashLayout { dies, channels, ..FlashLayout::of_one_die(page, planes, chunk) });
                }
            }
        }
    }
    all
}

/// Simple layouts with pages of a size. None of them may be left out where little distinguishes them: what is
/// not tried counts as impossible.
pub(crate) fn simple(page: u64) -> impl Iterator<Item = FlashLayout> {
    let chunks = |&planes: &u64| SIMPLE.rows.iter().map(move |rows| (planes, planes * rows));
    let all = SIMPLE.planes.iter().flat_map(chunks);
    all.flat_map(move |(planes, chunk)| {
        let plain = FlashLayout::of_one_die(page, planes, chunk);
        let several = SIMPLE.dies.iter().flat_map(move |&dies| {
            [FlashLayout { dies, ..plain }, FlashLayout { dies, channels: dies, ..plain }]
        });
        several.chain([plain]).filter_map(legal)
    })
}

fn divisors(dies: u64) -> impl Iterator<Item = u64> {
    (1..=dies).filter(move |&channels| dies.is_multiple_of(channels))
}

/// The layouts that differ in what happens within a die: their times differ much.
pub(crate) fn within(from: &FlashLayout) -> impl Iterator<Item = FlashLayout> + use<> {
    let from = *from;
    let shifted = (1..PHASES_OF_CHUNK).map(move |phase| FlashLayout { phase, ..from });
    let all = TRIED.planes.iter().flat_map(move |&planes| {
        let plain = FlashLayout { planes, cached: false, serial: false, partial: false, ..from };
        let cached = FlashLayout { cached: true, ..plain };
        [
            plain,
            cached,
            FlashLayout { serial: true, ..plain },
            FlashLayout { partial: true, ..plain },
            FlashLayout { partial: true, ..cached },
        ]
    });
    all.chain(shifted).filter_map(legal)
}

/// The layouts that differ from one by a figure or two that hide each other.
pub(crate) fn changed(from: &FlashLayout) -> impl Iterator<Item = FlashLayout> + use<> {
    let from = *from;
    let rows = from.chunk / from.planes;
    let mut all = Vec::new();
    for &planes in TRIED.planes {
        // The same chunk, and the same rows.
        all.push(FlashLayout { planes, ..from });
        all.push(FlashLayout { planes, chunk: (rows * planes).min(CHUNK_OF_ALL), ..from });
    }
    for rows in TRIED.rows.iter().copied().chain([CHUNK_OF_ALL / from.planes]) {
        let chunk = rows * from.planes;
        all.push(FlashLayout { chunk, ..from });
        // The same stripe.
        let dies = from.dies * from.chunk / chunk.max(1);
        for channels in divisors(dies.min(priors::DIES_MOST)) {
            all.push(FlashLayout { chunk, dies, channels, ..from });
        }
    }
    for dies in (1..=DIES_ANY).chain(TRIED.dies.iter().copied()) {
        for channels in divisors(dies) {
            let near = dies <= priors::DIES_USUAL
                || dies == from.dies
                || channels == from.channels
                || channels == dies
                || channels == 1;
            if near {
                all.push(FlashLayout { dies, channels, ..from });
            }
        }
    }
    all.push(FlashLayout { serial: !from.serial, ..from });
    all.push(FlashLayout { partial: !from.partial, ..from });
    // The same chunk, the same rows, or the same pages of them.
    let FlashLayout { page, planes, chunk, .. } = from;
    all.push(FlashLayout { page: page * 2, planes: planes / 2, chunk: chunk / 2, ..from });
    all.push(FlashLayout { page: page / 2, planes: planes * 2, chunk: chunk * 2, ..from });
    for (page, chunk) in [(page * 2, chunk / 2), (page / 2, chunk * 2), (page * 2, chunk), (page / 2, chunk)]
    {
        all.push(FlashLayout { page, chunk, ..from });
    }
    let cached: Vec<FlashLayout> =
        all.iter().map(|layout| FlashLayout { cached: !from.cached, ..*layout }).collect();
    all.push(FlashLayout { cached: !from.cached, ..from });
    // Cache mode shows in rows of one operation.
    all.extend(
        cached
            .into_iter()
            .filter(|layout| layout.chunk / layout.planes.max(1) > 1 && layout.dies == from.dies),
    );
    all.into_iter().filter_map(legal)
}

/// The layouts of which any figures are twice those of one, or the half.
pub(crate) fn around(from: &FlashLayout) -> impl Iterator<Item = FlashLayout> + use<> {
    let from = *from;
    let scaled = |figure: u64, by: u32| [figure, 2 * figure, figure / 2][by as usize % 3];
    (0..3_u32.pow(5)).filter_map(move |code| {
        let by = |place: u32| code / 3_u32.pow(place);
        let chunk = if from.chunk == CHUNK_OF_ALL { CHUNK_OF_ALL } else { scaled(from.chunk, by(2)) };
        legal(FlashLayout {
            page: scaled(from.page, by(0)),
            planes: scaled(from.planes, by(1)),
            chunk,
            dies: scaled(from.dies, by(3)),
            channels: scaled(from.channels, by(4)).max(1),
            ..from
        })
    })
}

/// The layout as there is only one way to write it, if there is any.
fn legal(layout: FlashLayout) -> Option<FlashLayout> {
    let FlashLayout { page, planes, chunk, dies, channels, cached, phase, partial, .. } = layout;
    let legal = TRIED.planes.contains(&planes)
        && (page >= PAGE_LEAST || planes <= SMALL_PLANES)
        && chunk >= planes
        && chunk.is_multiple_of(planes)
        && (chunk <= CHUNK_MOST || chunk >= CHUNK_OF_ALL / 8)
        && (1..=priors::DIES_MOST).contains(&dies)
        && channels > 0
        && dies.is_multiple_of(channels)
        && (512..=65536).contains(&page)
        && (phase == 0 || phase < chunk.min(PHASES_OF_CHUNK))
        // Of a row of which only a part is transferred nobody sees the pages.
        && (planes == 1 || !partial);
    if !legal || dies > 1 && chunk > CHUNK_MOST {
        return None;
    }
    let cached = cached && chunk / planes > 1;
    // One die has no chunks, but for the operations in cache mode.
    let chunk = if dies == 1 && (!cached || chunk > CHUNK_MOST) { CHUNK_OF_ALL } else { chunk };
    let phase = if planes == 1 && chunk == CHUNK_OF_ALL { 0 } else { phase };
    Some(FlashLayout { chunk, cached, phase, ..layout })
}
