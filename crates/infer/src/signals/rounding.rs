//! Of values that explain the measurement equally well, the roundest.

/// The roundest of the figures near this one that are as good: the multiple of the largest power of two.
pub fn roundest(figure: f64, is_as_good: impl Fn(f64) -> bool) -> f64 {
    let round = |zeros: i32| {
        let grain = 2f64.powi(zeros);
        Some((figure / grain).round() * grain).filter(|&round| round > 0.0 && is_as_good(round))
    };
    (9..40).rev().find_map(round).unwrap_or(figure)
}
