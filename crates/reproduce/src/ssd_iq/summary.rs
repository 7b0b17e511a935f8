//! Errors by quantity, and whether the models come in the order of the drives.

use flashlab_base::quantile;

use super::judge::{Quantity, RowComparison};
use super::rows::RowUse;

/// The errors of one quantity, of rows that were fitted or of those held out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorSummary {
    /// The quantity.
    pub quantity: Quantity,
    /// Which rows.
    pub row_use: RowUse,
    /// The number of values.
    pub values: usize,
    /// The median of the absolute differences, as a share of the drives' values.
    pub median: f64,
    /// The 95th percentile of the absolute differences.
    pub p95: f64,
}

/// The errors of each quantity, fitted rows first.
pub fn summaries(comparisons: &[RowComparison]) -> Vec<ErrorSummary> {
    let mut summaries = Vec::new();
    for row_use in [RowUse::Fit, RowUse::Test] {
        for quantity in Quantity::ALL {
            let errors: Vec<f64> = comparisons
                .iter()
                .filter(|one| one.quantity == quantity && one.row_use == row_use)
                .map(|one| one.difference().abs())
                .collect();
            let (Some(median), Some(p95)) = (quantile(&errors, 0.5), quantile(&errors, 0.95)) else {
                continue;
            };
            summaries.push(ErrorSummary { quantity, row_use, values: errors.len(), median, p95 });
        }
    }
    summaries
}

/// How the drives come in one workload, by their steady rates.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderOfDrives {
    /// The workload.
    pub workload: String,
    /// The drives by the zoo's names, the fastest first.
    pub measured: Vec<&'static str>,
    /// The models, the fastest first.
    pub simulated: Vec<&'static str>,
    /// Pairs of drives that the models bring into the measured order, and all pairs.
    pub pairs: (usize, usize),
}

/// The order of the drives in each workload that at least two of them have, with all of the drive in use.
pub fn orders_of_drives(comparisons: &[RowComparison]) -> Vec<OrderOfDrives> {
    let rates: Vec<&RowComparison> =
        comparisons.iter().filter(|one| one.quantity == Quantity::SteadyRate).collect();
    let mut workloads: Vec<&str> = Vec::new();
    for one in &rates {
        if !workloads.contains(&one.workload.as_str()) {
            workloads.push(&one.workload);
        }
    }
    workloads.into_iter().filter_map(|workload| order(workload, &rates)).collect()
}

fn order(workload: &str, rates: &[&RowComparison]) -> Option<OrderOfDrives> {
    let mut values: Vec<(&'static str, f64, f64)> = Vec::new();
    for one in rates.iter().filter(|one| one.workload == workload) {
        if values.iter().all(|value| value.0 != one.drive.zoo) {
            values.push((one.drive.zoo, one.measured, one.simulated));
        }
    }
    if values.len() < 2 {
        return None;
    }
    let sorted = |rate: fn(&(&'static str, f64, f64)) -> f64| {
        let mut names = values.clone();
        names.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        names.into_iter().map(|value| value.0).collect()
    };
    let mut pairs = (0, 0);
    for (index, a) in values.iter().enumerate() {
        for b in &values[index + 1..] {
            pairs.0 += usize::from((a.1 >= b.1) == (a.2 >= b.2));
            pairs.1 += 1;
        }
    }
    Some(OrderOfDrives {
        workload: workload.to_owned(),
        measured: sorted(|value| value.1),
        simulated: sorted(|value| value.2),
        pairs,
    })
}

#[cfg(test)]
mod tests {
    use super::super::drives::REAL_DRIVES;
    use super::*;

    fn comparison(drive: usize, measured: f64, simulated: f64) -> RowComparison {
        RowComparison {
            drive: &REAL_DRIVES[drive],
            quantity: Quantity::SteadyRate,
            workload: "uniform".to_owned(),
            rows: 1,
            measured,
            simulated,
            row_use: RowUse::Test,
            offered: None,
        }
    }

    #[test]
    fn errors_and_orders_are_those_of_the_values() {
        let all = [comparison(0, 100.0, 110.0), comparison(1, 200.0, 150.0), comparison(2, 300.0, 120.0)];
        let [summary] = summaries(&all)[..] else { panic!() };
        assert_eq!(summary.values, 3);
        assert!((summary.median - 0.25).abs() < 1e-9 && (summary.p95 - 0.6).abs() < 1e-9);
        let [order] = &orders_of_drives(&all)[..] else { panic!() };
        assert_eq!(order.measured, ["solidigm-p5520", "samsung-pm9a3", "sk-hynix-pe8110"]);
        assert_eq!(order.simulated, ["samsung-pm9a3", "solidigm-p5520", "sk-hynix-pe8110"]);
        assert_eq!(order.pairs, (2, 3));
    }
}
