//! Words and dates that several pages use.

use flashlab_analysis::findings::HintVerdict;
use flashlab_base::Mode;

/// An RFC 3339 instant in UTC, formatted for people; any other text is returned unchanged.
pub fn date(rfc3339: &str) -> String {
    match (rfc3339.get(..10), rfc3339.get(10..11), rfc3339.get(11..16), rfc3339.ends_with('Z')) {
        (Some(day), Some("T"), Some(minute), true) => format!("{day} {minute} UTC"),
        _ => rfc3339.to_owned(),
    }
}

/// A verdict's class in the style sheet, its sign, and its words.
pub fn verdict_words(verdict: HintVerdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        HintVerdict::Holds => ("holds", "✓", "Holds"),
        HintVerdict::DoesNotHold => ("fails", "✗", "Does not hold"),
        HintVerdict::NotSupportedByThisMeasurement => ("open", "?", "Not decided"),
    }
}

/// The words with a capital first letter.
pub fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// The word for IOs of a mode.
pub fn mode_words(mode: Mode) -> &'static str {
    match mode {
        Mode::Read => "reads",
        Mode::Write => "writes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_shown_to_the_minute_and_odd_ones_as_they_are() {
        assert_eq!(date("2025-11-21T04:08:59.123Z"), "2025-11-21 04:08 UTC");
        for odd in ["", "yesterday", "2025-11-21T04:08:59+01:00", "äöüäöüäöü"] {
            assert_eq!(date(odd), odd);
        }
    }
}
