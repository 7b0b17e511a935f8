//! Finds pages, planes and erase blocks from small reads across boundaries.
//!
//! # Model (flashbench, "align")
//! A small read across a boundary of the flash costs more than one next to it. Across pages it needs the
//! transfer of a second page. Across multi-plane pages it needs a second array read, and across blocks
//! another map entry. Every boundary of a larger unit is also one of the smaller units. So the cost over
//! boundaries of 2^k bytes rises in steps: nothing below the page, then one level each for the page, the
//! multi-plane page and the block.
//!
//! # Method
//! 1. Times scatter in proportion to themselves, so levels are those of the logarithm of (time across / time
//!    next to the boundary).
//! 2. Divide the level where that reduces the sum of squared deviations most.
//! 3. Accept the division if Student's t between its two parts is as unlikely by chance as `ALPHA`, corrected
//!    for all possible positions. The scatter is that around all levels. (For one position this is the
//!    two-sample test.)
//!
//! The structure of flash gives the levels their meaning: a multi-plane page has at most `PLANES_MAX` pages,
//! and a block at least twice that many multi-plane pages.

use crate::student::quantile;

/// The probability of one level too many.
const ALPHA: f64 = 0.01;
/// The most planes of a die that work together.
const PLANES_MAX: f64 = 8.0;

/// Reads around the boundaries of one size, in any unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The boundary: its odd multiples, in bytes.
    pub boundary: u64,
    /// The time of a read that ends at the boundary.
    pub before: f64,
    /// What it takes across one.
    pub across: f64,
    /// The time of a read that begins at the boundary.
    pub after: f64,
}

impl Row {
    /// What lying across costs.
    pub fn cost(&self) -> f64 {
        self.across - (self.before / 2.0 + self.after / 2.0)
    }

    /// The time across the boundary as a logarithm, relative to reads next to it.
    fn relative(&self) -> f64 {
        (self.across / (self.before / 2.0 + self.after / 2.0)).ln()
    }
}

/// A level of cost: it applies to boundaries from `from` on, up to the next level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The smallest boundary with this cost.
    pub from: u64,
    /// The mean cost of reads across these boundaries.
    pub cost: f64,
    /// How many rows belong to it.
    pub rows: usize,
}

/// What the boundaries say.
#[derive(Clone, Debug, PartialEq)]
pub struct Boundaries {
    /// The page, in bytes.
    pub page: u64,
    /// The number of pages in a multi-plane page; `None` if no level shows it.
    pub planes: Option<u64>,
    /// The erase block or allocation unit, in bytes; `None` if no level shows it.
    pub block: Option<u64>,
    /// All levels, starting with the one without a cost.
    pub levels: Vec<Level>,
    /// The scatter of the cost of reads across boundaries, relative to reads next to them (standard
    /// deviation).
    pub scatter: f64,
}

/// Page, planes and block from the cost of reads across boundaries. `None` if there are fewer than 5 rows, if
/// the smallest boundary already has a cost or none has, or if the levels do not rise.
pub fn boundaries(rows: &[Row]) -> Option<Boundaries> {
    let mut rows = rows.to_vec();
    rows.retain(|row| row.relative().is_finite());
    rows.sort_by_key(|row| row.boundary);
    if rows.len() < 5 {
        return None;
    }
    let costs: Vec<f64> = rows.iter().map(Row::relative).collect();
    let (begins, scatter) = divide(&costs);
    let ends = begins.iter().skip(1).copied().chain([rows.len()]);
    let heights: Vec<f64> =
        begins.iter().zip(ends.clone()).map(|(&begin, end)| mean(&costs[begin..end])).collect();
    let levels: Vec<Level> = begins
        .iter()
        .zip(ends)
        .map(|(&begin, end)| {
            let cost = rows[begin..end].iter().map(Row::cost).sum::<f64>() / (end - begin) as f64;
            Level { from: rows[begin].boundary, cost, rows: end - begin }
        })
        .collect();
    let [nothing, page, ..] = heights.as_slice() else { return None };
    let is_nothing = nothing.abs() <= 4.0 * scatter && nothing.abs() < page / 4.0;
    if !is_nothing || !heights.is_sorted_by(|a, b| a < b) {
        return None;
    }
    let [_, page, larger @ ..] = levels.as_slice() else { return None };
    let ratio = |level: &Level| level.from as f64 / page.from as f64;
    let row = larger.first().filter(|level| ratio(level) <= PLANES_MAX);
    let block = larger.iter().find(|level| {
        let row = row.map_or(page.from, |row| row.from);
        level.from as f64 / row as f64 >= 2.0 * PLANES_MAX
    });
    Some(Boundaries {
        page: page.from,
        planes: row.map(|row| row.from / page.from),
        block: block.map(|level| level.from),
        levels: levels.clone(),
        scatter,
    })
}

fn mean(costs: &[f64]) -> f64 {
    costs.iter().sum::<f64>() / costs.len() as f64
}

/// The squared deviations from the mean.
fn deviation(costs: &[f64]) -> f64 {
    let mean = mean(costs);
    costs.iter().map(|cost| (cost - mean).powi(2)).sum()
}

/// The positions where levels begin, and the scatter around them.
fn divide(costs: &[f64]) -> (Vec<usize>, f64) {
    let n = costs.len();
    // Below this figures are equal.
    let largest = costs.iter().fold(0.0_f64, |largest, cost| largest.max(cost.abs()));
    let least = (largest * 1e-9).max(f64::MIN_POSITIVE).powi(2);
    let mut begins = vec![0];
    let mut left = deviation(costs);
    loop {
        let freedom = n as f64 - begins.len() as f64;
        let scatter = (left / freedom).max(least).sqrt();
        // How much one more level reduces the deviations, and where it begins.
        let within = |place: usize| {
            let next = begins.partition_point(|&begin| begin <= place);
            let (begin, end) = (begins[next - 1], begins.get(next).copied().unwrap_or(n));
            let (lower, upper) = (&costs[begin..place], &costs[place..end]);
            (deviation(&costs[begin..end]) - deviation(lower) - deviation(upper), place)
        };
        let places = (1..n).filter(|place| !begins.contains(place));
        let Some((gain, place)) = places.map(within).max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return (begins, scatter);
        };
        let freedom = freedom - 1.0;
        let rest = ((left - gain) / freedom).max(least);
        if freedom < 2.0 || gain / rest < quantile(1.0 - 2.0 * ALPHA / n as f64, freedom).powi(2) {
            return (begins, scatter);
        }
        left = (left - gain).max(0.0);
        begins.insert(begins.partition_point(|&begin| begin < place), place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Source;

    /// An SD card's reads before, across and after boundaries of 2^11 to 2^27 bytes, in microseconds, as
    /// published with flashbench. The expected values of the test below are its author's.
    const SD_CARD: [[f64; 3]; 17] = [
        [787.0, 793.0, 789.0],
        [784.0, 788.0, 779.0],
        [785.0, 808.0, 725.0],
        [745.0, 911.0, 781.0],
        [735.0, 925.0, 800.0],
        [735.0, 925.0, 796.0],
        [737.0, 935.0, 804.0],
        [746.0, 948.0, 809.0],
        [743.0, 936.0, 799.0],
        [745.0, 945.0, 807.0],
        [745.0, 950.0, 811.0],
        [741.0, 1080.0, 788.0],
        [724.0, 1040.0, 763.0],
        [727.0, 1050.0, 772.0],
        [722.0, 1040.0, 763.0],
        [736.0, 1050.0, 763.0],
        [735.0, 1080.0, 780.0],
    ];

    fn rows(figures: &[[f64; 3]]) -> Vec<Row> {
        let row = |(k, [before, across, after]): (usize, &[f64; 3])| Row {
            boundary: 2048 << k,
            before: *before,
            across: *across,
            after: *after,
        };
        figures.iter().enumerate().map(row).collect()
    }

    #[test]
    fn the_sd_card_has_blocks_of_4_mib_and_pages_of_8_kib_on_two_planes() {
        let found = boundaries(&rows(&SD_CARD)).unwrap();
        assert_eq!((found.page, found.planes, found.block), (8 << 10, Some(2), Some(4 << 20)));
        let levels: Vec<(u64, i64)> =
            found.levels.iter().map(|level| (level.from, level.cost.round() as i64)).collect();
        assert_eq!(levels, [(2048, 6), (8192, 53), (16384, 163), (4 << 20, 306)]);
    }

    #[test]
    fn each_unit_may_be_missing() {
        let with = |levels: &[(usize, f64)]| -> Vec<Row> {
            let cost =
                |k: usize| levels.iter().rev().find(|(from, _)| *from <= k).map_or(0.0, |(_, cost)| *cost);
            let figures: Vec<[f64; 3]> = (0..16).map(|k| [100.0, 100.0 + cost(k), 100.0]).collect();
            rows(&figures)
        };
        let found = |levels: &[(usize, f64)]| {
            boundaries(&with(levels)).map(|found| (found.page >> 10, found.planes, found.block))
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(0, 50.0)]), None);
        assert_eq!(found(&[(1, 50.0)]), Some((4, None, None)));
        assert_eq!(found(&[(1, 10.0), (3, 60.0)]), Some((4, Some(4), None)));
        assert_eq!(found(&[(2, 50.0), (10, 90.0)]), Some((8, None, Some(2 << 20))));
        // Reads across larger boundaries cost less, so these are not boundaries of larger units.
        assert_eq!(found(&[(2, 50.0), (10, 20.0)]), None);
    }

    #[test]
    fn levels_are_not_seen_in_noise() {
        let mut source = Source::new(11);
        let mut false_alarms = 0;
        let mut right = 0;
        for _ in 0..400 {
            let mut noisy = |cost: f64| {
                let mut time = |cost: f64| (100.0 + cost) * source.log_normal(0.01);
                [time(0.0), time(cost), time(0.0)]
            };
            let flat: Vec<[f64; 3]> = (0..17).map(|_| noisy(0.0)).collect();
            false_alarms += usize::from(boundaries(&rows(&flat)).is_some());
            let steps: Vec<[f64; 3]> = (0..17).map(|k| noisy([0.0, 0.0, 10.0, 60.0][k.min(3)])).collect();
            let found = boundaries(&rows(&steps));
            right += usize::from(found.is_some_and(|found| (found.page, found.planes) == (8 << 10, Some(2))));
        }
        assert!(false_alarms <= 12, "{false_alarms} of 400");
        assert!(right >= 360, "{right} of 400");
    }

    #[test]
    fn odd_figures_do_no_harm() {
        assert_eq!(boundaries(&[]), None);
        let odd = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300, f64::MIN_POSITIVE];
        for &a in &odd {
            for &b in &odd {
                let figures: Vec<[f64; 3]> =
                    (0..8).map(|k| if k % 2 == 0 { [a, b, a] } else { [b, a, b] }).collect();
                let _ = boundaries(&rows(&figures));
            }
        }
    }
}
