//! Pictures of real drives and their models.

use super::drives::REAL_DRIVES;
use super::judge::{Quantity, RowComparison};
use super::rows::RowUse;
use crate::picture::{FigureAxis, FigurePicture, FigureSeries, Scale, SeriesStyle};

/// The rates of all workloads, and the reads under each rate of writes.
pub fn draw(comparisons: &[RowComparison]) -> Vec<FigurePicture> {
    let mut pictures = vec![rates(comparisons)];
    for (quantity, name, title) in [
        (Quantity::ReadP50, "ssd-iq-read-p50", "Median of random reads of 4 KiB under random writes"),
        (
            Quantity::ReadP99,
            "ssd-iq-read-p99",
            "99th percentile of random reads of 4 KiB under random writes",
        ),
    ] {
        if comparisons.iter().any(|one| one.quantity == quantity) {
            pictures.push(reads(comparisons, quantity, name, title));
        }
    }
    pictures
}

fn rates(comparisons: &[RowComparison]) -> FigurePicture {
    let points = |row_use: RowUse| {
        comparisons
            .iter()
            .filter(|one| one.quantity == Quantity::SteadyRate && one.row_use == row_use)
            .map(|one| (one.measured, one.simulated / one.measured))
            .collect::<Vec<(f64, f64)>>()
    };
    let tolerance =
        |name: &str, value| FigureSeries::new(name, SeriesStyle::Tolerance, vec![(f64::NAN, value)]);
    FigurePicture::new(
        "ssd-iq-rates",
        "Steady rates of seven drives by workload",
        FigureAxis::new("the drive's rate (MiB/s)", Scale::Decimal),
        FigureAxis::new("model / drive", Scale::Decimal),
        vec![
            FigureSeries::level("the drive's rate", 1.0),
            tolerance("25 % apart", 0.75),
            tolerance("", 1.25),
            FigureSeries::new("held out", SeriesStyle::Dots, points(RowUse::Test)),
            FigureSeries::new("fitted", SeriesStyle::Dots, points(RowUse::Fit)),
        ],
    )
}

fn reads(comparisons: &[RowComparison], quantity: Quantity, name: &str, title: &str) -> FigurePicture {
    let mut series = Vec::new();
    for drive in &REAL_DRIVES {
        let mut of_drive: Vec<(f64, f64, f64)> = comparisons
            .iter()
            .filter(|one| one.quantity == quantity && one.drive == drive)
            .filter_map(|one| Some((one.offered?, one.simulated, one.measured)))
            .collect();
        if of_drive.is_empty() {
            continue;
        }
        of_drive.sort_by(|a, b| a.0.total_cmp(&b.0));
        let curve = of_drive.iter().map(|&(offered, simulated, _)| (offered, simulated)).collect();
        let crosses = of_drive.iter().map(|&(offered, _, measured)| (offered, measured)).collect();
        series.push(FigureSeries::new(drive.zoo, SeriesStyle::Curve, curve));
        series.push(FigureSeries::new("", SeriesStyle::PaperCrosses, crosses));
    }
    FigurePicture::new(
        name,
        title,
        FigureAxis::new("operations offered a second", Scale::Decimal),
        FigureAxis::new("microseconds (crosses: the drive)", Scale::Decimal),
        series,
    )
}
