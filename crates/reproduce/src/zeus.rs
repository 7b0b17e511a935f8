//! Reproduces El Maghraoui et al., Tables 1 and 2: fits the throughput model to the simulated STEC Zeus, and
//! compares a simulator with these parameters with the drive.
//!
//! # Method
//! 1. Measure the drive over block sizes.
//! 2. Fit T(n) = A + n B to each class (sections 5 and 6.1).
//! 3. Run a simulator with the fitted A and B, and compare it with the drive (section 6.2.1).
//!
//! The real drive no longer exists, so the zoo's drive takes its place. The errors are therefore those of the
//! fit and of the simulator. They do not show how far a real drive is from a line.

use flashlab_base::{Bytes, Mode, Nanos, Seed};
use flashlab_plan::{Basic, Location, ModeRule, Pattern};
use flashlab_sim::Profile;

use crate::lab::{ReproduceError, Result, mean, mean_us, numbered, on_all_processors, profile, run};
use crate::papers::{Measurement, paper};
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};
use crate::reproduction::{Measured, Reproduction};

/// Tables 1 and 2.
pub(crate) const TABLES: Reproduction = Reproduction {
    name: NAME,
    title: "The throughput model T(n) = A + n B of the STEC Zeus over requests of 4 KB to 64 MB, and its error",
    source: "El Maghraoui et al., Modeling and Simulating Flash based Solid-State Disks, Tables 1 and 2, Figures 6 and 7",
    measure,
};

/// The name of the reproduction and of the device.
const NAME: &str = "zeus";

const CLASSES: [(&str, Mode, bool); 4] = [
    ("sequential read", Mode::Read, true),
    ("random read", Mode::Read, false),
    ("sequential write", Mode::Write, true),
    ("random write", Mode::Write, false),
];

/// The block sizes of Figure 6, as powers of two; those of Table 2 end at 8 MB.
const SIZES: std::ops::RangeInclusive<u32> = 12..=26;
const COMPARED: std::ops::RangeInclusive<u32> = 12..=23;

/// Size in KB and time in microseconds, for each block size of a class.
type Points = Vec<(f64, f64)>;

fn measure(seed: Seed) -> Result<Measured> {
    let drive = profile(NAME)?;
    let measured = curves(&drive, SIZES, seed)?;
    let lines: Vec<(f64, f64)> = measured.iter().map(|points| line(points)).collect();
    let simulated = curves(&running_with(drive, &lines), COMPARED, seed)?;
    let (mut values, mut series) = (Vec::new(), Vec::new());
    for (i, (class, ..)) in CLASSES.into_iter().enumerate() {
        let (points, (a, b)) = (&measured[i], lines[i]);
        // The error of throughputs, as in the paper: n / T(n).
        let pairs = points.iter().zip(&simulated[i]);
        let errors = pairs.map(|(drive, simulator)| 100.0 * (drive.1 / simulator.1 - 1.0).abs());
        let error = mean(&errors.collect::<Vec<f64>>());
        let value =
            |quantity, unit, value: f64| Measurement::new(NAME, format!("{class} {quantity}"), unit, value);
        values.extend([
            value("a_us", "us", a),
            value("b_us_per_kb", "us/KB", b),
            value("r2", "", determination(points, a, b)),
            value("simulator_error_pct", "percent", error),
        ]);
        let mb_s = |(kb, us): (f64, f64)| (kb, kb * 1024.0 / us);
        series.push(FigureSeries::new(class, SeriesStyle::Curve, points.iter().copied().map(mb_s).collect()));
        let of_paper = |quantity| paper(NAME, NAME, &format!("{class} {quantity}"));
        let (a, b) = (of_paper("a_us"), of_paper("b_us_per_kb"));
        let of_table_1 = points.iter().map(|&(kb, _)| mb_s((kb, a + b * kb))).collect();
        let name = if i == 0 { "paper: the lines of Table 1" } else { "" };
        series.push(FigureSeries::new(name, SeriesStyle::PaperLine, of_table_1));
    }
    let x = FigureAxis::new("block size (KiB)", Scale::Binary);
    let y = FigureAxis::new("throughput (MB/s)", Scale::Linear);
    let picture = FigurePicture::new(NAME, "Throughput of the STEC Zeus over block sizes", x, y, series);
    Ok(Measured { values, pictures: vec![picture] })
}

/// The simulator with these A and B.
fn running_with(mut profile: Profile, lines: &[(f64, f64)]) -> Profile {
    if let Some(model) = &mut profile.throughput {
        let classes = [
            &mut model.sequential_read,
            &mut model.random_read,
            &mut model.sequential_write,
            &mut model.random_write,
        ];
        for (class, &(a_us, b_us_per_kb)) in classes.into_iter().zip(lines) {
            class.a = Nanos((a_us * 1e3).round() as u64);
            class.b_us_per_kb = b_us_per_kb;
        }
    }
    profile
}

/// The response times of all classes over the block sizes.
fn curves(profile: &Profile, powers: std::ops::RangeInclusive<u32>, seed: Seed) -> Result<Vec<Points>> {
    on_all_processors(&CLASSES, |&(_, mode, sequential)| {
        let point = |power: u32| {
            let size = Bytes(1 << power);
            Ok((size.0 as f64 / 1024.0, response_us(profile, mode, sequential, size, seed)?))
        };
        powers.clone().map(point).collect()
    })
}

/// The mean response time of requests of one size.
fn response_us(profile: &Profile, mode: Mode, sequential: bool, size: Bytes, seed: Seed) -> Result<f64> {
    let basic = Basic::consecutive(
        ModeRule::Always(mode),
        if sequential { Location::Sequential } else { Location::Random },
        size,
    );
    // The first request is not sequential to another one.
    let pattern = Pattern { io_count: Some(33), ..Pattern::basic(basic) };
    let mut device = profile.device().map_err(|error| ReproduceError::new(NAME, error))?;
    let samples = run(&mut device, &pattern, numbered(seed, size.0))?;
    Ok(mean_us(&samples[1..]))
}

/// A and B of the least-squares line through points, weighted with 1 / y^2. So relative errors count, because
/// the values span four orders of magnitude.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(x, y) in points {
        let weight = 1.0 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let b = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    ((wy - b * wx) / w, b)
}

/// The share of the points' variance that the line explains (coefficient of determination).
fn determination(points: &[(f64, f64)], a: f64, b: f64) -> f64 {
    let middle = mean(&points.iter().map(|point| point.1).collect::<Vec<f64>>());
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(|point| of(point).powi(2)).sum::<f64>();
    1.0 - sum(&|&(x, y)| y - a - b * x) / sum(&|&(_, y)| y - middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_parameters_come_back_and_the_errors_are_not_larger() {
        let figures = TABLES.run(Seed(1)).unwrap().figures;
        assert_eq!(figures.len(), 16);
        let differing: Vec<_> = figures.iter().filter(|figure| !figure.agrees()).collect();
        assert!(differing.is_empty(), "{differing:?}");
    }

    #[test]
    fn a_line_is_found_again_and_what_is_none_is_told() {
        let points: Vec<(f64, f64)> = (1..9).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        let (a, b) = line(&points);
        assert!((a - 3.0).abs() < 1e-9 && (b - 2.0).abs() < 1e-9);
        assert!((determination(&points, a, b) - 1.0).abs() < 1e-12);
        assert!((determination(&points, 12.0, 0.0)).abs() < 1e-12, "the mean explains nothing");
    }
}
