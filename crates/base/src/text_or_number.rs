//! A quantity in a TOML or JSON file: a text with its unit, or a number without one.

use std::fmt;

use serde::de;

pub(crate) enum TextOrNumber {
    Text(String),
    Number(u64),
}

/// Reads a [`TextOrNumber`]. Its field says what is expected, for the message about anything else.
pub(crate) struct TextOrNumberVisitor(pub(crate) &'static str);

impl de::Visitor<'_> for TextOrNumberVisitor {
    type Value = TextOrNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<TextOrNumber, E> {
        Ok(TextOrNumber::Text(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<TextOrNumber, E> {
        Ok(TextOrNumber::Number(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<TextOrNumber, E> {
        let negative = |_| E::invalid_value(de::Unexpected::Signed(number), &self);
        u64::try_from(number).map(TextOrNumber::Number).map_err(negative)
    }
}
