//! The median, which is one thing everywhere: of an even number of values, the mean of the two in the middle.

use std::borrow::Borrow;

/// The median, or `None` without values. Values that are not numbers sort last.
pub fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    (count > 0).then(|| (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn it_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        assert_eq!(median(Vec::<f64>::new()), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }
}
