//! El Maghraoui et al., Table 1: the throughput model of the STEC Zeus, fitted again to what is measured.

use flashlab_base::{Bytes, Mode, Seed};
use flashlab_plan::{Location, ModeRule, Pattern};

use crate::lab::{Result, consecutive, device, mean_us, run};
use crate::{Agreement, Figure, Reproduction};

/// Table 1.
pub(crate) const TABLE_1: Reproduction = Reproduction {
    name: "zeus",
    title: "The throughput model T(n) = A + n B of the STEC Zeus, fitted over requests of 4 KB to 64 MB",
    source: "El Maghraoui et al., Modeling and Simulating Flash based Solid-State Disks, Table 1",
    measure,
};

/// Table 1 of the paper: the class, A in microseconds, B in microseconds a KB.
const PAPER: [(&str, Mode, bool, f64, f64); 4] = [
    ("sequential read", Mode::Read, true, 127.5, 4.005),
    ("random read", Mode::Read, false, 230.0, 3.987),
    ("sequential write", Mode::Write, true, 2167.0, 4.96),
    ("random write", Mode::Write, false, 770.0, 5.382),
];

fn measure() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (class, mode, sequential, a_us, b_us_per_kb) in PAPER {
        let mut points = Vec::new();
        for power in 12..=26 {
            let size = Bytes(1 << power);
            points.push((size.0 as f64 / 1024.0, response_us(mode, sequential, size)?));
        }
        let (a, b) = line(&points);
        let figure = |quantity: &str, unit: &str, paper, flashlab| Figure {
            device: "zeus".to_owned(),
            quantity: format!("{class} {quantity}"),
            unit: unit.to_owned(),
            paper: Some(paper),
            flashlab: Some(flashlab),
            agreement: Agreement::Within(0.05),
        };
        figures.push(figure("a_us", "us", a_us, a));
        figures.push(figure("b_us_per_kb", "us/KB", b_us_per_kb, b));
    }
    Ok(figures)
}

/// The mean response time of requests of one size.
fn response_us(mode: Mode, sequential: bool, size: Bytes) -> Result<f64> {
    let basic = consecutive(
        ModeRule::Always(mode),
        if sequential { Location::Sequential } else { Location::Random },
        size,
    );
    // The first request is sequential to nothing.
    let pattern = Pattern { io_count: Some(33), ..Pattern::basic(basic) };
    let samples = run(&mut device("zeus")?, &pattern, Seed(size.0))?;
    Ok(mean_us(&samples[1..]))
}

/// A and B of the line through points, by least squares weighted with 1 / y^2: what counts is the relative error, as
/// over four orders of magnitude it has to.
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
