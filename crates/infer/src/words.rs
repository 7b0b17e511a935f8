//! Figures in sentences: durations and ratios with three significant digits, shares in percent.

use flashlab_base::Nanos;

/// A duration, which is written as `839 ns`, `590 us` or `2.1 ms`.
pub(crate) fn duration(nanos: f64) -> Nanos {
    Nanos(nanos.round() as u64)
}

/// A ratio, as in `2.1 x`: three significant digits, without zeros at its end.
pub(crate) fn times(ratio: f64) -> String {
    let digits = match ratio.abs() {
        small if small < 9.995 => 2,
        middle if middle < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{ratio:.digits$}");
    let short =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text.as_str() };
    format!("{short} x")
}

/// A rate, as in `12400`: a number of IOs with three significant digits.
pub(crate) fn rate(of: f64) -> String {
    let unit = 10_f64.powf((of.max(1.0).log10().floor() - 2.0).max(0.0));
    format!("{:.0}", (of / unit).round() * unit)
}

/// A share, as in `12.5 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_short_as_a_person_reads_them() {
        assert_eq!([589_644.4, 839_644.0].map(|nanos| duration(nanos).to_string()), ["590 us", "840 us"]);
        assert_eq!([2.1, 12.34, 100.4, 0.987, 2.0].map(times), ["2.1 x", "12.3 x", "100 x", "0.99 x", "2 x"]);
        assert_eq!(percent(0.1249), "12.5 %");
        assert_eq!([12_389.7, 500.2, 257_024.0, 9.6].map(rate), ["12400", "500", "257000", "10"]);
    }
}
