//! The simplest twin: the throughput model, T = A + n B for each of the four classes (El Maghraoui et al., section 4).
//!
//! The lines go through the means of the granularity micro-benchmark, because a merge or a collection that comes now and then is
//! in the mean and not in the median. A class whose line would have a negative A gets A = 0.

use flashlab_analysis::findings::Regime;
use flashlab_base::Nanos;
use flashlab_bench::Purpose;
use flashlab_sim::Profile;
use flashlab_sim::profile::{Noise, Throughput, ThroughputLine};

use super::measured::MeasuredRuns;

/// The profile; `None` where a class has fewer than two sizes.
pub(super) fn throughput_profile(measured: &MeasuredRuns, noise: Option<Noise>) -> Option<Profile> {
    // What outliers add to a mean, the noise adds once more.
    let outliers = noise.map_or(1.0, |noise| 1.0 + noise.outlier_share * (noise.outlier_factor - 1.0));
    let line = |pattern: &str| {
        let mut points = means(measured, pattern);
        points.iter_mut().for_each(|(_, mean)| *mean /= outliers);
        line_through(&points)
    };
    let throughput = Throughput {
        sequential_read: line("SR")?,
        random_read: line("RR")?,
        sequential_write: line("SW")?,
        random_write: line("RW")?,
    };
    Some(Profile {
        throughput: Some(throughput),
        noise,
        ..Profile::new("twin", measured.capacity, measured.space.block)
    })
}

/// The mean response times in nanoseconds of the granularity micro-benchmark, by size in bytes.
fn means(measured: &MeasuredRuns, pattern: &str) -> Vec<(f64, f64)> {
    let mut sums: Vec<(f64, f64, f64)> = Vec::new();
    for run in &measured.runs {
        let Purpose::Point { plan, experiment, regime, value, .. } = &run.purpose else { continue };
        if plan != "granularity" || experiment != pattern || *regime == Some(Regime::Burst) {
            continue;
        }
        let responses = run.responses.iter().flatten();
        let (sum, count) = responses.fold((0.0, 0.0), |(sum, count), &ns| (sum + ns as f64, count + 1.0));
        match sums.iter_mut().find(|(size, ..)| size == value) {
            Some(known) => (known.1, known.2) = (known.1 + sum, known.2 + count),
            None => sums.push((*value, sum, count)),
        }
    }
    sums.into_iter()
        .filter(|(_, _, count)| *count > 0.0)
        .map(|(size, sum, count)| (size, sum / count))
        .collect()
}

/// The line with the smallest squares of relative deviations whose A and B are not negative.
fn line_through(points: &[(f64, f64)]) -> Option<ThroughputLine> {
    if points.len() < 2 {
        return None;
    }
    let (mut w, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(size, mean) in points {
        let weight = mean.max(1.0).powi(-2);
        w += weight;
        x += weight * size;
        y += weight * mean;
        xx += weight * size * size;
        xy += weight * size * mean;
    }
    let determinant = w * xx - x * x;
    let b = if determinant > 0.0 { (w * xy - x * y) / determinant } else { 0.0 };
    let a = (y - b * x) / w;
    let (a, b) = match (a < 0.0, b < 0.0) {
        (true, _) => (0.0, xy / xx),
        (_, true) => (y / w, 0.0),
        _ => (a, b),
    };
    Some(ThroughputLine { a: Nanos(a.round() as u64), b_us_per_kb: b * 1.024 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_a_negative_fixed_time_is_none() {
        // T = 100 us + 2 us for each KiB.
        let points: Vec<(f64, f64)> =
            [1.0, 4.0, 64.0].map(|kib| (kib * 1024.0, 1e3 * (100.0 + 2.0 * kib))).to_vec();
        let line = line_through(&points).unwrap();
        assert_eq!(line.a, Nanos::from_micros(100));
        assert!((line.b_us_per_kb - 2.0).abs() < 1e-9);
        let steep = line_through(&[(1024.0, 1.0), (2048.0, 1e6)]).unwrap();
        assert_eq!(steep.a, Nanos::ZERO);
        assert_eq!(line_through(&points[..1]), None);
    }
}
