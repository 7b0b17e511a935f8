//! Figure 3.4: misaligned random writes, and a drive after many rewrites.

use flashlab_base::{Bytes, Mode, Seed};

use super::{bandwidth, pattern, rewrite, rewritten};
use crate::lab::{Result, numbered, on_all_processors};
use crate::papers::Measurement;
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};

/// Figure 3.4.
pub(crate) const FIGURE_3_4: Reproduction = Reproduction {
    name: "ajwani-fig3.4",
    title: "Misaligned random writes over aligned ones, and bandwidth after 100 rewrites over that of a new drive",
    source: "Ajwani et al., Characterizing the performance of flash memory storage devices, sections 3.3.4 and 3.3.5",
    measure,
};

/// Aligned requests of this size begin with a chunk or block on all of these devices.
const SIZE: Bytes = Bytes(2 << 20);
const SHIFTS: [Bytes; 3] = [Bytes::kib(2), Bytes::kib(16), Bytes::kib(32)];
const DEVICES: [&str; 4] = ["mini-traveldrive", "transmemory-512m", "mdrive", "supertalent"];
const AGED: &str = "transmemory-512m";
/// The paper's drive was rewritten 60,000 times without an effect. Here 100 times are enough, because nothing
/// in a profile depends on the number.
const REWRITES: [u32; 5] = [0, 25, 50, 75, 100];

fn measure(seed: Seed) -> Result<Measured> {
    let ratios = on_all_processors(&DEVICES, |name| misaligned_over_aligned(name, seed))?;
    let mut values: Vec<Measurement> =
        DEVICES.iter().zip(&ratios).flat_map(|(name, ratios)| ratio_values(name, ratios)).collect();
    let series = DEVICES.iter().zip(&ratios).map(|(name, ratios)| ratio_series(name, ratios)).collect();
    let (aged, over_rewrites) = aged(seed)?;
    values.extend(aged);
    let title = "Misaligned random writes of 2 MiB";
    let pictures = vec![ratio_picture("ajwani-fig3.4a", title, series), over_rewrites];
    Ok(Measured { values, pictures })
}

/// The bandwidth of random writes at each shift, divided by that without a shift.
pub(super) fn misaligned_over_aligned(name: &str, seed: Seed) -> Result<[f64; SHIFTS.len()]> {
    let speed = |shift| {
        let mut writes = pattern(Mode::Write, false, SIZE);
        writes.first.io_shift = shift;
        bandwidth(&mut rewritten(name)?, &writes, numbered(seed, 34))
    };
    let aligned = speed(Bytes::ZERO)?;
    let mut ratios = [0.0; SHIFTS.len()];
    for (ratio, shift) in ratios.iter_mut().zip(SHIFTS) {
        *ratio = speed(shift)? / aligned;
    }
    Ok(ratios)
}

/// The paper shows the ratios only in a picture: below one, and different for each device.
pub(super) fn ratio_values(name: &'static str, ratios: &[f64; SHIFTS.len()]) -> Vec<Measurement> {
    let value = |(shift, ratio): (Bytes, &f64)| {
        Measurement::new(name, format!("random_write_misaligned_{}k_over_aligned", shift.0 >> 10), "", *ratio)
    };
    SHIFTS.into_iter().zip(ratios).map(value).collect()
}

pub(super) fn ratio_series(name: &str, ratios: &[f64; SHIFTS.len()]) -> FigureSeries {
    let points = SHIFTS.into_iter().zip(ratios).map(|(shift, ratio)| (shift.0 as f64 / 1024.0, *ratio));
    FigureSeries::new(name, SeriesStyle::Curve, points.collect())
}

/// Ratios over the shift.
pub(super) fn ratio_picture(name: &str, title: &str, mut series: Vec<FigureSeries>) -> FigurePicture {
    series.push(FigureSeries::level("paper: below the aligned ones", 1.0));
    let x = FigureAxis::new("misaligned by (KiB)", Scale::Binary);
    FigurePicture::new(
        name,
        title,
        x,
        FigureAxis::new("bandwidth / aligned bandwidth", Scale::Linear),
        series,
    )
}

/// A drive that is rewritten repeatedly.
fn aged(seed: Seed) -> Result<(Vec<Measurement>, FigurePicture)> {
    let patterns = [
        ("sequential read", "aged_sequential_read_over_new", Mode::Read, true),
        ("random read", "aged_random_read_over_new", Mode::Read, false),
        ("sequential write", "aged_sequential_write_over_new", Mode::Write, true),
        ("random write", "aged_random_write_over_new", Mode::Write, false),
    ];
    let speeds = on_all_processors(&REWRITES, |&times| {
        let mut device = rewritten(AGED)?;
        for _ in 0..times {
            rewrite(&mut device)?;
        }
        let mut speed = |&(_, _, mode, sequential)| {
            bandwidth(&mut device, &pattern(mode, sequential, Bytes::kib(32)), numbered(seed, 35))
        };
        patterns.iter().map(&mut speed).collect::<Result<Vec<f64>>>()
    })?;
    let (mut values, mut series) = (Vec::new(), Vec::new());
    for (i, (name, quantity, ..)) in patterns.into_iter().enumerate() {
        values.push(Measurement::new(AGED, quantity, "", speeds[REWRITES.len() - 1][i] / speeds[0][i]));
        let points = REWRITES.iter().zip(&speeds).map(|(times, speeds)| (f64::from(*times), speeds[i]));
        series.push(FigureSeries::new(name, SeriesStyle::Curve, points.collect()));
    }
    let x = FigureAxis::new("sequential writes of the whole device", Scale::Linear);
    let title = "TransMemory 512 MB, requests of 32 KiB, after many writes";
    let picture = FigurePicture::new(
        "ajwani-fig3.4b",
        title,
        x,
        FigureAxis::new("bandwidth (MB/s)", Scale::Decimal),
        series,
    );
    Ok((values, picture))
}
