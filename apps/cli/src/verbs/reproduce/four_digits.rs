//! Numbers in tables.

/// Four digits that count.
pub fn four_digits(value: Option<f64>) -> String {
    match value {
        None => "none".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) => {
            let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
            let text = format!("{value:.digits$}");
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
    }
}
