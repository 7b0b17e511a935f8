//! The median and the quantiles, which are one thing everywhere.

use std::borrow::Borrow;

/// The median, or `None` without values: of an even number of them, the mean of the two in the middle. Values that are not numbers sort last.
pub fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Option<f64> {
    let sorted = sorted(values);
    let count = sorted.len();
    (count > 0).then(|| (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0)
}

/// The smallest of the values that this share of them does not exceed (nearest rank), or `None` without values. So it is always one of
/// them. Values that are not numbers sort last.
pub fn quantile(values: impl IntoIterator<Item = impl Borrow<f64>>, share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).or(sorted.last()).copied()
}

fn sorted(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::{median, quantile};

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median(Vec::<f64>::new()), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn a_quantile_is_the_smallest_value_that_its_share_does_not_exceed() {
        assert_eq!(quantile(Vec::<f64>::new(), 0.5), None);
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(
            [0.0, 0.5, 0.95, 0.951, 1.0].map(|share| quantile(&values, share)),
            [1.0, 100.0, 190.0, 191.0, 200.0].map(Some)
        );
        assert_eq!(quantile([7.0], 0.01), Some(7.0));
    }
}
