//! Formats figures for people: three significant digits and a unit.
//!
//! Invariant: an undefined figure (NaN, infinite) is shown as [`UNKNOWN`], never as a number.

use flashlab_base::Bytes;

/// The text for a missing figure.
pub const UNKNOWN: &str = "–";

const TIMES: [(f64, &str); 5] = [(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s"), (60e9, "min")];
const RATES: [(f64, &str); 4] = [(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")];

/// A response time or another duration, given in nanoseconds.
pub fn time(nanoseconds: f64) -> String {
    time_as(nanoseconds, digits)
}

/// A throughput, given in bytes per second, with units of powers of 1000.
pub fn rate(bytes_per_second: f64) -> String {
    rate_as(bytes_per_second, digits)
}

/// A size, exact to the byte, in the largest unit that divides it: `7936 KiB`.
pub fn exactly(size: Bytes) -> String {
    let written = size.exact();
    let digits = written.chars().take_while(char::is_ascii_digit).count();
    format!("{} {}", &written[..digits], &written[digits..])
}

/// As [`time`], with its digits from `digits` or [`fine_digits`].
pub fn time_as(nanoseconds: f64, digits: fn(f64) -> String) -> String {
    scaled(nanoseconds, &TIMES, digits)
}

/// As [`rate`], with its digits from `digits` or [`fine_digits`].
pub fn rate_as(bytes_per_second: f64, digits: fn(f64) -> String) -> String {
    scaled(bytes_per_second, &RATES, digits)
}

/// As [`ratio`], with its digits from `digits` or [`fine_digits`].
pub fn ratio_as(value: f64, digits: fn(f64) -> String) -> String {
    if value.is_finite() { format!("{}×", digits(value)) } else { UNKNOWN.to_owned() }
}

/// `value` with five significant digits, and all digits before the point, for figures that are nearly equal: `71.263`.
pub fn fine_digits(value: f64) -> String {
    const DIGITS: i32 = 5;
    let before_the_point = value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32 + 1;
    format!("{value:.*}", (DIGITS - before_the_point).clamp(0, DIGITS) as usize)
}

/// How many times as much: `1.27×`.
pub fn ratio(value: f64) -> String {
    ratio_as(value, digits)
}

/// A share, given from 0 to 1.
pub fn percent(part: f64) -> String {
    if part.is_finite() { format!("{} %", digits(part * 100.0)) } else { UNKNOWN.to_owned() }
}

/// A number with a thin space between groups of three digits.
pub fn grouped(number: u64) -> String {
    let plain = number.to_string();
    let mut shown = String::with_capacity(plain.len() * 2);
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

/// A rounded number, with two significant digits: `30 000`, `15 million`.
pub fn about(count: u64) -> String {
    const MILLION: u64 = 1_000_000;
    let size = 10u64.pow(count.max(10).ilog10() - 1);
    let rounded = count.div_ceil(size) * size;
    if rounded < MILLION { grouped(rounded) } else { format!("{} million", digits_of_million(rounded)) }
}

/// Millions, with one digit after the point if it is not 0.
fn digits_of_million(count: u64) -> String {
    let millions = count as f64 / 1e6;
    if millions >= 10.0 || millions.fract() == 0.0 {
        grouped(millions as u64)
    } else {
        format!("{millions:.1}")
    }
}

/// `value` with three significant digits, and all digits before the point; small values with two.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        UNKNOWN.to_owned()
    } else if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.0995 || size == 0.0 {
        format!("{value:.2}")
    } else if size >= 1e-4 {
        let leading_zeros = -size.log10().floor() as usize;
        format!("{value:.*}", leading_zeros + 1)
    } else {
        format!("{value:.1e}")
    }
}

/// A clause as a sentence.
pub fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let mut text: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

fn scaled(value: f64, units: &[(f64, &str)], digits: fn(f64) -> String) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    // 999.6 us would be shown as 1000 us: the next unit begins where rounding reaches it.
    let fits = |&&(size, _): &&(f64, &str)| value.abs() >= size * 0.9995;
    let &(size, unit) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    format!("{} {unit}", digits(value / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_figures_have_five_digits() {
        assert_eq!(
            [71_263.4, 999_000.0, 7.5].map(|value| time_as(value, fine_digits)),
            ["71.263 us", "999.00 us", "7.5000 ns"]
        );
        assert_eq!([123_456.0, 1.0, 0.0].map(fine_digits), ["123456", "1.0000", "0.00000"]);
    }

    #[test]
    fn figures_have_three_digits_and_a_fitting_unit() {
        let shown = [0.0, 54.0, 999.6, 115_000.0, 9_040_000.0, 2.5e9, 3.0e11].map(time);
        assert_eq!(shown, ["0.00 ns", "54.0 ns", "1.00 us", "115 us", "9.04 ms", "2.50 s", "5.00 min"]);
        assert_eq!([3.4e6, 512.0].map(rate), ["3.40 MB/s", "512 B/s"]);
        assert_eq!([1.0, 22.64, 271.0, 0.6].map(ratio), ["1.00×", "22.6×", "271×", "0.60×"]);
        assert_eq!([0.051, 0.000_4, 3e-7].map(percent), ["5.10 %", "0.040 %", "3.0e-5 %"]);
    }

    #[test]
    fn sizes_can_be_exact() {
        assert_eq!(
            [512, 7936 << 10, 1 << 20].map(|size| exactly(Bytes(size))),
            ["512 B", "7936 KiB", "1 MiB"]
        );
    }

    #[test]
    fn what_is_no_number_is_not_shown_as_one() {
        for value in [f64::NAN, f64::INFINITY] {
            assert_eq!([time(value), rate(value), ratio(value), percent(value)], [UNKNOWN; 4]);
        }
    }

    #[test]
    fn counts_are_rounded_up_to_two_digits() {
        let shown = [7, 123, 29_500, 999_001, 1_430_000, 14_619_836].map(about);
        assert_eq!(shown, ["7", "130", "30\u{202f}000", "1 million", "1.5 million", "15 million"]);
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(
            [7, 999, 1000, 1_234_567].map(grouped),
            ["7", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
    }
}
