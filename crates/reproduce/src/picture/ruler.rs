//! Maps values to pixels, and places the marks of an axis.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::Scale;

/// The range of an axis on its scale.
#[derive(Clone, Debug)]
pub(super) struct Ruler {
    scale: Scale,
    /// The first and the last value of the axis.
    range: Range<f64>,
}

impl Ruler {
    /// A ruler for all of these values, with a margin. A linear one begins at zero. Values that a logarithmic
    /// scale cannot show are ignored.
    pub(super) fn over(scale: Scale, values: impl Iterator<Item = f64>) -> Ruler {
        let shown = values.filter(|value| value.is_finite() && (!is_logarithmic(scale) || *value > 0.0));
        let (least, most) =
            shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| (least.min(v), most.max(v)));
        let (least, most) = if least > most { (1.0, 2.0) } else { (least, most) };
        let range = match scale {
            Scale::Linear => least.min(0.0)..if most > 0.0 { 1.05 * most } else { 1.0 },
            Scale::Steps => least - 0.05 * (most - least) - 1e-9..most + 0.05 * (most - least) + 1e-9,
            Scale::Binary | Scale::Decimal => {
                let room = (most / least).powf(0.05).max(1.02);
                least / room..most * room
            }
        };
        Ruler { scale, range }
    }

    /// A value's position, from 0 at the begin to 1 at the end.
    fn place(&self, value: f64) -> f64 {
        let on_scale = |value: f64| {
            if is_logarithmic(self.scale) { value.max(self.range.start).ln() } else { value }
        };
        (on_scale(value) - on_scale(self.range.start))
            / (on_scale(self.range.end) - on_scale(self.range.start))
    }

    /// Powers of a base, at most `most`.
    fn powers(&self, base: f64, most: usize) -> Vec<f64> {
        let first = (self.range.start.ln() / base.ln()).ceil() as i32;
        let last = (self.range.end.ln() / base.ln()).floor() as i32;
        let step = ((last - first) / most.max(1) as i32 + 1).max(1);
        (first..=last).step_by(step as usize).map(|power| base.powi(power)).collect()
    }

    /// Multiples of 1, 2 or 5 times a power of ten, at most `most`.
    fn multiples(&self, most: usize) -> Vec<f64> {
        let rough = (self.range.end - self.range.start) / most.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.range.start / step).ceil() as i64;
        let last = (self.range.end / step).floor() as i64;
        (first..=last).map(|multiple| multiple as f64 * step).collect()
    }
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        begin + (f64::from(end - begin) * self.place(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let most = hint.bold_points();
        match self.scale {
            Scale::Linear | Scale::Steps => self.multiples(most),
            Scale::Binary => self.powers(2.0, most),
            Scale::Decimal => {
                let powers = self.powers(10.0, most);
                if powers.len() > 3 {
                    return powers;
                }
                // A few powers of ten alone are not enough marks.
                let tens =
                    (self.range.start.log10().floor() as i32)..=(self.range.end.log10().floor() as i32);
                let marks = tens.flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(power)));
                let marks: Vec<f64> = marks.filter(|mark| self.range.contains(mark)).collect();
                if marks.len() < 3 { self.multiples(most) } else { marks }
            }
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, value: &f64) -> String {
        let size = value.abs();
        if size == 0.0 {
            return "0".to_owned();
        }
        for (least, letter) in [(1e9, "G"), (1e6, "M"), (1e4, "k")] {
            if size >= least && self.scale != Scale::Binary {
                return format!("{}{letter}", plain(value / if letter == "k" { 1e3 } else { least }));
            }
        }
        plain(*value)
    }
}

fn is_logarithmic(scale: Scale) -> bool {
    matches!(scale, Scale::Binary | Scale::Decimal)
}

/// A number without trailing zeros.
fn plain(value: f64) -> String {
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::BoldPoints;

    fn marks(scale: Scale, values: &[f64]) -> Vec<String> {
        let ruler = Ruler::over(scale, values.iter().copied());
        ruler.key_points(BoldPoints(8)).iter().map(|mark| ruler.format_ext(mark)).collect()
    }

    #[test]
    fn an_axis_has_round_marks() {
        assert_eq!(marks(Scale::Linear, &[3.0, 47.0]), ["0", "10", "20", "30", "40"]);
        assert_eq!(marks(Scale::Binary, &[0.5, 8.0]), ["0.5", "1", "2", "4", "8"]);
        assert_eq!(marks(Scale::Decimal, &[0.2, 5.0]), ["0.2", "0.5", "1", "2", "5"]);
        assert_eq!(
            marks(Scale::Decimal, &[0.01, 40_000.0]),
            ["0.01", "0.1", "1", "10", "100", "1000", "10k"]
        );
    }

    #[test]
    fn what_cannot_be_shown_moves_no_axis() {
        assert_eq!(marks(Scale::Binary, &[0.0, f64::NAN, 2.0, 4.0]), ["2", "4"]);
        let nothing = Ruler::over(Scale::Decimal, std::iter::empty());
        assert_eq!(nothing.map(&1e9, (0, 100)).signum(), 1);
    }

    #[test]
    fn a_logarithmic_ruler_gives_each_power_the_same_room() {
        let ruler = Ruler { scale: Scale::Decimal, range: 1.0..1000.0 };
        assert_eq!([1.0, 10.0, 100.0, 1000.0].map(|value| ruler.map(&value, (0, 300))), [0, 100, 200, 300]);
        assert_eq!(ruler.map(&0.0, (0, 300)), 0);
    }
}
