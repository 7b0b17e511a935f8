//! Which layouts are tried, and how unusual each of them is before anything was measured.
//!
//! # Model
//! Flash is sensed in some 50 us and transferred by some 150 MB/s, and both differ by factors; figures of a layout are
//! mostly powers of two, and devices rather simple. So of two layouts that explain the same the usual one is believed.

use super::fitting::LayoutTimes;
use super::replay::FlashLayout;
use crate::priors;

/// Figures that are tried: the usual ones first, and all.
const PLANES: [u64; 7] = [1, 2, 3, 4, 6, 8, 16];
const ROWS_FIRST: [u64; 3] = [1, 4, 16];
const ROWS_USUAL: u64 = 6;
const ROWS: [u64; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
const DIES_FIRST: [u64; 5] = [1, 2, 4, 8, 16];
/// Any number up to this, and these.
const DIES_ANY: u64 = 32;
const DIES_MANY: [u64; 4] = [48, 64, 96, 128];
/// The figures of simple layouts.
const PLANES_SIMPLE: [u64; 3] = [1, 2, 4];
const ROWS_SIMPLE: [u64; 6] = [1, 2, 4, 8, 16, 32];
const DIES_SIMPLE: [u64; 2] = [2, 4];
/// Chunks may begin this many pages before an address that they would begin at.
const PHASES: u64 = 4;
/// The largest chunk where there are several dies, in pages.
const CHUNK_MOST: u64 = 256;
/// The chunk of one die: nothing lies elsewhere.
pub(crate) const ALL: u64 = 1 << 40;
/// Hardly any flash has smaller pages, in bytes.
const PAGE_LEAST: u64 = 2048;
/// Of pages that are smaller, rows have no more; what looks like more of them is a page of which parts are transferred.
const SMALL_PLANES: u64 = 4;
/// Usual times: nanoseconds, bytes a nanosecond; and the logarithm of the factor by which they differ.
const COMMAND: f64 = 40_000.0;
const COMMAND_SPREAD: f64 = 1.8;
const SENSE: f64 = 55_000.0;
const SENSE_SPREAD: f64 = 0.8;
const CHANNEL: f64 = 0.15;
const CHANNEL_SPREAD: f64 = 1.5;

/// How unusual a layout with such times is, as a logarithm: flash is sensed in some 50 us, and transferred by some 150 MB/s;
/// figures are mostly powers of two, and devices rather simple.
pub(crate) fn unusual(layout: &FlashLayout, &[command, sense, transfer, _]: &LayoutTimes) -> f64 {
    let normal = |time: f64, usual: f64, spread: f64| ((time.max(1.0) / usual).ln() / spread).powi(2) / 2.0;
    let times = normal(command, COMMAND, COMMAND_SPREAD)
        + normal(sense, SENSE, SENSE_SPREAD)
        + normal(transfer, layout.page as f64 / CHANNEL, CHANNEL_SPREAD);
    // Where there are several dies, some chunk and some channels are one of several.
    let several = match layout.dies {
        1 if layout.chunk == ALL => 0.0,
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
    for planes in [1, 4] {
        for dies in DIES_FIRST {
            let rows: &[u64] = if dies == 1 { &[ALL] } else { &ROWS_FIRST };
            for chunk in rows.iter().map(|rows| rows * planes) {
                for channels in if dies == 1 { vec![1] } else { vec![1, dies] } {
                    all.push(FlashLayout { dies, channels, ..FlashLayout::of_one_die(page, planes, chunk) });
                }
            }
        }
    }
    all
}

/// Simple layouts with pages of a size, of which none may be left out where little distinguishes them: what is not tried is taken
/// for impossible.
pub(crate) fn simple(page: u64) -> impl Iterator<Item = FlashLayout> {
    let all = PLANES_SIMPLE.into_iter().flat_map(|planes| ROWS_SIMPLE.map(|rows| (planes, planes * rows)));
    all.flat_map(move |(planes, chunk)| {
        let plain = FlashLayout::of_one_die(page, planes, chunk);
        let several = DIES_SIMPLE.into_iter().flat_map(move |dies| {
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
    let shifted = (1..PHASES).map(move |phase| FlashLayout { phase, ..from });
    let all = PLANES.into_iter().flat_map(move |planes| {
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
    for planes in PLANES {
        // The same chunk, and the same rows.
        all.push(FlashLayout { planes, ..from });
        all.push(FlashLayout { planes, chunk: (rows * planes).min(ALL), ..from });
    }
    for rows in ROWS.into_iter().chain([ALL / from.planes]) {
        let chunk = rows * from.planes;
        all.push(FlashLayout { chunk, ..from });
        // The same stripe.
        let dies = from.dies * from.chunk / chunk.max(1);
        for channels in divisors(dies.min(priors::DIES_MOST)) {
            all.push(FlashLayout { chunk, dies, channels, ..from });
        }
    }
    for dies in (1..=DIES_ANY).chain(DIES_MANY) {
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
        let chunk = if from.chunk == ALL { ALL } else { scaled(from.chunk, by(2)) };
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
    let legal = PLANES.contains(&planes)
        && (page >= PAGE_LEAST || planes <= SMALL_PLANES)
        && chunk >= planes
        && chunk.is_multiple_of(planes)
        && (chunk <= CHUNK_MOST || chunk >= ALL / 8)
        && (1..=priors::DIES_MOST).contains(&dies)
        && channels > 0
        && dies.is_multiple_of(channels)
        && (512..=65536).contains(&page)
        && (phase == 0 || phase < chunk.min(PHASES))
        // Of a row of which only a part is transferred nobody sees the pages.
        && (planes == 1 || !partial);
    if !legal || dies > 1 && chunk > CHUNK_MOST {
        return None;
    }
    let cached = cached && chunk / planes > 1;
    // One die has no chunks, but for the operations in cache mode.
    let chunk = if dies == 1 && (!cached || chunk > CHUNK_MOST) { ALL } else { chunk };
    let phase = if planes == 1 && chunk == ALL { 0 } else { phase };
    Some(FlashLayout { chunk, cached, phase, ..layout })
}
