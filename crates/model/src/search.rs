//! The minimum of a smooth function of a few numbers, without derivatives.
//!
//! Method: the pattern search of Hooke and Jeeves (Journal of the ACM 8(2), 1961): each number is moved by the step in both
//! directions and kept where the function falls; a round without a fall halves the step.

/// Halvings of the step: from 1 to less than a millionth.
const HALVINGS: usize = 22;
/// Rounds with one step at the most: a function without a minimum ends here.
const ROUNDS_MOST: usize = 200;

/// Where `cost` is least, near `start`; the first step is 1.
pub(crate) fn minimum<const K: usize>(start: [f64; K], cost: impl Fn(&[f64; K]) -> f64) -> [f64; K] {
    let (mut best, mut least, mut step) = (start, cost(&start), 1.0);
    for _ in 0..HALVINGS {
        for _ in 0..ROUNDS_MOST {
            let before = least;
            for k in 0..K {
                for direction in [step, -step] {
                    let mut moved = best;
                    moved[k] += direction;
                    let at = cost(&moved);
                    if at < least {
                        (best, least) = (moved, at);
                        break;
                    }
                }
            }
            if least >= before {
                break;
            }
        }
        step /= 2.0;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valley_is_followed_to_its_lowest_point() {
        let found = minimum([0.0, 0.0], |&[x, y]| (x - 1.5).powi(2) + 3.0 * (y + 0.25 + 0.5 * x).powi(2));
        assert!((found[0] - 1.5).abs() < 1e-3 && (found[1] + 1.0).abs() < 1e-3, "{found:?}");
        // No minimum: it ends all the same.
        assert!(minimum([0.0], |&[x]| -x)[0] > 100.0);
        assert_eq!(minimum([2.0], |_| f64::NAN), [2.0]);
    }
}
